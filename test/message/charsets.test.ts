/** The charsets that mail may be in (rules: Charsets): labels of the Encoding Standard, and those beside it. */
import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import { decodeCharset } from "../../src/message/charset.ts";
import { decodeWords } from "../../src/message/headers.ts";
import { parseMessage } from "../../src/message/parse.ts";

const octets = (text: string) => Buffer.from(text, "latin1");

/** Labels with octets, and the characters that these are. */
const SAMPLES: readonly [labels: string, sample: string, text: string][] = [
  ["unicode-1-1-utf-8 unicode11utf8 unicode20utf8 utf-8 utf8 x-unicode20utf8", "caf\xc3\xa9", "café"],
  ["866 cp866 csibm866 ibm866", "\x8f\xe0\xa8\xa2\xa5\xe2", "Привет"],
  [
    "csisolatin2 iso-8859-2 iso-ir-101 iso8859-2 iso88592 iso_8859-2 iso_8859-2:1987 l2 latin2",
    "\xa3\xf3d\xbc",
    "Łódź",
  ],
  ["csisolatin3 iso-8859-3 iso-ir-109 iso8859-3 iso88593 iso_8859-3 iso_8859-3:1988 l3 latin3", "\xe6u", "ĉu"],
  ["csisolatin4 iso-8859-4 iso-ir-110 iso8859-4 iso88594 iso_8859-4 iso_8859-4:1988 l4 latin4", "\xbe\xb9", "žš"],
  [
    "csisolatincyrillic cyrillic iso-8859-5 iso-ir-144 iso8859-5 iso88595 iso_8859-5 iso_8859-5:1988",
    "\xbf\xe0\xd8\xd2\xd5\xe2",
    "Привет",
  ],
  [
    "arabic asmo-708 csiso88596e csiso88596i csisolatinarabic ecma-114 iso-8859-6 iso-8859-6-e iso-8859-6-i iso-ir-127 iso8859-6 iso88596 iso_8859-6 iso_8859-6:1987",
    "\xd3\xe4\xc7\xe5",
    "سلام",
  ],
  [
    "csisolatingreek ecma-118 elot_928 greek greek8 iso-8859-7 iso-ir-126 iso8859-7 iso88597 iso_8859-7 iso_8859-7:1987 sun_eu_greek",
    "\xe3\xe5\xe9\xdc",
    "γειά",
  ],
  [
    "csiso88598e csisolatinhebrew hebrew iso-8859-8 iso-8859-8-e iso-ir-138 iso8859-8 iso88598 iso_8859-8 iso_8859-8:1988 visual csiso88598i iso-8859-8-i logical",
    "\xf9\xec\xe5\xed",
    "שלום",
  ],
  ["csisolatin6 iso-8859-10 iso-ir-157 iso8859-10 iso885910 l6 latin6", "\xac\xba", "Žš"],
  ["iso-8859-13 iso8859-13 iso885913", "\xd0\xf0", "Šš"],
  ["iso-8859-14 iso8859-14 iso885914", "\xd0\xf0", "Ŵŵ"],
  ["csisolatin9 iso-8859-15 iso8859-15 iso885915 iso_8859-15 l9", "5 \xa4", "5 €"],
  ["iso-8859-16", "\xaa\xba", "Șș"],
  ["cskoi8r koi koi8 koi8-r koi8_r koi8-ru koi8-u", "\xf0\xd2\xc9\xd7\xc5\xd4", "Привет"],
  ["csmacintosh mac macintosh x-mac-roman", "caf\x8e", "café"],
  ["dos-874 iso-8859-11 iso8859-11 iso885911 tis-620 windows-874", "\xca\xc7\xd1\xca", "สวัส"],
  ["cp1250 windows-1250 x-cp1250", "\xa3\xf3d\x9f", "Łódź"],
  ["cp1251 windows-1251 x-cp1251", "\xcf\xf0\xe8\xe2\xe5\xf2", "Привет"],
  [
    "cp1252 cp819 csisolatin1 ibm819 iso-8859-1 iso-ir-100 iso8859-1 iso88591 iso_8859-1 iso_8859-1:1987 l1 latin1 windows-1252 x-cp1252 ansi_x3.4-1968",
    "caf\xe9 \x80",
    "café €",
  ],
  ["cp1253 windows-1253 x-cp1253", "\xe3\xe5\xe9\xdc", "γειά"],
  [
    "cp1254 csisolatin5 iso-8859-9 iso-ir-148 iso8859-9 iso88599 iso_8859-9 iso_8859-9:1989 l5 latin5 windows-1254 x-cp1254",
    "\xddstanbul",
    "İstanbul",
  ],
  ["cp1255 windows-1255 x-cp1255", "\xf9\xec\xe5\xed", "שלום"],
  ["cp1256 windows-1256 x-cp1256", "\xd3\xe1\xc7\xe3", "سلام"],
  ["cp1257 windows-1257 x-cp1257", "\xd0\xf0", "Šš"],
  ["cp1258 windows-1258 x-cp1258", "\xd0\xf4", "Đô"],
  ["x-mac-cyrillic x-mac-ukrainian", "\x8f\xf0\xe8\xe2\xe5\xf2", "Привет"],
  [
    "chinese csgb2312 csiso58gb231280 gb2312 gb_2312 gb_2312-80 gbk iso-ir-58 x-gbk gb18030",
    "\xc4\xe3\xba\xc3",
    "你好",
  ],
  ["big5 big5-hkscs cn-big5 csbig5 x-x-big5", "\xa7A\xa6n", "你好"],
  ["cseucpkdfmtjapanese euc-jp x-euc-jp", "\xa4\xb3\xa4\xf3", "こん"],
  ["csiso2022jp iso-2022-jp", "\x1b$B$3$s\x1b(B", "こん"],
  ["csshiftjis ms932 ms_kanji shift-jis shift_jis sjis windows-31j x-sjis", "\x82\xb1\x82\xf1", "こん"],
  [
    "cseuckr csksc56011987 euc-kr iso-ir-149 korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949",
    "\xbe\xc8\xb3\xe7",
    "안녕",
  ],
  ["csiso2022kr iso-2022-kr", "\x1b$)C\x0e>H3g\x0f ok", "안녕 ok"],
  ["hz-gb-2312 hz", "~{Dc:C~} ~~ok", "你好 ~ok"],
  ["iso-2022-cn iso-2022-cn-ext", "\x1b$)A\x0eDc:C\x0f ok", "你好 ok"],
  ["unicodefffe utf-16be", "\0c\0a\0f\0\xe9\0 \0x", "café x"],
  ["csunicode iso-10646-ucs-2 ucs-2 unicode unicodefeff utf-16 utf-16le", "c\0a\0f\0\xe9\0 \0x\0", "café x"],
  ["x-user-defined", "caf\xe9", "caf\uf7e9"],
  // Beside the Encoding Standard.
  ["cp437 ibm437 437", "caf\x82 \xe1", "café ß"],
  ["cp850 ibm850 850 cspc850multilingual", "caf\x82 \xe1", "café ß"],
  ["cp852 ibm852 852 cspcp852", "\x9d\xa2d\xab", "Łódź"],
  ["cp858", "5 \xd5", "5 €"],
  ["cp932", "\x82\xb1\x82\xf1", "こん"],
  ["cp936 windows-936", "\xc4\xe3\xba\xc3", "你好"],
  ["cp949", "\xbe\xc8\xb3\xe7", "안녕"],
  ["cp950", "\xa7A\xa6n", "你好"],
  ["utf-7 unicode-1-1-utf-7", "caf+AOk-", "café"],
];

