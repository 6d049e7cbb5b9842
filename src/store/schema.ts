/**
 * Every table, one picture. The tables themselves are made by migrations/*.sql; test/store/schema.test.ts holds the two
 * together. Times are epoch milliseconds.
 *
 *   workspaces ─┬─ users ──┬─ api_keys, app_passwords, sessions, access_notices
 *               │          ├─ second_factors ── recovery_codes
 *               ├─ domains ┼─ dkim_keys          grants: a mailbox shared with a user
 *               └─ mailboxes ┬─ addresses        (the mailbox's own, aliases, catch-alls)
 *                            ├─ mailbox_usage
 *                            ├─ sender_verdicts  (spam training)
 *                            ├─ junk_filters ── junk_tokens
 *                            ├─ mailbox_labels   (which labels are in use)
 *                            └─ threads ─┬─ thread_labels, thread_references
 *                                        └─ messages ─┬─ message_bodies, message_judgements, drafts
 *                                                     ├─ attachments ── blobs (files)
 *                                                     └─ message_index  (FTS5)
 *   outbound_messages ─┬─ outbound_contents    what is being sent; without foreign keys to mail, which it outlives
 *                      └─ queue_entries ── queue_domains
 *   suppressions: whom a workspace may not write to.   idempotency_keys: answers to be replayed.
 *   events: the outbox ── webhook_waiting, then webhook_deliveries ── webhook_endpoints (a workspace's).   webhook_cursor: how
 *   far the outbox is read.
 *   thread_changes: what changed last, for open pages to follow; without foreign keys, for it tells of deletions too.
 *   mta_sts_policies: how the domains that mail is sent to want it sent.
 *   trace_steps: what happened to messages on their way.
 *   search_feed, search_changes: what a search engine beside the appliance has yet to be told.
 *   search_backlog: stored mail that message_index has yet to take in.
 *   options: the settings.   greylist: senders of first mail, who wait or have waited.
 *
 * Who writes what: options store/settings.ts · api_keys access/credentials.ts · app_passwords
 * access/app-passwords.ts · second_factors, recovery_codes access/second-factor.ts · sessions access/sessions.ts · access_notices access/notices.ts · threads to message_judgements, drafts and
 * mailbox_usage mailbox/ · message_index search/fts5/fts5.ts · search_backlog search/fts5/backlog.ts · search_feed, search_changes
 * search/meilisearch/feed-rows.ts and a trigger (0014_search.sql) · events and webhook_* events/ · outbound_* and queue_* outbound/queue.ts ·
 * discarded_threads triggers (0013_discarded.sql) and mailbox/retention.ts ·
 * thread_changes and mailbox_labels triggers (0009_reading.sql), so that nothing is forgotten ·
 * suppressions outbound/suppression.ts · greylist inbound/greylist.ts · mta_sts_policies authentication/sts-policies.ts · trace_steps
 * outbound/trace-log.ts · idempotency_keys operations/idempotency.ts · everything about
 * people, domains and mailboxes settings/.
 */
import { sql } from "drizzle-orm";
import {
  blob,
  index,
  integer,
  primaryKey,
  real,
  sqliteTable,
  sqliteView,
  text,
  uniqueIndex,
} from "drizzle-orm/sqlite-core";
import type { EmailAddress } from "../message/address.ts";

/** SPF, DKIM and DMARC verdicts of an inbound message (rules: Message fields). */
export interface AuthVerdicts {
  spf: string;
  dkim: string;
  dmarc: string;
}

export const FOLDERS = ["inbox", "sent", "drafts", "archive", "spam", "trash"] as const;
export type Folder = (typeof FOLDERS)[number];
export const ROLES = ["owner", "admin", "member"] as const;
export type Role = (typeof ROLES)[number];
/** What a key may do with mail; a new server's first key has all of these. */
export const MAIL_SCOPES = ["read", "send", "write"] as const;
export const SCOPES = [...MAIL_SCOPES, "admin"] as const;
export type Scope = (typeof SCOPES)[number];
export const GRANT_ACCESS = ["view", "send", "full"] as const;
export type GrantAccess = (typeof GRANT_ACCESS)[number];

