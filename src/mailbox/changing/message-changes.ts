/**
 * Changes, moves and deletes single messages for a caller, as mail apps do (rules: Folder of a message). Their conversation
 * follows: its folder, read state and star are derived from its messages.
 *
 * Invariant: a refusal comes before the first write of its conversation.
 */
import { isDeepStrictEqual } from "node:util";
import { and, eq, inArray, sql } from "drizzle-orm";
import { type Caller, findReach, outOfReachError, requireAccess } from "../../access/caller.ts";
import { AppError } from "../../base/errors.ts";
import { addJournalEntry } from "../../journal/entries.ts";
import { noteFieldsSetInThread, type Touch } from "../../journal/key-changes.ts";
import { type Folder, messages, threads } from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import type { ThreadRow } from "../filing/threading.ts";
import { assignNewUids, type FlagChange, type ImapFolder, orderUids } from "../imap/uids.ts";
import { deriveThreadFolder, listApartMessages, loadReadState, markMessagesApart } from "../state/message-state.ts";
import { folderTouch, trainingTouch, trainJunkFilterByMove, unscheduleThreadDrafts } from "./change.ts";
import { noteThreadChange } from "./change-feed.ts";
import { requireNotHeld } from "./holds.ts";
import { deleteMessages } from "./removal.ts";
import { labelThreads } from "./threads.ts";

export interface MessageChange {
  folder?: Folder;
  read?: boolean;
  flagged?: boolean;
}

const statements = {
  updateThread: statement<unknown, [threadSeq: number]>(
    `UPDATE threads SET
       unread = EXISTS (SELECT 1 FROM messages WHERE thread_seq = threads.seq AND read = 0),
       starred = EXISTS (SELECT 1 FROM messages WHERE thread_seq = threads.seq AND flagged = 1)
     WHERE seq = ?`,
  ),
};

const queries = prepared((db) => ({
  thread: db
    .select()
    .from(threads)
    .where(eq(threads.seq, sql.placeholder("seq")))
    .prepare(),
  among: db
    .select({ seq: messages.seq, threadSeq: messages.threadSeq, kind: messages.kind, folder: messages.folder })
    .from(messages)
    .where(inArray(messages.seq, sql`(select value from json_each(${sql.placeholder("seqs")}))`))
    .prepare(),
}));

type Found = ReturnType<ReturnType<typeof queries>["among"]["all"]>[number];

/** The given messages that exist, by conversation. @throws AppError not_found for a mailbox out of reach */
function reached(tx: Db, caller: Caller, seqs: readonly number[], needed: "read" | "manage") {
  const found = Map.groupBy(queries(tx).among.all({ seqs: JSON.stringify(seqs) }), ({ threadSeq }) => threadSeq);
  return [...found].map(([seq, given]) => {
    const thread = queries(tx).thread.get({ seq });
    const reach = thread && findReach(tx, caller, thread.mailboxId);
    if (!thread || !reach) throw outOfReachError("message");
    requireAccess(reach, needed);
    return { thread, given };
  });
}

/** @throws AppError conflict: only what we wrote is in `sent`, and a draft is in `drafts` or `trash` */
function requireFolderOfKind({ kind }: Found, folder: Folder): void {
  if (kind === "draft" ? folder === "drafts" || folder === "trash" : folder !== "drafts") {
    if (folder !== "sent" || kind === "sent") return;
  }
  throw new AppError(
    "conflict",
    kind === "draft" ? "A draft can only be moved to trash" : `${folder} does not take it`,
  );
}

function movable(tx: Db, caller: Caller, seqs: readonly number[], folder: Folder, needed: "read" | "manage") {
  const conversations = reached(tx, caller, seqs, needed);
  for (const { thread, given } of conversations) {
    requireNotHeld(tx, thread);
    for (const message of given) requireFolderOfKind(message, folder);
  }
  return conversations;
}

/**
 * Refuses messages (messages.seq) that cannot be in `folder`, of any mailbox, or that wait for a person. `needed`: in the
 * mailbox that they are in. @throws AppError not_found, forbidden, conflict
 */
