/**
 * Describes how each table moves when a workspace moves to another server. test/moving/tables.test.ts holds that every table of
 * the schema is here, with every column that names a row by its number.
 *
 * Ids are kept. Numbers (`seq`) belong to a server, so rows get new ones: conversations as if they were new, with their
 * messages; other tables by a constant, which keeps their order.
 */

/**
 * When rows are written at the other server. `mail`: with their conversation. `log`: before the workspace is served, in
 * portions. `last`: in the transaction with which it begins to be served.
 */
export type Stage = "mail" | "log" | "last";

export interface Moved {
  stage: Stage;
  /** The table that its rows belong to, and the column that names the row there. */
  of: string;
  by: string;
  /** Columns with the numbers of rows, and the tables of these rows. `seq` or `id`: of its own. */
  numbers?: Readonly<Record<string, string>>;
  /** SQL in place of a column's value; `m` is the row as it was. */
  values?: Readonly<Record<string, string>>;
  /** A server adds rows for mail that came without them, which are no difference. */
  grows?: true;
}

/** A table whose rows are made again at the other server, or stay, and why. */
interface Left {
  left: string;
}

const ofWorkspace = (stage: Stage, more: Partial<Moved> = {}): Moved => ({
  stage,
  of: "workspaces",
  by: "workspace_id",
  ...more,
});
const ofMailbox = (stage: Stage, more: Partial<Moved> = {}): Moved => ({
  stage,
  of: "mailboxes",
  by: "mailbox_id",
  ...more,
});
const ofUser = (more: Partial<Moved> = {}): Moved => ({ stage: "last", of: "users", by: "user_id", ...more });
const ofMessage: Moved = {
  stage: "mail",
  of: "messages",
  by: "message_seq",
  numbers: { message_seq: "messages" },
};

