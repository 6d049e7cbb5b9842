import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import PostalMime from "postal-mime";
import { composeMessage, dateHeader, formatAddress, type MessageParts } from "../../src/message/compose.ts";
import { parseDate } from "../../src/message/date.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { readRecipients } from "../../src/message/recipients.ts";
import { anyCharacter } from "../harness/any-character.ts";

const bytes = (text: string) => new Uint8Array(Buffer.from(text));
const compose = async (parts: Partial<MessageParts>) =>
  Buffer.from(composeMessage({ id: "msg_1", headers: [], text: "", attachments: [], ...parts })).toString("latin1");

const PDF = { filename: "a.pdf", contentType: "application/pdf", content: bytes("%PDF"), inline: false };
const PICTURE = { filename: "p.png", contentType: "image/png", content: bytes("PNG"), inline: true, contentId: "p@x" };

describe("composeMessage", () => {
  test("a text", async () => {
    expect(await compose({ headers: [["Subject", "x"]], text: "Hello\nyou" })).toBe(
      "Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 7bit\r\n\r\nHello\r\nyou\r\n",
    );
  });

  test("a long text is base64 with any content", async () => {
    const text = "On Monday you wrote: ä\n".repeat(25_000);
    const source = await compose({ text, html: text });
    expect(source.match(/^Content-Transfer-Encoding: .*$/gm)).toEqual([
      "Content-Transfer-Encoding: base64",
      "Content-Transfer-Encoding: base64",
    ]);
    const parsed = await parseMessage(new Uint8Array(Buffer.from(source, "latin1")));
    expect([parsed.text.trimEnd(), parsed.html?.replaceAll("\r\n", "\n").trimEnd()]).toEqual([
      text.trimEnd(),
      text.trimEnd(),
    ]);
  });

  test("the parts nest according to RFC 2046 and RFC 2387", async () => {
    const source = await compose({ text: "t", html: '<img src="cid:p@x">', attachments: [PDF, PICTURE] });
    const types = [...source.matchAll(/^Content-Type: ([a-z/-]+)/gm)].map(([, type]) => type);
    expect(types as string[]).toEqual([
      "multipart/mixed",
      "multipart/alternative",
      "text/plain",
      "multipart/related",
      "text/html",
      "image/png",
      "application/pdf",
    ]);
    expect(source).toContain("Content-ID: <p@x>\r\n");
  });

  test("headers are replayed in order and as they were written", async () => {
    const source = await compose({
      headers: [
        ["X-odd-CASE", "=?utf-8?q?J=C3=B6rg?= stays"],
        ["Date", "Tue, 1 Jul 2003 10:52:37 +0200 (Ortszeit)"],
        ["Content-Type", "text/html"],
        ["MIME-Version", "2.0"],
        ["bad name", "x"],
      ],
      text: "t",
    });
    expect(source).toStartWith(
      "X-odd-CASE: =?utf-8?q?J=C3=B6rg?= stays\r\nDate: Tue, 1 Jul 2003 10:52:37 +0200 (Ortszeit)\r\nMIME-Version: 1.0\r\nContent-Type: text/plain",
    );
  });

  test("characters outside ASCII are encoded, and addresses stay addresses", async () => {
    const source = await compose({
      headers: [
        ["Subject", "Grüße 😀"],
        ["To", 'Jörg <j@a.example>, "Bär, A" <b@a.example>'],
      ],
      text: "Grüße",
    });
    expect(source).toMatch(/^[\t\r\n -~]*$/);
    const message = await parseMessage(Buffer.from(source, "latin1"));
    expect(message.subject).toBe("Grüße 😀");
    expect(message.to).toEqual([
      { email: "j@a.example", name: "Jörg" },
      { email: "b@a.example", name: "Bär, A" },
    ]);
  });

  test("adds no Date or Message-ID, and gives the same bytes each time", async () => {
    const parts = { text: "t", html: "<p>t", attachments: [PDF] };
    const source = await compose(parts);
    expect(source).not.toMatch(/^(?:Date|Message-ID):/im);
    expect(await compose(parts)).toBe(source);
  });

  test("a message inside is attached as RFC 2046 allows, byte for byte", async () => {
    for (const inside of [
      "Subject: x\r\n\r\nplain\r\n",
      "Subject: x\n\nJörg",
      `Subject: x\n\n${"y".repeat(2_000)}\u0000`,
      "",
    ]) {
      const attachment = { filename: "m.eml", contentType: "message/rfc822", content: bytes(inside), inline: false };
      const source = await compose({ text: "t", attachments: [attachment] });
      expect(source).toMatch(/Content-Transfer-Encoding: (?:7bit|8bit|binary)\r\n\r\n(?!.*base64)/s);
      const message = await parseMessage(Buffer.from(source, "latin1"));
      expect(Buffer.from(message.attachments[0]?.content ?? [1]).toString()).toBe(inside);
    }
  });

  test("a type that cannot be re-attached becomes data", async () => {
    const source = await compose({ attachments: [{ ...PDF, contentType: "multipart/mixed; boundary=x\r\nX: y" }] });
    expect(source).toContain("Content-Type: application/octet-stream");
  });
});

