/**
 * Every table, one picture. The tables themselves are made by migrations/*.sql; test/store/schema.test.ts compares
 * the two. Times are epoch milliseconds.
 *
 *   workspaces ─┬─ workspace_usage
 *               ├─ users ──┬─ api_keys, app_passwords, sessions, password_links, access_notices
 *               │          │     └─ oauth_grants ── oauth_tokens
 *               │          ├─ image_senders    (whose remote images they always see)
 *               │          ├─ second_factors ── recovery_codes
 *               ├─ domains ┼─ dkim_keys          grants: a mailbox shared with a user
 *               └─ mailboxes ┬─ addresses        (the mailbox's own, aliases, catch-alls)
 *                            ├─ mailbox_usage, known_recipients
 *                            ├─ sender_verdicts  (spam training)
 *                            ├─ junk_filters ── junk_tokens
 *                            ├─ mailbox_labels   (which labels are in use), label_colours
 *                            ├─ mailbox_texts    (signature and templates)
 *                            ├─ mailbox_rules, absences, absence_replies   (what it does with mail that arrives)
 *                            ├─ left_lists, invitation_answers
 *                            └─ threads ─┬─ thread_labels, thread_references
 *                                        └─ messages ─┬─ message_bodies, message_judgements, drafts, holds,
 *                                                     ├─ automatic_mail
 *                                                     ├─ attachments ── blobs (files)
 *                                                     ├─ message_octets ── blobs (of large messages)
 *                                                     ├─ message_index  (FTS5)
 *                                                     └─ imap_messages ── imap_folders ── imap_vanished
 *                                                                     └─ imap_labelled ── imap_labels ── imap_label_vanished
 *   outbound_messages ─┬─ outbound_contents    outgoing mail; without foreign keys to mail, which it outlives
 *                      └─ queue_entries ── queue_domains
 *   suppressions: addresses a workspace must not write to.   idempotency_keys: responses to replay.
 *   events: the outbox ── webhook_deliveries, queue and log ── webhook_endpoints (a workspace's).   webhook_cursor: how far
 *   the outbox is read.
 *   thread_changes: the latest changes, for open pages and programs; without foreign keys, because it includes
 *   deletions.
 *   mta_sts_policies: policies of the domains that mail is sent to.
 *   trace_steps: steps in the delivery of messages.
 *   search_feed, search_changes: data still to be sent to an external search engine.
 *   search_backlog, search_waiting: stored mail that message_index still lacks.
 *   octets_waiting: mail whose octets are still to be made; imap_octets: what mail apps were told of some of it.
 *   seen_renewal: stored HTML that is still to be read with the present rules for visible text.
 *   journal_entries: what keys did ── key_changes: what takes their changes back; without foreign keys, which they outlive.
 *   oauth_clients: programs that registered themselves; a grant outlives its program's registration.
 *   push_keys: the key of this server for Web Push ── push_subscriptions (a session's).
 *   options: the settings.   greylist: first mail that was deferred, or has come back.
 *   known_networks: where wanted mail came from. sign_in_sources: where people signed in.
 *
 * Writers, beside moving/, which writes the rows of a workspace that arrives from another server:
 *
 *   people, domains, mailboxes           admin/; a hash in the place of an imported one: access/credentials.ts
 *   api_keys                             access/credentials.ts
 *   app_passwords                        access/app-passwords.ts
 *   password_links                       access/password-links.ts
 *   sessions                             access/sessions.ts
 *   sign_in_sources                      access/sign-in-sources.ts
 *   second_factors, recovery_codes       access/second-factor.ts
 *   access_notices                       access/access-notices.ts
 *   oauth_clients                        oauth/clients.ts
 *   oauth_grants, oauth_tokens           oauth/grants.ts
 *   threads to message_judgements, drafts, mailbox_usage   mailbox/
 *   mailbox_rules                        mailbox/filing/rules.ts
 *   absences, absence_replies            mailbox/filing/absences.ts
 *   automatic_mail                       mailbox/filing/automatic-requests.ts
 *   mailbox_labels, thread_changes       triggers (0033_changes.sql, 0061_locks.sql), so that no change is missed; the times of
 *                                        changes and their end: mailbox/changing/change-feed.ts, a label's spelling: mailbox/state/labels.ts
 *   workspace_usage                      triggers (0056_workspace_limits.sql)
 *   mailbox_texts                        mailbox/state/texts.ts
 *   label_colours                        mailbox/state/labels.ts
 *   left_lists, image_senders, invitation_answers   mailbox/state/received.ts
 *   discarded_threads                    triggers (0013_discarded.sql) and mailbox/changing/removal.ts
 *   discarded_messages                   triggers (0062_apart.sql) and mailbox/changing/removal.ts
 *   imap_folders, imap_messages, imap_vanished   triggers (0048_uids.sql), mailbox/imap/uids.ts and imap-folders.ts
 *   imap_labels, imap_labelled, imap_label_vanished   mailbox/imap/label-folders.ts; where a label is renamed or removed, labels.ts
 *   octets_waiting, imap_octets          mailbox/reading/missing-octets.ts, and a trigger (0065_octets_waiting.sql)
 *   seen_renewal                         mailbox/reading/renewal.ts
 *   message_index, search_backlog, search_waiting   search/fts5/
 *   search_feed, search_changes          search/meilisearch/ and a trigger (0014_search.sql)
 *   push_*                               push/subscriptions.ts
 *   events, webhook_*                    events/
 *   outbound_*, queue_*                  outbound/queue.ts, outbound/claims.ts
 *   suppressions                         outbound/suppression.ts
 *   known_recipients                     outbound/known-recipients.ts
 *   trace_steps                          outbound/trace-log.ts
 *   greylist                             inbound/greylist.ts
 *   known_networks                       inbound/known.ts
 *   mta_sts_policies                     authentication/
 *   idempotency_keys                     operations/idempotency.ts
 *   journal_entries, key_changes         journal/
 *   options                              store/settings.ts
 */
import { desc, sql } from "drizzle-orm";
import {
  blob,
  customType,
  index,
  integer,
  primaryKey,
  real,
  sqliteTable,
  text,
  uniqueIndex,
} from "drizzle-orm/sqlite-core";
import type { EmailAddress } from "../message/address.ts";
import type { TypeParameters } from "../message/content-type.ts";

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
/** Scopes of a key for mail; a new server's first key has all of them. */
export const MAIL_SCOPES = ["read", "send", "write"] as const;
export const SCOPES = [...MAIL_SCOPES, "admin", "approve"] as const;
/** Restrictions of an API key (rules: Policies). A field that is left out restricts nothing. */
export interface Policy {
  /** Ids and primary addresses. */
  mailboxes?: string[];
  /** Comparable addresses, `@domain`, and words for people that the server finds: see access/policy.ts. */
  recipients?: string[];
  otherwise?: (typeof OTHERWISE)[number];
  send?: (typeof SEND_MODES)[number];
  recipientsPerDay?: number;
  changesPerHour?: number;
  /** date-time */
  expiresAt?: string;
  /** CIDRs. */
  networks?: string[];
  codes?: boolean;
}
export const OTHERWISE = ["refuse", "hold"] as const;
export const SEND_MODES = ["direct", "hold"] as const;

export type Scope = (typeof SCOPES)[number];
export const GRANT_ACCESS = ["view", "send", "full"] as const;
export type GrantAccess = (typeof GRANT_ACCESS)[number];

const flag = (name: string) => integer(name, { mode: "boolean" });
/** Text packed by packText (message/reading.ts); as it is in rows of versions before 0066_packed_html.sql. */
const packedText = customType<{ data: Uint8Array | string }>({ dataType: () => "text" });
const json = <T>(name: string) => text(name, { mode: "json" }).$type<T>();

/** Settings that differ from their default (store/settings.ts). */
export const options = sqliteTable("options", {
  name: text("name").primaryKey(),
  value: text("value").notNull(),
});

export const MOVING = ["out", "in"] as const;

