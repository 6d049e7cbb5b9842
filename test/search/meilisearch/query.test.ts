/** Queries for Meilisearch, and their words; with a real server, that it treats each word separately. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import { fold, foldDocument } from "../../../src/search/fold.ts";
import { createClient } from "../../../src/search/meilisearch/client.ts";
import {
  documentOf,
  INDEX_SETTINGS,
  type MessageDocument,
  PLAIN_FIELDS,
  wordOf,
} from "../../../src/search/meilisearch/documents.ts";
import { exactQueries, looseQueries } from "../../../src/search/meilisearch/query.ts";
import { parseQuery } from "../../../src/search/query.ts";
import { hasMeilisearch, sharedMeilisearch, WITHOUT_MEILISEARCH } from "../../harness/meilisearch.ts";
import { WHOLE_A } from "../seed.ts";
import { openRig } from "./rig.ts";

setDefaultTimeout(300_000);

const SCOPE = 'workspace = "wsp_a"';
const character = expect.stringMatching(/^"q4[0-9a-f]{4}"$/);

describe("exactly", () => {
  const asked = (q: string, scope = WHOLE_A) => exactQueries(parseQuery(q).message, scope);
  const cases: [q: string, words: string, filter: string, open: number][] = [
    ["", "", SCOPE, 0],
    ["Pay amount", '"pay" "amount"', SCOPE, 0],
    ["pay pay", '"pay"', SCOPE, 0],
    ['"open amount"', '"open" "amount"', SCOPE, 1],
    ['pay -"open amount"', '"pay"', SCOPE, 1],
    ["-pay -subject:lunch", '-"pay" -"q1lunch"', SCOPE, 0],
    ["from:ann to:bob subject:hello", '"q2ann" "q3bob" "q1hello"', SCOPE, 0],
    ["has:attachment", "", `${SCOPE} AND attachment = true`, 0],
    ["-has:attachment x", '"x"', `${SCOPE} AND attachment = false`, 0],
    ["after:1970-01-02 before:1970-01-03", "", `${SCOPE} AND date >= 86400000 AND date < 172800000`, 0],
    ["a b c d e f g h i j", '"a" "b" "c" "d" "e" "f" "g" "h" "i" "j"', SCOPE, 0],
  ];
  test.each(cases)("%s", (q, words, filter, open) => {
    const { queries, open: left } = asked(q);
    expect(queries).toEqual([{ q: words, filter }]);
    expect(left).toHaveLength(open);
  });

  test("more words than the server reads take several queries, with exclusions in the first", () => {
    const { queries } = asked("a b c d e f g h i j k -l");
    expect(queries.map(({ q }) => q)).toEqual(['"a" "b" "c" "d" "e" "f" "g" "h" "i" "j" -"l"', '"k"']);
  });

  test("a long phrase by some of its words", () => {
    const { queries, open } = asked(`"${"會議記錄明天下午三點".repeat(9)}"`);
    expect(queries).toHaveLength(1);
    expect(queries[0]?.q.split(" ")).toEqual(Array(5).fill(character));
    expect(open).toHaveLength(1);
  });

  test("every query contains the access condition", () => {
    const { queries } = asked("a b c d e f g h i j k", { mailboxIds: ["mbx_a1", "mbx_a2"] });
    expect(queries.map(({ filter }) => filter)).toEqual(Array(2).fill('mailbox IN ["mbx_a1","mbx_a2"]'));
  });
});

describe("loosely", () => {
  const asked = (q: string) => looseQueries(parseQuery(q).message, WHOLE_A);
  test.each(['"quoted words"', 'pay "quoted"', "pay -amount", "会议", "has:attachment", "", "after:2025-01-01"])(
    "not %s",
    (q) => expect(asked(q)).toBeUndefined(),
  );
  test("words by their fields, in the scope", () => {
    expect(asked("recieve from:ann.lee has:attachment 会")).toEqual([
      {
        q: expect.stringMatching(/^recieve "q4[0-9a-f]{4}"$/),
        filter: `${SCOPE} AND attachment = true`,
        fields: PLAIN_FIELDS,
      },
      { q: "ann lee", filter: `${SCOPE} AND attachment = true`, fields: ["sender"] },
    ]);
  });
});

describe("words", () => {
  const token = fc
    .string({ unit: "grapheme", minLength: 1, maxLength: 12 })
    .map((text) => fold(text).split(" ")[0] ?? "");

  test("two tokens have the same word exactly if they are equal, in any field", () => {
    const field = fc.constantFrom("any", "subject", "sender", "recipients" as const);
    const place = fc.tuple(fc.oneof(token, fc.constantFrom("q1", "q1ann", "q0", "ann", "q2ann")), field);
    fc.assert(
      fc.property(place, place, ([a, inA], [b, inB]) => {
        expect(wordOf(a, inA) === wordOf(b, inB)).toBe(a === b && inA === inB);
      }),
      { numRuns: 2_000 },
    );
  });

  test("words are letters and digits that the server keeps together, of a length it takes", () => {
    fc.assert(
      fc.property(token, (one) => {
        expect(wordOf(one, "subject")).toMatch(/^[\p{L}\p{N}]+$/u);
        expect(Buffer.byteLength(wordOf(one, "subject"))).toBeLessThan(250);
      }),
      { numRuns: 2_000 },
    );
  });

  test("a long body is spread over attributes, none of which has more words than the server reads", () => {
    const body = Array.from({ length: 200_000 }, (_, i) => `w${i}`).join(" ");
    const empty = { subject: "", sender: "", recipients: "", files: "" };
    const place = { seq: 1, workspaceId: "w", mailboxId: "m", date: 0, hasAttachments: false };
    const document = documentOf({ ...place, document: { ...empty, body } });
    const parts = PLAIN_FIELDS.map((field) => document[field]).filter((part) => typeof part === "string");
    expect(parts.filter((part) => part !== "").join(" ")).toBe(body);
    for (const part of parts) expect(part.split(" ").length).toBeLessThanOrEqual(65_535);
  });

  test("the longest lists and texts stay within that limit, too", () => {
    const characters = (from: number, count: number) =>
      Array.from({ length: count }, (_, i) => String.fromCodePoint(0x4e00 + ((from + i) % 20_000))).join("");
    const names = Array.from({ length: 1_000 }, (_, i) => characters(i * 320, 320));
    const addresses = names.map((name, i) => ({ email: `a${i}@例${i}.example`, name }));
    const document = foldDocument({
      subject: characters(0, 10_000),
      text: "",
      from: addresses.slice(0, 1),
      to: addresses,
      cc: [],
      filenames: names,
    });
    const place = { seq: 1, workspaceId: "w", mailboxId: "m", date: 0, hasAttachments: true };
    for (const [field, words] of Object.entries(documentOf({ ...place, document }))) {
      if (typeof words === "string") expect([field, words.split(" ").length > 65_535]).toEqual([field, false]);
    }
  });
});

describe(`with a real server${WITHOUT_MEILISEARCH}`, () => {
  test.skipIf(!hasMeilisearch)("every word is found by itself and by no other", async () => {
    const server = await sharedMeilisearch();
    const client = createClient(server, { requestMs: 60_000, taskMs: 60_000 });
    const index = `words-${process.pid}`;
    await client.make(index, INDEX_SETTINGS);
    const letters = [..."abcxyz019αβγωάбгяёйאבתשաբგვ会議東京のがカ회의ที่นี่น้ำनमस्तेﺍلعربيةه🎉👩ŋəﬁ"];
    const tokens = new Set<string>();
    const add = (text: string) => {
      for (const one of fold(text).split(" ")) if (one !== "") tokens.add(one);
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
    const place = { workspaceId: "wsp_a", mailboxId: "m", date: 0, hasAttachments: false };
    const documents: MessageDocument[] = all.map((subject, i) =>
      documentOf({ ...place, seq: i + 1, document: { ...document, subject } }),
    );
    await client.write(index, [], documents);
    const queries = all.flatMap((one) => [
      { q: `"${wordOf(one, "any")}"`, filter: SCOPE },
      { q: `"${wordOf(one, "subject")}"`, filter: SCOPE },
    ]);
    const found = await client.search(index, queries);
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
        const loose = await rig.joined.matchLoosely?.(parseQuery(q), scope);
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
