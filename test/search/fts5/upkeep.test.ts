/**
 * After an upgrade that rebuilds the index, it ends as if all mail had just been filed, whatever happens meanwhile, and
 * mail becomes searchable as soon as possible.
 */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eq } from "drizzle-orm";
import { createLog } from "../../../src/base/log.ts";
import { foldDocument } from "../../../src/search/fold.ts";
import { createFts5Engine } from "../../../src/search/fts5/fts5.ts";
import { countIndexBacklog, indexBacklog, maintainIndex } from "../../../src/search/fts5/upkeep.ts";
import { parseQuery } from "../../../src/search/query.ts";
import { createSearch } from "../../../src/search/search.ts";
import { listSeqsInSet } from "../../../src/search/sets.ts";
import { MIGRATIONS } from "../../../src/store/migrate.ts";
import { MESSAGES_PER_THREAD, messages } from "../../../src/store/schema.ts";
import { openOptions } from "../../../src/store/settings.ts";
import { openStore, type Store } from "../../../src/store/store.ts";
import { entriesOf, takeBackToSchema14 } from "../../harness/data/schema14.ts";
import { type SeedMessage, seedIndex, WHOLE_A } from "../../harness/data/search-seed.ts";
import { temporaryFolder } from "../../harness/folder.ts";
import { fakeRuntime } from "../../harness/runtime.ts";
import { coreOver, testCore } from "../../harness/servers/core.ts";

const MAIL: SeedMessage[] = Array.from({ length: 400 }, (_, n) => ({
  // Every tenth message is in one long conversation, the first of all.
  thread: n % 10 === 0 ? "long" : `t${n}`,
  subject: `Letter ${n}`,
  text: `word number${n}`,
  files: n % 50 === 0 ? [`file${n}.pdf`] : [],
}));

/** A database that has just been upgraded, and the expected index. */
interface Upgraded {
  file: Uint8Array;
  entries: unknown[];
}
const upgrades = new Map<readonly SeedMessage[], Upgraded>();

/** A folder with this mail that has just been upgraded from the version before the rebuild, and the expected index. */
function upgradedFolder(mail: readonly SeedMessage[]): { folder: string; entries: unknown[] } {
  const folder = temporaryFolder();
  const path = join(folder, "mailroom.db");
  let made = upgrades.get(mail);
  if (made) writeFileSync(path, made.file);
  else {
    const { store } = seedIndex(mail);
    writeFileSync(path, store.db.$client.serialize());
    takeBackToSchema14(path);
    openStore({ folder, runtime: fakeRuntime() }).close();
    made = { file: readFileSync(path), entries: entriesOf(store.db.$client) };
    upgrades.set(mail, made);
  }
  return { folder, entries: made.entries };
}

/** The server's part: each `step` is the job's next run, and returns its pause; null at the end. */
function opened(folder: string, runtime = fakeRuntime()) {
  const store = openStore({ folder, runtime });
  const engine = createFts5Engine(store);
  const job = indexBacklog(coreOver(store, runtime), engine);
  const find = async (q: string): Promise<number[]> => listSeqsInSet(await engine.match(parseQuery(q, 0), WHOLE_A));
  async function step(): Promise<number | null> {
    const due = await job.runDue(runtime.now());
    const rest = due === null ? null : due - runtime.now();
    if (due !== null) runtime.advanceTo(due);
    return rest;
  }
  async function finish(): Promise<void> {
    while ((await step()) !== null);
  }
  return { store, engine, find, step, finish, entries: () => entriesOf(store.db.$client) };
}

/** Distinct words of 60 characters. */
const textOf = (characters: number): string =>
  Array.from({ length: characters / 60 }, (_, i) => `w${10_000 + i}`.padEnd(59, "x")).join(" ");

const documents = ({ db }: Store): unknown => db.$client.query("SELECT count(*) AS n FROM message_index_docsize").get();

test("after an upgrade all mail is indexed, newest first, and is found as before", async () => {
  const { folder, entries } = upgradedFolder(MAIL);
  const { store, find, step, finish, entries: made } = opened(folder);
  expect(countIndexBacklog(store.db)).toBe(400);
  expect(await find("word")).toEqual([]);
  await step();
  expect((await find("number399")).length).toBe(1);
  expect(await find("number1")).toEqual([]);
  expect(countIndexBacklog(store.db)).toBeWithin(1, 400);
  await finish();
  expect(countIndexBacklog(store.db)).toBe(0);
  expect((await find("number1")).length).toBe(1);
  expect(made()).toEqual(entries);
});

