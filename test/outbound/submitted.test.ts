/** Messages from mail apps: those that are accepted, and their completion (RFC 6409 §8). */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseMessage } from "../../src/message/parse.ts";
import { completeSubmitted, readSubmitted } from "../../src/outbound/submitted.ts";
import { Refusal } from "../../src/smtp/refusal.ts";
import { START } from "../harness/runtime.ts";

const crlf = (text: string): Uint8Array => Buffer.from(text.replaceAll(/\r?\n/g, "\r\n"), "latin1");
const read = (text: string) => readSubmitted(crlf(text));
const added = { hostname: "mail.example.test", trace: "abc-123_XYZ0", messageId: "<new@example.test>", now: START };
const complete = (content: Uint8Array): string =>
  Buffer.from(completeSubmitted(readSubmitted(content), added)).toString("latin1");

const RECEIVED =
  "Received: by mail.example.test (Mailroom) with ESMTPSA id abc-123_XYZ0;\r\n\tMon, 05 Jan 2026 09:00:00 +0000\r\n";

const WHOLE = [
  "From: Alice <alice@example.test>",
  "To: Xenia <x@remote.example>, y@remote.example",
  "Cc: z@remote.example",
  "Message-ID: <1@app.example>",
  "Date: Sun, 04 Jan 2026 23:00:00 +0100",
  "Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=",
  "X-Odd:   spaces\t and",
  "\tfolds  ",
  "",
  "Body",
  ".",
  " trailing  ",
  "",
].join("\r\n");

describe("added fields", () => {
  test("one Received field, where nothing is missing", () => {
    expect(complete(crlf(WHOLE))).toBe(RECEIVED + WHOLE);
  });

  test("Message-ID and Date, where they are missing", () => {
    const bare = "From: alice@example.test\r\nSubject: x\r\n\r\n";
    const line = { id: "Message-ID: <new@example.test>\r\n", date: "Date: Mon, 05 Jan 2026 09:00:00 +0000\r\n" };
    expect(complete(crlf(bare))).toBe(RECEIVED + line.id + line.date + bare);
    expect(complete(crlf(`message-id: <a@b>\r\n${bare}`))).toBe(`${RECEIVED + line.date}message-id: <a@b>\r\n${bare}`);
    expect(complete(crlf(`DATE: today\r\n${bare}`))).toBe(`${RECEIVED + line.id}DATE: today\r\n${bare}`);
  });

  test("also before a message without an empty line, a body or a last line break", () => {
    for (const content of ["From: a@example.test\r\n", "From: a@example.test", "From: a@example.test\r\n\r\n"]) {
      expect(complete(crlf(content))).toEndWith(content);
    }
  });
});

describe("removed fields and line ends", () => {
  test("Bcc and Resent-Bcc, in any spelling, and nothing like them in the body", () => {
    const content = crlf(
      "From: alice@example.test\nBcc: one@remote.example,\n two@remote.example\nTo: x@remote.example\nbCC : three@r.example\n" +
        "Resent-Bcc: four@r.example\nX-Bcc: stays\n\nBcc: stays@remote.example\n",
    );
    const bytes = complete(content);
    expect(bytes).toEndWith(
      "From: alice@example.test\r\nTo: x@remote.example\r\nX-Bcc: stays\r\n\r\nBcc: stays@remote.example\r\n",
    );
    expect(bytes).not.toMatch(/one@|two@|three@|four@/);
    expect(readSubmitted(content).bcc.map(({ email }) => email)).toEqual([
      "one@remote.example",
      "two@remote.example",
      "three@r.example",
    ]);
  });

  test.each([
    ["LF", "\n"],
    ["CR", "\r"],
  ])("a bare %s becomes a line end, so that a Bcc field cannot pass as body", (_, end) => {
    const content = Buffer.from(
      `From: a@example.test\r\nSubject: x${end}Bcc: hidden@r.example${end}${end}body${end}.\r\n`,
    );
    expect(complete(content)).toEndWith("From: a@example.test\r\nSubject: x\r\n\r\nbody\r\n.\r\n");
  });

  test("no byte of a body with correct line ends", () => {
    const line = fc
      .uint8Array({ maxLength: 40 })
      .map((bytes) => bytes.map((byte) => (byte === 10 || byte === 13 || byte === 0 ? 1 : byte)));
    fc.assert(
      fc.property(fc.array(line, { maxLength: 20 }), (lines) => {
        const body = Buffer.concat(lines.flatMap((bytes) => [bytes, Buffer.from("\r\n")]));
        const content = Buffer.concat([Buffer.from("From: a@example.test\r\nBcc: b@r.example\r\n\r\n"), body]);
        const bytes = Buffer.from(complete(content), "latin1");
        expect(bytes.subarray(bytes.indexOf("\r\n\r\n") + 4).equals(body)).toBe(true);
      }),
    );
  });

  test("any line ends become CRLF", () => {
    const text = fc.array(fc.constantFrom("\r", "\n", "\r\n", ".", "x", "Bcc: y"), { maxLength: 30 });
    fc.assert(
      fc.property(text, (parts) => {
        const content = Buffer.from(`From: a@example.test\r\n\r\n${parts.join("")}`);
        expect(complete(content).replaceAll("\r\n", "")).not.toMatch(/[\r\n]/);
      }),
    );
  });
});

