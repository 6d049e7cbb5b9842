/** The folder of a message within the folder of its conversation (contract: Folders). */
import { eq, sql } from "drizzle-orm";
import { type Folder, messages } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";

/** `sent` or `drafts` for what we wrote, else the conversation's; all mail of a trashed or spam conversation says that. */
export function folderOfMessage(kind: "received" | "sent" | "draft", folder: Folder): Folder {
  if (folder === "trash" || folder === "spam" || kind === "received") return folder;
  return kind === "sent" ? "sent" : "drafts";
}

/** Follows a conversation that has moved to `folder`. */
export function moveMessages(tx: Tx, threadSeq: number, folder: Folder): void {
  const inPlace = sql`case ${messages.kind} when 'sent' then ${folderOfMessage("sent", folder)}
    when 'draft' then ${folderOfMessage("draft", folder)} else ${folderOfMessage("received", folder)} end`;
  tx.update(messages).set({ folder: inPlace }).where(eq(messages.threadSeq, threadSeq)).run();
}
