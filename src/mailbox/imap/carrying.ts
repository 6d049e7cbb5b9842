/**
 * Files mail for a caller into one folder of a mailbox, as mail apps do: what they append, and what goes from one mailbox
 * into another. By the rules of import a mailbox has a message once; one that is there already moves to the folder.
 */
import { and, eq, sql } from "drizzle-orm";
import { type Caller, findReach, findReachableMailboxes, outOfReachError, requireAccess } from "../../access/caller.ts";
import { addJournalEntry } from "../../journal/entries.ts";
import { noteFieldsSetInThread } from "../../journal/key-changes.ts";
import type { Reader } from "../../store/core.ts";
import { type Folder, messageBodies, messages, threads } from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Tx } from "../../store/store.ts";
import { folderState } from "../changing/change.ts";
import { heldCopies, requireNotHeld } from "../changing/holds.ts";
import { changeMessages, fileMessagesUnderLabel, requireMovable } from "../changing/message-changes.ts";
import { deleteMessages } from "../changing/removal.ts";
import type { Filed } from "../filing/filing.ts";
import type { PreparedMessage } from "../filing/prepare.ts";
import type { FilingKind } from "../filing/threading.ts";
import { fileTransferred, type TransferredMessage } from "../filing/transfer.ts";
import { readKeptOctets } from "../reading/kept-octets.ts";
import { composeStoredMessage } from "../reading/messages.ts";
import { labelKey, listThreadLabels, patchedLabels, writeLabels } from "../state/labels.ts";
import type { MailCore } from "../state/mail-core.ts";
import { IMAP_FLAGS, setImapFlagsInAllFolders } from "./uids.ts";

type Source = NonNullable<ReturnType<ReturnType<typeof queries>["source"]["get"]>>;

/** Properties that a message keeps when it is carried, in place of those read from its composed file. */
const carriedIdentity = ({ message: row, headers }: Source, prepared: PreparedMessage) => ({
  message: { ...prepared, headers, fingerprint: row.fingerprint, size: row.size },
  kind: (row.kind === "received" && row.receivedOn === null ? "notice" : row.kind) satisfies FilingKind as FilingKind,
  deliveredAt: row.deliveredAt ?? undefined,
  auth: row.auth ?? undefined,
  sentBy: row.sentBy ?? undefined,
  byKey: row.byKey,
});

/**
 * A message and its place. `imapFlags`: bits of IMAP_FLAGS. `under`: a label that it gets; a message that is there already then
 * stays where it is, unless that is trash or spam.
 */
export type CarriedMessage = Omit<TransferredMessage, "isAlone" | "conversation"> & {
  imapFlags: number;
  under?: string | undefined;
};

/** A message (messages.seq), and where it is. */
type MessageFolder = Pick<typeof messages.$inferSelect, "seq" | "folder">;

/** The octets of the message have the digest ?3 as that person is served them: those with the Bcc are for its author alone. */
const hasDigest = (userId: string): string =>
  `(EXISTS (SELECT 1 FROM message_octets WHERE message_seq = seq
     AND (served_digest = ?3 OR (digest = ?3 AND (served_digest IS NULL OR sent_by = ${userId}))))
  OR EXISTS (SELECT 1 FROM imap_octets WHERE message_seq = seq AND digest = ?3 AND (author = 0 OR sent_by = ${userId})))`;

const statements = {
  sent: statement<{ seq: number }, [mailboxId: string, messageId: string]>(
    "SELECT seq FROM messages WHERE mailbox_id = ? AND message_id = ? AND kind = 'sent' ORDER BY seq LIMIT 1",
  ),
  appended: statement<
    { seq: number; threadSeq: number },
    [mailboxId: string, messageId: string, sentBy: string, since: number, byKey: 0 | 1]
  >(
    `SELECT seq, thread_seq AS threadSeq FROM messages
     WHERE mailbox_id = ? AND message_id = ? AND kind = 'sent' AND folder = 'sent' AND sent_by = ? AND filed_at > ? AND by_key >= ?
       AND NOT EXISTS (SELECT 1 FROM outbound_messages WHERE outbound_messages.id = messages.id)`,
  ),
  // The mailbox that it goes to first.
  served: statement<
    MessageFolder,
    [mailboxIds: string, messageId: string, digest: Uint8Array, mailboxId: string, userId: string]
  >(
    `SELECT seq, folder FROM json_each(?1) AS reached CROSS JOIN messages INDEXED BY messages_by_message_id
       ON mailbox_id = reached.value AND message_id = ?2
     WHERE ${hasDigest("?5")} ORDER BY mailbox_id <> ?4, seq LIMIT 1`,
  ),
  servedByContent: statement<
    MessageFolder,
    [mailboxIds: string, fingerprint: string, digest: Uint8Array, mailboxId: string, userId: string]
  >(
    `SELECT seq, folder FROM json_each(?1) AS reached CROSS JOIN messages INDEXED BY messages_without_id
       ON mailbox_id = reached.value AND fingerprint = ?2 AND message_id IS NULL
     WHERE ${hasDigest("?5")} ORDER BY mailbox_id <> ?4, seq LIMIT 1`,
  ),
  servedById: statement<MessageFolder, [mailboxIds: string, id: string, digest: Uint8Array, userId: string]>(
    `SELECT seq, folder FROM messages WHERE id = ?2 AND mailbox_id IN (SELECT value FROM json_each(?1))
       AND ${hasDigest("?4")}`,
  ),
  folderOf: statement<{ threadSeq: number; folder: Folder }, [seq: number]>(
    "SELECT thread_seq AS threadSeq, folder FROM messages WHERE seq = ?",
  ),
  // The trigger of 0048_uids.sql gives what is written anew another UID.
  renumberDraft: statement<unknown, [seq: number]>(
    "UPDATE messages SET filed_at = filed_at WHERE seq = ? AND kind = 'draft'",
  ),
  flags: statement<{ flags: number }, [seq: number]>("SELECT flags FROM imap_messages WHERE message_seq = ?"),
};

