/**
 * Replies to a conversation: the message that is answered with the addresses that the reply may come from, and the
 * defaults that follow from them (rules: Reply, Addresses): sender, recipients, subject and references.
 */

import { and, desc, eq, isNotNull, ne, or, sql } from "drizzle-orm";
import type { Caller, Reach } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import { reachedThread } from "../mailbox/changing/change.ts";
import { servedHtml } from "../mailbox/reading/messages.ts";
import { BEFORE_ANY_EXPIRY, isOwnAddress, routeMailFromWorkspace } from "../mailbox/state/addresses.ts";
import { type EmailAddress, envelopeAddress, isPlaceholderAddress, normalizeAddress } from "../message/address.ts";
import { LONGEST_SUBJECT } from "../message/compose.ts";
import { parseReferences } from "../message/message-id.ts";
import { quoteRefusedInput } from "../message/recipients.ts";
import { isReplySubject } from "../message/subject.ts";
import { addresses, messageBodies, messages } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";

/** The newest received message, or, if none was received, the newest sent one. */
export interface AnsweredMessage {
  kind: "received" | "sent";
  /** Message-ID with its angle brackets, which the next two fields have, too. */
  messageId?: string | undefined;
  inReplyTo?: string;
  /** Oldest first. */
  references: string[];
  /** Epoch ms. */
  date: number;
  from: EmailAddress;
  replyTo: EmailAddress[];
  to: EmailAddress[];
  cc: EmailAddress[];
  subject: string;
  text: string;
  /** Sanitised. */
  html?: string;
  /** The address it arrived on, without a tag. */
  receivedOn?: string;
}

export interface ReplyContext {
  reach: Reach;
  /** Absent in a conversation that has only a draft or notices. */
  answered?: AnsweredMessage;
  /** The mailbox's own address and its aliases. */
  own: ReadonlySet<string>;
  /**
   * The addresses at which this conversation's mail arrived, if they still lead to the mailbox: own addresses and
   * catch-alls.
   */
  arrivedOn: ReadonlySet<string>;
}

const statements = prepared((db) => ({
  answered: db
    .select({
      message: messages,
      body: {
        headers: messageBodies.headers,
        text: messageBodies.text,
        html: messageBodies.html,
        htmlBytes: messageBodies.htmlBytes,
        sanitizer: messageBodies.sanitizer,
      },
    })
    .from(messages)
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .where(
      and(
        eq(messages.threadSeq, sql.placeholder("threadSeq")),
        // A received message without an address is one of our own notices.
        or(eq(messages.kind, "sent"), and(eq(messages.kind, "received"), isNotNull(messages.receivedOn))),
      ),
    )
    .orderBy(sql`${messages.kind} = 'received' desc`, desc(messages.date), desc(messages.seq))
    .limit(1)
    .prepare(),
  arrivedOn: db
    .selectDistinct({ address: messages.receivedOn })
    .from(messages)
    .where(and(eq(messages.threadSeq, sql.placeholder("threadSeq")), isNotNull(messages.receivedOn)))
    .prepare(),
  own: db
    .select({ address: addresses.address })
    .from(addresses)
    .where(and(eq(addresses.mailboxId, sql.placeholder("mailboxId")), ne(addresses.kind, "catch-all")))
    .prepare(),
}));

/** @throws AppError not_found, also for a conversation out of reach */
export function readReplyContext(db: Db, caller: Caller, threadId: string): ReplyContext {
  const { thread, reach } = reachedThread(db, caller, threadId);
  const { mailboxId, seq: threadSeq } = thread;
  const leadsHere = (address: string): boolean => {
    const route = routeMailFromWorkspace(db, reach.mailbox.workspaceId, address, BEFORE_ANY_EXPIRY);
    return route.kind === "mailbox" && route.mailboxId === mailboxId;
  };
  const arrivedOn = statements(db)
    .arrivedOn.all({ threadSeq })
    .flatMap(({ address }) => address ?? []);
  const answered = readAnswered(db, threadSeq);
  return {
    reach,
    ...(answered && { answered }),
    own: new Set(
      statements(db)
        .own.all({ mailboxId })
        .map(({ address }) => address),
    ),
    arrivedOn: new Set(arrivedOn.filter(leadsHere)),
  };
}

function readAnswered(db: Db, threadSeq: number): AnsweredMessage | undefined {
  const row = statements(db).answered.get({ threadSeq });
  if (!row) return undefined;
  const { message, body } = row;
  const html = servedHtml(body);
  return {
    kind: message.kind === "received" ? "received" : "sent",
    ...(message.messageId === null ? {} : { messageId: message.messageId }),
    ...(message.inReplyTo === null ? {} : { inReplyTo: message.inReplyTo }),
    references: parseReferences(
      body.headers.flatMap(([name, value]) => (name.toLowerCase() === "references" ? value : [])).join(" "),
    ),
    date: message.date,
    from: message.from,
    replyTo: message.replyTo,
    to: message.to,
    cc: message.cc,
    subject: message.subject,
    text: body.text,
    ...(html === null ? {} : { html }),
    ...(message.receivedOn === null ? {} : { receivedOn: message.receivedOn }),
  };
}

