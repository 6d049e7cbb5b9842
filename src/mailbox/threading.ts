/**
 * Which conversation a message belongs to (rules: Conversations, Spam): by In-Reply-To and References within one
 * mailbox, in whatever order messages arrive; where a mailer drops them, by subject, participant and time.
 *
 * Mail judged spam joins only what is in spam. Other mail goes to a conversation that is not in spam where there is one;
 * it follows into spam only what it answers there itself: a junk message that merely mentions a Message-ID cannot draw
 * the mail with that id after it.
 */
import { and, desc, eq, gte, lte, sql } from "drizzle-orm";
import { type EmailAddress, isAnonymous } from "../message/address.ts";
import { prepared } from "../store/prepared.ts";
import { addresses, messages, threadReferences, threads } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { isAmong } from "./addresses.ts";
import type { PreparedMessage } from "./prepare.ts";

export type ThreadRow = typeof threads.$inferSelect;

/**
 * Most messages that a conversation grows to, for it is served whole; the next one starts another. Far below
 * MESSAGES_PER_THREAD, which numbering allows.
 */
export const LONGEST_CONVERSATION = 1_000;

const SUBJECT_WINDOW_MS = 30 * 24 * 3_600_000;
/** Conversations looked at for one Message-ID or subject, newest first. */
const MOST_CANDIDATES = 20;

const statements = prepared((db) => ({
  byReference: db
    .select({ thread: threads })
    .from(threadReferences)
    .innerJoin(threads, eq(threads.seq, threadReferences.threadSeq))
    .where(
      and(
        eq(threadReferences.mailboxId, sql.placeholder("mailboxId")),
        eq(threadReferences.messageId, sql.placeholder("messageId")),
      ),
    )
    .orderBy(desc(threadReferences.threadSeq))
    .limit(MOST_CANDIDATES)
    .prepare(),
  bySubject: db
    .select()
    .from(threads)
    .where(
      and(
        eq(threads.mailboxId, sql.placeholder("mailboxId")),
        eq(threads.subjectKey, sql.placeholder("subjectKey")),
        gte(threads.lastMessageAt, sql.placeholder("from")),
        lte(threads.lastMessageAt, sql.placeholder("until")),
      ),
    )
    .orderBy(desc(threads.lastMessageAt))
    .limit(MOST_CANDIDATES)
    .prepare(),
  byId: db
    .select()
    .from(threads)
    .where(and(eq(threads.id, sql.placeholder("threadId")), eq(threads.mailboxId, sql.placeholder("mailboxId"))))
    .prepare(),
  draftIn: db
    .select({ seq: messages.seq })
    .from(messages)
    .where(and(eq(messages.threadSeq, sql.placeholder("threadSeq")), eq(messages.kind, "draft")))
    .limit(1)
    .prepare(),
  messageIn: db
    .select({ seq: messages.seq })
    .from(messages)
    .where(
      and(
        eq(messages.mailboxId, sql.placeholder("mailboxId")),
        eq(messages.messageId, sql.placeholder("messageId")),
        eq(messages.threadSeq, sql.placeholder("threadSeq")),
      ),
    )
    .limit(1)
    .prepare(),
  ownAddresses: db
    .select({ address: addresses.address })
    .from(addresses)
    .where(eq(addresses.mailboxId, sql.placeholder("mailboxId")))
    .prepare(),
}));

/** A message that looks for its conversation. */
export interface Arrival {
  mailboxId: string;
  /** Where it arrived or was sent from: no sign of a common conversation. */
  receivedOn: string;
  message: PreparedMessage;
  /** Epoch ms. */
  date: number;
  spam: boolean;
  /** Of mail that was kept elsewhere, whether in trash: it joins none in spam or trash but its like. */
  trash?: boolean;
}

