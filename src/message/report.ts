/**
 * Reads messages that are reports about sent mail: delivery status notifications (RFC 3464), bounces that are written
 * for people only, and feedback reports (RFC 5965). Recognises aggregate reports (DMARC, SMTP TLS) without reading
 * them.
 *
 * Anybody can send a report: each is a claim that counts only as far as it matches a sent message (rules: Reports).
 */
import { normalizeAddress, parseAddressList, parseSender, splitAddress } from "./address.ts";
import {
  completeReportedRecipients,
  type FieldGroup,
  fieldGroupsIn,
  MAX_RECIPIENTS,
  type NoticeText,
  type ReportedRecipient,
  readBounce,
  readReportedAddress,
  readReportedRecipient,
  splitBounceText,
} from "./bounce.ts";
import { decodeUnlabelledText } from "./charset.ts";
import { decodePartOctets, decodeText } from "./decode.ts";
import { decodeWords, findHeader, type HeaderField, listHeaders, readHeaders } from "./headers.ts";
import { textOfHtml } from "./layout.ts";
import { firstMessageId } from "./message-id.ts";
import type { ParsedMessage } from "./parse.ts";
import { type Part, readStructure, walkLeafParts } from "./structure.ts";

/** The outcome of sent messages, as reported by a server that tried to deliver them. */
export interface DeliveryReport {
  kind: "delivery";
  /** Message-ID of the returned message, with its angle brackets. */
  messageId?: string;
  /** The reverse-path of the returned message, if its header gives it. */
  envelopeFrom?: string;
  recipients: ReportedRecipient[];
}

/** A complaint: a provider passes on that a recipient reported a message. */
export interface FeedbackReport {
  kind: "feedback";
  /** `abuse`, `fraud`, `opt-out`…, lower case (RFC 5965 §7.3). */
  type: string;
  messageId?: string;
  envelopeFrom?: string;
  /** The complainant; empty if the provider withholds the address. */
  recipients: string[];
}

export type Report = DeliveryReport | FeedbackReport;

/** Recipients after which no further part of a report is read: more than any message of ours has. */
export const MOST_REPORTED = 5_000;

/**
 * The report that a message contains; undefined if it is not a report. `structure`: of the message, if it was read
 * before. Bounded time; never rejects.
 */
export async function readMailReport(bytes: Uint8Array, structure?: Part): Promise<Report | undefined> {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const { fields } = structure?.header ?? readHeaders(buffer);
  if (!mayBeReport(fields)) return undefined;
  try {
    const message = messageIn(buffer, fields, structure);
    return (await readFeedback(message)) ?? (await readDelivery(message));
  } catch {
    // The message exceeds what honest mail contains (structure.ts), or what the decoder accepts: an unreadable report.
    return undefined;
  }
}

/** The message that may contain a report. */
interface Message {
  buffer: Buffer;
  fields: readonly HeaderField[];
  /** The leaves of its structure. */
  parts: readonly Part[];
}

/** @throws TooComplex */
const messageIn = (
  buffer: Buffer,
  fields: readonly HeaderField[],
  structure: Part = readStructure(buffer),
): Message => ({ buffer, fields, parts: [...walkLeafParts(structure)] });

/** Local parts of mail systems' addresses, and the beginnings of their notices' subjects. */
const AGENT =
  /^(?:mailer-?daemon|mdaemon|post-?_?master|(?:e?mail|mdaemon|system)?[._-]?(?:mail|delivery)[._-](?:delivery|system|subsystem).*)$/i;
const SUBJECT =
  /^\W*(?:(?:message |mail )?un-?deliver|non[- ]?deliver|(?:mail |message )?deliver[a-z]* (?:status|fail|has failed|notif|problem|error|warning|delay)|mail (?:system )?(?:fail|error)|fail(?:ed|ure) (?:notice|deliver)|returned (?:e?-?mail|message)|mail (?:could not|returned)|bounce[d]? (?:mail|message|notif)|e?mail bounce|delayed mail|warning: (?:message|could not)|there was an error sending|complaint about message from)/i;
