/**
 * The refusals of SMTP: reply code, enhanced status code (RFC 3463) and text (rules: SMTP refusals, Unavailable). Any
 * error other than a Refusal or unavailability is a fault of ours: 451, so that the sender keeps the message.
 */
import { AppError, type ErrorCode, isUnavailable } from "../base/errors.ts";
import type { LogFields } from "../base/log.ts";
import { asUnavailable } from "../store/store.ts";

const REFUSALS = {
  unknownRecipient: [550, "5.1.1", "No such mailbox here"],
  notOurs: [550, "5.7.1", "We do not relay for this domain"],
  notVerified: [451, "4.7.1", "This domain is not verified here yet, try again later"],
  moving: [451, "4.3.2", "This workspace is moving to another server, try again later"],
  mailboxFull: [452, "4.2.2", "Mailbox is full"],
  tooLarge: [552, "5.3.4", "Message is larger than this server takes"],
  storeUnavailable: [452, "4.3.1", "Mail store is briefly unavailable, try again"],
  stopping: [421, "4.3.2", "Service is stopping, try again in a moment"],
  loop: [554, "5.4.6", "Mail loop: too many Received headers"],
  // RFC 7489 §10.3; rules: DMARC.
  dmarc: [550, "5.7.1", "Message fails DMARC, and the domain in its From asks to refuse such mail"],
  unknownParameter: [555, "5.5.4", "Parameter is not supported"],
  tooManyConnections: [421, "4.7.0", "Too many connections, try again in a moment"],
  tooManyErrors: [421, "4.7.0", "Too many refused or unproductive commands"],
  tooSlow: [421, "4.4.2", "Took too long"],
  lineTooLong: [500, "5.5.2", "Command line is too long"],
  badChunk: [501, "5.5.4", "BDAT needs the size of the chunk, in bytes"],
  outOfTurn: [554, "5.5.1", "Spoke out of turn: wait for the greeting, and for the reply to EHLO"],
  aborted: [451, "4.4.2", "Connection was lost"],
  failed: [451, "4.3.0", "Local error, try again later"],
  tooEarly: [451, "4.3.0", "What this reports on is still being sent, try again in a moment"],

  // Policy of the MX listener (inbound/). RFC 5321 §4.3.2 has 451 for MAIL and 450 for RCPT; RFC 3463 §3.8 X.7.1 for
  // policy.
  tooMuchMail: [451, "4.7.1", "Too much mail from your network, try again later"],
  tooManyRecipients: [450, "4.7.1", "Too many recipients from your network, try again later"],
  tooManyGuesses: [421, "4.7.0", "Too many unknown recipients, try again later"],
  blocklisted: [550, "5.7.1", "Your address is on a blocklist"],
  greylisted: [450, "4.7.1", "First mail from you to this recipient, try again in a while"],
  // RFC 5321 §4.5.3.1.10: the client sends to the others in another transaction.
  oneReportEach: [452, "4.5.3", "One recipient at a time when there is no return path"],

  // Mail apps. RFC 3207 §4, RFC 4954 §4 and §6.
  tlsFirst: [530, "5.7.0", "Must issue a STARTTLS command first"],
  signInFirst: [530, "5.7.0", "Sign in first, with AUTH"],
  badCredentials: [535, "5.7.8", "Address or password is wrong"],
  tooManySignIns: [454, "4.7.0", "Too many sign-ins at once, try again in a moment"],
  signInAgain: [421, "4.7.0", "This sign-in counts no more, connect and sign in again"],
  notYourReversePath: [553, "5.7.1", "This is no address that you may send as"],
  badDsn: [501, "5.5.4", "A parameter of DSN is malformed"],
  badRecipient: [553, "5.1.3", "This is no address that mail can be sent to"],
  malformed: [550, "5.6.0", "Message is malformed"],
  nul: [554, "5.6.0", "Message contains NUL"],

  // The sending pipeline (rules: Sending pipeline).
  notAccepted: [550, "5.7.1", "Message is not accepted"],
  // 4yz, so that mail waits in the app's outbox until somebody resumes sending. RFC 5321 §4.2.3 has 450 for mail that
  // policy blocks for a time, RFC 3463 §3.8 has X.7.1 for a sender without authorization.
  paused: [450, "4.7.1", "Sending is paused"],
  // A cap is policy too (X.7.1). 451, because this message fails for the mail before it.
  overLimit: [451, "4.7.1", "A sending limit is reached"],
  upstream: [451, "4.4.0", "The outbound queue cannot take the message, try again later"],
} as const satisfies Record<string, readonly [code: number, status: string, text: string]>;

export type RefusalName = keyof typeof REFUSALS;

/** Notes a refusal in log and metrics. */
export type NoteRefusal = (reason: RefusalName, fields: LogFields) => void;

/** RFC 5321 §4.5.3.1.5 allows 512 octets, with code, status and CRLF. */
const LONGEST_TEXT = 400;

/** A reply 4yz or 5yz. As an Error it fits the callbacks of smtp-server: `responseCode` and `message`. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly responseCode: number;
  /** The name of the refusal. */
  readonly reason: RefusalName;

  /** `text`: replaces the usual one. Characters that a reply line cannot hold are replaced. */
  constructor(reason: RefusalName, cause?: unknown, text: string = REFUSALS[reason][2]) {
    const [code, status] = REFUSALS[reason];
    const line = text.replace(/\s+/g, " ").replace(/[^ -~]/gu, "?");
    super(`${status} ${line.slice(0, LONGEST_TEXT)}`, cause === undefined ? undefined : { cause });
    this.responseCode = code;
    this.reason = reason;
  }
}

/** Returns the refusal for any error. */
export function toSmtpRefusal(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return new Refusal(isUnavailable(asUnavailable(error)) ? "storeUnavailable" : "failed", error);
}

/** The refusals for codes of the API (rules: Errors). The pipeline throws no others; any other is a fault of ours. */
const REFUSAL_OF_CODE: Partial<Record<ErrorCode, RefusalName>> = {
  unprocessable: "notAccepted",
  forbidden: "notAccepted",
  not_found: "notAccepted",
  payload_too_large: "tooLarge",
  locked: "paused",
  rate_limited: "overLimit",
  insufficient_storage: "mailboxFull",
  upstream_failed: "upstream",
};

/**
 * Returns the refusal for an error of the sending pipeline, in its words: they tell the sender the limit, and when it
 * frees.
 */
export function refusalOfSending(error: unknown): Refusal {
  const reason = error instanceof AppError ? REFUSAL_OF_CODE[error.code] : undefined;
  return reason !== undefined && error instanceof AppError
    ? new Refusal(reason, error, error.message)
    : toSmtpRefusal(error);
}