export const workspaces = sqliteTable("workspaces", {
  id: text("id").primaryKey(),
  name: text("name").notNull().unique(),
  createdAt: integer("created_at").notNull(),
  /** Why sending is paused; null if it is not. */
  pausedReason: text("paused_reason"),
  /** Time since which all API keys are paused, also later ones. */
  keysPausedAt: integer("keys_paused_at"),
  /**
   * Set while the workspace is not served here: `out` once it has left for another server, `in` during its import. See moving/.
   */
  moving: text("moving", { enum: MOVING }),
  /** Id of the export with which the workspace left or came. */
  exportId: text("export_id"),
  /** How many mailboxes and bytes it may have; null: as many as it likes. */
  mostMailboxes: integer("most_mailboxes"),
  mostBytes: integer("most_bytes"),
});

/** Bytes of mail in a workspace: the sum of mailbox_usage, which triggers keep; no row before its first mail. */
export const workspaceUsage = sqliteTable("workspace_usage", {
  workspaceId: text("workspace_id").primaryKey(),
  bytes: integer("bytes").notNull(),
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
    /** argon2id, or imported (access/imported-hash.ts); null for a person without a password, who cannot sign in. */
    passwordHash: text("password_hash"),
    createdAt: integer("created_at").notNull(),
    /** How long sending from the app can be undone; 0: not at all. */
    undoSeconds: integer("undo_seconds").notNull().default(10),
    /** True if the person signed in with a password that is shorter than a new one may be; the app asks them to change it. */
    shortPassword: flag("short_password").notNull().default(false),
    /** Mail apps see labels as mailboxes, too. */
    labelFolders: flag("label_folders").notNull().default(false),
    /** Time since which the person is locked out (admin/locks.ts). */
    lockedAt: integer("locked_at"),
  },
  (table) => [index("users_by_workspace").on(table.workspaceId)],
);

export const domains = sqliteTable(
  "domains",
  {
    id: text("id").primaryKey(),
    workspaceId: text("workspace_id").notNull(),
    /** A-labels, lower case. Each workspace has at most one row per name, and at most one row per name is verified. */
    name: text("name").notNull(),
    /** Value of the TXT record that proves ownership. */
    ownershipToken: text("ownership_token").notNull(),
    verifiedAt: integer("verified_at"),
    /**
     * True if the domain receives mail without verification, because it did so before verification existed. This ends once
     * another workspace verifies the domain.
     */
    acceptsUnverified: flag("accepts_unverified").notNull().default(false),
    /** When another workspace verified it; null again once the owners were notified. */
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
    /** Lower case; also in `addresses` as the primary one. Unique in a workspace. */
    address: text("address").notNull(),
    name: text("name").notNull(),
    ownerId: text("owner_id"),
    /** Null: the setting storage.mailboxBytes applies. */
    quotaBytes: integer("quota_bytes"),
    createdAt: integer("created_at").notNull(),
    /** Why sending is paused; null if it is not. */
    pausedReason: text("paused_reason"),
    /** Time from which the mailbox takes no mail and sends none; null: never. Epoch ms. */
    expiresAt: integer("expires_at"),
    /** The key that set this end, and when; null: a person did. */
    endedBy: text("ended_by"),
    endedAt: integer("ended_at"),
    /** When its owner was told that it ends. */
    endNotifiedAt: integer("end_told_at"),
  },
  (table) => [
    index("mailboxes_by_workspace").on(table.workspaceId),
    index("mailboxes_by_owner").on(table.ownerId),
    uniqueIndex("mailboxes_by_address").on(table.address, table.workspaceId),
  ],
);

/**
 * Every address that delivers into a mailbox: its own, its aliases, and `*@domain` for a catch-all. Unique per domain
 * row of a workspace; verification of the domain decides which workspace receives the mail (mailbox/state/addresses.ts).
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
    /** SHA-256 of the key, hex: its own 256 bits make a slow hash unnecessary. */
    hash: text("hash").notNull().unique(),
    /** The key's first characters, so that people can tell keys apart. */
    hint: text("hint").notNull(),
    scopes: json<Scope[]>("scopes").notNull(),
    createdAt: integer("created_at").notNull(),
    lastUsedAt: integer("last_used_at"),
    revokedAt: integer("revoked_at"),
    policy: json<Policy>("policy").notNull().default({}),
    /** Time since which the key itself is paused; workspaces.keys_paused_at pauses all. */
    pausedAt: integer("paused_at"),
    /** The key, or the session (`ses_`; operations/person/reference-key.ts), that made it, which may be gone. */
    madeBy: text("made_by"),
  },
  (table) => [
    index("api_keys_by_user").on(table.userId),
    index("api_keys_by_maker").on(table.madeBy).where(sql`made_by IS NOT NULL`),
  ],
);

/** Programs that registered themselves (RFC 7591). */
export const oauthClients = sqliteTable(
  "oauth_clients",
  {
    id: text("id").primaryKey(),
    /** Name that the program gives itself, made one line. */
    name: text("name").notNull(),
    redirectUris: json<string[]>("redirect_uris").notNull(),
    createdAt: integer("created_at").notNull(),
    /** When a person last gave it a grant. */
    usedAt: integer("used_at"),
    /** Network that the program registered from, as ipAddressNetwork gives it; empty for this host. */
    network: text("network").notNull().default(""),
  },
  (table) => [index("oauth_clients_by_age").on(table.usedAt, table.network, table.createdAt)],
);

/** Keys that are grants: the program, and the code for its first tokens. */
export const oauthGrants = sqliteTable(
  "oauth_grants",
  {
    keyId: text("key_id").primaryKey(),
    /** Id in oauth_clients, or the URL of the program's document. */
    clientId: text("client_id").notNull(),
    clientName: text("client_name").notNull(),
    clientHost: text("client_host").notNull(),
    resource: text("resource").notNull(),
    /** How long its access tokens last. */
    accessMs: integer("access_ms").notNull(),
    /** SHA-256, hex. */
    codeHash: text("code_hash").notNull().unique(),
    /** Redirect URI in the request for the code; null if it gave none. */
    redirectUri: text("redirect_uri"),
    challenge: text("challenge").notNull(),
    codeExpiresAt: integer("code_expires_at").notNull(),
    codeUsedAt: integer("code_used_at"),
  },
  (table) => [
    index("oauth_grants_by_client").on(table.clientId),
    index("oauth_grants_unused").on(table.codeExpiresAt).where(sql`code_used_at IS NULL`),
  ],
);

export const TOKEN_KINDS = ["access", "refresh"] as const;

/** Tokens of grants; refresh tokens also after they were used, so that their reuse is noticed. */
export const oauthTokens = sqliteTable(
  "oauth_tokens",
  {
    seq: integer("seq").primaryKey(),
    /** SHA-256, hex. */
    hash: text("hash").notNull().unique(),
    keyId: text("key_id").notNull(),
    kind: text("kind", { enum: TOKEN_KINDS }).notNull(),
    expiresAt: integer("expires_at").notNull(),
    usedAt: integer("used_at"),
  },
  (table) => [
    index("oauth_tokens_by_grant").on(table.keyId, table.kind, table.seq),
    index("oauth_tokens_by_expiry").on(table.expiresAt),
  ],
);