/**
 * The address that the reply comes from, normalised. A `given` one must be the mailbox's own, an alias, or one at which
 * this conversation arrived. The default is the address at which the answered message arrived or from which it was
 * sent, if it is still usable, else the mailbox's own. @throws AppError unprocessable
 */
export function replySender(
  context: ReplyContext,
  answered: Pick<AnsweredMessage, "kind" | "receivedOn" | "from">,
  given: string | undefined,
): string {
  const { reach, own, arrivedOn } = context;
  const isUsable = (address: string | undefined): address is string =>
    address !== undefined && (own.has(address) || arrivedOn.has(address));
  if (given !== undefined) {
    const address = normalizeAddress(given);
    if (isUsable(address)) return address;
    const usable = [...new Set([reach.mailbox.address, ...own, ...arrivedOn])].join(", ");
    throw new AppError(
      "unprocessable",
      `You cannot answer from ${quoteRefusedInput(given)}: this conversation is answered from ${usable}`,
    );
  }
  const address = answered.kind === "received" ? answered.receivedOn : normalizeAddress(answered.from.email);
  return isUsable(address) ? address : reach.mailbox.address;
}

/**
 * The recipients of the reply: those of chooseReplyAddresses for a received message, or To of a sent one. With `all`, Cc gets the
 * other recipients of the message (RFC 5322 §3.6.3). Senders without an address are left out; both lists may be empty.
 */
export function replyRecipients(
  { own, arrivedOn }: Pick<ReplyContext, "own" | "arrivedOn">,
  { kind, from, replyTo, to, cc }: AnsweredMessage,
  { all }: { all: boolean },
): { to: EmailAddress[]; cc: EmailAddress[] } {
  const ours = new Set([...own, ...arrivedOn]);
  const others = (addresses: readonly EmailAddress[]) =>
    reachable(addresses).filter(({ email }) => !isOwnAddress(ours, email));
  if (kind === "sent") return { to: reachable(to), cc: all ? others(cc) : [] };
  return { to: reachable(chooseReplyAddresses(ours, { replyTo, from })), cc: all ? others([...to, ...cc]) : [] };
}

/** Where the answer to a received message goes: Reply-To, unless it names nobody but the mailbox (`own`), else From. */
export function chooseReplyAddresses(
  own: ReadonlySet<string>,
  { replyTo, from }: Pick<AnsweredMessage, "replyTo" | "from">,
): EmailAddress[] {
  const isOther = ({ email }: EmailAddress) => !isPlaceholderAddress(email) && !isOwnAddress(own, email);
  return replyTo.some(isOther) ? replyTo : [from];
}

/** Addresses as in an envelope. Text that is not an address is kept, so that sending names and refuses it. */
const reachable = (addresses: readonly EmailAddress[]): EmailAddress[] =>
  addresses
    .filter(({ email }) => !isPlaceholderAddress(email))
    .map((address) => ({ ...address, email: envelopeAddress(address.email) ?? address.email }));

/** The subject of a reply to a message with this subject, with `Re:` unless it has a reply prefix; cut to LONGEST_SUBJECT. */
export const replySubject = (subject: string): string =>
  (isReplySubject(subject) ? subject : `Re: ${subject}`).slice(0, LONGEST_SUBJECT).toWellFormed().trimEnd();

/** Most identifiers in References, and characters of them: those between the root and the newest are left out. */
const MOST_REFERENCES = 50;
const LONGEST_REFERENCES = 8_000;
/** Fits on a line, and needs no SMTPUTF8. */
export const TRANSMITTABLE_ID = /^<[!-~]{1,250}>$/;

/** In-Reply-To and References of a reply (RFC 5322 §3.6.4); none without an identifier to refer to. */
export function replyHeaders({
  messageId,
  inReplyTo,
  references,
}: Pick<AnsweredMessage, "messageId" | "inReplyTo" | "references">): [name: string, value: string][] {
  // RFC 5322 §3.6.4: without References, an In-Reply-To of one identifier stands for them.
  const before = references.length > 0 || inReplyTo === undefined ? references : [inReplyTo];
  const ids = [...before, ...(messageId === undefined ? [] : [messageId])].filter((id) => TRANSMITTABLE_ID.test(id));
  const [root, ...later] = new Set(ids);
  if (root === undefined) return [];
  const recent: string[] = [];
  let length = root.length;
  for (const id of later.reverse()) {
    length += id.length + 1;
    if (recent.length + 1 >= MOST_REFERENCES || length > LONGEST_REFERENCES) break;
    recent.unshift(id);
  }
  const hasId = messageId !== undefined && TRANSMITTABLE_ID.test(messageId);
  return [
    ...(hasId ? [["In-Reply-To", messageId] as [string, string]] : []),
    ["References", [root, ...recent].join(" ")],
  ];
}
