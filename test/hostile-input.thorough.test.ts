/**
 * Data that strangers send takes time in proportion to its size, whatever it is made of: each parser reads texts that are one
 * thing over and over. The parsers of HTML and CSS have their own test.
 */
import { describe, test } from "bun:test";
import { cleanTextForMailFence } from "../src/api/mcp/fence.ts";
import { gatherAuthenticationEvidence } from "../src/authentication/evidence.ts";
import { readStsPolicy, readStsRecord } from "../src/authentication/mta-sts.ts";
import { readCalendar } from "../src/documents/calendar.ts";
import { readCalendarPerson } from "../src/documents/calendar-values.ts";
import { createExtractedText } from "../src/documents/extracted-text.ts";
import { readRtf } from "../src/documents/rtf-text.ts";
import { extractJunkTokens } from "../src/mailbox/junk/tokens.ts";
import { parseAddressList, parseSender } from "../src/message/address.ts";
import { fieldGroupsIn, replyCodesIn } from "../src/message/bounce.ts";
import { toVisibleLine, toVisibleText } from "../src/message/characters.ts";
import { decodeCharset } from "../src/message/charset.ts";
import { maskCodes } from "../src/message/codes.ts";
import { composeMessage, foldHeaderField as foldField } from "../src/message/compose.ts";
import { quotedText } from "../src/message/composition.ts";
import { parseDate } from "../src/message/date.ts";
import { decodeWords, readHeaders, withoutBcc } from "../src/message/headers.ts";
import { createXmlParser } from "../src/message/markup.ts";
import { fingerprintMessage, firstMessageId, parseReferences } from "../src/message/message-id.ts";
import { parseMessage, textOutsideParts } from "../src/message/parse.ts";
import { extractNewText } from "../src/message/quoted-history.ts";
import { readRecipients, readUnfinishedRecipients } from "../src/message/recipients.ts";
import { aggregateReportIn, readMailReport } from "../src/message/report.ts";
import { readCms } from "../src/message/smime.ts";
import { parseHeaderValue, readStructure } from "../src/message/structure.ts";
import { parseSubjectKey } from "../src/message/subject.ts";
import { makeSnippet } from "../src/message/text.ts";
import { readTnef } from "../src/message/tnef.ts";
import { findUuencoded } from "../src/message/uuencode.ts";
import { visibleTextForModel } from "../src/message/visible.ts";
import { foldText } from "../src/search/fold.ts";
import { parseQuery } from "../src/search/query.ts";
import { unwrapImportedMessage } from "../src/transfer/sources.ts";
import { expectLinearText, LINES } from "./harness/mail/hostile-text.ts";
import { attribute, tnef } from "./harness/mail/tnef.ts";

const bytesOf = (text: string) => Buffer.from(text);
const unfolded = (text: string) => text.replace(/\r?\n(?![ \t])/g, " ");

function refusalOf(read: () => unknown): void {
  try {
    read();
  } catch {}
}

