import { expect, test } from "bun:test";
import {
  cleanText,
  decodeCharset,
  decodeMislabelledText,
  decodeUnlabelledText,
  isEightBitCharset,
} from "../../src/message/charset.ts";

test("decodeOctets reads UTF-8 if the octets are valid, else windows-1252", () => {
  expect(decodeUnlabelledText(Buffer.from("Jörg"))).toBe("Jörg");
  expect(decodeUnlabelledText(Buffer.from("caf\xe9 \x80", "latin1"))).toBe("café €");
  // UTF-8 cut in the middle of a character is still UTF-8.
  expect(decodeUnlabelledText(Buffer.from("Jörg und Bärbel").subarray(0, -5))).toBe("Jörg und B\ufffd");
});

test("octets among UTF-8 that begin no character are windows-1252, declared or not", async () => {
  const octets = Buffer.concat([
    Buffer.from("Grüße, Größe, Bärbel "),
    Buffer.from("don\x92t\xa0\x93go\x94 \x81.", "latin1"),
  ]);
  const text = "Grüße, Größe, Bärbel don’t\xa0“go” \ufffd.";
  expect(decodeUnlabelledText(octets)).toBe(text);
  const guess = () => Promise.reject(new Error("asked"));
  expect(await decodeMislabelledText(octets, decodeCharset(octets, "utf-8"), guess)).toBe(text);
  expect(await decodeMislabelledText(octets, undefined, guess)).toBe(text);
});

test("decodeCharset knows the charset names of mail", () => {
  expect(decodeCharset(Buffer.from([0x82, 0xa0]), "cp932")).toBe("あ");
  expect(decodeCharset(Buffer.from([0xa4, 0xa2]), "ISO-2022-JP")).toBe("あ");
  expect(decodeCharset(Buffer.from("Hi +AOk-+-"), "utf-7")).toBe("Hi é+");
  expect(decodeCharset(Buffer.from("x"), "x-none")).toBeUndefined();
  expect(["us-ascii", "", "x-none", "utf-16", "koi8-r"].map(isEightBitCharset)).toEqual([
    false,
    false,
    false,
    false,
    true,
  ]);
});

test("decodeCharset reads UTF-8 and ISO-2022-JP under the label of another charset", () => {
  expect(decodeCharset(Buffer.from("Jörg"), "iso-8859-1")).toBe("Jörg");
  expect(decodeCharset(Buffer.from("J\xf6rg", "latin1"), "iso-8859-1")).toBe("Jörg");
  // In two-byte charsets, words may be valid UTF-8 by chance.
  expect(decodeCharset(Buffer.from([0xc2, 0xa5]), "gbk")).toBe("楼");
  for (const label of ["us-ascii", "utf-8", "iso-8859-1", "shift_jis", "iso-2022-jp", ""]) {
    expect(decodeCharset(Buffer.from("a \x1b$B$3$s\x1b(B b"), label)).toBe("a こん b");
  }
  expect(decodeCharset(Buffer.from("a \x1b[1m b"), "us-ascii")).toBe("a \x1b[1m b");
});

test("of consecutive escape sequences in ISO-2022-JP, the last counts", () => {
  const text = "\x1b(B\x1b$B$3$s\x1b(B\x1b$B$K\x1b(B\x1b(J\x1b(Bx";
  expect(decodeCharset(Buffer.from(text), "iso-2022-jp")).toBe("こんにx");
});

test("decodeDoubtful asks for a guess only where declared charset and UTF-8 do not fit", async () => {
  let asked = 0;
  const decode = (octets: Uint8Array, charset: string) =>
    decodeMislabelledText(octets, decodeCharset(octets, charset), async () => {
      asked++;
      return "windows-1251";
    });
  expect(await decode(Buffer.from("Größe \ufffd"), "utf-8")).toBe("Größe \ufffd");
  expect(await decode(Buffer.from("안녕하세요"), "euc-kr")).toBe("안녕하세요");
  expect(await decode(Buffer.from("\xbe\xc8\xb3\xe7\xff", "latin1"), "euc-kr")).toBe("안녕\ufffd");
  expect(await decode(Buffer.from("Größe, Bärbel").subarray(0, -5), "utf-8")).toBe("Größe, B\ufffd");
  expect(asked).toBe(0);
  expect(await decode(Buffer.from([0xcf, 0xf0, 0xe8, 0xe2, 0xe5, 0xf2]), "utf-8")).toBe("Привет");
  expect(asked).toBe(1);
});

test("cleanText removes NUL and replaces lone surrogates", () => {
  expect(cleanText("a\u0000b\ud800c😀")).toBe("ab\ufffdc😀");
});
