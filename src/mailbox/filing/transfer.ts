/**
 * Mail in and out of a mailbox with its state: folder, read, starred, labels, sent or received. fileTransferred files mail
 * that was kept elsewhere; exportMailbox reads all mail of a mailbox.
 *
 * Filing kept mail does not count as arriving: there is no event and no classification, nothing is learned, and only
 * mail from an inbox returns a conversation to the inbox.
 *
 * Invariants: a message that the mailbox already has, in the same direction, is not filed again. In whatever order
 * messages are filed, those in trash and those in spam share conversations with no others. Filing an export in its
 * order restores the same conversations.
 */
import { and, asc, eq, gt, isNull, ne, sql } from "drizzle-orm";
import { isMissing } from "../../base/files.ts";
import { settleKeyChanges } from "../../journal/key-changes.ts";
import { type EmailAddress, NO_SENDER } from "../../message/address.ts";
import { formatAddress, headerField } from "../../message/compose.ts";
import { isIndentedAt } from "../../message/headers.ts";
import { DamagedSkeleton } from "../../message/skeleton.ts";
import type { Reader } from "../../store/core.ts";
import {
  type AuthVerdicts,
  type Folder,
  holds,
  imapMessages,
  mailboxes,
  messageBodies,
  messages,
  threads,
  users,
} from "../../store/schema.ts";
import { isDamagedBlobError } from "../../store/sound.ts";
import { prepared } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { createImapFolderRows } from "../imap/imap-folders.ts";
import { IMAP_FLAGS, setImapFlagsInAllFolders } from "../imap/uids.ts";
import { readKeptOctets } from "../reading/kept-octets.ts";
import { composeStoredMessage } from "../reading/messages.ts";
import { routeWithin } from "../state/addresses.ts";
import { addLabels, labelKey, listThreadLabels, MOST_LABELS } from "../state/labels.ts";
import type { MailCore } from "../state/mail-core.ts";
import { deriveThreadFolder, folderOfMessage, markMessagesApart } from "../state/message-state.ts";
import type { Filed } from "./filing.ts";
import {
  acknowledgeDuplicate,
  findIdenticalMessage,
  hasMessageId,
  mailboxToFileInto,
  toStoredMessageKind,
  writeFiledMessage,
} from "./filing-rows.ts";
import type { PreparedMessage } from "./prepare.ts";
import {
  type FilingKind,
  findThreadByImportedName,
  findThreadToContinue,
  initialThreadState,
  nextThreadState,
  type ThreadRow,
  type ThreadState,
  type UnfiledMessage,
} from "./threading.ts";

/** A message and its state where it was kept. */
export interface TransferredMessage {
  mailboxId: string;
  message: PreparedMessage;
  kind: FilingKind;
  /** The conversation's folder. */
  folder: Folder;
  /** The message's own, if it is apart. */
  ownFolder?: Folder | undefined;
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
  /** `folder` is the message's own: its conversation's other messages stay where they are. */
  isAlone?: boolean;
  /** See messages.byKey. */
  byKey?: boolean | undefined;
  /** Bits of IMAP_FLAGS. */
  imapFlags?: number | undefined;
}

/** The properties by which a message that is already there is recognised. */
export interface MessageIdentity {
  mailboxId: string;
  kind: FilingKind;
  messageId: string | undefined;
  /** Computed on demand, because it takes a pass over the whole message. */
  fingerprint(): string;
}

/** True if the mailbox already has the message, so that filing it would change nothing. Without a Message-ID the content decides. */
export function isMessageAlreadyInMailbox(
  db: Db,
  { mailboxId, kind, messageId, fingerprint }: MessageIdentity,
): boolean {
  if (messageId !== undefined && !hasMessageId(db, mailboxId, messageId)) return false;
  return findIdenticalMessage(db, { mailboxId, messageId, kind, fingerprint: fingerprint() })?.byKey === false;
}