/** Beginnings of notices' subjects in other languages, or their ends behind the subject of the message. */
const FOREIGN_SUBJECT =
  /^\W*(?:non (?:remis|distribué|recapitabile)|échec de (?:la |l['’])?(?:remise|distribution|envoi)|unzustellbar|nicht zustellbar|no se puede entregar|não entregue|недоставл|配信不能|送信失敗|邮件发送失败|退信)|: non remis\b/iu;

/** A cheap test on the header that ordinary mail fails. */
function mayBeReport(fields: readonly HeaderField[]): boolean {
  const type = findHeader(fields, "content-type") ?? "";
  if (/multipart\/report|report-type/i.test(type) || findHeader(fields, "x-failed-recipients") !== undefined)
    return true;
  const from = (findHeader(fields, "from") ?? "").trim();
  const local = splitAddress(parseSender(from)?.email ?? "").local;
  if (from === "<>" || AGENT.test(local)) return true;
  const subject = decodeWords(findHeader(fields, "subject") ?? "");
  return SUBJECT.test(subject) || FOREIGN_SUBJECT.test(subject);
}

const RETURNED = /^(?:message\/(?:rfc822|rfc822-headers?|global|global-headers|partial)|text\/rfc822-headers?)$/;
const RECEIPT = /^message\/(?:global-)?disposition-notification$/;
/** Octets of a part that are read: only the header of a returned message matters. */
const MAX_PART = 256 * 1024;

/** RFC 5965, and the complaints of Outlook.com, which only wrap the message in another one. */
async function readFeedback({ buffer, fields, parts }: Message): Promise<FeedbackReport | undefined> {
  const part = parts.find(({ type }) => type === "message/feedback-report");
  const returned = parts.find(({ type }) => RETURNED.test(type));
  const header = returned === undefined ? [] : await readPartHeaderFields(buffer, returned);
  if (part === undefined) {
    const complainant = readReportedAddress(findHeader(header, "x-hmxmroriginalrecipient") ?? "");
    const isComplaint = /^complaint about message from /i.test(findHeader(fields, "subject") ?? "");
    if (!isComplaint || complainant === undefined) return undefined;
    return { kind: "feedback", type: "abuse", ...readMessageIdentity(header), recipients: [complainant] };
  }
  const groups = fieldGroupsIn(decodeUnlabelledText(decodePartBeginning(buffer, part)));
  const values = (name: string) => groups.flatMap((group) => group.get(name) ?? []);
  const envelopeFrom = readReportedAddress(values("original-mail-from")[0] ?? "");
  const recipients = [...values("original-rcpt-to"), ...values("removal-recipient")].map(readReportedAddress);
  return {
    kind: "feedback",
    type: (values("feedback-type")[0] ?? "").toLowerCase().slice(0, 60) || "other",
    ...(envelopeFrom === undefined ? {} : { envelopeFrom }),
    ...readMessageIdentity(header),
    recipients: [...new Set(recipients.filter((address) => address !== undefined))],
  };
}

/** `isNested`: the message stands in another one. */
async function readDelivery({ buffer, fields, parts }: Message, isNested = false): Promise<DeliveryReport | undefined> {
  const textPart = parts.find(({ type }) => type === "text/plain") ?? parts.find(({ type }) => type === "text/html");
  const notice = splitBounceText(textPart === undefined ? "" : await decodeReportText(buffer, textPart));
  const header = await returnedHeader(buffer, parts, notice);
  const status = parts.filter(({ type }) => /^message\/(?:global-)?delivery-status$/.test(type));
  // A person or a program tells what became of a message that was delivered (RFC 8098), in whatever words.
  if (status.length === 0 && parts.some(({ type }) => RECEIPT.test(type))) return undefined;
  const groups: FieldGroup[] = [];
  for (const part of status) {
    if (groups.length <= MOST_REPORTED)
      groups.push(...fieldGroupsIn(decodeUnlabelledText(decodePartBeginning(buffer, part))));
  }
  const reported = firstOfEach(groups.flatMap((group) => readReportedRecipient(group) ?? []));
  const recipients =
    reported.length > 0
      ? completeReportedRecipients(reported, notice.lines)
      : readBounce(notice, {
          subject: decodeWords(findHeader(fields, "subject") ?? ""),
          failed: listHeaders(fields, "x-failed-recipients").flatMap((value) => value.split(",", MAX_RECIPIENTS)),
          others: [
            ...["from", "to", "reply-to"].flatMap((name) => addressesIn(fields, name)),
            ...addressesIn(header, "from"),
          ],
          domain: splitAddress(addressesIn(fields, "from")[0] ?? "").domain,
          addressed: isOfList(header) ? [] : ["to", "cc"].flatMap((name) => addressesIn(header, name)),
        });
  const [first] = recipients;
  if (first === undefined || first.assumed) {
    const nested = isNested || status.length > 0 ? undefined : await nestedReport(buffer, parts);
    if (nested !== undefined) return readDelivery(nested, true);
  }
  if (first === undefined) return undefined;
  const sender = groups.flatMap((group) => group.get("x-postfix-sender") ?? [])[0];
  const envelopeFrom = readReportedAddress(sender ?? "");
  const named = groups.flatMap((group) => group.get("x-original-message-id") ?? [])[0];
  const { messageId = firstMessageId(named ?? "") ?? messageIdIn(notice), ...identity } = readMessageIdentity(header);
  return {
    kind: "delivery",
    ...(messageId === undefined ? {} : { messageId }),
    ...(envelopeFrom === undefined ? {} : { envelopeFrom }),
    ...identity,
    recipients,
  };
}

/** Keeps the first mention of each recipient: the same report may come twice in one message. */
function firstOfEach(reported: readonly ReportedRecipient[]): ReportedRecipient[] {
  const first = new Map<string, ReportedRecipient>();
  for (const one of reported) {
    const key = `${one.action} ${normalizeAddress(one.recipient)} ${normalizeAddress(one.original ?? "")}`;
    if (!first.has(key)) first.set(key, one);
  }
  return [...first.values()];
}

/** The fields that identify the message a header belongs to. */
function readMessageIdentity(header: readonly HeaderField[]): Pick<DeliveryReport, "messageId" | "envelopeFrom"> {
  const messageId = firstMessageId(findHeader(header, "message-id") ?? "");
  const stamped = listHeaders(header, "received").map(
    (value) => /\(envelope-from\s{1,3}<?([^\s<>()]{1,320})/i.exec(value)?.[1],
  );
  const path = findHeader(header, "return-path") ?? stamped.find((address) => address !== undefined);
  const envelopeFrom = readReportedAddress(path ?? "");
  return { ...(messageId === undefined ? {} : { messageId }), ...(envelopeFrom === undefined ? {} : { envelopeFrom }) };
}

/** A Message-ID in the text of a notice. */
function messageIdIn({ lines }: NoticeText): string | undefined {
  for (const { text } of lines) {
    const [, id] = /\bmessage-?id\s{0,3}:\s{0,3}(<[^<>\s]{1,998}>)/i.exec(text) ?? [];
    if (id !== undefined) return id;
  }
  return undefined;
}

/**
 * The header of the returned message: in a part of its own, at the end of the notice, or as a text that contains only
 * that.
 */
async function returnedHeader(buffer: Buffer, parts: readonly Part[], notice: NoticeText): Promise<HeaderField[]> {
  const returned = parts.find(({ type }) => RETURNED.test(type));
  if (returned !== undefined) return readPartHeaderFields(buffer, returned);
  if (notice.returnedHeader !== "") return readHeaders(Buffer.from(notice.returnedHeader)).fields;
  const texts = parts.filter(({ type }) => type === "text/plain").slice(1, 3);
  for (const part of texts) {
    const header = splitBounceText(await decodeReportText(buffer, part)).returnedHeader;
    if (header !== "") return readHeaders(Buffer.from(header)).fields;
  }
  // The message's parts stand directly in the report.
  return parts.slice(1).find(({ header }) => findHeader(header.fields, "message-id"))?.header.fields ?? [];
}

/** The report that a filter on the way put into another message. */
async function nestedReport(buffer: Buffer, parts: readonly Part[]): Promise<Message | undefined> {
  const part = parts.find(({ type }) => RETURNED.test(type));
  const fields = part === undefined ? [] : await readPartHeaderFields(buffer, part);
  if (part === undefined || !/report-type="?delivery-status/i.test(findHeader(fields, "content-type") ?? ""))
    return undefined;
  return messageIn(decodePartBeginning(buffer, part), fields);
}

async function readPartHeaderFields(buffer: Buffer, part: Part): Promise<HeaderField[]> {
  const content = decodePartBeginning(buffer, part);
  // Skips surplus empty lines before the message.
  const start = content.findIndex((octet) => octet !== 0x0d && octet !== 0x0a);
  return readHeaders(content, Math.max(0, start)).fields;
}

/** True for a message that a mailing list passed on, to others than the header says. */
const isOfList = (header: readonly HeaderField[]): boolean =>
  ["list-id", "list-post"].some((name) => findHeader(header, name) !== undefined);

const addressesIn = (fields: readonly HeaderField[], name: string): string[] =>
  parseAddressList(findHeader(fields, name) ?? "").map(({ email }) => email);

/** The beginning of a part's content, its transfer encoding undone. */
const decodePartBeginning = (buffer: Buffer, part: Part): Buffer =>
  decodePartOctets(buffer, { ...part, end: Math.min(part.end, part.start + MAX_PART) });

async function decodeReportText(buffer: Buffer, part: Part): Promise<string> {
  const text = await decodeText(buffer, { ...part, end: Math.min(part.end, part.start + MAX_PART) });
  return part.type === "text/html" ? textOfHtml(text) : text;
}

/*
 * Recognises the daily reports between mail systems that no person reads, by their form only: DMARC aggregate reports
 * (RFC 7489 §7.2) and SMTP TLS reports (RFC 8460 §5.3).
 *
 * Strict, because a recognised report is not shown as unread: mail with more text than a report's covering note, with
 * further attachments, or with contents that contradict their name is ordinary mail.
 */

export type AggregateReport = "dmarc" | "tls";

/** RFC 7489 §7.2.1.1: receiver "!" policy-domain "!" begin "!" end [ "!" unique-id ] "." extension */
const DMARC_FILE =
  /^[a-z0-9._-]{1,253}!([a-z0-9._-]{1,253})!\d{1,12}!\d{1,12}(?:![^!\s]{1,200})?\.(?:xml(?:\.gz)?|zip|gz)$/i;
/** "Report Domain: D Submitter: S Report-ID: <id>", with additions that senders put before and between. */
const DMARC_SUBJECT = /\breport[ -]?domain:\s*\{?([a-z0-9._-]{1,253}).*\bsubmitter:/i;
const TLS_TYPE = /^application\/tlsrpt\+(?:gzip|json)$/;

/** Most characters of text beside a report, which may describe it. */
const LONGEST_TEXT = 4_000;

/** Characters of a subject that are examined. */
const LONGEST_SUBJECT = 1_000;

/** The kind of aggregate report that a message is; undefined for any other message. */
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
  const [, fileDomain] = DMARC_FILE.exec(report.filename) ?? [];
  const [, subjectDomain] = DMARC_SUBJECT.exec(subject.slice(0, LONGEST_SUBJECT)) ?? [];
  if (fileDomain === undefined || fileDomain.toLowerCase() !== subjectDomain?.toLowerCase()) return undefined;
  return isGzip(report.content) || begins(report.content, "PK\x03\x04") || begins(report.content, "<")
    ? "dmarc"
    : undefined;
}

const isGzip = (content: Uint8Array): boolean => content[0] === 0x1f && content[1] === 0x8b;

const begins = (content: Uint8Array, text: string): boolean =>
  Buffer.from(content.subarray(0, 64)).toString("latin1").trimStart().startsWith(text);
