/**
 * Runs messages of other projects through all of src/message/: parsed, sanitised, composed, parsed again. A second
 * parser (postal-mime) and the corpora's own expectations confirm that nothing is lost. Each disagreement is listed
 * here with its reason and asserted, so that no entry outlives its cause.
 */
import { describe, expect, test } from "bun:test";
import PostalMime from "postal-mime";
import { parseAddressList } from "../../src/message/address.ts";
import { composeMessage } from "../../src/message/compose.ts";
import { parseDate } from "../../src/message/date.ts";
import { decodeWords, readHeaders } from "../../src/message/headers.ts";
import { fingerprintMessage, parseReferences } from "../../src/message/message-id.ts";
import { type ParsedMessage, parseMessage } from "../../src/message/parse.ts";
import { sanitizeHtml } from "../../src/message/sanitize.ts";
import { parseSubjectKey } from "../../src/message/subject.ts";
import { makeSnippet } from "../../src/message/text.ts";
import {
  type CorpusFile,
  corpusBytes,
  corpusFiles,
  corpusJson,
  corpusNote,
  corpusPresent,
  namesIn,
} from "../harness/mail/corpus.ts";
import { dangersIn } from "../harness/mail/dangers.ts";
import { withoutSources } from "../harness/mail/parsed.ts";

/** Milliseconds after which a message counts as endless. */
const WATCHDOG = 20_000;

const MIME4J = "mime4j-testmsgs/core/src/test/resources/testmsgs/";
const STALWART = "stalwart-mail-parser/resources/";
const MIKEL = "mikel-mail/spec/fixtures/emails/";

const NOT_BASE64 = "claims base64 and is prose: we keep the prose, they decode its letters";
const TRANSPORT_PADDING =
  "RFC 2046 §5.1.1: a boundary does not end in white space, and white space after a delimiter is padding";
const NESTED_DELIMITER = "the expectation runs on past a delimiter of the outer multipart; we end the part there";
const FORGOTTEN_DELIMITER =
  "the first delimiter of the inner multipart is missing: they take all of it for one text, we for two parts";
const CHARSET = "octets that are not of the charset they claim: we read them in the one they are of";
const OTHER_FORM = "an alternative in a form that is not shown (rules: Forms of mail): they attach it";

/** Text that postal-mime finds and this parser lacks. */
const POSTAL_MIME: Record<string, string> = {
  [`${STALWART}eml/rfc/000.eml`]: NOT_BASE64,
  [`${STALWART}eml/rfc/003.eml`]: OTHER_FORM,
  [`${MIKEL}mime_emails/raw_email11.eml`]: OTHER_FORM,
  "cpython-test-email/msg_15.txt": NOT_BASE64,
  [`${MIKEL}attachment_emails/attachment_pdf_non_ascii.eml`]: CHARSET,
  [`${MIKEL}attachment_emails/attachment_pdf_non_ascii_lf.eml`]: CHARSET,
  [`${MIKEL}error_emails/content_transfer_encoding_7-bit.eml`]: CHARSET,
  [`${MIKEL}error_emails/content_transfer_encoding_plain.eml`]: CHARSET,
  [`${MIKEL}plain_emails/raw_email6.eml`]: CHARSET,
  [`${MIKEL}plain_emails/raw_email10.eml`]: CHARSET,
  [`${MIME4J}very-long-boundary.msg`]: TRANSPORT_PADDING,
  [`${MIME4J}weird-boundary.msg`]: TRANSPORT_PADDING,
};

/** Expected parts of stalwart's mails that this parser lacks. */
const STALWART_PARTS: Record<string, string> = {
  [`${STALWART}eml/rfc/003.eml`]: OTHER_FORM,
  [`${STALWART}eml/malformed/009.eml`]: NESTED_DELIMITER,
  [`${STALWART}eml/malformed/011.eml`]: NESTED_DELIMITER,
  [`${STALWART}eml/malformed/020.eml`]: FORGOTTEN_DELIMITER,
  [`${STALWART}eml/malformed/021.eml`]: FORGOTTEN_DELIMITER,
  [`${STALWART}eml/thirdparty/002.eml`]: "a word behind the padding of base64: they decode its letters",
};

/** Parts of mime4j that this parser reads differently. */
const MIME4J_PARTS: Record<string, string> = {
  "malformedHeaderStartsBody-nocrlfcrlf_decoded_1.txt":
    "another mode of mime4j's; we do as in malformedHeader-nocrlfcrlf",
  "very-long-boundary_decoded_1_1.txt": TRANSPORT_PADDING,
  "weird-boundary_decoded_1_1.txt": TRANSPORT_PADDING,
};

