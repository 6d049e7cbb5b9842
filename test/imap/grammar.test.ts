/** The grammar of commands (RFC 9051 §9), and how they are read from a connection. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  decodeUtf7,
  encodeUtf7,
  formatImapDateTime,
  formatSequenceSet,
  isInSequenceSet,
  keywordToLabel,
  labelToKeyword,
  Malformed,
  Parser,
  quoteImapText,
} from "../../src/imap/grammar.ts";
import { createImapCommandReader, type Read } from "../../src/imap/lines.ts";

const parser = (text: string) => new Parser({ text, literals: new Map() });
/** Control characters, ASCII and some of other scripts. */
const character = fc.integer({ min: 0, max: 0x2fff }).map((code) => String.fromCodePoint(code));
const LIMITS = { command: 1_000, large: () => 5_000, takesLarge: (text: string) => /^\S+ APPEND /i.test(text) };

/** Everything that a client's octets give, in pieces of that size. */
function readAll(octets: string, piece = 7): Read[] {
  const lines = createImapCommandReader(LIMITS);
  const found: Read[] = [];
  const bytes = Buffer.from(octets, "latin1");
  for (let i = 0; i < bytes.length; i += piece) {
    lines.push(bytes.subarray(i, i + piece));
    for (let one = lines.next(); one; one = lines.next()) found.push(one);
  }
  return found;
}

describe("commands from a connection", () => {
  for (const piece of [1, 3, 1_000]) {
    test(`lines and literals, ${piece} octets at a time`, () => {
      const [first, waits, second, third, ...rest] = readAll('a NOOP\r\nb LOGIN {3}\r\nx"y {2+}\r\nok\r\nc X\n', piece);
      expect(rest).toEqual([]);
      expect(first).toEqual({ command: { text: "a NOOP", literals: new Map() } });
      expect(waits).toEqual({ waits: true });
      expect(second && "command" in second && second.command.text).toBe("b LOGIN {3} {2+}");
      expect(third && "command" in third && third.command.text).toBe("c X");
      const command = second && "command" in second ? new Parser(second.command) : undefined;
      expect([
        command?.tag(),
        command?.space(),
        command?.atom(),
        command?.space(),
        command?.astring(),
        command?.space(),
        command?.astring(),
      ]).toEqual(["b", undefined, "LOGIN", undefined, 'x"y', undefined, "ok"]);
    });
  }

  test("what is too long is refused before it is kept", () => {
    expect(readAll(`a ${"x".repeat(1_100)}`)).toContainEqual({
      refused: "BAD The command is too long",
      tag: "*",
      ends: true,
    });
    const refused = "BAD The literal is too long";
    expect(readAll("a LOGIN {1001}\r\n")).toEqual([{ refused, tag: "a", ends: false }]);
    expect(readAll("a LOGIN {1001+}\r\n")).toEqual([{ refused, tag: "a", ends: true }]);
    expect(readAll("a APPEND INBOX {5001}\r\n")).toEqual([
      { refused: "NO [TOOBIG] The message is too large", tag: "a", ends: false },
    ]);
    expect(readAll("a APPEND INBOX {4097+}\r\n")).toEqual([
      { refused: "BAD [TOOBIG] The message is too large", tag: "a", ends: true },
    ]);
    expect(readAll(`a APPEND INBOX {5000}\r\n${"y".repeat(5_000)}\r\nb NOOP\r\n`, 100)).toMatchObject([
      { waits: true, large: 5_000 },
      { command: { text: "a APPEND INBOX {5000}" } },
      { command: { text: "b NOOP" } },
    ]);
    // One large literal for a command.
    expect(readAll(`a APPEND {5}\r\nINBOX {5000}\r\n${"y".repeat(5_000)} {5000}\r\n`, 100)).toEqual([
      { waits: true },
      { waits: true, large: 5_000 },
      { refused: "BAD The literal is too long", tag: "a", ends: false },
    ]);
  });

  test("many small literals together are bounded", () => {
    const found = readAll(`a X${" {400+}\r\n".concat("z".repeat(400)).repeat(3)}`);
    expect(found).toMatchObject([{ ends: true }]);
  });
});

