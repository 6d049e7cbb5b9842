/** Derives the folder of a message from the folder of its conversation (rules: Folder of a message). */

import type { Folder } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";

/**
 * Outgoing mail is in `sent` or `drafts`, received mail in the conversation's folder; in trash or spam all of it is.
 */
export function folderOfMessage(kind: "received" | "sent" | "draft", folder: Folder): Folder {
  if (folder === "trash" || folder === "spam" || kind === "received") return folder;
  return kind === "sent" ? "sent" : "drafts";
}

const follow = prepared(({ $client: sqlite }) =>
  sqlite.prepare<unknown, [sent: Folder, draft: Folder, received: Folder, threadSeq: number]>(
    `UPDATE messages SET folder = CASE kind WHEN 'sent' THEN ? WHEN 'draft' THEN ? ELSE ? END WHERE thread_seq = ?`,
  ),
);

/** Updates the messages of a conversation that has moved to `folder`. */
export function moveMessages(tx: Tx, threadSeq: number, folder: Folder): void {
  const of = (kind: Parameters<typeof folderOfMessage>[0]) => folderOfMessage(kind, folder);
  follow(tx).run(of("sent"), of("draft"), of("received"), threadSeq);
}
