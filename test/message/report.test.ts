/**
 * Reads delivery status notifications, bounces written for people, and complaints; and recognises mail that is not a
 * report.
 */
import { describe, expect, test } from "bun:test";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import type { ReportedRecipient } from "../../src/message/bounce.ts";
import { parseMessage } from "../../src/message/parse.ts";
import { aggregateReportIn, type DeliveryReport, MOST_REPORTED, readMailReport } from "../../src/message/report.ts";

const crlf = (text: string) => new Uint8Array(Buffer.from(text.replaceAll("\n", "\r\n")));
const read = (text: string) => readMailReport(crlf(text));

/** A multipart/report of these parts, each with its own Content-Type line. */
const multipart = (type: string, parts: readonly string[], header = "From: MAILER-DAEMON@mx.example") =>
  `${header}
MIME-Version: 1.0
Content-Type: multipart/report; report-type=${type}; boundary="b"

${parts.map((part) => `--b\n${part}\n`).join("")}--b--
`;
const status = (...groups: string[]) =>
  `Content-Type: message/delivery-status\n\nReporting-MTA: dns; mx.example\n\n${groups.join("\n\n")}\n`;
const RETURNED =
  "Content-Type: text/rfc822-headers\n\nReturn-Path: <bounce+1@our.example>\nFrom: ann@our.example\nMessage-ID: <1@our.example>\n";
const IDENTITY = { messageId: "<1@our.example>", envelopeFrom: "bounce+1@our.example" };

const delivery = async (text: string): Promise<DeliveryReport> => {
  const report = await read(text);
  return report?.kind === "delivery" ? report : expect.unreachable(`read as ${JSON.stringify(report)}`);
};