/** Browsers in which a person is signed in. */
export const sessions = sqliteTable(
  "sessions",
  {
    id: text("id").primaryKey(),
    userId: text("user_id").notNull(),
    /** SHA-256, hex, of the token in the cookie, which has 256 bits. */
    hash: text("hash").notNull().unique(),
    /** The browser's name for itself, so that people can tell their sessions apart. */
    userAgent: text("user_agent").notNull(),
    createdAt: integer("created_at").notNull(),
    lastUsedAt: integer("last_used_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    /** The address of sign-in, as ipAddressSource gives it. */
    source: text("source").notNull(),
    /** True if it survives closing the browser. */
    persistent: flag("kept").notNull(),
    /** When the person last proved their identity again; null if not since signing in. */
    confirmedAt: integer("confirmed_at"),
  },
  (table) => [index("sessions_by_user").on(table.userId), index("sessions_by_expiry").on(table.expiresAt)],
);

/** The link by which a person chooses a password: the latest. */
export const passwordLinks = sqliteTable(
  "password_links",
  {
    userId: text("user_id").primaryKey(),
    /** SHA-256, hex, of its token, which has 256 bits; null until it is mailed, since only the mail has the token. */
    hash: text("hash").unique(),
    /** Address that the link is to be mailed to; null where it was shown. */
    mailTo: text("mail_to"),
    /** The person who asked for the link; null: the operator. */
    madeBy: text("made_by"),
    /** The API key with which they asked for it. */
    keyId: text("key_id"),
    expiresAt: integer("expires_at").notNull(),
  },
  (table) => [
    index("password_links_by_maker").on(table.madeBy).where(sql`made_by IS NOT NULL`),
    index("password_links_to_mail").on(table.expiresAt).where(sql`hash IS NULL`),
  ],
);

/** The key pair by which push services know this server (RFC 8292); one row. */
export const pushKeys = sqliteTable("push_keys", {
  id: integer("id").primaryKey(),
  /** Base64url of the point, uncompressed. */
  publicKey: text("public_key").notNull(),
  /** Base64url of the scalar. */
  privateKey: text("private_key").notNull(),
});

/** Browsers that asked for Web Push. */
export const pushSubscriptions = sqliteTable("push_subscriptions", {
  sessionId: text("session_id").primaryKey(),
  endpoint: text("endpoint").notNull().unique(),
  /** RFC 8291: the browser's public key and secret, base64url. */
  p256dh: text("p256dh").notNull(),
  auth: text("auth").notNull(),
  /** Ids. */
  mailboxes: json<string[]>("mailboxes").notNull(),
  /** Sender and subject are told. */
  details: flag("details").notNull(),
  createdAt: integer("created_at").notNull(),
  /** Failed deliveries in a row. */
  failures: integer("failures").notNull(),
  /** No delivery is tried before this time. */
  restsUntil: integer("rests_until").notNull(),
});

/** Optional second factors beside the password: a TOTP (RFC 6238). */
export const secondFactors = sqliteTable("second_factors", {
  userId: text("user_id").primaryKey(),
  /** Sealed (access/seal.ts), not hashed, because checking a code needs the secret. */
  secret: blob("secret", { mode: "buffer" }).notNull(),
  /** Time step of the last accepted code: no code of it or an earlier step is valid again. */
  lastStep: integer("last_step").notNull(),
  createdAt: integer("created_at").notNull(),
});

/** One-time replacements for a lost second factor. */
export const recoveryCodes = sqliteTable(
  "recovery_codes",
  {
    userId: text("user_id").notNull(),
    /** SHA-256, hex, of a code, which has 80 bits. */
    hash: text("hash").notNull(),
  },
  (table) => [primaryKey({ columns: [table.userId, table.hash] })],
);

/** `all`: reads, changes and sends mail; `read`: reads it and changes nothing; `send`: sends it only. */
export const APP_PASSWORD_ACCESS = ["all", "read", "send"] as const;
export type AppPasswordAccess = (typeof APP_PASSWORD_ACCESS)[number];

/** Passwords for mail apps in place of their person's own. */
export const appPasswords = sqliteTable(
  "app_passwords",
  {
    id: text("id").primaryKey(),
    userId: text("user_id").notNull(),
    name: text("name").notNull(),
    /** SHA-256, hex, of the password: its own 100 bits make a slow hash unnecessary. */
    hash: text("hash").notNull().unique(),
    createdAt: integer("created_at").notNull(),
    lastUsedAt: integer("last_used_at"),
    access: text("access", { enum: APP_PASSWORD_ACCESS }).notNull(),
  },
  (table) => [index("app_passwords_by_user").on(table.userId)],
);

export const ACCESS_CHANGES = ["password", "second_factor", "key", "forwarding"] as const;
export const ACCESS_ACTORS = ["self", "admin", "share", "operator"] as const;

/** Notices due to people about their access: what was replaced or reset, by whom, and how much ended with it. */
export const accessNotices = sqliteTable("access_notices", {
  id: integer("id").primaryKey(),
  userId: text("user_id").notNull(),
  change: text("deed", { enum: ACCESS_CHANGES }).notNull(),
  doneBy: text("done_by", { enum: ACCESS_ACTORS }).notNull(),
  appPasswords: integer("app_passwords").notNull(),
  keys: integer("keys").notNull(),
  createdAt: integer("created_at").notNull(),
  /**
   * For `forwarding`: {mailbox, to} as JSON, the address of the mailbox and the addresses that its mail goes to. For
   * `password`: `link` if the person chose it with a link.
   */
  detail: text("detail"),
});

/** Bytes of mail in a mailbox: the sum of its messages' sizes, updated with every filing and deletion. */
export const mailboxUsage = sqliteTable("mailbox_usage", {
  mailboxId: text("mailbox_id").primaryKey(),
  bytes: integer("bytes").notNull(),
});

/** Whom a mailbox has sent to: see outbound/known-recipients.ts. */
export const knownRecipients = sqliteTable(
  "known_recipients",
  {
    mailboxId: text("mailbox_id").notNull(),
    /** Address of the recipient, in the form that comparableAddress gives. */
    address: text("address").notNull(),
  },
  (table) => [primaryKey({ columns: [table.mailboxId, table.address] })],
);

export const RULE_ACTIONS = ["label", "archive", "star", "trash", "forward"] as const;

/** The action of a rule (rules: Mail rules). */
export interface RuleAction {
  type: (typeof RULE_ACTIONS)[number];
  /** The label to add, for `label`. */
  label?: string;
  /** The address to forward to, normalized, for `forward`. */
  to?: string;
}

export interface Rule {
  name?: string;
  /** A search query. */
  match: string;
  actions: RuleAction[];
  enabled: boolean;
}

/** Rules of a mailbox for mail that arrives; a mailbox without rules has no row. */
export const mailboxRules = sqliteTable("mailbox_rules", {
  mailboxId: text("mailbox_id").primaryKey(),
  /** Rules in the order in which they apply. */
  rules: json<Rule[]>("rules").notNull(),
});

export const AUTOMATIC_KINDS = ["forward", "absence"] as const;

/**
 * Mail that the server is to write by itself about a message that arrived. Filing commits the row, and a job sends the mail.
 */
export const automaticMail = sqliteTable(
  "automatic_mail",
  {
    seq: integer("seq").primaryKey(),
    mailboxId: text("mailbox_id").notNull(),
    messageSeq: integer("message_seq").notNull(),
    kind: text("kind", { enum: AUTOMATIC_KINDS }).notNull(),
    /** An address, normalized. */
    recipient: text("recipient").notNull(),
    /** Addresses of mailboxes that passed the message on before, in the order of its header. */
    passed: json<string[]>("passed").notNull(),
    askedAt: integer("asked_at").notNull(),
    dueAt: integer("due_at").notNull(),
  },
  (table) => [
    index("automatic_mail_by_time").on(table.dueAt),
    index("automatic_mail_by_message").on(table.messageSeq),
    index("automatic_mail_by_mailbox").on(table.mailboxId),
  ],
);

/** The time in which a mailbox tells senders that nobody reads it. */
export const absences = sqliteTable("absences", {
  mailboxId: text("mailbox_id").primaryKey(),
  startsAt: integer("starts_at").notNull(),
  endsAt: integer("ends_at").notNull(),
  /** Null: that of the message. */
  subject: text("subject"),
  text: text("text").notNull(),
});

/** Whom a mailbox told so lately. */
export const absenceReplies = sqliteTable(
  "absence_replies",
  {
    mailboxId: text("mailbox_id").notNull(),
    /** Address of the recipient, in the form that comparableAddress gives. */
    recipient: text("recipient").notNull(),
    repliedAt: integer("replied_at").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.mailboxId, table.recipient] }),
    index("absence_replies_by_time").on(table.repliedAt),
  ],
);

