/** Notices follow RFC 3464, reveal no Bcc recipient, resist injection, and are readable for report.ts. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import PostalMime from "postal-mime";
import { normalizeAddress } from "../../src/message/address.ts";
import { composeNotice, type NoticeParts, type NoticeRecipient } from "../../src/message/notice.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { readReport } from "../../src/message/report.ts";
import { anyCharacter } from "../harness/any-character.ts";

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

test("three parts: for people, for programs, and the header that was returned", async () => {
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

test("a notice reads back as written", async () => {
  expect(await readReport(composeNotice(NOTICE))).toEqual({
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

test("a Bcc recipient is named without address, host or reply", async () => {
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

test("a failure without a server's words is not an SMTP reply", async () => {
  const source = await compose({
    recipients: [
      { recipient: "b@x.example", action: "failed", status: "5.1.2", diagnostic: "no such domain — x.example" },
    ],
  });
  expect(source).toContain("\r\nDiagnostic-Code: x-mailroom; no such domain ? x.example\r\n");
});

test("only the message's header is returned, with long lines and other characters readable", async () => {
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
  expect(await readReport(Buffer.from(source))).toMatchObject({ messageId: "<1@our.example>" });
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
    headers: fc.array(fc.tuple(fc.constantFrom("Subject", "To", "X-Odd"), fc.oneof(text, injection)), { maxLength: 4 }),
    text: fc.oneof(text, injection),
    reportingMta: fc.oneof(text, injection),
    recipients: fc.array(recipient, { minLength: 1, maxLength: 4 }),
    originalHeaders: fc.oneof(text, injection),
  });

  test("the given recipients, addresses and parts read back", async () => {
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
        const report = await readReport(bytes);
        const read = report?.kind === "delivery" ? report.recipients : [];
        expect(new Set(read.map((one) => normalizeAddress(one.recipient)))).toEqual(
          new Set(given.recipients.map((one) => normalizeAddress(one.recipient))),
        );
        expect(read.every(({ action }) => action === "failed")).toBe(true);
      }),
    );
  });
});