const flag = (name: string) => integer(name, { mode: "boolean" });
const json = <T>(name: string) => text(name, { mode: "json" }).$type<T>();

/** Settings that differ from their default (store/settings.ts). */
export const options = sqliteTable("options", {
  name: text("name").primaryKey(),
  value: text("value").notNull(),
});

export const workspaces = sqliteTable("workspaces", {
  id: text("id").primaryKey(),
  name: text("name").notNull().unique(),
  createdAt: integer("created_at").notNull(),
  /** Why nothing may be sent from it; null while it may. */
  pausedReason: text("paused_reason"),
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
    /** How long what they send from the app can be undone; 0: not at all. */
    undoSeconds: integer("undo_seconds").notNull().default(10),
  },
  (table) => [index("users_by_workspace").on(table.workspaceId)],
);

export const domains = sqliteTable(
  "domains",
  {
    id: text("id").primaryKey(),
    workspaceId: text("workspace_id").notNull(),
    /** A-label form, lower case. Of each name one row a workspace, and one that is verified. */
    name: text("name").notNull(),
    /** Value of the TXT record that proves ownership. */
    ownershipToken: text("ownership_token").notNull(),
    verifiedAt: integer("verified_at"),
    /** It takes mail although it is not verified: it did before that was asked for. Until another workspace verifies it. */
    acceptsUnverified: flag("accepts_unverified").notNull().default(false),
    /** When another workspace verified it; null again once the owners were told. */
    lostAt: integer("lost_at"),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    index("domains_by_workspace").on(table.workspaceId),
    uniqueIndex("domains_by_name").on(table.name, table.workspaceId),
    uniqueIndex("domains_verified").on(table.name).where(sql`verified_at IS NOT NULL`),
  ],
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
    /** Lower case; also in `addresses` as the primary one. Once in a workspace. */
    address: text("address").notNull(),
    name: text("name").notNull(),
    ownerId: text("owner_id"),
    /** Null: the setting storage.mailboxBytes. */
    quotaBytes: integer("quota_bytes"),
    createdAt: integer("created_at").notNull(),
    /** Why nothing may be sent from it; null while it may. */
    pausedReason: text("paused_reason"),
  },
  (table) => [
    index("mailboxes_by_workspace").on(table.workspaceId),
    index("mailboxes_by_owner").on(table.ownerId),
    uniqueIndex("mailboxes_by_address").on(table.address, table.workspaceId),
  ],
);

/**
 * Every address that delivers into a mailbox: its own, its aliases, and `*@domain` for a catch-all. Once a domain of a
 * workspace: whose mail to it is depends on who has verified the domain (mailbox/addresses.ts).
 */
export const addresses = sqliteTable(
  "addresses",
  {
    address: text("address").notNull(),
    mailboxId: text("mailbox_id").notNull(),
    domainId: text("domain_id").notNull(),
    kind: text("kind", { enum: ["primary", "alias", "catch-all"] }).notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.address, table.domainId] }),
    index("addresses_by_mailbox").on(table.mailboxId),
    index("addresses_by_domain").on(table.domainId),
  ],
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