/** A conversation, with the fields of its list row precomputed (rules: Thread fields). */
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
    /** While set, lists show the conversation under `snoozed` and `all`, not `inbox`. */
    snoozedUntil: integer("snoozed_until"),
    lastMessageAt: integer("last_message_at").notNull(),
    hasAttachments: flag("has_attachments").notNull(),
    messageCount: integer("message_count").notNull(),
    /** Ordinal of the next message; see messages.seq. */
    nextOrdinal: integer("next_ordinal").notNull(),
    receivedOn: text("received_on").notNull(),
    subject: text("subject").notNull(),
    /** Folded, without reply and forward prefixes; matches replies from mailers that omit References. */
    subjectKey: text("subject_key").notNull(),
    snippet: text("snippet").notNull(),
    /** Thread.from: the latest inbound sender, else the first recipient of the latest sent message. */
    counterpart: json<EmailAddress>("counterpart").notNull(),
    /** From, To and Cc of every message; never Bcc. */
    participants: json<EmailAddress[]>("participants").notNull(),
  },
  (table) => [
    // The index holds every condition of a list page, newest first, so that no row is read in vain. Lists of several
    // folders merge them (mailbox/reading/walk.ts).
    index("threads_by_folder").on(
      table.mailboxId,
      table.folder,
      table.lastMessageAt,
      table.seq,
      table.snoozedUntil,
      table.hasAttachments,
    ),
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

/** Conversations in trash or spam, maintained by triggers. */
export const discardedThreads = sqliteTable(
  "discarded_threads",
  {
    threadSeq: integer("thread_seq").primaryKey(),
    /** Null until the retention job has seen it; then a lower bound on its time there. */
    since: integer("since"),
  },
  (table) => [index("discarded_threads_by_time").on(table.since)],
);

/** Messages in trash or spam whose conversation is elsewhere. A row may outlast that; its message's folder decides. */
export const discardedMessages = sqliteTable(
  "discarded_messages",
  {
    messageSeq: integer("message_seq").primaryKey(),
    /** Null until the retention job has seen the message; then a lower bound on its time there. */
    since: integer("since"),
  },
  (table) => [index("discarded_messages_by_time").on(table.since)],
);

export const threadLabels = sqliteTable(
  "thread_labels",
  {
    threadSeq: integer("thread_seq").notNull(),
    /** Case-folded: labels that differ only by case are the same. */
    labelKey: text("label_key").notNull(),
    label: text("label").notNull(),
    position: integer("position").notNull(),
  },
  (table) => [
    primaryKey({ columns: [table.threadSeq, table.labelKey] }),
    index("thread_labels_by_key").on(table.labelKey, table.threadSeq),
  ],
);

/** The labels in use in a mailbox, with the number of conversations. Maintained by triggers on thread_labels. */
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

export const LABEL_COLOURS = ["red", "orange", "yellow", "green", "teal", "blue", "purple", "pink"] as const;
export type LabelColour = (typeof LABEL_COLOURS)[number];

export const labelColours = sqliteTable(
  "label_colours",
  {
    mailboxId: text("mailbox_id").notNull(),
    labelKey: text("label_key").notNull(),
    colour: text("colour", { enum: LABEL_COLOURS }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.mailboxId, table.labelKey] })],
);

/** A text to begin a message with. */
export interface Template {
  name: string;
  subject?: string;
  text: string;
}

export const mailboxTexts = sqliteTable("mailbox_texts", {
  mailboxId: text("mailbox_id").primaryKey(),
  signature: text("signature").notNull(),
  templates: json<Template[]>("templates").notNull(),
});

export const CHANGE_KINDS = ["upserted", "gone"] as const;
export type ChangeKind = (typeof CHANGE_KINDS)[number];

/**
 * The latest change of each conversation, deletions too; and, in rows with a `userId`, who gained or lost reach of a
 * mailbox. Maintained by triggers; `seq` grows with every change.
 */
export const threadChanges = sqliteTable(
  "thread_changes",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    /** Null in a row about reach, as is `threadId`. */
    threadSeq: integer("thread_seq").unique(),
    threadId: text("thread_id"),
    /** In a row about reach, null stands for all mailboxes of the workspace. */
    mailboxId: text("mailbox_id"),
    kind: text("kind", { enum: CHANGE_KINDS }).notNull(),
    /** Written at the end of the transaction; null until then, and in the last rows of other writers. */
    at: integer("at"),
    userId: text("user_id"),
    /** In a row about reach: the highest threads.seq by then. */
    through: integer("through"),
  },
  (table) => [index("thread_changes_by_user").on(table.userId).where(sql`user_id IS NOT NULL`)],
);

/**
 * The Message-IDs that a conversation's messages refer to while it has no message with them, and names of conversations
 * that were imported. Databases from before that rule have the Message-IDs of its messages, too.
 */
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
     * threads.seq * MESSAGES_PER_THREAD + ordinal, from 0: the messages of a conversation lie together on disk, and a
     * message's conversation is known without a join.
     */
    seq: integer("seq").primaryKey(),
    id: text("id").notNull().unique(),
    threadSeq: integer("thread_seq").notNull(),
    mailboxId: text("mailbox_id").notNull(),
    kind: text("kind", { enum: ["received", "sent", "draft"] }).notNull(),
    /** The one that its conversation's implies (mailbox/state/message-state.ts), unless the message is apart. */
    folder: text("folder", { enum: FOLDERS }).notNull(),
    read: flag("read").notNull(),
    /** The Date header if it is readable and not in the future, else the time of filing. */
    date: integer("date").notNull(),
    filedAt: integer("filed_at").notNull(),
    /** Header value with its angle brackets. */
    messageId: text("message_id"),
    inReplyTo: text("in_reply_to"),
    from: json<EmailAddress>("from").notNull(),
    to: json<EmailAddress[]>("to").notNull(),
    cc: json<EmailAddress[]>("cc").notNull(),
    /** Shown in full to the sender; another person sees only their own address. */
    bcc: json<EmailAddress[]>("bcc").notNull(),
    replyTo: json<EmailAddress[]>("reply_to").notNull(),
    subject: text("subject").notNull(),
    snippet: text("snippet").notNull(),
    /** The mailbox address or alias at which it arrived, without a tag; null for outgoing mail. */
    receivedOn: text("received_on"),
    /** User who sent it. */
    sentBy: text("sent_by"),
    /** Bytes as received. */
    size: integer("size").notNull(),
    /**
     * SHA-256, hex, of the content without trace and authentication headers: distinguishes a retry from another
     * message.
     */
    fingerprint: text("fingerprint").notNull(),
    hasAttachments: flag("has_attachments").notNull(),
    auth: json<AuthVerdicts>("auth"),
    deliveredAt: integer("delivered_at"),
    /** The domain whose DKIM signature covers both fields of RFC 8058; null if none is known to. */
    listSigner: text("list_signer"),
    /** A conversation is starred while any of its messages is flagged. */
    flagged: flag("flagged").notNull().default(false),
    /** An API key had it filed, and it came in no other way: nobody takes part by it (rules: Policies). */
    byKey: flag("by_key").notNull().default(false),
    /** A mail app moved it, or others away from it: its folder is its own, and new mail does not move it. */
    apart: flag("apart").notNull().default(false),
  },
  (table) => [
    /** Includes date and size, so that search/fts5/fts5.ts reads those of hits without their rows. */
    index("messages_by_thread").on(table.threadSeq, table.seq, table.date, table.size),
    /** Messages of each folder by time; a query over all folders merges them. The size is for searches by it. */
    index("messages_by_folder").on(table.mailboxId, table.folder, table.date, table.seq, table.kind, table.size),
    index("messages_by_message_id").on(table.mailboxId, table.messageId),
    /** For imports: a message without a Message-ID is recognised by its content. */
    index("messages_without_id").on(table.mailboxId, table.fingerprint).where(sql`${table.messageId} is null`),
    index("messages_outgoing_moved")
      .on(table.mailboxId, table.folder, table.date, table.seq)
      .where(sql`kind <> 'received' AND folder IN ('inbox', 'archive')`),
  ],
);

/** Most messages in one conversation; the next one starts another. */
export const MESSAGES_PER_THREAD = 65_536;

export const messageBodies = sqliteTable("message_bodies", {
  messageSeq: integer("message_seq").primaryKey(),
  /** [name, unfolded value] in order, as received, without trace, authentication and MIME structure headers. */
  headers: json<[name: string, value: string][]>("headers").notNull(),
  text: text("text").notNull(),
  /** Sanitised; this is what is served. */
  html: packedText("html"),
  /** The HTML as received, zstd: the source of the raw file and of a newer sanitiser. */
  htmlSource: blob("html_source", { mode: "buffer" }),
  /** Version of the sanitiser policy behind `html` (message/sanitize.ts). */
  sanitizer: integer("sanitizer").notNull(),
  /** The visible text of the HTML (message/visible.ts), zstd; null if it equals `text`. */
  seenText: blob("seen_text", { mode: "buffer" }),
  /** Characters of the HTML that are hidden from its reader. */
  seenHidden: integer("seen_hidden").notNull().default(0),
  /** Version of the rules for visible text; 0 if they were not applied. */
  seenVersion: integer("seen_version").notNull().default(0),
  /** Bytes that `html` has unpacked; null if it is not packed. */
  htmlBytes: integer("html_bytes"),
});

