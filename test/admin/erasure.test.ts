/** `mailroom user remove --erase` removes all data of the person, also from the disk, and no data of other people. */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { putEndpoint } from "../../src/events/endpoints.ts";
import { fileMessage } from "../../src/mailbox/filing/filing.ts";
import { prepareMessage } from "../../src/mailbox/filing/prepare.ts";
import { traceArrival } from "../../src/outbound/trace-log.ts";
import { claimBlobs } from "../../src/store/claim.ts";
import type { Store } from "../../src/store/store.ts";
import { openBackupRig } from "../harness/data/backup-rig.ts";
import { letter } from "../harness/mail/mail.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { coreOver } from "../harness/servers/core.ts";
import { openTerminal, SETUP } from "../harness/servers/terminal.ts";

const HOUR_MS = 3_600_000;

/** A workspace with Ada, who stays, and Bob, each with mail of which one message went to both. */
async function rig() {
  const { within, ...terminal } = await openBackupRig();
  await terminal.ask("user", "add", "bob@acme.test", "--name", "Bob", "--role", "member");
  const key = await terminal.ask<{ id: string }>(
    "key",
    "create",
    "--user",
    "bob@acme.test",
    "--name",
    "K",
    "--scopes",
    "read",
  );
  const later = terminal.openWith({ now: () => Date.now() + 2 * HOUR_MS });

  const mailboxIdOf = ({ db }: Store, address: string) =>
    (db.$client.query("SELECT id FROM mailboxes WHERE address = ?").get(address) as { id: string }).id;

  async function file(store: Store, address: string, mail: string): Promise<void> {
    const runtime = fakeRuntime();
    const core = coreOver(store, runtime);
    const message = await prepareMessage(new TextEncoder().encode(mail.replaceAll(/\r?\n/g, "\r\n")), store.blobs);
    const mailboxId = mailboxIdOf(store, address);
    await store.enqueue((tx) => {
      const { messageId } = fileMessage(core, tx, { mailboxId, receivedOn: address, message, now: runtime.now() });
      const arrival = { key: message.messageId ?? messageId, at: runtime.now(), trace: "t" };
      const who = { ip: "192.0.2.1", helo: "mx", tls: true, reversePath: "x@remote.example", recipients: 1 };
      traceArrival(tx, "received", arrival, { ...who, size: 1, auth: undefined, outcome: "filed" });
    });
  }

  const attached = (text: string) => [
    "Content-Type: text/x-note",
    `Content-Disposition: attachment; filename="${text}.txt"`,
  ];
  await within(async (store) => {
    const shared = letter({ subject: "Shared", text: "sharedword", messageId: "<shared@remote.example>" });
    for (const address of ["ada@acme.test", "bob@acme.test"]) await file(store, address, shared);
    await file(
      store,
      "ada@acme.test",
      letter({ subject: "Adasubject", text: "adabody", headers: attached("adafile") }),
    );
    for (let i = 0; i < 30; i++) {
      const mail = { subject: "Bobsubject", text: `bobbody ${i}`, messageId: `<bobs-${i}@remote.example>` };
      await file(
        store,
        "bob@acme.test",
        letter({ ...mail, from: "bobsfriend@remote.example", headers: attached("bobfile") }),
      );
    }
    const bob = mailboxIdOf(store, "bob@acme.test");
    store.db.$client.run(
      `INSERT INTO outbound_messages (id, workspace_id, mailbox_id, mailbox, thread_id, message_id, subject, domain,
         return_path, accepted_at, recipients, outside_recipients, mailbox_total, workspace_total)
       VALUES ('msg_out', 'w', ?, 'bob@acme.test', 't', '<bobsent@acme.test>', 'Bobsent', 'acme.test', 'r@acme.test', 0, 1, 1, 1, 1)`,
      [bob],
    );
    store.db.$client.run(
      `INSERT INTO queue_entries (id, message_seq, recipient, field, domain, state, due_at)
       VALUES ('que_1', last_insert_rowid(), 'bobswife@remote.example', 'to', 'remote.example', 'waiting', 0)`,
    );
    store.db.$client.run("INSERT INTO queue_domains (domain, due_at) VALUES ('remote.example', 0)");
    const { workspace_id: workspaceId } = store.db.$client.query("SELECT workspace_id FROM mailboxes").get() as {
      workspace_id: string;
    };
    const bobs = store.db.$client.query("SELECT id FROM users WHERE email = 'bob@acme.test'").get() as { id: string };
    store.transact((tx) => {
      const { $client: sqlite } = tx;
      // Programs that Bob let in, of which Ada let one in, too.
      const ada = sqlite.query("SELECT id FROM users WHERE email = 'ada@acme.test'").get() as { id: string };
      for (const [client, people] of [
        ["bobsprogram", [bobs.id]],
        ["bothprogram", [bobs.id, ada.id]],
      ] as const) {
        sqlite.run(
          "INSERT INTO oauth_clients (id, name, redirect_uris, created_at, used_at) VALUES (?, ?, '[]', 0, 0)",
          [client, client],
        );
        for (const person of people) {
          const id = `key_${client}${person}`;
          sqlite.run(
            "INSERT INTO api_keys (id, user_id, name, hash, hint, scopes, created_at) VALUES (?, ?, ?, ?, '', '[]', 0)",
            [id, person, client, id],
          );
          const grant = [id, client, client, "h.example", "r", 0, id, null, "", 0, 0];
          sqlite.run("INSERT INTO oauth_grants VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", grant);
          sqlite.run(`INSERT INTO oauth_tokens VALUES (NULL, ?, ?, 'access', 0, NULL)`, [id, id]);
        }
      }
    });
    store.transact((tx) => {
      const url = "https://hook.example/";
      putEndpoint(tx, { id: "whk_1", workspaceId, url, events: ["message.inbound"], secret: "whsec_", now: 0 });
      tx.$client.run(
        `INSERT INTO webhook_deliveries (id, endpoint_seq, event_seq, event_id, event, state, created_at)
         SELECT 'whd_' || seq, 1, seq, id, event, 'delivered', 0 FROM events`,
      );
    });
  });
  return { ...terminal, within, later, key };
}