/** Mail with text outside its parts, or whose parts fail to show it: the original is attached, too. */
const WITH_ORIGINAL = new Map<string, string>(
  Object.entries({
    "text outside the parts": [
      `${STALWART}eml/malformed/005.eml`,
      `${STALWART}eml/rfc/000.eml`,
      `${STALWART}eml/rfc/005.eml`,
      `${STALWART}eml/rfc/009.eml`,
      `${STALWART}eml/thirdparty/000.eml`,
      `${STALWART}eml/thirdparty/001.eml`,
      `${STALWART}eml/thirdparty/008.eml`,
      `${STALWART}eml/thirdparty/012.eml`,
      `${MIKEL}error_emails/multiple_references_with_one_invalid.eml`,
      `${MIKEL}multipart_report_emails/multipart_report_multiple_status.eml`,
      `${MIME4J}ending-boundaries.msg`,
      `${MIME4J}intermediate-boundaries.msg`,
      `${MIME4J}misplaced-boundary.msg`,
      `${MIME4J}missing-inner-boundary.msg`,
      `${MIME4J}missing-inner-start-boundary.msg`,
      "cpython-test-email/msg_02.txt",
      "cpython-test-email/msg_15.txt",
      "cpython-test-email/msg_26.txt",
      "spamassassin/t/data/nice/cjk/iso-2022-jp.1",
      "sisimai/set-of-emails/maildir/bsd/lhost-amavis-03.eml",
      "sisimai/set-of-emails/maildir/bsd/lhost-verizon-01.eml",
      "sisimai/set-of-emails/maildir/bsd/rfc3464-07.eml",
      "sisimai/set-of-emails/maildir/bsd/rfc3464-28.eml",
      "sisimai/set-of-emails/maildir/bsd/rhost-cox-01.eml",
      "sisimai-extra/mailbox/mbox-0#6",
    ],
    "where a header ends is doubtful": [
      `${STALWART}eml/malformed/019.eml`,
      `${MIKEL}error_emails/bad_subject.eml`,
      `${MIKEL}error_emails/new_line_in_to_header.eml`,
      `${MIKEL}plain_emails/raw_email_incorrect_header.eml`,
      `${MIKEL}rfc2822/example13.eml`,
      `${MIKEL}rfc2822/example14.eml`,
      `${MIME4J}malformedHeader-nocrlfcrlf.msg`,
      `${MIME4J}malformedHeaderStartsBody-nocrlfcrlf.msg`,
      `${MIME4J}obsolete.msg`,
      "spamassassin/t/data/spam/badmime2.txt",
    ],
    "more than the base64 it is said to be": [
      `${STALWART}eml/thirdparty/002.eml`,
      "cpython-test-email/msg_39.txt",
      "spamassassin/t/data/nice/cjk/big5-base64.1",
    ],
    "text in a part's header": [
      `${STALWART}eml/thirdparty/013.eml`,
      `${MIKEL}error_emails/missing_content_disposition.eml`,
      "sisimai/set-of-emails/maildir/bsd/arf-02.eml",
      "sisimai/set-of-emails/maildir/bsd/lhost-office365-08.eml",
      "sisimai/set-of-emails/maildir/bsd/lhost-x1-01.eml",
      "sisimai/set-of-emails/maildir/bsd/lhost-x1-02.eml",
    ],
  }).flatMap(([problem, names]) => names.map((name): [string, string] => [name, problem])),
);

describe("corpus", () => {
  test.skipIf(!corpusPresent)(`has its messages${corpusNote}`, () => {
    expect(corpusFiles().length).toBeGreaterThan(850);
  });

  for (const { name, bytes } of corpusFiles()) {
    test(
      name,
      async () => {
        const { problem, ...message } = await parseWithoutOriginal(bytes);
        expect(problem).toBe(WITH_ORIGINAL.get(name));
        expect(fingerprintMessage(bytes)).toHaveLength(64);
        expect(makeSnippet(message.text).length).toBeLessThanOrEqual(200);
        expect(parseSubjectKey(message.subject).key.length).toBeLessThanOrEqual(2 * message.subject.length);
        if (message.html !== undefined) expect(dangersIn(sanitizeHtml(message.html))).toEqual([]);
        expect(stringsOf(message)).not.toMatch(/\\u0000|\\ud[89a-f]/i);

        const again = await parseMessage(composeMessage({ id: "msg_corpus", ...message }));
        expect(withoutHeaderValues(withoutSources(again))).toEqual(withoutHeaderValues(withoutSources(message)));

        const missing = await missingFor(bytes, message);
        if (name in POSTAL_MIME) expect(missing).not.toEqual([]);
        else expect(missing).toEqual([]);
      },
      WATCHDOG,
    );
  }
});

