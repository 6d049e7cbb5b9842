/** Files that are uuencoded in texts (rules: Forms of mail). */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseMessage } from "../../src/message/parse.ts";
import { findUuencoded } from "../../src/message/uuencode.ts";
import { uuencoded } from "../harness/mail/uuencode.ts";

const mail = (body: string, header = "Content-Type: text/plain; charset=utf-8") =>
  parseMessage(Buffer.from(`From: ann@a.example\r\n${header}\r\n\r\n${body.replace(/\r?\n/g, "\r\n")}`));
const read = async (body: string, header?: string) => {
  const { text, attachments } = await mail(body, header);
  return [text, ...attachments.map(({ filename, content }) => [filename, Buffer.from(content).toString()])];
};
const file = uuencoded("Cat.txt", Buffer.from("Cat and dog"));

test("the file of the standard's kind is read", () => {
  expect(file).toBe('begin 644 Cat.txt\n+0V%T(&%N9"!D;V<`\n`\nend\n');
});

describe("a file in a text", () => {
  test("becomes an attachment, and the text around it stays", async () => {
    expect(await read(`Grüße,\n\n${file}\nAnn\n`)).toEqual(["Grüße,\n\n\nAnn", ["Cat.txt", "Cat and dog"]]);
    expect(await read(file)).toEqual(["", ["Cat.txt", "Cat and dog"]]);
  });

  test("may have neighbours, in mail without MIME, too", async () => {
    const other = uuencoded("b.bin", Buffer.from("B".repeat(200)));
    expect(await read(`One\n${file}Two\n${other}${file}Three`, "Subject: x")).toEqual([
      "One\n\nTwo\n\nThree",
      ["Cat.txt", "Cat and dog"],
      ["b.bin", "B".repeat(200)],
      ["Cat.txt", "Cat and dog"],
    ]);
  });

  test("is read below a transfer encoding, with spaces for zero, and without those at the ends of lines", async () => {
    const encoded = Buffer.from(`Hi\r\n${file.replaceAll("\n", "\r\n")}`).toString("base64");
    expect(await read(encoded, "Content-Type: text/plain\r\nContent-Transfer-Encoding: base64")).toHaveLength(2);
    const zeros = Buffer.from("a\0\0\0\0\0b\0\0\0");
    const spaces = uuencoded("z", zeros).replaceAll("`", " ");
    for (const written of [spaces, spaces.replace(/ +$/gm, "")]) {
      const [{ content } = { content: new Uint8Array() }] = (await mail(`x\n${written}`)).attachments;
      expect(Buffer.from(content)).toEqual(zeros);
    }
  });

  test("is a part by its transfer encoding", async () => {
    const header = "Content-Type: image/gif; name=a.gif\r\nContent-Transfer-Encoding: x-uuencode";
    const { attachments } = await mail(file, header);
    expect(attachments.map(({ filename, contentType }) => [filename, contentType])).toEqual([["a.gif", "image/gif"]]);
  });

  test.each([
    ["without an end", file.replace("end\n", "")],
    ["with a word among its lines", file.replace("`\n", "Hello\n`\n")],
    ["without a mode", file.replace("644 ", "")],
    ["without a name", file.replace(" Cat.txt", "")],
    ["behind other words", `> ${file}`],
    ["without data", "begin 644 a\nend\n"],
    ["that goes on behind its last line", file.replace("end", "#0V%T\nend")],
    ["that is a program", "begin 644 times\n  WriteLn('x');\nend\n"],
  ])("stays text %s", async (_, written) => {
    const [text, ...attachments] = await read(`Hi\n${written}\nAnn`);
    expect(attachments).toEqual([]);
    expect(text).toBe(`Hi\n${written}\nAnn`.replace(/\n+$/, ""));
  });
});

test("any file is found as it was, and any text is read", () => {
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 300 }), (octets) => {
      const [, found] = findUuencoded(Buffer.from(`Hi\n${uuencoded("a b", octets)}`)) ?? [];
      expect(found).toEqual({ name: "a b", content: Buffer.from(octets) });
    }),
  );
  const unit = fc.constantFrom("begin 644 a\n", "#0V%T\n", "`\n", "\n", "end\n", "end", "M", " ");
  fc.assert(
    fc.property(fc.string({ unit }), (text) => {
      const pieces = findUuencoded(Buffer.from(text)) ?? [];
      for (const piece of pieces) if ("content" in piece) expect(piece.content.length).toBeGreaterThan(0);
    }),
  );
});