const parsers: Record<string, (text: string) => unknown> = {
  "codes in text": (text) => maskCodes([{ content: text }, { content: `Your code: ${text}` }]),
  "codes in HTML": (text) => maskCodes([{ content: "" }, { content: `<b>Your code: ${text}`, html: true }]),
  "parameters of a field": parseHeaderValue,
  addresses: (text) => {
    parseAddressList(text);
    parseSender(`<${text}`);
  },
  recipients: (text) => {
    refusalOf(() => readRecipients(text));
    readUnfinishedRecipients(text);
  },
  "encoded words": decodeWords,
  dates: (text) => parseDate(text),
  "message ids": (text) => {
    parseReferences(text);
    parseReferences(`<${text}>`);
    firstMessageId(text);
  },
  subject: (text) => {
    parseSubjectKey(text);
    toVisibleLine(text);
  },
  "text as shown": toVisibleText,
  "uuencoded files": (text) => {
    findUuencoded(bytesOf(text));
    findUuencoded(bytesOf(`begin 644 ${text}`));
    findUuencoded(bytesOf(`begin 644 a\n${text}`));
  },
  "winmail.dat": (text) => {
    const rtf = bytesOf(`{\\rtf1\\fromhtml1 ${text}`);
    const header = Buffer.from(new Uint32Array([0, rtf.length, 0x414c454d, 0]).buffer);
    readTnef(tnef({ properties: [[0x1009, Buffer.concat([header, rtf])]], body: bytesOf(text) }));
    readTnef(Buffer.concat([tnef({}), bytesOf(text)]));
    readTnef(Buffer.concat([tnef({}), attribute(1, 0x69003, bytesOf(text))]));
  },
  "S/MIME": (text) => readCms(Buffer.concat([Buffer.from([0x30, 0x80]), bytesOf(text)]), text.length),
  "7-bit charsets": (text) => {
    for (const charset of ["iso-2022-kr", "hz"]) decodeCharset(bytesOf(text), charset);
  },
  "organizers of events": (text) => readCalendarPerson(`mailto:${text}`, { cn: text, email: text }),
  snippet: makeSnippet,
  "RTF files": (text) =>
    refusalOf(() =>
      readRtf(
        bytesOf(`{\\rtf1 ${text}`),
        createExtractedText(() => 0),
      ),
    ),
  "calendar files": (text) =>
    readCalendar(
      bytesOf(`BEGIN:VCALENDAR\r\nX-A${text}`),
      createExtractedText(() => 0),
    ),
  "XML of documents": (text) => refusalOf(() => createXmlParser({ open() {}, text() {} }, 500).write(`<a>${text}`)),
  "new text of an answer": (text) => extractNewText(text, "Hello"),
  quotation: (text) => quotedText({ from: { email: "a@b.example", name: text }, date: 0, text }),
  "reply codes": replyCodesIn,
  "fields of a report": fieldGroupsIn,
  "aggregate report": (text) =>
    aggregateReportIn({
      headers: [],
      subject: `Report domain: ${text}`,
      text,
      attachments: [{ filename: `${text}.xml`, contentType: "text/xml", content: bytesOf(text), inline: false }],
    }),
  "junk tokens": (text) =>
    extractJunkTokens({
      headers: [
        ["Subject", text],
        ["X-Mailer", text],
      ],
      from: { email: "a@b.example", name: text },
      replyTo: [{ email: text }],
      subject: text,
      text,
      attachments: [{ filename: text, contentType: text }],
      size: text.length,
      html: () => text,
    }),
  "words of search": foldText,
  query: (text) => refusalOf(() => parseQuery(text, 0)),
  "MTA-STS": (text) => {
    refusalOf(() => readStsPolicy(`version: STSv1\nmx: ${text}`));
    readStsRecord([`v=STSv1; id=${text}`]);
  },
  "folding of a field": (text) => {
    foldField(text);
    foldField(`X: ${" ".repeat(text.length)}`);
  },
  "message of an mbox": (text) =>
    unwrapImportedMessage({
      content: bytesOf(`X: y\n\n${text}`),
      fromLine: "From a@b.example",
      unquoted: false,
    } as Parameters<typeof unwrapImportedMessage>[0]),
};

/** Readers of whole messages, which are large. */
const readers: Record<string, (text: string) => unknown> = {
  "header block": (text) => readHeaders(bytesOf(`X:\n${text.slice(1)}`), 0, () => false),
  fingerprint: (text) => fingerprintMessage(bytesOf(`X:\n${text.slice(1)}`)),
  "header without Bcc": (text) => withoutBcc(bytesOf(`Bcc: c\n${text}`)),
  structure: (text) => {
    for (const before of [
      "\n",
      "\n--b\n",
      "\n--b\n\n--b--\n",
      "\n--b\nContent-Type: multipart/mixed; boundary=a\n\n",
    ]) {
      const bytes = bytesOf(`Content-Type: multipart/mixed; boundary=b\n${before}${text.slice(1)}\n--b\n\nx`);
      refusalOf(() => textOutsideParts(bytes, readStructure(bytes)));
    }
  },
};

