/** Highlights: tables by field and language, and properties of every highlight. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { foldDocument, foldText } from "../../src/search/fold.ts";
import { createHighlighter, LONGEST_SNIPPET, type SearchedMessage } from "../../src/search/highlight.ts";
import { listConditionTokens, parseQuery } from "../../src/search/query.ts";
import { oddText } from "./odd-text.ts";

const PLENTY = 10_000_000;

const message = (parts: Partial<SearchedMessage> = {}): SearchedMessage => ({
  subject: "",
  text: "",
  from: { email: "nobody@remote.example" },
  to: [],
  cc: [],
  filenames: [],
  ...parts,
});

const highlightsOf = (q: string, parts: Partial<SearchedMessage>, work = { left: PLENTY }) =>
  createHighlighter(parseQuery(q, 0))?.(message(parts), work) ?? [];

/** `field: snippet`, with marked text in brackets. */
const marked = (q: string, parts: Partial<SearchedMessage>): string[] =>
  highlightsOf(q, parts).map(({ field, snippet, ranges }) => {
    let text = "";
    let at = 0;
    for (const [start, end] of ranges) {
      text += `${snippet.slice(at, start)}[${snippet.slice(start, end)}]`;
      at = end;
    }
    return `${field}: ${text}${snippet.slice(at)}`;
  });

const INVOICE: Partial<SearchedMessage> = {
  subject: "Invoice #1234 for March",
  text: "Please pay the open\n  amount of 99.50 EUR.\r\nThe invoice is attached.",
  from: { email: "ann@example.com", name: "Ann Lee" },
  to: [{ email: "bob@example.com", name: "Bob Stone" }, { email: "eve@example.com" }],
  cc: [{ email: "carol@例子.example" }],
  filenames: ["Rechnung_März-2025.pdf", "terms.pdf"],
};

describe("highlights in fields", () => {
  test.each<[q: string, highlights: string[]]>([
    ["amount", ["text: Please pay the open [amount] of 99.50 EUR. The invoice is attached."]],
    ['"OPEN amount"', ["text: Please pay the [open amount] of 99.50 EUR. The invoice is attached."]],
    ["99.50", ["text: Please pay the open amount of [99.50] EUR. The invoice is attached."]],
    ["pay eur", ["text: Please [pay] the open amount of 99.50 [EUR]. The invoice is attached."]],
    [
      "invoice",
      [
        "subject: [Invoice] #1234 for March",
        "text: Please pay the open amount of 99.50 EUR. The [invoice] is attached.",
      ],
    ],
    ["subject:invoice", ["subject: [Invoice] #1234 for March"]],
    ["subject:pay", []],
    ["from:ann", ["from: [Ann] Lee <[ann]@example.com>"]],
    ["from:ann@example.com", ["from: Ann Lee <[ann@example.com]>"]],
    ["from:ANN@EXAMPLE.COM", ["from: Ann Lee <[ann@example.com]>"]],
    ['from:"Ann Lee <ann@example.com>"', ["from: [Ann Lee <ann@example.com]>"]],
    ["to:eve", ["to: [eve]@example.com"]],
    ["to:example.com", ["to: Bob Stone <bob@[example.com]>"]],
    ["to:carol@xn--fsqu00a.example", ["cc: [carol@例子.example]"]],
    ["to:carol@例子.example", ["cc: [carol@例子.example]"]],
    ["to:xn--fsqu00a", ["cc: carol@[xn--fsqu00a].example"]],
    ["cc:carol", ["cc: [carol]@例子.example"]],
    ["cc:carol@例子.example", ["cc: [carol@例子.example]"]],
    ["cc:eve", []],
    ["filename:pdf", ["attachment: Rechnung_März-2025.[pdf]"]],
    ["filename:pay", []],
    ["例子", ["cc: carol@[例子].example"]],
    ["to:ann", []],
    ["from:bob", []],
    ["marz", ["attachment: Rechnung_[März]-2025.pdf"]],
    ["terms.pdf", ["attachment: [terms.pdf]"]],
    ["terms rechnung", ["attachment: [Rechnung]_März-2025.pdf", "attachment: [terms].pdf"]],
    // Every condition is shown before any is shown twice.
    ["invoice eve terms", ["subject: [Invoice] #1234 for March", "to: [eve]@example.com", "attachment: [terms].pdf"]],
    ["pay -amount", ["text: Please [pay] the open amount of 99.50 EUR. The invoice is attached."]],
    ["-amount", []],
    ["has:attachment is:unread after:2025-01-01 label:x", []],
    ["***", []],
  ])("%s", (q, highlights) => {
    expect(marked(q, INVOICE)).toEqual(highlights);
  });
});

