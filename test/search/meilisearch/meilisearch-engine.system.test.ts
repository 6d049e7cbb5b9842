/** A real Meilisearch server distinguishes the words, keeps them whole, and forgives typos. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import { foldText } from "../../../src/search/fold.ts";
import { createMeilisearchClient } from "../../../src/search/meilisearch/meilisearch-client.ts";
import {
  INDEX_SETTINGS,
  type MessageDocument,
  toIndexedWord,
  toMessageDocument,
} from "../../../src/search/meilisearch/message-documents.ts";
import { parseQuery } from "../../../src/search/query.ts";
import { WHOLE_A } from "../../harness/data/search-seed.ts";
import { hasMeilisearch, sharedMeilisearch, WITHOUT_MEILISEARCH } from "../../harness/peers/meilisearch.ts";
import { openRig } from "../../harness/servers/meilisearch-rig.ts";

setDefaultTimeout(300_000);

const SCOPE = 'workspace = "wsp_a"';

describe(`with a real server${WITHOUT_MEILISEARCH}`, () => {
  test.skipIf(!hasMeilisearch)("every word is found by itself and by no other", async () => {
    const server = await sharedMeilisearch();
    const client = createMeilisearchClient(server, { requestMs: 60_000, taskMs: 60_000, fetch });
    const index = `words-${process.pid}`;
    await client.make(index, INDEX_SETTINGS);
    const letters = [..."abcxyz019αβγωάбгяёйאבתשաբგვ会議東京のがカ회의ที่นี่น้ำनमस्तेﺍلعربيةه🎉👩ŋəﬁ"];
    const tokens = new Set<string>();
    const add = (text: string) => {
      for (const one of foldText(text).split(" ")) if (one !== "") tokens.add(one);
    };
    for (const letter of letters) {
      add(letter);
      add(letter.repeat(3));
      for (const other of letters) add(letter + other);
    }
    for (const text of [
      "ال",
      "العربية",
      "q1",
      "q2ann",
      "q0",
      "abc123def",
      "1e5",
      "0x1f",
      "007",
      "7",
      "camelCase",
      "a".repeat(64),
    ]) {
      add(text);
    }
    for (const text of ["б".repeat(64), "ა".repeat(64), "don't", "kg²", "½", "Ⅷ", "ﷺ", "ǅ"]) add(text);
    const all = [...tokens];
    const document = { sender: "", recipients: "", files: "", body: "" };
    const place = { workspaceId: "wsp_a", mailboxId: "m", date: 0, size: 0, hasAttachments: false };
    const documents: MessageDocument[] = all.map((subject, i) =>
      toMessageDocument({ ...place, seq: i + 1, document: { ...document, subject } }),
    );
    await client.write(index, [], documents);
    const queries = all.flatMap((one) => [
      { q: `"${toIndexedWord(one, "any")}"`, filter: SCOPE },
      { q: `"${toIndexedWord(one, "subject")}"`, filter: SCOPE },
    ]);
    const found: number[][] = [];
    // An answer has a bound of objects, far above what a search of ours asks.
    for (let at = 0; at < queries.length; at += 500) {
      found.push(...(await client.search(index, queries.slice(at, at + 500))));
    }
    const wrong = queries.flatMap(({ q }, i) =>
      `${found[i]}` === `${Math.floor(i / 2) + 1}` ? [] : [[q, all[i >> 1], found[i]]],
    );
    expect(wrong).toEqual([]);
    await client.drop(index);
  });

  test.skipIf(!hasMeilisearch)("adjacent words of several scripts stay unchanged", async () => {
    const words = ["ann", "7", "456ss", "βγ", "год", "აბ", "会"];
    const rig = openRig(
      await sharedMeilisearch(),
      words.flatMap((one) =>
        words.map((other) => ({
          thread: `${one} ${other}`,
          subject: one,
          text: `${one} ${other}`,
          from: { email: "nobody@example.test", name: other },
        })),
      ),
    );
    const having = (holds: (one: string, other: string) => boolean) =>
      words.flatMap((one) => words.filter((other) => holds(one, other)).map((other) => `${one} ${other}`));
    for (const word of [...words, "456", "ss"]) {
      expect(await rig.search(word)).toEqual(having((one, other) => one === word || other === word));
      expect(await rig.search(`subject:${word}`)).toEqual(having((one) => one === word));
      expect(await rig.search(`from:${word}`)).toEqual(having((_, other) => other === word));
    }
  });

  test.skipIf(!hasMeilisearch)(
    "typos are forgiven where nothing is found without, within what is reached",
    async () => {
      const rig = openRig(await sharedMeilisearch(), [
        {
          thread: "one",
          subject: "Quarterly invoice",
          text: "please receive the payment",
          from: { email: "annabel@example.com" },
        },
        { thread: "two", subject: "Something else", text: "a pinot noir", mailbox: "mbx_a2", files: ["drawing.pdf"] },
        { thread: "other", subject: "Quarterly invoice", mailbox: "mbx_b1" },
      ]);
      await rig.search("");
      const loosely = async (q: string, scope = WHOLE_A) => {
        const loose = await rig.joined.matchLoosely?.(parseQuery(q, 0), scope);
        return loose && { threads: loose.threads, words: await loose.wordsIn(loose.threads) };
      };
      expect(await rig.search("quartely")).toEqual([]);
      expect(await loosely("quartely")).toEqual({ threads: [1], words: ["quarterly"] });
      expect(await loosely("recieve paymnet")).toEqual({ threads: [1], words: ["receive", "payment"] });
      expect(await loosely("from:anabel")).toEqual({ threads: [1], words: ["annabel"] });
      expect(await loosely("subject:anabel")).toBeUndefined();
      expect(await loosely("drawign has:attachment")).toEqual({ threads: [2], words: ["drawing"] });
      expect(await loosely("pinotnoir")).toMatchObject({ threads: [2] });
      expect(await loosely("quartely elze")).toBeUndefined();
      expect(await loosely('"quartely"')).toBeUndefined();
      expect(await loosely("quartely", { mailboxIds: ["mbx_a2"] })).toBeUndefined();
      expect(await loosely("quartely", { mailboxIds: ["mbx_b1"] })).toMatchObject({ threads: [3] });
      expect(await loosely("quartely", { mailboxIds: [] })).toBeUndefined();
    },
  );
});
