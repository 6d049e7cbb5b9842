/** Matches of a query in masked mail, within the bounds of the search, whatever the engine said (rules: Codes). */
import { expect, test } from "bun:test";
import { inArray } from "drizzle-orm";
import type { MaskRows } from "../../../src/mailbox/reading/highlights.ts";
import { searchThreads } from "../../../src/mailbox/reading/listing.ts";
import { findMaskedMatches, MOST_READ } from "../../../src/mailbox/reading/masked-search.ts";
import type { MailCore } from "../../../src/mailbox/state/mail-core.ts";
import { createFts5Engine } from "../../../src/search/fts5/fts5.ts";
import { parseQuery } from "../../../src/search/query.ts";
import { createSeqSet } from "../../../src/search/sets.ts";
import { messages } from "../../../src/store/schema.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";
import { copyThread } from "../copied-threads.ts";

const maskRows: MaskRows = async (rows) => rows.map((row) => ({ ...row, text: row.text.replaceAll("secret", "[x]") }));

/** Conversations of these texts; `threads`: threads.seq, newest first, and `textOf` what each is about. */
async function mailOf(...texts: string[]) {
  const world = createAlice();
  for (const [n, text] of texts.entries()) {
    await world.receive({ subject: `Subject ${n}`, from: `p${n}@remote.example`, text });
  }
  const { db } = world.store;
  const threads = texts.map((_, n) => n + 1).toReversed();
  const find = async (q: string, most?: number, among = threads) => {
    const { matches, isAll } = await findMaskedMatches(db, parseQuery(q, 0).message, among, maskRows, most);
    const seqs = [...matches.values()].flat();
    const rows = db.select({ subject: messages.subject }).from(messages).where(inArray(messages.seq, seqs)).all();
    return { found: rows.map(({ subject }) => Number(subject.split(" ")[1])).sort(), isAll };
  };
  return { ...world, threads, find };
}

test("hidden words neither find nor exclude, and those that are left do", async () => {
  const { find } = await mailOf("secret plum", "plum pear", "a pear, then plum");
  expect(await find("secret")).toEqual({ found: [], isAll: true });
  expect(await find("plum -secret")).toEqual({ found: [0, 1, 2], isAll: true });
  expect(await find("-pear")).toEqual({ found: [0], isAll: true });
  expect(await find('"plum pear"')).toEqual({ found: [1], isAll: true });
  expect(await find("plum has:attachment")).toEqual({ found: [], isAll: true });
  expect(await find("plum after:2001-01-01 larger:10 -has:attachment")).toEqual({ found: [0, 1, 2], isAll: true });
});

test("the newest are found within the bound, and those with a hidden word do not count", async () => {
  const { find, threads } = await mailOf("plum", "secret plum", "plum", "secret", "plum");
  expect(await find("plum", 2)).toEqual({ found: [2, 4], isAll: false });
  expect(await find("plum", 4)).toEqual({ found: [0, 1, 2, 4], isAll: true });
  expect(await find("plum -pear secret", 1)).toEqual({ found: [], isAll: true });
  const more = Array.from({ length: MOST_READ }, (_, n) => 1_000 + n);
  expect(await find("plum", 9, [...threads, ...more])).toEqual({ found: [0, 1, 2, 4], isAll: false });
  expect(await find("plum", 9, [...more, ...threads])).toEqual({ found: [], isAll: false });
});

test("an external engine's word is not taken for it", async () => {
  const { core, alice, threads } = await mailOf(
    "Sign in: https://auth.example/signin/quince?token=8f3kd93kfh3kd93k plum",
    "plum",
  );
  const asked: string[] = [];
  const searching: MailCore = {
    ...core,
    engine: {
      ...createFts5Engine(core.store),
      match: ({ message }) => {
        asked.push(JSON.stringify(message));
        return createSeqSet([...threads, ...Array.from({ length: MOST_READ }, (_, n) => 1_000 + n)]);
      },
    },
  };
  const agent = { ...alice, policy: { codes: false } };
  expect(await searchThreads(searching, agent, { q: "quince", limit: 9 })).toEqual({
    threads: [],
    nextCursor: null,
    unread: 0,
  });
  const first = await searchThreads(searching, agent, { q: "plum -quince", limit: 1 });
  const second = await searchThreads(searching, agent, { q: "plum -quince", limit: 1, cursor: first.nextCursor ?? "" });
  expect([first, second].map(({ threads: [one], unread }) => [one?.subject, unread])).toEqual([
    ["Subject 1", 2],
    ["Subject 0", 2],
  ]);
  expect(second.nextCursor).toBeNull();
  expect(first.threads[0]?.highlights).toHaveLength(1);
  expect(second.threads[0]?.highlights).toEqual([
    { emailId: expect.any(String), field: "text", snippet: "Sign in: [link hidden] plum", ranges: [[23, 27]] },
  ]);
  expect(asked.join()).not.toContain('"quince","negated":true');
  expect(first).not.toHaveProperty("notes");
});

test("the answer says when not all was searched", async () => {
  const { core, alice, store } = await mailOf("pear", "plum");
  const search = (q: string) =>
    searchThreads(core, { ...alice, policy: { codes: false } }, { q, limit: 9, sort: "relevance" });
  expect(await search("-pear")).not.toHaveProperty("notes");
  // Older conversations, as many as are read.
  copyThread(store.db.$client, [3, MOST_READ + 2], { last_message_at: "last_message_at - n" });
  expect(await search("-pear")).toMatchObject({
    notes: ["not all mail was searched, and the newest first: this key reads no codes"],
    threads: [{ subject: "Subject 1" }],
    unread: 1,
    nextCursor: null,
    sort: "newest",
  });
  expect(await search("plum")).toMatchObject({ threads: [{ subject: "Subject 1" }], sort: "newest" });
  // What asks for an address alone is hidden nowhere.
  expect(await search("-from:p0@remote.example in:inbox")).not.toHaveProperty("notes");
  expect(await searchThreads(core, alice, { q: "plum", limit: 1, sort: "relevance" })).toMatchObject({
    sort: "relevance",
  });
});
