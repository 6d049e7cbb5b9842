/** A conversation's row as it is shown (rules: Thread fields). */
import type { Reach } from "../access/caller.ts";
import type { ThreadRow } from "./threading.ts";
import type { ThreadView } from "./views.ts";

export const threadView = (row: ThreadRow, { mailbox }: Reach, labels: string[]): ThreadView => ({
  id: row.id,
  mailboxId: row.mailboxId,
  mailbox: mailbox.address,
  receivedOn: row.receivedOn,
  subject: row.subject,
  snippet: row.snippet,
  from: row.counterpart,
  participants: row.participants,
  folder: row.folder,
  unread: row.unread,
  starred: row.starred,
  labels,
  lastMessageAt: new Date(row.lastMessageAt).toISOString(),
  ...(row.snoozedUntil === null ? {} : { snoozedUntil: new Date(row.snoozedUntil).toISOString() }),
  hasAttachments: row.hasAttachments,
  messageCount: row.messageCount,
});