test("an upgrade takes in anew what has recipients in Cc, newest first, while all is found by other words", async () => {
  const to = { email: "ann@example.com" };
  const cc = { email: "carol@example.com", name: "Carol" };
  const mail = Array.from({ length: 200 }, (_, n) => ({
    thread: `t${n}`,
    subject: `Letter ${n}`,
    text: "word",
    to: [to],
    cc: n % 2 === 0 ? [cc] : [],
  }));
  const { store, engine, seqOf } = seedIndex(mail);
  const sqlite = store.db.$client;
  const entries = entriesOf(sqlite);
  const scope = { workspaceId: "wsp_a", mailboxId: "mbx_a1" };
  store.transact((tx) => {
    for (const { thread, subject, text, cc: copies } of mail) {
      const from = [{ email: "nobody@example.test" }];
      const document = foldDocument({ subject, text, from, to: [to, ...copies], cc: [], filenames: [] });
      engine.replace(tx, seqOf(thread) * MESSAGES_PER_THREAD, scope, document);
    }
  });
  expect(entriesOf(sqlite)).not.toEqual(entries);
  sqlite.exec(MIGRATIONS.find((sql) => /search_waiting\s+SELECT/.test(sql)) ?? "");
  const runtime = fakeRuntime();
  const job = indexBacklog(coreOver(store, runtime), engine);
  const find = async (q: string): Promise<number[]> => listSeqsInSet(await engine.match(parseQuery(q, 0), WHOLE_A));
  expect(countIndexBacklog(store.db)).toBe(100);
  expect(await find("to:carol")).toHaveLength(100);
  expect(await find("cc:carol")).toEqual([]);
  await job.runDue(runtime.now());
  expect(await find("cc:carol subject:198")).toHaveLength(1);
  expect(await find("cc:carol subject:0")).toEqual([]);
  expect(await find("to:carol")).toHaveLength(100);
  while ((await job.runDue(runtime.now())) !== null);
  expect(await find("cc:carol")).toHaveLength(100);
  expect(entriesOf(sqlite)).toEqual(entries);
});

test("indexing resumes after an interruption", async () => {
  const { folder, entries } = upgradedFolder(MAIL);
  let left = 400;
  for (let starts = 0; left > 0; starts++) {
    const { store, step, entries: made } = opened(folder);
    expect(countIndexBacklog(store.db)).toBe(left);
    await step();
    const before = left;
    left = countIndexBacklog(store.db);
    expect(left).toBeLessThan(before);
    if (left === 0) expect(made()).toEqual(entries);
    store.close();
    expect(starts).toBeLessThan(20);
  }
});

test("mail filed, changed or deleted meanwhile is indexed correctly, once", async () => {
  const { folder } = upgradedFolder(MAIL);
  const { store, engine, find, step, finish, entries } = opened(folder);
  await step();
  const scope = { workspaceId: "wsp_a", mailboxId: "mbx_a1" };
  const saying = (text: string) => foldDocument({ subject: "", text, from: [], to: [], cc: [], filenames: [] });
  const [oldest] = store.db.select().from(messages).where(eq(messages.seq, MESSAGES_PER_THREAD)).all();
  if (!oldest) throw new Error("there is no first message");
  const reply = { ...oldest, seq: oldest.seq + 100, id: "msg_reply" };
  // The oldest conversation, which is reached last, gets a reply, and its first message changes.
  store.transact((tx) => {
    tx.insert(messages).values(reply).run();
    tx.run(
      `INSERT INTO message_bodies (message_seq, headers, text, sanitizer) VALUES (${reply.seq}, '[]', 'answered', 0)`,
    );
    tx.run(`UPDATE message_bodies SET text = 'otherwise' WHERE message_seq = ${oldest.seq}`);
    engine.add(tx, reply.seq, scope, saying("answered"));
    engine.replace(tx, oldest.seq, scope, saying("otherwise"));
  });
  expect([await find("answered"), await find("otherwise"), await find("number10")]).toEqual([[1], [1], []]);
  const taken = (await find("number399"))[0] ?? 0;
  // One that is indexed, and one that is not yet.
  for (const seq of [taken * MESSAGES_PER_THREAD, 2 * MESSAGES_PER_THREAD]) {
    store.transact((tx) => void tx.delete(messages).where(eq(messages.seq, seq)).run());
  }
  await finish();
  expect([await find("answered"), await find("otherwise"), await find("number0")]).toEqual([[1], [1], []]);
  expect([await find("number399"), await find("number1")]).toEqual([[], []]);
  expect(documents(store)).toEqual({ n: 399 });
  const made = entries();
  store.transact(engine.empty);
  await finish();
  expect(entries()).toEqual(made);
});

test("a small mailbox is complete after the first run, an empty one at once", async () => {
  const small = opened(upgradedFolder(MAIL.slice(0, 30)).folder);
  expect(await small.step()).toBeNull();
  expect(countIndexBacklog(small.store.db)).toBe(0);
  expect((await small.find("word")).length).toBeGreaterThan(0);
  const none = opened(upgradedFolder([]).folder);
  expect(countIndexBacklog(none.store.db)).toBe(0);
  expect(await none.step()).toBeNull();
});