test("sequence sets", () => {
  const last = Number.POSITIVE_INFINITY;
  expect(parser("7,3:1,*:9,*").sequenceSet()).toEqual([
    [1, 3],
    [7, 7],
    [9, last],
  ]);
  expect(parser("*").sequenceSet()).toEqual([[last, last]]);
  expect(parser("1:20,5:7,21,19:30,1:20").sequenceSet()).toEqual([[1, 30]]);
  const set = parser("7,3:4,9:*").sequenceSet();
  expect([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 4_294_967_295].filter((number) => isInSequenceSet(set, number))).toEqual([
    3, 4, 7, 9, 10, 4_294_967_295,
  ]);
  for (const bad of ["0", "1:0", "", "a", "4294967296"]) expect(() => parser(bad).sequenceSet()).toThrow(Malformed);
  expect(formatSequenceSet([1, 2, 3, 5, 7, 8])).toBe("1:3,5,7:8");
});

for (const [text, items] of [
  ["FLAGS", [{ item: "FLAGS" }]],
  ["(UID rfc822.size)", [{ item: "UID" }, { item: "RFC822.SIZE" }]],
  ["FAST", [{ item: "FLAGS" }, { item: "INTERNALDATE" }, { item: "RFC822.SIZE" }]],
  ["BODY", [{ item: "BODY" }]],
  ["BODY[]", [{ item: "SECTION", name: "BODY[]", section: { part: [] }, peek: false }]],
  [
    "BODY.PEEK[1.2.MIME]<0.100>",
    [
      {
        item: "SECTION",
        name: "BODY[1.2.MIME]",
        section: { part: [1, 2], text: "MIME" },
        peek: true,
        partial: [0, 100],
      },
    ],
  ],
  [
    'BODY[HEADER.FIELDS (From "To")]',
    [
      {
        item: "SECTION",
        name: "BODY[HEADER.FIELDS (From To)]",
        section: { part: [], text: "HEADER.FIELDS", fields: ["From", "To"] },
        peek: false,
      },
    ],
  ],
  ["BINARY.SIZE[2]", [{ item: "BINARY.SIZE", part: [2] }]],
] as const) {
  test(`items of FETCH: ${text}`, () => {
    const read = parser(text);
    expect(read.fetchItems()).toEqual(items as never);
    read.end();
  });
}

test("what is no item of FETCH", () => {
  for (const bad of [
    "()",
    "BODY[MIME]",
    "BODY[1.]",
    "BODY.PEEK",
    "BODY[]<0.0>",
    "X",
    "(UID",
    "BODY[HEADER.FIELDS ()]",
    "BODY[0]",
  ]) {
    expect(() => {
      const read = parser(bad);
      read.fetchItems();
      read.end();
    }).toThrow(Malformed);
  }
});

test("a search has a limit of keys, wherever they are", () => {
  const keys = (count: number): string => "BODY a ".repeat(count).trimEnd();
  expect(() => parser(keys(250)).searchKeys()).not.toThrow();
  for (const many of [keys(251), `NOT (${keys(249)} SEEN)`, `OR (${keys(125)}) (${keys(125)})`]) {
    expect(() => parser(many).searchKeys()).toThrow(Malformed);
  }
});

test("search keys", () => {
  expect(parser('UNSEEN OR FROM ben (SUBJECT "a b" NOT 1:2) SINCE 5-Jan-2026').searchKeys()).toEqual({
    key: "and",
    of: [
      { key: "flag", flag: "\\SEEN", set: false },
      {
        key: "or",
        of: [
          { key: "text", field: "from", text: "ben" },
          {
            key: "and",
            of: [
              { key: "text", field: "subject", text: "a b" },
              { key: "not", of: { key: "numbers", uid: false, set: [[1, 2]] } },
            ],
          },
        ],
      },
      { key: "date", of: "internal", relation: "since", day: Date.UTC(2026, 0, 5) },
    ],
  });
  for (const bad of ["", "FROM", "ON 31-Feb-2026", "NOT", "(", `${"NOT ".repeat(60)}ALL`])
    expect(() => parser(bad).searchKeys()).toThrow(Malformed);
});

