import { describe, expect, test } from "bun:test";
import {
  formatHttpParameters,
  formatTypeParameters,
  readContentType,
  withUtf8Charset,
} from "../../src/message/content-type.ts";
import { plain } from "../harness/runner/plain.ts";

describe("the parameters of a Content-Type", () => {
  const cases: [given: string, kept: [string, string][]][] = [
    ["text/plain", []],
    [
      'text/calendar; METHOD="REQUEST"; Charset=utf-8',
      [
        ["method", "REQUEST"],
        ["charset", "utf-8"],
      ],
    ],
    [
      "text/plain; b=2; a=1; b=3",
      [
        ["b", "2"],
        ["a", "1"],
      ],
    ],
    [
      "text/plain; x*0*=utf-8''Gr%C3%BC; x*1=\"n; \"; x*2*=%C3%9F; y=1",
      [
        ["x", "Grün; ß"],
        ["y", "1"],
      ],
    ],
    ["text/plain; x*=koi8-r'ru'%C1; x=other", [["x", "а"]]],
    ['text/plain; x=""; y', [["x", ""]]],
    ['text/plain; x="a\u0000\r\nb\u0085"', [["x", "a b"]]],
    ["text/plain; name=a; name*=utf-8''b; filename=c; name*0=d; boundary=e; boundary*0*=f; z=1", [["z", "1"]]],
    [
      'text/plain; a b=1; ü=2; "q=3"; c=4',
      [
        ["q", "3"],
        ["c", "4"],
      ],
    ],
    [
      `text/plain; a=${"x".repeat(990)}; b=${"x".repeat(100)}; c=1`,
      [
        ["a", "x".repeat(990)],
        ["c", "1"],
      ],
    ],
    ["text/plain; x*1000000000=a; x*-1=b; z=1", [["z", "1"]]],
  ];
  test.each(cases.map(([given, kept]) => [plain(given), given, kept] as const))(
    "are read from %s",
    (_, given, kept) => {
      expect(readContentType(given)).toEqual({ contentType: given.split(";", 1)[0] ?? "", parameters: kept });
    },
  );

  test.each(["", "text", "text/", "a b/c; x=1", `${"a".repeat(81)}/b; x=1`])(
    "are none of %j, which is no type",
    (given) => {
      expect(readContentType(given)).toEqual({ contentType: "application/octet-stream", parameters: [] });
    },
  );

  test("are quoted where they are no tokens", () => {
    expect(
      formatTypeParameters([
        ["a", "b-c"],
        ["d", 'e"\\f'],
        ["g", ""],
        ["h", "ü"],
      ]),
    ).toBe('; a=b-c; d="e\\"\\\\f"; g=""; h="ü"');
    const written = 'text/x; a=b-c; d="e\\"\\\\f; z"';
    expect(`text/x${formatTypeParameters(readContentType(written).parameters)}`).toBe(written);
  });

  test("are left out of HTTP where a header cannot have them", () => {
    expect(
      formatHttpParameters([
        ["a", "b c"],
        ["d", "ü"],
        ["e", "x\r\ny"],
        ["f\r\ng", "h"],
        ["i", "j"],
      ]),
    ).toBe('; a="b c"; i=j');
  });

  test("name UTF-8 in the place of another charset, or at the end", () => {
    expect(
      withUtf8Charset([
        ["charset", "latin1"],
        ["a", "1"],
      ]),
    ).toEqual([
      ["charset", "utf-8"],
      ["a", "1"],
    ]);
    expect(withUtf8Charset([["a", "1"]])).toEqual([
      ["a", "1"],
      ["charset", "utf-8"],
    ]);
  });
});