/** Browsers in which somebody is signed in. */
export const sessions = sqliteTable(
  "sessions",
  {
    id: text("id").primaryKey(),
    userId: text("user_id").notNull(),
    /** SHA-256, hex, of the token in the cookie, which has 256 bits of its own. */
    hash: text("hash").notNull().unique(),
    /** As the browser names itself, so that people can tell their sessions apart. */
    userAgent: text("user_agent").notNull(),
    createdAt: integer("created_at").notNull(),
    lastUsedAt: integer("last_used_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    /** Where somebody signed in, as sourceOfAddress gives it. */
    source: text("source").notNull(),
    /** Whether it outlives the browser being closed. */
    kept: flag("kept").notNull(),
    /** When its person last proved again that it is them; null for who has not since signing in. */
    confirmedAt: integer("confirmed_at"),
  },
  (table) => [index("sessions_by_user").on(table.userId), index("sessions_by_expiry").on(table.expiresAt)],
);

/** What people who want one prove themselves with beside their password: a TOTP (RFC 6238). */
export const secondFactors = sqliteTable("second_factors", {
  userId: text("user_id").primaryKey(),
  /** Sealed (access/seal.ts): unlike a password it has to be known to be checked. */
  secret: blob("secret", { mode: "buffer" }).notNull(),
  /** Time step of the last code that was accepted: none of it or before it is again. */
  lastStep: integer("last_step").notNull(),
  createdAt: integer("created_at").notNull(),
});

/** What stands in for a second factor that is lost, each once. */
export const recoveryCodes = sqliteTable(
  "recovery_codes",
  {
    userId: text("user_id").notNull(),
    /** SHA-256, hex: a code has 80 bits of its own. */
    hash: text("hash").notNull(),
  },
  (table) => [primaryKey({ columns: [table.userId, table.hash] })],
);

/** What mail apps sign in with in place of their person's password; only to send. */
export const appPasswords = sqliteTable(
  "app_passwords",
  {
    id: text("id").primaryKey(),
    userId: text("user_id").notNull(),
    name: text("name").notNull(),
    /** SHA-256, hex: it has 100 bits of its own, so a slow hash would add nothing. */
    hash: text("hash").notNull().unique(),
    createdAt: integer("created_at").notNull(),
    lastUsedAt: integer("last_used_at"),
  },
  (table) => [index("app_passwords_by_user").on(table.userId)],
);

export const ACCESS_DEEDS = ["password", "second_factor"] as const;
export const ACCESS_ACTORS = ["self", "admin", "operator"] as const;

/** Mail that is owed to people about their access: what was replaced or reset, by whom, and how much ended with it. */
export const accessNotices = sqliteTable("access_notices", {
  id: integer("id").primaryKey(),
  userId: text("user_id").notNull(),
  deed: text("deed", { enum: ACCESS_DEEDS }).notNull(),
  doneBy: text("done_by", { enum: ACCESS_ACTORS }).notNull(),
  appPasswords: integer("app_passwords").notNull(),
  keys: integer("keys").notNull(),
  createdAt: integer("created_at").notNull(),
});

/** Bytes of mail kept in a mailbox: the sum of its messages' sizes, in step with every filing and deletion. */
export const mailboxUsage = sqliteTable("mailbox_usage", {
  mailboxId: text("mailbox_id").primaryKey(),
  bytes: integer("bytes").notNull(),
});

/** A conversation, with what its list row shows kept ready (rules: Thread fields). */
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

/** Conversations in trash or spam, kept by triggers. */
export const discardedThreads = sqliteTable(
  "discarded_threads",
  {
    threadSeq: integer("thread_seq").primaryKey(),
    /** Null until somebody has looked; then for how long it has been there at least. */
    since: integer("since"),
  },
  (table) => [index("discarded_threads_by_time").on(table.since)],
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

/** The labels in use in a mailbox, and in how many conversations. Kept by triggers on thread_labels. */
export const mailboxLabels = sqliteTable(
  "mailbox_labels",
  {
    mailboxId: text("mailbox_id").notNull(),
    labelKey: text("label_key").notNull(),
    label: text("label").notNull(),
    threads: integer("threads").notNull(),
  },
  (table) => [primaryKey({ columns: [table.mailboxId, table.labelKey] })],
);

/** The latest change of each conversation, the newest 20,000. Kept by triggers; `seq` grows with every change. */
export const threadChanges = sqliteTable("thread_changes", {
  seq: integer("seq").primaryKey({ autoIncrement: true }),
  threadSeq: integer("thread_seq").notNull().unique(),
  threadId: text("thread_id").notNull(),
  mailboxId: text("mailbox_id").notNull(),
});

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
     * threads.seq * MESSAGES_PER_THREAD + ordinal, from 0: the messages of a conversation lie side by side on disk, and
     * the conversation of a message is known without asking another table.
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
    /** With the date, for search/fts5/fts5.ts to look up the dates of hits without their rows. */
    index("messages_by_thread").on(table.threadSeq, table.seq, table.date),
    index("messages_by_date").on(table.mailboxId, table.date, table.seq, table.kind),
    index("messages_by_folder").on(table.mailboxId, table.folder, table.date, table.seq, table.kind),
    index("messages_by_message_id").on(table.mailboxId, table.messageId),
    /** For mail that is imported: a message without a Message-ID is known by its content. */
    index("messages_without_id").on(table.mailboxId, table.fingerprint).where(sql`${table.messageId} is null`),
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
  /** What its reader sees of the HTML, as text (message/seen.ts), zstd; null where that is `text`. */
  seenText: blob("seen_text", { mode: "buffer" }),
  /** Characters of the HTML that its reader does not see. */
  seenHidden: integer("seen_hidden").notNull().default(0),
  /** Version of what counts as seen; 0 where that was not found out. */
  seenVersion: integer("seen_version").notNull().default(0),
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

export const SENDER_VERDICTS = ["spam", "forgiven", "answered"] as const;

/** What a mailbox has learned of a sender (lower-case address). */
export const senderVerdicts = sqliteTable(
  "sender_verdicts",
  {
    mailboxId: text("mailbox_id").notNull(),
    sender: text("sender").notNull(),
    /** Learned of mail that failed DMARC, and so is not the sender's own. */
    spoofed: flag("spoofed").notNull(),
    verdict: text("verdict", { enum: SENDER_VERDICTS }).notNull(),
    trainedAt: integer("trained_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.mailboxId, table.sender, table.spoofed] })],
);

/** The junk filter of a mailbox: how many messages of either kind it was trained with. */
export const junkFilters = sqliteTable("junk_filters", {
  seq: integer("seq").primaryKey(),
  mailboxId: text("mailbox_id").notNull().unique(),
  spam: integer("spam").notNull(),
  ham: integer("ham").notNull(),
});

/** In how many of them a token stood. */
export const junkTokens = sqliteTable(
  "junk_tokens",
  {
    filterSeq: integer("filter_seq").notNull(),
    /** XXH32 of the token, signed. */
    token: integer("token").notNull(),
    spam: integer("spam").notNull(),
    ham: integer("ham").notNull(),
  },
  (table) => [primaryKey({ columns: [table.filterSeq, table.token] })],
);

/** A token and how likely a message with it is spam in this mailbox, 0 to 1. */
export interface JunkClue {
  token: string;
  probability: number;
}

/** `sender`: trained as spam. `arrival`: for a reason of the arrival, such as DMARC. `junk`: the score. */
export const FILED_FOR = ["sender", "arrival", "junk"] as const;
export const JUNK_KINDS = ["spam", "ham"] as const;

/** What was thought of a message when it came, and what its mailbox was taught by it. Messages without either have none. */
export const messageJudgements = sqliteTable("message_judgements", {
  messageSeq: integer("message_seq").primaryKey(),
  /** Why it was filed to spam; null when it was not. */
  filedFor: text("filed_for", { enum: FILED_FOR }),
  /** How much it is like the mailbox's junk, 0 to 1; null while the filter has no opinion. */
  score: real("score"),
  /** What the score comes from, the strongest first. */
  clues: json<JunkClue[]>("clues"),
  /** What the filter was trained with it as; null when it was not. */
  trained: text("trained", { enum: JUNK_KINDS }),
});

/** What was typed into the fields of a draft and is no address yet. */
export type Unfinished = Record<RecipientField, string>;

/** The API key that a draft was made with, and whose it was. */
export interface DraftAgent {
  /** Name of the key. */
  key: string;
  /** Name of the person. */
  person: string;
}

/** What a draft is beside a message (messages.kind `draft`). */
export const drafts = sqliteTable(
  "drafts",
  {
    messageSeq: integer("message_seq").primaryKey(),
    /** Counts the changes: who would save over one that they have not seen is told. */
    revision: integer("revision").notNull(),
    /** threads.seq of the conversation that it answers. */
    answers: integer("answers"),
    unfinished: json<Unfinished>("unfinished").notNull(),
    /** Null for what a person began in the app. */
    agent: json<DraftAgent>("agent"),
    /** When it is to be sent; null for one that waits for somebody to press Send. */
    dueAt: integer("due_at"),
    /** User who pressed Send. */
    dueBy: text("due_by"),
    /** Why it was not sent when it was due; for people. */
    refusal: text("refusal"),
  },
  (table) => [
    index("drafts_by_answered").on(table.answers).where(sql`answers IS NOT NULL`),
    index("drafts_due").on(table.dueAt).where(sql`due_at IS NOT NULL`),
  ],
);

/** Events as they happened, written in the transaction of their cause (rules: Events). */
export const events = sqliteTable(
  "events",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    id: text("id").notNull().unique(),
    workspaceId: text("workspace_id").notNull(),
    event: text("event").notNull(),
    createdAt: integer("created_at").notNull(),
    data: json<Record<string, unknown>>("data").notNull(),
    /** messages.id of what it is about. */
    emailId: text("email_id"),
  },
  (table) => [index("events_by_email").on(table.emailId).where(sql`email_id IS NOT NULL`)],
);

export const TRACE_STEPS = ["received", "refused", "attempted"] as const;
export type TraceStep = (typeof TRACE_STEPS)[number];

/** What happened to a message on its way, where no other row says it. */
export const traceSteps = sqliteTable(
  "trace_steps",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    at: integer("at").notNull(),
    /** Its Message-ID with the angle brackets, or where it has none, messages.id. */
    key: text("key").notNull(),
    step: text("step", { enum: TRACE_STEPS }).notNull(),
    /** Under which the log tells of it. */
    trace: text("trace"),
    /** As outbound/trace-log.ts says. */
    detail: json<Record<string, unknown>>("detail").notNull(),
  },
  (table) => [index("trace_steps_by_key").on(table.key, table.seq)],
);

/** Successful answers to requests with an idempotency key (rules: Idempotency). */
export const idempotencyKeys = sqliteTable(
  "idempotency_keys",
  {
    apiKeyId: text("api_key_id").notNull(),
    key: text("key").notNull(),
    /** SHA-256, hex, of what was asked for: the operation, its path and its body. */
    fingerprint: text("fingerprint").notNull(),
    status: integer("status").notNull(),
    response: json<unknown>("response").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.apiKeyId, table.key] }),
    index("idempotency_keys_by_time").on(table.createdAt),
  ],
);