test.each<[q: string, text: string, highlights: string]>([
  ["strasse", "In der Straße.", "In der [Straße]."],
  ["STRAẞE", "in der strasse", "in der [strasse]"],
  ["cafe", "Zum Cafe\u0301!", "Zum [Cafe\u0301]!"],
  ["café", "ZUM CAFÉ", "ZUM [CAFÉ]"],
  ["final", "ﬁnal ﬀ", "[ﬁnal] ﬀ"],
  ["full width", "ＦＵＬＬ ｗｉｄｔｈ", "[ＦＵＬＬ] [ｗｉｄｔｈ]"],
  ["北京", "明天下午三点在北京开会", "明天下午三点在[北京]开会"],
  ["ﾀﾜｰ", "東京タワーで", "東京[タワー]で"],
  ["회의", "회사에서 회의를", "회사에서 [회의]를"],
  ["น้ำ", "ที่นี่มีน้ำสะอาด", "ที่นี่มี[น้ำ]สะอาด"],
  ["🎉", "Party 🎉🎂", "Party [🎉]🎂"],
  ["👩", "x👩🏽y", "x[👩🏽]y"],
  ["invoice", "your in\u00advoi\u200bce", "your [invoice]"],
  ["שלום", "שָׁלוֹם לכולם", "[שָׁלוֹם] לכולם"],
  ["istanbul ilik", "İstanbul'da ılık", "[İstanbul]'da [ılık]"],
  ["οδοσ", "ο ΟΔΟΣ", "ο [ΟΔΟΣ]"],
  ['"open amount"', "open:\0\n -- amount", "[open: -- amount]"],
  ["pay", "repay paying pay", "repay paying [pay]"],
  ["a", "aa ab a", "aa ab [a]"],
  ["ab", "a\u0301b äb ab", "[a\u0301b] [äb] [ab]"],
])("%s in %p", (q, text, highlights) => {
  expect(marked(q, { text })).toEqual([`text: ${highlights}`]);
});

describe("snippets", () => {
  const around = `${"before ".repeat(100)}needle ${"behind ".repeat(100)}`;

  test("begin and end between words", () => {
    const [highlight] = highlightsOf("needle", { text: around });
    expect(highlight?.snippet).toMatch(/^…(before )+needle (behind )+behind…$/);
    expect(highlight?.snippet.length).toBeLessThanOrEqual(LONGEST_SNIPPET);
  });

  test("show several positions, one for each condition", () => {
    const text = `${around}${"x ".repeat(500)}${around.replace("needle", "thread")}`;
    expect(highlightsOf("thread needle", { text }).map(({ snippet }) => snippet.match(/needle|thread/)?.[0])).toEqual([
      "thread",
      "needle",
    ]);
  });

  test("are at most three for a message", () => {
    const words = ["one", "two", "three", "four", "five"];
    const text = words.map((word) => word + " -".repeat(500)).join(" ");
    expect(highlightsOf(words.join(" "), { text })).toHaveLength(3);
  });

  test("show a phrase whose words lie far apart", () => {
    const text = `x open${" .".repeat(400)} amount y`;
    expect(highlightsOf('"open amount"', { text })).toEqual([{ field: "text", snippet: "x open…", ranges: [[2, 6]] }]);
  });

  test("show a token that is cut in the index", () => {
    const blob = "ab12".repeat(100);
    const [highlight] = highlightsOf(blob.slice(0, 64), { text: `key ${blob} end` });
    expect(highlight).toMatchObject({ snippet: `key ${blob.slice(0, LONGEST_SNIPPET - 6)}…`, ranges: [[4, 158]] });
  });

  test("show the end of a long address that matches there", () => {
    const email = `${"a".repeat(200)}@example.com`;
    const [highlight] = highlightsOf(`from:${email}`, { from: { email, name: "Ann" } });
    const { snippet = "", ranges: [range] = [] } = highlight ?? {};
    expect(snippet.length).toBeLessThanOrEqual(LONGEST_SNIPPET);
    expect(range?.[1]).toBeLessThanOrEqual(snippet.length);
  });
});

test("a used-up budget ends the search for matches", () => {
  const text = `${"é ".repeat(50_000)} Größe`;
  expect(highlightsOf("grosse", { text })).toHaveLength(1);
  const work = { left: 10_000 };
  expect(highlightsOf("grosse", { text }, work)).toEqual([]);
  expect(work.left).toBeGreaterThan(-1_000);
  // Even a short address costs work: its domain must be read in all forms.
  const to = Array.from({ length: 1_000 }, () => ({ email: "a@é" }));
  expect(highlightsOf("ann", { to: [...to.slice(1), { email: "ann@é" }] })).toHaveLength(1);
  expect(highlightsOf("ann", { to: [...to.slice(1), { email: "ann@é" }] }, { left: 40_000 })).toEqual([]);
});