test("dates", () => {
  expect(parser('" 5-Jan-2026 08:00:00 +0130"').dateTime()).toBe(Date.UTC(2026, 0, 5, 6, 30));
  expect(formatImapDateTime(Date.UTC(2026, 0, 5, 6, 30))).toBe('" 5-Jan-2026 06:30:00 +0000"');
});

test("names in modified UTF-7", () => {
  expect(encodeUtf7("Grüße & 台北")).toBe("Gr&APwA3w-e &- &U,BTFw-");
  fc.assert(
    fc.property(fc.string({ unit: "grapheme" }), (text) => {
      expect(decodeUtf7(encodeUtf7(text))).toBe(text);
      expect(keywordToLabel(labelToKeyword(text))).toBe(text);
      expect(labelToKeyword(text)).toMatch(/^[^\s(){%*"\\\]]*$/);
    }),
  );
  expect([labelToKeyword("Invoices"), labelToKeyword("To do")]).toEqual(["Invoices", "To&ACA-do"]);
  // What programs mean by a keyword of theirs is no label.
  for (const label of ["$Forwarded", "$MDNSent", "Junk", "NonJunk", "$é"]) {
    expect(labelToKeyword(label)).toStartWith("&");
    expect(keywordToLabel(labelToKeyword(label))).toBe(label);
  }
});

test("a string of any text is read as it was written", () => {
  fc.assert(
    fc.property(fc.string({ unit: character }), (text) => {
      const written = quoteImapText(text);
      const [, head = "", octets = ""] = /^(\{\d+\})\r\n([\s\S]*)$/.exec(written) ?? [];
      const read = new Parser({ text: head || written, literals: new Map([[0, Buffer.from(octets, "latin1")]]) });
      expect(read.string()).toBe(text.toWellFormed());
      read.end();
    }),
  );
});

test("any octets are read or refused, and quickly", () => {
  const word = fc.constantFrom(
    "a",
    " ",
    "(",
    ")",
    "BODY[",
    "]",
    "<0.1>",
    "FETCH",
    "1:*",
    "{3}",
    "\r\n",
    '"',
    "\\",
    "NOT ",
    "OR ",
    "HEADER.FIELDS (",
    "UID ",
    "~{2+}\r\n",
    "5-Jan-2026",
    "APPEND ",
  );
  const octets = fc.oneof(
    fc.string({ unit: character, maxLength: 200 }),
    fc.array(word, { maxLength: 60 }).map((words) => words.join("")),
  );
  fc.assert(
    fc.property(octets, fc.integer({ min: 1, max: 50 }), (text, piece) => {
      for (const found of readAll(text, piece)) {
        if (!("command" in found)) continue;
        for (const read of [
          (p: Parser) => p.fetchItems(),
          (p: Parser) => p.searchKeys(),
          (p: Parser) => p.sequenceSet(),
          (p: Parser) => p.flags(),
          (p: Parser) => p.astring(),
          (p: Parser) => p.pattern(),
        ]) {
          try {
            read(new Parser(found.command));
          } catch (error) {
            expect(error).toBeInstanceOf(Malformed);
          }
        }
      }
    }),
    { numRuns: 500 },
  );
  for (const text of [
    "(".repeat(100_000),
    `"${"\\\\".repeat(50_000)}`,
    `BODY[HEADER.FIELDS (${"a ".repeat(50_000)}`,
    "1,".repeat(50_000),
    "NOT ".repeat(50_000),
  ]) {
    const start = performance.now();
    for (const read of [(p: Parser) => p.fetchItems(), (p: Parser) => p.searchKeys(), (p: Parser) => p.astring()]) {
      try {
        read(parser(text));
      } catch (error) {
        expect(error).toBeInstanceOf(Malformed);
      }
    }
    expect(performance.now() - start).toBeLessThan(1_000);
  }
});