/** A message that was accepted for sending; kept after it is settled, so that later reports about it can be matched. */
export const outboundMessages = sqliteTable(
  "outbound_messages",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    /** messages.id of the Sent copy. */
    id: text("id").notNull().unique(),
    workspaceId: text("workspace_id").notNull(),
    mailboxId: text("mailbox_id").notNull(),
    /** Address of the mailbox it was sent from, for events. */
    mailbox: text("mailbox").notNull(),
    /** threads.id of the Sent copy. */
    threadId: text("thread_id").notNull(),
    /** Header value with its angle brackets. */
    messageId: text("message_id").notNull(),
    subject: text("subject").notNull(),
    /** Of the From address, A-labels: what warm-up counts for. */
    domain: text("domain").notNull(),
    /** The reverse-path it leaves with, its own, lower case: what a later DSN comes back to. */
    returnPath: text("return_path").notNull().unique(),
    acceptedAt: integer("accepted_at").notNull(),
    recipients: integer("recipients").notNull(),
    /** Of them those that were not at this server when it was accepted. */
    outsideRecipients: integer("outside_recipients").notNull(),
    /** Recipients that the mailbox, and the workspace, ever sent to, those of this message included: for the caps. */
    mailboxTotal: integer("mailbox_total").notNull(),
    workspaceTotal: integer("workspace_total").notNull(),
    /** Written by the server itself: without a Sent copy, without events, and no part of any cap (`recipients` is 0). */
    notice: flag("notice").notNull().default(false),
  },
  (table) => [
    index("outbound_by_mailbox").on(table.mailboxId, table.acceptedAt, table.mailboxTotal, table.recipients),
    index("outbound_by_mailbox_total").on(table.mailboxId, table.mailboxTotal, table.acceptedAt),
    index("outbound_by_workspace").on(table.workspaceId, table.acceptedAt, table.workspaceTotal, table.recipients),
    index("outbound_by_workspace_total").on(table.workspaceId, table.workspaceTotal, table.acceptedAt),
    index("outbound_by_domain").on(table.domain, table.acceptedAt, table.outsideRecipients),
    index("outbound_by_message_id").on(table.messageId),
  ],
);

