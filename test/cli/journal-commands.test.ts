/** `mailroom key journal` and `mailroom key undo` (rules: Journal, Undo). */
import { describe, expect, test } from "bun:test";
import { readPastTimeOption } from "../../src/cli/journal-commands.ts";
import { addJournalEntry } from "../../src/journal/entries.ts";
import { updateThread } from "../../src/mailbox/changing/threads.ts";
import { fileMessage } from "../../src/mailbox/filing/filing.ts";
import { prepareMessage } from "../../src/mailbox/filing/prepare.ts";
import { apiKeys, mailboxes, SCOPES, users } from "../../src/store/schema.ts";
import { openBackupRig } from "../harness/data/backup-rig.ts";
import { letter } from "../harness/mail/mail.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";
import { coreOver } from "../harness/servers/core.ts";

const HOUR_MS = 3_600_000;

/** Ada's key archived and labelled one conversation at START, trashed another and sent a message an hour later. */
async function rig() {
  const { within, openWith } = await openBackupRig();
  const made = await within(async (store) => {
    const runtime = fakeRuntime();
    const core = coreOver(store, runtime);
    const [box] = store.db.select().from(mailboxes).all();
    const [key] = store.db.select().from(apiKeys).all();
    const [ada] = store.db.select().from(users).all();
    if (!box || !key || !ada) throw new Error("setup made no key");
    const origin = { face: "mcp", operation: "updateThread", client: "Agent", source: "192.0.2.1" } as const;
    const agent = { ...ada, userId: ada.id, scopes: new Set(SCOPES), keyId: key.id, origin };
    const ids: string[] = [];
    for (const subject of ["One", "Two"]) {
      const message = await prepareMessage(new TextEncoder().encode(letter({ subject })), store.blobs);
      const filing = { mailboxId: box.id, receivedOn: box.address, message, now: runtime.now() };
      ids.push(store.transact((tx) => fileMessage(core, tx, filing)).threadId);
    }
    updateThread(core, agent, ids[0] ?? "", { folder: "archive", addLabels: ["News"] });
    runtime.setBy(HOUR_MS);
    updateThread(core, agent, ids[1] ?? "", { folder: "trash" });
    store.transact((tx) => {
      const sending = { ...agent, origin: { ...origin, operation: "sendEmail" } };
      addJournalEntry(tx, sending, { ids: ["msg_1", "thr_1"], recipients: 2, sent: 2 }, runtime.now());
      addJournalEntry(tx, sending, { ids: [], outcome: "forbidden" }, runtime.now());
    });
    return { key: key.id, ids };
  });
  return { ...made, ...openWith({ now: () => START + 2 * HOUR_MS }) };
}

test("the journal lists what a key did, newest first", async () => {
  const { key, ids, ask, say } = await rig();
  const entries = await ask<Record<string, unknown>[]>("key", "journal", key);
  expect(
    entries.map(({ kind, operation, outcome, changes, recipients }) => [kind, operation, outcome, changes, recipients]),
  ).toEqual([
    ["refused", "sendEmail", "forbidden", 0, 0],
    ["sent", "sendEmail", "ok", 0, 2],
    ["changed", "updateThread", "ok", 1, 0],
    ["changed", "updateThread", "ok", 1, 0],
  ]);
  expect(entries[3]).toMatchObject({
    id: expect.stringMatching(/^\d+$/),
    at: new Date(START).toISOString(),
    face: "mcp",
    client: "Agent",
    source: "192.0.2.1",
    ids: [ids[0]],
  });
  expect(await ask<object[]>("key", "journal", key, "--since", "90m")).toHaveLength(3);
  const { stdout } = await say("key", "journal", key, "--since", "3d");
  expect(stdout.split("\n")[0]).toMatch(/^at +kind +operation +outcome +face/);
});

test("undo says first what it would do, then does it, and again does nothing", async () => {
  const { key, ids, ask, say } = await rig();
  const dry = await say("key", "undo", key, "--since", "3h", "--dry-run");
  expect(dry).toMatchObject({ exitCode: 0, stderr: "" });
  expect(dry.stdout).toStartWith("Would take back 4 changes of 2 conversations\n");
  expect(dry.stdout).toContain(`  ${ids[0]}  label "news"\n`);
  expect(dry.stdout).toContain("Sent, and not to be taken back: 1 message, 2 recipients\n");
  expect(await ask("key", "undo", key, "--since", "90m")).toMatchObject({
    id: key,
    since: new Date(START + HOUR_MS / 2).toISOString(),
    dryRun: false,
    reachesBack: true,
    threads: 1,
    changes: 1,
    fields: [{ threadId: ids[1], field: "folder" }],
    left: [],
    sent: {
      messages: 1,
      recipients: 2,
      latest: [{ at: new Date(START + HOUR_MS).toISOString(), ids: ["msg_1", "thr_1"] }],
    },
  });
  expect(await ask("key", "undo", key, "--since", "2026-01-05T09:00:00Z")).toMatchObject({ threads: 1, changes: 3 });
  expect(await ask("key", "undo", key, "--since", "3h")).toMatchObject({ threads: 0, changes: 0, left: [] });
  const [latest] = await ask<Record<string, unknown>[]>("key", "journal", key);
  expect(latest).toMatchObject({ operation: "undo", face: "cli", userId: null, ids: [ids[0]] });
  const old = await say("key", "undo", key, "--since", "52w");
  expect(old.stdout).toContain("The journal does not reach back so far");
});

test("an unknown key, no time, and a time to come", async () => {
  const { key, say } = await rig();
  expect(await say("key", "journal", "key_unknown")).toMatchObject({ exitCode: 1, stdout: "" });
  expect((await say("key", "undo", key)).stderr).toContain("--since is missing");
  expect(await say("key", "undo", key, "--since", "2027-01-01T00:00:00Z")).toMatchObject({ exitCode: 0 });
});

describe("--since", () => {
  test.each([
    ["30m", START - 30 * 60_000],
    ["2h", START - 2 * HOUR_MS],
    ["3d", START - 72 * HOUR_MS],
    ["1w", START - 168 * HOUR_MS],
    ["2026-01-05T08:00:00Z", START - HOUR_MS],
    ["2026-01-05T09:00:00+02:00", START - 2 * HOUR_MS],
  ])("%s", (text, at) => {
    expect(readPastTimeOption(text, START)).toBe(at);
  });

  test.each(["", "2", "h", "-2h", "2 h", "2y", "1234567h", "yesterday", "2026-02-30T08:00:00Z"])("not %p", (text) => {
    expect(() => readPastTimeOption(text, START)).toThrow("--since is");
  });
});
