/** Readers are processes that answer what is asked of the database: as this process would, fairly, in bounded time. */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import type { Caller } from "../../src/access/caller.ts";
import { type MessagingChild, startMessagingChild } from "../../src/base/child-process.ts";
import {
  askForMessages,
  askToLookThrough,
  createMarks,
  hasMark,
  type MessageSet,
  setMark,
} from "../../src/mailbox/imap/message-search.ts";
import { listThreads, searchThreads } from "../../src/mailbox/reading/listing.ts";
import { startCheckpoints } from "../../src/store/checkpoints.ts";
import { openReaderDatabase } from "../../src/store/reader-database.ts";
import { options } from "../../src/store/schema.ts";
import { createReaderPool, type ReaderPool } from "../../src/workers/reader-pool.ts";
import { type StartReader, startReader } from "../../src/workers/reader-process.ts";
import { atEndOfFile } from "../harness/end.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { openInMemory, type TestCore } from "../harness/servers/core.ts";
import { createWorld, type World } from "../harness/servers/mailbox-world.ts";
import { until } from "../harness/until.ts";

const pools = new Set<ReaderPool>();
atEndOfFile(async () => void (await Promise.all([...pools].map((pool) => pool.stop()))));

interface Rig extends World {
  core: TestCore;
  folder: string;
  database: string;
  alice: Caller;
  mailboxId: string;
  pool: ReaderPool;
  /** The readers so far that have not ended. */
  children: Set<MessagingChild>;
  /** Resolves when the first reader is ready. */
  isReady: Promise<void>;
  /** Files mail with that text. */
  receive(text: string): Promise<{ seq: number }>;
}

/** A mailbox in a file, and readers of it. */
function open({ start = startReader, most = 1 }: Partial<Parameters<typeof createReaderPool>[0]> = {}): Rig {
  const folder = temporaryFolder();
  const file = join(folder, "mailroom.db");
  const { core } = openInMemory({}, { file });
  const children = new Set<MessagingChild>();
  const isReady = Promise.withResolvers<void>();
  const { runtime, log, metrics } = core;
  const pool = createReaderPool({
    ...{ file, replyFolder: join(folder, "spool"), runtime, log, metrics, most },
    start(path, events) {
      const child = start(path, {
        heard(message) {
          events.heard(message);
          isReady.resolve();
        },
        ended(how) {
          children.delete(child);
          events.ended(how);
        },
      });
      children.add(child);
      return child;
    },
  });
  pools.add(pool);
  const world = createWorld({ ...core, readers: pool });
  const workspace = world.workspace("Acme", "acme.test");
  const alice = world.user(workspace, "alice@acme.test", "member");
  const mailboxId = world.box(workspace, "alice@acme.test", alice);
  const receive = (text: string) => world.file(mailboxId, { subject: text.slice(0, 40), text });
  return { ...world, folder, database: file, alice, mailboxId, pool, children, isReady: isReady.promise, receive };
}

/** Starts a reader that runs a script of this folder. */
const readersOf =
  (script: string): StartReader =>
  (file, events) =>
    startMessagingChild("reader", [process.execPath, join(import.meta.dir, script), "reader:", file], events);
const hanging = readersOf("hanging-reader.ts");
const slow = readersOf("slow-reader.ts");

const searching = ({ core, alice }: Rig, q: string, caller: Caller = alice) =>
  searchThreads(core, caller, { q, limit: 10 });

const subjects = async (found: ReturnType<typeof searchThreads>): Promise<string[]> =>
  (await found).threads.map(({ subject }) => subject);

test("a reader answers as this process does", async () => {
  const rig = open();
  const { core, alice, receive } = rig;
  for (const text of ["plum jam", "plum tart with 1234567", "quince"]) await receive(text);
  const here = { ...core, readers: openInMemory({}, { file: rig.database }).core.readers };
  for (const q of [
    "plum",
    "plom",
    "-quince",
    "plum is:unread",
    "in:sent",
    "plum has:attachment",
    "before:2020-01-01",
  ]) {
    const filters = { q, limit: 1, sort: "relevance" } as const;
    const found = await listThreads(core, alice, filters);
    expect(found).toEqual(await listThreads(here, alice, filters));
    if (found.nextCursor === null) continue;
    const next = { ...filters, cursor: found.nextCursor };
    expect(await listThreads(core, alice, next)).toEqual(await listThreads(here, alice, next));
  }
});