/** The bytes that are transmitted, signatures included: in the row, or in a blob when large. Gone once all is settled. */
export const outboundContents = sqliteTable(
  "outbound_contents",
  {
    messageSeq: integer("message_seq").primaryKey(),
    size: integer("size").notNull(),
    bytes: blob("bytes", { mode: "buffer" }),
    /** Name of the blob. */
    blob: text("blob"),
  },
  (table) => [index("outbound_contents_by_blob").on(table.blob).where(sql`blob IS NOT NULL`)],
);

export const QUEUE_STATES = ["waiting", "held", "delivered", "bounced", "cancelled"] as const;
export type QueueState = (typeof QUEUE_STATES)[number];

/** Where the domain of a recipient waits for its turn (outbound/relay.ts). */
export const QUEUE_LINES = ["open", "new", "slow"] as const;
export type QueueLine = (typeof QUEUE_LINES)[number];

/** The header field that a recipient stands in, or `bcc`. */
export const RECIPIENT_FIELDS = ["to", "cc", "bcc"] as const;
export type RecipientField = (typeof RECIPIENT_FIELDS)[number];

/** One recipient of an outbound message, and what became of it. */
export const queueEntries = sqliteTable(
  "queue_entries",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    id: text("id").notNull().unique(),
    messageSeq: integer("message_seq").notNull(),
    /** As in RCPT TO: the local part as written, the domain in A-labels. */
    recipient: text("recipient").notNull(),
    name: text("name"),
    field: text("field", { enum: RECIPIENT_FIELDS }).notNull(),
    /** Of the recipient. */
    domain: text("domain").notNull(),
    /** `waiting` for its next attempt; `held`, in the demo, until it is retried by hand; the others are settled. */
    state: text("state", { enum: QUEUE_STATES }).notNull(),
    /** While waiting: when it is next attempted; while leased: when the lease ends. */
    dueAt: integer("due_at"),
    /** An attempt is under way. */
    leased: flag("leased").notNull().default(false),
    /** Attempts that have ended. */
    attempts: integer("attempts").notNull().default(0),
    /** Last reply or failure, for people. */
    reply: text("reply"),
    settledAt: integer("settled_at"),
    /** When the recipient reported it as spam. */
    complainedAt: integer("complained_at"),
    /** Host that accepted it, lower case: an MX of the domain or the smarthost; null for what is delivered here. */
    acceptedBy: text("accepted_by"),
  },
  (table) => [
    index("queue_entries_by_message").on(table.messageSeq),
    index("queue_entries_due").on(table.domain, table.dueAt).where(sql`state = 'waiting'`),
    index("queue_entries_unsettled").on(table.state, table.seq).where(sql`state IN ('waiting', 'held')`),
  ],
);