/** In an order in which each comes after those that it belongs to, or names. */
export const TABLES: Readonly<Record<string, Moved | Left>> = {
  users: ofWorkspace("last"),
  mailboxes: ofWorkspace("last"),
  // Claims: an export proves nothing. What proves them, and what the import does then, is in finish.ts.
  domains: ofWorkspace("last", { values: { verified_at: "NULL", accepts_unverified: "0", lost_at: "NULL" } }),
  dkim_keys: { stage: "last", of: "domains", by: "domain_id" },
  addresses: ofMailbox("last"),
  grants: ofMailbox("last"),
  mailbox_usage: ofMailbox("last"),
  mailbox_labels: ofMailbox("last"),
  label_colours: ofMailbox("last"),
  left_lists: ofMailbox("last"),
  invitation_answers: ofMailbox("last"),
  mailbox_texts: ofMailbox("last"),
  mailbox_rules: ofMailbox("last"),
  absences: ofMailbox("last"),
  // Sessions stay, and the keys that they made end with them.
  api_keys: ofUser({
    values: { revoked_at: "coalesce(m.revoked_at, iif(m.made_by GLOB 'ses_*', m.created_at, NULL))" },
  }),
  app_passwords: ofUser(),
  oauth_grants: { stage: "last", of: "api_keys", by: "key_id" },
  oauth_tokens: { stage: "last", of: "oauth_grants", by: "key_id", numbers: { seq: "oauth_tokens" } },
  second_factors: ofUser(),
  recovery_codes: { stage: "last", of: "second_factors", by: "user_id" },
  image_senders: ofUser(),
  access_notices: ofUser({ numbers: { id: "access_notices" } }),
  idempotency_keys: { stage: "last", of: "api_keys", by: "api_key_id" },

  threads: ofMailbox("mail", { numbers: { seq: "threads" } }),
  thread_labels: { stage: "mail", of: "threads", by: "thread_seq", numbers: { thread_seq: "threads" } },
  thread_references: { stage: "mail", of: "threads", by: "thread_seq", numbers: { thread_seq: "threads" } },
  messages: {
    stage: "mail",
    of: "threads",
    by: "thread_seq",
    numbers: { seq: "messages", thread_seq: "threads" },
  },
  message_bodies: ofMessage,
  message_judgements: ofMessage,
  attachments: ofMessage,
  // What apps are told of its octets is read anew.
  message_octets: { ...ofMessage, values: { envelope: "NULL", structure: "NULL" }, grows: true },
  // The conversation that a draft answers may come later, and is set at the end.
  drafts: { ...ofMessage, values: { answers: "NULL" } },
  holds: ofMessage,
  automatic_mail: { ...ofMessage, numbers: { seq: "automatic_mail", message_seq: "messages" } },
  discarded_threads: { stage: "mail", of: "threads", by: "thread_seq", numbers: { thread_seq: "threads" } },
  discarded_messages: ofMessage,

  known_recipients: ofMailbox("log"),
  absence_replies: ofMailbox("log"),
  sender_verdicts: ofMailbox("log"),
  junk_filters: ofMailbox("log", { numbers: { seq: "junk_filters" } }),
  junk_tokens: { stage: "log", of: "junk_filters", by: "filter_seq", numbers: { filter_seq: "junk_filters" } },
  suppressions: ofWorkspace("log"),
  journal_entries: ofWorkspace("log", { numbers: { seq: "journal_entries" } }),
  key_changes: ofWorkspace("log", {
    numbers: { seq: "key_changes", settled_seq: "key_changes", thread_seq: "threads" },
  }),
  events: ofWorkspace("log", { numbers: { seq: "events" } }),
  webhook_endpoints: ofWorkspace("log", {
    numbers: { seq: "webhook_endpoints", after_event: "events", void_through: "webhook_deliveries" },
    // Nothing is due, and no event is for it, until the workspace is served.
    values: { due_at: "NULL", sweeping: "0", telling: "0", after_event: `${Number.MAX_SAFE_INTEGER}` },
  }),
  webhook_deliveries: {
    stage: "log",
    of: "webhook_endpoints",
    by: "endpoint_seq",
    numbers: { seq: "webhook_deliveries", endpoint_seq: "webhook_endpoints", event_seq: "events" },
    // An attempt that had not ended begins anew.
    values: { leased: "0" },
  },
  outbound_messages: ofWorkspace("log", { numbers: { seq: "outbound_messages" } }),
  outbound_contents: {
    stage: "log",
    of: "outbound_messages",
    by: "message_seq",
    numbers: { message_seq: "outbound_messages" },
  },
  queue_entries: {
    stage: "log",
    of: "outbound_messages",
    by: "message_seq",
    numbers: { seq: "queue_entries", message_seq: "outbound_messages" },
    // Parked, as outbound/queue.ts has it.
    values: { state: "iif(m.state = 'waiting', 'held', m.state)", leased: "0" },
  },

  workspace_usage: { left: "the sum of mailbox_usage" },
  workspaces: { left: "made for the import, with what the workspace itself has" },
  oauth_clients: { left: "programs register with a server; grants outlive that" },
  thread_changes: { left: "a server numbers changes; that conversations are gone is moved, for programs that follow" },
  imap_folders: { left: "a server numbers mail for IMAP; mail apps fetch it anew" },
  imap_messages: { left: "as imap_folders" },
  imap_vanished: { left: "as imap_folders" },
  imap_octets: { left: "as imap_folders" },
  octets_waiting: { left: "made for all mail that comes" },
  imap_labels: { left: "as imap_folders" },
  imap_labelled: { left: "as imap_folders" },
  imap_label_vanished: { left: "as imap_folders" },
  options: { left: "settings are of the server: the import says which differ" },
  push_keys: { left: "of the server" },
  push_subscriptions: { left: "they end with their sessions" },
  sessions: { left: "people sign in at the other server" },
  password_links: { left: "links lead to this server" },
  trace_steps: { left: "what happened at this server, by Message-IDs that several workspaces may have" },
  queue_domains: { left: "made from the queue" },
  seen_renewal: { left: "of the server; the HTML is read anew where it arrives" },
  search_backlog: { left: "the index is made from the mail" },
  search_waiting: { left: "the index is made from the mail" },
  search_feed: { left: "the index is made from the mail" },
  search_changes: { left: "the index is made from the mail" },
  webhook_cursor: { left: "of the server; the export says up to where the events of the workspace are announced" },
  greylist: { left: "of the server, about whoever sends to it" },
  known_networks: { left: "of the server, about whoever sends to it" },
  sign_in_sources: { left: "of the server, about whoever signs in to it" },
  mta_sts_policies: { left: "fetched again" },
};

/** The tables that are moved, in order. */
export const MOVED: readonly (Moved & { name: string })[] = Object.entries(TABLES).flatMap(([name, plan]) =>
  "left" in plan ? [] : [{ name, ...plan }],
);

/** SQL that is true of a row `t` that belongs to the row `p` of the table `of`. */
export const belongsToSql = ({ by, of }: Pick<Moved, "by" | "of">): string =>
  `t.${by} = p.${/seq$/.test(by) ? "seq" : (KEYS[of] ?? "id")}`;
const KEYS: Readonly<Record<string, string>> = { oauth_grants: "key_id", second_factors: "user_id" };
