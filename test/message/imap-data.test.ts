/** ENVELOPE, BODYSTRUCTURE and sections (RFC 9051 §7.5.2, §6.4.5). */
import { expect, test } from "bun:test";
import fc from "fast-check";
import {
  decodeNumberedPart,
  findMessageSection,
  formatAddressStructures,
  formatBodyStructure,
  formatImapEnvelope,
  LONGEST_STRUCTURE,
  openMessageContent,
} from "../../src/message/imap-data.ts";

const message = (...lines: string[]) => openMessageContent(Buffer.from(lines.join("\r\n"), "latin1"));
const MIXED = message(
  "From: Ada <ada@remote.example>",
  "Subject: Parts",
  'Content-Type: multipart/mixed; boundary="m"',
  "",
  "--m",
  'Content-Type: multipart/alternative; boundary="a"',
  "",
  "--a",
  "Content-Type: text/plain; charset=utf-8",
  "",
  "one",
  "two",
  "--a",
  "Content-Type: text/html",
  "Content-Transfer-Encoding: base64",
  "",
  "PGI+",
  "--a--",
  "--m",
  "Content-Type: message/rfc822",
  'Content-Disposition: attachment; filename="x.eml"',
  "",
  "From: Ben <ben@remote.example>",
  "Subject: Inner",
  "",
  "inner",
  "--m--",
  "",
);
const text = (content: typeof MIXED, part: number[], of?: "HEADER" | "TEXT" | "MIME") =>
  findMessageSection(content, { part, ...(of && { text: of }) })?.toString("latin1");

test("envelope", () => {
  const content = message(
    "Date: Mon, 05 Jan 2026 07:00:00 +0000",
    "Subject: =?utf-8?q?Gr=C3=BC?=",
    'From: "Lovelace, Ada" <ada@remote.example>',
    "To: Team: a@x.example, Bob <b@x.example>;,",
    " c@x.example (Carol)",
    "Message-ID: <1@x>",
    "",
    "",
  );
  const from = '(("Lovelace, Ada" NIL "ada" "remote.example"))';
  expect(formatImapEnvelope(content.bytes.toString("latin1"))).toBe(
    `("Mon, 05 Jan 2026 07:00:00 +0000" "=?utf-8?q?Gr=C3=BC?=" ${from} ${from} ${from} ((NIL NIL "Team" NIL)(NIL NIL "a" "x.example")("Bob" NIL "b" "x.example")(NIL NIL NIL NIL)("Carol" NIL "c" "x.example")) NIL NIL NIL "<1@x>")`,
  );
});

test("addresses with comments, without one, and what is no field", () => {
  expect(
    formatAddressStructures("Pete <pete(his) @silly.example (host)>, MAILER-DAEMON <>, Big  Bug bb, Someone"),
  ).toBe(
    '(("Pete" NIL "pete" "silly.example")("MAILER-DAEMON" NIL "" "")("Big Bug bb" NIL "" "")(NIL NIL "Someone" ""))',
  );
  expect(formatImapEnvelope("From - Wed Nov 28 14:07:07 2005\r\nFrom: a@x.example\r\n\r\n")).toContain(
    '((NIL NIL "a" "x.example"))',
  );
});

test("structure", () => {
  expect(formatBodyStructure(MIXED, false)).toBe(
    '((("text" "plain" ("charset" "utf-8") NIL NIL "7bit" 8 1)("text" "html" ("charset" "us-ascii") NIL NIL "base64" 4 0) "alternative")("message" "rfc822" NIL NIL NIL "7bit" 55 (NIL "Inner" (("Ben" NIL "ben" "remote.example")) (("Ben" NIL "ben" "remote.example")) (("Ben" NIL "ben" "remote.example")) NIL NIL NIL NIL NIL) ("text" "plain" ("charset" "us-ascii") NIL NIL "7bit" 5 0) 3) "mixed")',
  );
  expect(formatBodyStructure(MIXED, true)).toContain('("attachment" ("filename" "x.eml")) NIL NIL)');
  const report = message("Content-Type: message/delivery-status", "Content-Language: en, de", "", "x");
  expect(formatBodyStructure(report, true)).toBe(
    '("message" "delivery-status" NIL NIL NIL "7bit" 1 NIL NIL ("en" "de") NIL)',
  );
  expect(formatBodyStructure(message("Subject: x", "", "Hi", ""), true)).toBe(
    '("text" "plain" ("charset" "us-ascii") NIL NIL "7bit" 4 1 NIL NIL NIL NIL)',
  );
});