/**
 * Domains with waiting entries. `dueAt` is when the earliest of them is due, or before: so the next one to attempt is
 * found without reading the entries of a domain that is busy.
 */
export const queueDomains = sqliteTable(
  "queue_domains",
  {
    domain: text("domain").primaryKey(),
    dueAt: integer("due_at").notNull(),
    /** Every domain begins in `open`; in another it is out of the way of the rest, until there is a place for its like. */
    line: text("line", { enum: QUEUE_LINES }).notNull().default("open"),
  },
  (table) => [index("queue_domains_by_line").on(table.line, table.dueAt)],
);

/** Addresses that a workspace may not write to. */
export const suppressions = sqliteTable(
  "suppressions",
  {
    id: text("id").notNull().unique(),
    workspaceId: text("workspace_id").notNull(),
    /** Normalized. */
    address: text("address").notNull(),
    /** For people: what the server found, or what the operator wrote. */
    reason: text("reason").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.address] })],
);

export const ENDPOINT_STATES = ["active", "disabled", "removed"] as const;
/** What an endpoint's answers have been like lately: how many attempts it may have at once (events/courses.ts). */
export const PACES = ["unproven", "proven", "slow", "failing"] as const;
export type Pace = (typeof PACES)[number];

/** A URL of a workspace's choosing that is told of the chosen events. */
export const webhookEndpoints = sqliteTable(
  "webhook_endpoints",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    id: text("id").notNull().unique(),
    workspaceId: text("workspace_id").notNull(),
    url: text("url").notNull(),
    /** Names of the kinds chosen. */
    events: json<string[]>("events").notNull(),
    /** `whsec_` and base64. */
    secret: text("secret").notNull(),
    /** The one before, while both are good. */
    previousSecret: text("previous_secret"),
    /** When the overlap ends. */
    previousUntil: integer("previous_until"),
    /** `removed`: for everybody gone; the row goes once its deliveries have. */
    state: text("state", { enum: ENDPOINT_STATES }).notNull(),
    createdAt: integer("created_at").notNull(),
    disabledAt: integer("disabled_at"),
    /** Deliveries in a row that came to nothing. */
    exhausted: integer("exhausted").notNull().default(0),
    pace: text("pace", { enum: PACES }).notNull(),
    /** events.seq: it is told of later ones only. */
    afterEvent: integer("after_event").notNull(),
    /** webhook_deliveries.seq: what was waiting up to here when it was disabled is not attempted again. */
    voidThrough: integer("void_through").notNull().default(0),
    /** Deliveries of it have to be failed, or, when it is removed, deleted. */
    sweeping: flag("sweeping").notNull().default(false),
    /** The admins have to be mailed that it is disabled. */
    telling: flag("telling").notNull().default(false),
    /** When the earliest of its deliveries is due, or before; null when none is. */
    dueAt: integer("due_at"),
  },
  (table) => [
    index("webhook_endpoints_by_workspace").on(table.workspaceId, table.seq),
    index("webhook_endpoints_due").on(table.dueAt, table.seq).where(sql`due_at IS NOT NULL`),
    index("webhook_endpoints_sweeping").on(table.seq).where(sql`sweeping = 1`),
    index("webhook_endpoints_telling").on(table.seq).where(sql`telling = 1`),
  ],
);