export const requireMovable = (
  tx: Db,
  caller: Caller,
  seqs: readonly number[],
  folder: Folder,
  needed: "read" | "manage",
): void => void movable(tx, caller, seqs, folder, needed);

/**
 * Changes messages (messages.seq) of a mailbox in reach; those that are gone are left out. The caller bounds their number.
 * They come into a folder in the order given, as IMAP numbers it: conversation by conversation, it would be another. `now`:
 * epoch ms. @throws AppError not_found, forbidden, conflict
 */
export function changeMessages(
  tx: Tx,
  caller: Caller,
  seqs: readonly number[],
  change: MessageChange,
  now: number,
): void {
  const { folder, flagged } = change;
  const needed = folder === undefined && flagged === undefined ? "read" : "manage";
  const conversations =
    folder === undefined ? reached(tx, caller, seqs, needed) : movable(tx, caller, seqs, folder, needed);
  const moved = new Set(
    conversations.flatMap(({ given }) => given.filter((one) => one.folder !== folder)).map(({ seq }) => seq),
  );
  const changed = conversations.filter(({ thread, given }) => changeWithin(tx, caller, thread, given, change, now));
  if (folder !== undefined)
    orderUids(
      tx,
      seqs.filter((seq) => moved.has(seq)),
    );
  if (changed.length > 0) {
    addJournalEntry(tx, caller, { ids: changed.map(({ thread }) => thread.id), changes: changed.length }, now);
  }
}

/** Returns whether anything changed. */
function changeWithin(
  tx: Tx,
  caller: Caller,
  thread: ThreadRow,
  given: readonly Found[],
  { folder, read, flagged }: MessageChange,
  now: number,
): boolean {
  const touches: Touch[] = [];
  const before = { ...thread, apart: listApartMessages(tx, thread.seq), readState: loadReadState(tx, thread.seq) };
  if (folder !== undefined) touches.push(...moveWithin(tx, thread, given, folder, now));
  const set = { ...(read !== undefined && { read }), ...(flagged !== undefined && { flagged }) };
  if (Object.keys(set).length > 0) {
    const seqs = given.map(({ seq }) => seq);
    const differs = [
      ...(read === undefined ? [] : [sql`${messages.read} <> ${read}`]),
      ...(flagged === undefined ? [] : [sql`${messages.flagged} <> ${flagged}`]),
    ];
    tx.update(messages)
      .set(set)
      .where(and(inArray(messages.seq, seqs), sql`(${sql.join(differs, sql` or `)})`))
      .run();
  }
  statements.updateThread(tx).run(thread.seq);
  const present = queries(tx).thread.get({ seq: thread.seq }) ?? thread;
  const after = { ...present, apart: listApartMessages(tx, thread.seq), readState: loadReadState(tx, thread.seq) };
  if (folder !== undefined) touches.push(folderTouch(before, after));
  if (flagged !== undefined) {
    touches.push({ field: "starred", ...(before.starred !== after.starred && { before: before.starred }) });
  }
  if (read !== undefined) {
    const isRead = !isDeepStrictEqual(before.readState, after.readState);
    touches.push({ field: "unread", ...(isRead && { before: before.readState }) });
  }
  noteFieldsSetInThread(tx, caller, thread, touches, now);
  noteThreadChange(tx, thread);
  return touches.some((touch) => touch.before !== undefined);
}

/** Returns what the move taught. */
function moveWithin(tx: Tx, thread: ThreadRow, given: readonly Found[], folder: Folder, now: number): Touch[] {
  const lessons = { relearned: [], taught: [] } as ReturnType<typeof trainJunkFilterByMove>;
  for (const [from, moved] of Map.groupBy(given, (one) => one.folder)) {
    if (from === folder) continue;
    const seqs = moved.map(({ seq }) => seq);
    const learned = trainJunkFilterByMove(tx, thread, { from, to: folder }, now, seqs);
    lessons.relearned = [...lessons.relearned, ...learned.relearned];
    lessons.taught = [...lessons.taught, ...learned.taught];
    tx.update(messages).set({ folder }).where(inArray(messages.seq, seqs)).run();
  }
  if (folder === "trash") unscheduleThreadDrafts(tx, thread.seq);
  const derived = deriveThreadFolder(tx, thread.seq);
  // Like a move of the whole, it ends a snooze: the conversation left the inbox, or a message was put there.
  const wakes = derived !== thread.folder || folder === "inbox";
  tx.update(threads)
    .set({ folder: derived, ...(wakes && { snoozedUntil: null }) })
    .where(eq(threads.seq, thread.seq))
    .run();
  const moved = given.filter((one) => one.folder !== folder).map(({ seq }) => seq);
  markMessagesApart(tx, thread.seq, derived, moved);
  return folder === "trash" ? [] : [trainingTouch(folder, lessons)];
}