test("formatAddress", () => {
  expect(formatAddress({ email: "a@b.example" })).toBe("a@b.example");
  expect(formatAddress({ email: "a@b.example", name: "Ann B" })).toBe("Ann B <a@b.example>");
  expect(formatAddress({ email: "a@b.example", name: 'B, "A"' })).toBe('"B, \\"A\\"" <a@b.example>');
  expect(formatAddress({ email: "a@b.example>\r\nBcc: x", name: "A\r\nBcc: y" })).toBe(
    "A Bcc: y <a@b.exampleBcc:x>".replace("A Bcc: y", '"A Bcc: y"'),
  );
});

test("dateHeader", () => {
  expect(dateHeader(Date.UTC(2003, 6, 1, 8, 52, 37, 999))).toBe("Tue, 01 Jul 2003 08:52:37 +0000");
  expect(dateHeader(0)).toBe("Thu, 01 Jan 1970 00:00:00 +0000");
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4_102_444_799 }), (seconds) => {
      expect(parseDate(dateHeader(seconds * 1_000))).toBe(seconds * 1_000);
    }),
  );
});

describe("for any content", () => {
  const text = fc.string({ unit: anyCharacter, maxLength: 300 });
  const attachment = fc
    .record({
      filename: fc.oneof(text, fc.string()),
      contentType: fc.constantFrom(
        "image/png",
        "text/plain",
        "text/html",
        "message/rfc822",
        "message/delivery-status",
        "application/x-odd",
      ),
      content: fc.uint8Array({ maxLength: 300 }),
      inline: fc.boolean(),
      contentId: fc.option(text, { nil: undefined }),
    })
    .map(({ contentId, ...rest }) => (contentId === undefined ? rest : { ...rest, contentId }));
  const parts = fc.record({
    headers: fc.array(fc.tuple(fc.constantFrom("Subject", "To", "From", "X-Custom", "References", "Date"), text), {
      maxLength: 6,
    }),
    text,
    html: fc.option(text, { nil: undefined }),
    attachments: fc.array(attachment, { maxLength: 4 }),
  });
  const withoutHtml = ({
    html,
    ...rest
  }: { html: string | undefined } & Omit<MessageParts, "id" | "html">): MessageParts => ({
    id: "msg_1",
    ...rest,
    ...(html === undefined ? {} : { html }),
  });

  test("no field adds a header, no line of the header is too long", async () => {
    await fc.assert(
      fc.asyncProperty(parts, async (given) => {
        const source = Buffer.from(composeMessage(withoutHtml(given))).toString("latin1");
        const head = source.slice(0, source.indexOf("\r\n\r\n"));
        const names = head.split(/\r\n(?![ \t])/).map((field) => field.slice(0, field.indexOf(":")).toLowerCase());
        const allowed = [
          "mime-version",
          "content-type",
          "content-transfer-encoding",
          ...given.headers.map(([name]) => name.toLowerCase()),
        ];
        for (const name of names) expect(allowed).toContain(name);
        expect(names.length).toBeLessThanOrEqual(given.headers.length + 3);
        for (const line of head.split("\r\n")) expect(line.length).toBeLessThanOrEqual(998);
      }),
    );
  });

  test("every field is read back in its position, and no field is added", async () => {
    const injected = fc.constantFrom(
      "x\r\nBcc: eve@evil.example",
      "\r\n\r\nbody",
      "a\rX: y",
      "a\nX: y",
      "\u0085X: y",
      "\u2028X: y",
    );
    const names = fc.constantFrom("From", "To", "Cc", "Reply-To", "Subject", "In-Reply-To", "Date", "X-Custom");
    const headers = fc.array(fc.tuple(names, fc.oneof(text, injected)), { maxLength: 8 });
    await fc.assert(
      fc.asyncProperty(headers, text, async (given, body) => {
        const source = composeMessage({ id: "msg_1", headers: given, text: body, attachments: [] });
        const message = await parseMessage(source);
        expect(message.headers.map(([name]) => name)).toEqual(given.map(([name]) => name));
        const theirs = await PostalMime.parse(source);
        expect(theirs.headers.map(({ key }) => key).filter((key) => !/^(?:content-|mime-)/.test(key))).toEqual(
          given.map(([name]) => name.toLowerCase()),
        );
        expect(message.bcc).toEqual([]);
      }),
    );
  });

  test("sent addresses keep their names, have ASCII domains, and none is added", async () => {
    const address = fc.oneof(
      fc.emailAddress(),
      fc.constantFrom("ann@bücher.example", "jörg@remote.example", '"a, b"@remote.example', '"a\\"b"@remote.example'),
    );
    const recipients = fc.array(
      fc.tuple(address, fc.string({ unit: anyCharacter, maxLength: 120 })).map(([email, name]) => {
        const [recipient] = readRecipients(email);
        return { email: recipient?.email ?? "", name };
      }),
      { minLength: 1, maxLength: 12 },
    );
    await fc.assert(
      fc.asyncProperty(recipients, async (given) => {
        const value = given.map(formatAddress).join(", ");
        const source = composeMessage({ id: "msg_1", headers: [["To", value]], text: "", attachments: [] });
        const { to } = await parseMessage(source);
        expect(to.map(({ email }) => email)).toEqual(given.map(({ email }) => email));
        expect(to.every(({ email }) => /@[a-z0-9.-]+$/.test(email))).toBe(true);
        const shown = ({ name, email }: { name?: string; email: string }) =>
          (name ?? "").replace(/[\s\p{Cc}]+/gu, " ").trim() || email;
        expect(to.map(shown)).toEqual(given.map(shown));
      }),
    );
  });

  test("this parser and another one find every attachment, byte for byte", async () => {
    await fc.assert(
      fc.asyncProperty(parts, async (given) => {
        const source = composeMessage(withoutHtml(given));
        const contents = given.attachments.map(({ content }) => Buffer.from(content).toString("hex")).sort();
        const ours = await parseMessage(source);
        expect(ours.attachments.map(({ content }) => Buffer.from(content).toString("hex")).sort()).toEqual(contents);
        const theirs = await PostalMime.parse(source, { forceRfc822Attachments: true });
        expect(theirs.attachments.length).toBe(contents.length);
      }),
    );
  });

  test("composing what was parsed and parsing it again changes nothing", async () => {
    await fc.assert(
      fc.asyncProperty(parts, async (given) => {
        const once = await parseMessage(composeMessage(withoutHtml(given)));
        const twice = await parseMessage(composeMessage({ id: "msg_2", ...once }));
        expect(twice).toEqual(once);
      }),
    );
  });
});
