/**
 * Derives from the bytes of a message everything that filing needs: all CPU-heavy work, and durable attachments. Uses
 * no database, so that a parser can run it. The result is plain data that can be cloned between processes.
 */

import { createHash } from "node:crypto";
import { authorsIn } from "../../message/address.ts";
import { createHtmlBudget } from "../../message/markup.ts";
import { fingerprintMessage } from "../../message/message-id.ts";
import { type ParsedMessage, parseMessage } from "../../message/parse.ts";
import { packText } from "../../message/reading.ts";
import { type AggregateReport, aggregateReportIn, type Report, readMailReport } from "../../message/report.ts";
import { SANITIZER_VERSION, sanitizeHtml } from "../../message/sanitize.ts";
import { tryReadStructure } from "../../message/structure.ts";
import { parseSubjectKey } from "../../message/subject.ts";
import { makeSnippet } from "../../message/text.ts";
import { SEEN_VERSION, type SeenText, visibleTextForModel } from "../../message/visible.ts";
import { countDocumentCharacters, foldDocument, type IndexDocument } from "../../search/fold.ts";
import type { Blobs } from "../../store/blobs.ts";
import { extractJunkTokens } from "../junk/tokens.ts";
import { type CutOctets, cutOctets, type KeptOctets, keepOctets, NO_TOP, type TopLines } from "./keep-octets.ts";

/** A message ready to be filed, into one mailbox or several. */
export interface PreparedMessage
  extends Omit<ParsedMessage, "sender" | "html" | "textStart" | "htmlStart" | "attachments" | "autoSubmitted"> {
  /** Folded, without reply and forward prefixes. */
  subjectKey: string;
  /** The subject has a reply prefix. */
  isReply: boolean;
  snippet: string;
  /** Sanitised, zstd, and its bytes unpacked. */
  html?: Uint8Array;
  htmlBytes?: number;
  /** HTML as received, compressed with zstd. */
  htmlSource?: Uint8Array;
  /** Version of the sanitiser policy behind `html`. */
  sanitizer: number;
  /** The visible text (message/visible.ts), zstd, absent if it equals `text`; and the number of hidden characters. */
  seenText?: Uint8Array;
  seenHidden: number;
  /** Version of the rules for visible text. */
  seenVersion: number;
  attachments: PreparedAttachment[];
  /** Bytes as received, or of its files if these are more, and what many small ones take of the disk beyond them. */
  size: number;
  fingerprint: string;
  index: IndexDocument;
  /** The outcome of sent mail that it reports, if it is a bounce or a complaint. */
  report?: Report;
  /** Tokens for the junk filter, separated by single spaces; absent if nobody asked for them, or no parser could read the message. */
  junkTokens?: string;
  /** Set for a report between mail systems, which no person reads. */
  aggregateReport?: AggregateReport;
  /** The octets to keep; absent for a draft that is still written, and for a message that no parser could read. */
  octets?: KeptOctets;
}

interface PreparedAttachment extends Omit<ParsedMessage["attachments"][number], "content" | "source"> {
  /** Bytes. */
  size: number;
  /** Name of its blob, already durable. */
  blob: string;
}

/** The least that a file takes of the disk. */
const BLOCK_BYTES = 4_096;
/** Number of files, as many as ordinary mail has, of which only the bytes count. */
const FEW_FILES = 4;

/** Bytes that files take of the disk beyond their content. A message of many tiny files would take a hundred times its size. */
const sumFileSlack = (attachments: readonly { size: number }[]): number =>
  attachments.slice(FEW_FILES).reduce((sum, { size }) => sum + Math.max(0, BLOCK_BYTES - size), 0);

/** Bytes of all files: those that were compressed (message/forms.ts) may be more than the message. */
const total = (attachments: readonly { size: number }[]): number =>
  attachments.reduce((sum, { size }) => sum + size, 0);

/** Prepares a message with its octets. `top`: lines that go above them. See readForFiling. */
export async function prepareMessage(
  bytes: Uint8Array,
  blobs: Pick<Blobs, "write">,
  { written = false, top = NO_TOP }: { written?: boolean; top?: TopLines } = {},
): Promise<PreparedMessage> {
  const { message, cut } = await readForFiling(bytes, blobs, { written });
  return { ...message, octets: await keepOctets(cut, top, blobs) };
}

/**
 * Parses a message, writes its attachments, and cuts them out of its octets. With `written`, for mail composed here, it looks
 * for neither reports nor junk tokens; where it is not `isJudged`, not for the tokens. Resolves for any mail (`problem` names what is wrong with it); rejects only if the
 * attachments cannot be written.
 */
