import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { type Part, parseHeaderValue, readStructure, TooComplex, walkLeafParts } from "../../src/message/structure.ts";

const bytes = (text: string) => Buffer.from(text, "latin1");

/** [type, content] of every leaf. */
function leaves(text: string): [string, string][] {
  const buffer = bytes(text);
  return [...walkLeafParts(readStructure(buffer))].map((part) => [
    part.type,
    buffer.toString("latin1", part.start, part.end),
  ]);
}

const multipart = (boundary: string, ...parts: string[]) =>
  `Content-Type: multipart/mixed; boundary=${boundary}\n\n${parts.map((part) => `--${boundary}\n${part}`).join("\n")}\n--${boundary}--\n`;

describe("readStructure", () => {
  test("reads a message of one part", () => {
    expect(leaves("Subject: x\r\n\r\nbody\r\n")).toEqual([["text/plain", "body\r\n"]]);
    expect(leaves("")).toEqual([["text/plain", ""]]);
  });

  test("reads parts in order, without preamble, epilogue and the line breaks of delimiters", () => {
    const text =
      'Content-Type: multipart/mixed; boundary="b"\r\n\r\npreamble\r\n--b\r\n\r\none\r\n--b\r\nContent-Type: TEXT/HTML\r\n\r\n<p>\r\n\r\n--b--\r\nepilogue';
    expect(leaves(text)).toEqual([
      ["text/plain", "one"],
      ["text/html", "<p>\r\n"],
    ]);
  });

  test("closes an inner multipart at a delimiter of the outer one", () => {
    const inner = "Content-Type: multipart/alternative; boundary=i\n\n--i\n\none\n--i\n\ntwo";
    expect(leaves(multipart("o", inner, "\nthree")).map(([, content]) => content)).toEqual(["one", "two", "three"]);
  });

  test("accepts white space after a delimiter", () => {
    expect(leaves("Content-Type: multipart/mixed; boundary=b\n\n--b \t\n\none\n--b-- \n")).toEqual([
      ["text/plain", "one"],
    ]);
  });

  test("distinguishes a boundary that begins like another", () => {
    const inner = "Content-Type: multipart/mixed; boundary=bb\n\n--bb\n\none\n--bb--";
    expect(leaves(multipart("b", inner, "\ntwo")).map(([, content]) => content)).toEqual(["one", "two"]);
  });

  test("ends an inner multipart with the boundary of its parent at its own closing delimiter", () => {
    const inner = "Content-Type: multipart/mixed; boundary=b\n\n--b\n\none\n--b--";
    expect(leaves(multipart("b", inner, "\ntwo")).map(([, content]) => content)).toEqual(["one", "two"]);
  });

  test.each([
    ["closing, of a boundary that begins like the outer one", "b", "bc", "--bc--\n"],
    ["closing, of the outer boundary", "b", "b", "--b--"],
    ["closing, and an epilogue", "b", "c", "--c--\nEpilogue"],
    ["none", "b", "c", "two"],
    ["of a boundary in UTF-8", "b\xc3\xa9", "c", "--c--"],
  ])(
    "an inner multipart goes up to the next delimiter of the outer one; its last line: %s",
    (_, outer, inner, last) => {
      const body = `--${inner}\n\none\n${last}`;
      const text = multipart(outer, `Content-Type: multipart/mixed; boundary=${inner}\n\n${body}`, "\nthree");
      for (const end of ["\n", "\r\n"]) {
        const buffer = bytes(text.replaceAll("\n", end));
        const root = readStructure(buffer);
        const [part] = root.children;
        expect(buffer.toString("latin1", part?.start, part?.end)).toBe(body.replaceAll("\n", end));
        expect(root.end).toBe(buffer.length);
      }
    },
  );

  test("ends a header at the first delimiter if its blank line is missing, or holds white space", () => {
    for (const blank of ["", " \r\n", "\t\r\n", "\r\r\n", "A note\r\n"]) {
      for (const other of ["", "X: y\r\n"]) {
        const text = `Content-Type: multipart/mixed;\r\n boundary="b"\r\n${other}${blank}--b\r\nX-A: 1\r\n\r\none\r\n--b\r\n\r\ntwo\r\n--b--\r\n`;
        expect(leaves(text).map(([, content]) => content)).toEqual(["one", "two"]);
      }
    }
    const inner = "Content-Type: multipart/mixed; boundary=i\n \n--i\n\none\n--i--";
    expect(leaves(multipart("o", inner, "\ntwo")).map(([, content]) => content)).toEqual(["one", "two"]);
    expect(leaves("Content-Type: text/plain; boundary=b\n--b\n\none").map(([, content]) => content)).toEqual([
      "--b\n\none",
    ]);
  });

  test("takes a multipart whose delimiter never comes for a text", () => {
    expect(leaves("Content-Type: multipart/mixed; boundary=b\n\nhello\n--c\n")).toEqual([
      ["text/plain", "hello\n--c\n"],
    ]);
    expect(leaves("Content-Type: multipart/mixed\n\nhello")).toEqual([["text/plain", "hello"]]);
    expect(leaves("Content-Type: multipart/mixed; boundary=b\n\nhello\n--b--\n")).toEqual([["text/plain", "hello"]]);
  });

  test("finds a boundary without a semicolon before it", () => {
    expect(leaves('Content-Type: multipart/mixed\n boundary="b"\n\n--b\n\none\n--b--')).toEqual([
      ["text/plain", "one"],
    ]);
  });

  test("takes text before the first delimiter of an inner multipart for a part only if its own Content-Type is there", () => {
    const inner = "Content-Type: multipart/alternative; boundary=i\nContent-Type: text/x-own\n\none\n--i\n\ntwo\n--i--";
    expect(leaves(multipart("o", inner))).toEqual([
      ["text/x-own", "one"],
      ["text/plain", "two"],
    ]);
    for (const fields of ["", "Content-Transfer-Encoding: 7bit\n", "X-Own: text/plain\n"]) {
      const related = `Content-Type: multipart/related; boundary=i\n${fields}\nThis is a multi-part message in MIME format.\n--i \t\n\none\n--i--`;
      const around = `Content-Type: multipart/mixed; boundary=r\n\nThis is, too.\n--r\n${related}\n--r--\nend`;
      expect(leaves(multipart("o", around, "\ntwo"))).toEqual([
        ["text/plain", "one"],
        ["text/plain", "two"],
      ]);
    }
  });

  test("takes an inner multipart without parts for a text", () => {
    const inner = "Content-Type: multipart/alternative; boundary=i\n\none\n--i--";
    expect(leaves(multipart("o", inner, "\ntwo")).map(([, content]) => content)).toEqual(["one", "two"]);
  });

  test("reads parts after a closing delimiter", () => {
    expect(leaves(`${multipart("b", "\none")}--b\n\ntwo`).map(([, content]) => content)).toEqual(["one", "two"]);
  });

  test("takes the parts of a digest for messages unless they name another type", () => {
    const digest = multipart("b", "\nSubject: x\n\nbody").replace("mixed", "digest");
    expect(leaves(digest)).toEqual([["message/rfc822", "Subject: x\n\nbody"]]);
  });

  test("takes a nested message for one part", () => {
    const inside = `Content-Type: message/rfc822\n\n${multipart("i", "\none")}`;
    expect(leaves(multipart("o", inside)).map(([type]) => type)).toEqual(["message/rfc822"]);
  });

  test("takes an invalid media type for text or data", () => {
    const typeOf = (value: string) => leaves(`Content-Type: ${value}\n\nx`)[0]?.[0] ?? "";
    expect(typeOf("text")).toBe("text/plain");
    expect(typeOf("text/plain charset=x")).toBe("text/plain");
    expect(typeOf("application/pdf (a comment); name=x")).toBe("application/pdf");
    expect(typeOf("nonsense")).toBe("application/octet-stream");
  });

  test("throws TooComplex beyond the limits", () => {
    expect(() => readStructure(bytes(multipart("b", ...Array.from({ length: 1_001 }, () => "\nx"))))).toThrow(
      TooComplex,
    );
    const deep = Array.from(
      { length: 60 },
      (_, i) => `Content-Type: multipart/mixed; boundary=b${i}\n\n--b${i}\n`,
    ).join("");
    expect(() => readStructure(bytes(deep))).toThrow(TooComplex);
    expect(() => readStructure(bytes("\n".repeat(2_000_001)))).toThrow(TooComplex);
    expect(() => readStructure(bytes(`${"X: y\n".repeat(1_001)}\n`))).toThrow(TooComplex);
  });

  test("throws nothing else, and gives leaves that lie in order inside the bytes and do not overlap", () => {
    const line = fc.constantFrom(
      "Content-Type: multipart/mixed; boundary=a",
      "Content-Type: multipart/digest; boundary=b",
      "Content-Type: message/rfc822",
      "--a",
      "--b",
      "--a--",
      "--b--",
      "--",
      "",
      "text",
      "X: y",
    );
    fc.assert(
      fc.property(fc.array(line, { maxLength: 40 }), fc.constantFrom("\n", "\r\n"), (lines, end) => {
        const buffer = bytes(lines.join(end));
        let position = 0;
        for (const part of walkLeafParts(readStructure(buffer))) {
          expect(part.start).toBeGreaterThanOrEqual(position);
          expect(part.end).toBeGreaterThanOrEqual(part.start);
          position = part.end;
        }
        expect(position).toBeLessThanOrEqual(buffer.length);
        const holdsParts = (part: Part): boolean =>
          part.children.every((child) => child.end <= part.end && holdsParts(child));
        expect(holdsParts(readStructure(buffer))).toBe(true);
      }),
    );
  });
});

test("parseHeaderValue reads values and parameters, with quotes and comments", () => {
  const parse = (text: string) => {
    const { value, parameters } = parseHeaderValue(text);
    return [value, Object.fromEntries(parameters)];
  };
  expect(parse('Text/Plain; Charset="utf-8"; name=a b.txt')).toEqual([
    "text/plain",
    { charset: "utf-8", name: "a b.txt" },
  ]);
  expect(parse('attachment; filename="a \\"b\\"; c.txt"')).toEqual(["attachment", { filename: 'a "b"; c.txt' }]);
  expect(parse("text/plain; charset=us-ascii (Plain text)")).toEqual(["text/plain", { charset: "us-ascii" }]);
  expect(parse("a/b; x=1; x=2; y; =z")).toEqual(["a/b", { x: "1" }]);
  expect(parse("")).toEqual(["", {}]);
});
