import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { AppError } from "../../src/base/errors.ts";
import { foldText } from "../../src/search/fold.ts";
import {
  boundedEditDistance,
  listQueryWords,
  listWordsOneTypoAway,
  type MessageCondition,
  parseQuery,
  replaceInQuery,
  type TextCondition,
  type TextField,
  type ThreadCondition,
  withOperatorsCorrected,
} from "../../src/search/query.ts";
import { anyCharacter } from "../harness/mail/any-character.ts";

const text = (value: string, field: TextField = "any"): TextCondition => ({
  kind: "text",
  field,
  text: value,
  negated: false,
});
/** A quoted text. */
const quoted = (value: string, field: TextField = "any"): TextCondition => ({ ...text(value, field), exact: true });
const not = (condition: TextCondition): TextCondition => ({ ...condition, negated: true });
const label = (value: string): ThreadCondition => ({ kind: "label", label: value, negated: false });
const NOW = Date.UTC(2025, 2, 31, 17, 30);
const since = (day: string): MessageCondition => ({ kind: "since", at: Date.parse(`${day}T00:00:00Z`) });
const before = (day: string): MessageCondition => ({ kind: "before", at: Date.parse(`${day}T00:00:00Z`) });
const atLeast = (bytes: number): MessageCondition => ({ kind: "atLeast", bytes });
const below = (bytes: number): MessageCondition => ({ kind: "below", bytes });
const NEW_YEAR = Date.UTC(2025, 0, 1);

describe("parseQuery", () => {
  const cases: [q: string, message: MessageCondition[], thread?: ThreadCondition[]][] = [
    ["", []],
    ["   \t ", []],
    ['*** - ! -- "" -"…"', []],
    ["invoice March", [text("invoice"), text("March")]],
    ["請求書\u3000三月", [text("請求書"), text("三月")]],
    ['"two words" third', [quoted("two words"), text("third")]],
    ["“two words” third", [quoted("two words"), text("third")]],
    ['"open to the end', [quoted("open to the end")]],
    ['one"two three"four', [text("one"), quoted("two three"), text("four")]],
    ["e-mail", [text("e-mail")]],
    ["-spam", [not(text("spam"))]],
    ['-"not this"', [not(quoted("not this"))]],
    ["- spam", [text("spam")]],
    [
      "from:ann to:bob@example.com subject:hello",
      [text("ann", "sender"), text("bob@example.com", "recipients"), text("hello", "subject")],
    ],
    [
      'FROM:ann Subject:"a b" sUbJeCt:"open',
      [text("ann", "sender"), quoted("a b", "subject"), quoted("open", "subject")],
    ],
    ["-from:ann", [not(text("ann", "sender"))]],
    ["subject:🎉", [text("🎉", "subject")]],
    ["from: ann", [text("from:"), text("ann")]],
    ['from:"" ann', [text("from:"), text("ann")]],
    ["from:*** -to:", [text("from:***"), not(text("to:"))]],
    ["label:", [text("label:")]],
    ["bcc:ann https://example.com/x", [text("bcc:ann"), text("https://example.com/x")]],
    ['cc:ann -Filename:"a.pdf"', [text("ann", "cc"), not(quoted("a.pdf", "files"))]],
    ["ſubject:x", [text("ſubject:x")]],
    [
      "has:attachment -HAS:Attachment",
      [
        { kind: "attachment", negated: false },
        { kind: "attachment", negated: true },
      ],
    ],
    [
      "in:Spam -in:archive in:nowhere",
      [text("in:nowhere")],
      [
        { kind: "folder", folder: "spam", negated: false },
        { kind: "folder", folder: "archive", negated: true },
      ],
    ],
    ["larger:10k smaller:2M", [atLeast(10_001), below(2_000_000)]],
    ["-larger:1G -smaller:7 larger:3kb", [below(1_000_000_001), atLeast(7), atLeast(3_001)]],
    [
      "larger:1.5M larger:-1 smaller:k larger:",
      ["larger:1.5M", "larger:-1", "smaller:k", "larger:"].map((w) => text(w)),
    ],
    ["older_than:3d newer_than:2W", [before("2025-03-28"), since("2025-03-17")]],
    ["-older_than:0d -newer_than:1y", [since("2025-03-31"), before("2024-03-31")]],
    // A month that lacks the day.
    ["newer_than:1m newer_than:13m newer_than:4m", ["2025-02-28", "2024-02-29", "2024-11-30"].map(since)],
    ["newer_than:9999y newer_than:1950y", [since("-007974-03-31"), since("0075-03-31")]],
    ["newer_than:3 older_than:d newer_than:3h", ["newer_than:3", "older_than:d", "newer_than:3h"].map((w) => text(w))],
    ["has:pdf is:even -is:odd", [text("has:pdf"), text("is:even"), not(text("is:odd"))]],
    [
      "is:unread -is:starred",
      [],
      [
        { kind: "unread", negated: false },
        { kind: "starred", negated: true },
      ],
    ],
    [
      'label:Work -label:"To Do" label:!!!',
      [],
      [label("Work"), { kind: "label", label: "To Do", negated: true }, label("!!!")],
    ],
    [
      "after:2025-01-01 before:2025-01-01",
      [
        { kind: "since", at: NEW_YEAR },
        { kind: "before", at: NEW_YEAR },
      ],
    ],
    [
      "-after:2025-01-01 -Before:2025-01-01",
      [
        { kind: "before", at: NEW_YEAR },
        { kind: "since", at: NEW_YEAR },
      ],
    ],
    ['after:"2024-02-29"', [{ kind: "since", at: Date.UTC(2024, 1, 29) }]],
    // Terms that ask for the same are one.
    ["a Á a -a -ä subject:a", [text("a"), not(text("a")), text("a", "subject")]],
    ["-is:read is:unread", [], [{ kind: "unread", negated: false }]],
    ["is:READ", [], [{ kind: "unread", negated: true }]],
    ['a "a" is:unread IS:unread', [text("a"), quoted("a")], [{ kind: "unread", negated: false }]],
    ['from:a@b.example from:"a b example"', [text("a@b.example", "sender"), quoted("a b example", "sender")]],
    ["after: before:", [text("after:"), text("before:")]],
    ["AND OR NOT NEAR(a b)", ["AND", "OR", "NOT", "NEAR(a", "b)"].map((word) => text(word))],
  ];
  for (const [q, message, thread = []] of cases) {
    test(JSON.stringify(q), () => expect(parseQuery(q, NOW)).toMatchObject({ message, thread }));
  }
});

