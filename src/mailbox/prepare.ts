/**
 * From the bytes of a message to everything that filing it needs: all the CPU-heavy work and the durable attachments,
 * and no database, so that it can run in a worker. What comes out is plain data that can be cloned between threads.
 */

import { createBudget } from "../message/budget.ts";
import { fingerprintOf } from "../message/fingerprint.ts";
import { type ParsedMessage, parseMessage } from "../message/parse.ts";
import { packText } from "../message/reading.ts";
import { type AggregateReport, aggregateReportIn, type Report, readReport } from "../message/report.ts";
import { SANITIZER_VERSION, sanitizeHtml } from "../message/sanitize.ts";
import { SEEN_VERSION, type SeenText, seenText } from "../message/seen.ts";
import { snippetOf, subjectKeyOf } from "../message/text.ts";
import { foldDocument, type IndexDocument } from "../search/fold.ts";
import type { Blobs } from "../store/blobs.ts";
import { tokensOf } from "./junk/tokens.ts";

/** A message ready to be filed, into one mailbox or several. */
export interface PreparedMessage extends Omit<ParsedMessage, "sender" | "html" | "attachments" | "autoSubmitted"> {
  /** Folded, without reply and forward prefixes. */
  subjectKey: string;
  /** The subject has a reply prefix. */
  isReply: boolean;
  snippet: string;
  /** Sanitised. */
  html?: string;
  /** As received, zstd. */
  htmlSource?: Uint8Array;
  /** Version of the policy that made `html`. */
  sanitizer: number;
  /** What of it is seen (message/seen.ts): its text, zstd, unless that is `text`; and characters that are hidden. */
  seenText?: Uint8Array;
  seenHidden: number;
  /** Version of what counts as seen. */
  seenVersion: number;
  attachments: PreparedAttachment[];
  /** Bytes as received. */
  size: number;
  fingerprint: string;
  index: IndexDocument;
  /** What it says of mail that was sent, when it is a bounce or a complaint. */
  report?: Report;
  /** What the junk filter knows it by, parted by single spaces; absent where no parser could read it. */
  junkTokens?: string;
  /** It is a report between mail systems, for no person to read. */
  aggregateReport?: AggregateReport;
}

interface PreparedAttachment extends Omit<ParsedMessage["attachments"][number], "content"> {
  /** Bytes. */
  size: number;
  /** Name of its blob, which is durable already. */
  blob: string;
}

/**
 * Parses a message and writes its attachments. What it may report, and what tells junk, is looked for unless `written`
 * here. Resolves for whatever mail contains (`problem` says what was wrong with
 * it); rejects only when the attachments cannot be written.
 */
export async function prepareMessage(
  bytes: Uint8Array,
  blobs: Pick<Blobs, "write">,
  { written = false } = {},
): Promise<PreparedMessage> {
  const budget = createBudget();
  const { html, attachments, autoSubmitted: _, sender: __, ...parsed } = await parseMessage(bytes, budget);
  const stored: PreparedAttachment[] = [];
  for (const { content, ...attachment } of attachments) {
    stored.push({ ...attachment, size: content.byteLength, blob: await blobs.write(content) });
  }
  const { key, isReply } = subjectKeyOf(parsed.subject);
  const index = foldDocument({
    subject: parsed.subject,
    text: parsed.text,
    from: parsed.from === undefined ? [] : [parsed.from],
    to: parsed.to,
    cc: parsed.cc,
    filenames: attachments.map(({ filename }) => filename),
  });
  // Before the HTML is sanitised: it may find that it is beyond the budget.
  const seen = seenText(parsed.text, html, budget);
  const message = {
    ...parsed,
    subjectKey: key,
    isReply,
    // Of HTML that could not be followed models would be told here what it may hide.
    snippet: seen.text === "" ? "" : snippetOf(parsed.text),
    ...storedSeen(parsed.text, seen),
    ...(html === undefined ? {} : { html: sanitizeHtml(html, budget), htmlSource: packText(html) }),
    sanitizer: SANITIZER_VERSION,
    attachments: stored,
    size: bytes.byteLength,
    fingerprint: fingerprintOf(bytes),
    index,
  };
  if (written) return message;
  const report = await readReport(bytes);
  const aggregateReport = aggregateReportIn({ ...parsed, attachments });
  return {
    ...message,
    ...(report === undefined ? {} : { report }),
    ...(aggregateReport === undefined ? {} : { aggregateReport }),
    junkTokens: tokensOf({ ...parsed, attachments, folded: index.body, size: bytes.byteLength, html: () => html }),
  };
}

/** As stored beside `text`: what is seen of most mail is its text, and takes no bytes. */
export function storedSeen(
  text: string,
  seen: SeenText,
): Pick<PreparedMessage, "seenText" | "seenHidden" | "seenVersion"> {
  return {
    ...(seen.text === text ? {} : { seenText: packText(seen.text) }),
    seenHidden: seen.hidden,
    seenVersion: SEEN_VERSION,
  };
}
