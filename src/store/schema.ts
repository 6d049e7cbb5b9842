/**
 * Every table, one picture. The tables themselves are made by migrations/*.sql; test/store/schema.test.ts holds the two
 * together. Times are epoch milliseconds.
 *
 *   workspaces ─┬─ users ──┬─ api_keys
 *               ├─ domains ┼─ dkim_keys          grants: a mailbox shared with a user
 *               └─ mailboxes ┬─ addresses        (the mailbox's own, aliases, catch-alls)
 *                            ├─ mailbox_usage
 *                            ├─ sender_verdicts  (spam training)
 *                            └─ threads ─┬─ thread_labels, thread_references
 *                                        └─ messages ─┬─ message_bodies
 *                                                     ├─ attachments ── blobs (files)
 *                                                     └─ message_index  (FTS5)
 *   events: the outbox.   options: the settings.
 *
 * Who writes what: options store/options.ts · api_keys access/credentials.ts · threads to sender_verdicts, and
 * mailbox_usage mailbox/ · message_index search/fts5.ts · events events/outbox.ts · everything about people, domains and
 * mailboxes settings/.
 */
import { blob, index, integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { EmailAddress } from "../message/address.ts";

/** SPF, DKIM and DMARC verdicts of an inbound message (spec: Message.auth). */
export interface AuthVerdicts {
  spf: string;
  dkim: string;
  dmarc: string;
}

export const FOLDERS = ["inbox", "sent", "drafts", "archive", "spam", "trash"] as const;
export type Folder = (typeof FOLDERS)[number];
export const ROLES = ["owner", "admin", "member"] as const;
export type Role = (typeof ROLES)[number];
export const SCOPES = ["read", "send", "write"] as const;
export type Scope = (typeof SCOPES)[number];
export const GRANT_ACCESS = ["view", "send", "full"] as const;
export type GrantAccess = (typeof GRANT_ACCESS)[number];

const flag = (name: string) => integer(name, { mode: "boolean" });
const json = <T>(name: string) => text(name, { mode: "json" }).$type<T>();

/** Settings that differ from their default (store/options.ts). */
export const options = sqliteTable("options", {
  name: text("name").primaryKey(),
  value: text("value").notNull(),
});

export const workspaces = sqliteTable("workspaces", {
  id: text("id").primaryKey(),
  name: text("name").notNull().unique(),
  createdAt: integer("created_at").notNull(),
});

export const users = sqliteTable(
  "users",
  {
    id: text("id").primaryKey(),
    workspaceId: text("workspace_id").notNull(),
    /** Sign-in name; lower case. */
    email: text("email").notNull().unique(),
    name: text("name").notNull(),
    role: text("role", { enum: ROLES }).notNull(),
    /** argon2id; null for a person without a password, who cannot sign in. */
    passwordHash: text("password_hash"),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [index("users_by_workspace").on(table.workspaceId)],
);

export const domains = sqliteTable(
  "domains",
  {
    id: text("id").primaryKey(),
    workspaceId: text("workspace_id").notNull(),
    /** A-label form, lower case. */
    name: text("name").notNull().unique(),
    /** Value of the TXT record that proves ownership. */
    ownershipToken: text("ownership_token").notNull(),
    verifiedAt: integer("verified_at"),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [index("domains_by_workspace").on(table.workspaceId)],
);

export const dkimKeys = sqliteTable(
  "dkim_keys",
  {
    domainId: text("domain_id").notNull(),
    selector: text("selector").notNull(),
    algorithm: text("algorithm", { enum: ["rsa", "ed25519"] }).notNull(),
    /** PKCS #8, PEM. */
    privateKey: text("private_key").notNull(),
    /** Base64 as in the p= tag of RFC 6376 §3.6.1. */
    publicKey: text("public_key").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.domainId, table.selector] })],
);

export const mailboxes = sqliteTable(
  "mailboxes",
  {
    id: text("id").primaryKey(),
    workspaceId: text("workspace_id").notNull(),
    /** Lower case; also in `addresses` as the primary one. */
    address: text("address").notNull().unique(),
    name: text("name").notNull(),
    ownerId: text("owner_id"),
    /** Null: the setting storage.mailboxBytes. */
    quotaBytes: integer("quota_bytes"),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [index("mailboxes_by_workspace").on(table.workspaceId), index("mailboxes_by_owner").on(table.ownerId)],
);

/** Every address that delivers into a mailbox: its own, its aliases, and `*@domain` for a catch-all. */
export const addresses = sqliteTable(
  "addresses",
  {
    address: text("address").primaryKey(),
    mailboxId: text("mailbox_id").notNull(),
    domainId: text("domain_id").notNull(),
    kind: text("kind", { enum: ["primary", "alias", "catch-all"] }).notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [index("addresses_by_mailbox").on(table.mailboxId), index("addresses_by_domain").on(table.domainId)],
);

export const grants = sqliteTable(
  "grants",
  {
    mailboxId: text("mailbox_id").notNull(),
    userId: text("user_id").notNull(),
    access: text("access", { enum: GRANT_ACCESS }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.mailboxId, table.userId] }), index("grants_by_user").on(table.userId)],
);