describe("time grows with the input", () => {
  for (const [name, read] of Object.entries(readers)) {
    test(name, () => expectLinearText(read, [50_000, 200_000], LINES), 60_000);
  }
  for (const [name, parse] of Object.entries(parsers)) test(name, () => expectLinearText(parse), 60_000);

  test(
    "text that is seen",
    () => expectLinearText((text) => visibleTextForModel(`https://${text}`, "<p>Hello</p>")),
    60_000,
  );

  test(
    "the fence of MCP",
    () =>
      expectLinearText(
        cleanTextForMailFence,
        [8_000, 64_000],
        [">", "ᐳᐳ ", `>>${" ".repeat(20)}e${"\u0301".repeat(20)}ᐳᐳ`, ">>>end "],
      ),
    60_000,
  );

  test(
    "octets in no charset",
    () =>
      expectLinearText((text) => {
        const octets = Buffer.from(`é${text}é`, "latin1");
        const field = Buffer.from(`é${unfolded(text)}`, "latin1");
        return parseMessage(
          Buffer.concat([
            bytesOf("Subject: "),
            field,
            bytesOf("\nContent-Type: x;\n name="),
            field,
            bytesOf("\n\n"),
            octets,
          ]),
        );
      }),
    60_000,
  );

  test(
    "base64",
    () =>
      expectLinearText((text) =>
        parseMessage(bytesOf(`Content-Transfer-Encoding: base64\n\n${"QUJD".repeat(9)}\n${text}`)),
      ),
    60_000,
  );

  test(
    "fields of a message",
    () =>
      expectLinearText((text) => {
        const value = unfolded(text);
        const names = ["Content-ID", "Subject", "From", "To", "References", "Message-ID", "Auto-Submitted"];
        const fields = names.map((name) => `${name}: ${value}`).join("\n");
        return parseMessage(
          bytesOf(
            `${fields}\nContent-Type: application/x; name=${value}\nContent-Disposition: x; filename*0=${value}\n\nx`,
          ),
        );
      }),
    60_000,
  );

  const encodings = [
    ["8bit", "text/plain; format=flowed"],
    ["8bit", "text/plain; charset=utf-7"],
    ["quoted-printable", "text/plain; format=flowed"],
    ["quoted-printable", "application/x"],
    ["base64", "application/x"],
  ];
  for (const [encoding, type] of encodings) {
    const header = `Content-Type: ${type}\nContent-Transfer-Encoding: ${encoding}`;
    const decode = (text: string) => parseMessage(bytesOf(`${header}\n\nQUJDREVGR0hJSktM${text}`));
    test(`${encoding}, ${type}`, () => expectLinearText(decode), 60_000);
  }

  test(
    "bounces",
    () =>
      expectLinearText((text) =>
        readMailReport(
          bytesOf(
            `From: <>\nSubject: ${unfolded(text)}\nX-Failed-Recipients: ${unfolded(text)}\nContent-Type: multipart/report; boundary=b\n\n--b\n\n${text}\n--b\nContent-Type: message/delivery-status\n\n${text}\n--b\nContent-Type: message/rfc822\n\n${text}\n--b--`,
          ),
        ),
      ),
    60_000,
  );

  test(
    "what is sent again",
    () =>
      expectLinearText((text) =>
        composeMessage({
          id: "msg_hostile",
          headers: [["X-A", unfolded(text).trim()]],
          text,
          attachments: [],
        }),
      ),
    60_000,
  );

  const smtpContext = {
    ip: "192.0.2.1",
    helo: "a.example",
    reversePath: "a@a.example",
    hostname: "us.example",
    trustedForwarders: ["forwarder.example"],
    now: 0,
  };
  const set = (tags: string) =>
    [
      "ARC-Seal: cv=none; ",
      "ARC-Message-Signature: c=relaxed/relaxed; h=from; bh=AAAA; ",
      "ARC-Authentication-Results: ",
    ]
      .map((name) => `${name}i=1; a=rsa-sha256; d=forwarder.example; s=s; b=AAAA; ${tags}\r\n`)
      .join("");
  test(
    "signatures, chains and records",
    () =>
      expectLinearText(
        async (text) => {
          const value = unfolded(text).replace(/\n/g, " ");
          const signature = `DKIM-Signature: v=1; a=rsa-sha256; c=simple/relaxed; d=a.example; s=s; bh=AAAA; h=from:${value}; b=AAAA\r\n`;
          const message = `From: ${value}\r\n${signature}${signature}${set(value)}X: ${value}\r\n\r\n${text}`;
          await gatherAuthenticationEvidence(bytesOf(message), smtpContext, async () => [
            [`v=spf1 ${value.slice(0, 60_000)}`],
          ]);
        },
        [500, 2_000],
      ),
    60_000,
  );
});
