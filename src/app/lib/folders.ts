/** The folders of a mailbox, the mailbox on the page, and the state of the sidebar that lists them. */
import { Archive, Clock, FileText, Inbox, Layers, OctagonAlert, Send, Star, Trash2 } from "lucide-react";
import { createSharedValue } from "./cell.ts";
import type { MailboxView } from "./mail-views.ts";

export const FOLDERS = [
  { id: "inbox", name: "Inbox", icon: Inbox, empty: "Your inbox is empty." },
  { id: "starred", name: "Starred", icon: Star, empty: "Starred conversations appear here." },
  { id: "snoozed", name: "Snoozed", icon: Clock, empty: "Snoozed conversations appear here until their time." },
  {
    id: "drafts",
    name: "Drafts",
    icon: FileText,
    empty: "Your drafts appear here, and drafts of agents for you to review.",
  },
  { id: "sent", name: "Sent", icon: Send, empty: "Conversations that you started appear here until someone replies." },
  { id: "archive", name: "Archive", icon: Archive, empty: "Archived conversations appear here." },
  { id: "all", name: "All mail", icon: Layers, empty: "No mail yet." },
  { id: "spam", name: "Spam", icon: OctagonAlert, empty: "No spam." },
  { id: "trash", name: "Trash", icon: Trash2, empty: "The trash is empty." },
] as const;

export const findFolderById = (id: string): (typeof FOLDERS)[number] | undefined =>
  FOLDERS.find((folder) => folder.id === id);

/** True while the sidebar is open on a phone. */
const open = createSharedValue(false);

export const openSidebar = (): void => open.set(true);
export const closeSidebar = (): void => open.set(false);
export const useSidebar = open.use;

/** The mailbox to show: the one in the URL, else the person's own, else the first. */
export const chosenMailbox = (mailboxes: readonly MailboxView[], asked: string | undefined): MailboxView | undefined =>
  mailboxes.find(({ id }) => id === asked) ?? mailboxes.find(({ source }) => source === "owner") ?? mailboxes[0];