describe("a delivery status notification (RFC 3464)", () => {
  const group = async (fields: string, notice = "") =>
    (await delivery(multipart("delivery-status", [`\n${notice}`, status(fields), RETURNED]))).recipients;

  test("gives the recipients, the outcomes and the message", async () => {
    const report = await read(
      multipart("delivery-status", [
        "Content-Type: text/plain\n\nYour message could not be delivered.",
        status(
          "Original-Recipient: rfc822;team@remote.example\nFinal-Recipient: rfc822; bob@remote.example\nAction: failed\nStatus: 5.1.1\nDiagnostic-Code: smtp; 550 5.1.1\n <bob@remote.example> no such user",
          "Final-Recipient: RFC822;carol@remote.example\nAction: delayed\nStatus: 4.4.1",
        ),
        RETURNED,
      ]),
    );
    expect(report).toEqual({
      kind: "delivery",
      ...IDENTITY,
      recipients: [
        {
          recipient: "bob@remote.example",
          original: "team@remote.example",
          action: "failed",
          status: "5.1.1",
          code: 550,
          diagnostic: "550 5.1.1 <bob@remote.example> no such user",
        },
        { recipient: "carol@remote.example", action: "delayed", status: "4.4.1" },
      ],
    });
  });

  test.each<[string, Partial<ReportedRecipient>]>([
    ["Final-Recipient: <bob@remote.example>\nAction: Failed (at last)", { action: "failed" }],
    ["Final-Recipient: rfc822; bob@remote.example\nAction: relayed", { action: "relayed" }],
    ["Final-Recipient: rfc822; bob@remote.example\nAction: expanded", { action: "expanded" }],
    ["Final-Recipient: rfc822; bob@remote.example\nAction: delivered", { action: "delivered" }],
    // Without a valid action, the class of the status decides.
    ["Final-Recipient: rfc822; bob@remote.example\nStatus: 2.1.5", { action: "delivered", status: "2.1.5" }],
    ["Final-Recipient: rfc822; bob@remote.example\nAction: x\nStatus: 4.2.2", { action: "delayed", status: "4.2.2" }],
    ["Final-Recipient: rfc822; bob@remote.example", { action: "failed" }],
    ["Original-Recipient: rfc822; bob@remote.example\nFinal-Recipient: x-local; /var/mail/bob", { action: "failed" }],
    ["Final-Recipient: rfc822; bob@remote.example\nStatus: 5.1.1 (bad mailbox)", { action: "failed", status: "5.1.1" }],
    [
      "Final-Recipient: rfc822; bob@remote.example\nDiagnostic-Code: smtp; 550 \u202eon\u200b\u{e0061} no",
      { action: "failed", code: 550, diagnostic: "550 on no" },
    ],
    // The refusing server is more precise than the reporting one, unless the two contradict each other.
    [
      "Final-Recipient: rfc822; bob@remote.example\nStatus: 5.0.0\nDiagnostic-Code: smtp; 550-5.7.1 no",
      { action: "failed", status: "5.7.1", code: 550, diagnostic: "550-5.7.1 no" },
    ],
    [
      "Final-Recipient: rfc822; bob@remote.example\nStatus: 5.4.7\nDiagnostic-Code: smtp; 451 4.7.1 later",
      { action: "failed", status: "5.4.7", code: 451, diagnostic: "451 4.7.1 later" },
    ],
    [
      "Final-Recipient: rfc822; bob@remote.example\nDiagnostic-Code: x-local; host 192.0.2.5 said: 552 too much",
      { action: "failed", code: 552, diagnostic: "host 192.0.2.5 said: 552 too much" },
    ],
  ])("%j", async (fields, expected) => {
    expect<unknown>(await group(fields)).toEqual([{ recipient: "bob@remote.example", ...expected }]);
  });

  test("may hold internationalised addresses (RFC 6533)", async () => {
    expect(await group("Final-Recipient: utf-8; j\\x{F6}rg\\x{2B}x@remote.example")).toEqual([
      { recipient: "jörg+x@remote.example", action: "failed" },
    ]);
  });

  test("may lack an empty line between recipients, and may contain the same report twice", async () => {
    const two = "Final-Recipient: rfc822; a@remote.example\nStatus: 5.1.1\nFinal-Recipient: rfc822; b@remote.example";
    expect(await group(`${two}\n\n${two}`)).toEqual([
      { recipient: "a@remote.example", action: "failed", status: "5.1.1" },
      { recipient: "b@remote.example", action: "failed" },
    ]);
  });

  test("is completed by the text, each recipient from its own lines", async () => {
    const notice =
      "<a@remote.example>: host mx.remote.example said:\n    550 5.1.1 no a\n\n<b@remote.example>: mailbox gone\n";
    const fields = ["a", "b"].map((name) => `Final-Recipient: rfc822; ${name}@remote.example\nStatus: 5.0.0`);
    expect(await group(fields.join("\n\n"), notice)).toEqual([
      { recipient: "a@remote.example", action: "failed", status: "5.1.1", code: 550, diagnostic: "550 5.1.1 no a" },
      {
        recipient: "b@remote.example",
        action: "failed",
        status: "5.0.0",
        diagnostic: "<b@remote.example>: mailbox gone",
      },
    ]);
  });

  test("takes nothing from the text for a delivery, and no status of another class", async () => {
    const notice = "<a@remote.example>: 550 5.1.1 no\n";
    const fields = (outcome: string) => `Final-Recipient: rfc822; a@remote.example\n${outcome}`;
    expect(await group(fields("Action: delivered"), notice)).toEqual([
      { recipient: "a@remote.example", action: "delivered" },
    ]);
    expect(await group(fields("Action: delayed\nStatus: 4.0.0"), notice)).toMatchObject([{ status: "4.0.0" }]);
  });

  test("may have encoded parts, and return the whole message", async () => {
    const fields = "Final-Recipient: rfc822; bob@remote.example\nAction: failed\n";
    const returned =
      "Message-ID: <1@our.example>\nReceived: by mx (envelope-from <bounce+1@our.example>) id 1\n\nMessage-ID: <body@our.example>";
    const encoded = (type: string, text: string) =>
      `Content-Type: ${type}\nContent-Transfer-Encoding: base64\n\n${Buffer.from(text).toString("base64")}`;
    expect(
      await read(
        multipart("delivery-status", [
          "\nx",
          encoded("message/delivery-status", fields),
          encoded("message/rfc822", returned),
        ]),
      ),
    ).toEqual({ kind: "delivery", ...IDENTITY, recipients: [{ recipient: "bob@remote.example", action: "failed" }] });
  });
});