/**
 * Sets and takes away flags that only IMAP has (bits of IMAP_FLAGS) of messages of a folder. Undo does not take them back.
 * `now`: epoch ms. @throws AppError not_found, forbidden
 */
export function changeImapFlags(
  tx: Tx,
  caller: Caller,
  folder: ImapFolder,
  seqs: readonly number[],
  flags: FlagChange,
  now: number,
): void {
  const ids = reached(tx, caller, seqs, "manage").map(({ thread }) => thread.id);
  if (folder.setFlags(tx, seqs, flags) > 0) addJournalEntry(tx, caller, { ids, changes: ids.length }, now);
}

/**
 * Where a message goes that mail apps put under a label. `leaves`: it is to leave its folder; archived mail and drafts cannot.
 */
export function chooseFolderUnderLabel({ kind, folder }: Pick<Found, "kind" | "folder">, leaves: boolean): Folder {
  if (kind === "draft") return "drafts";
  return leaves || folder === "trash" || folder === "spam" ? "archive" : folder;
}

/**
 * Puts messages (messages.seq) under a label, as mail apps do. With `leaves` they leave their folders; what cannot gets another
 * UID there, so that no app that took it away misses it. Without a label they just leave. The caller bounds their number. `now`:
 * epoch ms. @throws AppError not_found, forbidden, conflict, unprocessable
 */
export function fileMessagesUnderLabel(
  tx: Tx,
  caller: Caller,
  seqs: readonly number[],
  { label, leaves }: { label?: string; leaves: boolean },
  now: number,
): void {
  const conversations = reached(tx, caller, seqs, "manage");
  const among = new Map(conversations.flatMap(({ given }) => given.map((one) => [one.seq, one])));
  const given = seqs.flatMap((seq) => among.get(seq) ?? []);
  const stays = given.filter((one) => chooseFolderUnderLabel(one, leaves) === one.folder);
  const goes = given.filter((one) => chooseFolderUnderLabel(one, leaves) !== one.folder);
  const pickSeqs = (some: readonly Found[]): number[] => some.map(({ seq }) => seq);
  for (const [folder, moved] of Map.groupBy(goes, (one) => chooseFolderUnderLabel(one, leaves))) {
    changeMessages(tx, caller, pickSeqs(moved), { folder }, now);
  }
  const ids = conversations.map(({ thread }) => thread.id);
  if (label !== undefined) labelThreads(tx, caller, ids, { addLabels: [label] }, now);
  if (leaves) assignNewUids(tx, pickSeqs(stays));
}

/**
 * Deletes messages (messages.seq) in trash or spam, and drafts, for good; those that are gone are left out. The caller
 * bounds their number. `now`: epoch ms. @throws AppError not_found, forbidden, conflict
 */
export function expungeMessages(tx: Tx, caller: Caller, seqs: readonly number[], now: number): void {
  const conversations = reached(tx, caller, seqs, "manage");
  for (const { thread, given } of conversations) {
    requireNotHeld(tx, thread);
    if (given.every(({ kind, folder }) => kind === "draft" || folder === "trash" || folder === "spam")) continue;
    throw new AppError("conflict", "Only drafts and mail in trash or spam can be deleted: move it to trash first");
  }
  for (const { thread, given } of conversations) {
    deleteMessages(
      tx,
      thread,
      given.map(({ seq }) => seq),
    );
  }
  const ids = conversations.map(({ thread }) => thread.id);
  if (ids.length > 0) addJournalEntry(tx, caller, { ids, changes: ids.length }, now);
}