test("sections", () => {
  expect(text(MIXED, [1, 1])).toBe("one\r\ntwo");
  expect(text(MIXED, [1])).toBe(
    "--a\r\nContent-Type: text/plain; charset=utf-8\r\n\r\none\r\ntwo\r\n--a\r\nContent-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\nPGI+\r\n--a--",
  );
  expect(text(MIXED, [1, 2], "MIME")).toBe("Content-Type: text/html\r\nContent-Transfer-Encoding: base64\r\n\r\n");
  expect(text(MIXED, [2], "HEADER")).toBe("From: Ben <ben@remote.example>\r\nSubject: Inner\r\n\r\n");
  expect(text(MIXED, [2], "TEXT")).toBe("inner");
  expect(text(MIXED, [2, 1])).toBe("inner");
  expect([text(MIXED, [3]), text(MIXED, [1, 1, 1]), text(MIXED, [1], "TEXT")]).toEqual([
    undefined,
    undefined,
    undefined,
  ]);
  const plain = message("Subject: x", "", "Hi");
  expect([text(plain, [1]), text(plain, [], "TEXT"), text(plain, [2])]).toEqual(["Hi", "Hi", undefined]);
  const fields = (of: "HEADER.FIELDS" | "HEADER.FIELDS.NOT") =>
    findMessageSection(message("From: a@x", "Subject: long", " line", "To: b@x", "", ""), {
      part: [],
      text: of,
      fields: ["SUBJECT", "X-None"],
    })?.toString();
  expect(fields("HEADER.FIELDS")).toBe("Subject: long\r\n line\r\n\r\n");
  expect(fields("HEADER.FIELDS.NOT")).toBe("From: a@x\r\nTo: b@x\r\n\r\n");
});

/** A multipart of these parts, each with its header. */
const parts = (boundary: string, all: readonly string[]): string[] => [
  `Content-Type: multipart/mixed; boundary=${boundary}`,
  "",
  ...all.flatMap((part) => [`--${boundary}`, part]),
  `--${boundary}--`,
];
const attached = (...lines: string[]): string => ["Content-Type: message/rfc822", "", ...lines].join("\r\n");
const decoded = (content: typeof MIXED, part: number[]): string | undefined => {
  const found = decodeNumberedPart(content, part);
  return typeof found === "object" ? Buffer.concat([...found.pieces()]).toString("latin1") : found;
};
const types = (content: typeof MIXED, extended = true): string[] =>
  formatBodyStructure(content, extended).match(/(?<=\()"(?:message|application)" "[^"]*"/g) ?? [];

test("a message has a thousand parts on all levels, and a message that exceeds them is data for every item", () => {
  const small = attached("Subject: small", "", "text");
  const large = attached(...parts("i", Array<string>(398).fill("\r\nx")));
  const content = message(...parts("o", [large, large, large, small, attached(...parts("n", [large, small]))]));
  const [MESSAGE, DATA] = ['"message" "rfc822"', '"application" "octet-stream"'];
  for (const extended of [true, false])
    expect(types(content, extended)).toEqual([MESSAGE, MESSAGE, DATA, MESSAGE, MESSAGE, DATA, MESSAGE]);
  const body = large.slice(large.indexOf("\r\n\r\n") + 4);
  for (const part of [[2], [3], [5, 1]]) expect([text(content, part), decoded(content, part)]).toEqual([body, body]);
  expect([text(content, [2, 398]), text(content, [5, 2, 1])]).toEqual(["x", "text"]);
  expect(text(content, [2], "HEADER")).toBe("Content-Type: multipart/mixed; boundary=i\r\n\r\n");
  for (const section of ["HEADER", "TEXT"] as const) expect(text(content, [3], section)).toBeUndefined();
  expect([text(content, [3, 1]), decoded(content, [5, 1, 1])]).toEqual([undefined, undefined]);
});

test("what is told of parts is bounded on all levels", () => {
  const long = attached(`Subject: ${"x".repeat(60_000)}`, "", "text");
  const three = message(...parts("o", [long, long, long]));
  expect(types(three)).toEqual(['"message" "rfc822"', '"message" "rfc822"', '"application" "octet-stream"']);
  expect(text(three, [3])).toBe(long.slice(long.indexOf("\r\n\r\n") + 4));
  for (const field of ["Content-Description: x", "Content-Language: x", "Content-Type: text/plain; name=x"]) {
    const one = message("Subject: x", ...parts("b", Array<string>(500).fill(`${field}${"y".repeat(1_000)}\r\n\r\nz`)));
    const size = one.bytes.length - one.root.bodyStart;
    expect(formatBodyStructure(one, true)).toBe(
      `("application" "octet-stream" NIL NIL NIL "7bit" ${size} NIL NIL NIL NIL)`,
    );
    expect([text(one, [1])?.length, text(one, [1, 1])]).toEqual([size, undefined]);
  }
});

test("no structure is longer than one is kept", () => {
  const part = (length: number) => `Content-Description: ${"x".repeat(length)}\r\n\r\n`;
  const nested = Array.from({ length: 200 }, (_, i) => attached(part(i)));
  const lengths = [0, 20, 40, 60, 80].map((length) => {
    const content = message("Subject: x", ...parts("b", [...Array<string>(590).fill(part(length)), ...nested]));
    return formatBodyStructure(content, true).length;
  });
  expect(Math.max(...lengths)).toBeLessThanOrEqual(LONGEST_STRUCTURE);
  expect(Math.max(...lengths)).toBeGreaterThan(0.8 * LONGEST_STRUCTURE);
});

test("the header of a message ends where it does, whatever is told of its parts", () => {
  const header = ["Content-Type: multipart/mixed; boundary=b", "Subject: x"];
  for (const count of [10, 2_000]) {
    const { root } = message(...header, ...Array<string>(count).fill("--b\r\n\r\nx"), "--b--");
    expect(root.bodyStart).toBe(header.join("\r\n").length + 2);
  }
});

test("a message that is encoded is data, which BINARY decodes", () => {
  const content = message(
    "Content-Type: message/rfc822",
    "Content-Transfer-Encoding: base64",
    "",
    btoa("Subject: x\r\n"),
  );
  expect(types(content)).toEqual(['"application" "octet-stream"']);
  expect([decoded(content, [1]), text(content, [1], "HEADER")]).toEqual(["Subject: x\r\n", undefined]);
});

test("nested messages are read once, for all items", () => {
  const { root } = openMessageContent(MIXED.bytes);
  // Nothing of the message is left but its length.
  const content = { bytes: Buffer.alloc(MIXED.bytes.length), root: structuredClone(root) };
  expect(formatBodyStructure(content, true)).toBe(formatBodyStructure(MIXED, true));
  for (const section of ["HEADER", "TEXT", "MIME"] as const)
    expect(text(content, [2], section)?.length).toBe(text(MIXED, [2], section)?.length as number);
  expect(text(content, [2, 1])).toBe("\0".repeat(5));
});

test("any addresses make well-formed structures", () => {
  const piece = fc.constantFrom("a", "@", "<", ">", ",", ";", ":", '"', "(", ")", "\\", " ", "x.example");
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const bare = formatAddressStructures(pieces.join("")).replace(/"(?:[^"\\]|\\.)*"/g, "S");
      expect(bare).toMatch(/^(?:NIL|\((?:\((?:S|NIL) NIL (?:S|NIL) (?:S|NIL)\))+\))$/);
    }),
  );
}, 20_000);