describe("bounces for people", () => {
  const notice = (text: string, header = "From: MAILER-DAEMON@mx.example\nTo: ann@our.example") =>
    `${header}\nSubject: failure notice\n\n${text}`;
  const COPY =
    "Return-Path: <bounce+1@our.example>\nFrom: ann@our.example\nTo: c@remote.example\nMessage-ID: <1@our.example>\n";

  test("end where the returned header begins, which identifies the message", async () => {
    expect(
      await read(
        notice(`Sorry:\n\n<bob@remote.example>:\nRemote host said: 550 5.1.1 unknown\n\n--- copy:\n\n${COPY}`),
      ),
    ).toEqual({
      kind: "delivery",
      ...IDENTITY,
      recipients: [
        {
          recipient: "bob@remote.example",
          action: "failed",
          status: "5.1.1",
          code: 550,
          diagnostic: "Remote host said: 550 5.1.1 unknown",
        },
      ],
    });
  });

  test.each<[string, string, string[]]>([
    ["at the beginning of lines", "These failed:\n  bob@remote.example\n  * carol@remote.example\n", ["bob", "carol"]],
    ["in a transcript", "failed\n>>> RCPT TO:<bob@remote.example>\n<<< 550 no\n", ["bob"]],
    ["in the reply", "failed\n550 5.1.1 <bob@remote.example>... User unknown\n", ["bob"]],
    ["in a sentence", "We could not deliver to bob@remote.example, sorry. Ask ann@our.example.\n", ["bob"]],
    ["nowhere but in the returned message", `This failed for good.\n\n${COPY}`, ["c"]],
    ["as the addressee of the notice, who wrote to herself", "<ann@our.example>:\nfailed\n", ["ann"]],
  ])("name recipients %s", async (_, text, expected) => {
    const { recipients } = await delivery(notice(text));
    expect(recipients.map(({ recipient }) => recipient.replace(/@.*/, ""))).toEqual(expected);
  });

  test("name recipients in X-Failed-Recipients first, and both addresses of forwarded mail", async () => {
    const text =
      "failed:\n\n  fw@remote.example\n    (generated from bob@remote.example)\n    552 full\n\nother@remote.example is fine\n";
    const { recipients } = await delivery(notice(text, "From: x@mx.example\nX-Failed-Recipients: fw@remote.example"));
    expect(recipients).toEqual([
      {
        recipient: "fw@remote.example",
        original: "bob@remote.example",
        action: "failed",
        code: 552,
        diagnostic: "552 full",
      },
    ]);
  });

  test("distinguish a warning from a failure", async () => {
    const text = "bob@remote.example: connection refused\nDelivery attempts will continue for 3 days.\n";
    expect((await delivery(notice(text))).recipients[0]?.action).toBe("delayed");
  });

  test.each<[string, string, string[]]>([
    [
      "in French",
      "From: relais@remote.example\nTo: ann@our.example\nSubject: Re: Devis : non remis\n\nLe message n'a pas pu etre remis a\nbob@remote.example\n",
      ["bob"],
    ],
    [
      "in Chinese, in a charset of its own",
      "From: MAILER-DAEMON@remote.example\nSubject: x\nContent-Type: text/plain; charset=gbk\n\n\xd3\xca\xbc\xfe\xce\xde\xb7\xa8\xcb\xcd\xb4\xef\n\n<bob@remote.example>:\n\n<carol@remote.example>:\n",
      ["bob", "carol"],
    ],
    [
      "in German, in the subject alone",
      "From: Rechenzentrum <rz@remote.example>\nSubject: Unzustellbar: Lunch\n\nbob@remote.example gibt es hier nicht.\n",
      ["bob"],
    ],
    [
      "from MDaemon, with a transcript in which one recipient was accepted",
      "From: MDaemon@remote.example\nSubject: Permanent problem\n\nThis mail had fatal errors.\n\n RCPT To:<bob@remote.example>\n 250 fine\n RCPT To:<carol@remote.example>\n 552 too large for <carol@remote.example>\n",
      ["carol"],
    ],
    [
      "from MDaemon, as a warning of an unknown user",
      "From: MDaemon@remote.example\nSubject: Warning: bob@remote.example - User unknown\n\nbob@remote.example - nobody of that name.\n",
      ["bob"],
    ],
    [
      "by a screen name",
      notice(
        "Mail for these recipients could not be delivered, since they take no mail from list@our.example:\n\tscreen.name\n",
        "From: MAILER-DAEMON@remote.example",
      ),
      ["screen.name"],
    ],
    [
      "in X.400 notation, below what the message said of itself",
      notice(
        "The message\n\n  To: list@our.example\n  Sent: Friday\n\ndid not reach the following recipient:\n\nc=US;a= ;p=R;o=X;dda:SMTP=bob@remote.example; on Friday\n    Name is not known\n",
      ),
      ["bob"],
    ],
    [
      "in brackets",
      notice("Delivery failed:\n\n  * [bob@remote.example]: 550 full\n\nTo: carol@remote.example\n"),
      ["bob"],
    ],
    [
      "before a copy of the message without its header",
      notice(
        "failed\n\n<bob@remote.example>:\nno\n\n--- Below this line is a copy of the message.\n\n<carol@remote.example>:\n",
      ),
      ["bob"],
    ],
  ])("are read %s", async (_, text, expected) => {
    const bytes = Buffer.from(text.replaceAll("\n", "\r\n"), "latin1");
    const report = await readMailReport(bytes);
    if (report?.kind !== "delivery") return expect.unreachable(`read as ${JSON.stringify(report)}`);
    expect(report.recipients.map(({ recipient }) => recipient.replace(/@remote\.example$/, ""))).toEqual(expected);
    expect(report.recipients.map(({ action }) => action)).toEqual(expected.map(() => "failed"));
  });

  test.each<[string, string, string[]]>([
    [
      "in the sentence after",
      "Mail for bob@remote.example did not arrive. You might try emailing robert@remote.example.",
      ["bob"],
    ],
    [
      "in the same sentence",
      "The address bob@remote.example is no longer used; instead use robert@remote.example.",
      ["bob"],
    ],
    [
      "as a list",
      "failed\n\nbob@remote.example\n\nDid you mean:\n\n  robert@remote.example\n\n  rob@remote.example\n",
      ["bob"],
    ],
    ["at the beginning of a line", "failed\n\nOur directory has similar names, such as\nrobert@remote.example.\n", []],
    ["as a pattern", "failed\n\nAddresses here look like first.last@remote.example or last@remote.example.\n", []],
  ])("do not take a suggested address for a failed one: %s", async (_, text, expected) => {
    const report = await read(notice(text));
    const recipients = report?.kind === "delivery" ? report.recipients : [];
    expect(recipients.map(({ recipient }) => recipient.replace(/@.*/, ""))).toEqual(expected);
  });

  test("say that a recipient is only assumed, and assume none of mail that a list passed on", async () => {
    const text = "550 5.1.1 There is nobody of that name.\n\n";
    const { recipients } = await delivery(notice(`${text}${COPY}`));
    expect(recipients).toMatchObject([{ recipient: "c@remote.example", assumed: true, status: "5.1.1" }]);
    expect(await read(notice(`${text}${COPY}List-Id: <talk.our.example>\n`))).toBeUndefined();
    expect(await read(notice(`${text}${COPY}Cc: d@remote.example\n`))).toBeUndefined();
  });

  test("are read inside the message into which a filter put them", async () => {
    const inner = multipart("delivery-status", [
      "\nfailed",
      status("Final-Recipient: rfc822; bob@remote.example\nStatus: 5.1.1"),
      RETURNED,
    ]);
    const wrapped = (report: string) =>
      `From: postmaster@remote.example\nTo: bounce+1@our.example\nContent-Type: multipart/mixed; boundary=m\n\n--m\nContent-Type: message/rfc822\n\n${report}--m--\n`;
    expect(await read(wrapped(inner))).toEqual({
      kind: "delivery",
      ...IDENTITY,
      recipients: [{ recipient: "bob@remote.example", action: "failed", status: "5.1.1" }],
    });
    // Only once: each level would be taken apart again.
    expect(await read(wrapped(wrapped(inner)))).toBeUndefined();
  });

  test("are not misread: an IP address as a status; a port, size or year as a reply code", async () => {
    const text = "<bob@remote.example>: failed at 5.1.1.3 port 587, 552 bytes, in 1995, v15.4.1\n";
    expect((await delivery(notice(text))).recipients[0]).not.toContainAnyKeys(["code", "status"]);
  });
});