/** Octets that not everybody sees (rules: Octets): [start, end, why]. */
export type HiddenOctets = [start: number, end: number, why: "bcc" | "results"];

/** The octets of messages as they came or left, without the attachments that are blobs (rules: Octets). */
export const messageOctets = sqliteTable(
  "message_octets",
  {
    messageSeq: integer("message_seq").primaryKey(),
    /** Number of all octets. */
    size: integer("size").notNull(),
    /** SHA-256 of all octets. */
    digest: blob("digest", { mode: "buffer" }).notNull(),
    /** SHA-256 of those that everybody sees; null if these are all. */
    servedDigest: blob("served_digest", { mode: "buffer" }),
    hidden: json<HiddenOctets[]>("hidden"),
    /** ENVELOPE and BODYSTRUCTURE, as everybody sees them; null where the octets tell them. */
    envelope: text("envelope"),
    structure: text("structure"),
    /** Packed (message/skeleton.ts); null if it is large and in `blob`. */
    skeleton: blob("skeleton", { mode: "buffer" }),
    blob: text("blob"),
  },
  (table) => [index("message_octets_by_blob").on(table.blob).where(sql`blob IS NOT NULL`)],
);

/** Mail that lacks octets, or what mail apps are told of them (mailbox/reading/missing-octets.ts). */
export const octetsWaiting = sqliteTable(
  "octets_waiting",
  {
    messageSeq: integer("message_seq").primaryKey(),
    /** Epoch ms. */
    filedAt: integer("filed_at").notNull(),
    /** True for octets that could not be made. */
    lost: flag("lost").notNull().default(false),
  },
  (table) => [index("octets_waiting_newest").on(table.lost, table.filedAt)],
);

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
    /** Those of its Content-Type that are kept (message/content-type.ts). */
    parameters: json<TypeParameters>("parameters").notNull().default([]),
    /** The message has the file without this name. */
    unnamed: flag("unnamed").notNull().default(false),
    /** The file is an alternative of the text. */
    alternative: flag("alternative").notNull().default(false),
  },
  (table) => [
    index("attachments_by_message").on(table.messageSeq, table.position),
    index("attachments_by_blob").on(table.blob),
  ],
);

/** Mailing lists that a mailbox was unsubscribed from. */
export const leftLists = sqliteTable(
  "left_lists",
  {
    mailboxId: text("mailbox_id").notNull(),
    /** Id of the mailing list (message/mailing-list.ts). */
    list: text("list").notNull(),
    leftAt: integer("left_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.mailboxId, table.list] })],
);

/** Senders whose remote images a person always sees. */
export const imageSenders = sqliteTable(
  "image_senders",
  {
    userId: text("user_id").notNull(),
    /** Address of the sender, in the form that comparableAddress gives. */
    sender: text("sender").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.userId, table.sender] })],
);

export const INVITATION_ANSWERS = ["accepted", "tentative", "declined"] as const;

