/**
 * The resources of the API, field by field, with dates in ISO 8601 and without inapplicable fields (rules: Resources).
 * operations/schemas.ts describes the same shapes to clients.
 */
import type { Access, Reach } from "../access/caller.ts";
import type { EmailAddress } from "../message/address.ts";
import type { ListUnsubscribe } from "../message/list.ts";
import type { ListFolder } from "../search/operators.ts";
import type { AuthVerdicts, Folder, threads } from "../store/schema.ts";
import type { HeldHeader } from "./held-content.ts";
import type { HighlightView } from "./highlights.ts";

export { LIST_FOLDERS, type ListFolder } from "../search/operators.ts";

export type Direction = "inbound" | "outbound";

/** rules: Mailbox fields. */
export interface MailboxView {
  id: string;
  address: string;
  displayName: string;
  /** Without catch-alls, which are not addresses (rules: Addresses). */
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
  /** Where the search matched; present in every list with `q`. */
  highlights?: HighlightView[];
}

/** The view of a conversation's row. */
export const threadView = (row: typeof threads.$inferSelect, { mailbox }: Reach, labels: string[]): ThreadView => ({
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

/** rules: Thread list fields. */
export interface ThreadListView {
  threads: ThreadView[];
  nextCursor: string | null;
  /** Unread conversations that match the filters, across all pages. */
  unread: number;
  /** The order of the list, if the request named one. */
  sort?: SearchOrder;
  /** For a `q` without results: a similar query that has some. */
  suggestion?: string;
  /** Similar words that were found, if no mail has those of `q`. */
  nearWords?: string[];
  /** For people: terms of `q` that were searched as text though they look like operators, or were not searched, and why. */
  notes?: string[];
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
  /**
   * The conversation is too large to return whole: `text` is the beginning, HTML, long lists of addresses and further
   * attachments are left out, and GET of this message returns all of it.
   */
  truncated?: true;
  html?: string;
  attachments: AttachmentView[];
  auth?: AuthVerdicts;
  deliveredAt?: string;
}

/** rules: Held for approval. */
export interface HeldView extends HeldHeader {
  /** `approved`: it waits for its time. */
  state: "waiting" | "approved" | "rejected";
  reason: string;
  since: string;
  /** The text part says something else than the HTML. */
  textDiffers: boolean;
}

/** What a message has beside its conversation's view of it (rules: Message fields). */
export interface MessageDetailsView {
  folder: Folder;
  mailbox: string;
  inReplyTo?: string;
  references?: string[];
  replyTo?: EmailAddress[];
  listUnsubscribe?: ListUnsubscribe;
  held?: HeldView;
  /** Id of the person who approved a sent message that was held. */
  approvedBy?: string;
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
  /** The list is too large to return whole: `bodyText` is the snippet, and long lists of addresses are left out. */
  truncated?: true;
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

/** The bytes of an attachment, for a download. */
export interface AttachmentContent {
  /** Id of its message. */
  emailId: string;
  filename: string;
  contentType: string;
  size: number;
  content: Bun.BunFile;
}

/** Orders of a search: latest message first, or best match first. */
export const SEARCH_ORDERS = ["newest", "relevance"] as const;
export type SearchOrder = (typeof SEARCH_ORDERS)[number];

/** Parameters of GET /threads and GET /search (rules: List of conversations, Search operation). */
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
  /** Default: newest, also if `q` contains no words. */
  sort?: SearchOrder | undefined;
  cursor?: string | undefined;
  /** 1 to 100. */
  limit: number;
}

/** Parameters of GET /messages. */
export interface MessageFilters {
  mailbox?: string | undefined;
  folder?: Folder | undefined;
  direction?: Direction | undefined;
  /** RFC 5322 Message-ID, with or without its angle brackets. */
  messageId?: string | undefined;
  /** Id of a conversation. */
  threadId?: string | undefined;
  /** Address of the sender. Without one of the three before `among`, only some thousands of messages are looked at. */
  from?: string | undefined;
  /** Ids of messages. */
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