describe("a complaint (RFC 5965)", () => {
  const complaint = (fields: string, returned = RETURNED) =>
    multipart(
      "feedback-report",
      ["\nThis is a complaint.", `Content-Type: message/feedback-report\n\n${fields}\n`, returned],
      "From: fbl@remote.example",
    );

  test("names the message and the complainant", async () => {
    const fields =
      "Feedback-Type: Abuse\nVersion: 1\nOriginal-Rcpt-To: <bob@remote.example>\nOriginal-Rcpt-To: rfc822; carol@remote.example";
    expect(await read(complaint(fields))).toEqual({
      kind: "feedback",
      type: "abuse",
      ...IDENTITY,
      recipients: ["bob@remote.example", "carol@remote.example"],
    });
  });

  test("leaves out a redacted recipient, and reads the reverse-path from the fields", async () => {
    const fields = "Feedback-Type: abuse\nOriginal-Rcpt-To: redacted\nOriginal-Mail-From: <bounce+2@our.example>";
    expect(await read(complaint(fields, "Content-Type: message/rfc822\n\nSubject: x\n"))).toEqual({
      kind: "feedback",
      type: "abuse",
      envelopeFrom: "bounce+2@our.example",
      recipients: [],
    });
  });

  test("has the type `other` if it names none", async () => {
    expect(await read(complaint("Version: 1"))).toMatchObject({ type: "other", recipients: [] });
  });

  test("may only wrap the message in another", async () => {
    const report =
      "From: staff@remote.example\nSubject: complaint about message from 192.0.2.1\nContent-Type: message/rfc822\n\n" +
      "X-HmXmrOriginalRecipient: bob@remote.example\nReturn-Path: <bounce+1@our.example>\nMessage-ID: <1@our.example>\n\nhello\n";
    expect(await read(report)).toEqual({
      kind: "feedback",
      type: "abuse",
      ...IDENTITY,
      recipients: ["bob@remote.example"],
    });
  });
});

