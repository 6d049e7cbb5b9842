import { expect, test } from "bun:test";
import { cleanText, decodeCharset, decodeOctets, isUnlabelled } from "../../src/message/charset.ts";

test("decodeOctets reads UTF-8 if the octets are valid, else windows-1252", () => {
  expect(decodeOctets(Buffer.from("Jörg"))).toBe("Jörg");
  expect(decodeOctets(Buffer.from("caf\xe9 \x80", "latin1"))).toBe("café €");
  // UTF-8 cut in the middle of a character is still UTF-8.
  expect(decodeOctets(Buffer.from("Jörg und Bärbel").subarray(0, -5))).toBe("Jörg und B\ufffd");
});

test("decodeCharset knows the charset names of mail", () => {
  expect(decodeCharset(Buffer.from([0x82, 0xa0]), "cp932")).toBe("あ");
  expect(decodeCharset(Buffer.from([0xa4, 0xa2]), "ISO-2022-JP")).toBe("あ");
  expect(decodeCharset(Buffer.from("Hi +AOk-+-"), "utf-7")).toBe("Hi é+");
  expect(decodeCharset(Buffer.from("x"), "x-none")).toBeUndefined();
  expect(isUnlabelled("us-ascii")).toBe(true);
  expect(isUnlabelled("x-none")).toBe(true);
  expect(isUnlabelled("koi8-r")).toBe(false);
});

test("cleanText removes NUL and replaces lone surrogates", () => {
  expect(cleanText("a\u0000b\ud800c😀")).toBe("ab\ufffdc😀");
});
