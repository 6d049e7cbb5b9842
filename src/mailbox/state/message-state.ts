/**
 * The folder, read state and flags of a conversation and of its messages, which agree (rules: Folder of a message).
 * Messages follow their conversation's folder until a mail app moves one, which is then apart; the folder of its
 * conversation is derived from then on. A conversation is unread while any of its messages is, and starred while any is
 * flagged.
 *
 * Invariant: a message that is not apart is in the folder that its conversation's implies.
 */

import type { Folder } from "../../store/schema.ts";
import { statement } from "../../store/statement.ts";
import type { Tx } from "../../store/store.ts";

/** folderOfMessage in SQL; the parameters are the results of its three kinds. */
const IMPLIED = "CASE kind WHEN 'sent' THEN ?1 WHEN 'draft' THEN ?2 ELSE ?3 END";
type Implied = [sent: Folder, draft: Folder, received: Folder];
/** The message that stands for its conversation: the newest received one, or the newest. */
const LEADING =
  "(SELECT seq FROM messages WHERE thread_seq = ?1 ORDER BY kind = 'received' DESC, date DESC, seq DESC LIMIT 1)";

const statements = {
  moveFollowing: statement<unknown, [...Implied, threadSeq: number]>(
    `UPDATE messages SET folder = ${IMPLIED} WHERE thread_seq = ?4 AND apart = 0 AND folder <> ${IMPLIED}`,
  ),
  moveWhole: statement<{ seq: number }, [...Implied, threadSeq: number, from: Folder]>(
    `UPDATE messages SET folder = ${IMPLIED}, apart = 0
     WHERE thread_seq = ?4 AND folder NOT IN (${IMPLIED}, ?3) AND (apart = 0 OR folder = ?5 OR ?3 IN ('trash', 'spam'))
     RETURNING seq`,
  ),
  follow: statement<unknown, [...Implied, threadSeq: number, apart: string]>(
    `UPDATE messages SET folder = ${IMPLIED}, apart = 0
     WHERE thread_seq = ?4 AND (apart = 1 OR folder <> ${IMPLIED}) AND seq NOT IN (SELECT value FROM json_each(?5))`,
  ),
  setApart: statement<unknown, [folder: Folder, threadSeq: number, seq: number]>(
    "UPDATE messages SET folder = ?1, apart = 1 WHERE thread_seq = ?2 AND seq = ?3 AND (apart = 0 OR folder <> ?1)",
  ),
  markApart: statement<unknown, [...Implied, threadSeq: number, moved: string]>(
    `UPDATE messages SET apart = 1
     WHERE thread_seq = ?4 AND apart = 0 AND (seq IN (SELECT value FROM json_each(?5)) OR folder <> ${IMPLIED})`,
  ),
  apart: statement<{ seq: number; folder: Folder }, [threadSeq: number]>(
    "SELECT seq, folder FROM messages WHERE thread_seq = ? AND apart = 1 ORDER BY seq",
  ),
  folders: statement<{ kind: StoredKind; folder: Folder }, [threadSeq: number]>(
    "SELECT DISTINCT kind, folder FROM messages WHERE thread_seq = ?",
  ),
  star: statement<unknown, [starred: 0 | 1, threadSeq: number]>("UPDATE threads SET starred = ? WHERE seq = ?"),
  flagLeading: statement<unknown, [threadSeq: number]>(
    `UPDATE messages SET flagged = 1 WHERE seq = ${LEADING}
       AND NOT EXISTS (SELECT 1 FROM messages WHERE thread_seq = ?1 AND flagged = 1)`,
  ),
  unflag: statement<unknown, [threadSeq: number]>(
    "UPDATE messages SET flagged = 0 WHERE thread_seq = ? AND flagged = 1",
  ),
  readMessages: statement<unknown, [threadSeq: number]>(
    "UPDATE messages SET read = 1 WHERE thread_seq = ? AND read = 0",
  ),
  unreadLeading: statement<unknown, [threadSeq: number]>(`UPDATE messages SET read = 0 WHERE seq = ${LEADING}`),
  setThread: statement<unknown, [unread: 0 | 1, threadSeq: number]>("UPDATE threads SET unread = ? WHERE seq = ?"),
  unreadSeqs: statement<{ seq: number }, [threadSeq: number]>(
    "SELECT seq FROM messages WHERE thread_seq = ? AND read = 0",
  ),
  newest: statement<{ seq: number }, [threadSeq: number]>(
    "SELECT coalesce(max(seq), 0) AS seq FROM messages WHERE thread_seq = ?",
  ),
  putBackMessages: statement<unknown, [unreadSeqs: string, threadSeq: number, newestSeq: number]>(
    `UPDATE messages SET read = seq NOT IN (SELECT value FROM json_each(?)) WHERE thread_seq = ? AND seq <= ?`,
  ),
  putBackThread: statement<unknown, [threadSeq: number]>(
    `UPDATE threads SET unread = EXISTS (SELECT 1 FROM messages WHERE thread_seq = threads.seq AND read = 0) WHERE seq = ?`,
  ),
};