describe("notes", () => {
  const cases: [q: string, notes: string[]][] = [
    [
      "fro:ann -Bcc:bob",
      ['"fro:ann" was searched as text: fro: is no operator', '"-Bcc:bob" was searched as text: Bcc: is no operator'],
    ],
    [
      'fro:"ann lee" after_than:3d',
      [
        '"fro:" was searched as text: fro: is no operator',
        '"after_than:3d" was searched as text: after_than: is no operator',
      ],
    ],
    ["-has:pdf", ['"-has:pdf" was searched as text: has: takes attachment']],
    ["is:done", ['"is:done" was searched as text: is: takes unread, read, starred']],
    [
      "in:nowhere",
      ['"in:nowhere" was searched as text: in: takes inbox, sent, drafts, archive, spam, trash, starred, snoozed, all'],
    ],
    ["larger:abc", ['"larger:abc" was searched as text: larger: takes a number of bytes, k, M or G, as 10k']],
    ["newer_than:3", ['"newer_than:3" was searched as text: newer_than: takes a number of d, w, m or y, as 3d']],
    ["from: ann", ['"from:" was searched as text: from: needs a value right after it']],
    ["cc:***", ['"cc:***" was searched as text: cc: takes words']],
    ["fro:ann fro:ann", ['"fro:ann" was searched as text: fro: is no operator']],
    // Neither URLs, times and paths, nor what is quoted or has nothing after its colon.
    ['https://a.example 10:30 foo::bar C:\\x Re: "fro:ann" a:b ::: größe:x', []],
    ["from:ann to:b cc:c subject:s filename:f label:l has:attachment is:read in:spam larger:1 older_than:1d", []],
  ];
  test.each(cases)("%s", (q, notes) => expect(parseQuery(q, NOW).notes).toEqual(notes));

  test("are few and short", () => {
    const names = Array.from({ length: 40 }, (_, n) => `${"x".repeat(n + 2)}:${"😀".repeat(100)}`);
    const { notes } = parseQuery(names.join(" "), NOW);
    expect(notes).toHaveLength(5);
    expect(parseQuery(`${"x".repeat(499)}:y`, NOW).notes.join().length).toBeLessThan(200);
    for (const note of notes) {
      expect(note.isWellFormed()).toBe(true);
      expect(note.length).toBeLessThan(200);
    }
  });
});

describe("a bad date is refused and named", () => {
  for (const value of [
    "tomorrow",
    "2025-02-30",
    "2025-13-01",
    "2025-1-1",
    "2025-00-10",
    "25-01-01",
    "2025-01-01T00:00",
    "2025-01-01,",
    "-2025-01-01",
  ]) {
    for (const operator of ["before", "after", "-before"]) {
      test(`${operator}:${value}`, () => {
        let refusal: unknown;
        try {
          parseQuery(`word ${operator}:${value} word`, NOW);
        } catch (error) {
          refusal = error;
        }
        expect(refusal).toBeInstanceOf(AppError);
        expect((refusal as AppError).code).toBe("bad_request");
        expect((refusal as AppError).message).toContain(value);
      });
    }
  }
});