/** `labelled`: the labels that its conversation got. */
export function fileTransferred(
  core: MailCore,
  tx: Tx,
  transferred: TransferredMessage,
): Filed & { labelled: string[] } {
  const { mailboxId, message, kind, folder, receivedOn, receivedAt, snoozedUntil, starred, isAlone } = transferred;
  // The server of an account, or a sender, may have written thousands.
  const labels = transferred.labels.slice(0, MOST_LABELS);
  const { messageId, fingerprint } = message;
  const same = findIdenticalMessage(tx, { mailboxId, messageId, fingerprint, kind });
  if (same) return { ...acknowledgeDuplicate(tx, same, transferred.byKey), labelled: [] };

  const { workspaceId } = mailboxToFileInto(tx, mailboxId);
  const now = core.now();
  const date = message.date !== undefined && message.date <= now ? message.date : Math.min(receivedAt, now);
  const unfiled = { mailboxId, receivedOn, message, date, spam: folder === "spam", trash: folder === "trash" };
  const joined = kind === "draft" ? undefined : findTransferredThread(tx, unfiled, transferred.conversation);
  const ownFolder = isAlone ? folder : transferred.ownFolder;
  const read = transferred.read || kind === "sent" || kind === "draft";
  const { imapFlags = 0 } = transferred;
  if (imapFlags !== 0) createImapFolderRows(tx, mailboxId, now);
  const addition = { message: { ...message, from: message.from ?? NO_SENDER }, kind, date } as const;
  const state: ThreadState = joined
    ? {
        ...nextThreadState(tx, joined, addition),
        folder: isAlone ? joined.folder : folderWith(joined.folder, folder),
        unread: joined.unread || !read,
        snoozedUntil: snoozedUntil ?? joined.snoozedUntil,
      }
    : { ...initialThreadState(addition, false), folder, unread: !read, snoozedUntil: snoozedUntil ?? null };
  const { auth, sentBy, byKey, deliveredAt, conversation } = transferred;
  const written = writeFiledMessage(
    core,
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
      byKey,
      deliveredAt,
      filedAt: Math.min(receivedAt, now),
      ownFolder,
      references: conversation === undefined ? [] : [conversation],
    },
  );
  if (ownFolder !== undefined) {
    const derives = isAlone && folder !== folderOfMessage(toStoredMessageKind(kind), state.folder);
    const present = derives ? deriveThreadFolder(tx, written.threadSeq) : state.folder;
    if (derives) tx.update(threads).set({ folder: present }).where(eq(threads.seq, written.threadSeq)).run();
    markMessagesApart(tx, written.threadSeq, present, [written.seq]);
  }
  if (imapFlags !== 0) setImapFlagsInAllFolders(tx, [written.seq], { add: imapFlags, remove: 0 });
  const labelled = labels.length > 0 ? addLabels(tx, written.threadSeq, labels) : [];
  if (joined) for (const label of labels) settleKeyChanges(tx, joined.seq, "label", "server", labelKey(label));
  if (starred && joined) settleKeyChanges(tx, joined.seq, "starred", "server");
  if (starred) {
    tx.update(threads).set({ starred }).where(eq(threads.seq, written.threadSeq)).run();
    tx.update(messages).set({ flagged: true }).where(eq(messages.seq, written.seq)).run();
  }
  return { seq: written.seq, messageId: written.messageId, threadId: written.threadId, duplicate: false, labelled };
}

/** Found by its former name, else as for arriving mail. */
const findTransferredThread = (tx: Tx, unfiled: UnfiledMessage, name: string | undefined): ThreadRow | undefined =>
  (name === undefined ? undefined : findThreadByImportedName(tx, unfiled.mailboxId, name)) ??
  findThreadToContinue(tx, unfiled);

/** A conversation gets the most prominent folder among those of its messages. */
const PRESENCE: Partial<Record<Folder, number>> = { sent: 0, archive: 1, inbox: 2 };

function folderWith(present: Folder, added: Folder): Folder {
  const [before, after] = [PRESENCE[present], PRESENCE[added]];
  return before === undefined || after === undefined || after < before ? present : added;
}