const queries = prepared((db) => ({
  source: db
    .select({ message: messages, thread: threads, headers: messageBodies.headers, text: messageBodies.text })
    .from(messages)
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .where(and(eq(messages.seq, sql.placeholder("seq")), eq(messages.folder, sql.placeholder("folder"))))
    .prepare(),
  thread: db
    .select()
    .from(threads)
    .where(eq(threads.seq, sql.placeholder("seq")))
    .prepare(),
}));

/** A message that was filed, and what undoImapFiling needs. */
export interface FiledInto extends Filed {
  /** The folder that it was in before, if the mailbox had it already. */
  before?: Folder | undefined;
  /** The labels that its conversation got. */
  labelled: readonly string[];
}

/** Files a message into its folder. @throws AppError not_found, forbidden, conflict */
function fileInto(core: MailCore, tx: Tx, caller: Caller, { imapFlags, under, ...carried }: CarriedMessage): FiledInto {
  const { mailboxId, folder } = carried;
  const reach = findReach(tx, caller, mailboxId);
  if (!reach) throw outOfReachError("mailbox");
  requireAccess(reach, "manage");
  const now = core.now();
  const labels = under === undefined ? carried.labels : [...carried.labels, under];
  const byKey = carried.byKey === true || caller.keyId !== undefined;
  const filed = fileTransferred(core, tx, { ...carried, labels, isAlone: true, byKey });
  if (filed.duplicate) {
    const { folder: before, threadSeq = 0 } = statements.folderOf(tx).get(filed.seq) ?? {};
    const had = listThreadLabels(tx, [threadSeq]).get(threadSeq) ?? [];
    if (under === undefined) changeMessages(tx, caller, [filed.seq], { folder }, now);
    else fileMessagesUnderLabel(tx, caller, [filed.seq], { label: under, leaves: false }, now);
    // An app that saves a draft anew deletes the UID that it had.
    if (before === folder) statements.renumberDraft(tx).run(filed.seq);
    const isNew = under !== undefined && !had.some((label) => labelKey(label) === labelKey(under));
    return { ...filed, before, labelled: isNew ? [under] : [] };
  }
  addJournalEntry(tx, caller, { ids: [filed.threadId], changes: 1 }, now);
  if (imapFlags !== 0) setImapFlagsInAllFolders(tx, [filed.seq], { add: imapFlags, remove: 0 });
  return filed;
}

/** A message that a mail app appended. */
export interface Appended extends CarriedMessage {
  /** SHA-256 of its octets. */
  digest: Uint8Array;
  /** Message.id, if the octets name it (octets.ts). */
  id: string | undefined;
}

/**
 * Files what an app appends. Octets that it got here are that message, whatever is parsed of them. @throws AppError not_found,
 * forbidden, conflict
 */
export function fileAppended(core: MailCore, tx: Tx, caller: Caller, { digest, id, ...carried }: Appended): FiledInto {
  const { userId } = caller;
  const { messageId, fingerprint } = carried.message;
  const readable = [...findReachableMailboxes(tx, caller).values()].flatMap(({ mailbox, access }) =>
    access.read ? mailbox.id : [],
  );
  const among = JSON.stringify(readable);
  const served =
    messageId === undefined
      ? (statements.servedByContent(tx).get(among, fingerprint, digest, carried.mailboxId, userId) ??
        (id !== undefined && statements.servedById(tx).get(among, id, digest, userId)))
      : statements.served(tx).get(among, messageId, digest, carried.mailboxId, userId);
  const found = served && queries(tx).source.get(served);
  // What is saved as a draft is one of its own, whatever it was made of.
  if (!found || (found.message.kind === "draft") !== (carried.kind === "draft"))
    return fileInto(core, tx, caller, carried);
  requireMovable(tx, caller, [found.message.seq], carried.folder, "read");
  const identity = carriedIdentity(found, carried.message);
  // Within a mailbox, apps move mail and append what is theirs; from one into another they append what they fetched.
  const byKey = identity.byKey && found.message.mailboxId !== carried.mailboxId;
  return fileInto(core, tx, caller, { ...carried, ...identity, byKey });
}