export const apiKeys = sqliteTable(
  "api_keys",
  {
    id: text("id").primaryKey(),
    userId: text("user_id").notNull(),
    name: text("name").notNull(),
    /** SHA-256 of the key, hex: the key has 238 bits of its own, so a slow hash would add nothing. */
    hash: text("hash").notNull().unique(),
    /** Its first characters, so that people can tell keys apart. */
    hint: text("hint").notNull(),
    scopes: json<Scope[]>("scopes").notNull(),
    createdAt: integer("created_at").notNull(),
    lastUsedAt: integer("last_used_at"),
    revokedAt: integer("revoked_at"),
  },
  (table) => [index("api_keys_by_user").on(table.userId)],
);

/** Bytes of mail kept in a mailbox: the sum of its messages' sizes, in step with every filing and deletion. */
export const mailboxUsage = sqliteTable("mailbox_usage", {
  mailboxId: text("mailbox_id").primaryKey(),
  bytes: integer("bytes").notNull(),
});

/** A conversation, with what its list row shows kept ready (spec: Thread). */
export const threads = sqliteTable(
  "threads",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    id: text("id").notNull().unique(),
    mailboxId: text("mailbox_id").notNull(),
    folder: text("folder", { enum: FOLDERS }).notNull(),
    /** True while any message of it is unread. */
    unread: flag("unread").notNull(),
    starred: flag("starred").notNull(),
    /** While set, the conversation is listed under `snoozed` and `all`, not `inbox`. */
    snoozedUntil: integer("snoozed_until"),
    lastMessageAt: integer("last_message_at").notNull(),
    hasAttachments: flag("has_attachments").notNull(),
    messageCount: integer("message_count").notNull(),
    /** Of the next message; see messages.seq. */
    nextOrdinal: integer("next_ordinal").notNull(),
    receivedOn: text("received_on").notNull(),
    subject: text("subject").notNull(),
    /** Folded, without reply and forward prefixes: for mailers that drop References. */
    subjectKey: text("subject_key").notNull(),
    snippet: text("snippet").notNull(),
    /** Thread.from: the latest inbound sender, else the first recipient of the latest sent message. */
    counterpart: json<EmailAddress>("counterpart").notNull(),
    /** From, To and Cc of every message; never Bcc. */
    participants: json<EmailAddress[]>("participants").notNull(),
  },
  (table) => [
    // What a page of a list is chosen by lies in the index itself, newest first: no row is read to be left out.
    index("threads_by_folder").on(
      table.mailboxId,
      table.folder,
      table.lastMessageAt,
      table.seq,
      table.snoozedUntil,
      table.hasAttachments,
    ),
    index("threads_by_time").on(table.mailboxId, table.lastMessageAt, table.seq, table.folder, table.hasAttachments),
    index("threads_unread").on(
      table.mailboxId,
      table.folder,
      table.lastMessageAt,
      table.seq,
      table.snoozedUntil,
      table.hasAttachments,
    ),
    index("threads_starred").on(table.mailboxId, table.lastMessageAt, table.seq, table.folder, table.hasAttachments),
    index("threads_snoozed").on(table.snoozedUntil, table.mailboxId),
    index("threads_by_subject").on(table.mailboxId, table.subjectKey, table.lastMessageAt),
  ],
);

export const threadLabels = sqliteTable(
  "thread_labels",
  {
    threadSeq: integer("thread_seq").notNull(),
    /** Case-folded; labels differ only by more than case. */
    labelKey: text("label_key").notNull(),
    label: text("label").notNull(),
    position: integer("position").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.threadSeq, table.labelKey] }),
    index("thread_labels_by_key").on(table.labelKey, table.threadSeq),
  ],
);

/** Every Message-ID known to belong to a conversation: of its messages, and those they refer to, seen or not. */
export const threadReferences = sqliteTable(
  "thread_references",
  {
    mailboxId: text("mailbox_id").notNull(),
    messageId: text("message_id").notNull(),
    threadSeq: integer("thread_seq").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.mailboxId, table.messageId, table.threadSeq] }),
    index("thread_references_by_thread").on(table.threadSeq),
  ],
);