const labels = SAMPLES.flatMap(([labels, sample, text]) =>
  labels.split(" ").map((label): [string, string, string] => [label, sample, text]),
);

test.each(labels)("%s, in bodies, subjects, names of people and of files", async (label, sample, text) => {
  for (const written of [label, label.toUpperCase()]) {
    const word = (encoded: string) => `=?${written}?B?${encoded}?=`;
    const encoded = octets(sample).toString("base64");
    const message = await parseMessage(
      octets(
        [
          `From: ${word(encoded)} <ann@a.example>`,
          `Subject: ${word(encoded)}`,
          "MIME-Version: 1.0",
          "Content-Type: multipart/mixed; boundary=b",
          "",
          "--b",
          `Content-Type: text/plain; charset="${written}"`,
          "Content-Transfer-Encoding: base64",
          "",
          encoded,
          "--b",
          "Content-Type: text/html",
          `Content-Disposition: attachment; filename="${word(encoded)}.html"`,
          "",
          "x",
          "--b--",
        ].join("\r\n"),
      ),
    );
    const { subject, from, attachments } = message;
    expect([message.text, subject, from?.name, attachments[0]?.filename]).toEqual([text, text, text, `${text}.html`]);
  }
});

test("rules.md lists those beside the Encoding Standard", () => {
  const rules = readFileSync(new URL("../../docs/rules.md", import.meta.url), "utf8");
  for (const name of ["cp437", "cp850", "cp852", "cp858", "cp866", "iso-2022-kr", "iso-2022-cn", "hz-gb-2312", "utf-7"])
    expect([name, rules.includes(`\`${name}\``)]).toEqual([name, true]);
});

describe("7-bit Korean and Chinese", () => {
  test("end with the line, and go on over a soft one", () => {
    expect(decodeCharset(octets("\x0e>H3g\nab"), "iso-2022-kr")).toBe("안녕\nab");
    expect(decodeCharset(octets("~{Dc:C\nab"), "hz-gb-2312")).toBe("你好\nab");
    expect(decodeCharset(octets("a~\r\nb~\nc"), "hz-gb-2312")).toBe("abc");
  });

  test("keep what is no sequence, and octets of 8 bits", () => {
    expect(decodeCharset(octets("a~b~~{ \x1b[1m ~"), "hz-gb-2312")).toBe("a~b~{ \x1b[1m ~");
    expect(decodeCharset(octets("a \x1b[1m \xbe\xc8\xb3\xe7"), "iso-2022-kr")).toBe("a \x1b[1m 안녕");
    expect(decodeCharset(octets("\x1b$"), "iso-2022-kr")).toBe("");
  });

  test("begin anew in each encoded word", () => {
    const word = (text: string) => `=?iso-2022-kr?B?${octets(text).toString("base64")}?=`;
    expect(decodeWords(`${word("\x1b$)C\x0e>H")} ${word("\x0e3g\x0f!")}`)).toBe("안녕!");
  });
});

test("octets that are UTF-8 under the label of a charset of DOS are UTF-8", () => {
  expect(decodeCharset(Buffer.from("Größe"), "cp850")).toBe("Größe");
});

test("names of encodings that are no charsets are unknown", () => {
  for (const label of ["base64", "hex", "binary", "utf-7-imap", "x".repeat(10_000), "__proto__", "constructor"])
    expect(decodeCharset(octets("aGk="), label)).toBeUndefined();
});
