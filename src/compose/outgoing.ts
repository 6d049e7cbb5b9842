/** Makes messages to send or to keep as drafts: envelope, headers and limits on their size. */
import type { Reach } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import { newTimedToken, randomToken } from "../base/runtime.ts";
import { parseTime } from "../base/time.ts";
import type { PreparedMessage } from "../mailbox/filing/prepare.ts";
import type { MessageView } from "../mailbox/state/views.ts";
import { type EmailAddress, splitAddress } from "../message/address.ts";
import { formatAddress } from "../message/compose.ts";
import type { Composition, ForwardedMessage } from "../message/composition.ts";
import { dateHeader } from "../message/date.ts";
import { readRecipients } from "../message/recipients.ts";
import { listReplyRedirects } from "../message/redirection.ts";
import { asUnparseableRefusal, requireMessageSize } from "../outbound/accept.ts";
import type { Recipient } from "../outbound/queue.ts";
import type { Core } from "../store/core.ts";
import type { ParsingCore } from "../workers/parsing-core.ts";
import type { AddedFields, DraftFields } from "./requests.ts";

/** Text and HTML together, UTF-8 (rules: Body size). */
const LARGEST_BODY_BYTES = 1_048_576;
const TOKEN_LENGTH = 22;

/** A message before it is composed. */
export interface OutgoingMessage {
  mailbox: Reach["mailbox"];
  from: string;
  recipients: Recipient[];
  messageId: string;
  /** Addresses to which its header redirects answers or receipts. */
  named: readonly string[];
  composition: Composition;
}

/** Names of fields that programs may add. */
export const ADDED_FIELD = /^(?:x|list)-[a-z0-9_-]{1,60}$/i;

/** The fields of a header. @throws AppError unprocessable for a Reply-To that is no address */
export function readAddedHeaderFields({ replyTo, headers = {} }: AddedFields): [name: string, value: string][] {
  const addresses = readRecipients(replyTo, "replyTo");
  return [
    ...(addresses.length === 0 ? [] : [["Reply-To", addresses.map(formatAddress).join(", ")] as [string, string]]),
    ...Object.entries(headers),
  ];
}

/** A new message; with a new Message-ID unless it has one. `more`: further headers. */
export function createOutgoingMessage(
  { runtime }: Core,
  {
    mailbox,
    from,
    recipients,
    subject,
    messageId = `<${newTimedToken(runtime, TOKEN_LENGTH)}@${splitAddress(from).domain}>`,
  }: Omit<OutgoingMessage, "messageId" | "named" | "composition"> & { subject: string; messageId?: string },
  content: Pick<Composition, "text" | "html" | "quoted" | "forwarded" | "files">,
  more: Composition["headers"] = [],
): OutgoingMessage {
  const headers: Composition["headers"] = [
    ["From", formatAddress({ email: from, name: mailbox.name })],
    ...addressHeaders(recipients),
    ...(subject === "" ? [] : [["Subject", subject] as const]),
    ["Date", dateHeader(runtime.now())],
    ["Message-ID", messageId],
    ...more,
  ];
  const composition = { id: randomToken(runtime, TOKEN_LENGTH), headers, ...content };
  return { mailbox, from, recipients, messageId, named: listReplyRedirects(more), composition };
}

/** A message, with its HTML, as others forward it. */
export const toForwardedMessage = ({ from, to, cc, subject, date, text, html }: MessageView): ForwardedMessage => ({
  from,
  to,
  cc,
  subject,
  date: parseTime(date) ?? Number.NaN,
  text,
  html,
});

/** @throws AppError payload_too_large, unprocessable, server_error 503 */
export async function prepareDraft(
  { parser, options, log }: ParsingCore,
  mailboxId: string,
  composition: Composition,
): Promise<PreparedMessage> {
  try {
    const message = await parser.prepare({ kind: "interactive", source: mailboxId }, composition);
    requireMessageSize(message, options.get("smtp.maxMessageBytes"));
    return message;
  } catch (error) {
    throw asUnparseableRefusal(error, log);
  }
}

/** @throws AppError payload_too_large */
export function requireBodySize({ text = "", html = "" }: Pick<DraftFields, "text" | "html">): void {
  const bytes = Buffer.byteLength(text) + Buffer.byteLength(html);
  if (bytes > LARGEST_BODY_BYTES) {
    throw new AppError(
      "payload_too_large",
      `text and html have ${bytes} bytes together; ${LARGEST_BODY_BYTES} is the most`,
    );
  }
}

/**
 * To and Cc; never Bcc. A message with only Bcc recipients gets a To without addresses (RFC 5322 §3.6.3), because some
 * servers require To.
 */
function addressHeaders(recipients: readonly Recipient[]): [name: string, value: string][] {
  const header = (name: string, field: "to" | "cc"): [string, string][] => {
    const addresses = listRecipientsInField(recipients, field);
    return addresses.length === 0 ? [] : [[name, addresses.map(formatAddress).join(", ")]];
  };
  const headers = [...header("To", "to"), ...header("Cc", "cc")];
  return headers.length === 0 && recipients.length > 0 ? [["To", "undisclosed-recipients:;"]] : headers;
}

export const listRecipientsInField = (recipients: readonly Recipient[], field: Recipient["field"]): EmailAddress[] =>
  recipients.filter((recipient) => recipient.field === field).map(({ field: _, ...address }) => address);
