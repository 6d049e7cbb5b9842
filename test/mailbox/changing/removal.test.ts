/**
 * Deletion for good: retention.trashDays deletes what has been in trash or spam that long, and nothing else; the sweep
 * removes unnamed files, never one that a message or the queue names, and never a recent one.
 */
import { expect, test } from "bun:test";
import { existsSync, readdirSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { deleteDiscarded, sweepBlobs } from "../../../src/mailbox/changing/removal.ts";
import { updateThread } from "../../../src/mailbox/changing/threads.ts";
import { readMailboxUsage } from "../../../src/mailbox/state/mailboxes.ts";
import { claimBlobs } from "../../../src/store/claim.ts";
import { attachments, mailboxes, messages, outboundContents } from "../../../src/store/schema.ts";
import { START } from "../../harness/runtime.ts";
import { boot } from "../../harness/servers/boot.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

function office(days: string) {
  const alice = createAlice();
  const { core, store, options, receive } = alice;
  const job = deleteDiscarded(core);
  store.transact((tx) => options.set(tx, "retention.trashDays", days));
  return {
    ...alice,
    /** Runs the job that many ms after the start. */
    at: async (ms: number) => ((await job.runDue(START + ms)) as number) - START - ms,
    mail: async (subject: string, folder?: "trash" | "spam" | "archive") => {
      // Each has its own sender, because moving mail to spam trains the mailbox on its sender.
      const { threadId } = await receive({ subject, from: `${subject.replaceAll(" ", "-")}@remote.example` });
      if (folder) updateThread(core, alice.alice, threadId, { folder });
      return threadId;
    },
    move: (id: string, folder: "inbox" | "trash" | "spam") => updateThread(core, alice.alice, id, { folder }),
    subjects: () =>
      store.db
        .select({ subject: messages.subject })
        .from(messages)
        .orderBy(messages.seq)
        .all()
        .map(({ subject }) => subject),
  };
}

test("mail is deleted after retention.trashDays in trash or spam, at any age of the mail", async () => {
  const { at, mail, subjects, core, box } = office("2");
  for (const folder of ["trash", "spam", "archive", undefined] as const) await mail(String(folder), folder);
  expect(await at(0)).toBe(HOUR_MS);
  await at(2 * DAY_MS - 1);
  expect(subjects()).toEqual(["trash", "spam", "archive", "undefined"]);
  await at(2 * DAY_MS);
  expect(subjects()).toEqual(["archive", "undefined"]);
  expect(readMailboxUsage(core, box).bytes).toBeGreaterThan(0);
});

test("retention is off by default; once set, earlier time counts", async () => {
  const { at, mail, subjects, store, options } = office("off");
  await mail("old", "trash");
  await at(0);
  await at(365 * DAY_MS);
  expect(subjects()).toEqual(["old"]);
  store.transact((tx) => options.set(tx, "retention.trashDays", "30"));
  await at(366 * DAY_MS);
  expect(subjects()).toEqual([]);
});

test("a conversation moved out of trash stays, and its time starts over if it is moved back", async () => {
  const { at, mail, move, subjects } = office("2");
  const [kept, moved] = [await mail("kept", "trash"), await mail("moved", "trash")];
  await at(0);
  await at(DAY_MS);
  move(kept, "inbox");
  move(moved, "spam");
  await at(DAY_MS + HOUR_MS);
  await at(2 * DAY_MS);
  expect(subjects()).toEqual(["kept", "moved"]);
  await at(3 * DAY_MS + HOUR_MS);
  expect(subjects()).toEqual(["kept"]);
  move(kept, "trash");
  await at(4 * DAY_MS);
  await at(6 * DAY_MS - 1);
  expect(subjects()).toEqual(["kept"]);
  await at(6 * DAY_MS);
  expect(subjects()).toEqual([]);
});

test("retention deletes several portions, by parts of a day; the next sweep removes the files", async () => {
  const { core, at, mail, subjects, store, receive, move } = office("0.001");
  for (let i = 0; i < 45; i++) await mail(`mail ${i}`, "trash");
  const attached = { headers: ['Content-Disposition: attachment; filename="a.txt"'], text: "attached" };
  move((await receive(attached)).threadId, "trash");
  expect(await at(0)).toBe((0.001 * DAY_MS) / 24);
  await at(86_400);
  expect(subjects()).toEqual([]);
  const sweep = sweepBlobs(core);
  await sweep.runDue(START);
  await sweep.runDue(START + 2 * DAY_MS);
  const blobs = (await store.blobs.file("x".repeat(64))).name?.replace(/\/xx\/.*$/, "") ?? "";
  const left = readdirSync(blobs, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  expect(left).toEqual([]);
});

test("a running server applies a changed retention", async () => {
  const { api, core, advance } = await boot();
  const letter = { from: "alice@example.test", to: "alice@example.test", subject: "discarded", text: "x" };
  const sent = await api.post<{ threadId: string }>("/send", letter);
  await advance(1_000);
  const path = `/threads/${sent.body.threadId}`;
  await api.patch(path, { folder: "trash" });
  core.store.transact((tx) => core.options.set(tx, "retention.trashDays", "0.0001"));
  await advance(1_000);
  expect((await api.get(path)).status).toBe(200);
  await advance(0.0001 * DAY_MS);
  expect((await api.get(path)).status).toBe(404);
});

async function withFiles() {
  const alice = createAlice();
  const { core, store, receive } = alice;
  await receive({ headers: ['Content-Disposition: attachment; filename="kept.txt"'], text: "kept" });
  const kept = store.db.select({ blob: attachments.blob }).from(attachments).get()?.blob ?? "";
  const orphan = await store.blobs.write(Buffer.from("nobody's"));
  const job = sweepBlobs(core);
  return { ...alice, job, kept, orphan, has: async (name: string) => (await store.blobs.file(name)).exists() };
}

test("the sweep runs an hour after the start, then once a day, even if its job is woken meanwhile", async () => {
  const { job } = await withFiles();
  expect(await job.runDue(START)).toBe(START + HOUR_MS);
  expect(await job.runDue(START + 5)).toBe(START + HOUR_MS);
  expect(await job.runDue(START + HOUR_MS)).toBe(START + HOUR_MS + DAY_MS);
  expect(await job.runDue(START + HOUR_MS + 5)).toBe(START + HOUR_MS + DAY_MS);
});

test("the sweep runs an hour after a clock that was ahead is set right", async () => {
  const { job } = await withFiles();
  await job.runDue(START + 9 * DAY_MS);
  await job.runDue(START + 9 * DAY_MS + HOUR_MS);
  expect(await job.runDue(START, true)).toBe(START + HOUR_MS);
  expect(await job.runDue(START + HOUR_MS)).toBe(START + HOUR_MS + DAY_MS);
});

test("an unnamed file is removed once it is an hour old; a named one stays", async () => {
  const { job, kept, orphan, has } = await withFiles();
  await job.runDue(START);
  await job.runDue(START + HOUR_MS);
  expect([await has(kept), await has(orphan)]).toEqual([true, true]);
  await job.runDue(START + HOUR_MS + DAY_MS);
  expect([await has(kept), await has(orphan)]).toEqual([true, false]);
});

test("outgoing content stays until it is settled", async () => {
  const { job, orphan, has, store } = await withFiles();
  store.db.$client.run(
    `INSERT INTO outbound_messages (id, workspace_id, mailbox_id, mailbox, thread_id, message_id, subject, domain,
       return_path, accepted_at, recipients, outside_recipients, mailbox_total, workspace_total)
     VALUES ('msg_1', 'w', 'm', 'a@b', 't', '<1@b>', '', 'b', 'r@b', 0, 1, 1, 1, 1)`,
  );
  store.db.insert(outboundContents).values({ messageSeq: 1, size: 8, blob: orphan }).run();
  await job.runDue(START);
  await job.runDue(START + HOUR_MS + DAY_MS);
  expect(await has(orphan)).toBe(true);
  store.db.delete(outboundContents).run();
  await job.runDue(START + HOUR_MS + 2 * DAY_MS);
  expect(await has(orphan)).toBe(false);
});

test("during a backup no file is removed, and the next sweep is an hour later; leftovers of a crash are removed", async () => {
  const { job, orphan, has, store } = await withFiles();
  const folder = dirname(dirname((await store.blobs.file(orphan)).name ?? ""));
  const halves = [`.${"a".repeat(32)}`, `${"b".repeat(62)}.leaving`].map((name) =>
    join(folder, orphan.slice(0, 2), name),
  );
  for (const path of halves) writeFileSync(path, "half");
  for (const path of halves) utimesSync(path, new Date(START), new Date(START));
  await job.runDue(START);
  const release = claimBlobs(dirname(folder));
  expect(await job.runDue(START + DAY_MS)).toBe(START + DAY_MS + HOUR_MS);
  expect(await has(orphan)).toBe(true);
  release?.();
  expect(await job.runDue(START + DAY_MS + HOUR_MS)).toBe(START + 2 * DAY_MS + HOUR_MS);
  expect([await has(orphan), ...halves.map((path) => existsSync(path))]).toEqual([false, false, false]);
});

test("the files of a deleted mailbox are removed", async () => {
  const { job, kept, has, store } = await withFiles();
  store.db.delete(mailboxes).run();
  await job.runDue(START);
  await job.runDue(START + DAY_MS);
  expect(await has(kept)).toBe(false);
});