type StoredKind = "received" | "sent" | "draft";

/**
 * The folder that a conversation's implies for a message: outgoing mail is in `sent` or `drafts`, received mail in the
 * conversation's; in trash or spam all of it is.
 */
export function folderOfMessage(kind: StoredKind, folder: Folder): Folder {
  if (folder === "trash" || folder === "spam" || kind === "received") return folder;
  return kind === "sent" ? "sent" : "drafts";
}

const impliedBy = (folder: Folder): Implied => [
  folderOfMessage("sent", folder),
  folderOfMessage("draft", folder),
  folderOfMessage("received", folder),
];

/** Moves the messages that follow their conversation to `folder` with it. */
export const moveFollowingMessages = (tx: Tx, threadSeq: number, folder: Folder): void =>
  void statements.moveFollowing(tx).run(...impliedBy(folder), threadSeq);

/**
 * Moves the messages that are in the folder of their conversation, `from`, to the folder `to`; to trash or spam it moves all
 * messages. Those that it moves follow the conversation again. Returns their messages.seq.
 */
export const moveWholeThread = (tx: Tx, threadSeq: number, from: Folder, to: Folder): number[] =>
  statements
    .moveWhole(tx)
    .all(...impliedBy(to), threadSeq, from)
    .map(({ seq }) => seq);

/** A message (messages.seq) that is apart, and its folder. */
export type Apart = readonly [seq: number, folder: Folder];

export const listApartMessages = (tx: Tx, threadSeq: number): Apart[] =>
  statements
    .apart(tx)
    .all(threadSeq)
    .map(({ seq, folder }) => [seq, folder]);

/** Puts the messages of a conversation where they were: those of `apart` into their folders, the others into `folder`. */
export function putBackMessageFolders(tx: Tx, threadSeq: number, folder: Folder, apart: readonly Apart[]): void {
  const seqs = JSON.stringify(apart.map(([seq]) => seq));
  statements.follow(tx).run(...impliedBy(folder), threadSeq, seqs);
  for (const [seq, own] of apart) statements.setApart(tx).run(own, threadSeq, seq);
}

/**
 * Marks messages as apart: those `moved` (messages.seq), which a mail app put into their folders, and those that their
 * conversation, now in `folder`, left behind.
 */
export const markMessagesApart = (tx: Tx, threadSeq: number, folder: Folder, moved: readonly number[]): void =>
  void statements.markApart(tx).run(...impliedBy(folder), threadSeq, JSON.stringify(moved));

/** The folder of a conversation of which single messages were moved. */
export function deriveThreadFolder(tx: Tx, threadSeq: number): Folder {
  const folders = statements.folders(tx).all(threadSeq);
  const [first] = folders;
  const present = folders.filter(({ folder }) => folder !== "trash" && folder !== "spam");
  // Of discarded mail, what was thrown away on purpose decides.
  if (present.length === 0) return folders.every(({ folder }) => folder === "spam") ? "spam" : "trash";
  if (first?.folder === "drafts" && folders.length === 1) return "drafts";
  if (present.some(({ kind, folder }) => kind === "received" && folder === "inbox")) return "inbox";
  return present.some(({ folder }) => folder === "archive") ? "archive" : "sent";
}

/** Stars a conversation, and flags the message that stands for it unless another is flagged; or unflags all. */
export function setThreadStarred(tx: Tx, threadSeq: number, starred: boolean): void {
  statements.star(tx).run(starred ? 1 : 0, threadSeq);
  if (starred) statements.flagLeading(tx).run(threadSeq);
  else statements.unflag(tx).run(threadSeq);
}

/** Marks every message of the conversation read. */
export function markRead(tx: Tx, threadSeq: number): void {
  statements.readMessages(tx).run(threadSeq);
  statements.setThread(tx).run(0, threadSeq);
}

/** Marks the newest received message unread, or the newest one if none was received. */
export function markUnread(tx: Tx, threadSeq: number): void {
  statements.unreadLeading(tx).run(threadSeq);
  statements.setThread(tx).run(1, threadSeq);
}

/** The unread messages of a conversation at one time. */
export interface ReadState {
  unreadSeqs: readonly number[];
  /** messages.seq of the newest message; 0 if there is none. */
  newestSeq: number;
}

export function loadReadState(tx: Tx, threadSeq: number): ReadState {
  const unread = statements.unreadSeqs(tx).all(threadSeq);
  return {
    unreadSeqs: unread.map(({ seq }) => seq),
    newestSeq: statements.newest(tx).get(threadSeq)?.seq ?? 0,
  };
}

/** Restores the read state of the messages of that time; later ones stay as they are. */
export function putBackReadState(tx: Tx, threadSeq: number, { unreadSeqs, newestSeq }: ReadState): void {
  statements.putBackMessages(tx).run(JSON.stringify(unreadSeqs), threadSeq, newestSeq);
  statements.putBackThread(tx).run(threadSeq);
}