export const messages = sqliteTable(
  "messages",
  {
    /**
     * threads.seq * MESSAGES_PER_THREAD + ordinal: the messages of a conversation lie side by side on disk, and the
     * search index, whose rowid this is, knows the conversation of a hit without asking another table.
     */
    seq: integer("seq").primaryKey(),
    id: text("id").notNull().unique(),
    threadSeq: integer("thread_seq").notNull(),
    mailboxId: text("mailbox_id").notNull(),
    kind: text("kind", { enum: ["received", "sent", "draft"] }).notNull(),
    /** `sent` or `drafts` for what we wrote, else the conversation's; that of a conversation in trash or spam. */
    folder: text("folder", { enum: FOLDERS }).notNull(),
    read: flag("read").notNull(),
    /** The Date header, when it can be read and is not in the future; else the time of filing. */
    date: integer("date").notNull(),
    filedAt: integer("filed_at").notNull(),
    /** Header value with its angle brackets. */
    messageId: text("message_id"),
    inReplyTo: text("in_reply_to"),
    from: json<EmailAddress>("from").notNull(),
    to: json<EmailAddress[]>("to").notNull(),
    cc: json<EmailAddress[]>("cc").notNull(),
    /** Shown to the sender; to another person only their own address. */
    bcc: json<EmailAddress[]>("bcc").notNull(),
    replyTo: json<EmailAddress[]>("reply_to").notNull(),
    subject: text("subject").notNull(),
    snippet: text("snippet").notNull(),
    /** The mailbox address or alias it arrived on, without a tag; null for what we wrote. */
    receivedOn: text("received_on"),
    /** User who sent it. */
    sentBy: text("sent_by"),
    /** Bytes as received. */
    size: integer("size").notNull(),
    /** SHA-256, hex, of the content without trace and authentication headers: tells a retry from another message. */
    fingerprint: text("fingerprint").notNull(),
    hasAttachments: flag("has_attachments").notNull(),
    auth: json<AuthVerdicts>("auth"),
    deliveredAt: integer("delivered_at"),
  },
  (table) => [
    /** With the date, for search/fts5.ts to look up the dates of hits without their rows. */
    index("messages_by_thread").on(table.threadSeq, table.seq, table.date),
    index("messages_by_date").on(table.mailboxId, table.date, table.seq, table.kind),
    index("messages_by_folder").on(table.mailboxId, table.folder, table.date, table.seq, table.kind),
    index("messages_by_message_id").on(table.mailboxId, table.messageId),
  ],
);

/** Most messages in one conversation; the next one starts another. */
export const MESSAGES_PER_THREAD = 65_536;

export const messageBodies = sqliteTable("message_bodies", {
  messageSeq: integer("message_seq").primaryKey(),
  /** [name, unfolded value] in order, as received, without trace, authentication and MIME structure headers. */
  headers: json<[name: string, value: string][]>("headers").notNull(),
  text: text("text").notNull(),
  /** Sanitised; what is served. */
  html: text("html"),
  /** As received, zstd: what the raw file is rebuilt from, and what a newer sanitiser starts from. */
  htmlSource: blob("html_source", { mode: "buffer" }),
  /** Version of the policy that made `html` (message/sanitize.ts). */
  sanitizer: integer("sanitizer").notNull(),
});

export const attachments = sqliteTable(
  "attachments",
  {
    id: text("id").primaryKey(),
    messageSeq: integer("message_seq").notNull(),
    position: integer("position").notNull(),
    filename: text("filename").notNull(),
    contentType: text("content_type").notNull(),
    size: integer("size").notNull(),
    inline: flag("inline").notNull(),
    contentId: text("content_id"),
    /** Name of the blob: SHA-256 of its bytes, hex. */
    blob: text("blob").notNull(),
  },
  (table) => [
    index("attachments_by_message").on(table.messageSeq, table.position),
    index("attachments_by_blob").on(table.blob),
  ],
);

/** What a mailbox has learned of a sender (lower-case address). */
export const senderVerdicts = sqliteTable(
  "sender_verdicts",
  {
    mailboxId: text("mailbox_id").notNull(),
    sender: text("sender").notNull(),
    verdict: text("verdict", { enum: ["spam", "forgiven"] }).notNull(),
    trainedAt: integer("trained_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.mailboxId, table.sender] })],
);

/** Events as they happened, written in the transaction of their cause (spec: Events). */
export const events = sqliteTable("events", {
  seq: integer("seq").primaryKey({ autoIncrement: true }),
  id: text("id").notNull().unique(),
  workspaceId: text("workspace_id").notNull(),
  event: text("event").notNull(),
  createdAt: integer("created_at").notNull(),
  data: json<Record<string, unknown>>("data").notNull(),
});
