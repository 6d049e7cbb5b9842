/**
 * Decides which conversation a message belongs to (rules: Conversations, Spam): by In-Reply-To and References within
 * one mailbox, in any order of arrival; by subject, participant and time if a mailer omits those.
 *
 * Spam joins only conversations in spam. Other mail prefers a conversation outside spam; it joins one in spam only if
 * the message it replies to is there. A junk message that merely mentions a Message-ID therefore cannot draw in the
 * mail with that id.
 */
import { and, between, desc, eq, gt, gte, isNotNull, lt, lte, sql } from "drizzle-orm";
import { type EmailAddress, isPlaceholderAddress } from "../../message/address.ts";
import { parseSubjectKey } from "../../message/subject.ts";
import { toThreadSeq } from "../../search/document-number.ts";
import { MESSAGES_PER_THREAD, messages, threadReferences, threads } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { isOwnAddress, ownAddresses } from "../state/addresses.ts";
import type { PreparedMessage } from "./prepare.ts";

export type ThreadRow = typeof threads.$inferSelect;

/**
 * Most messages in a conversation, which is served whole; the next message starts another. Far below
 * MESSAGES_PER_THREAD, the limit of the numbering.
 */
export const LONGEST_CONVERSATION = 1_000;

const SUBJECT_WINDOW_MS = 30 * 24 * 3_600_000;
/** Newest conversations examined for one Message-ID or subject. */
const MOST_CANDIDATES = 20;

const statements = prepared((db) => ({
  byReference: db
    .select({ threadSeq: threadReferences.threadSeq })
    .from(threadReferences)
    .where(
      and(
        eq(threadReferences.mailboxId, sql.placeholder("mailboxId")),
        eq(threadReferences.messageId, sql.placeholder("messageId")),
      ),
    )
    .orderBy(desc(threadReferences.threadSeq))
    .limit(MOST_CANDIDATES)
    .prepare(),
  lastMessage: db
    .select({ seq: messages.seq, kind: messages.kind })
    .from(messages)
    .where(
      and(
        eq(messages.mailboxId, sql.placeholder("mailboxId")),
        eq(messages.messageId, sql.placeholder("messageId")),
        lt(messages.seq, sql.placeholder("before")),
      ),
    )
    .orderBy(desc(messages.seq))
    .limit(1)
    .prepare(),
  bySeq: db
    .select()
    .from(threads)
    .where(eq(threads.seq, sql.placeholder("seq")))
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
        between(messages.seq, sql.placeholder("first"), sql.placeholder("last")),
      ),
    )
    .limit(1)
    .prepare(),
}));

/** A message whose conversation is sought. */
export interface UnfiledMessage {
  mailboxId: string;
  /** The address at which it arrived or from which it was sent; it says nothing about the conversation. */
  receivedOn: string;
  message: PreparedMessage;
  /** Epoch ms. */
  date: number;
  spam: boolean;
  /** True for mail kept elsewhere that was in trash. Such mail in trash or spam joins only conversations of the same kind. */
  trash?: boolean;
}

/** The conversation that the message continues; undefined if it starts one. */
export function findThreadToContinue(tx: Tx, unfiled: UnfiledMessage): ThreadRow | undefined {
  const { messageId, inReplyTo, references } = unfiled.message;
  const { thread: named, inSpam } = findNamed(tx, unfiled, unfiled.message);
  if (named) return named;
  if (messageId !== undefined) {
    for (const thread of candidates(tx, unfiled, messageId)) {
      if (isSameKind(thread, unfiled)) return thread;
    }
  }
  if (inSpam) return inSpam;
  return inReplyTo === undefined && references.length === 0 ? findBySubject(tx, unfiled) : undefined;
}

/** The Message-IDs that a message names, with angle brackets. */
type Referring = Pick<PreparedMessage, "inReplyTo" | "references">;

/** The conversation of a mailbox that In-Reply-To and References of a message from there name. */
export function findAnsweredThread(db: Db, mailboxId: string, message: Referring): ThreadRow | undefined {
  const { thread, inSpam } = findNamed(db, { mailboxId, spam: false }, message);
  return thread ?? inSpam;
}

