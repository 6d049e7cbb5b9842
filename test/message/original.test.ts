import { expect, test } from "bun:test";
import fc from "fast-check";
import { withoutBcc } from "../../src/message/original.ts";
import { parseMessage } from "../../src/message/parse.ts";

const cut = (text: string): string => Buffer.from(withoutBcc(Buffer.from(text, "latin1"))).toString("latin1");

test.each([
  ["first", "Bcc: a@x\r\nTo: b@x\r\n\r\nbody", "To: b@x\r\n\r\nbody"],
  ["last", "To: b@x\r\nBcc: a@x\r\n\r\nbody", "To: b@x\r\n\r\nbody"],
  [
    "folded, in any case, with a space before the colon",
    "To: b\r\nBCC : a,\r\n c,\r\n\td\r\nCc: e\r\n\r\nx",
    "To: b\r\nCc: e\r\n\r\nx",
  ],
  ["several, also resent", "Bcc: a\nResent-Bcc: b\nTo: c\nbcc: d\n\nx", "To: c\n\nx"],
  ["at the end of a message without a body", "To: b\r\nBcc: a", "To: b\r\n"],
  ["nothing else", "Bcc: a\n b", ""],
])("Bcc is removed: %s", (_, message, expected) => {
  expect(cut(message)).toBe(expected);
});

test.each([
  ["in the body", "To: b\r\n\r\nBcc: a\r\n"],
  ["as the beginning of another name", "Bcc-Policy: none\r\nX-Bcc: a\r\n\r\n"],
  ["in a folded line", "Subject: about\r\n Bcc: a\r\n\r\n"],
  ["not at all", ""],
])("Bcc stays: %s", (_, message) => {
  expect(cut(message)).toBe(message);
});

test("Bcc is removed even if it is folded often and repeated", () => {
  expect(cut(`Bcc: a\n${" b\n".repeat(2_000_000)}To: c\n\nx`)).toBe("To: c\n\nx");
  expect(cut(`${"Bcc: a\n".repeat(500_000)}To: c\n\nx`)).toBe("To: c\n\nx");
});

test("the lines of other fields stay byte for byte", () => {
  const line = fc.constantFrom(
    "Bcc: a\r\n",
    "To: b\n",
    " folded\r\n",
    "X: \xff\r\n",
    "\r\n",
    "bcc:\n",
    "resent-bcc: c\n",
  );
  fc.assert(
    fc.property(fc.array(line), (lines) => {
      let inBody = false;
      let dropping = false;
      const expected = lines.filter((text) => {
        inBody ||= text === "\r\n";
        if (!inBody && !text.startsWith(" ")) dropping = /^(resent-)?bcc/i.test(text);
        return inBody || !dropping;
      });
      expect(cut(lines.join(""))).toBe(expected.join(""));
    }),
  );
});

test("a message that cannot be parsed is attached without its Bcc", async () => {
  const parts = "--b\r\n\r\nx\r\n".repeat(2_000);
  const message = `To: b@x.example\r\nBcc: secret@x.example\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n${parts}--b--\r\n`;
  const { problem, attachments } = await parseMessage(Buffer.from(message));
  expect(problem).toBeString();
  const original = Buffer.from(attachments[0]?.content ?? []).toString();
  expect(original).toBe(message.replace("Bcc: secret@x.example\r\n", ""));
});
