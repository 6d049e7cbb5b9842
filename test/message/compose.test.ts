import { describe, expect, test } from "bun:test";
import { isAscii } from "node:buffer";
import fc from "fast-check";
import PostalMime from "postal-mime";
import { normalizeAddress } from "../../src/message/address.ts";
import { toVisibleLine } from "../../src/message/characters.ts";
import {
  addTextPart,
  composeMessage,
  composeNotice,
  createRootNode,
  formatAddress,
  type MessageParts,
  type NoticeParts,
  type NoticeRecipient,
  serializeMimeNode,
} from "../../src/message/compose.ts";
import { isAlternativeFileType, parseMessage } from "../../src/message/parse.ts";
import { readRecipients } from "../../src/message/recipients.ts";
import { recodeForTransport, UNKNOWN_SERVER } from "../../src/message/recode.ts";
import { readMailReport } from "../../src/message/report.ts";
import { anyCharacter } from "../harness/mail/any-character.ts";
import { withoutSources } from "../harness/mail/parsed.ts";

const bytes = (text: string) => new Uint8Array(Buffer.from(text));
const compose = async (parts: Partial<MessageParts>) =>
  Buffer.from(composeMessage({ id: "msg_1", headers: [], text: "", attachments: [], ...parts })).toString("latin1");

const PDF = { filename: "a.pdf", contentType: "application/pdf", content: bytes("%PDF"), inline: false };
const PICTURE = { filename: "p.png", contentType: "image/png", content: bytes("PNG"), inline: true, contentId: "p@x" };

