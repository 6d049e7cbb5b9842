/** The defaults of an answer: sender, recipients, subject and references (rules: Reply). Pure. */
import { AppError } from "../base/errors.ts";
import { isOwnAddress } from "../mailbox/addresses.ts";
import type { AnsweredMessage, ReplyContext } from "../mailbox/reply.ts";
import { type EmailAddress, envelopeAddress, isAnonymous, normalizeAddress } from "../message/address.ts";
import { LONGEST_SUBJECT } from "../message/compose.ts";
import { quoteGiven } from "../message/recipients.ts";

/**
 * The address the answer is from; normalized. What was asked for must be the mailbox's, an alias of it, or where this
 * conversation arrived; by default it is where the answered message arrived, or what it was sent from, if it still is.
 * @throws AppError unprocessable
 */
export function answerFrom(context: ReplyContext, answered: AnsweredMessage, given: string | undefined): string {
  const { reach, own, arrivedOn } = context;
  const isUsable = (address: string | undefined): address is string =>
    address !== undefined && (own.has(address) || arrivedOn.has(address));
  if (given !== undefined) {
    const address = normalizeAddress(given);
    if (isUsable(address)) return address;
    const usable = [...new Set([reach.mailbox.address, ...own, ...arrivedOn])].join(", ");
    throw new AppError(
      "unprocessable",
      `You cannot answer from ${quoteGiven(given)}: this conversation is answered from ${usable}`,
    );
  }
  const address = answered.kind === "received" ? answered.receivedOn : normalizeAddress(answered.from.email);
  return isUsable(address) ? address : reach.mailbox.address;
}

/**
 * Whom the answer goes to: Reply-To, else From, of what was received, or the To of what we sent. With `all`, Cc has those
 * on its To and Cc (RFC 5322 §3.6.3). Senders who gave no address are left out; both may be empty.
 */
export function answerTo(
  { own, arrivedOn }: Pick<ReplyContext, "own" | "arrivedOn">,
  { kind, from, replyTo, to, cc }: AnsweredMessage,
  { all }: { all: boolean },
): { to: EmailAddress[]; cc: EmailAddress[] } {
  const ours = new Set([...own, ...arrivedOn]);
  const others = (addresses: readonly EmailAddress[]) =>
    reachable(addresses).filter(({ email }) => !isOwnAddress(ours, email));
  if (kind === "sent") return { to: reachable(to), cc: all ? others(cc) : [] };
  const asked = reachable(replyTo);
  return { to: asked.length > 0 ? asked : reachable([from]), cc: all ? others([...to, ...cc]) : [] };
}

/** Addresses as in an envelope. Text that is no address is kept, so that it is refused by name rather than left out silently. */
const reachable = (addresses: readonly EmailAddress[]): EmailAddress[] =>
  addresses
    .filter(({ email }) => !isAnonymous(email))
    .map((address) => ({ ...address, email: envelopeAddress(address.email) ?? address.email }));

/** `Re:` in any case, also with a count, as in `Re[2]:`. */
const REPLY_PREFIX = /^\s*re\s*(?:\[\d{1,4}\]|\(\d{1,4}\)|\^\d{1,4}|\d{1,4})?\s*[:：]/i;

/** The subject of an answer to a message of this subject: `Re:` occurs once. An endless subject is cut. */
export const answerSubject = (subject: string): string =>
  (REPLY_PREFIX.test(subject) ? subject : `Re: ${subject}`).slice(0, LONGEST_SUBJECT).toWellFormed().trimEnd();

/** Most identifiers, and characters of them, in References: what is between the root and the newest is left out. */
const MOST_REFERENCES = 50;
const LONGEST_REFERENCES = 8_000;
/** Fits on a line, and needs no SMTPUTF8. */
const TRANSMITTABLE_ID = /^<[!-~]{1,250}>$/;

/** In-Reply-To and References of an answer (RFC 5322 §3.6.4), as far as there is something to refer to. */
export function answerHeaders({ messageId, inReplyTo, references }: AnsweredMessage): [name: string, value: string][] {
  // RFC 5322 §3.6.4: without References, an In-Reply-To of one identifier stands for them.
  const before = references.length > 0 || inReplyTo === undefined ? references : [inReplyTo];
  const ids = [...before, ...(messageId === undefined ? [] : [messageId])].filter((id) => TRANSMITTABLE_ID.test(id));
  const [root, ...later] = new Set(ids);
  if (root === undefined) return [];
  const kept: string[] = [];
  let length = root.length;
  for (const id of later.reverse()) {
    length += id.length + 1;
    if (kept.length + 1 >= MOST_REFERENCES || length > LONGEST_REFERENCES) break;
    kept.unshift(id);
  }
  const answersById = messageId !== undefined && TRANSMITTABLE_ID.test(messageId);
  return [
    ...(answersById ? [["In-Reply-To", messageId] as [string, string]] : []),
    ["References", [root, ...kept].join(" ")],
  ];
}
