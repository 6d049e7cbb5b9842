/**
 * What the row of a conversation says (rules: Thread fields), with one more message in it: whichever of its messages
 * that is by date, for mail arrives out of order.
 */
import { and, eq, gt, isNotNull, sql } from "drizzle-orm";
import type { EmailAddress } from "../message/address.ts";
import { prepared } from "../store/prepared.ts";
import { messages } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import type { PreparedMessage } from "./prepare.ts";
import { headerAddresses, type ThreadRow } from "./threading.ts";

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

const statements = prepared((db) => ({
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
  const newestInbound = () => statements(tx).newerInbound.get({ threadSeq: thread.seq, date }) === undefined;
  const onlySent = () =>
    statements(tx).newerInbound.get({ threadSeq: thread.seq, date: Number.MIN_SAFE_INTEGER }) === undefined;
  const showsCounterpart = kind === "received" ? newest || newestInbound() : kind === "sent" && newest && onlySent();
  const oldest = !newest && date < (statements(tx).oldest.get({ threadSeq: thread.seq })?.date ?? date);
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
