/**
 * Writes the notice to the sender about recipients that a message did not reach: one delivery status notification (RFC 3464)
 * for all that failed together, written for people (rules: Failure, Bcc).
 *
 * A Bcc recipient is "a Bcc recipient" here, without address, host or reply. The sender sees the outcome of each
 * beside the address in the app.
 */
import { dateHeader, fold, formatAddress } from "../message/compose.ts";
import { composeNotice, type NoticeRecipient } from "../message/notice.ts";
import type { OutboundMessage, QueueEntry } from "./queue.ts";

/** A recipient that the message did not reach, for good. */
export interface Failure {
  entry: QueueEntry;
  /** The address is at fault, and will be suppressed. */
  hard: boolean;
  /** The reason on one line, for people: the server's reply. May be shown. */
  detail: string;
  /** RFC 3463. */
  status: string;
  /** Host that refused. */
  remote?: string | undefined;
  /** A sentence about the attempts. */
  tried: string;
}

export interface BounceParts {
  /** Names the notice; cannot be guessed. */
  id: string;
  message: OutboundMessage;
  failures: readonly Failure[];
  /** Header of the message, without Bcc: [name, value] in order. */
  headers: readonly (readonly [name: string, value: string])[];
  /** Our host name. */
  hostname: string;
  /** Epoch ms. */
  now: number;
}

/** The bytes of the notice, to be filed in the conversation of the message. */
export function composeBounce({ id, message, failures, headers, hostname, now }: BounceParts): Uint8Array {
  return composeNotice({
    id,
    headers: [
      ["From", formatAddress({ email: `postmaster@${message.domain}`, name: "Mail Delivery System" })],
      ["To", message.mailbox],
      ["Subject", `Not delivered: ${message.subject}`],
      ["Date", dateHeader(now)],
      ["Message-ID", `<${id}@${message.domain}>`],
      ["In-Reply-To", message.messageId],
      ["References", message.messageId],
      ["Auto-Submitted", "auto-replied"],
    ],
    text: textOf(message, failures, hostname),
    reportingMta: hostname,
    arrivalDate: message.acceptedAt,
    recipients: failures.map(statusOf),
    originalHeaders: headers.map(([name, value]) => `${fold(`${name}: ${value}`)}\r\n`).join(""),
  });
}

function statusOf({ entry, status, remote, detail }: Failure): NoticeRecipient {
  if (entry.field === "bcc") return { action: "failed", status: "5.0.0" };
  return {
    recipient: entry.recipient,
    action: "failed",
    status,
    diagnostic: detail,
    ...(remote === undefined ? {} : { remoteMta: remote }),
  };
}

function textOf({ subject, acceptedAt }: OutboundMessage, failures: readonly Failure[], hostname: string): string {
  const named = subject === "" ? "Your message" : `Your message "${subject}"`;
  const sentAt = new Date(acceptedAt).toISOString().slice(0, 16).replace("T", " ");
  const shown = failures.filter(({ entry }) => entry.field !== "bcc");
  const hidden = failures.length - shown.length;
  return [
    `${named}, sent on ${sentAt} UTC, did not reach:`,
    ...shown.map(({ entry: { recipient, name }, detail, tried, hard }) =>
      [formatName(recipient, name), `    ${detail}`, `    ${tried} ${hard ? SUPPRESSED : NOT_TRIED_AGAIN}`].join("\n"),
    ),
    ...(hidden === 0
      ? []
      : [`${hidden === 1 ? "a Bcc recipient" : `${hidden} Bcc recipients`}\n    It is not tried again.`]),
    `This notice was written by the mail server ${hostname}. The message itself is kept in this conversation.`,
  ].join("\n\n");
}

const formatName = (recipient: string, name: string | null): string =>
  name === null ? recipient : `${name} <${recipient}>`;

const SUPPRESSED =
  "The address itself is at fault, so it is now suppressed: nothing more is sent to it until an administrator takes it off the suppression list.";
const NOT_TRIED_AGAIN = "It is not tried again; you can send the message once more.";

/** `32 hours`: in the largest unit of which there are two, rounded. `ms`: milliseconds. */
export function durationOf(ms: number): string {
  const [unit, size] = UNITS.find(([, size]) => ms >= 2 * size) ?? (["second", 1_000] as const);
  const count = Math.round(ms / size);
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
] as const;
