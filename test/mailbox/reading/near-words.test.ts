/**
 * Searches with an engine that forgives typos: the words that it reports, and access, which does not rely on the
 * engine.
 */
import { expect, test } from "bun:test";
import { searchThreads } from "../../../src/mailbox/reading/listing.ts";
import type { MailCore } from "../../../src/mailbox/state/mail-core.ts";
import { createFts5Engine } from "../../../src/search/fts5/fts5.ts";
import { threads } from "../../../src/store/schema.ts";
import { createAlice } from "../../harness/servers/mailbox-world.ts";

test("the words found instead are named and highlighted, page by page, only from mail in reach", async () => {
  const { core, store, alice, receive, world, workspaceId } = createAlice();
  const bob = world.user(workspaceId, "bob@example.test", "member");
  for (const n of [1, 2])
    await receive({ subject: `Invoice ${n}`, text: "Nothing else.", from: `p${n}@remote.example` });
  const everything = () =>
    store.db
      .select({ seq: threads.seq })
      .from(threads)
      .all()
      .map(({ seq }) => seq);
  const fts5 = createFts5Engine(store);
  const asked: string[] = [];
  const looked: (readonly number[])[] = [];
  const searching: MailCore = {
    ...core,
    engine: {
      ...fts5,
      isExternal: () => true,
      matchLoosely: async ({ message: [condition] }) => {
        if (condition?.kind !== "text") return undefined;
        asked.push(condition.text);
        if (condition.text === "unnamed") return { threads: everything(), wordsIn: async () => [] };
        const wordsIn = async (shown: readonly number[]) => {
          looked.push(shown);
          return ["invoice"];
        };
        return condition.text === "invioce" ? { threads: everything(), wordsIn } : undefined;
      },
    },
  };

  const first = await searchThreads(searching, alice, { q: "invioce", limit: 1 });
  expect(first).toMatchObject({
    nearWords: ["invoice"],
    threads: [{ subject: "Invoice 2", highlights: [{ field: "subject", snippet: "Invoice 2", ranges: [[0, 7]] }] }],
  });
  expect(first).not.toHaveProperty("suggestion");
  const second = await searchThreads(searching, alice, { q: "invioce", limit: 1, cursor: first.nextCursor ?? "" });
  expect(second).toMatchObject({ nearWords: ["invoice"], nextCursor: null, threads: [{ subject: "Invoice 1" }] });
  expect(looked).toEqual([[2], [1]]);

  // An engine that does not name its words.
  expect((await searchThreads(searching, alice, { q: "unnamed", limit: 1 })).threads[0]?.highlights).toEqual([]);

  const out = await searchThreads(searching, bob, { q: "invioce", limit: 1 });
  expect(out).toEqual({ threads: [], nextCursor: null, unread: 0 });

  // Nor may a key that reads no codes come near one.
  asked.length = 0;
  const withoutCodes = { ...alice, policy: { codes: false } };
  expect(await searchThreads(searching, withoutCodes, { q: "invioce", limit: 1 })).toEqual({
    threads: [],
    nextCursor: null,
    unread: 0,
  });
  expect(asked).toEqual([]);

  // Words that are found literally cause no loose search.
  asked.length = 0;
  expect(await searchThreads(searching, alice, { q: "invoice", limit: 1 })).not.toHaveProperty("nearWords");
  expect(asked).toEqual([]);
});