/** rules: Webhook delivery states. */
export const DELIVERY_STATES = ["pending", "retrying", "delivered", "failed"] as const;
export type DeliveryState = (typeof DELIVERY_STATES)[number];

/** What befalls a delivery. */
const deliveryColumns = () => ({
  seq: integer("seq").primaryKey({ autoIncrement: true }),
  endpointSeq: integer("endpoint_seq").notNull(),
  /** Null for a test. */
  eventSeq: integer("event_seq"),
  /** `delivered` once it was; a replay that fails does not undo it. */
  state: text("state", { enum: DELIVERY_STATES }).notNull(),
  /** Attempts that have ended, replays too. */
  attempts: integer("attempts").notNull().default(0),
  /** When it is next attempted; while leased, when the lease ends. Also set for a replay of what is finished. */
  dueAt: integer("due_at"),
  /** An attempt is under way, or about to be. */
  leased: flag("leased").notNull().default(false),
  /** HTTP status of the last answer. */
  status: integer("status"),
  /** The start of the last answer. */
  response: text("response"),
  /** Why there was no answer, or none that will do; for people. */
  error: text("error"),
  createdAt: integer("created_at").notNull(),
  /** When it was last settled. */
  finishedAt: integer("finished_at"),
});

/** A delivery with all that tells of it. */
const wholeDeliveryColumns = () => ({
  ...deliveryColumns(),
  id: text("id").notNull(),
  eventId: text("event_id").notNull(),
  event: text("event").notNull(),
  /** Of a test: the body. */
  sample: text("sample"),
});

/** One event on its way to one endpoint, once an attempt has ended; afterwards the log of it. Tests from the beginning. */
export const webhookDeliveries = sqliteTable(
  "webhook_deliveries",
  {
    ...deliveryColumns(),
    /** Of a test, and from before ids were made of the event's and the endpoint's. */
    id: text("id"),
    /** Of a test, as event and sample. */
    eventId: text("event_id"),
    event: text("event"),
    /** The body. */
    sample: text("sample"),
  },
  (table) => [
    uniqueIndex("webhook_deliveries_by_id").on(table.id).where(sql`id IS NOT NULL`),
    index("webhook_deliveries_by_endpoint").on(table.endpointSeq, table.seq),
    index("webhook_deliveries_due").on(table.endpointSeq, table.dueAt).where(sql`due_at IS NOT NULL`),
    index("webhook_deliveries_finished").on(table.finishedAt).where(sql`finished_at IS NOT NULL`),
    index("webhook_deliveries_by_event").on(table.eventSeq).where(sql`event_seq IS NOT NULL`),
  ],
);

