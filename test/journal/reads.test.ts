/** The entries of reads: one for each key, operation and minute, written soon after, in bounded memory (rules: Journal). */
import { describe, expect, test } from "bun:test";
import { asc, isNotNull } from "drizzle-orm";
import { createReadJournal } from "../../src/journal/reads.ts";
import { apiKeys, journalEntries, users, workspaces } from "../../src/store/schema.ts";
import { connectMcp } from "../harness/clients/mcp-client.ts";
import { storeInMemory } from "../harness/data/database.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";
import { coreOver } from "../harness/servers/core.ts";
import { ALICE, bootExt, type ExtWorld, MAX } from "../harness/servers/ext-world.ts";

/** More than the journal keeps entries for. */
const KEYS = 10_050;
const MINUTE_MS = 60_000;
const EXT = "/api/ext/v1";

/** With so many keys. */
function start(keys = 3) {
  const runtime = fakeRuntime();
  const core = coreOver(storeInMemory(runtime), runtime);
  const { store, lines } = core;
  const journal = createReadJournal(core);
  store.transact((tx) => {
    tx.insert(workspaces).values({ id: "wsp_1", name: "Demo", createdAt: 0 }).run();
    const person = {
      id: "usr_1",
      workspaceId: "wsp_1",
      email: ALICE,
      name: "Alice",
      role: "owner",
      createdAt: 0,
    } as const;
    tx.insert(users).values(person).run();
    const key = { id: "key_0", userId: "usr_1", name: "Agent", hash: "0", hint: "mr_", createdAt: 0 };
    tx.insert(apiKeys)
      .values({ ...key, scopes: ["read"] })
      .run();
  });
  store.db.$client.run(
    `WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < ?)
     INSERT INTO api_keys (id, user_id, name, hash, hint, created_at, scopes)
     SELECT 'key_' || n, user_id, name, n, hint, created_at, scopes FROM api_keys, numbers`,
    [keys - 1],
  );
  const read = (operation: string, ids: string[], { keyId = "key_1", source = "192.0.2.1" } = {}) =>
    journal.note({ keyId, userId: "usr_1", workspaceId: "wsp_1", origin: { face: "rest", operation, source } }, ids);
  const rows = () =>
    store.db
      .select()
      .from(journalEntries)
      .orderBy(asc(journalEntries.seq))
      .all()
      .map(({ keyId, operation, source, at, reads, ids }) => ({ keyId, operation, source, at, reads, ids }));
  const row = (more: object) => ({
    keyId: "key_1",
    operation: "getMessage",
    source: "192.0.2.1",
    at: START,
    reads: 1,
    ids: ["msg_1"],
    ...more,
  });
  /** Runs the job as the scheduler does; returns when it wants to run again. */
  const tick = () => journal.job.runDue(runtime.now());
  return { core, runtime, store, journal, read, rows, row, tick, lines };
}

test("one entry for each key, operation and minute, with a count and each id once", async () => {
  const { runtime, read, rows, row, tick } = start();
  read("getMessage", ["msg_1"]);
  read("searchMail", ["thr_1", "thr_2"]);
  runtime.setBy(MINUTE_MS - 1);
  read("getMessage", ["msg_2"]);
  read("getMessage", ["msg_1"]);
  read("getMessage", ["msg_1"], { keyId: "key_2" });
  runtime.setBy(1);
  read("getMessage", ["msg_3"]);
  expect(rows()).toEqual([]);
  expect(await tick()).toBe(START + 2 * MINUTE_MS);
  expect(rows()).toEqual([
    row({ reads: 3, ids: ["msg_1", "msg_2"] }),
    row({ operation: "searchMail", ids: ["thr_1", "thr_2"] }),
    row({ keyId: "key_2", at: START + MINUTE_MS - 1 }),
  ]);
  runtime.setBy(MINUTE_MS);
  await tick();
  expect(rows().slice(3)).toEqual([row({ at: START + MINUTE_MS, ids: ["msg_3"] })]);
});

test("another source has an entry of its own", async () => {
  const { read, rows, row, journal } = start();
  read("getMessage", ["msg_1"]);
  read("getMessage", ["msg_1"], { source: "198.51.100.7" });
  await journal.flush();
  expect(rows()).toEqual([row({}), row({ source: "198.51.100.7" })]);
});

test("an entry has 200 ids at most, and counts on", async () => {
  const { read, rows, journal } = start();
  for (let i = 0; i < 5; i++)
    read(
      "listThreads",
      Array.from({ length: 100 }, (_, n) => `thr_${100 * i + n}`),
    );
  await journal.flush();
  expect(rows().map(({ reads, ids }) => [reads, ids.length, ids.at(-1)])).toEqual([[5, 200, "thr_199"]]);
});

