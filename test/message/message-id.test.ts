import { describe, expect, test } from "bun:test";
import { fingerprintMessage, firstMessageId, parseReferences } from "../../src/message/message-id.ts";

test("firstMessageId gives an identifier in angle brackets, with or without brackets in the header", () => {
  expect(firstMessageId(" <a@b> (comment)")).toBe("<a@b>");
  expect(firstMessageId("a@b")).toBe("<a@b>");
  expect(firstMessageId("<a\t@b>")).toBe("<a@b>");
  expect(firstMessageId("<a@b")).toBe("<a@b>");
  expect(firstMessageId("Your message of Monday <a@b>")).toBe("<a@b>");
  expect(firstMessageId("no identifier")).toBeUndefined();
  expect(firstMessageId("<>")).toBeUndefined();
  expect(firstMessageId(`<${"x".repeat(2_000)}@b>`)).toBeUndefined();
});

test("referencesOf gives each identifier once, oldest first, and of too many the root and the newest", () => {
  expect(parseReferences("<a@b><c@d> <a@b>,<e@f>")).toEqual(["<a@b>", "<c@d>", "<e@f>"]);
  const many = parseReferences(Array.from({ length: 150 }, (_, i) => `<${i}@x>`).join(" "));
  expect(many.length).toBe(100);
  expect(many[0]).toBe("<0@x>");
  expect(many.at(1)).toBe("<51@x>");
  expect(many.at(-1)).toBe("<149@x>");
});

describe("fingerprintOf", () => {
  const bytes = (text: string) => new Uint8Array(Buffer.from(text));
  const MAIL = "Subject: x\r\nMessage-ID: <a@b>\r\n\r\nbody\r\n";

  test("ignores trace and authentication headers, folding and the end of the file", () => {
    const print = fingerprintMessage(bytes(MAIL));
    expect(print).toMatch(/^[0-9a-f]{64}$/);
    expect(
      fingerprintMessage(bytes(`Received: from a\r\n by b\r\nDKIM-Signature: v=1\r\nARC-Seal: i=1\r\n${MAIL}`)),
    ).toBe(print);
    expect(fingerprintMessage(bytes("subject:  x\r\nMessage-ID:\r\n <a@b>\r\n\r\nbody"))).toBe(print);
  });

  test("covers all other headers and the body", () => {
    const prints = [
      MAIL,
      MAIL.replace("x", "y"),
      MAIL.replace("body", "Body"),
      MAIL.replace("\r\n\r\n", "\r\nX-Extra: 1\r\n\r\n"),
      "Subject: x\r\n\r\nbody",
      "",
    ].map((mail) => fingerprintMessage(bytes(mail)));
    expect(new Set(prints).size).toBe(prints.length);
  });

  test("covers a header block of any size", () => {
    const large = "X: y\r\n".repeat(20_000) + MAIL;
    expect(fingerprintMessage(bytes(`Received: a\r\n${large}`))).toBe(fingerprintMessage(bytes(large)));
  });
});
