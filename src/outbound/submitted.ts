/**
 * Checks and completes a message that a mail app submits (RFC 6409 §8).
 *
 * Invariant: the bytes stay as they are, except that bare CR and LF become line ends and Bcc fields are removed. Missing fields
 * go before the message. So a signature over the body, or over a part of it, stays valid. Content that no server would take is
 * re-encoded where the message is signed (message/recode.ts).
 */
import { type EmailAddress, envelopeAddress, parseAddressList, readAddressEntries } from "../message/address.ts";
import { dateHeader } from "../message/date.ts";
import { type HeaderField, listHeaders, readHeaders, withoutBcc } from "../message/headers.ts";
import { firstMessageId, parseReferences } from "../message/message-id.ts";
import { withCrlf } from "../message/recode.ts";
import { Refusal } from "../smtp/refusal.ts";

export interface SubmittedMessage {
  /** The only addr-spec of the From field. */
  from: string;
  /** The only addr-spec of the Sender field. */
  sender?: string;
  /** Message-ID with its angle brackets. */
  messageId?: string;
  /** In-Reply-To with its angle brackets. The references have them, too, oldest first. */
  inReplyTo?: string;
  references: string[];
  hasDate: boolean;
  to: EmailAddress[];
  cc: EmailAddress[];
  bcc: EmailAddress[];
  /** Lines ended by CRLF, without Bcc. */
  bytes: Uint8Array;
}

/** Fields that may occur once (RFC 5322 §3.6): of two, one reader would take the first and another the last. */
const ONCE = ["from", "sender", "reply-to", "to", "cc", "message-id", "in-reply-to", "references", "subject", "date"];
/** Beginning of a header field, whose name has to stand on one line (RFC 5322 §2.2). */
const FIELD = /^[!-9;-~]{1,900}[ \t]*:/;

/**
 * Reads and checks a submitted message. @throws Refusal malformed, nul, notAccepted when From or Sender is not exactly one
 * address
 */
export function readSubmitted(content: Uint8Array): SubmittedMessage {
  if (content.includes(0)) throw new Refusal("nul");
  const whole = withCrlf(content);
  const fields = readFields(whole);
  const repeated = ONCE.find((name) => listHeaders(fields, name).length > 1);
  if (repeated !== undefined) throw malformed(`Message has more than one field ${repeated}`);
  const [from] = listHeaders(fields, "from");
  if (from === undefined) throw malformed("Message has no From field");
  const [sender] = listHeaders(fields, "sender");
  const [id] = listHeaders(fields, "message-id");
  const messageId = firstMessageId(id ?? "");
  if (id !== undefined && messageId === undefined) throw malformed("Message-ID cannot be read");
  const inReplyTo = firstMessageId(listHeaders(fields, "in-reply-to")[0] ?? "");
  const addresses = (name: string) => parseAddressList(listHeaders(fields, name).join(", "));
  return {
    from: onlyAddress("From", from),
    ...(sender !== undefined && { sender: onlyAddress("Sender", sender) }),
    ...(messageId !== undefined && { messageId }),
    ...(inReplyTo !== undefined && { inReplyTo }),
    references: parseReferences(listHeaders(fields, "references")[0] ?? ""),
    hasDate: listHeaders(fields, "date").length > 0,
    to: addresses("to"),
    cc: addresses("cc"),
    bcc: addresses("bcc"),
    bytes: withoutBcc(whole),
  };
}

/** Values for the fields that are put before a message. */
export interface Completion {
  /** Our name. */
  hostname: string;
  /** Trace id of the session, as in our log. */
  trace: string;
  /** For a message without one; with its angle brackets. */
  messageId: string;
  /** Epoch ms. */
  now: number;
}

/**
 * Returns the bytes to transmit: the message below a Received field, and Message-ID and Date where they are missing. The
 * Received field leaves out the person's address, as RFC 5321 §4.4 lets a gateway do.
 */
export function completeSubmitted(message: SubmittedMessage, completion: Completion): Uint8Array {
  const { hostname, trace, messageId, now } = completion;
  const date = dateHeader(now);
  const before = [
    `Received: by ${hostname} (Mailroom) with ESMTPSA id ${trace};`,
    `\t${date}`,
    ...(message.messageId === undefined ? [`Message-ID: ${messageId}`] : []),
    ...(message.hasDate ? [] : [`Date: ${date}`]),
    "",
  ];
  return Buffer.concat([Buffer.from(before.join("\r\n"), "latin1"), message.bytes]);
}

/**
 * Reads the fields of a header that all readers parse alike: fields and their folded lines, up to the first empty line. At a
 * stray line, one reader's header would end and another's go on, each with a From of its own.
 */
function readFields(message: Buffer): HeaderField[] {
  const { fields, oversized } = readHeaders(message);
  if (oversized) throw malformed("Header is too long");
  const end = message.subarray(0, 2).equals(CRLF) ? 0 : message.indexOf("\r\n\r\n");
  const lines = message
    .toString("latin1", 0, end < 0 ? message.length : end)
    .replace(/\r\n$/, "")
    .split("\r\n");
  const isField = (line: string, i: number) => FIELD.test(line) || (i > 0 && /^[ \t]/.test(line));
  if (!lines.every(isField)) throw malformed("Header has a line that is no field");
  return fields;
}

const CRLF = Buffer.from("\r\n");
/** Matches an address that stands unquoted for the name as well, as some apps write it: every reader finds the same address. */
const TWICE = /^\s*([^\s<>]+)\s*<\1>\s*$/i;

/** Requires exactly one mailbox and nothing else, so that every reader finds the same address. */
function onlyAddress(name: string, value: string): string {
  const [only, another] = [...readAddressEntries(value)].filter(({ source }) => source.trim() !== "");
  const address = envelopeAddress(TWICE.exec(value)?.[1] ?? only?.exact ?? "");
  if (address === undefined || another) throw new Refusal("notAccepted", undefined, `${name} must be one address`);
  return address;
}

const malformed = (text: string): Refusal => new Refusal("malformed", undefined, text);