test("any text is a query, or is refused for its date", () => {
  const piece = fc.oneof(
    fc.string({ unit: anyCharacter }),
    fc.constantFrom(
      ...'-"“: ',
      "from:",
      "label:",
      "HAS:",
      "is:unread",
      "before:",
      "after:2025-01-01",
      ..."cc: filename: in: in:spam larger: smaller:1 older_than: newer_than:2w".split(" "),
      "ſubject:",
      "\ud800",
      "\0",
      "会议",
    ),
  );
  fc.assert(
    fc.property(fc.array(piece), (pieces) => {
      const q = pieces.join("");
      try {
        const { message, thread } = parseQuery(q, NOW);
        const texts = message.flatMap((condition) => (condition.kind === "text" ? [condition.text] : []));
        const labels = thread.flatMap((condition) => (condition.kind === "label" ? [condition.label] : []));
        const fromElsewhere = [...texts, ...labels].filter(
          (value) =>
            !q.includes(
              value.replace(/^(from|to|cc|subject|filename|has|is|in|larger|smaller|older_than|newer_than):/i, ""),
            ),
        );
        expect(fromElsewhere).toEqual([]);
      } catch (error) {
        if (!(error instanceof AppError)) throw error;
        expect(error.code).toBe("bad_request");
        expect(q).toMatch(/(before|after):/i);
      }
    }),
    { numRuns: 1_000 },
  );
});

describe("slipsBetween and oneSlipFrom", () => {
  test.each<[one: string, other: string, slips: number]>([
    ["word", "word", 0],
    ["word", "wrd", 1],
    ["wrd", "word", 1],
    ["word", "ward", 1],
    ["word", "wrod", 1],
    ["word", "ords", 2],
    ["ca", "abc", 3],
    ["abcdef", "badcfe", 3],
    ["", "abc", 3],
    ["größe", "grösse", 2],
    ["👩x", "x👩", 1],
  ])("%s and %s: %d", (one, other, slips) => {
    expect(boundedEditDistance(one, other, 5)).toBe(slips);
    expect(boundedEditDistance(other, one, 5)).toBe(slips);
    if (slips > 1) expect(boundedEditDistance(one, other, slips - 1)).toBe(slips);
  });

  test("give all words one slip away, and no others", () => {
    const word = fc.string({ unit: fc.constantFrom(..."abz"), minLength: 1, maxLength: 5 });
    fc.assert(
      fc.property(word, word, (one, other) => {
        expect(listWordsOneTypoAway(one).includes(other)).toBe(boundedEditDistance(one, other, 1) === 1);
      }),
    );
    expect(listWordsOneTypoAway("größe")).toEqual([]);
    expect(listWordsOneTypoAway("a1")).toEqual([]);
  });
});

test.each<[q: string, words: string[]]>([
  ["Invoice from:Ann -not", ["invoice any at Invoice", "ann sender at Ann"]],
  [
    'subject:"Größe, bitte" to:a@x.example',
    ["grosse subject at Größe", "bitte subject at bitte", "example recipients at example"],
  ],
  ["label:work is:unread has:attachment before:2025-01-01", []],
  ["ab 北京 a1b2 1234", []],
])("wordsOf finds the words of %s that may be misspelt", (q, words) => {
  expect(listQueryWords(q).map(({ word, field, start, end }) => `${word} ${field} at ${q.slice(start, end)}`)).toEqual(
    words,
  );
});

test.each<[q: string, corrected: string | undefined]>([
  ["form:ann x", "from:ann x"],
  ["-form:ann", "-from:ann"],
  ["frm:ann tp:bob", "from:ann to:bob"],
  ["hsa:atachment", "has:attachment"],
  ["is:UNRAED", "is:unread"],
  ["lable:work", "label:work"],
  ["afte:2025-01-01 befor:2026-01-01", "after:2025-01-01 before:2026-01-01"],
  ['form:"a b"', 'from:"a b"'],
  ['"form:ann"', undefined],
  ["form: ann", undefined],
  ["from:ann is:unread has:attachment", undefined],
  ["in:spma fliename:x newer-than:3d", "in:spam filename:x newer_than:3d"],
  ["im:inbox it:unread", "in:inbox is:unread"],
  ["has:pictures https://x.example 12:30 a:b", undefined],
  ["word for is", undefined],
])("withOperatorsCorrected corrects %s", (q, corrected) => {
  expect(withOperatorsCorrected(q)).toBe(corrected as string);
});

test("wordsOf gives the positions of words in any query", () => {
  fc.assert(
    fc.property(fc.string({ unit: anyCharacter, maxLength: 60 }), (q) => {
      const words = listQueryWords(q);
      for (const { word, start, end } of words) expect(foldText(q.slice(start, end))).toContain(word);
      expect(
        replaceInQuery(
          q,
          words.map(({ start, end }) => ({ start, end, text: q.slice(start, end) })),
        ),
      ).toBe(q);
      withOperatorsCorrected(q);
    }),
  );
});
