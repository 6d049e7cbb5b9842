/** The folder of a message within the folder of its conversation (rules: Folder of a message). */

import type { Folder } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";

/** `sent` or `drafts` for what we wrote, else the conversation's; all mail of a trashed or spam conversation says that. */
export function folderOfMessage(kind: "received" | "sent" | "draft", folder: Folder): Folder {
  if (folder === "trash" || folder === "spam" || kind === "received") return folder;
  return kind === "sent" ? "sent" : "drafts";
}

const follow = prepared(({ $client: sqlite }) =>
  sqlite.prepare<unknown, [sent: Folder, draft: Folder, received: Folder, threadSeq: number]>(
    `UPDATE messages SET folder = CASE kind WHEN 'sent' THEN ? WHEN 'draft' THEN ? ELSE ? END WHERE thread_seq = ?`,
  ),
);

/** Follows a conversation that has moved to `folder`. */
export function moveMessages(tx: Tx, threadSeq: number, folder: Folder): void {
  const of = (kind: Parameters<typeof folderOfMessage>[0]) => folderOfMessage(kind, folder);
  follow(tx).run(of("sent"), of("draft"), of("received"), threadSeq);
}