test("a reader looks through messages for mail apps as this process does", async () => {
  const rig = open();
  const { core, alice, mailboxId } = rig;
  const seqs: number[] = [];
  for (const text of ["plum jam", "plum tart", "quince"]) seqs.push((await rig.receive(text)).seq);
  const here = { readers: openInMemory({}, { file: rig.database }).core.readers };
  const sets: MessageSet[] = [
    ...[{ of: "unread" }, { of: "flagged" }, { of: "labelled", label: "None" }, { of: "long" }],
    ...[
      { of: "saying", text: "plum" },
      { of: "saying", text: "p" },
    ],
  ] as MessageSet[];
  for (const set of sets) {
    const [found, there] = await Promise.all([core, here].map((asked) => askForMessages(asked, alice, mailboxId, set)));
    expect(found && [...seqs.map(found.has), found.isEmpty, found.isWord]).toEqual(
      there && [...seqs.map(there.has), there.isEmpty, there.isWord],
    );
  }
  const marks = createMarks(seqs.length);
  setMark(marks, 1);
  const key = {
    key: "and",
    of: [
      { key: "marks", at: 0 },
      { key: "body", text: "plum" },
    ],
  } as const;
  const {
    found,
    open: undecided,
    rest,
  } = await askToLookThrough(core, alice, {
    ...{ key, marks: [marks], seqs, userId: alice.userId },
  });
  expect(seqs.map((_, i) => hasMark(found, i))).toEqual([false, true, false]);
  expect([...undecided, ...rest]).toEqual([0, 0]);
});

test("whoever writes reads what they wrote", async () => {
  const rig = open();
  for (let n = 1; n <= 20; n++) {
    await rig.receive(`plum ${n}`);
    expect((await searching(rig, `${n}`)).threads).toHaveLength(1);
    expect((await searching(rig, "plum")).unread).toBe(n);
  }
});

test("a refusal arrives as it is", async () => {
  const rig = open();
  const { core, alice } = rig;
  await expect(listThreads(core, alice, { q: "plum", limit: 1, cursor: "x" })).rejects.toMatchObject({
    code: "bad_request",
    status: 400,
  });
  await expect(listThreads(core, alice, { q: "plum", limit: 1, mailbox: "mbx_none" })).rejects.toMatchObject({
    code: "not_found",
    status: 404,
  });
});

test("mail out of reach is not found", async () => {
  const rig = open();
  await rig.receive("plum");
  const bob = rig.user(rig.alice.workspaceId, "bob@acme.test", "member");
  rig.box(rig.alice.workspaceId, "bob@acme.test", bob);
  expect(await subjects(searching(rig, "plum", bob))).toEqual([]);
  expect(await subjects(searching(rig, "plum"))).toEqual(["plum"]);
});

test("an answer that is too large for a message comes by file, which is removed", async () => {
  const rig = open();
  const text = "plum ".repeat(2_000);
  for (let n = 0; n < 300; n++) await rig.receive(`${n} ${text}`);
  const found = await searchThreads(rig.core, rig.alice, { q: "plum", limit: 300 });
  expect(JSON.stringify(found).length).toBeGreaterThan(256 * 1024);
  expect(found.threads).toHaveLength(300);
  expect(readdirSync(join(rig.folder, "spool"))).toEqual([]);
}, 60_000);

test("a reader that hangs is ended after ten seconds, and the log is checkpointed after it", async () => {
  const starts = [hanging, startReader];
  const rig = open({
    start: (file, events) => (starts.shift() ?? startReader)(file, events),
  });
  const { core, runtime, store, receive } = rig;
  await receive("plum");
  const checkpoints = startCheckpoints(store, core.log, { most: { thread: 20, commit: 1_000_000 } });
  rig.pool.whenGone(checkpoints.look);
  const pages = () =>
    store.db.$client.query<{ log: number; checkpointed: number }, []>("PRAGMA wal_checkpoint(NOOP)").get();
  const refusal = searching(rig, "plum").catch((error: unknown) => error);
  const waiting = searching(rig, "plum");
  await rig.isReady;
  await until(() => {
    const name = `option ${Math.random()}`;
    store.transact((tx) => void tx.insert(options).values({ name, value: "x" }).run());
    const { log = 0, checkpointed = 0 } = pages() ?? {};
    return log > 100 && checkpointed < log - 20;
  });
  runtime.advanceTo(runtime.now() + 9_000);
  expect(rig.children.size).toBe(1);
  runtime.advanceTo(runtime.now() + 1_500);
  expect(await refusal).toMatchObject({ code: "server_error", status: 503, retryAfter: 5 });
  expect(await subjects(waiting)).toEqual(["plum"]);
  await until(() => {
    const { log, checkpointed } = pages() ?? {};
    return log === checkpointed;
  });
  await checkpoints.stop();
}, 60_000);

