/**
 * Mail that was kept elsewhere becomes part of a mailbox, as it was kept there: in its folder, read or not, starred,
 * labelled, sent or received. Nothing arrives: no event, no judgement, nothing learned, and no conversation is brought
 * back to the inbox but by mail that lay in an inbox.
 *
 * Invariants: a message that the mailbox has, in the same direction, is not filed again. Whatever order messages are
 * filed in, those in trash and those in spam share conversations with no others.
 */
import { eq } from "drizzle-orm";
import type { Runtime } from "../base/runtime.ts";
import { NOBODY } from "../message/address.ts";
import type { SearchEngine } from "../search/engine.ts";
import { type AuthVerdicts, type Folder, threads } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import type { Filed } from "./filing.ts";
import { createWriting, findIdentical, hasMessageId, mailboxToFileInto } from "./filing-rows.ts";
import { addLabels } from "./labels.ts";
import type { PreparedMessage } from "./prepare.ts";
import {
  type Arrival,
  continued,
  conversationKnownAs,
  type FilingKind,
  findThread,
  started,
  type ThreadRow,
  type ThreadState,
} from "./threading.ts";

/** A message and how it was kept. */
export interface KeptMessage {
  mailboxId: string;
  message: PreparedMessage;
  kind: FilingKind;
  /** Of its conversation. */
  folder: Folder;
  read: boolean;
  starred: boolean;
  labels: readonly string[];
  /** The address of the mailbox it arrived on, or was sent from. */
  receivedOn: string;
  /** When it arrived there; epoch ms, as are the next two. */
  receivedAt: number;
  deliveredAt?: number | undefined;
  snoozedUntil?: number | undefined;
  auth?: AuthVerdicts | undefined;
  /** The user who sent it. */
  sentBy?: string | undefined;
  /** What its conversation was called where it was kept: messages of one name stay together. */
  conversation?: string | undefined;
}

/** What is compared to tell that a message is there already. */
export interface MessageIdentity {
  mailboxId: string;
  kind: FilingKind;
  messageId: string | undefined;
  /** Asked for only when it matters: it costs a look at the whole message. */
  fingerprint(): string;
}

const storedKind = (kind: FilingKind) => (kind === "notice" ? "received" : kind);

/** Whether the mailbox has the message already; one without a Message-ID by its content alone. */
export function isKept(db: Db, { mailboxId, kind, messageId, fingerprint }: MessageIdentity): boolean {
  if (messageId !== undefined && !hasMessageId(db, mailboxId, messageId)) return false;
  return findIdentical(db, { mailboxId, messageId, kind: storedKind(kind), fingerprint: fingerprint() }) !== undefined;
}

export function createImporting(parts: {
  engine: Pick<SearchEngine, "add">;
  runtime: Pick<Runtime, "now" | "randomBytes">;
}): (tx: Tx, kept: KeptMessage) => Filed {
  const write = createWriting(parts);
  return function fileKept(tx, kept) {
    const { mailboxId, message, kind, folder, receivedOn, receivedAt, snoozedUntil, labels, starred } = kept;
    const { messageId, fingerprint } = message;
    const same = findIdentical(tx, { mailboxId, messageId, fingerprint, kind: storedKind(kind) });
    if (same) return { ...same, duplicate: true };

    const { workspaceId } = mailboxToFileInto(tx, mailboxId);
    const now = parts.runtime.now();
    const date = message.date !== undefined && message.date <= now ? message.date : Math.min(receivedAt, now);
    const arrival = { mailboxId, receivedOn, message, date, spam: folder === "spam", trash: folder === "trash" };
    const joined = kind === "draft" ? undefined : conversationOf(tx, arrival, kept.conversation);
    const read = kept.read || kind === "sent" || kind === "draft";
    const addition = { message: { ...message, from: message.from ?? NOBODY }, kind, date } as const;
    const state: ThreadState = joined
      ? {
          ...continued(tx, joined, addition),
          folder: folderWith(joined.folder, folder),
          unread: joined.unread || !read,
          snoozedUntil: snoozedUntil ?? joined.snoozedUntil,
        }
      : { ...started(addition, false), folder, unread: !read, snoozedUntil: snoozedUntil ?? null };
    const { auth, sentBy, deliveredAt, conversation } = kept;
    const written = write(
      tx,
      message,
      { joined, state, starred },
      {
        ...{ mailboxId, workspaceId, receivedOn, kind, date, read, auth, sentBy, deliveredAt },
        filedAt: Math.min(receivedAt, now),
        references: conversation === undefined ? [] : [conversation],
      },
    );
    if (labels.length > 0) addLabels(tx, written.threadSeq, labels);
    if (starred && joined?.starred === false) {
      tx.update(threads).set({ starred }).where(eq(threads.seq, written.threadSeq)).run();
    }
    return { messageId: written.messageId, threadId: written.threadId, duplicate: false };
  };
}

/** By the name it had, else as mail that arrives finds it. */
const conversationOf = (tx: Tx, arrival: Arrival, name: string | undefined): ThreadRow | undefined =>
  (name === undefined ? undefined : conversationKnownAs(tx, arrival.mailboxId, name)) ?? findThread(tx, arrival);

/** A conversation lies where the most present of its messages lay. */
const PRESENCE: Partial<Record<Folder, number>> = { sent: 0, archive: 1, inbox: 2 };

function folderWith(present: Folder, added: Folder): Folder {
  const [before, after] = [PRESENCE[present], PRESENCE[added]];
  return before === undefined || after === undefined || after < before ? present : added;
}
