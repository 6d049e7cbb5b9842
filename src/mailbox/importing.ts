/**
 * Files mail that was kept elsewhere in the same state: folder, read, starred, labels, sent or received. It does not
 * count as arriving: there is no event and no classification, nothing is learned, and only mail from an inbox returns a
 * conversation to the inbox.
 *
 * Invariants: a message that the mailbox already has, in the same direction, is not filed again. In whatever order
 * messages are filed, those in trash and those in spam share conversations with no others.
 */
import { eq } from "drizzle-orm";
import { NO_SENDER } from "../message/address.ts";
import { type AuthVerdicts, type Folder, threads } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import type { Filed } from "./filing.ts";
import { findIdentical, hasMessageId, mailboxToFileInto, type Writing, writeMessage } from "./filing-rows.ts";
import { addLabels } from "./labels.ts";
import type { PreparedMessage } from "./prepare.ts";
import {
  type Arrival,
  conversationKnownAs,
  type FilingKind,
  findThread,
  firstState,
  nextState,
  type ThreadRow,
  type ThreadState,
} from "./threading.ts";

/** A message and its state where it was kept. */
export interface KeptMessage {
  mailboxId: string;
  message: PreparedMessage;
  kind: FilingKind;
  /** The conversation's folder. */
  folder: Folder;
  read: boolean;
  starred: boolean;
  labels: readonly string[];
  /** The mailbox's address at which it arrived or from which it was sent. */
  receivedOn: string;
  /** When it arrived there; epoch ms, as are the next two. */
  receivedAt: number;
  deliveredAt?: number | undefined;
  snoozedUntil?: number | undefined;
  auth?: AuthVerdicts | undefined;
  /** The user who sent it. */
  sentBy?: string | undefined;
  /** The conversation's name where it was kept; messages with one name stay together. */
  conversation?: string | undefined;
}

/** The properties by which a message that is already there is recognised. */
export interface MessageIdentity {
  mailboxId: string;
  kind: FilingKind;
  messageId: string | undefined;
  /** Computed on demand, because it takes a pass over the whole message. */
  fingerprint(): string;
}

const storedKind = (kind: FilingKind) => (kind === "notice" ? "received" : kind);

/** True if the mailbox already has the message. Without a Message-ID the content decides. */
export function isKept(db: Db, { mailboxId, kind, messageId, fingerprint }: MessageIdentity): boolean {
  if (messageId !== undefined && !hasMessageId(db, mailboxId, messageId)) return false;
  return findIdentical(db, { mailboxId, messageId, kind: storedKind(kind), fingerprint: fingerprint() }) !== undefined;
}

export function fileKept({ engine, runtime }: Writing, tx: Tx, kept: KeptMessage): Filed {
  const { mailboxId, message, kind, folder, receivedOn, receivedAt, snoozedUntil, labels, starred } = kept;
  const { messageId, fingerprint } = message;
  const same = findIdentical(tx, { mailboxId, messageId, fingerprint, kind: storedKind(kind) });
  if (same) return { ...same, duplicate: true };

  const { workspaceId } = mailboxToFileInto(tx, mailboxId);
  const now = runtime.now();
  const date = message.date !== undefined && message.date <= now ? message.date : Math.min(receivedAt, now);
  const arrival = { mailboxId, receivedOn, message, date, spam: folder === "spam", trash: folder === "trash" };
  const joined = kind === "draft" ? undefined : conversationOf(tx, arrival, kept.conversation);
  const read = kept.read || kind === "sent" || kind === "draft";
  const addition = { message: { ...message, from: message.from ?? NO_SENDER }, kind, date } as const;
  const state: ThreadState = joined
    ? {
        ...nextState(tx, joined, addition),
        folder: folderWith(joined.folder, folder),
        unread: joined.unread || !read,
        snoozedUntil: snoozedUntil ?? joined.snoozedUntil,
      }
    : { ...firstState(addition, false), folder, unread: !read, snoozedUntil: snoozedUntil ?? null };
  const { auth, sentBy, deliveredAt, conversation } = kept;
  const written = writeMessage(
    { engine, runtime },
    tx,
    message,
    { joined, state, starred },
    {
      mailboxId,
      workspaceId,
      receivedOn,
      kind,
      date,
      read,
      auth,
      sentBy,
      deliveredAt,
      filedAt: Math.min(receivedAt, now),
      references: conversation === undefined ? [] : [conversation],
    },
  );
  if (labels.length > 0) addLabels(tx, written.threadSeq, labels);
  if (starred && joined?.starred === false) {
    tx.update(threads).set({ starred }).where(eq(threads.seq, written.threadSeq)).run();
  }
  return { messageId: written.messageId, threadId: written.threadId, duplicate: false };
}

/** Found by its former name, else as for arriving mail. */
const conversationOf = (tx: Tx, arrival: Arrival, name: string | undefined): ThreadRow | undefined =>
  (name === undefined ? undefined : conversationKnownAs(tx, arrival.mailboxId, name)) ?? findThread(tx, arrival);

/** A conversation gets the most prominent folder among those of its messages. */
const PRESENCE: Partial<Record<Folder, number>> = { sent: 0, archive: 1, inbox: 2 };

function folderWith(present: Folder, added: Folder): Folder {
  const [before, after] = [PRESENCE[present], PRESENCE[added]];
  return before === undefined || after === undefined || after < before ? present : added;
}