test("what was written before the minute was over is added to", async () => {
  const { core, read, rows, row, journal } = start();
  read("getMessage", ["msg_1"]);
  await journal.flush();
  const afterRestart = createReadJournal(core);
  const origin = { face: "rest", operation: "getMessage", source: "192.0.2.1" } as const;
  afterRestart.note({ keyId: "key_1", userId: "usr_1", workspaceId: "wsp_1", origin }, ["msg_1", "msg_2"]);
  await afterRestart.flush();
  expect(rows()).toEqual([row({ reads: 2, ids: ["msg_1", "msg_2"] })]);
});

test("what cannot be written is kept, and written the next time", async () => {
  const { core, store, rows } = start();
  let fails = true;
  const note: typeof store.note = (work) => (fails ? Promise.reject(new Error("full")) : store.note(work));
  const journal = createReadJournal({ ...core, store: { ...store, note } });
  const caller = { keyId: "key_1", userId: "usr_1", workspaceId: "wsp_1", origin: { face: "rest" } } as const;
  journal.note(caller, ["msg_1"]);
  await expect(journal.flush()).rejects.toThrow("full");
  journal.note(caller, ["msg_2"]);
  fails = false;
  await journal.flush();
  expect(rows().map(({ reads, ids }) => [reads, ids])).toEqual([[2, ["msg_1", "msg_2"]]]);
});

test("thousands of keys take bounded memory, and the log says what is not told", async () => {
  const { read, rows, journal, lines } = start(KEYS);
  for (let i = 0; i < KEYS; i++) read("getMessage", ["msg_1"], { keyId: `key_${i}` });
  await journal.flush();
  expect(rows()).toHaveLength(10_000);
  expect(lines).toEqual([expect.objectContaining({ message: "the journal does not tell some reads", reads: 50 })]);
});

test("reads of a key that is gone with its person are not told", async () => {
  const { read, rows, journal, store } = start();
  read("getMessage", ["msg_1"]);
  store.db.delete(users).run();
  await journal.flush();
  expect(rows()).toEqual([]);
});

describe("of an appliance", () => {
  const readsOf = (world: ExtWorld) =>
    world.core.store.db
      .select()
      .from(journalEntries)
      .where(isNotNull(journalEntries.reads))
      .orderBy(asc(journalEntries.operation))
      .all()
      .map(({ operation, face, client, ids, reads }) => ({ operation, face, client, ids, reads }));

  test("every operation that shows mail, and no other", async () => {
    const world = await bootExt();
    const { threadId, emailId } = await world.receive(ALICE, "News");
    const file = { filename: "a.txt", text: "attached" };
    const sent = await world.api.post<{ emailId: string; threadId: string }>("/send", {
      from: ALICE,
      to: MAX,
      text: "Hi",
      attachments: [file],
    });
    const { emailId: sentId } = sent.body;
    const draft = await world.api.post<{ id: string }>(`${EXT}/drafts`, {});
    const { body } = await world.api.get<{ message: { attachments: { id: string }[] } }>(`/messages/${sentId}`);
    const attachment = body.message.attachments[0]?.id ?? "";
    await world.advance(MINUTE_MS);
    world.core.store.db.delete(journalEntries).run();

    await world.api.get("/mailboxes");
    await world.api.get(`${EXT}/labels`);
    await world.api.get(`${EXT}/changes`);
    await world.api.get("/threads?folder=inbox");
    await world.api.get("/search?q=news");
    await world.api.get(`/threads/${threadId}`);
    await world.api.get("/messages?direction=inbound");
    await world.api.get(`/messages/${emailId}`);
    await world.api.get("/messages/msg_unknown");
    await world.api.bytes(`/messages/${emailId}/raw`);
    await world.api.bytes(`${EXT}/messages/${emailId}/original`);
    await world.api.bytes(`/attachments/${attachment}`);
    await world.api.get(`${EXT}/drafts/${draft.body.id}`);
    await world.advance(MINUTE_MS);
    const one = (operation: string, ids: string[]) => ({ operation, face: "rest", client: null, ids, reads: 1 });
    expect(readsOf(world)).toEqual([
      one("getAttachment", [attachment]),
      one("getDraft", [draft.body.id]),
      one("getMessage", [emailId]),
      one("getOriginal", [emailId]),
      one("getRawMessage", [emailId]),
      one("getThread", [threadId]),
      expect.objectContaining({ operation: "listMessages", ids: expect.arrayContaining([emailId]) }),
      expect.objectContaining({ operation: "listThreads", ids: expect.arrayContaining([threadId]) }),
      one("searchMail", [threadId]),
    ]);
  });

  test("over MCP, with the client's name", async () => {
    const world = await bootExt();
    const { threadId } = await world.receive(ALICE, "News");
    await world.advance(MINUTE_MS);
    world.core.store.db.delete(journalEntries).run();
    const client = await connectMcp(world.http, world.owner.apiKey);
    await client.call("get_thread", { id: threadId });
    await client.close();
    await world.advance(MINUTE_MS);
    expect(readsOf(world)).toEqual([
      { operation: "getThread", face: "mcp", client: "test", ids: [threadId], reads: 1 },
    ]);
  });
});