test("words that an engine found in place of the query's are highlighted", () => {
  // Together with the query's own words that are present.
  const beside = createHighlighter(parseQuery("invioce amount", 0), ["invoice"]);
  expect(beside?.(message(INVOICE), { left: PLENTY }).map(({ ranges }) => ranges)).toEqual([
    [[0, 7]],
    [
      [20, 26],
      [45, 52],
    ],
  ]);
  const highlight = createHighlighter(parseQuery("invioce subject:x -old", 0), ["invoice", "März"]);
  expect(highlight?.(message(INVOICE), { left: PLENTY }).map(({ field }) => field)).toEqual([
    "subject",
    "text",
    "attachment",
  ]);
});

/** True if the index finds the message: compares fold.ts's document as FTS5 does. */
function isFound(q: string, parts: SearchedMessage): boolean {
  const document = foldDocument({ ...parts, from: [parts.from] });
  const { subject, body, sender, recipients, files } = document;
  const columns = {
    any: [subject, body, sender, recipients, files],
    subject: [subject],
    sender: [sender],
    recipients: [recipients],
    cc: [recipients],
    files: [files],
  };
  return parseQuery(q, 0).message.every((condition) => {
    if (condition.kind !== "text") return true;
    const sought = ` ${listConditionTokens(condition).join(" ")} `;
    return columns[condition.field].some((column) => ` ${column} `.includes(sought)) !== condition.negated;
  });
}

describe("for any message and any words of it", () => {
  const address = fc.record({
    email: fc
      .tuple(oddText(3), fc.constantFrom("example.com", "例子.example", "xn--fsqu00a.example"))
      .map((parts) => parts.join("@")),
    name: oddText(4),
  });
  const anyMessage = fc.record({
    subject: oddText(20),
    text: fc.array(oddText(30), { maxLength: 8 }).map((parts) => parts.join(" -- ".repeat(30))),
    from: address,
    to: fc.array(address, { maxLength: 2 }),
    cc: fc.array(address, { maxLength: 2 }),
    filenames: fc.array(oddText(6), { maxLength: 2 }),
  });
  /** A piece of one of its texts as a query. */
  const asked = anyMessage.chain((parts) => {
    const texts = [
      parts.subject,
      parts.text,
      parts.from.email,
      parts.from.name,
      ...parts.filenames,
      ...parts.to.map(({ email }) => email),
    ];
    return fc.record({
      parts: fc.constant(parts),
      q: fc
        .tuple(
          fc.constantFrom("", "", "from:", "to:", "subject:"),
          fc.constantFrom(...texts),
          fc.nat(200),
          fc.integer({ min: 1, max: 12 }),
        )
        .map(([operator, text, from, length]) => {
          const begin = text.length === 0 ? 0 : from % text.length;
          return `${operator}"${text.slice(begin, begin + length).replaceAll(/["“”„]/g, "")}"`;
        }),
    });
  });

  test("every match is highlighted, and every highlight is a match", () => {
    fc.assert(
      fc.property(asked, ({ parts, q }) => {
        const positive = parseQuery(q, 0).message.some(({ kind }) => kind === "text");
        const highlights = highlightsOf(q, parts);
        if (isFound(q, parts)) expect(highlights.length > 0).toBe(positive);
        const [condition] = parseQuery(q, 0).message;
        const sought = condition?.kind === "text" ? foldText(condition.text) : "";
        for (const { snippet, ranges } of highlights) {
          expect(snippet.length).toBeLessThanOrEqual(LONGEST_SNIPPET);
          expect(snippet).not.toMatch(/[\n\r\t]/);
          expect(snippet.isWellFormed()).toBe(true);
          expect(ranges.length).toBeGreaterThan(0);
          let last = 0;
          for (const [start, end] of ranges) {
            expect(start).toBeGreaterThanOrEqual(last);
            expect(end).toBeGreaterThan(start);
            expect(end).toBeLessThanOrEqual(snippet.length);
            last = end;
            const found = snippet.slice(start, end);
            expect(found.isWellFormed()).toBe(true);
            expect(` ${foldText(found)} `).toContain(` ${sought} `);
          }
        }
      }),
      { numRuns: 100 },
    );
  });
});
