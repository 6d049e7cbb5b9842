/** The sweep removes unnamed files: never one that a message or the queue names, and never a recent one. */
import { expect, test } from "bun:test";
import { existsSync, utimesSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { createLog } from "../../src/base/log.ts";
import { sweepBlobs } from "../../src/mailbox/sweep.ts";
import { claimBlobs } from "../../src/store/claim.ts";
import { attachments, mailboxes, outboundContents } from "../../src/store/schema.ts";
import { createAlice } from "../harness/mailbox-world.ts";
import { START } from "../harness/runtime.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

async function office() {
  const alice = createAlice();
  const { store, receive } = alice;
  await receive({ headers: ['Content-Disposition: attachment; filename="kept.txt"'], text: "kept" });
  const kept = store.db.select({ blob: attachments.blob }).from(attachments).get()?.blob ?? "";
  const orphan = await store.blobs.write(Buffer.from("nobody's"));
  const job = sweepBlobs(
    store,
    createLog(
      "silent",
      () => START,
      () => {},
    ),
  );
  return { ...alice, job, kept, orphan, has: (name: string) => store.blobs.file(name).exists() };
}

test("an hour after the start, then once a day, even if the job is woken meanwhile", async () => {
  const { job } = await office();
  expect(await job.runDue(START)).toBe(START + HOUR_MS);
  expect(await job.runDue(START + 5)).toBe(START + HOUR_MS);
  expect(await job.runDue(START + HOUR_MS)).toBe(START + HOUR_MS + DAY_MS);
  expect(await job.runDue(START + HOUR_MS + 5)).toBe(START + HOUR_MS + DAY_MS);
});

test("an hour after a clock that was ahead is set right", async () => {
  const { job } = await office();
  await job.runDue(START + 9 * DAY_MS);
  await job.runDue(START + 9 * DAY_MS + HOUR_MS);
  expect(await job.runDue(START, true)).toBe(START + HOUR_MS);
  expect(await job.runDue(START + HOUR_MS)).toBe(START + HOUR_MS + DAY_MS);
});

test("an unnamed file is removed once it is an hour old; a named one stays", async () => {
  const { job, kept, orphan, has } = await office();
  await job.runDue(START);
  await job.runDue(START + HOUR_MS);
  expect([await has(kept), await has(orphan)]).toEqual([true, true]);
  await job.runDue(START + HOUR_MS + DAY_MS);
  expect([await has(kept), await has(orphan)]).toEqual([true, false]);
});

test("outgoing content stays until it is settled", async () => {
  const { job, orphan, has, store } = await office();
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

test("during a backup nothing is removed, and the next run is an hour later; leftovers of a crash are removed, too", async () => {
  const { job, orphan, has, store } = await office();
  const folder = dirname(dirname(store.blobs.file(orphan).name ?? ""));
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
  const { job, kept, has, store } = await office();
  store.db.delete(mailboxes).run();
  await job.runDue(START);
  await job.runDue(START + DAY_MS);
  expect(await has(kept)).toBe(false);
});