describe("stalwart's parts", () => {
  for (const { name, bytes } of corpusFiles("stalwart-mail-parser").flatMap(withCrlf)) {
    const expected = name.replace(/\.eml$/, ".json");
    test(expected, async () => {
      const { parts } = corpusJson(expected) as { parts: { body: Record<string, unknown> }[] };
      const message = await parseWithoutOriginal(bytes);
      const missing = parts
        .filter(({ body }) => !hasStalwartBody(message, body))
        .map(({ body }) => Object.keys(body)[0]);
      if (name.replace(".crlf", "") in STALWART_PARTS) expect(missing).not.toEqual([]);
      else expect(missing).toEqual([]);
    });
  }
});

describe("mime4j's decoded parts", () => {
  const decoded = corpusPresent
    ? namesIn("mime4j-testmsgs").filter((name) => /_decoded_[\d_]+\.(?:txt|bin)$/.test(name))
    : [];
  for (const name of decoded) {
    test(name.slice(MIME4J.length), async () => {
      const message = corpusBytes(name.replace(/_decoded_[\d_]+\.\w+$/, ".msg"));
      const part = corpusBytes(name);
      if (message === undefined || part === undefined) throw new Error(`the message of ${name} is missing`);
      const has = await hasContent(await parseWithoutOriginal(message), Buffer.from(part));
      expect(has).toBe(!(name.slice(MIME4J.length) in MIME4J_PARTS));
    });
  }
});

describe("stalwart's header cases", () => {
  const unfolded = (header: string) => readHeaders(Buffer.from(`X: ${header}`)).fields[0]?.value ?? "";
  const cases = (name: string) => corpusJson(`${STALWART}${name}.json`) as { header: string; expected: unknown }[];
  interface Addresses {
    List?: { name: string | null; address: string | null }[];
    Group?: { addresses: { name: string | null; address: string | null }[] }[];
  }

  test.skipIf(!corpusPresent)(`addresses${corpusNote}`, () => {
    const differing: string[] = [];
    for (const { header, expected } of cases("address")) {
      const { List, Group } = (expected ?? {}) as Addresses;
      const theirs = (List ?? Group?.flatMap(({ addresses }) => addresses) ?? []).map(({ address }) => address ?? "");
      const ours = parseAddressList(unfolded(header)).map(({ email }) => email);
      // Their expectations keep the scheme and query of List-* URLs, which are not part of an address.
      const bare = theirs.map((address) => address.replace(/^mailto:([^?]*).*/, "$1"));
      if (JSON.stringify(ours) !== JSON.stringify(bare.filter((address) => address.includes("@")))) {
        differing.push(header);
      }
    }
    expect(differing).toEqual([
      // Their expectations keep source routes, which RFC 5322 §4.4 says to ignore, and white space around dots.
      "Mary Smith <@node.test:mary@example.net>, , jdoe@test  . example\n",
      "John Doe <jdoe@machine(comment).  example>\n",
    ]);
  });

  test.skipIf(!corpusPresent)(`dates${corpusNote}`, () => {
    interface Time {
      year: number;
      month: number;
      day: number;
      hour: number;
      minute: number;
      second: number;
      tz_before_gmt: boolean;
      tz_hour: number;
      tz_minute: number;
    }
    const differing: string[] = [];
    for (const { header, expected } of cases("date")) {
      const time = expected as Time | null;
      const offset = time === null ? 0 : (time.tz_before_gmt ? -1 : 1) * (time.tz_hour * 60 + time.tz_minute) * 60_000;
      const theirs =
        time === null
          ? undefined
          : Date.UTC(time.year, time.month - 1, time.day, time.hour, time.minute, time.second) - offset;
      if (parseDate(unfolded(header)) !== theirs) differing.push(header);
    }
    expect(differing).toEqual([
      // A month is a word (RFC 5322 §3.3), so a row of numbers is not a date.
      "20 11 (some \n 44 comments(more comments\n )) 79 05:34:27 -0300",
      " 4 8 15 16 23 42, 4 8 15 16 23 42, 4 8 15 16 23 42, ",
    ]);
  });

  test.skipIf(!corpusPresent)(`message identifiers${corpusNote}`, () => {
    const differing: string[] = [];
    for (const { header, expected } of cases("id")) {
      const theirs = ((expected ?? []) as string[]).map((id) => `<${id}>`);
      if (JSON.stringify(parseReferences(unfolded(header))) !== JSON.stringify(theirs)) differing.push(header);
    }
    expect(differing).toEqual([
      // White space inside is folding, which identifiers must survive.
      "<1234   @   local(blah)  .machine .example>\n",
      // A word without an @ is not an identifier.
      "   m \n",
    ]);
  });

  test.skipIf(!corpusPresent)(`unstructured text${corpusNote}`, () => {
    const differing: string[] = [];
    const oneSpaced = (text: string) => text.replace(/\s+/g, " ").trim();
    for (const { header, expected } of cases("unstructured")) {
      if (oneSpaced(decodeWords(unfolded(header))) !== oneSpaced(String(expected ?? ""))) differing.push(header);
    }
    // Their expectations put a space before an encoded word that was written without one.
    expect(differing.every((header) => header.startsWith("[SUSPECTED SPAM]="))).toBe(true);
  });
});

