/**
 * The refusals of SMTP: reply code, enhanced status code (RFC 3463) and text (contract: Arrival, Unavailable). What is
 * thrown and is neither a Refusal nor unavailability is a fault of ours: 451, so that the sender keeps the message.
 */
import { isUnavailable } from "../errors.ts";
import { asUnavailable } from "../store/store.ts";

const REFUSALS = {
  unknownRecipient: [550, "5.1.1", "No such mailbox here"],
  notOurs: [550, "5.7.1", "We do not relay for this domain"],
  mailboxFull: [452, "4.2.2", "Mailbox is full"],
  tooLarge: [552, "5.3.4", "Message is larger than this server takes"],
  storeUnavailable: [452, "4.3.1", "Mail store is briefly unavailable, try again"],
  stopping: [421, "4.3.2", "Service is stopping, try again in a moment"],
  loop: [554, "5.4.6", "Mail loop: too many Received headers"],
  unknownParameter: [555, "5.5.4", "Parameter is not supported"],
  tooManyConnections: [421, "4.7.0", "Too many connections, try again in a moment"],
  tooManyErrors: [421, "4.7.0", "Too many refused or unproductive commands"],
  tooSlow: [421, "4.4.2", "Took too long"],
  lineTooLong: [500, "5.5.2", "Command line is too long"],
  aborted: [451, "4.4.2", "Connection was lost"],
  failed: [451, "4.3.0", "Local error, try again later"],
} as const satisfies Record<string, readonly [code: number, status: string, text: string]>;

export type RefusalName = keyof typeof REFUSALS;

/** A reply that is not 2yz or 3yz. As an Error it fits the callbacks of smtp-server: `responseCode` and `message`. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly responseCode: number;
  /** Why it is refused. */
  readonly reason: RefusalName;

  constructor(reason: RefusalName, cause?: unknown) {
    const [code, status, text] = REFUSALS[reason];
    super(`${status} ${text}`, cause === undefined ? undefined : { cause });
    this.responseCode = code;
    this.reason = reason;
  }
}

/** The refusal that answers whatever was thrown. */
export function refusalOf(error: unknown): Refusal {
  if (error instanceof Refusal) return error;
  return new Refusal(isUnavailable(asUnavailable(error)) ? "storeUnavailable" : "failed", error);
}