/** The conversation that a message names, and the one in spam that other mail joins if there is no better one. */
function findNamed(
  db: Db,
  unfiled: Pick<UnfiledMessage, "mailboxId" | "spam" | "trash">,
  { inReplyTo, references }: Referring,
): { thread?: ThreadRow; inSpam?: ThreadRow } {
  const parents = new Set(references.toReversed());
  // The message it replies to is better evidence than earlier references.
  const nearestFirst = inReplyTo === undefined ? parents : new Set([inReplyTo, ...parents]);
  let inSpam: ThreadRow | undefined;
  for (const parent of nearestFirst) {
    for (const thread of candidates(db, unfiled, parent)) {
      if (isSameKind(thread, unfiled)) return { thread };
      const follows = !unfiled.spam && unfiled.trash === undefined;
      if (follows && inSpam === undefined && hasThreadMessageId(db, thread, parent)) inSpam = thread;
    }
  }
  return { ...(inSpam && { inSpam }) };
}

/** The conversation with that id in the mailbox, unless it is a draft or full. */
export function threadToJoin(tx: Tx, mailboxId: string, threadId: string): ThreadRow | undefined {
  const thread = statements(tx).byId.get({ mailboxId, threadId });
  return thread && takesMore(thread) && !isDraft(tx, thread.seq) ? thread : undefined;
}

/** True if a conversation is a draft, in any folder. */
export const isDraft = (tx: Tx, threadSeq: number): boolean => statements(tx).draftIn.get({ threadSeq }) !== undefined;

/** True if the conversation and the mail agree about spam and, for mail kept elsewhere, about trash. */
const isSameKind = ({ folder }: ThreadRow, { spam, trash }: Pick<UnfiledMessage, "spam" | "trash">): boolean =>
  (folder === "spam") === spam && (trash === undefined || (folder === "trash") === trash);

/**
 * The newest conversation that is not full and is known by that name, which importing stores beside the Message-IDs.
 */
export const findThreadByImportedName = (tx: Tx, mailboxId: string, name: string): ThreadRow | undefined =>
  candidates(tx, { mailboxId }, name)[0];

const takesMore = (thread: ThreadRow): boolean =>
  thread.folder !== "drafts" && thread.messageCount < LONGEST_CONVERSATION;

/** Conversations that have a message with the Message-ID or refer to it, newest first. */
function candidates(db: Db, { mailboxId }: Pick<UnfiledMessage, "mailboxId">, messageId: string): ThreadRow[] {
  const referring = statements(db).byReference.all({ mailboxId, messageId });
  const seqs = new Set([
    ...conversationsWith(db, mailboxId, messageId),
    ...referring.map(({ threadSeq }) => threadSeq),
  ]);
  return [...seqs]
    .sort((a, b) => b - a)
    .slice(0, MOST_CANDIDATES)
    .flatMap((seq) => statements(db).bySeq.get({ seq }) ?? [])
    .filter(takesMore);
}

/** The newest conversations, except drafts, that have a message with the Message-ID. Reads one message of each. */
function conversationsWith(db: Db, mailboxId: string, messageId: string): number[] {
  const found: number[] = [];
  for (let before = Number.MAX_SAFE_INTEGER; found.length < MOST_CANDIDATES; ) {
    const message = statements(db).lastMessage.get({ mailboxId, messageId, before });
    if (!message) break;
    const thread = toThreadSeq(message.seq);
    if (message.kind !== "draft") found.push(thread);
    before = thread * MESSAGES_PER_THREAD;
  }
  return found;
}

/** True if the conversation, of that mailbox, has a message with the Message-ID. */
export const hasThreadMessageId = (
  db: Db,
  { seq, mailboxId }: Pick<ThreadRow, "seq" | "mailboxId">,
  messageId: string,
): boolean => {
  const first = seq * MESSAGES_PER_THREAD;
  return (
    statements(db).messageIn.get({ mailboxId, messageId, first, last: first + MESSAGES_PER_THREAD - 1 }) !== undefined
  );
};

function findBySubject(tx: Tx, unfiled: UnfiledMessage): ThreadRow | undefined {
  const { message, mailboxId, date } = unfiled;
  if (!message.isReply || message.subjectKey === "") return undefined;
  const alike = statements(tx)
    .bySubject.all({
      mailboxId,
      subjectKey: message.subjectKey,
      from: date - SUBJECT_WINDOW_MS,
      until: date + SUBJECT_WINDOW_MS,
    })
    .filter((thread) => takesMore(thread) && isSameKind(thread, unfiled));
  if (alike.length === 0) return undefined;
  const others = listCorrespondents(tx, unfiled);
  return alike.find((thread) => thread.participants.some(({ email }) => others.has(email.toLowerCase())));
}