/** Undoes a filing: the message goes, or back to the folder that it was in. `now`: epoch ms. @throws AppError conflict */
export function undoImapFiling(tx: Tx, caller: Caller, { seq, before, labelled }: FiledInto, now: number): void {
  const threadSeq = statements.folderOf(tx).get(seq)?.threadSeq;
  const thread = threadSeq === undefined ? undefined : queries(tx).thread.get({ seq: threadSeq });
  if (!thread) return;
  requireNotHeld(tx, thread);
  if (labelled.length > 0) {
    const present = listThreadLabels(tx, [thread.seq]).get(thread.seq) ?? [];
    writeLabels(tx, thread.seq, patchedLabels(present, { removeLabels: labelled }));
  }
  if (before !== undefined) {
    changeMessages(tx, caller, [seq], { folder: before }, now);
    return;
  }
  deleteMessages(tx, thread, [seq]);
  addJournalEntry(tx, caller, { ids: [thread.id], changes: 1 }, now);
}

/*
 * A mail app that sends through this server also appends what it sent to Sent, before or after. Sent has it once, as the
 * queue knows it.
 */

/**
 * The message that was sent from a mailbox with that Message-ID. `seq` (messages.seq) is absent while the message waits for
 * approval. Undefined if there is no such message.
 */
export function findSentByMessageId(
  tx: Tx,
  mailboxId: string,
  messageId: string | undefined,
): { seq?: number } | undefined {
  if (messageId === undefined) return undefined;
  const sent = statements.sent(tx).get(mailboxId, messageId);
  if (sent) return sent;
  return heldCopies(tx, mailboxId, messageId, 0).length > 0 ? {} : undefined;
}

/** A message that is being sent. */
export interface Sending {
  mailboxId: string;
  messageId: string | undefined;
  sentBy: string;
  /** A key sends it, which removes nothing that a person appended. */
  byKey: boolean;
  /** Epoch ms. */
  now: number;
}

/** How long before it is sent an app appends a message. */
const APPENDED_MS = 3_600_000;

/** Removes the copy of a message that an app has appended just before it sends it. */
export function dropAppended(tx: Tx, { mailboxId, messageId, sentBy, byKey, now }: Sending): void {
  if (messageId === undefined) return;
  for (const { seq, threadSeq } of statements
    .appended(tx)
    .all(mailboxId, messageId, sentBy, now - APPENDED_MS, byKey ? 1 : 0)) {
    const thread = queries(tx).thread.get({ seq: threadSeq });
    if (thread) deleteMessages(tx, thread, [seq]);
  }
}

/**
 * The octets of a message (messages.seq) of a folder, or its file if none were kept, for carryMessage alone: they tell its Bcc.
 * Undefined if it is gone.
 */
export async function fileToCarry(reader: Reader, seq: number, folder: Folder): Promise<Uint8Array | undefined> {
  const found = queries(reader.db).source.get({ seq, folder });
  if (!found) return undefined;
  return (
    (await readKeptOctets(reader, seq, true)) ??
    composeStoredMessage(reader, { ...found.message, text: found.text }, found.message.bcc)
  );
}

/** Where a message goes. */
export interface Carrying {
  /** messages.seq and the folder that it is in. */
  seq: number;
  from: Folder;
  /** Result of fileToCarry, prepared. */
  message: PreparedMessage;
  to: { mailboxId: string; address: string; folder: Folder; label?: string | undefined };
  /** The message leaves the mailbox that it is in. */
  moves: boolean;
}

/**
 * Files a message into another mailbox with its state; returns it there, or undefined if it is gone. @throws AppError
 * not_found, forbidden, conflict
 */
export function carryMessage(
  core: MailCore,
  tx: Tx,
  caller: Caller,
  { seq, from, message, to, moves }: Carrying,
): FiledInto | undefined {
  const found = queries(tx).source.get({ seq, folder: from });
  if (!found) return undefined;
  const { message: row, thread } = found;
  requireMovable(tx, caller, [seq], to.folder, moves ? "manage" : "read");
  const filed = fileInto(core, tx, caller, {
    mailboxId: to.mailboxId,
    ...carriedIdentity(found, message),
    folder: to.folder,
    read: row.read,
    starred: row.flagged,
    labels: listThreadLabels(tx, [thread.seq]).get(thread.seq) ?? [],
    receivedOn: to.address,
    receivedAt: row.filedAt,
    // \Deleted is said of the message where it was.
    imapFlags: (statements.flags(tx).get(seq)?.flags ?? 0) & ~IMAP_FLAGS.deleted,
    under: to.label,
  });
  if (moves) {
    const now = core.now();
    // Undo names a conversation that it cannot bring back.
    if (thread.messageCount === 1) {
      noteFieldsSetInThread(tx, caller, thread, [{ field: "folder", before: folderState(thread) }], now);
    }
    deleteMessages(tx, thread, [seq]);
    addJournalEntry(tx, caller, { ids: [thread.id], changes: 1 }, now);
  }
  return filed;
}
