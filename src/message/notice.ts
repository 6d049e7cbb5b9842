/**
 * Composes the delivery status notifications that this server sends: multipart/report with a text for people, a part
 * for programs (RFC 3464) and the header of the undelivered message (RFC 6522). report.ts reads them back.
 *
 * No value can add a field, a recipient or a part: each is one line of printable ASCII.
 */
import { addText, dateHeader, fold, type MessageParts, rootOf, underHeaders } from "./compose.ts";

export interface NoticeRecipient {
  /** Absent for a Bcc recipient; host and reply are then left out too (rules: Bcc). */
  recipient?: string;
  action: "failed";
  /** RFC 3463, as `5.1.1`. */
  status: string;
  /** Name of the host that refused the message. */
  remoteMta?: string;
  /** Its reply, or the reason why there was none. */
  diagnostic?: string;
}

export interface NoticeParts {
  /** Names the notice; the boundaries contain it. */
  id: string;
  /** [name, value] in order: From, To, Subject, Date, Message-ID… */
  headers: MessageParts["headers"];
  /** For people. */
  text: string;
  /** This server's host name. */
  reportingMta: string;
  /** When the message was accepted, epoch milliseconds. */
  arrivalDate: number;
  recipients: readonly NoticeRecipient[];
  /** Header of the message as transmitted, as lines of fields. Anything after an empty line is left out. */
  originalHeaders: string;
}

/** The bytes of the notice, lines ended by CRLF. */
export function composeNotice(parts: NoticeParts): Uint8Array {
  const report = rootOf(parts.id).createChild("multipart/report; report-type=delivery-status");
  addText(report, "text/plain", parts.text);
  report.createChild("message/delivery-status").setContent(statusOf(parts));
  const [header = ""] = parts.originalHeaders.replace(/\r\n?/g, "\n").replace(/^\n+/, "").split("\n\n", 1);
  addText(report, "text/rfc822-headers", header.endsWith("\n") ? header : `${header}\n`);
  return underHeaders(parts.headers, report);
}

/** The fields of RFC 3464 §2.2 and §2.3: one group for the message and one for each recipient. */
function statusOf({ reportingMta, arrivalDate, recipients }: NoticeParts): string {
  const ofMessage = [`Reporting-MTA: dns; ${hostName(reportingMta)}`, `Arrival-Date: ${dateHeader(arrivalDate)}`];
  return [ofMessage, ...recipients.map(fieldsOf)].map((group) => `${group.map(fold).join("\r\n")}\r\n`).join("\r\n");
}

function fieldsOf({ recipient, action, status, remoteMta, diagnostic }: NoticeRecipient): string[] {
  const outcome = [`Action: ${action}`, `Status: ${/^[245]\.\d{1,3}\.\d{1,3}$/.test(status) ? status : "5.0.0"}`];
  // A private address type, since the value is not an address (RFC 3464 §2.1.2).
  if (recipient === undefined) return ["Final-Recipient: x-undisclosed; a Bcc recipient", ...outcome];
  const reply = asciiLine(diagnostic ?? "");
  return [
    `Final-Recipient: ${typedAddress(recipient)}`,
    ...outcome,
    ...(remoteMta === undefined ? [] : [`Remote-MTA: dns; ${hostName(remoteMta)}`]),
    // RFC 3464 §2.3.6: type smtp is for replies of servers only.
    ...(reply === "" ? [] : [`Diagnostic-Code: ${/^\d{3}\b/.test(reply) ? "smtp" : "x-mailroom"}; ${reply}`]),
  ];
}

/** RFC 6533 §3: escapes characters outside ASCII, so that the part stays 7bit. */
function typedAddress(address: string): string {
  const line = address.replace(/\p{Cc}+/gu, "");
  if (/^[ -~]*$/.test(line)) return `rfc822; ${line}`;
  const escaped = (character: string) => `\\x{${character.codePointAt(0)?.toString(16).toUpperCase()}}`;
  return `utf-8; ${line.replace(/[^!-~]|[\\+=]/gu, escaped)}`;
}

const hostName = (host: string): string => host.replace(/[^!-~]+/g, "");

const asciiLine = (text: string): string =>
  text
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .replace(/[^ -~]/gu, "?");