/** Author and recipients of the message, without the mailbox itself, which is in every conversation. */
function listCorrespondents(tx: Tx, { mailboxId, receivedOn, message }: UnfiledMessage): Set<string> {
  const own = ownAddresses(tx, mailboxId).add(receivedOn);
  const others = new Set<string>();
  for (const { email } of headerAddresses(message)) {
    if (!isOwnAddress(own, email) && !isPlaceholderAddress(email)) others.add(email.toLowerCase());
  }
  return others;
}

/** From, To and Cc; never Bcc. */
function headerAddresses({ from, to, cc }: Pick<PreparedMessage, "from" | "to" | "cc">): EmailAddress[] {
  return from === undefined ? [...to, ...cc] : [from, ...to, ...cc];
}

/*
 * The row of a conversation (rules: Thread fields) after one more message. Mail arrives out of order, so the message
 * may be any of them by date.
 */

/** Most participants of one conversation, and characters of all: the first ones, and the latest author. */
const MOST_PARTICIPANTS = 500;
const PARTICIPANTS_LENGTH = 50_000;

/** The columns that filing writes for a new or continued conversation. */
export const THREAD_STATE = [
  "folder",
  "unread",
  "snoozedUntil",
  "lastMessageAt",
  "hasAttachments",
  "messageCount",
  "nextOrdinal",
  "subject",
  "subjectKey",
  "snippet",
  "counterpart",
  "participants",
] as const;

export type ThreadState = Pick<ThreadRow, (typeof THREAD_STATE)[number]>;

/**
 * `sent`: the copy of a sent message, read, not new mail. `draft`: a conversation of its own in drafts. `notice`: tells
 * a sender about a message in its conversation; unread, from the server itself.
 */
export type FilingKind = "received" | "sent" | "draft" | "notice";

/** The message that starts or continues a conversation. */
interface Addition {
  message: PreparedMessage & { from: EmailAddress };
  kind: FilingKind;
  /** Epoch ms. */
  date: number;
}

const stateStatements = prepared((db) => ({
  newerInbound: db
    .select({ seq: messages.seq })
    .from(messages)
    .where(
      and(
        eq(messages.threadSeq, sql.placeholder("threadSeq")),
        eq(messages.kind, "received"),
        isNotNull(messages.receivedOn),
        gt(messages.date, sql.placeholder("date")),
      ),
    )
    .limit(1)
    .prepare(),
  oldest: db
    .select({ date: sql<number>`min(${messages.date})` })
    .from(messages)
    .where(eq(messages.threadSeq, sql.placeholder("threadSeq")))
    .prepare(),
}));

/** rules: Thread fields. A conversation with only Bcc recipients shows its author, because Bcc is never shown. */
const chooseCounterpart = ({
  message: { from, to, cc },
  kind,
}: {
  message: Pick<Addition["message"], "from" | "to" | "cc">;
  kind: FilingKind;
}): EmailAddress => (isUnread(kind) ? from : (to[0] ?? cc[0] ?? from));

/** Received mail and notices return a conversation to the inbox, unread. */
const isUnread = (kind: FilingKind): boolean => kind === "received" || kind === "notice";

/** The state of a conversation with one message. `spam` puts received mail into spam. */
export function initialThreadState(addition: Addition, spam: boolean): ThreadState {
  const { message, kind, date } = addition;
  return {
    folder: kind === "sent" ? "sent" : kind === "draft" ? "drafts" : spam ? "spam" : "inbox",
    unread: isUnread(kind),
    snoozedUntil: null,
    lastMessageAt: date,
    hasAttachments: message.attachments.length > 0,
    messageCount: 1,
    nextOrdinal: 1,
    subject: message.subject,
    // Without a key, no mail can be matched to a draft by subject.
    subjectKey: kind === "draft" ? "" : message.subjectKey,
    snippet: message.snippet,
    counterpart: chooseCounterpart(addition),
    participants: participantsWith([], message),
  };
}