describe("not a report", () => {
  test.each<[string, string]>([
    ["ordinary mail", "From: bob@remote.example\nSubject: hello\n\nbob@remote.example: 550 5.1.1 failed\n"],
    [
      "a reply about a bounce",
      "From: bob@remote.example\nSubject: Re: failure notice\n\n> <carol@remote.example>: 550 5.1.1 failed\n",
    ],
    [
      "a forwarded bounce",
      `From: bob@remote.example\nContent-Type: multipart/mixed; boundary=m\n\n--m\nContent-Type: message/rfc822\n\n${multipart("delivery-status", [status("Final-Recipient: rfc822; x@remote.example")])}--m--\n`,
    ],
    ["an automatic reply", "From: bob@remote.example\nAuto-Submitted: auto-replied\nSubject: Away\n\nI am away.\n"],
    [
      "a postmaster who writes in person",
      "From: postmaster@remote.example\nSubject: Peering\n\nCall bob@remote.example.\n",
    ],
    ["a report without recipients", multipart("delivery-status", ["\nfailed", status("Action: failed"), RETURNED])],
    ["nothing", ""],
  ])("%s", async (_, text) => {
    expect(await read(text)).toBeUndefined();
  });
});

test.each(["", "global-"])("a receipt of reading is no report of delivery, whatever its words: %j", async (global) => {
  const receipt = (parts: string[]) =>
    multipart(
      "disposition-notification",
      [
        "Content-Type: text/plain\n\nThe message to bob@remote.example could not be shown: 550 5.1.1 error",
        `Content-Type: message/${global}disposition-notification\n\nFinal-Recipient: rfc822;bob@remote.example\nDisposition: automatic-action/MDN-sent-automatically; processed/error\n`,
        `${RETURNED}To: bob@remote.example\n`,
        ...parts,
      ],
      "From: bob@remote.example",
    );
  expect(await read(receipt([]))).toBeUndefined();
  const failed = status("Final-Recipient: rfc822; bob@remote.example\nAction: failed");
  expect((await delivery(receipt([failed]))).recipients).toMatchObject([{ recipient: "bob@remote.example" }]);
});