/** Returns those of the words that any file of the data folder contains. */
function leftOn(data: string, words: readonly string[]): string[] {
  const paths = readdirSync(data, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  const files = paths.map(({ parentPath, name }) =>
    readFileSync(join(parentPath, name)).toString("latin1").toLowerCase(),
  );
  return words.filter((word) => files.some((text) => text.includes(word)));
}

const TABLES = ["messages", "events", "webhook_deliveries", "trace_steps", "queue_entries", "queue_domains"];
const HIS = [
  "bobsubject",
  "bobbody",
  "bobfile",
  "bobsent",
  "bobswife",
  "bobsfriend",
  "<bobs-7@",
  "bob@acme.test",
  "bobsprogram",
];
const NOT_HIS = ["adasubject", "adabody", "adafile", "sharedword", "bothprogram"];

test("everything of the person is removed, from the disk too; everything of the others stays", async () => {
  const { data, ask, say, later, key, within } = await rig();
  expect(leftOn(data, [...HIS, ...NOT_HIS])).toEqual([...HIS, ...NOT_HIS]);
  const before = await ask<{ address: string }[]>("mailbox", "list");
  const summary = await later.ask("user", "remove", "bob@acme.test", "--erase", "--compact", "--yes");
  expect(summary).toMatchObject({
    address: "bob@acme.test",
    erased: true,
    mailboxes: ["bob@acme.test"],
    messages: 31,
    bytes: expect.any(Number),
    sent: 1,
    givenUp: 1,
    events: 31,
    files: 30,
  });
  expect(leftOn(data, [...HIS, ...NOT_HIS])).toEqual(NOT_HIS);
  expect(await ask<object>("mailbox", "list")).toEqual(before.filter(({ address }) => address !== "bob@acme.test"));
  expect(await ask("key", "list")).not.toContainEqual(expect.objectContaining({ id: key.id }));
  const counts = await within(({ db }) =>
    [...TABLES, "oauth_clients", "oauth_grants", "oauth_tokens"].map(
      (table) => (db.$client.query(`SELECT count(*) AS n FROM ${table}`).get() as { n: number }).n,
    ),
  );
  // Ada's two messages, their events and deliveries, and the steps of their arrival.
  expect(counts).toEqual([2, 2, 2, 3, 0, 0, 1, 1, 1]);
  expect(await say("trace", "<bobs-7@remote.example>")).toMatchObject({ exitCode: 1 });
  expect(await ask("trace", "<shared@remote.example>")).toMatchObject({ steps: expect.any(Array) });
  expect(await within(({ db }) => db.$client.query("PRAGMA integrity_check").get())).toEqual({ integrity_check: "ok" });
});

test("without --yes the command only lists what it would erase; it refuses the last owner", async () => {
  const { ask, say } = await rig();
  const said = await say("user", "remove", "bob@acme.test", "--erase", "--json");
  expect(said).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("give --yes as well") });
  expect(JSON.parse(said.stdout)).toMatchObject({ erased: false, mailboxes: ["bob@acme.test"], messages: 31 });
  expect(await ask("user", "list")).toHaveLength(2);
  const refused = await say("user", "remove", "ada@acme.test", "--erase", "--yes");
  expect(refused).toMatchObject({ exitCode: 1, stderr: expect.stringContaining("last owner") });
  expect(await ask("mailbox", "list")).toHaveLength(2);
});

test("files stay during a backup, and the daily sweep removes them", async () => {
  const { data, later } = await rig();
  const release = claimBlobs(data);
  const summary = await later.ask<{ erased: boolean; files?: number }>(
    "user",
    "remove",
    "bob@acme.test",
    "--erase",
    "--yes",
  );
  release?.();
  expect([summary.erased, summary.files]).toEqual([true, undefined]);
});

test("a person without a mailbox is erased", async () => {
  const terminal = openTerminal();
  await terminal.ask(...SETUP);
  await terminal.ask("user", "add", "eve@elsewhere.example", "--name", "Eve", "--role", "admin", "--no-mailbox");
  expect(await terminal.ask("user", "remove", "eve@elsewhere.example", "--erase", "--yes")).toMatchObject({
    erased: true,
    mailboxes: [],
    messages: 0,
    events: 0,
  });
  expect(await terminal.ask("user", "list")).toHaveLength(1);
});

test("an expired mailbox is erased with its person, before the day of its removal", async () => {
  const { data, later, within } = await rig();
  await within(
    ({ db }) => void db.$client.query("UPDATE mailboxes SET expires_at = 1 WHERE address LIKE 'bob@%'").run(),
  );
  const summary = await later.ask("user", "remove", "bob@acme.test", "--erase", "--compact", "--yes");
  expect(summary).toMatchObject({ mailboxes: ["bob@acme.test"], messages: 31, events: 31 });
  expect(leftOn(data, [...HIS, ...NOT_HIS])).toEqual(NOT_HIS);
});