test("indexing slows down while much is written, and takes small portions if they are slow", async () => {
  const runtime = fakeRuntime();
  const { store, step } = opened(upgradedFolder(MAIL).folder, runtime);
  await step();
  const write = (): void => void store.transact(() => {});
  runtime.advanceTo(runtime.now() + 100);
  for (let i = 0; i < 10; i++) write();
  expect(await step()).toBe(1_000);
  expect(await step()).toBe(1);

  const slow = fakeRuntime();
  const { store: other, step: slowly } = opened(upgradedFolder(MAIL).folder, slow);
  const enqueue = other.enqueue;
  // Each run takes a second.
  const enqueueSlowly: typeof enqueue = (work) => {
    slow.advanceTo(slow.now() + 1_000);
    return enqueue(work);
  };
  const job = indexBacklog(coreOver({ ...other, enqueue: enqueueSlowly }, slow), createFts5Engine(other));
  expect(await job.runDue(slow.now())).toBe(slow.now() + 1_000);
  const before = countIndexBacklog(other.db);
  await job.runDue(slow.now());
  expect(before - countIndexBacklog(other.db)).toBe(4);
  while ((await slowly()) !== null);
  expect(countIndexBacklog(other.db)).toBe(0);
});

test("indexing waits for another process's write without blocking the event loop", async () => {
  const { folder } = upgradedFolder(MAIL.slice(0, 30));
  const { store, step } = opened(folder);
  const other = new Database(join(folder, "mailroom.db"));
  other.run("BEGIN IMMEDIATE");
  const stepped = step();
  // Runs only if the event loop is not blocked.
  setImmediate(() => other.run("COMMIT"));
  expect(await stepped).toBeNull();
  expect(countIndexBacklog(store.db)).toBe(0);
  other.close();
});

test("indexing takes few long messages at a time from the start", async () => {
  const text = textOf(105_000);
  const long = Array.from({ length: 12 }, (_, n) => ({ thread: `t${n}`, text }));
  const { folder, entries } = upgradedFolder(long);
  const { store, step, finish, entries: made } = opened(folder);
  expect(await step()).not.toBeNull();
  expect(countIndexBacklog(store.db)).toBeWithin(6, 10);
  await finish();
  expect(made()).toEqual(entries);
});

test("messages that were put off are indexed first, also after a crash, and not if they are deleted", async () => {
  const { folder } = upgradedFolder(MAIL);
  const first = opened(folder);
  const seqs = [1, 2, 3].map((thread) => thread * MESSAGES_PER_THREAD);
  first.store.transact((tx) => seqs.forEach((seq) => void first.engine.addLater(tx, seq)));
  expect(countIndexBacklog(first.store.db)).toBe(403);
  first.store.transact(
    (tx) =>
      void tx
        .delete(messages)
        .where(eq(messages.seq, 2 * MESSAGES_PER_THREAD))
        .run(),
  );
  expect(countIndexBacklog(first.store.db)).toBe(402);
  first.store.close();

  const { store, find, step, finish } = opened(folder);
  expect(await find("word")).toEqual([]);
  await step();
  expect([await find("number0"), await find("number2"), await find("number1")]).toEqual([[1], [3], []]);
  await finish();
  expect(countIndexBacklog(store.db)).toBe(0);
  expect(documents(store)).toEqual({ n: 399 });
});

test("no portion has two long messages that were put off", async () => {
  const text = textOf(420_000);
  const { folder } = upgradedFolder([1, 2, 3].map((n) => ({ thread: `t${n}`, text })));
  const { store, engine, step } = opened(folder);
  store.transact((tx) => {
    engine.complete(tx);
    for (const thread of [1, 2, 3]) engine.addLater(tx, thread * MESSAGES_PER_THREAD);
  });
  const left: number[] = [];
  do left.push(countIndexBacklog(store.db));
  while ((await step()) !== null);
  expect(left).toEqual([3, 2, 1]);
  expect(countIndexBacklog(store.db)).toBe(0);
});

test("the search state reports how many messages are missing", async () => {
  const runtime = fakeRuntime();
  const { store, finish } = opened(upgradedFolder(MAIL).folder, runtime);
  const log = createLog("silent", runtime.now, () => {});
  const search = createSearch({ ...testCore(), store, db: store.db, options: openOptions(store), runtime, log });
  expect(search.state()).toMatchObject({
    engine: "fts5",
    backlog: 400,
    reason: "the index is taking in mail: 400 messages to go",
  });
  await finish();
  expect(search.state()).toEqual({
    engine: "fts5",
    feed: { phase: "off", behind: 0, refused: 0 },
    backlog: 0,
    fallbacks: 0,
  });
});

describe("merging", () => {
  test("pauses while much is written, however few commits share it, and continues when it is quiet", async () => {
    let told: (works: number) => void = () => {};
    let steps = 0;
    const core = testCore();
    const onCommit: Store["onCommit"] = (listener) => {
      told = listener;
      return () => {};
    };
    const job = maintainIndex({ ...core, store: { ...core.store, onCommit } }, { maintain: () => ++steps < 3 });
    told(50);
    expect(await job.runDue(1_000)).toBe(2_000);
    expect(steps).toBe(0);
    told(5);
    expect(await job.runDue(2_000)).toBe(2_050);
    expect(steps).toBe(1);
    expect(await job.runDue(2_050)).toBe(2_100);
    expect(await job.runDue(2_100)).toBe(12_100);
  });
});