/** Copies of a message with LF and with CRLF, named like their expectations. */
function withCrlf({ name, bytes }: CorpusFile): CorpusFile[] {
  const crlf = Buffer.from(bytes).toString("latin1").replace(/\r?\n/g, "\r\n");
  return [
    { name, bytes },
    { name: name.replace(/\.eml$/, ".crlf.eml"), bytes: new Uint8Array(Buffer.from(crlf, "latin1")) },
  ];
}

/** The parsed message without an attached original, so that only its parts are compared. */
async function parseWithoutOriginal(bytes: Uint8Array): Promise<ParsedMessage> {
  const message = await parseMessage(bytes);
  if (message.problem === undefined) return message;
  const original = message.attachments.at(-1);
  expect(original?.filename).toBe("original.eml");
  expect(Buffer.from(original?.content ?? [])).toEqual(Buffer.from(bytes));
  return { ...message, attachments: message.attachments.slice(0, -1) };
}

/** Attachments and lines of text that postal-mime finds in a message and this parser lacks. */
async function missingFor(bytes: Uint8Array, message: ParsedMessage): Promise<string[]> {
  const other = await PostalMime.parse(bytes, { forceRfc822Attachments: true });
  const missing: string[] = [];
  for (const { content, filename, mimeType } of other.attachments) {
    const octets = typeof content === "string" ? Buffer.from(content) : Buffer.from(content as ArrayBuffer);
    if (!hasHere(message, octets)) missing.push(`attachment ${filename} ${mimeType}`);
  }
  const shown = letters(
    [
      message.text,
      message.html ?? "",
      ...message.attachments.map(({ content }) => Buffer.from(content).toString()),
    ].join(),
  );
  for (const line of (other.text ?? "").split("\n")) {
    // Skips lines in which postal-mime failed to decode the charset.
    if (!line.includes("\ufffd") && !shown.includes(letters(line))) missing.push(`text ${line}`);
  }
  return missing;
}

/** True if a message, or one attached to it, has this content as an attachment or in its bodies. */
async function hasContent(message: ParsedMessage, octets: Buffer): Promise<boolean> {
  if (hasHere(message, octets)) return true;
  for (const { contentType, content } of message.attachments) {
    if (contentType === "message/rfc822" && (await hasContent(await parseWithoutOriginal(content), octets)))
      return true;
  }
  return false;
}

/**
 * True if a message has these octets as an attachment, apart from line ends, which postal-mime normalises, or shows them in any
 * charset.
 */
function hasHere(message: ParsedMessage, octets: Buffer): boolean {
  const lines = (content: Uint8Array) =>
    Buffer.from(content).toString("latin1").replace(/\r\n/g, "\n").replace(/\n+$/, "");
  if (message.attachments.some(({ content }) => lines(content) === lines(octets))) return true;
  const shown = letters(`${message.text}\n${message.html ?? ""}`);
  const charsets = ["utf-8", "windows-1252", "iso-8859-15"] as const;
  return charsets.some((charset) => shown.includes(letters(new TextDecoder(charset).decode(octets))));
}

function hasStalwartBody(message: ParsedMessage, body: Record<string, unknown>): boolean {
  const [[kind, value] = []] = Object.entries(body);
  if (typeof value === "string") return hasHere(message, Buffer.from(value));
  if (kind === "Message") return message.attachments.some(({ contentType }) => contentType === "message/rfc822");
  if (kind === "Multipart") return true;
  return hasHere(message, Buffer.from(value as number[]));
}

/** Without white space, and without NULs, which this parser removes. */
function letters(text: string): string {
  return text.replace(/[\s\0]+/g, "");
}

/** Composing encodes header values outside ASCII; the values read from them are compared instead. */
/** Without what the composed message has not got: values of fields, and where the message went on its way. */
function withoutHeaderValues({ headers, deliveredTo: _, ...message }: ParsedMessage) {
  return { ...message, headers: headers.map(([name]) => name) };
}

function stringsOf({ attachments, ...message }: ParsedMessage): string {
  return JSON.stringify([message, attachments.map(({ content: _, ...rest }) => rest)]);
}