test("the fields that are read", () => {
  const answers = "In-Reply-To: <2@remote.example>\r\nReferences: <1@remote.example>\r\n <2@remote.example>\r\n";
  const { bytes, ...known } = read(`Sender: "A. B." <assistant@example.test>\r\n${answers}${WHOLE}`);
  expect(known).toEqual({
    from: "alice@example.test",
    sender: "assistant@example.test",
    messageId: "<1@app.example>",
    inReplyTo: "<2@remote.example>",
    references: ["<1@remote.example>", "<2@remote.example>"],
    hasDate: true,
    to: [{ email: "x@remote.example", name: "Xenia" }, { email: "y@remote.example" }],
    cc: [{ email: "z@remote.example" }],
    bcc: [],
  });
  expect(bytes.byteLength).toBeGreaterThan(WHOLE.length);
});

describe("From is exactly one address", () => {
  test.each([
    ["alice@example.test", "alice@example.test"],
    ["Alice <Alice@EXAMPLE.test>", "Alice@example.test"],
    ['"ceo@bank.example" <alice@example.test>', "alice@example.test"],
    ['"Doe, Alice; (<x@y>)" <alice@example.test> (a note, too)', "alice@example.test"],
    ["=?utf-8?q?=22Al=C3=ADce=22_=3Cceo=40bank.example=3E?= <alice@example.test>", "alice@example.test"],
    ["Alice\n <alice@example.test>", "alice@example.test"],
    ["alice@example.test <alice@example.test>", "alice@example.test"],
  ])("%s", (value, from) => {
    expect(read(`From: ${value}\n\n`).from).toBe(from);
  });

  test.each([
    "",
    "Alice",
    "alice@example.test, bob@example.test",
    "alice@example.test bob@example.test",
    "<alice@example.test> <ceo@bank.example>",
    "<ceo@bank.example> <alice@example.test>",
    "alice@example.test <ceo@bank.example>",
    "Alice <alice@example.test",
    '"Alice <alice@example.test>',
    "team: alice@example.test, bob@example.test;",
    "<@relay.example:alice@example.test@bank.example>",
  ])("%j is refused", (value) => {
    expect(() => read(`From: ${value}\n\n`)).toThrow("5.7.1 From must be one address");
  });

  test("Sender is exactly one address too", () => {
    expect(() => read("From: a@example.test\nSender: b@example.test, c@example.test\n\n")).toThrow("Sender");
  });
});

describe("malformed", () => {
  test.each([
    ["no header", "\nFrom: a@example.test\n"],
    ["no From", "Subject: x\n\nFrom: a@example.test\n"],
    ["nothing", ""],
    ["two From", "From: a@example.test\nFrom: ceo@bank.example\n\n"],
    ["two From, one with a space", "From: a@example.test\nFrom : ceo@bank.example\n\n"],
    ["two From, one after a stray line", "From: a@example.test\nstray\nFrom: ceo@bank.example\n\n"],
    ["two From, one in another case", "From: a@example.test\nFROM: ceo@bank.example\n\n"],
    ["two Subject", "From: a@example.test\nSubject: x\nSubject: y\n\n"],
    ["two Message-ID", "From: a@example.test\nMessage-ID: <a@b>\nMessage-Id: <c@d>\n\n"],
    ["a Message-ID that is none", "From: a@example.test\nMessage-ID: none\n\n"],
    ["a folded line at the beginning", " x\nFrom: a@example.test\n\n"],
    ["a line of mbox", "From a@example.test Mon Jan  5\nFrom: a@example.test\n\n"],
    ["a line that is no field", "From: a@example.test\nno field\n\nbody\n"],
    ["a line of bytes", "From: a@example.test\nS\xfcbject: x\n\nbody\n"],
    ["a header without end", `From: a@example.test\n${"X: y\n".repeat(2_000)}From: ceo@bank.example\n\n`],
  ])("%s is refused", (_, content) => {
    let thrown: unknown;
    try {
      read(content);
    } catch (error) {
      thrown = error;
    }
    expect(thrown).toBeInstanceOf(Refusal);
    expect(thrown).toMatchObject({ reason: "malformed", responseCode: 550 });
  });
});

test("the address that is read is the one that the message's readers see", async () => {
  const part = fc.constantFrom(
    "alice@example.test",
    "ceo@bank.example",
    "<",
    ">",
    '"',
    "(",
    ")",
    ",",
    " ",
    ":",
    ";",
    "x",
  );
  await fc.assert(
    fc.asyncProperty(fc.array(part, { maxLength: 8 }), async (parts) => {
      const content = crlf(`From: ${parts.join("")}\r\nSubject: x\r\n\r\n`);
      let from: string;
      try {
        from = readSubmitted(content).from;
      } catch {
        return;
      }
      expect((await parseMessage(content)).from?.email).toBe(from);
    }),
    { numRuns: 2_000 },
  );
});