/** How a mailbox answered invitations. */
export const invitationAnswers = sqliteTable(
  "invitation_answers",
  {
    mailboxId: text("mailbox_id").notNull(),
    uid: text("uid").notNull(),
    /** The RECURRENCE-ID of one occurrence; empty for all of them. */
    occurrence: text("occurrence").notNull(),
    answer: text("answer", { enum: INVITATION_ANSWERS }).notNull(),
    /** The version of the invitation. */
    sequence: integer("sequence").notNull(),
    answeredAt: integer("answered_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.mailboxId, table.uid, table.occurrence] })],
);

/** The folders of mailboxes that were opened over IMAP; all six of a mailbox, or none. */
export const imapFolders = sqliteTable("imap_folders", {
  id: integer("id").primaryKey(),
  mailboxId: text("mailbox_id").notNull(),
  folder: text("folder", { enum: FOLDERS }).notNull(),
  /** Epoch seconds; grows when UIDs begin anew. */
  uidValidity: integer("uid_validity").notNull(),
  uidNext: integer("uid_next").notNull(),
  /** The highest of its messages and of those that vanished (RFC 7162). */
  modseq: integer("modseq").notNull(),
  /** The next UID for mail that was there before; null once all of it has one. */
  fillNext: integer("fill_next"),
  /** imap_vanished may lack what vanished by then. */
  vanishedThrough: integer("vanished_through").notNull(),
  /** Through which modification sequence the mailboxes of labels follow. */
  labelledThrough: integer("labelled_through").notNull().default(0),
});

/** The UIDs of messages, maintained by triggers on messages and thread_labels. */
export const imapMessages = sqliteTable(
  "imap_messages",
  {
    messageSeq: integer("message_seq").primaryKey(),
    folderId: integer("folder_id").notNull(),
    uid: integer("uid").notNull(),
    modseq: integer("modseq").notNull(),
    /** Flags that only IMAP has: the bits of mailbox/imap/uids.ts. */
    flags: integer("flags").notNull().default(0),
  },
  (table) => [
    /** Includes modseq, so that changes are found without reading rows. */
    uniqueIndex("imap_messages_by_uid").on(table.folderId, table.uid, table.modseq),
  ],
);

/** Digests of octets that mail apps have seen, of messages from before octets were kept; a row goes once they are kept. */
export const imapOctets = sqliteTable(
  "imap_octets",
  {
    messageSeq: integer("message_seq").notNull(),
    /** True for the octets with the Bcc, which their author sees. */
    author: flag("author").notNull(),
    /** SHA-256 of the octets. */
    digest: blob("digest", { mode: "buffer" }).notNull(),
  },
  (table) => [primaryKey({ columns: [table.messageSeq, table.author] })],
);

/** UIDs of messages that moved or were deleted, a limited number for each folder. */
export const imapVanished = sqliteTable(
  "imap_vanished",
  {
    folderId: integer("folder_id").notNull(),
    modseq: integer("modseq").notNull(),
    uid: integer("uid").notNull(),
  },
  (table) => [primaryKey({ columns: [table.folderId, table.modseq, table.uid] })],
);

/** The labels whose mailboxes were opened, or made, over IMAP. */
export const imapLabels = sqliteTable("imap_labels", {
  /** Never given to another label later. */
  id: integer("id").primaryKey({ autoIncrement: true }),
  mailboxId: text("mailbox_id").notNull(),
  /** Key of the label, as in thread_labels; null once the mailbox is gone and its rows are being removed. */
  labelKey: text("label_key"),
  /** The label's spelling, for the time in which no conversation has it. */
  label: text("label").notNull(),
  /** A mail app made it: it stays when no conversation has the label. */
  made: flag("made").notNull(),
  /** Mail that was there before has UIDs. */
  filled: flag("filled").notNull(),
  uidNext: integer("uid_next").notNull(),
  modseq: integer("modseq").notNull(),
  /** imap_label_vanished may lack what vanished by then. */
  vanishedThrough: integer("vanished_through").notNull(),
});

/** The UIDs of messages in the mailboxes of labels, as of the last look. */
export const imapLabelled = sqliteTable(
  "imap_labelled",
  {
    labelId: integer("label_id").notNull(),
    uid: integer("uid").notNull(),
    messageSeq: integer("message_seq").notNull(),
    modseq: integer("modseq").notNull(),
    /** Folder and UID that imap_messages had then. */
    folderId: integer("folder_id").notNull(),
    folderUid: integer("folder_uid").notNull(),
    /** \Deleted, which here is said of the label. */
    deleted: flag("deleted").notNull().default(false),
  },
  (table) => [
    primaryKey({ columns: [table.labelId, table.uid] }),
    uniqueIndex("imap_labelled_by_message").on(table.messageSeq, table.labelId),
    index("imap_labelled_by_place").on(table.folderId, table.folderUid),
  ],
);

/** UIDs of messages that left the mailbox of a label, a limited number for each. */
export const imapLabelVanished = sqliteTable(
  "imap_label_vanished",
  {
    labelId: integer("label_id").notNull(),
    modseq: integer("modseq").notNull(),
    uid: integer("uid").notNull(),
  },
  (table) => [primaryKey({ columns: [table.labelId, table.modseq, table.uid] })],
);

export const SENDER_VERDICTS = ["spam", "forgiven", "answered"] as const;

/** Verdicts of a mailbox on senders (lower-case addresses). */
export const senderVerdicts = sqliteTable(
  "sender_verdicts",
  {
    mailboxId: text("mailbox_id").notNull(),
    sender: text("sender").notNull(),
    /** Learned from mail that failed DMARC, and so not about the real sender. */
    spoofed: flag("spoofed").notNull(),
    verdict: text("verdict", { enum: SENDER_VERDICTS }).notNull(),
    trainedAt: integer("trained_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.mailboxId, table.sender, table.spoofed] })],
);

/** The junk filter of a mailbox: the number of messages of each kind that trained it. */
export const junkFilters = sqliteTable("junk_filters", {
  seq: integer("seq").primaryKey(),
  mailboxId: text("mailbox_id").notNull().unique(),
  spam: integer("spam").notNull(),
  ham: integer("ham").notNull(),
});

/** Tokens of a filter, with the numbers of messages in which each occurs. */
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

/** A token, and the probability that a message with it is spam in this mailbox, 0 to 1. */
export interface JunkClue {
  token: string;
  probability: number;
}

/** `sender`: trained as spam. `arrival`: a property of the arrival, such as DMARC. `junk`: the score. */
export const FILED_FOR = ["sender", "arrival", "junk"] as const;
export const JUNK_KINDS = ["spam", "ham"] as const;

/** The classification of a message at arrival, and what its mailbox was taught by it. No row if there is neither. */
export const messageJudgements = sqliteTable("message_judgements", {
  messageSeq: integer("message_seq").primaryKey(),
  /** Why it was filed to spam; null if it was not. */
  filedFor: text("filed_for", { enum: FILED_FOR }),
  /** Similarity to the mailbox's junk, 0 to 1; null while the filter has no opinion. */
  score: real("score"),
  /** The tokens behind the score, strongest first. */
  clues: json<JunkClue[]>("clues"),
  /** The kind that the filter learned the message as; null if it did not learn it. */
  trained: text("trained", { enum: JUNK_KINDS }),
});

/** Text typed into a draft's recipient fields that is not an address yet. */
export type Unfinished = Record<RecipientField, string>;

/** The API key that created a draft, and its owner. */
export interface DraftAgent {
  /** Name of the key. */
  key: string;
  /** Name of the person. */
  person: string;
}

/** The properties of a draft that other messages lack (messages.kind `draft`). */
export const drafts = sqliteTable(
  "drafts",
  {
    messageSeq: integer("message_seq").primaryKey(),
    /** Counts the changes: saving over an unseen change is refused. */
    revision: integer("revision").notNull(),
    /** threads.seq of the conversation that it replies to. */
    answers: integer("answers"),
    unfinished: json<Unfinished>("unfinished").notNull(),
    /** Null for a draft that a person began in the app. */
    agent: json<DraftAgent>("agent"),
    /** When it is sent; null if it waits for a person to press Send. */
    dueAt: integer("due_at"),
    /** User who pressed Send. */
    dueBy: text("due_by"),
    /** Why it could not be sent when it was due; for people. */
    refusal: text("refusal"),
    /** API key with which they pressed Send, if it was one. */
    dueKey: text("due_key"),
    /** API key that wrote it last; null: a person did, or it is not known. */
    writtenBy: text("written_by"),
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
    /** messages.id of the event's message. */
    emailId: text("email_id"),
  },
  (table) => [index("events_by_email").on(table.emailId).where(sql`email_id IS NOT NULL`)],
);

export const TRACE_STEPS = ["received", "refused", "attempted"] as const;
export type TraceStep = (typeof TRACE_STEPS)[number];

/** Steps of a message's delivery that no other row records. */
export const traceSteps = sqliteTable(
  "trace_steps",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    at: integer("at").notNull(),
    /** The message's Message-ID with the angle brackets, else messages.id. */
    key: text("key").notNull(),
    step: text("step", { enum: TRACE_STEPS }).notNull(),
    /** The trace id of its log lines. */
    trace: text("trace"),
    /** See outbound/trace-log.ts. */
    detail: json<Record<string, unknown>>("detail").notNull(),
  },
  (table) => [index("trace_steps_by_key").on(table.key, table.seq)],
);

/** Responses to successful requests with an idempotency key (rules: Idempotency). */
export const idempotencyKeys = sqliteTable(
  "idempotency_keys",
  {
    apiKeyId: text("api_key_id").notNull(),
    key: text("key").notNull(),
    /** SHA-256, hex, of the request: its operation, path and body. */
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

export const FACES = ["rest", "mcp", "smtp", "imap", "schedule", "app", "cli"] as const;
/**
 * The way by which a request came. `smtp`, `imap`: a mail app that signs in with the key. `schedule`: a message that the key had
 * accepted for a later time. `app` and `cli`: a person or the operator took back what the key did, or approved a message of it.
 */
export type Face = (typeof FACES)[number];

export const JOURNAL_KINDS = ["changed", "sent", "refused", "read"] as const;
export type JournalKind = (typeof JOURNAL_KINDS)[number];

/** Operations of API keys: an entry for each transaction of a request, and one a minute for reads (rules: Journal). */
export const journalEntries = sqliteTable(
  "journal_entries",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    at: integer("at").notNull(),
    workspaceId: text("workspace_id").notNull(),
    keyId: text("key_id").notNull(),
    /** The person for whom the key acted; of an undo or an approval, who did it, and null for the operator. */
    userId: text("user_id"),
    operation: text("operation").notNull(),
    face: text("face", { enum: FACES }),
    /** The name that an MCP client gave itself. */
    client: text("client"),
    /** The address from which it came, as ipAddressSource gives it. */
    source: text("source"),
    /** Ids of conversations, messages and others that it was about; the first ones. */
    ids: json<string[]>("ids").notNull(),
    /** `ok`, `held`, or the code of a refusal. */
    outcome: text("outcome").notNull(),
    /** How many reads the entry stands for; null if it is about something else. */
    reads: integer("reads"),
    /** Conversations that were changed. */
    changes: integer("changes").notNull(),
    /** Recipients of a message that was accepted or held; each counts once, also when it is sent later. */
    recipients: integer("recipients").notNull(),
    /** Recipients to whom a message went out. */
    sent: integer("sent").notNull(),
  },
  (table) => [
    index("journal_by_key").on(table.workspaceId, table.keyId, table.at, table.seq),
    index("journal_by_time").on(table.at).where(sql`reads IS NULL`),
    index("journal_reads_by_time").on(table.at).where(sql`reads IS NOT NULL`),
    index("journal_by_changes").on(table.keyId, table.at, table.changes).where(sql`changes > 0`),
    index("journal_by_recipients").on(table.keyId, table.at, table.recipients).where(sql`recipients > 0`),
    index("journal_by_sent").on(table.keyId, table.at, table.sent).where(sql`sent > 0`),
  ],
);

export const CHANGED_FIELDS = ["folder", "starred", "unread", "label", "training"] as const;
export type ChangedField = (typeof CHANGED_FIELDS)[number];
export const SETTLERS = ["person", "key", "mail", "server", "undone"] as const;
export type Settler = (typeof SETTLERS)[number];

/** Data to undo each change of an API key: one row for each field of a conversation (rules: Undo). */
export const keyChanges = sqliteTable(
  "key_changes",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    at: integer("at").notNull(),
    workspaceId: text("workspace_id").notNull(),
    keyId: text("key_id").notNull(),
    mailboxId: text("mailbox_id").notNull(),
    threadSeq: integer("thread_seq").notNull(),
    threadId: text("thread_id").notNull(),
    /** `training`: what a move taught the junk filter. */
    field: text("field", { enum: CHANGED_FIELDS }).notNull(),
    /** For `label`, which one: each is a field of its own. For `training`, `spam` or `ham`. */
    labelKey: text("label_key"),
    /** The value before; its shape depends on the field (mailbox/changing/change.ts, mailbox/state/labels.ts). */
    before: json<unknown>("before").notNull(),
    /** Kind of actor that changed or confirmed the field afterwards, or `undone`; null while the change can be taken back. */
    settledBy: text("settled_by", { enum: SETTLERS }),
    /** The change of another key that settled it; taking that back opens it again. */
    settledSeq: integer("settled_seq"),
  },
  (table) => [
    index("key_changes_by_key").on(table.workspaceId, table.keyId, table.at, table.seq),
    index("key_changes_by_thread").on(table.threadSeq, table.seq),
    index("key_changes_by_mailbox").on(table.mailboxId, table.labelKey),
    index("key_changes_settled").on(table.settledSeq).where(sql`settled_seq IS NOT NULL`),
    index("key_changes_by_time").on(table.at),
  ],
);

/** A message accepted for sending. Kept after it is settled, so that later reports can be matched with it. */
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
    /** Domain of the From address, A-labels; warm-up counts by it. */
    domain: text("domain").notNull(),
    /** The message's unique reverse-path, lower case, to which a later DSN returns. */
    returnPath: text("return_path").notNull().unique(),
    acceptedAt: integer("accepted_at").notNull(),
    recipients: integer("recipients").notNull(),
    /** How many of the recipients were at other servers when it was accepted. */
    outsideRecipients: integer("outside_recipients").notNull(),
    /** Recipients that the mailbox, and the workspace, have ever sent to, including this message; for the caps. */
    mailboxTotal: integer("mailbox_total").notNull(),
    workspaceTotal: integer("workspace_total").notNull(),
    /** Written by the server itself: without a Sent copy and events, and outside every cap (`recipients` is 0). */
    notice: flag("notice").notNull().default(false),
    /** RET and ENVID of MAIL (RFC 3461), where a mail app gave them; ENVID as xtext. */
    ret: text("ret", { enum: ["FULL", "HDRS"] }),
    envid: text("envid"),
    /** Written by the server for the mailbox: without a Sent copy and events. */
    automatic: text("automatic", { enum: AUTOMATIC_KINDS }),
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

/**
 * The transmitted bytes, signatures included: in the row, or in a blob if large. Deleted once all recipients are
 * settled.
 */
export const HOLD_STATES = ["waiting", "approved", "rejected", "sent"] as const;
export type HoldState = (typeof HOLD_STATES)[number];

/** A recipient of a held message, as in the queue, with the delivery reports that the sender wants (RFC 3461). */
export interface HeldRecipient {
  email: string;
  name?: string;
  field: RecipientField;
  notify?: string;
  orcpt?: string;
}

/** Messages of API keys that wait for a person (rules: Held for approval); once sent, of their Sent copy. */
export const holds = sqliteTable(
  "holds",
  {
    messageSeq: integer("message_seq").primaryKey(),
    /** messages.id, also of the Sent copy. */
    messageId: text("message_id").notNull().unique(),
    mailboxId: text("mailbox_id").notNull(),
    keyId: text("key_id").notNull(),
    /** The person that the key acts for. */
    userId: text("user_id").notNull(),
    /** `approved`: it waits for its time. */
    state: text("state", { enum: HOLD_STATES }).notNull(),
    /** Why it was held, or rejected; for people. */
    reason: text("reason").notNull(),
    since: integer("since").notNull(),
    /** Time before which the message is not sent. */
    sendAt: integer("send_at"),
    /** threads.id of the conversation that it answers. */
    answers: text("answers"),
    recipients: json<HeldRecipient[]>("recipients").notNull(),
    dsn: json<{ ret?: "FULL" | "HDRS"; envid?: string }>("dsn").notNull(),
    /** The message as it goes out, in a row or a file; null once it is sent. */
    size: integer("size"),
    bytes: blob("bytes", { mode: "buffer" }),
    /** Name of the blob. */
    blob: text("blob"),
    /** The person who approved or rejected it; null if its time was over. */
    decidedBy: text("decided_by"),
    decidedAt: integer("decided_at"),
    /** When the people who may approve it and those before it were told by mail. */
    notifiedAt: integer("told_at"),
  },
  (table) => [
    index("holds_by_state").on(table.state, table.since).where(sql`state <> 'sent'`),
    index("holds_by_mailbox").on(table.mailboxId, table.state, table.since).where(sql`state <> 'sent'`),
    index("holds_told").on(table.mailboxId, table.notifiedAt).where(sql`told_at IS NOT NULL`),
    index("holds_by_blob").on(table.blob).where(sql`blob IS NOT NULL`),
  ],
);

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

/** The line of the outbound queue in which a recipient's domain waits (outbound/slots.ts). */
export const QUEUE_LINES = ["open", "new", "slow"] as const;
export type QueueLine = (typeof QUEUE_LINES)[number];

/** The header field that names a recipient, or `bcc`. */
export const RECIPIENT_FIELDS = ["to", "cc", "bcc"] as const;
export type RecipientField = (typeof RECIPIENT_FIELDS)[number];

/** One recipient of an outbound message, and the outcome. */
export const queueEntries = sqliteTable(
  "queue_entries",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    id: text("id").notNull().unique(),
    messageSeq: integer("message_seq").notNull(),
    /** Address as in RCPT TO: the local part as written, the domain in A-labels. */
    recipient: text("recipient").notNull(),
    name: text("name"),
    field: text("field", { enum: RECIPIENT_FIELDS }).notNull(),
    /** The recipient's domain, by which the relay queues. */
    domain: text("domain").notNull(),
    /**
     * `waiting` for its next attempt; `held`, in the demo and after a restore, until the operator releases it, and while
     * its workspace moves to another server; the other states are final.
     */
    state: text("state", { enum: QUEUE_STATES }).notNull(),
    /** While waiting, also until its workspace has moved: time of the next attempt; while leased: end of the lease. */
    dueAt: integer("due_at"),
    /** An attempt is in progress. */
    leased: flag("leased").notNull().default(false),
    /** Number of finished attempts. */
    attempts: integer("attempts").notNull().default(0),
    /** Last reply or failure, for people. */
    reply: text("reply"),
    settledAt: integer("settled_at"),
    /** When the recipient reported it as spam. */
    complainedAt: integer("complained_at"),
    /** Host that accepted it, lower case: an MX of the domain or the smarthost; null for local delivery. */
    acceptedBy: text("accepted_by"),
    /** NOTIFY and ORCPT of RCPT (RFC 3461), where a mail app gave them; ORCPT with its address as xtext. */
    notify: text("notify"),
    orcpt: text("orcpt"),
  },
  (table) => [
    index("queue_entries_by_message").on(table.messageSeq),
    index("queue_entries_due").on(table.domain, table.dueAt).where(sql`state = 'waiting'`),
    index("queue_entries_unsettled").on(table.state, table.seq).where(sql`state IN ('waiting', 'held')`),
  ],
);

/**
 * Domains with waiting entries. `dueAt` is a lower bound on the time of the earliest, which finds the next attempt
 * without reading the entries of a busy domain.
 */
export const queueDomains = sqliteTable(
  "queue_domains",
  {
    domain: text("domain").primaryKey(),
    dueAt: integer("due_at").notNull(),
    /**
     * Every domain begins in `open`. The other lines keep it from delaying the rest, until a slot of that line is free.
     */
    line: text("line", { enum: QUEUE_LINES }).notNull().default("open"),
  },
  (table) => [index("queue_domains_by_line").on(table.line, table.dueAt)],
);

/** Addresses that a workspace must not write to. */
export const suppressions = sqliteTable(
  "suppressions",
  {
    id: text("id").notNull().unique(),
    workspaceId: text("workspace_id").notNull(),
    /** Normalized. */
    address: text("address").notNull(),
    /** For people: the server's finding, or the operator's words. */
    reason: text("reason").notNull(),
    createdAt: integer("created_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.workspaceId, table.address] })],
);

export const ENDPOINT_STATES = ["active", "disabled", "removed"] as const;
/** The health of an endpoint, by its latest responses: how many attempts it may have at once (events/deliverer.ts). */
export const HEALTHS = ["unproven", "proven", "slow", "failing"] as const;
export type Health = (typeof HEALTHS)[number];

/** A workspace's URL, to which the chosen events are posted. */
export const webhookEndpoints = sqliteTable(
  "webhook_endpoints",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    id: text("id").notNull().unique(),
    workspaceId: text("workspace_id").notNull(),
    url: text("url").notNull(),
    /** Names of the chosen events. */
    events: json<string[]>("events").notNull(),
    /** `whsec_` and base64. */
    secret: text("secret").notNull(),
    /** The previous secret, while both are valid. */
    previousSecret: text("previous_secret"),
    /** When the overlap ends. */
    previousUntil: integer("previous_until"),
    /** `removed`: hidden from all callers; the row is deleted after its deliveries. */
    state: text("state", { enum: ENDPOINT_STATES }).notNull(),
    createdAt: integer("created_at").notNull(),
    disabledAt: integer("disabled_at"),
    /** Deliveries in a row that failed after all attempts. */
    exhausted: integer("exhausted").notNull().default(0),
    health: text("health", { enum: HEALTHS }).notNull(),
    /** events.seq: only later events are posted. */
    afterEvent: integer("after_event").notNull(),
    /** webhook_deliveries.seq: deliveries up to here that waited when it was disabled are not attempted again. */
    voidThrough: integer("void_through").notNull().default(0),
    /** True while the endpoint's deliveries have to be marked as failed, or deleted if it is removed. */
    sweeping: flag("sweeping").notNull().default(false),
    /** The admins have to be mailed that it is disabled. */
    telling: flag("telling").notNull().default(false),
    /** A lower bound on when its earliest delivery is due; null when none is. */
    dueAt: integer("due_at"),
    /** For people; may be empty. */
    description: text("description").notNull().default(""),
    /** Addresses of the mailboxes that it is told of, where a restricted key added it; null: all. */
    mailboxes: json<string[]>("mailboxes"),
    /** The API key that added it, or set its URL last; null: a person did, or it is from before. */
    madeBy: text("made_by"),
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

/** The delivery of one event to one endpoint, and later its log. */
export const webhookDeliveries = sqliteTable(
  "webhook_deliveries",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    id: text("id").notNull(),
    endpointSeq: integer("endpoint_seq").notNull(),
    /** Null for a test. */
    eventSeq: integer("event_seq"),
    eventId: text("event_id").notNull(),
    event: text("event").notNull(),
    /** The body of a test. */
    sample: text("sample"),
    /** Stays `delivered` when a later replay fails. */
    state: text("state", { enum: DELIVERY_STATES }).notNull(),
    /** Attempts that have ended, replays too. */
    attempts: integer("attempts").notNull().default(0),
    /** A retry, test or replay, which precedes deliveries that wait for their first attempt. */
    urgent: flag("urgent").notNull().default(false),
    /** When it is next attempted; while leased, when the lease ends. Also set for the replay of a finished delivery. */
    dueAt: integer("due_at"),
    /** An attempt is under way, or about to be. */
    leased: flag("leased").notNull().default(false),
    /** HTTP status of the last response. */
    status: integer("status"),
    /** The start of the last response. */
    response: text("response"),
    /** Why the last attempt failed: no response, or an unsuccessful one; for people. */
    error: text("error"),
    createdAt: integer("created_at").notNull(),
    /** When it was last settled. */
    finishedAt: integer("finished_at"),
  },
  (table) => [
    uniqueIndex("webhook_deliveries_by_id").on(table.id),
    index("webhook_deliveries_by_endpoint").on(table.endpointSeq, table.seq),
    index("webhook_deliveries_due")
      .on(table.endpointSeq, table.urgent, table.dueAt, table.leased)
      .where(sql`due_at IS NOT NULL`),
    index("webhook_deliveries_finished").on(table.finishedAt).where(sql`finished_at IS NOT NULL`),
    index("webhook_deliveries_by_event").on(table.eventSeq).where(sql`event_seq IS NOT NULL`),
  ],
);

/** The last event with a delivery for each endpoint. One row, with id 1. */
export const webhookCursor = sqliteTable("webhook_cursor", {
  id: integer("id").primaryKey(),
  eventSeq: integer("event_seq").notNull(),
});

/** First mail from a sender to a recipient that was deferred. */
export const greylist = sqliteTable(
  "greylist",
  {
    /** SHA-256 of network, reverse-path and recipient: bounded, and it does not reveal who writes to whom. */
    key: blob("key", { mode: "buffer" }).primaryKey(),
    firstAt: integer("first_at").notNull(),
    /** When it is forgotten: soon if the sender does not return, much later if they do. */
    expiresAt: integer("expires_at").notNull(),
    /** Network of the sender, as ipAddressNetwork gives it; null once the sender has returned. */
    network: text("network"),
    /** How many such rows the network had with this one when it was written. */
    nth: integer("nth"),
  },
  (table) => [
    index("greylist_by_expiry").on(table.expiresAt),
    index("greylist_by_network").on(table.network).where(sql`network IS NOT NULL`),
    index("greylist_by_surplus").on(desc(table.nth), table.expiresAt).where(sql`network IS NOT NULL`),
  ],
);

/** Networks that have delivered wanted mail (inbound/known.ts). */
export const knownNetworks = sqliteTable(
  "known_networks",
  {
    /** The network, as ipAddressNetwork gives it. */
    network: text("network").primaryKey(),
    /** When the last wanted mail came, to within a day. */
    wantedAt: integer("wanted_at").notNull(),
  },
  (table) => [index("known_networks_by_time").on(table.wantedAt)],
);

/** Sources from which somebody signed in (access/sign-in-sources.ts). */
export const signInSources = sqliteTable(
  "sign_in_sources",
  {
    /** The source, as ipAddressSource gives it. */
    source: text("source").primaryKey(),
    /** Time of the last sign-in, to within a day: epoch ms. */
    signedInAt: integer("signed_in_at").notNull(),
  },
  (table) => [index("sign_in_sources_by_time").on(table.signedInAt)],
);

/** MTA-STS policies as fetched (RFC 8461). */
export const mtaStsPolicies = sqliteTable(
  "mta_sts_policies",
  {
    /** A-labels. */
    domain: text("domain").primaryKey(),
    /** Id of the DNS record at the time of the fetch. */
    id: text("id").notNull(),
    mode: text("mode", { enum: ["none", "testing", "enforce"] }).notNull(),
    mx: json<string[]>("mx").notNull(),
    maxAgeSeconds: integer("max_age_seconds").notNull(),
    fetchedAt: integer("fetched_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
  },
  (table) => [index("mta_sts_policies_by_expiry").on(table.expiresAt)],
);

/** Progress of the Meilisearch feed. One row, with id 1, once Meilisearch has been the engine. */
export const searchFeed = sqliteTable("search_feed", {
  id: integer("id").primaryKey(),
  /** Meilisearch is the engine, and changes are recorded. */
  active: flag("active").notNull(),
  /** Name of the index, random. */
  indexUid: text("index_uid").notNull(),
  /** The previous index, until it is deleted. */
  replacedUid: text("replaced_uid"),
  /** Version of the index's settings (search/meilisearch/message-documents.ts). */
  settingsVersion: integer("settings_version").notNull(),
  /** messages.seq up to which earlier mail is in it: -1 before it is created, null once all of it is. */
  filledThrough: integer("filled_through"),
  /**
   * Random for each batch, and stored in the index, too: proves that the index belongs to this state of the database.
   */
  mark: text("mark").notNull(),
  /** The mark before the batch that may be in progress. */
  previousMark: text("previous_mark"),
});

/** Progress of indexing stored mail; no row if the index is complete. */
export const searchBacklog = sqliteTable("search_backlog", {
  id: integer("id").primaryKey(),
  /** Messages below this messages.seq may be missing. */
  belowSeq: integer("below_seq").notNull(),
  /** Approximate number of them. */
  messages: integer("messages").notNull(),
});

/** Messages to be indexed soon, which the transaction that stored them could not afford. */
export const searchWaiting = sqliteTable("search_waiting", {
  messageSeq: integer("message_seq")
    .primaryKey()
    .references(() => messages.seq, { onDelete: "cascade" }),
});

/** How far stored HTML was read anew: one row, none before the server has run. */
export const seenRenewal = sqliteTable("seen_renewal", {
  id: integer("id").primaryKey(),
  /** The rules for visible text (SEEN_VERSION) that it is read with. */
  version: integer("version").notNull(),
  /** Messages below this messages.seq are still to be read. */
  belowSeq: integer("below_seq").notNull(),
});

/** Messages added, changed or deleted that Meilisearch does not know of yet. */
export const searchChanges = sqliteTable(
  "search_changes",
  {
    seq: integer("seq").primaryKey({ autoIncrement: true }),
    messageSeq: integer("message_seq").notNull(),
    /** The server refused the message. */
    refused: flag("refused").notNull().default(false),
  },
  (table) => [index("search_changes_refused").on(table.messageSeq).where(sql`refused = 1`)],
);