test("the log starts over although readers are always at work", async () => {
  const rig = open({ start: slow, most: 3 });
  const { core, store, pool } = rig;
  const { atRest } = pool;
  const checkpoints = startCheckpoints(store, core.log, { most: { thread: 20, commit: 1_000_000 }, atRest });
  const pages = store.db.$client.query<{ log: number }, []>("PRAGMA wal_checkpoint(NOOP)");
  let isOver = false;
  const readers = Array.from({ length: 6 }, async () => {
    while (!isOver) await searching(rig, "plum");
  });
  await rig.isReady;
  let anew = 0;
  let before = 0;
  await until(() => {
    const name = `option ${Math.random()}`;
    store.transact((tx) => void tx.insert(options).values({ name, value: "x" }).run());
    const { log = 0 } = pages.get() ?? {};
    if (log < before) anew++;
    before = log;
    return anew === 3;
  });
  isOver = true;
  await Promise.all(readers);
  await checkpoints.stop();
}, 60_000);

test("what is done at rest waits for readers, and half a second at most", async () => {
  const rig = open({ start: hanging });
  const done: string[] = [];
  await rig.pool.atRest(() => done.push("idle"));
  const hung = searching(rig, "plum").catch(() => done.push("hung"));
  await rig.isReady;
  const resting = rig.pool.atRest(() => done.push("at rest"));
  await Promise.resolve();
  expect(done).toEqual(["idle"]);
  rig.runtime.advanceTo(rig.runtime.now() + 500);
  await resting;
  await rig.pool.stop();
  await hung;
  expect(done).toEqual(["idle", "at rest", "hung"]);
});

test("a reader that dies costs its search alone", async () => {
  let isFirst = true;
  const rig = open({
    start(file, events) {
      const start = isFirst ? hanging : startReader;
      isFirst = false;
      return start(file, events);
    },
  });
  await rig.receive("plum");
  const lost = searching(rig, "plum");
  const others = [searching(rig, "plum"), searching(rig, "plum")];
  await rig.isReady;
  for (const child of rig.children) child.kill();
  await expect(lost).rejects.toMatchObject({ status: 503 });
  for (const other of others) expect(await subjects(other)).toEqual(["plum"]);
});

test("an idle reader that has much memory gives way to another", async () => {
  let starts = 0;
  const rig = open({
    start(file, events) {
      const isFirst = starts++ === 0;
      return { ...startReader(file, events), ...(isFirst && { memory: () => 100 * 1024 * 1024 }) };
    },
  });
  await rig.receive("plum");
  expect(await subjects(searching(rig, "plum"))).toEqual(["plum"]);
  rig.runtime.advanceTo(rig.runtime.now() + 60_000);
  await until(() => starts === 2 && rig.children.size === 1);
  expect(await subjects(searching(rig, "plum"))).toEqual(["plum"]);
  rig.runtime.advanceTo(rig.runtime.now() + 60_000);
  expect(await subjects(searching(rig, "plum"))).toEqual(["plum"]);
  expect(starts).toBe(2);
});

test("a reader that does not start is tried once more", async () => {
  let starts = 0;
  const rig = open({
    start(file, events) {
      starts++;
      return startMessagingChild("reader", ["/bin/false", file], events);
    },
  });
  await expect(searching(rig, "plum")).rejects.toMatchObject({ status: 503 });
  expect(starts).toBe(2);
});

test("whoever asks much leaves room for others", async () => {
  const rig = open({ start: hanging });
  const bob = rig.user(rig.alice.workspaceId, "bob@acme.test", "member");
  const outcomes: string[] = [];
  const note = (search: Promise<unknown>) => search.catch(({ message }: Error) => void outcomes.push(message));
  const all = Array.from({ length: 600 }, () => note(searching(rig, "plum")));
  await until(() => outcomes.length > 0);
  const refused = outcomes.length;
  expect(new Set(outcomes)).toEqual(
    new Set(["Too many searches of yours are under way: try again when they have ended"]),
  );
  all.push(note(searching(rig, "plum", bob)));
  await rig.isReady;
  expect(outcomes).toHaveLength(refused);
  await rig.pool.stop();
  await Promise.all(all);
  expect(outcomes.slice(refused)).toEqual(Array(601 - refused).fill("The service is stopping"));
  expect(rig.children.size).toBe(0);
  await expect(searching(rig, "plum")).rejects.toMatchObject({ status: 503 });
});

test("a reader cannot write", async () => {
  const { database } = open();
  const { db } = openReaderDatabase(database);
  expect(() => db.$client.exec("DELETE FROM messages")).toThrow();
  expect(() => db.$client.exec("PRAGMA query_only = OFF; DELETE FROM messages")).toThrow(/readonly/);
  db.$client.close();
});
