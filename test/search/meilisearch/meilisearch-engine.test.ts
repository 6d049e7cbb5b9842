/** The queries that Meilisearch gets, the words in them, and the words that it found in their place. */
import { describe, expect, setDefaultTimeout, test } from "bun:test";
import fc from "fast-check";
import type { IndexDocument } from "../../../src/search/fold.ts";
import { foldDocument, foldText } from "../../../src/search/fold.ts";
import { exactQueries, looseQueries, nearestWords } from "../../../src/search/meilisearch/meilisearch-engine.ts";
import { PLAIN_FIELDS, toIndexedWord, toMessageDocument } from "../../../src/search/meilisearch/message-documents.ts";
import { parseQuery } from "../../../src/search/query.ts";
import { WHOLE_A } from "../../harness/data/search-seed.ts";

setDefaultTimeout(300_000);

const SCOPE = 'workspace = "wsp_a"';
const character = expect.stringMatching(/^"q4[0-9a-f]{4}"$/);

describe("exactQueries", () => {
  const asked = (q: string, scope = WHOLE_A) => exactQueries(parseQuery(q, 0).message, scope);
  const cases: [q: string, words: string, filter: string, open: number][] = [
    ["", "", SCOPE, 0],
    ["Pay amount", '"pay" "amount"', SCOPE, 0],
    ["pay pay", '"pay"', SCOPE, 0],
    ['"open amount"', '"open" "amount"', SCOPE, 1],
    ['pay -"open amount"', '"pay"', SCOPE, 1],
    ["-pay -subject:lunch", '-"pay" -"q1lunch"', SCOPE, 0],
    ["from:ann to:bob subject:hello", '"q2ann" "q3bob" "q1hello"', SCOPE, 0],
    ["filename:plan -filename:pdf", '"q6plan" -"q6pdf"', SCOPE, 0],
    ["larger:1k -larger:2k", "", `${SCOPE} AND size >= 1001 AND size < 2001`, 0],
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

  test("makes several queries of more words than the server reads, with exclusions in the first", () => {
    const { queries } = asked("a b c d e f g h i j k -l");
    expect(queries.map(({ q }) => q)).toEqual(['"a" "b" "c" "d" "e" "f" "g" "h" "i" "j" -"l"', '"k"']);
  });

  test("searches a long phrase by some of its words", () => {
    const { queries, open } = asked(`"${"會議記錄明天下午三點".repeat(9)}"`);
    expect(queries).toHaveLength(1);
    expect(queries[0]?.q.split(" ")).toEqual(Array(5).fill(character));
    expect(open).toHaveLength(1);
  });

  test("puts the access condition into every query", () => {
    const { queries } = asked("a b c d e f g h i j k", { mailboxIds: ["mbx_a1", "mbx_a2"] });
    expect(queries.map(({ filter }) => filter)).toEqual(Array(2).fill('mailbox IN ["mbx_a1","mbx_a2"]'));
  });
});

describe("looseQueries", () => {
  const asked = (q: string) => looseQueries(parseQuery(q, 0).message, WHOLE_A);
  test.each(['"quoted words"', 'pay "quoted"', "pay -amount", "会议", "has:attachment", "", "after:2025-01-01"])(
    "not %s",
    (q) => expect(asked(q)).toBeUndefined(),
  );
  test("searches words in their fields, in the scope", () => {
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
    .map((text) => foldText(text).split(" ")[0] ?? "");

  test("two tokens have the same word exactly if they are equal, in any field", () => {
    const field = fc.constantFrom("any", "subject", "sender", "recipients", "cc", "files" as const);
    const place = fc.tuple(fc.oneof(token, fc.constantFrom("q1", "q1ann", "q0", "ann", "q2ann")), field);
    fc.assert(
      fc.property(place, place, ([a, inA], [b, inB]) => {
        expect(toIndexedWord(a, inA) === toIndexedWord(b, inB)).toBe(a === b && inA === inB);
      }),
      { numRuns: 2_000 },
    );
  });

  test("words are letters and digits that the server keeps together, of a length it takes", () => {
    fc.assert(
      fc.property(token, (one) => {
        expect(toIndexedWord(one, "subject")).toMatch(/^[\p{L}\p{N}]+$/u);
        expect(Buffer.byteLength(toIndexedWord(one, "subject"))).toBeLessThan(250);
      }),
      { numRuns: 2_000 },
    );
  });

  test("a long body is spread over attributes, none of which has more words than the server reads", () => {
    const body = Array.from({ length: 200_000 }, (_, i) => `w${i}`).join(" ");
    const empty = { subject: "", sender: "", recipients: "", files: "" };
    const place = { seq: 1, workspaceId: "w", mailboxId: "m", date: 0, size: 0, hasAttachments: false };
    const document = toMessageDocument({ ...place, document: { ...empty, body } });
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
      cc: addresses,
      filenames: names,
    });
    const place = { seq: 1, workspaceId: "w", mailboxId: "m", date: 0, size: 0, hasAttachments: true };
    for (const [field, words] of Object.entries(toMessageDocument({ ...place, document }))) {
      if (typeof words === "string") expect([field, words.split(" ").length > 65_535]).toEqual([field, false]);
    }
  });
});

describe("nearestWords", () => {
  const EMPTY: IndexDocument = { subject: "", body: "", sender: "", recipients: "", files: "" };

  const cases: [q: string, document: Partial<IndexDocument>, words: string[]][] = [
    ["recieve paymnet", { body: "please receive the payment" }, ["receive", "payment"]],
    ["recieve recieve", { body: "receive" }, ["receive"]],
    // The nearer one wins, in either order.
    ["quartelyreport", { body: "quarterlyreports quarterlyreport" }, ["quarterlyreport"]],
    // A word that is present needs no replacement, and a short one cannot have a typo.
    ["invoice", { body: "invoices invoice" }, []],
    ["pay", { body: "pax" }, []],
    ["from:anabel", { sender: "annabel", body: "anable" }, ["annabel"]],
    ["subject:anabel", { sender: "annabel" }, []],
    ["drawign has:attachment 会", { files: "drawing pdf" }, ["drawing"]],
  ];
  test.each(cases)("%s", (q, document, words) => {
    expect(nearestWords(parseQuery(q, 0).message, { ...EMPTY, ...document })).toEqual(words);
  });

  test("compares a bounded number of words, for the oddest mail and the longest query", () => {
    const letters = [..."abcdefghijklmnopqrstuvwxyz"];
    const words = letters.flatMap((one) => letters.map((other) => `zz${one}${other}z`));
    const asked = words.slice(0, 80).map((word) => `y${word.slice(1, 4)}y`);
    const document = { ...EMPTY, body: `receive ${words.join(" ")}` };
    expect(nearestWords(parseQuery(`recieve ${asked.join(" ")}`, 0).message, document)).toEqual(["receive"]);
    expect(nearestWords(parseQuery(`${asked.join(" ")} recieve`, 0).message, document)).toEqual([]);
  });
});
