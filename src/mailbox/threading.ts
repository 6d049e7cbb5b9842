/**
 * Which conversation a message belongs to (rules: Conversations, Spam): by In-Reply-To and References within one
 * mailbox, in whatever order messages arrive; where a mailer drops them, by subject, participant and time.
 *
 * Mail judged spam joins only what is in spam. Other mail goes to a conversation that is not in spam where there is one;
 * it follows into spam only what it answers there itself: a junk message that merely mentions a Message-ID cannot draw
 * the mail with that id after it.
 */
import { and, desc, eq, gt, gte, isNotNull, lte, sql } from "drizzle-orm";
import { type Caller, notFound, requireAccess } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { Runtime } from "../base/runtime.ts";
import { type EmailAddress, isAnonymous } from "../message/address.ts";
import { addresses, messages, threadReferences, threads } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Store, Tx } from "../store/store.ts";
import { isAmong } from "./addresses.ts";
import { changeThread, reachedThread } from "./change.ts";
import { labelsOf, requireLabels } from "./labels.ts";
import { mailboxesToList, mailboxIdOf } from "./mailboxes.ts";
import { messagesOfThread } from "./messages.ts";
import type { PreparedMessage } from "./prepare.ts";
import { deletePortion } from "./removal.ts";
import { threadView } from "./thread-view.ts";
import type { ThreadDetailView, ThreadPatch, ThreadView } from "./views.ts";

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
function headerAddresses({ from, to, cc }: Pick<PreparedMessage, "from" | "to" | "cc">): EmailAddress[] {
  return from === undefined ? [...to, ...cc] : [from, ...to, ...cc];
}

/*
 * What the row of a conversation says (rules: Thread fields), with one more message in it: whichever of its messages that is by
 * date, for mail arrives out of order.
 */

/** Addresses kept as participants of one conversation; the first ones, and whoever wrote last. */
const MOST_PARTICIPANTS = 500;

/** What filing writes of a conversation, new or continued. */
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
 * `sent`: the copy of what somebody sent, read, and no new mail. `draft`: a conversation of its own in drafts. `notice`:
 * what the appliance tells the sender of a message in its conversation, unread, and no mail of anybody.
 */
export type FilingKind = "received" | "sent" | "draft" | "notice";

/** The message that a conversation starts with or goes on with. */
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

/** rules: Thread fields. A conversation with nobody but Bcc recipients shows who wrote it: Bcc is shown nowhere. */
const counterpartOf = ({ message: { from, to, cc }, kind }: Addition): EmailAddress =>
  isUnread(kind) ? from : (to[0] ?? cc[0] ?? from);

/** Mail that came, and what the appliance tells: both bring a conversation to the inbox, unread. */
const isUnread = (kind: FilingKind): boolean => kind === "received" || kind === "notice";

/** A conversation of one message. `spam` sends what was received to spam. */
export function started(addition: Addition, spam: boolean): ThreadState {
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
    // Without a key no mail can take a draft for its conversation.
    subjectKey: kind === "draft" ? "" : message.subjectKey,
    snippet: message.snippet,
    counterpart: counterpartOf(addition),
    participants: participantsWith([], message),
  };
}

/** The conversation with the message in it. */
export function continued(tx: Tx, thread: ThreadRow, addition: Addition): ThreadState {
  const { message, kind, date } = addition;
  const unread = isUnread(kind);
  const newest = date >= thread.lastMessageAt;
  const newestInbound = () => stateStatements(tx).newerInbound.get({ threadSeq: thread.seq, date }) === undefined;
  const onlySent = () =>
    stateStatements(tx).newerInbound.get({ threadSeq: thread.seq, date: Number.MIN_SAFE_INTEGER }) === undefined;
  const showsCounterpart = kind === "received" ? newest || newestInbound() : kind === "sent" && newest && onlySent();
  const oldest = !newest && date < (stateStatements(tx).oldest.get({ threadSeq: thread.seq })?.date ?? date);
  return {
    // New mail brings a conversation back, but for one in spam (rules: Folders).
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
    counterpart: showsCounterpart ? counterpartOf(addition) : thread.counterpart,
    participants: kind === "notice" ? thread.participants : participantsWith(thread.participants, message),
  };
}

/** The participants and those of one more message, each address once, with the first name it was given. */
function participantsWith(known: readonly EmailAddress[], message: Addition["message"]): EmailAddress[] {
  const byAddress = new Map(known.map((participant) => [participant.email.toLowerCase(), participant]));
  for (const participant of headerAddresses(message)) {
    const key = participant.email.toLowerCase();
    const before = byAddress.get(key);
    if (before === undefined ? byAddress.size < MOST_PARTICIPANTS : before.name === undefined) {
      byAddress.set(key, participant);
    }
  }
  const participants = [...byAddress.values()];
  if (!byAddress.has(message.from.email.toLowerCase())) participants[participants.length - 1] = message.from;
  return participants;
}

/* One conversation: shown whole, and changed (rules: One conversation, Changing a conversation, Folders, Spam). */

export function createThreads(store: Store, runtime: Pick<Runtime, "now">) {
  const { db } = store;

  const shown = (tx: Tx, caller: Caller, id: string): ThreadView => {
    const { thread, reach } = reachedThread(tx, caller, id);
    return threadView(thread, reach, labelsOf(tx, [thread.seq]).get(thread.seq) ?? []);
  };

  return {
    getThread(caller: Caller, id: string, options: { html: boolean }): ThreadDetailView {
      const { thread, reach } = reachedThread(db, caller, id);
      return {
        thread: threadView(thread, reach, labelsOf(db, [thread.seq]).get(thread.seq) ?? []),
        messages: messagesOfThread(store, caller, thread.seq, options),
        permissions: { send: reach.access.send, manage: reach.access.manage },
      };
    },

    update(caller: Caller, id: string, { read, ...patch }: ThreadPatch): ThreadView {
      const unread = unreadOf({ read, unread: patch.unread });
      requireLabels(patch);
      return store.transact((tx) => {
        changeThread(tx, caller, id, { ...patch, unread }, runtime.now());
        return shown(tx, caller, id);
      });
    },

    async emptyFolder(caller: Caller, mailbox: string, folder: "trash" | "spam"): Promise<number> {
      let deleted = 0;
      for (;;) {
        const portion = await store.enqueue((tx) => {
          // Each time: the share of the mailbox may end meanwhile.
          const [reach] = mailboxesToList(tx, caller, mailboxIdOf(tx, caller, mailbox)).values();
          if (!reach) throw notFound("mailbox");
          requireAccess(reach, "manage");
          return deletePortion(tx, reach.mailbox.id, EMPTIED_AT_ONCE, folder);
        });
        if (portion === 0) return deleted;
        deleted += portion;
      }
    },
  };
}

/** Messages deleted in one transaction. */
const EMPTIED_AT_ONCE = 200;

/** @throws AppError bad_request when `read` and `unread` contradict each other */
function unreadOf({ read, unread }: Pick<ThreadPatch, "read" | "unread">): boolean | undefined {
  if (read !== undefined && read === unread) {
    throw new AppError("bad_request", `read and unread cannot both be ${read}: give one of them`);
  }
  return unread ?? (read === undefined ? undefined : !read);
}
