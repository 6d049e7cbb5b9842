/** Searches by relevance: the same conversations as newest first, with the best matches before the others. */
import { describe, expect, test } from "bun:test";
import { updateThread } from "../../../src/mailbox/changing/threads.ts";
import { listThreads, searchThreads } from "../../../src/mailbox/reading/listing.ts";
import type { MailCore } from "../../../src/mailbox/state/mail-core.ts";
import type { ThreadFilters, ThreadListView } from "../../../src/mailbox/state/views.ts";
import type { Ranked } from "../../../src/search/engine.ts";
import { createFts5Engine } from "../../../src/search/fts5/fts5.ts";
import { createSeqSet } from "../../../src/search/sets.ts";
import { START } from "../../harness/runtime.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";
import { copyThread } from "../copied-threads.ts";

const at = (minutes: number) => new Date(START - minutes * 60_000).toUTCString();

const subjectsOf = ({ threads }: ThreadListView): string[] => threads.map(({ subject }) => subject);

/** Page by page. */
async function pagesOf(
  search: (filters: { cursor: string | undefined }) => Promise<ThreadListView>,
): Promise<ThreadListView[]> {
  const pages: ThreadListView[] = [];
  let cursor: string | undefined;
  do {
    const page = await search({ cursor });
    pages.push(page);
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return pages;
}

/** Newest first: a, b, c, … Later ones mention maples more often. */
async function maples(count = 6) {
  const world = createAlice();
  const ids: string[] = [];
  for (let i = 0; i < count; i++) {
    const text = `${"maple ".repeat(i + 1)}${"and other trees ".repeat(10)}`;
    const subject = String.fromCharCode(97 + i);
    ids.push((await world.receive({ subject, text, date: at(i), from: `${subject}@remote.example` })).threadId);
  }
  const search = ({ q = "maple", ...filters }: Partial<ThreadFilters> = {}) =>
    searchThreads(world.core, world.alice, { q, sort: "relevance", limit: 100, ...filters });
  return {
    ...world,
    ids,
    search,
    subjects: async (filters?: Partial<ThreadFilters>) => subjectsOf(await search(filters)),
  };
}

describe("the order", () => {
  test("is best first; newest first without sort or with sort=newest; the response names the requested one", async () => {
    const { search, subjects } = await maples();
    expect(await subjects()).toEqual(["f", "e", "d", "c", "b", "a"]);
    expect(await subjects({ sort: "newest" })).toEqual(["a", "b", "c", "d", "e", "f"]);
    expect(await subjects({ sort: undefined })).toEqual(["a", "b", "c", "d", "e", "f"]);
    expect(await search()).toMatchObject({ sort: "relevance", nextCursor: null, unread: 6 });
    expect(await search({ sort: "newest" })).toMatchObject({ sort: "newest" });
    expect(await search({ sort: undefined })).not.toHaveProperty("sort");
  });

  test("is newest first among equals", async () => {
    const { receive, subjects } = await maples(0);
    for (const [i, name] of ["x", "y", "z"].entries()) {
      await receive({ subject: name, text: "maple", date: at(i === 1 ? 0 : i + 1), from: `${name}@remote.example` });
    }
    expect(await subjects()).toEqual(["y", "x", "z"]);
  });

  const wordless = ["", "after:2020-01-01", "is:unread", "label:none", "-oak", "-from:b", "***"];
  test.each(wordless)("is newest first without words: %j", async (q) => {
    const { search } = await maples();
    const { sort, ...given } = await search({ q });
    expect(sort).toBe("newest");
    expect(given).toEqual(await search({ q, sort: undefined }));
  });

  test("holds for lists with q, in their folders", async () => {
    const { core, alice, ids, subjects } = await maples();
    const [a = "", b = "", c = ""] = ids;
    updateThread(core, alice, a, { folder: "archive", addLabels: ["Tree"] });
    updateThread(core, alice, b, { folder: "spam" });
    updateThread(core, alice, c, { read: true, starred: true, addLabels: ["tree"] });
    const listed = async (filters: Partial<ThreadFilters>) =>
      subjectsOf(await listThreads(core, alice, { q: "maple", sort: "relevance", limit: 100, ...filters }));
    expect(await listed({})).toEqual(["f", "e", "d", "c", "a"]);
    expect(await listed({ folder: "inbox" })).toEqual(["f", "e", "d", "c"]);
    expect(await listed({ folder: "spam" })).toEqual(["b"]);
    expect(await listed({ unread: true })).toEqual(["f", "e", "d", "a"]);
    expect(await listed({ label: "TREE" })).toEqual(["c", "a"]);
    expect(await subjects({ q: "maple is:starred" })).toEqual(["c"]);
    expect(await subjects({ q: "maple -is:unread" })).toEqual(["c"]);
    expect(await subjects({ q: "maple -label:tree" })).toEqual(["f", "e", "d"]);
    // Without q there is nothing to rank.
    const plain = await listThreads(core, alice, { sort: "relevance", limit: 100 });
    expect(subjectsOf(plain)).toEqual(["c", "d", "e", "f"]);
    expect(plain.sort).toBe("newest");
  });
});

describe("pages", () => {
  test("have every conversation once, with the same unread count", async () => {
    const { core, alice, ids, search } = await maples(9);
    updateThread(core, alice, ids[3] ?? "", { read: true });
    const whole = await search();
    for (const limit of [1, 2, 4, 9]) {
      const pages = await pagesOf((filters) => search({ ...filters, limit }));
      expect(pages.flatMap(({ threads }) => threads)).toEqual(whole.threads);
      expect(pages.map(({ unread }) => unread)).toEqual(pages.map(() => 8));
    }
  });

  test("continue after the last shown one, whatever arrived or was removed meanwhile", async () => {
    const { core, alice, ids, receive, search, subjects } = await maples();
    const { nextCursor } = await search({ limit: 2 });
    const rest = () => subjects({ cursor: nextCursor ?? "" });
    expect(await rest()).toEqual(["d", "c", "b", "a"]);
    // Mail that comes before them is not shown, and nothing is shown twice.
    await receive({ subject: "maple", text: "maple", from: "new@remote.example", date: at(0) });
    expect((await subjects())[0]).toBe("maple");
    expect(await rest()).toEqual(["d", "c", "b", "a"]);
    updateThread(core, alice, ids[2] ?? "", { folder: "trash" });
    expect(await rest()).toEqual(["d", "b", "a"]);
  });

  test("continue at its place if the last shown one is gone", async () => {
    const { core, alice, ids, search, subjects } = await maples();
    const { nextCursor } = await search({ limit: 2 });
    const rest = () => subjects({ cursor: nextCursor ?? "" });
    updateThread(core, alice, ids[4] ?? "", { folder: "trash" });
    expect(await rest()).toEqual(["d", "c", "b", "a"]);
    for (const id of ids) updateThread(core, alice, id, { folder: "trash" });
    expect(await rest()).toEqual([]);
  });

  test("belong to their order and query", async () => {
    const { search } = await maples();
    const codeOf = async (filters: Partial<ThreadFilters>) =>
      search({ limit: 2, ...filters }).then(
        () => "",
        (error) => error.code,
      );
    for (const sort of ["relevance", "newest"] as const) {
      const cursor = (await search({ sort, limit: 2 })).nextCursor ?? "";
      expect(await codeOf({ sort, cursor })).toBe("");
      expect(await codeOf({ sort: sort === "newest" ? "relevance" : "newest", cursor })).toBe("bad_request");
      expect(await codeOf({ sort, cursor, q: "tree" })).toBe("bad_request");
    }
    // Omitting it means newest first.
    const cursor = (await search({ sort: undefined, limit: 2 })).nextCursor ?? "";
    expect(await codeOf({ sort: "newest", cursor })).toBe("");
  });
});

/**
 * A mailbox with that many conversations, named by number. The first is the oldest and the only one with the word. The
 * engine finds all of them and ranks as told.
 */
async function crowd(count: number) {
  const world = createAlice();
  const { core, store, alice, receive } = world;
  await receive({ subject: "1", text: "word", date: at(0) });
  const ascending = { subject: "n", unread: "n % 2", last_message_at: "last_message_at + n" };
  copyThread(store.db.$client, [2, count], ascending);
  const all = Array.from({ length: count }, (_, i) => i + 1);
  const told: { ranked: Ranked[] | undefined; asked: boolean[]; candidates: readonly number[] } = {
    ranked: [],
    asked: [],
    candidates: [],
  };
  const searching: MailCore = {
    ...core,
    engine: {
      ...createFts5Engine(core.store),
      isExternal: () => true,
      match: ({ message: [condition] }) =>
        condition?.kind === "text" && condition.text === "typo" ? createSeqSet([]) : createSeqSet(all),
      matchLoosely: async () => ({ threads: all, wordsIn: async () => ["word"] }),
      rank: async (_query, _scope, found, isLoose) => {
        told.asked.push(isLoose);
        told.candidates = found;
        return told.ranked;
      },
    },
  };
  const asked = ({ q = "word", ...filters }: Partial<ThreadFilters> = {}) =>
    searchThreads(searching, alice, { q, sort: "relevance", limit: 100, ...filters });
  return { ...world, told, newest: all.toReversed(), asked };
}

describe.each([40, 1_200])("with %i conversations found", (count) => {
  const best: Ranked[] = [7, 30, 2, 19, 25].map((thread, i) => ({ thread, score: 1 - i / 10 }));

  test("those that the engine ranks come first, once each, and then the others", async () => {
    const { told, asked, newest } = await crowd(count);
    told.ranked = best;
    const order = [7, 30, 2, 19, 25, ...newest.filter((n) => ![7, 30, 2, 19, 25].includes(n))].map(String);
    for (const limit of [3, 5, 100]) {
      const pages = await pagesOf((filters) => asked({ ...filters, limit }));
      expect(pages.flatMap(subjectsOf)).toEqual(order);
      expect(new Set(pages.map(({ unread }) => unread))).toEqual(new Set([count / 2]));
    }
    expect(subjectsOf(await asked({ unread: true, limit: 4 }))).toEqual(["7", "19", "25", String(count - 1)]);
  });

  test("equals are newest first in spite of the engine's own order", async () => {
    const { told, asked } = await crowd(count);
    told.ranked = [
      { thread: 7, score: 0.5 },
      { thread: 30, score: 0.5 },
      { thread: 12, score: 0.9 },
    ];
    expect(subjectsOf(await asked({ limit: 4 }))).toEqual(["12", "30", "7", String(count)]);
  });

  test("similar words are ranked, too", async () => {
    const { told, asked } = await crowd(count);
    told.ranked = best;
    const answer = await asked({ q: "typo", limit: 2 });
    expect([subjectsOf(answer), answer.nearWords]).toEqual([["7", "30"], ["word"]]);
    expect(told.asked).toEqual([true]);
    told.ranked = undefined;
    expect(subjectsOf(await asked({ q: "typo", limit: 2 }))).toEqual([String(count), String(count - 1)]);
  });

  test("if the engine cannot rank, the embedded index does", async () => {
    const { told, asked } = await crowd(count);
    told.ranked = undefined;
    expect(subjectsOf(await asked({ limit: 2 }))).toEqual(["1", String(count)]);
  });

  test("the best of a folder come first, although more in other folders are better", async () => {
    const { store, told, asked, newest } = await crowd(count);
    store.db.$client.run("UPDATE threads SET folder = 'archive' WHERE seq IN (4, 9, 11)");
    const last = [9, 4, 11];
    told.ranked = [...newest.filter((n) => !last.includes(n)), ...last].map((thread, i) => ({ thread, score: -i }));
    expect(subjectsOf(await asked({ folder: "archive" }))).toEqual(last.map(String));
  });

  test("in a list of unread ones, only those are ranked", async () => {
    const { told, asked } = await crowd(count);
    const odd = Array.from({ length: count / 2 }, (_, i) => 2 * i + 1);
    for (const filters of [{ unread: true }, { q: "word is:unread" }]) {
      await asked(filters);
      expect(told.candidates).toEqual(odd);
    }
  });

  test("an engine that names conversations not found or out of reach adds none to the list", async () => {
    const { told, asked, world } = await crowd(count);
    const other = world.workspace("Other", "other.test");
    await world.file(world.box(other, "bob@other.test"), { subject: "secret" });
    told.ranked = [{ thread: count + 1, score: 1 }, { thread: 0, score: 1 }, { thread: -1, score: 1 }, ...best];
    expect(subjectsOf(await asked({ limit: 3 }))).toEqual(["7", "30", "2"]);
  });
});
