/**
 * Reports that mail systems send each other daily and no person reads: DMARC aggregate reports (RFC 7489 §7.2) and SMTP
 * TLS reports (RFC 8460 §5.3). Recognised by their form, not read.
 *
 * Strict, for what is recognised is not shown as unread: mail that has more to say than a report's covering note, further
 * attachments, or contents other than their name says, is ordinary mail.
 */
import type { ParsedMessage } from "./parse.ts";

export type AggregateReport = "dmarc" | "tls";

/** RFC 7489 §7.2.1.1: receiver "!" policy-domain "!" begin "!" end [ "!" unique-id ] "." extension */
const DMARC_FILE =
  /^[a-z0-9._-]{1,253}!([a-z0-9._-]{1,253})!\d{1,12}!\d{1,12}(?:![^!\s]{1,200})?\.(?:xml(?:\.gz)?|zip|gz)$/i;
/** "Report Domain: D Submitter: S Report-ID: <id>", with what senders put before and between. */
const DMARC_SUBJECT = /\breport[ -]?domain:\s*\{?([a-z0-9._-]{1,253}).*\bsubmitter:/i;
const TLS_TYPE = /^application\/tlsrpt\+(?:gzip|json)$/;

/** Characters of text beside the report: it may say what it is. */
const LONGEST_TEXT = 4_000;

/** Characters of a subject that are looked at. */
const LONGEST_SUBJECT = 1_000;

/** Which of the two a message is; undefined for anything else. */
export function aggregateReportIn({
  headers,
  subject,
  text,
  attachments,
}: Pick<ParsedMessage, "headers" | "subject" | "text" | "attachments">): AggregateReport | undefined {
  const [report, ...others] = attachments;
  if (report === undefined || others.length > 0 || text.length > LONGEST_TEXT) return undefined;
  if (TLS_TYPE.test(report.contentType)) {
    const names = new Set(headers.map(([name]) => name.toLowerCase()));
    const isHeaded = names.has("tls-report-domain") && names.has("tls-report-submitter");
    return isHeaded && (isGzip(report.content) || begins(report.content, "{")) ? "tls" : undefined;
  }
  const [, named] = DMARC_FILE.exec(report.filename) ?? [];
  const [, told] = DMARC_SUBJECT.exec(subject.slice(0, LONGEST_SUBJECT)) ?? [];
  if (named === undefined || named.toLowerCase() !== told?.toLowerCase()) return undefined;
  return isGzip(report.content) || begins(report.content, "PK\x03\x04") || begins(report.content, "<")
    ? "dmarc"
    : undefined;
}

const isGzip = (content: Uint8Array): boolean => content[0] === 0x1f && content[1] === 0x8b;

const begins = (content: Uint8Array, text: string): boolean =>
  Buffer.from(content.subarray(0, 64)).toString("latin1").trimStart().startsWith(text);