test("addresses that never end are read in one pass", () => {
  const length = 300_000;
  for (const [begin, piece, end] of [
    ["", "<", ""],
    ['"', '\\"', ""],
    ["(", "\\(", ""],
    ["", "(", ")"],
    ["<", '"\\"', ">"],
    ["<", "(", ">"],
    ["<@", "a,", ">"],
    ["", "a ", ""],
  ] as const) {
    const started = performance.now();
    formatAddressStructures(begin + piece.repeat(length / piece.length) + end);
    expect([begin, piece, performance.now() - started < 1_000]).toEqual([begin, piece, true]);
  }
});

test("what never ends is text, and what follows is read", () => {
  expect(formatAddressStructures('a@x, "b <c@x>, d@x')).toBe(
    '((NIL NIL "a" "x")("\\"b" NIL "c" "x")(NIL NIL "d" "x"))',
  );
  expect(formatAddressStructures("A <@one, @two:b@x>, <@:c@x>")).toBe('(("A" "@one,@two" "b" "x")(NIL "@" "c" "x"))');
  // Of a local part, quotes are taken off, wherever it stands.
  for (const address of ['"a \\"b"@x', '<"a \\"b"@x>'])
    expect(formatAddressStructures(address)).toBe('((NIL NIL "a \\"b" "x"))');
  expect(formatAddressStructures("(a (b) c@x")).toBe('(("b" NIL "(a  c" "x"))');
});

test("the pieces of a parameter are joined, as Dovecot does", () => {
  for (const [given, told] of [
    ['name*1="b "; a=1; name*0="a "', '"a" "1" "name" "a b "'],
    ["name*0*=utf-8'en'%C3%BC; name*1=50%; name*2*=%20", `"name*" "utf-8'en'%C3%BC50%25%20"`],
    ["name*0=a%; name*1*=%20", `"name*" "''a%25%20"`],
    ["name*0=a; name*2=c", '"name*0" "a" "name*2" "c"'],
    ["name*1=b; name*2=c", '"name*1" "b" "name*2" "c"'],
    ["name*=utf-8''whole; *0=x; name*x=y", `"name*" "utf-8''whole" "*0" "x" "name*x" "y"`],
  ]) {
    const header = `Content-Type: application/x; ${given}`;
    expect(formatBodyStructure(message(header, `Content-Disposition: attachment; ${given}`, "", "x"), true)).toBe(
      `("application" "x" (${told}) NIL NIL "7bit" 1 NIL ("attachment" (${told})) NIL NIL)`,
    );
  }
});
