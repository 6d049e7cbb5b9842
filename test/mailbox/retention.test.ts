/** retention.trashDays deletes for good what has been in trash or spam that long, and nothing else. */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { createLog } from "../../src/base/log.ts";
import { deleteDiscarded } from "../../src/mailbox/retention.ts";
import { sweepBlobs } from "../../src/mailbox/sweep.ts";
import { messages } from "../../src/store/schema.ts";
import { boot } from "../harness/appliance.ts";
import { createAlice } from "../harness/mailbox-world.ts";
import { START } from "../harness/runtime.ts";

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;

function office(days: string) {
  const alice = createAlice();
  const { store, options, mailbox, receive } = alice;
  const job = deleteDiscarded(store, options);
  store.transact((tx) => options.set(tx, "retention.trashDays", days));
  return {
    ...alice,
    /** Runs the job that many ms after the start. */
    at: async (ms: number) => ((await job.runDue(START + ms)) as number) - START - ms,
    mail: async (subject: string, folder?: "trash" | "spam" | "archive") => {
      // Each has its own sender, because moving mail to spam trains the mailbox on its sender.
      const { threadId } = await receive({ subject, from: `${subject.replaceAll(" ", "-")}@remote.example` });
      if (folder) mailbox.update(alice.alice, threadId, { folder });
      return threadId;
    },
    move: (id: string, folder: "inbox" | "trash" | "spam") => mailbox.update(alice.alice, id, { folder }),
    subjects: () =>
      store.db
        .select({ subject: messages.subject })
        .from(messages)
        .orderBy(messages.seq)
        .all()
        .map(({ subject }) => subject),
  };
}

test("after that many days in trash or spam, and not before, at any age of the mail", async () => {
  const { at, mail, subjects, mailbox, box } = office("2");
  for (const folder of ["trash", "spam", "archive", undefined] as const) await mail(String(folder), folder);
  expect(await at(0)).toBe(HOUR_MS);
  await at(2 * DAY_MS - 1);
  expect(subjects()).toEqual(["trash", "spam", "archive", "undefined"]);
  await at(2 * DAY_MS);
  expect(subjects()).toEqual(["archive", "undefined"]);
  expect(mailbox.usage(box).bytes).toBeGreaterThan(0);
});

test("off by default; once set, earlier time counts", async () => {
  const { at, mail, subjects, store, options } = office("off");
  await mail("old", "trash");
  await at(0);
  await at(365 * DAY_MS);
  expect(subjects()).toEqual(["old"]);
  store.transact((tx) => options.set(tx, "retention.trashDays", "30"));
  await at(366 * DAY_MS);
  expect(subjects()).toEqual([]);
});

test("a conversation moved out in time stays, and starts over when moved back", async () => {
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

test("more than a portion, and parts of a day; the next sweep removes the files", async () => {
  const { at, mail, subjects, store, receive, move } = office("0.001");
  for (let i = 0; i < 45; i++) await mail(`mail ${i}`, "trash");
  const attached = { headers: ['Content-Disposition: attachment; filename="a.txt"'], text: "attached" };
  move((await receive(attached)).threadId, "trash");
  expect(await at(0)).toBe((0.001 * DAY_MS) / 24);
  await at(86_400);
  expect(subjects()).toEqual([]);
  const log = createLog(
    "silent",
    () => START,
    () => {},
  );
  const sweep = sweepBlobs(store, log);
  await sweep.runDue(START);
  await sweep.runDue(START + 2 * DAY_MS);
  const blobs = store.blobs.file("x".repeat(64)).name?.replace(/\/xx\/.*$/, "") ?? "";
  const left = readdirSync(blobs, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  expect(left).toEqual([]);
});

test("a running server applies a changed setting", async () => {
  const { api, appliance, advance } = await boot();
  const letter = { from: "alice@example.test", to: "alice@example.test", subject: "discarded", text: "x" };
  const sent = await api.post<{ threadId: string }>("/send", letter);
  await advance(1_000);
  const path = `/threads/${sent.body.threadId}`;
  await api.patch(path, { folder: "trash" });
  appliance.store.transact((tx) => appliance.options.set(tx, "retention.trashDays", "0.0001"));
  await advance(1_000);
  expect((await api.get(path)).status).toBe(200);
  await advance(0.0001 * DAY_MS);
  expect((await api.get(path)).status).toBe(404);
});
