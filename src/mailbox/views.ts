/**
 * Mail as it is shown: the resources of the API, field by field, with dates as ISO 8601 and without what does
 * not apply (rules: Resources). operations/schemas.ts describes the same shapes to clients.
 */
import type { Access, Reach } from "../access/caller.ts";
import type { EmailAddress } from "../message/address.ts";
import type { AuthVerdicts, Folder } from "../store/schema.ts";
import type { HighlightView } from "./highlights.ts";

export type Direction = "inbound" | "outbound";

/** rules: Mailbox fields. */
export interface MailboxView {
  id: string;
  address: string;
  displayName: string;
  /** Without catch-alls, which are no addresses (rules: Addresses). */
  aliases: string[];
  source: Reach["source"];
  access: Access;
  unread: number;
}

/** rules: Thread fields. */
export interface ThreadView {
  id: string;
  mailboxId: string;
  mailbox: string;
  receivedOn: string;
  subject: string;
  snippet: string;
  from: EmailAddress;
  participants: EmailAddress[];
  folder: Folder;
  unread: boolean;
  starred: boolean;
  labels: string[];
  lastMessageAt: string;
  snoozedUntil?: string;
  hasAttachments: boolean;
  messageCount: number;
  /** In a list with `q`, and there always: where it was found. */
  highlights?: HighlightView[];
}

/** rules: Thread list fields. */
export interface ThreadListView {
  threads: ThreadView[];
  nextCursor: string | null;
  /** Unread conversations matching the filters, across all pages. */
  unread: number;
  /** The order they are in, when one was asked for. */
  sort?: SearchOrder;
  /** For a `q` that finds nothing: one near it that finds something. */
  suggestion?: string;
  /** Nothing has the words of `q`: those near them that were found instead. */
  nearWords?: string[];
}

/** rules: Thread detail fields. */
export interface ThreadDetailView {
  thread: ThreadView;
  /** Oldest first. */
  messages: MessageView[];
  permissions: Pick<Access, "send" | "manage">;
}

/** rules: Message fields. */
export interface MessageView {
  id: string;
  threadId: string;
  mailboxId: string;
  direction: Direction;
  messageId?: string;
  from: EmailAddress;
  to: EmailAddress[];
  cc: EmailAddress[];
  bcc?: EmailAddress[];
  subject: string;
  date: string;
  read: boolean;
  text: string;
  /** In a conversation too large to be given whole: `text` is this message's beginning, and it alone gives the rest. */
  truncated?: true;
  html?: string;
  attachments: AttachmentView[];
  auth?: AuthVerdicts;
  deliveredAt?: string;
}

/** rules: Message summary fields. */
export interface MessageSummaryView {
  id: string;
  threadId: string;
  mailbox: string;
  folder: Folder;
  direction: Direction;
  from: EmailAddress;
  to: EmailAddress[];
  cc?: EmailAddress[];
  subject: string;
  snippet: string;
  bodyText: string;
  date: string;
  read: boolean;
  headerMessageId?: string;
}

/** rules: Attachment fields. */
export interface AttachmentView {
  id: string;
  filename: string;
  contentType: string;
  size: number;
  inline: boolean;
  contentId?: string;
  /** Path of the download on this server. */
  url: string;
}

/** The bytes of an attachment, for sending as a download. */
export interface AttachmentContent {
  filename: string;
  contentType: string;
  size: number;
  content: Bun.BunFile;
}

/** Folders that a list can be asked for (rules: List filters). */
export const LIST_FOLDERS = [
  "inbox",
  "sent",
  "drafts",
  "archive",
  "spam",
  "trash",
  "starred",
  "snoozed",
  "all",
] as const;
export type ListFolder = (typeof LIST_FOLDERS)[number];

/** Orders of a search: the latest message first, or the best match first. */
export const SEARCH_ORDERS = ["newest", "relevance"] as const;
export type SearchOrder = (typeof SEARCH_ORDERS)[number];

/** What GET /threads and GET /search can be asked (rules: List of conversations, Search operation). */
export interface ThreadFilters {
  /** Mailbox id, address or alias address. */
  mailbox?: string | undefined;
  /** Default: inbox; with `q`, all. */
  folder?: ListFolder | undefined;
  /** True: only unread conversations. */
  unread?: boolean | undefined;
  label?: string | undefined;
  hasAttachments?: boolean | undefined;
  q?: string | undefined;
  /** Default: newest; and always where `q` wants no words. */
  sort?: SearchOrder | undefined;
  cursor?: string | undefined;
  /** 1 to 100. */
  limit: number;
}

/** What GET /messages can be asked, and which messages alone are looked at, by id, when only some are. */
export interface MessageFilters {
  mailbox?: string | undefined;
  folder?: Folder | undefined;
  direction?: Direction | undefined;
  among?: readonly string[] | undefined;
  /** 1 to 100. */
  limit: number;
}

/** Body of PATCH /threads/{id}; at least one field. */
export interface ThreadPatch {
  unread?: boolean | undefined;
  read?: boolean | undefined;
  starred?: boolean | undefined;
  folder?: "inbox" | "archive" | "trash" | "spam" | undefined;
  labels?: string[] | undefined;
  addLabels?: string[] | undefined;
  removeLabels?: string[] | undefined;
}
