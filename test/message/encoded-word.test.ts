import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { cleanText, decodeCharset, decodeOctets, isUnlabelled } from "../../src/message/charset.ts";
import { decodeWords } from "../../src/message/encoded-word.ts";
import { plain } from "../harness/plain.ts";

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

test("unlabelled octets are UTF-8 if they are valid, else windows-1252", () => {
  expect(decodeOctets(Buffer.from("Jörg"))).toBe("Jörg");
  expect(decodeOctets(Buffer.from("caf\xe9 \x80", "latin1"))).toBe("café €");
  // UTF-8 cut in the middle of a character is still UTF-8.
  expect(decodeOctets(Buffer.from("Jörg und Bärbel").subarray(0, -5))).toBe("Jörg und B\ufffd");
});

test("charset names of mail", () => {
  expect(decodeCharset(Buffer.from([0x82, 0xa0]), "cp932")).toBe("あ");
  expect(decodeCharset(Buffer.from([0xa4, 0xa2]), "ISO-2022-JP")).toBe("あ");
  expect(decodeCharset(Buffer.from("Hi +AOk-+-"), "utf-7")).toBe("Hi é+");
  expect(decodeCharset(Buffer.from("x"), "x-none")).toBeUndefined();
  expect(isUnlabelled("us-ascii")).toBe(true);
  expect(isUnlabelled("x-none")).toBe(true);
  expect(isUnlabelled("koi8-r")).toBe(false);
});

test("cleanText lets no NUL and no half of a surrogate pair out", () => {
  expect(cleanText("a\u0000b\ud800c😀")).toBe("ab\ufffdc😀");
});