describe("composeMessage", () => {
  test("writes a text as one part", async () => {
    expect(await compose({ headers: [["Subject", "x"]], text: "Hello\nyou" })).toBe(
      "Subject: x\r\nMIME-Version: 1.0\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Transfer-Encoding: 7bit\r\n\r\nHello\r\nyou\r\n",
    );
  });

  test("writes a long text in base64", async () => {
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

  test.each(["bild-ü@x", "a b@x", "<a>\u0001@x", "\u{1f4f7}@x"])(
    "writes the content id %j as its URL has it",
    async (contentId) => {
      const html = `<img src="cid:${contentId}"><img src="cid:p@x">`;
      const source = await compose({ text: "t", html, attachments: [{ ...PICTURE, contentId }, PICTURE] });
      expect([isAscii(Buffer.from(source, "latin1")), /^Content-ID: <[!-~]+>$/im.test(source)]).toEqual([true, true]);
      const parsed = await parseMessage(new Uint8Array(Buffer.from(source, "latin1")));
      expect(parsed.attachments.map(({ inline }) => inline)).toEqual([true, true]);
      expect(parsed.html).toContain(`cid:${parsed.attachments[0]?.contentId}"`);
    },
  );

  test("nests parts according to RFC 2046 and RFC 2387", async () => {
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

  test("keeps headers in order and as they were written", async () => {
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

  test("encodes characters outside ASCII, and keeps addresses", async () => {
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

  test("attaches a message as RFC 2046 allows, byte for byte", async () => {
    for (const inside of [
      "Subject: x\r\n\r\nplain\r\n",
      "Subject: x\n\nJörg",
      `Subject: x\n\n${"y".repeat(2_000)}`,
      "",
    ]) {
      const attachment = { filename: "m.eml", contentType: "message/rfc822", content: bytes(inside), inline: false };
      const source = await compose({ text: "t", attachments: [attachment] });
      expect(source).toMatch(/Content-Transfer-Encoding: (?:7bit|8bit|binary)\r\n\r\n(?!.*base64)/s);
      const message = await parseMessage(Buffer.from(source, "latin1"));
      expect(Buffer.from(message.attachments[0]?.content ?? [1]).toString()).toBe(inside);
    }
  });

  test("sends no NUL: texts and fields lose it, files keep it in base64", async () => {
    const inside = "Subject: x\n\na\u0000b";
    const source = await compose({
      headers: [["Subject", "a\u0000b"]],
      text: "e\u0000f",
      html: "<p>g\u0000h</p>",
      attachments: [{ filename: "m.eml", contentType: "message/rfc822", content: bytes(inside), inline: false }],
    });
    expect(source).not.toMatch(/\0|=00/);
    const { subject, text, html, attachments } = await parseMessage(Buffer.from(source, "latin1"));
    expect([subject, text, html]).toEqual(["a b", "ef", "<p>gh</p>"]);
    expect(attachments).toMatchObject([{ filename: "m.eml", contentType: "application/octet-stream" }]);
    expect(Buffer.from(attachments[0]?.content ?? []).toString()).toBe(inside);
  });

  test("attaches as data what cannot be attached under its type", async () => {
    const source = await compose({ attachments: [{ ...PDF, contentType: "multipart/mixed; boundary=x\r\nX: y" }] });
    expect(source).toContain("Content-Type: application/octet-stream");
  });
});

test("formatAddress quotes or encodes names, and keeps an address on one line", () => {
  expect(formatAddress({ email: "a@b.example" })).toBe("a@b.example");
  expect(formatAddress({ email: "a@b.example", name: "Ann B" })).toBe("Ann B <a@b.example>");
  expect(formatAddress({ email: "a@b.example", name: 'B, "A"' })).toBe('"B, \\"A\\"" <a@b.example>');
  expect(formatAddress({ email: "a@b.example>\r\nBcc: x", name: "A\r\nBcc: y" })).toBe(
    "A Bcc: y <a@b.exampleBcc:x>".replace("A Bcc: y", '"A Bcc: y"'),
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
      unnamed: fc.boolean(),
      parameters: fc.uniqueArray(fc.tuple(fc.constantFrom("charset", "method", "x-odd"), text), {
        selector: ([name]) => name,
      }),
      alternative: fc.boolean(),
    })
    .map(({ contentId, alternative, ...rest }) => ({
      ...rest,
      ...(contentId !== undefined && { contentId }),
      alternative: alternative && isAlternativeFileType(rest.contentType),
    }));
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

  test("no field adds a header, and no line of the header is too long", async () => {
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

  test("every line that leaves is ASCII and fits, however long subject, names, values and file names are", async () => {
    const words = fc.constantFrom(
      "word ",
      "x".repeat(1_200),
      "ü".repeat(700),
      "日本 ",
      "😀",
      '"',
      "\\",
      "<",
      "=?",
      " ",
      ",",
    );
    const long = fc.oneof(
      text,
      fc.array(words, { maxLength: 12 }).map((list) => list.join("")),
    );
    const person = fc
      .tuple(fc.constantFrom("ann@x.example", '"a b"@xn--bcher-kva.example'), long)
      .map(([email, name]) => formatAddress({ email, name }));
    const people = fc.array(person, { minLength: 1, maxLength: 60 }).map((list) => list.join(", "));
    const field = fc.oneof(
      fc.tuple(fc.constantFrom("Subject", "X-Custom", "List-Custom"), long),
      fc.tuple(fc.constantFrom("From", "To", "Reply-To"), people),
    );
    const file = fc.tuple(attachment, long, long).map(([{ contentType, ...rest }, filename, value]) => ({
      ...{ ...rest, filename, contentId: "part@x.example", parameters: [["x-long", value] as const] },
      // A message in a message stays as it is until it is sent.
      contentType: contentType.replace("message/rfc822", "text/csv"),
    }));
    const anything = fc.record({
      headers: fc.array(field, { maxLength: 6 }),
      text: long,
      html: long,
      attachments: fc.array(file, { maxLength: 3 }),
    });
    await fc.assert(
      fc.asyncProperty(anything, async (given) => {
        const source = Buffer.from(await recodeForTransport(composeMessage({ id: "msg_1", ...given }), UNKNOWN_SERVER));
        expect(isAscii(source)).toBe(true);
        for (const line of source.toString("latin1").split("\r\n")) {
          expect(line.length).toBeLessThanOrEqual(998);
          expect(line).not.toMatch(/[\r\n]/);
        }
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
          toVisibleLine((name ?? "").replace(/[\s\p{Cc}]+/gu, " ")) || email;
        expect(to.map(shown)).toEqual(given.map(shown));
      }),
    );
  });

  test("our parser and another one find every attachment, byte for byte", async () => {
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

  test("a parsed message is the same after composing and parsing it again", async () => {
    await fc.assert(
      fc.asyncProperty(parts, async (given) => {
        // An image that the HTML does not show stands before the alternatives the first time, and after them the second.
        const hasAlternative = given.attachments.some(({ alternative }) => alternative);
        const attachments = given.attachments.map((file) => ({ ...file, inline: file.inline && !hasAlternative }));
        const once = await parseMessage(composeMessage(withoutHtml({ ...given, attachments })));
        const twice = await parseMessage(composeMessage({ id: "msg_2", ...once }));
        expect(withoutSources(twice)).toEqual(withoutSources(once));
      }),
    );
  });
});

describe("bytesOfNode", () => {
  const LINE = fc.oneof(
    fc.string(),
    fc.string({ unit: "grapheme" }),
    fc.constantFrom(
      "",
      " ",
      "=",
      ".",
      "From x",
      "\t",
      "word ".repeat(40),
      "x".repeat(200),
      "ä".repeat(60),
      "😀é ".repeat(30),
    ),
  );
  const TEXT = fc.array(LINE, { maxLength: 12 }).map((lines) => lines.join("\n"));
  const OCTETS = fc.oneof(
    fc.uint8Array({ maxLength: 300 }),
    fc.constantFrom(...["a\r", "a\n", "a\r\n", "\r", "\n"].map((text) => new Uint8Array(Buffer.from(text)))),
    fc.constantFrom(
      ...[56, 57, 58, 57_000, 57_001, 114_000, 200_003].map((length) => new Uint8Array(length).fill(0xfe)),
    ),
  );

  /** A text, or a multipart of several. */
  const BODY = fc.letrec<{ body: Body }>((tie) => ({
    body: fc.oneof(
      { depthSize: "small" },
      fc.record({ text: TEXT }),
      fc.record({ octets: OCTETS, encoding: fc.constantFrom("base64", "7bit", "8bit") }),
      fc.record({ parts: fc.array(tie("body"), { maxLength: 3 }) }),
    ),
  })).body;
  type Body = { text: string } | { octets: Uint8Array; encoding: string } | { parts: Body[] };

  function put(parent: ReturnType<typeof createRootNode>, body: Body): ReturnType<typeof createRootNode> {
    if ("text" in body) return addTextPart(parent, "text/plain", body.text);
    if ("octets" in body) {
      const node = parent.createChild("application/pdf", { filename: "a.pdf" });
      node.setHeader("Content-Transfer-Encoding", body.encoding);
      return node.setContent(Buffer.from(body.octets));
    }
    const node = parent.createChild("multipart/mixed");
    for (const part of body.parts) put(node, part);
    return node;
  }

  /** Soft line breaks of quoted-printable carry no content (RFC 2045 §6.7). */
  const unbroken = (bytes: Uint8Array): string => Buffer.from(bytes).toString("latin1").replaceAll("=\r\n", "");

  const LONG = "Grüße, 10 < 100 = wenig. ".repeat(8_000);

  test("gives the bytes of MimeNode's build for any tree", async () => {
    await fc.assert(
      fc.asyncProperty(BODY, async (body) => {
        expect(unbroken(serializeMimeNode(put(createRootNode("id"), body)))).toBe(
          unbroken(await put(createRootNode("id"), body).build()),
        );
      }),
      {
        examples: [[{ text: LONG }], [{ text: `${LONG}\n${LONG}` }], [{ parts: [{ text: LONG }, { text: "short" }] }]],
      },
    );
  });

  test("writes quoted-printable in lines of at most 76 characters (RFC 2045 §6.7)", () => {
    fc.assert(
      fc.property(TEXT, (text) => {
        const source = Buffer.from(serializeMimeNode(put(createRootNode("id"), { text }))).toString("latin1");
        fc.pre(source.includes("quoted-printable"));
        expect(Math.max(...source.split("\r\n").map(({ length }) => length))).toBeLessThanOrEqual(76);
      }),
      { examples: [[LONG]] },
    );
  });
});

describe("composeNotice", () => {
  const NOTICE: NoticeParts = {
    id: "ntc_1",
    headers: [
      ["From", "Mail Delivery System <postmaster@our.example>"],
      ["To", "ann@our.example"],
      ["Subject", "Not delivered: Grüße"],
      ["Auto-Submitted", "auto-replied"],
    ],
    text: "Your message did not reach:\n\nbob@remote.example",
    reportingMta: "mx.our.example",
    arrivalDate: Date.UTC(2003, 6, 1, 10, 52, 37),
    recipients: [
      {
        recipient: "bob@remote.example",
        action: "failed",
        status: "5.1.1",
        remoteMta: "mx.remote.example",
        diagnostic: "550 5.1.1 no such user",
      },
    ],
    originalHeaders: "From: ann@our.example\r\nMessage-ID: <1@our.example>\r\nSubject: Grüße\r\n",
  };
  const compose = async (parts: Partial<NoticeParts>) => Buffer.from(composeNotice({ ...NOTICE, ...parts })).toString();

  test("has three parts: for people, for programs, and the returned header", async () => {
    const source = await compose({});
    expect([...source.matchAll(/^Content-Type: [^\r]*/gm)].map(String)).toEqual([
      "Content-Type: multipart/report; report-type=delivery-status;",
      "Content-Type: text/plain; charset=utf-8",
      "Content-Type: message/delivery-status",
      "Content-Type: text/rfc822-headers; charset=utf-8",
    ]);
    expect(source).toContain(
      [
        "Reporting-MTA: dns; mx.our.example",
        "Arrival-Date: Tue, 01 Jul 2003 10:52:37 +0000",
        "",
        "Final-Recipient: rfc822; bob@remote.example",
        "Action: failed",
        "Status: 5.1.1",
        "Remote-MTA: dns; mx.remote.example",
        "Diagnostic-Code: smtp; 550 5.1.1 no such user",
        "",
      ].join("\r\n"),
    );
    const message = await parseMessage(Buffer.from(source));
    expect(message).toMatchObject({ subject: "Not delivered: Grüße", autoSubmitted: true, text: NOTICE.text });
  });

  test("is read back as written", async () => {
    expect(await readMailReport(composeNotice(NOTICE))).toEqual({
      kind: "delivery",
      messageId: "<1@our.example>",
      recipients: [
        {
          recipient: "bob@remote.example",
          action: "failed",
          status: "5.1.1",
          code: 550,
          diagnostic: "550 5.1.1 no such user",
        },
      ],
    });
  });

  test("names a Bcc recipient without address, host or reply", async () => {
    const secret: NoticeRecipient = {
      action: "failed",
      status: "5.0.0",
      remoteMta: "mx.secret.example",
      diagnostic: "550 eve@secret.example",
    };
    const source = await compose({ recipients: [...NOTICE.recipients, secret] });
    expect(source).toContain(
      "\r\n\r\nFinal-Recipient: x-undisclosed; a Bcc recipient\r\nAction: failed\r\nStatus: 5.0.0\r\n",
    );
    expect(source).not.toContain("secret");
  });

  test("gives the type smtp only to replies of servers", async () => {
    const source = await compose({
      recipients: [
        { recipient: "b@x.example", action: "failed", status: "5.1.2", diagnostic: "no such domain — x.example" },
      ],
    });
    expect(source).toContain("\r\nDiagnostic-Code: x-mailroom; no such domain ? x.example\r\n");
  });

  test("returns only the message's header, with long lines and other characters readable", async () => {
    const long = "x".repeat(3_000);
    const source = await compose({
      originalHeaders: `\nX-Long: ${long}\nSubject: Grüße\nMessage-ID: <1@our.example>\n\nits body`,
    });
    expect(source).not.toContain("its body");
    for (const line of source.split("\r\n")) expect(line.length).toBeLessThanOrEqual(998);
    const { attachments } = await PostalMime.parse(source);
    const returned = attachments.find(({ mimeType }) => mimeType === "text/rfc822-headers")?.content;
    expect(
      new TextDecoder()
        .decode(returned as ArrayBuffer)
        .trimEnd()
        .split(/\r?\n/),
    ).toEqual([`X-Long: ${long}`, "Subject: Grüße", "Message-ID: <1@our.example>"]);
    expect(await readMailReport(Buffer.from(source))).toMatchObject({ messageId: "<1@our.example>" });
  });

  describe("for any content", () => {
    const text = fc.string({ unit: anyCharacter, maxLength: 120 });
    const local = fc.oneof(
      fc.emailAddress(),
      fc.constantFrom("jörg@remote.example", '"a b"@remote.example', "a\\b=+@x.example"),
    );
    const address = local.filter((email) => normalizeAddress(email) !== undefined);
    const injection = fc.constantFrom(
      "x\r\nFinal-Recipient: rfc822; eve@evil.example",
      "\r\n\r\n--",
      "\n\nStatus: 2.0.0",
    );
    const recipient = fc.record({
      recipient: address,
      action: fc.constant("failed" as const),
      status: fc.oneof(fc.constantFrom("5.1.1", "4.4.7", "5.7.26"), text),
      remoteMta: fc.oneof(text, injection),
      diagnostic: fc.oneof(text, injection),
    });
    const parts = fc.record({
      headers: fc.array(fc.tuple(fc.constantFrom("Subject", "To", "X-Odd"), fc.oneof(text, injection)), {
        maxLength: 4,
      }),
      text: fc.oneof(text, injection),
      reportingMta: fc.oneof(text, injection),
      recipients: fc.array(recipient, { minLength: 1, maxLength: 4 }),
      originalHeaders: fc.oneof(text, injection),
    });

    test("readers find exactly the given recipients and parts", async () => {
      await fc.assert(
        fc.asyncProperty(parts, async (given) => {
          const bytes = composeNotice({ ...NOTICE, ...given });
          const source = Buffer.from(bytes).toString("latin1");
          const fields = source.slice(
            source.indexOf("Reporting-MTA:"),
            source.lastIndexOf("Content-Type: text/rfc822-headers"),
          );
          expect(fields).toMatch(/^[\r\n -~]*$/);
          expect(fields.match(/^Final-Recipient:/gm)).toHaveLength(given.recipients.length);
          expect(fields.match(/^[A-Z][a-z]+(?:-[A-Za-z]+)*:/gm)?.filter((name) => name === "Status:")).toHaveLength(
            given.recipients.length,
          );
          const parsed = await parseMessage(bytes);
          expect(parsed.problem).toBeUndefined();
          expect(parsed.headers.map(([name]) => name)).toEqual(given.headers.map(([name]) => name));
          expect(parsed.attachments.map(({ contentType }) => contentType)).toEqual([
            "message/delivery-status",
            "text/rfc822-headers",
          ]);
          const report = await readMailReport(bytes);
          const read = report?.kind === "delivery" ? report.recipients : [];
          expect(new Set(read.map((one) => normalizeAddress(one.recipient)))).toEqual(
            new Set(given.recipients.map((one) => normalizeAddress(one.recipient))),
          );
          expect(read.every(({ action }) => action === "failed")).toBe(true);
        }),
      );
    });
  });
});