/** The state of a conversation after another message. */
export function nextThreadState(tx: Tx, thread: ThreadRow, addition: Addition): ThreadState {
  const { message, kind, date } = addition;
  const unread = isUnread(kind);
  const newest = date >= thread.lastMessageAt;
  const newestInbound = () => stateStatements(tx).newerInbound.get({ threadSeq: thread.seq, date }) === undefined;
  const onlySent = () =>
    stateStatements(tx).newerInbound.get({ threadSeq: thread.seq, date: Number.MIN_SAFE_INTEGER }) === undefined;
  const showsCounterpart = kind === "received" ? newest || newestInbound() : kind === "sent" && newest && onlySent();
  const oldest = !newest && date < (stateStatements(tx).oldest.get({ threadSeq: thread.seq })?.date ?? date);
  return {
    // New mail returns a conversation to the inbox, except from spam (rules: Folders).
    folder: unread && thread.folder !== "spam" ? "inbox" : thread.folder,
    unread: unread || thread.unread,
    snoozedUntil: unread ? null : thread.snoozedUntil,
    lastMessageAt: Math.max(thread.lastMessageAt, date),
    hasAttachments: thread.hasAttachments || message.attachments.length > 0,
    messageCount: thread.messageCount + 1,
    nextOrdinal: thread.nextOrdinal + 1,
    subject: oldest ? message.subject : thread.subject,
    subjectKey: oldest ? message.subjectKey : thread.subjectKey,
    snippet: newest ? message.snippet : thread.snippet,
    counterpart: showsCounterpart ? chooseCounterpart(addition) : thread.counterpart,
    participants: kind === "notice" ? thread.participants : participantsWith(thread.participants, message),
  };
}

type MessageRow = typeof messages.$inferSelect;

/** The parts of a conversation's state that follow from its messages alone, once some of them are gone. */
export function remainingThreadState(rows: readonly MessageRow[]): Omit<
  ThreadState,
  "folder" | "snoozedUntil" | "nextOrdinal"
> & {
  starred: boolean;
} {
  const byDate = rows.toSorted((a, b) => a.date - b.date || a.seq - b.seq);
  const [oldest, newest] = [byDate[0], byDate.at(-1)];
  if (!oldest || !newest) throw new Error("a conversation without messages has no state");
  const isNotice = ({ kind, receivedOn }: MessageRow): boolean => kind === "received" && receivedOn === null;
  const counterparts = byDate.filter((row) => !isNotice(row));
  const shown = counterparts.findLast(({ kind }) => kind === "received") ?? counterparts.at(-1) ?? newest;
  return {
    unread: rows.some(({ read }) => !read),
    starred: rows.some(({ flagged }) => flagged),
    lastMessageAt: newest.date,
    hasAttachments: rows.some((row) => row.hasAttachments),
    messageCount: rows.length,
    subject: oldest.subject,
    subjectKey: parseSubjectKey(oldest.subject).key,
    snippet: newest.snippet,
    counterpart: chooseCounterpart({ message: shown, kind: shown.kind }),
    participants: rows
      .filter((row) => !isNotice(row))
      .toSorted((a, b) => a.seq - b.seq)
      .reduce((known: EmailAddress[], row) => participantsWith(known, row), []),
  };
}

/** The participants after one more message: each address once, with the first name given. */
function participantsWith(
  known: readonly EmailAddress[],
  message: Pick<Addition["message"], "from" | "to" | "cc">,
): EmailAddress[] {
  const byAddress = new Map(known.map((participant) => [participant.email.toLowerCase(), participant]));
  const addressLength = ({ email, name = "" }: EmailAddress): number => email.length + name.length;
  let left = known.reduce((length, participant) => length - addressLength(participant), PARTICIPANTS_LENGTH);
  for (const participant of headerAddresses(message)) {
    const key = participant.email.toLowerCase();
    const before = byAddress.get(key);
    if (left <= 0 || (before === undefined ? byAddress.size === MOST_PARTICIPANTS : before.name !== undefined))
      continue;
    byAddress.set(key, participant);
    left -= addressLength(participant);
  }
  const participants = [...byAddress.values()];
  if (!byAddress.has(message.from.email.toLowerCase())) participants[participants.length - 1] = message.from;
  return participants;
}
