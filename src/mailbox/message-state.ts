/**
 * The folder and read state of a conversation and of its messages, which agree: the folder of each message follows from
 * the conversation's (rules: Folder of a message), and a conversation is unread while any of its messages is.
 */

import type { Folder } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";

const statements = prepared(({ $client: sqlite }) => ({
  move: sqlite.prepare<unknown, [sent: Folder, draft: Folder, received: Folder, threadSeq: number]>(
    `UPDATE messages SET folder = CASE kind WHEN 'sent' THEN ? WHEN 'draft' THEN ? ELSE ? END WHERE thread_seq = ?`,
  ),
  readMessages: sqlite.prepare<unknown, [threadSeq: number]>(
    "UPDATE messages SET read = 1 WHERE thread_seq = ? AND read = 0",
  ),
  unreadNewest: sqlite.prepare<unknown, [threadSeq: number]>(
    `UPDATE messages SET read = 0 WHERE seq =
       (SELECT seq FROM messages WHERE thread_seq = ? ORDER BY kind = 'received' DESC, date DESC, seq DESC LIMIT 1)`,
  ),
  setThread: sqlite.prepare<unknown, [unread: 0 | 1, threadSeq: number]>("UPDATE threads SET unread = ? WHERE seq = ?"),
  unreadSeqs: sqlite.prepare<{ seq: number }, [threadSeq: number]>(
    "SELECT seq FROM messages WHERE thread_seq = ? AND read = 0",
  ),
  newest: sqlite.prepare<{ seq: number }, [threadSeq: number]>(
    "SELECT coalesce(max(seq), 0) AS seq FROM messages WHERE thread_seq = ?",
  ),
  putBackMessages: sqlite.prepare<unknown, [unreadSeqs: string, threadSeq: number, newestSeq: number]>(
    `UPDATE messages SET read = seq NOT IN (SELECT value FROM json_each(?)) WHERE thread_seq = ? AND seq <= ?`,
  ),
  putBackThread: sqlite.prepare<unknown, [threadSeq: number]>(
    `UPDATE threads SET unread = EXISTS (SELECT 1 FROM messages WHERE thread_seq = threads.seq AND read = 0) WHERE seq = ?`,
  ),
}));

/**
 * Outgoing mail is in `sent` or `drafts`, received mail in the conversation's folder; in trash or spam all of it is.
 */
export function folderOfMessage(kind: "received" | "sent" | "draft", folder: Folder): Folder {
  if (folder === "trash" || folder === "spam" || kind === "received") return folder;
  return kind === "sent" ? "sent" : "drafts";
}

/** Updates the messages of a conversation that has moved to `folder`. */
export function moveMessages(tx: Tx, threadSeq: number, folder: Folder): void {
  const of = (kind: Parameters<typeof folderOfMessage>[0]) => folderOfMessage(kind, folder);
  statements(tx).move.run(of("sent"), of("draft"), of("received"), threadSeq);
}

/** Marks every message of the conversation read. */
export function markRead(tx: Tx, threadSeq: number): void {
  statements(tx).readMessages.run(threadSeq);
  statements(tx).setThread.run(0, threadSeq);
}

/** Marks the newest received message unread, or the newest one if none was received. */
export function markUnread(tx: Tx, threadSeq: number): void {
  statements(tx).unreadNewest.run(threadSeq);
  statements(tx).setThread.run(1, threadSeq);
}

/** The unread messages of a conversation at one time. */
export interface ReadState {
  unreadSeqs: readonly number[];
  /** messages.seq of the newest message; 0 if there is none. */
  newestSeq: number;
}

export function readStateOf(tx: Tx, threadSeq: number): ReadState {
  const unread = statements(tx).unreadSeqs.all(threadSeq);
  return {
    unreadSeqs: unread.map(({ seq }) => seq),
    newestSeq: statements(tx).newest.get(threadSeq)?.seq ?? 0,
  };
}

/** Restores the read state of the messages of that time; later ones stay as they are. */
export function putBackReadState(tx: Tx, threadSeq: number, { unreadSeqs, newestSeq }: ReadState): void {
  statements(tx).putBackMessages.run(JSON.stringify(unreadSeqs), threadSeq, newestSeq);
  statements(tx).putBackThread.run(threadSeq);
}