export async function readForFiling(
  bytes: Uint8Array,
  blobs: Pick<Blobs, "write">,
  { written = false, isJudged = true }: { written?: boolean | undefined; isJudged?: boolean | undefined } = {},
): Promise<{ message: PreparedMessage; cut: CutOctets }> {
  const budget = createHtmlBudget();
  const structure = tryReadStructure(bytes);
  // Of the fields as they came: parsing decodes those in 8-bit charsets.
  const fingerprint = fingerprintMessage(bytes, structure?.header);
  const read = await parseMessage(bytes, budget, structure);
  const { html, textStart: _, htmlStart: __, attachments, autoSubmitted: ___, sender: ____, ...parsed } = read;
  const cut = cutOctets(bytes, read);
  const stored: PreparedAttachment[] = [];
  for (const { content, source: _, ...attachment } of attachments) {
    stored.push({ ...attachment, size: content.byteLength, blob: await blobs.write(content) });
  }
  const { key, isReply } = parseSubjectKey(parsed.subject);
  // Sanitising comes later, because it may exceed the budget.
  const seen = visibleTextForModel(parsed.text, html, budget);
  const index = foldDocument({
    subject: parsed.subject,
    text: parsed.text,
    ...(seen.fromHtml && { seen: seen.text }),
    from: parsed.from === undefined ? [] : [parsed.from],
    to: parsed.to,
    cc: parsed.cc,
    filenames: attachments.map(({ filename }) => filename),
  });
  const message = {
    ...parsed,
    subjectKey: key,
    isReply,
    // Models read snippets, too, so these are taken from the visible text.
    snippet: makeSnippet(seen.text),
    ...toVisibleTextColumns(parsed.text, seen),
    ...(html === undefined ? {} : { ...toHtmlColumns(sanitizeHtml(html, budget)), htmlSource: packText(html) }),
    sanitizer: SANITIZER_VERSION,
    attachments: stored,
    size: Math.max(bytes.byteLength, total(stored)) + sumFileSlack(stored),
    fingerprint,
    index,
  };
  if (written) return { message, cut };
  const report = await readMailReport(bytes, structure);
  const aggregateReport = aggregateReportIn({ ...parsed, attachments });
  return {
    message: {
      ...message,
      ...(report === undefined ? {} : { report }),
      ...(aggregateReport === undefined ? {} : { aggregateReport }),
      ...(isJudged && {
        junkTokens: extractJunkTokens({
          ...parsed,
          attachments,
          folded: seen.fromHtml ? undefined : index.body,
          size: bytes.byteLength,
          html: () => html,
        }),
      }),
    },
    cut,
  };
}

/** The stored columns of sanitised HTML. */
export const toHtmlColumns = (html: string) => ({ html: packText(html), htmlBytes: Buffer.byteLength(html) });

/** The stored columns: most visible text equals `text` and takes no bytes. */
export function toVisibleTextColumns(
  text: string,
  seen: SeenText,
): Pick<PreparedMessage, "seenText" | "seenHidden" | "seenVersion"> {
  return {
    ...(seen.text === text ? {} : { seenText: packText(seen.text) }),
    seenHidden: seen.hidden,
    seenVersion: SEEN_VERSION,
  };
}

/** Bytes of copies of one message that a transaction files, except for a single copy: some hundred ms. */
const FILED_AT_ONCE = 8 * 1024 * 1024;

/** How many copies of a message one transaction files, and roughly the bytes that each writes to the database. */
export function measureFilingPortion({ text, html, htmlSource, seenText, headers, index }: PreparedMessage): {
  atOnce: number;
  bytes: number;
} {
  const body = text.length + (html?.length ?? 0) + (htmlSource?.length ?? 0) + (seenText?.length ?? 0);
  // Its addresses are stored twice.
  const header = 2 * headers.reduce((sum, [, value]) => sum + value.length, 0);
  const bytes = body + header + countDocumentCharacters(index);
  return { atOnce: Math.max(1, Math.floor(FILED_AT_ONCE / bytes)), bytes };
}

/**
 * Prepares a message that no parser can read, with its original alone, stored as `blob` (rules: Nothing lost).
 * `reversePath`: "" for a bounce.
 */
export function prepareUnreadableMessage(
  bytes: Uint8Array,
  reversePath: string,
  blob: string,
  problem: string,
): PreparedMessage {
  const authors = authorsIn([`<${reversePath}>`]);
  const from = authors.emails.slice(0, 1).map((email) => ({ email }));
  const text = "This message could not be read. It is attached as it came.";
  const contentType = "message/rfc822";
  const filename = "original.eml";
  return {
    headers: [],
    references: [],
    ...(from[0] && { from: from[0] }),
    authors,
    to: [],
    cc: [],
    bcc: [],
    replyTo: [],
    deliveredTo: [],
    subject: "",
    subjectKey: "",
    isReply: false,
    text,
    snippet: text,
    seenHidden: 0,
    seenVersion: SEEN_VERSION,
    sanitizer: SANITIZER_VERSION,
    attachments: [{ filename, contentType, size: bytes.byteLength, inline: false, blob }],
    size: bytes.byteLength,
    fingerprint: createHash("sha256").update(bytes).digest("hex"),
    index: foldDocument({ subject: "", text, from, to: [], cc: [], filenames: [filename] }),
    problem,
  };
}