const statements = prepared((db) => ({
  owner: db
    .select({ ownerId: mailboxes.ownerId, workspaceId: mailboxes.workspaceId })
    .from(mailboxes)
    .where(eq(mailboxes.id, sql.placeholder("mailboxId")))
    .prepare(),
  page: db
    .select({
      message: messages,
      thread: {
        id: threads.id,
        folder: threads.folder,
        starred: threads.starred,
        snoozedUntil: threads.snoozedUntil,
      },
      headers: messageBodies.headers,
      text: messageBodies.text,
      sentBy: users.email,
      imapFlags: imapMessages.flags,
    })
    .from(messages)
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .leftJoin(users, eq(users.id, messages.sentBy))
    .leftJoin(imapMessages, eq(imapMessages.messageSeq, messages.seq))
    .leftJoin(holds, and(eq(holds.messageSeq, messages.seq), ne(holds.state, "sent")))
    .where(
      and(
        eq(messages.mailboxId, sql.placeholder("mailboxId")),
        gt(messages.seq, sql.placeholder("after")),
        // Filed again, it would be a draft that anybody sends.
        isNull(holds.messageSeq),
      ),
    )
    .orderBy(asc(messages.seq))
    .limit(sql.placeholder("limit"))
    .prepare(),
}));

/** Messages per read; their texts are held in memory. */
const PAGE = 20;

type Row = ReturnType<ReturnType<typeof statements>["page"]["all"]>[number];

/** An exported message. */
export interface ExportedMessage {
  row: Row["message"];
  kind: FilingKind;
  /** See TransferredMessage. */
  ownFolder: Folder | undefined;
  thread: Row["thread"];
  labels: string[];
  /** Sign-in name of the user. */
  sentBy: string | null;
  /** Bits of IMAP_FLAGS. */
  imapFlags: number;
  /** Value of Authentication-Results. */
  results: string | undefined;
  /** Undefined if its octets, or a file of it, are damaged or missing. */
  raw: Uint8Array | undefined;
}

/**
 * All mail of a mailbox, message by message in filing order. Bcc appears as the mailbox's owner may see it (rules:
 * Bcc): complete on messages that they sent, otherwise only the mailbox's own addresses.
 */
export async function* exportMailbox(reader: Reader, mailboxId: string): AsyncGenerator<ExportedMessage> {
  const { db } = reader;
  const { ownerId = null, workspaceId = "" } = statements(db).owner.get({ mailboxId }) ?? {};
  const isOwn = ({ email }: EmailAddress): boolean => {
    const route = routeWithin(db, workspaceId, email);
    return route.kind === "mailbox" && route.mailboxId === mailboxId;
  };
  for (let after = 0; ; ) {
    const page = statements(db).page.all({ mailboxId, after, limit: PAGE });
    const last = page.at(-1);
    if (!last) return;
    after = last.message.seq;
    const labels = listThreadLabels(db, [...new Set(page.map(({ message }) => message.threadSeq))]);
    for (const { message: row, thread, headers, text, sentBy, imapFlags } of page) {
      const isOwners = row.kind !== "received" && row.sentBy !== null && row.sentBy === ownerId;
      const bcc = isOwners ? row.bcc : row.bcc.filter(isOwn);
      yield {
        row,
        ownFolder: row.apart ? row.folder : undefined,
        thread,
        sentBy,
        imapFlags: (imapFlags ?? 0) & ~IMAP_FLAGS.deleted,
        // The server's own notices arrived at no address.
        kind: row.kind === "received" && row.receivedOn === null ? "notice" : row.kind,
        labels: labels.get(row.threadSeq) ?? [],
        results: headers.find(([name]) => /^authentication-results$/i.test(name))?.[1],
        raw: await exportedBytes(reader, { id: row.id, seq: row.seq, text }, isOwners, bcc).catch((error) => {
          if (!isMissing(error) && !isDamagedBlobError(error) && !(error instanceof DamagedSkeleton)) throw error;
          return undefined;
        }),
      };
    }
  }
}

/** The octets of a message, or its file if none were kept. `bcc`: what the mailbox's owner sees of it; all of their own mail. */
async function exportedBytes(
  reader: Reader,
  message: { id: string; seq: number; text: string },
  isOwners: boolean,
  bcc: readonly EmailAddress[],
): Promise<Uint8Array> {
  const octets = await readKeptOctets(reader, message.seq, isOwners);
  if (!octets) return composeStoredMessage(reader, message, bcc);
  const buffer = Buffer.from(octets.buffer, octets.byteOffset, octets.byteLength);
  // A line that continues none would continue the field.
  if (isOwners || bcc.length === 0 || isIndentedAt(buffer, 0)) return octets;
  return Buffer.concat([Buffer.from(`${headerField("Bcc", bcc.map(formatAddress).join(", "))}\r\n`), buffer]);
}