/** The conversation that the message continues, or undefined when it starts one. */
export function findThread(tx: Tx, arrival: Arrival): ThreadRow | undefined {
  const { messageId, inReplyTo, references } = arrival.message;
  const parents = new Set(references.toReversed());
  // What it answers says more than what was answered before.
  const nearestFirst = inReplyTo === undefined ? parents : new Set([inReplyTo, ...parents]);
  let inSpam: ThreadRow | undefined;
  for (const parent of nearestFirst) {
    for (const thread of candidates(tx, arrival, parent)) {
      if (isAsJudged(thread, arrival)) return thread;
      const follows = !arrival.spam && arrival.trash === undefined;
      if (follows && inSpam === undefined && hasMessage(tx, thread, parent)) inSpam = thread;
    }
  }
  if (messageId !== undefined) {
    for (const thread of candidates(tx, arrival, messageId)) {
      if (isAsJudged(thread, arrival)) return thread;
    }
  }
  if (inSpam) return inSpam;
  return nearestFirst.size === 0 ? findBySubject(tx, arrival) : undefined;
}

/** The conversation of that id in the mailbox, unless it is a draft or takes no more. */
export function threadToJoin(tx: Tx, mailboxId: string, threadId: string): ThreadRow | undefined {
  const thread = statements(tx).byId.get({ mailboxId, threadId });
  return thread && takesMore(thread) && !isDraft(tx, thread.seq) ? thread : undefined;
}

/** Whether a conversation is a draft, in whatever folder. */
export const isDraft = (tx: Tx, threadSeq: number): boolean => statements(tx).draftIn.get({ threadSeq }) !== undefined;

/** In spam for mail judged spam, elsewhere for other mail. */
const isAsJudged = ({ folder }: ThreadRow, { spam, trash }: Arrival): boolean =>
  (folder === "spam") === spam && (trash === undefined || (folder === "trash") === trash);

/** The conversation that takes more and is known by that name besides the Message-IDs, the newest of several. */
export const conversationKnownAs = (tx: Tx, mailboxId: string, name: string): ThreadRow | undefined =>
  candidates(tx, { mailboxId }, name)[0];

const takesMore = (thread: ThreadRow): boolean =>
  thread.folder !== "drafts" && thread.messageCount < LONGEST_CONVERSATION;

/** Conversations that know the Message-ID, the newest first. */
const candidates = (tx: Tx, { mailboxId }: Pick<Arrival, "mailboxId">, messageId: string): ThreadRow[] =>
  statements(tx)
    .byReference.all({ mailboxId, messageId })
    .map(({ thread }) => thread)
    .filter(takesMore);

const hasMessage = (tx: Tx, thread: ThreadRow, messageId: string): boolean =>
  statements(tx).messageIn.get({ mailboxId: thread.mailboxId, messageId, threadSeq: thread.seq }) !== undefined;

function findBySubject(tx: Tx, arrival: Arrival): ThreadRow | undefined {
  const { message, mailboxId, date } = arrival;
  if (!message.isReply || message.subjectKey === "") return undefined;
  const alike = statements(tx)
    .bySubject.all({
      mailboxId,
      subjectKey: message.subjectKey,
      from: date - SUBJECT_WINDOW_MS,
      until: date + SUBJECT_WINDOW_MS,
    })
    .filter((thread) => takesMore(thread) && isAsJudged(thread, arrival));
  if (alike.length === 0) return undefined;
  const others = othersOf(tx, arrival);
  return alike.find((thread) => thread.participants.some(({ email }) => others.has(email.toLowerCase())));
}

/** Whom the message is from and to, without the mailbox itself, which is in every conversation it has. */
function othersOf(tx: Tx, { mailboxId, receivedOn, message }: Arrival): Set<string> {
  const own = new Set([receivedOn]);
  for (const { address } of statements(tx).ownAddresses.all({ mailboxId })) own.add(address);
  const others = new Set<string>();
  for (const { email } of headerAddresses(message)) {
    if (!isAmong(own, email) && !isAnonymous(email)) others.add(email.toLowerCase());
  }
  return others;
}

/** From, To and Cc; never Bcc. */
export function headerAddresses({ from, to, cc }: Pick<PreparedMessage, "from" | "to" | "cc">): EmailAddress[] {
  return from === undefined ? [...to, ...cc] : [from, ...to, ...cc];
}