test("readReport reads any text within bounds, into data that can be cloned", async () => {
  const piece = fc.constantFrom(
    "From: MAILER-DAEMON\n",
    "Subject: failure notice\n",
    "X-Failed-Recipients: a@b.example\n",
    "\n",
    "\n\n",
    " ",
    "Content-Type: multipart/report; report-type=delivery-status; boundary=b\n",
    "--b\n",
    "--b--\n",
    "Content-Type: message/delivery-status\n\n",
    "Content-Type: message/feedback-report\n\n",
    "<",
    ">",
    ":",
    "(",
    "Final-Recipient: rfc822; ",
    "Original-Rcpt-To: ",
    "Action: failed\n",
    "Status: 5.1.1\n",
    "Diagnostic-Code: ",
    "a@b.example",
    "550",
    "-5.1.1 ",
    "Message-ID: <1@b>\n",
    "Return-Path: ",
    "Received: x\n",
    "\u0000",
    "é",
    "\ud83d",
  );
  await fc.assert(
    fc.asyncProperty(fc.array(fc.oneof(piece, fc.string({ maxLength: 5 })), { maxLength: 40 }), async (pieces) => {
      const report = await readMailReport(new Uint8Array(Buffer.from(pieces.join(""))));
      expect(structuredClone(report)).toEqual(report);
      if (report?.kind !== "delivery") return;
      expect(report.recipients.length).toBeGreaterThan(0);
      for (const { recipient, status = "5.0.0", code = 550, diagnostic = "" } of report.recipients) {
        expect(recipient).toMatch(/^[^\s\p{Cc}]+@[^\s\p{Cc}]+$/u);
        expect(status).toMatch(/^[245]\.[0-7]\.\d{1,3}$/);
        expect(code >= 200 && code < 600).toBe(true);
        expect(diagnostic).toMatch(/^[^\p{Cc}]{0,500}$/u);
      }
    }),
    { numRuns: 500 },
  );
});

test("readReport bounds addresses, lines and fields", async () => {
  const agent = "From: MAILER-DAEMON\n\n";
  const lines = Array.from({ length: 100_000 }, (_, index) => `a${index}@remote.example: 550 5.1.1 no`).join("\n");
  expect((await delivery(agent + lines)).recipients).toHaveLength(100);
  const groups = Array.from({ length: 10_000 }, (_, index) => `Final-Recipient: rfc822; a${index}@remote.example`);
  const long = await delivery(multipart("delivery-status", [`\n${lines}`, status(...groups)]));
  expect(long.recipients.length).toBeLessThanOrEqual(2_000);
  const parts = Array.from({ length: 10 }, (_, part) =>
    status(...Array.from({ length: 1_500 }, (_, n) => `Final-Recipient: rfc822; a${part}-${n}@remote.example`)),
  );
  const inParts = (await delivery(multipart("delivery-status", ["\nfailed", ...parts]))).recipients.length;
  expect(inParts).toBeGreaterThan(MOST_REPORTED);
  expect(inParts).toBeLessThanOrEqual(MOST_REPORTED + 2_000);
  for (const run of ["a", "@", "a@", "<", "550 ", "550:", "5.1.", "(generated from ", "a@b.example ", " ", "\n"]) {
    const report = await read(agent + run.repeat(1_000_000));
    expect(report === undefined || report.recipients.length <= 100).toBe(true);
  }
});

