import { expect, test } from "bun:test";
import { fingerprintOf } from "../../src/message/fingerprint.ts";

const bytes = (text: string) => new Uint8Array(Buffer.from(text));
const MAIL = "Subject: x\r\nMessage-ID: <a@b>\r\n\r\nbody\r\n";

test("ignores trace and authentication headers, folding and the end of the file", () => {
  const print = fingerprintOf(bytes(MAIL));
  expect(print).toMatch(/^[0-9a-f]{64}$/);
  expect(fingerprintOf(bytes(`Received: from a\r\n by b\r\nDKIM-Signature: v=1\r\nARC-Seal: i=1\r\n${MAIL}`))).toBe(
    print,
  );
  expect(fingerprintOf(bytes("subject:  x\r\nMessage-ID:\r\n <a@b>\r\n\r\nbody"))).toBe(print);
});

test("covers everything else", () => {
  const prints = [
    MAIL,
    MAIL.replace("x", "y"),
    MAIL.replace("body", "Body"),
    MAIL.replace("\r\n\r\n", "\r\nX-Extra: 1\r\n\r\n"),
    "Subject: x\r\n\r\nbody",
    "",
  ].map((mail) => fingerprintOf(bytes(mail)));
  expect(new Set(prints).size).toBe(prints.length);
});

test("a header block of any size is read", () => {
  const large = "X: y\r\n".repeat(20_000) + MAIL;
  expect(fingerprintOf(bytes(`Received: a\r\n${large}`))).toBe(fingerprintOf(bytes(large)));
});
