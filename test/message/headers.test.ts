import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  decodeWords,
  findHeader,
  isTraceHeader,
  listHeaders,
  readHeaders,
  withoutBcc,
} from "../../src/message/headers.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { plain } from "../harness/runner/plain.ts";

const read = (text: string) => readHeaders(Buffer.from(text, "latin1"));

describe("readHeaders", () => {
  test("keeps order and case, unfolds, and finds the body", () => {
    const source = "Subject: one\r\n two\r\nX-a : b\nx-A:\tc\r\n\r\nbody";
    const { fields, bodyStart } = read(source);
    expect(fields).toEqual([
      { name: "Subject", value: "one two" },
      { name: "X-a", value: "b" },
      { name: "x-A", value: "c" },
    ]);
    expect(source.slice(bodyStart)).toBe("body");
    expect(findHeader(fields, "x-a")).toBe("b");
    expect(listHeaders(fields, "x-a")).toEqual(["b", "c"]);
  });

  test("reads 8-bit values as UTF-8 or windows-1252", () => {
    expect(readHeaders(Buffer.from("Subject: Jörg\n\n")).fields[0]?.value).toBe("Jörg");
    expect(read("Subject: J\xf6rg\n\n").fields[0]?.value).toBe("Jörg");
  });

  test("replaces control characters", () => {
    expect(read("Subject: a\0b\rc\x1bd\r\n\r\n").fields[0]?.value).toBe("a b c d");
  });

  test("takes text that follows the fields without a blank line for the body", () => {
    const source = "Subject: x\nThis is the body\nand more\n\nand more";
    const { fields, bodyStart } = read(source);
    expect(fields).toEqual([{ name: "Subject", value: "x" }]);
    expect(source.slice(bodyStart)).toBe("This is the body\nand more\n\nand more");
  });

  test("skips a line among the fields that is not a field", () => {
    expect(read("Subject: x\njunk\nTo: y\n\n").fields.map((field) => field.name)).toEqual(["Subject", "To"]);
  });

  test("calls a header doubtful that other readers may end elsewhere", () => {
    const doubtful = [
      "Subject: x\njunk\nTo: y\n\n",
      "Subject: x\n \nTo: y\n\n",
      "Subject: x\n\t\n more\n\n",
      " indented\nTo: y\n\n",
      "X-Info:\nvalue\nTo: y\n\n",
      "Subject: x\r\rbody\r\n\r\n",
      "From a@b\rSubject: x\nTo: y\n\n",
    ];
    for (const text of doubtful) expect([text, read(text).doubtful]).toEqual([text, true]);
    const plain = [
      "Subject: x\n y\nTo: y\n\nbody\n \nA: b",
      "Subject: x\n \n\nbody",
      "Subject: x\nbody\n\nbody",
      "Subject: x\r\r\nTo: y\r\r\n\r\nbody",
      "From a@b Mon Jan 1\nTo: y\n\n",
    ];
    for (const text of plain) expect([text, read(text).doubtful]).toEqual([text, false]);
  });

  test("takes text that begins like an mbox, or indented, for the body if no field follows", () => {
    expect(read("From here on\n\nmore").bodyStart).toBe(0);
    expect(read("  indented\n\nmore").bodyStart).toBe(0);
    const part = Buffer.from("X: y\n\nFrom here on\nA: b\n\n");
    expect(readHeaders(part, 6)).toMatchObject({ fields: [{ name: "A", value: "b" }], doubtful: true });
  });

  test("finds the value of an empty field on the next line, indented or not", () => {
    expect(read("X-Info:\nvalue\nTo: y\n\n").fields).toEqual([
      { name: "X-Info", value: "value" },
      { name: "To", value: "y" },
    ]);
  });

  test("skips the From line of an mbox, and takes a message without fields for a body", () => {
    expect(read("From a@b Mon Jan 1\nTo: y\n\n").fields).toEqual([{ name: "To", value: "y" }]);
    expect(read("just text\n\nmore").bodyStart).toBe(0);
    expect(read("")).toEqual({ fields: [], start: 0, bodyStart: 0, oversized: false, doubtful: false });
  });

  test("keeps the fields before the limits, and says that the block is oversized", () => {
    const { fields, oversized } = read("X: y\n".repeat(5_000));
    expect(oversized).toBe(true);
    expect(fields.length).toBe(1_000);
    expect(read(`Subject: ${"x".repeat(600_000)}\n\n`).oversized).toBe(true);
  });

  test("never throws, and gives offsets inside the bytes", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."a:- \t\r\n\0\xe9".split("")) }), (text) => {
        const { bodyStart, fields } = read(text);
        expect(bodyStart).toBeLessThanOrEqual(text.length);
        for (const { name, value } of fields) expect(name + value).not.toMatch(/[\r\n\0]/);
      }),
    );
  });
});

test("isTraceHeader recognises trace, signature and authentication fields", () => {
  for (const name of ["Received", "DKIM-Signature", "arc-seal", "Return-Path", "Authentication-Results"]) {
    expect(isTraceHeader(name)).toBe(true);
  }
  for (const name of ["Subject", "List-Id", "X-Spam-Score", "Message-ID"]) expect(isTraceHeader(name)).toBe(false);
});

