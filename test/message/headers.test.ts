import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { headerOf, headersOf, isTraceHeader, readHeaders } from "../../src/message/headers.ts";

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
    expect(headerOf(fields, "x-a")).toBe("b");
    expect(headersOf(fields, "x-a")).toEqual(["b", "c"]);
  });

  test("8-bit values are UTF-8, or windows-1252", () => {
    expect(readHeaders(Buffer.from("Subject: Jörg\n\n")).fields[0]?.value).toBe("Jörg");
    expect(read("Subject: J\xf6rg\n\n").fields[0]?.value).toBe("Jörg");
  });

  test("no control character gets out", () => {
    expect(read("Subject: a\0b\rc\x1bd\r\n\r\n").fields[0]?.value).toBe("a b c d");
  });

  test("text that follows the fields without a blank line is the body", () => {
    const source = "Subject: x\nThis is the body\nand more\n\nand more";
    const { fields, bodyStart } = read(source);
    expect(fields).toEqual([{ name: "Subject", value: "x" }]);
    expect(source.slice(bodyStart)).toBe("This is the body\nand more\n\nand more");
  });

  test("a line among the fields that is not a field is skipped", () => {
    expect(read("Subject: x\njunk\nTo: y\n\n").fields.map((field) => field.name)).toEqual(["Subject", "To"]);
  });

  test("a header that other readers may end elsewhere is doubtful", () => {
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

  test("text that begins like an mbox, or is indented, is the body if no field follows", () => {
    expect(read("From here on\n\nmore").bodyStart).toBe(0);
    expect(read("  indented\n\nmore").bodyStart).toBe(0);
    const part = Buffer.from("X: y\n\nFrom here on\nA: b\n\n");
    expect(readHeaders(part, 6)).toMatchObject({ fields: [{ name: "A", value: "b" }], doubtful: true });
  });

  test("a field without a value has it on the next line, indented or not", () => {
    expect(read("X-Info:\nvalue\nTo: y\n\n").fields).toEqual([
      { name: "X-Info", value: "value" },
      { name: "To", value: "y" },
    ]);
  });

  test("the line of an mbox is skipped, and a message without a field is all body", () => {
    expect(read("From a@b Mon Jan 1\nTo: y\n\n").fields).toEqual([{ name: "To", value: "y" }]);
    expect(read("just text\n\nmore").bodyStart).toBe(0);
    expect(read("")).toEqual({ fields: [], start: 0, bodyStart: 0, oversized: false, doubtful: false });
  });

  test("a block beyond the limits says so and keeps what came before", () => {
    const { fields, oversized } = read("X: y\n".repeat(5_000));
    expect(oversized).toBe(true);
    expect(fields.length).toBe(1_000);
    expect(read(`Subject: ${"x".repeat(600_000)}\n\n`).oversized).toBe(true);
  });

  test("never throws; every offset is inside the bytes", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."a:- \t\r\n\0\xe9".split("")) }), (text) => {
        const { bodyStart, fields } = read(text);
        expect(bodyStart).toBeLessThanOrEqual(text.length);
        for (const { name, value } of fields) expect(name + value).not.toMatch(/[\r\n\0]/);
      }),
    );
  });
});

test("isTraceHeader", () => {
  for (const name of ["Received", "DKIM-Signature", "arc-seal", "Return-Path", "Authentication-Results"]) {
    expect(isTraceHeader(name)).toBe(true);
  }
  for (const name of ["Subject", "List-Id", "X-Spam-Score", "Message-ID"]) expect(isTraceHeader(name)).toBe(false);
});