/** The rows of webhook_deliveries, whole. */
export const webhookLog = sqliteView("webhook_log", wholeDeliveryColumns()).existing();

/** A run of events on their way to one endpoint, until the first attempts have ended. No foreign key to the events. */
export const webhookWaiting = sqliteTable(
  "webhook_waiting",
  {
    endpointSeq: integer("endpoint_seq").notNull(),
    /** The first delivery's webhook_deliveries.seq, which it keeps; those of the others follow. */
    seq: integer("seq").notNull(),
    /** The first delivery's; those of the others follow. */
    eventSeq: integer("event_seq").notNull(),
    /** They are due since. */
    createdAt: integer("created_at").notNull(),
    /** While attempts are under way, or about to be. */
    leasedUntil: integer("leased_until"),
    /** How many deliveries. */
    length: integer("length").notNull().default(1),
  },
  (table) => [primaryKey({ columns: [table.endpointSeq, table.seq] })],
);

/** What waits, as rows of webhook_log. Also `run`: by it and event_seq it is read in the order of seq. */
export const webhookPending = sqliteView("webhook_pending", wholeDeliveryColumns()).existing();

/** How far the events have been fanned out to the endpoints. One row, with id 1. */
export const webhookCursor = sqliteTable("webhook_cursor", {
  id: integer("id").primaryKey(),
  eventSeq: integer("event_seq").notNull(),
});

/** Who sent first mail to whom, told to come back. */
export const greylist = sqliteTable(
  "greylist",
  {
    /** SHA-256 of network, reverse-path and recipient: bounded, and no list of who writes to whom. */
    key: blob("key", { mode: "buffer" }).primaryKey(),
    firstAt: integer("first_at").notNull(),
    /** When it is forgotten: soon while it has not come back, much later once it has. */
    expiresAt: integer("expires_at").notNull(),
  },
  (table) => [index("greylist_by_expiry").on(table.expiresAt)],
);

/** MTA-STS policies as they were fetched (RFC 8461). */
export const mtaStsPolicies = sqliteTable(
  "mta_sts_policies",
  {
    /** A-labels. */
    domain: text("domain").primaryKey(),
    /** Of the record that was there when it was fetched. */
    id: text("id").notNull(),
    mode: text("mode", { enum: ["none", "testing", "enforce"] }).notNull(),
    mx: json<string[]>("mx").notNull(),
    maxAgeSeconds: integer("max_age_seconds").notNull(),
    fetchedAt: integer("fetched_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
  },
  (table) => [index("mta_sts_policies_by_expiry").on(table.expiresAt)],
);

/** How far Meilisearch is fed. One row, with id 1, once it has been the engine. */
export const searchFeed = sqliteTable("search_feed", {
  id: integer("id").primaryKey(),
  /** It is the engine, and changes are written down. */
  active: flag("active").notNull(),
  /** Name of the index, random. */
  indexUid: text("index_uid").notNull(),
  /** The index before, until it is deleted. */
  replacedUid: text("replaced_uid"),
  /** That of the index's settings (search/meilisearch/documents.ts). */
  settingsVersion: integer("settings_version").notNull(),
  /** messages.seq up to which what was stored before is in it: -1 before it is made, null once all of it is. */
  filledThrough: integer("filled_through"),
  /** Drawn for each batch, and kept in the index beside it: says that the index belongs to this state of the database. */
  mark: text("mark").notNull(),
  /** That of the index before the batch that may be under way. */
  previousMark: text("previous_mark"),
});

/** Stored mail that the search index has yet to take in; no row when it has all. */
export const searchBacklog = sqliteTable("search_backlog", {
  id: integer("id").primaryKey(),
  /** It may lack messages whose messages.seq is below this. */
  belowSeq: integer("below_seq").notNull(),
  /** About how many. */
  messages: integer("messages").notNull(),
});

/** Messages that were added, changed or deleted since it was told of them. */
export const searchChanges = sqliteTable(
  "search_changes",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    messageSeq: integer("message_seq").notNull(),
    /** It would not take the message. */
    refused: flag("refused").notNull().default(false),
  },
  (table) => [index("search_changes_refused").on(table.messageSeq).where(sql`refused = 1`)],
);