describe("aggregateReportIn", () => {
  const FILE = "receiver.example!example.test!1700000000!1700086399";
  const SUBJECT = "Report Domain: example.test Submitter: receiver.example Report-ID: <1@receiver.example>";
  const GZIP = gzipSync("<feedback/>");
  const ZIP = Buffer.from("PK\x03\x04 and so on", "latin1");

  interface Shape {
    subject?: string;
    headers?: string[];
    text?: string;
    type?: string;
    filename?: string;
    content?: Uint8Array;
    /** A further part. */
    more?: string;
    root?: string;
  }

  async function recognised({ subject = SUBJECT, headers = [], text = "A report.", more, ...shape }: Shape) {
    const { type = "application/gzip", filename = `${FILE}.xml.gz`, content = GZIP, root = "multipart/mixed" } = shape;
    const message = [
      "From: noreply@receiver.example",
      `Subject: ${subject}`,
      ...headers,
      "MIME-Version: 1.0",
      `Content-Type: ${root}; boundary=b`,
      "",
      "--b",
      "Content-Type: text/plain",
      "",
      text,
      "--b",
      `Content-Type: ${type}; name="${filename}"`,
      "Content-Transfer-Encoding: base64",
      `Content-Disposition: attachment; filename="${filename}"`,
      "",
      Buffer.from(content).toString("base64"),
      ...(more === undefined ? [] : ["--b", more]),
      "--b--",
    ].join("\r\n");
    return aggregateReportIn(await parseMessage(Buffer.from(message)));
  }

  const TLS: Shape = {
    subject:
      "Report Domain: example.test Submitter: mail.receiver.example Report-ID: <735ff.e317+bf22029@mail.example>",
    headers: ["TLS-Report-Domain: example.test", "TLS-Report-Submitter: mail.receiver.example"],
    root: 'multipart/report; report-type="tlsrpt"',
    type: "application/tlsrpt+gzip",
    filename: `mail.${FILE}!001.json.gz`,
  };

  const REPORTS: [name: string, shape: Shape, kind: "dmarc" | "tls"][] = [
    ["DMARC, as RFC 7489 §7.2.1.1 has it", {}, "dmarc"],
    ["with a unique id", { filename: `${FILE}!abc123.xml.gz` }, "dmarc"],
    ["zipped", { type: "application/zip", filename: `${FILE}.zip`, content: ZIP }, "dmarc"],
    ["as unspecific data", { type: "application/octet-stream" }, "dmarc"],
    [
      "not compressed",
      { type: "text/xml", filename: `${FILE}.xml`, content: Buffer.from("\n<?xml?><feedback/>") },
      "dmarc",
    ],
    ["with other words before", { subject: "[Preview] Report Domain: example.test Submitter: r.example" }, "dmarc"],
    [
      "with braces",
      { subject: "Dmarc Aggregate Report Domain: {EXAMPLE.test} Submitter: {SES} Report-ID: {1}" },
      "dmarc",
    ],
    ["TLS, as RFC 8460 §5.3 has it", TLS, "tls"],
    ["TLS, not compressed", { ...TLS, type: "application/tlsrpt+json", content: Buffer.from('{"a":1}') }, "tls"],
  ];

  test.each(REPORTS)("%s", async (_, shape, kind) => {
    expect(await recognised(shape)).toBe(kind);
  });

  const ORDINARY: [name: string, shape: Shape][] = [
    ["another subject", { subject: "Your invoice" }],
    ["about another domain than the file", { subject: SUBJECT.replace("example.test", "other.test") }],
    ["another file name", { filename: "report.xml.gz" }],
    ["a program by that name", { filename: `${FILE}.exe` }],
    ["a program inside", { content: Buffer.from("MZ program") }],
    ["nothing inside", { content: new Uint8Array() }],
    ["a second attachment", { more: "Content-Type: application/pdf; name=invoice.pdf\r\n\r\nx" }],
    ["a long message", { text: "Dear customer, ".repeat(400) }],
    ["TLS without its header fields", { ...TLS, headers: [] }],
    ["TLS with something else inside", { ...TLS, content: Buffer.from("MZ program") }],
  ];

  test.each(ORDINARY)("takes for ordinary mail: %s", async (_, shape) => {
    expect(await recognised(shape)).toBeUndefined();
  });

  test("reads a hostile name in linear time", async () => {
    expect(await recognised({ filename: `${"a!".repeat(20_000)}.gz`, subject: "report domain:".repeat(5_000) })).toBe(
      undefined,
    );
  });
});