describe("decodeWords", () => {
  const cases: [string, string][] = [
    ["plain", "plain"],
    ["=?iso-8859-1?q?Andr=E9?= x", "André x"],
    ["=?utf-8?B?SsO2cmc=?=", "Jörg"],
    ["=?utf-8?q?a?= =?utf-8?q?b?=", "ab"],
    ["=?utf-8?q?a?=  \t =?iso-8859-1?q?=E9?=", "aé"],
    ["=?utf-8?q?a_b=20c?= d", "a b c d"],
    // One character split between two words
    ["=?utf-8?b?4oI=?= =?utf-8?b?rA==?=", "€"],
    ["=?utf-8*de?q?J=C3=B6rg?=", "Jörg"],
    ["=?ISO-2022-JP?B?GyRCJUYbKEI=?= =?ISO-2022-JP?B?GyRCJTkbKEI=?=", "テス"],
    // Split within a run that shifts away from ASCII, and within a character.
    ["=?iso-2022-jp?B?GyRCJUY=?= =?iso-2022-jp?B?JTkbKEI=?=", "テス"],
    ["=?iso-2022-jp?B?GyRCJUsl?= =?iso-2022-jp?B?YyE8JXMbKEI=?=", "ニャーン"],
    ["=?hz-gb-2312?Q?=7E=7BDc?= =?hz-gb-2312?Q?:C=7E=7D?=", "你好"],
    ["=?GB2312?B?xOO6ww==?=", "你好"],
    ["=?ks_c_5601-1987?B?vsiz5w==?=", "안녕"],
    ["=?utf-7?Q?+AOk-?=", "é"],
    ["=?no-such-charset?q?caf=E9?=", "café"],
    ["=?utf-8?x?abc?=", "=?utf-8?x?abc?="],
    ["=?utf-8?q?unfinished", "=?utf-8?q?unfinished"],
    ["a =? b", "a =? b"],
    ["=?utf-8?q?=ZZ=?=", "=ZZ="],
  ];
  for (const [text, expected] of cases) test(plain(text), () => expect(decodeWords(text)).toBe(expected));

  test("never throws, and leaves text without encoded words alone", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const decoded = decodeWords(text);
        if (!text.includes("=?")) expect(decoded).toBe(text);
      }),
    );
  });

  test("decodes encoded text with any split between words", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", minLength: 1 }), fc.integer({ min: 1, max: 20 }), (text, size) => {
        const octets = Buffer.from(text);
        const words: string[] = [];
        for (let i = 0; i < octets.length; i += size) {
          words.push(`=?UTF-8?B?${octets.subarray(i, i + size).toString("base64")}?=`);
        }
        expect(decodeWords(words.join(" "))).toBe(new TextDecoder().decode(octets));
      }),
    );
  });
});

describe("withoutBcc", () => {
  const cut = (text: string): string => Buffer.from(withoutBcc(Buffer.from(text, "latin1"))).toString("latin1");

  test.each([
    ["first", "Bcc: a@x\r\nTo: b@x\r\n\r\nbody", "To: b@x\r\n\r\nbody"],
    ["last", "To: b@x\r\nBcc: a@x\r\n\r\nbody", "To: b@x\r\n\r\nbody"],
    [
      "folded, in any case, with a space before the colon",
      "To: b\r\nBCC : a,\r\n c,\r\n\td\r\nCc: e\r\n\r\nx",
      "To: b\r\nCc: e\r\n\r\nx",
    ],
    ["several, also resent", "Bcc: a\nResent-Bcc: b\nTo: c\nbcc: d\n\nx", "To: c\n\nx"],
    ["at the end of a message without a body", "To: b\r\nBcc: a", "To: b\r\n"],
    ["nothing else", "Bcc: a\n b", ""],
  ])("removes Bcc: %s", (_, message, expected) => {
    expect(cut(message)).toBe(expected);
  });

  test.each([
    ["in the body", "To: b\r\n\r\nBcc: a\r\n"],
    ["as the beginning of another name", "Bcc-Policy: none\r\nX-Bcc: a\r\n\r\n"],
    ["in a folded line", "Subject: about\r\n Bcc: a\r\n\r\n"],
    ["not at all", ""],
  ])("keeps Bcc: %s", (_, message) => {
    expect(cut(message)).toBe(message);
  });

  test("removes a Bcc that is folded or repeated very often", () => {
    expect(cut(`Bcc: a\n${" b\n".repeat(2_000_000)}To: c\n\nx`)).toBe("To: c\n\nx");
    expect(cut(`${"Bcc: a\n".repeat(500_000)}To: c\n\nx`)).toBe("To: c\n\nx");
  });

  test("keeps the lines of other fields byte for byte", () => {
    const line = fc.constantFrom(
      "Bcc: a\r\n",
      "To: b\n",
      " folded\r\n",
      "X: \xff\r\n",
      "\r\n",
      "bcc:\n",
      "resent-bcc: c\n",
    );
    fc.assert(
      fc.property(fc.array(line), (lines) => {
        let inBody = false;
        let dropping = false;
        const expected = lines.filter((text) => {
          inBody ||= text === "\r\n";
          if (!inBody && !text.startsWith(" ")) dropping = /^(resent-)?bcc/i.test(text);
          return inBody || !dropping;
        });
        expect(cut(lines.join(""))).toBe(expected.join(""));
      }),
    );
  });

  test("takes the Bcc from an attached original", async () => {
    const parts = "--b\r\n\r\nx\r\n".repeat(2_000);
    const message = `To: b@x.example\r\nBcc: secret@x.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n${parts}--b--\r\n`;
    const { problem, attachments } = await parseMessage(Buffer.from(message));
    expect(problem).toBeString();
    const original = Buffer.from(attachments[0]?.content ?? []).toString();
    expect(original).toBe(message.replace("Bcc: secret@x.example\r\n", ""));
  });
});
