-- The first schema: workspaces and people, mailboxes, conversations and messages, the search index, events.
-- Times are epoch milliseconds, booleans 0 or 1, lists and objects JSON. Every table is described in ../schema.ts.

CREATE TABLE options (
  name TEXT PRIMARY KEY,
  value TEXT NOT NULL
) WITHOUT ROWID;

CREATE TABLE workspaces (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE users (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
  email TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  role TEXT NOT NULL CHECK (role IN ('owner', 'admin', 'member')),
  password_hash TEXT,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX users_by_workspace ON users(workspace_id);

CREATE TABLE domains (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
  name TEXT NOT NULL UNIQUE,
  ownership_token TEXT NOT NULL,
  verified_at INTEGER,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX domains_by_workspace ON domains(workspace_id);

CREATE TABLE dkim_keys (
  domain_id TEXT NOT NULL REFERENCES domains(id) ON DELETE CASCADE,
  selector TEXT NOT NULL,
  algorithm TEXT NOT NULL CHECK (algorithm IN ('rsa', 'ed25519')),
  private_key TEXT NOT NULL,
  public_key TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (domain_id, selector)
) WITHOUT ROWID;

CREATE TABLE mailboxes (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
  address TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  owner_id TEXT REFERENCES users(id) ON DELETE SET NULL,
  quota_bytes INTEGER,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX mailboxes_by_workspace ON mailboxes(workspace_id);
CREATE INDEX mailboxes_by_owner ON mailboxes(owner_id);

CREATE TABLE addresses (
  address TEXT PRIMARY KEY,
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  domain_id TEXT NOT NULL REFERENCES domains(id),
  kind TEXT NOT NULL CHECK (kind IN ('primary', 'alias', 'catch-all')),
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX addresses_by_mailbox ON addresses(mailbox_id);
CREATE INDEX addresses_by_domain ON addresses(domain_id);

CREATE TABLE grants (
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
  access TEXT NOT NULL CHECK (access IN ('view', 'send', 'full')),
  PRIMARY KEY (mailbox_id, user_id)
) WITHOUT ROWID;
CREATE INDEX grants_by_user ON grants(user_id);

CREATE TABLE api_keys (
  id TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  hash TEXT NOT NULL UNIQUE,
  hint TEXT NOT NULL,
  scopes TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  last_used_at INTEGER,
  revoked_at INTEGER
) WITHOUT ROWID;
CREATE INDEX api_keys_by_user ON api_keys(user_id);

CREATE TABLE mailbox_usage (
  mailbox_id TEXT PRIMARY KEY REFERENCES mailboxes(id) ON DELETE CASCADE,
  bytes INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE threads (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  folder TEXT NOT NULL CHECK (folder IN ('inbox', 'sent', 'drafts', 'archive', 'spam', 'trash')),
  unread INTEGER NOT NULL,
  starred INTEGER NOT NULL,
  snoozed_until INTEGER,
  last_message_at INTEGER NOT NULL,
  has_attachments INTEGER NOT NULL,
  message_count INTEGER NOT NULL,
  next_ordinal INTEGER NOT NULL,
  received_on TEXT NOT NULL,
  subject TEXT NOT NULL,
  subject_key TEXT NOT NULL,
  snippet TEXT NOT NULL,
  counterpart TEXT NOT NULL,
  participants TEXT NOT NULL
);
CREATE INDEX threads_by_folder ON threads(mailbox_id, folder, last_message_at DESC, seq DESC, snoozed_until, has_attachments);
CREATE INDEX threads_by_time ON threads(mailbox_id, last_message_at DESC, seq DESC, folder, has_attachments);
CREATE INDEX threads_unread ON threads(mailbox_id, folder, last_message_at DESC, seq DESC, snoozed_until, has_attachments) WHERE unread = 1;
CREATE INDEX threads_starred ON threads(mailbox_id, last_message_at DESC, seq DESC, folder, has_attachments) WHERE starred = 1;
CREATE INDEX threads_snoozed ON threads(snoozed_until, mailbox_id) WHERE snoozed_until IS NOT NULL;
CREATE INDEX threads_by_subject ON threads(mailbox_id, subject_key, last_message_at DESC);

CREATE TABLE thread_labels (
  thread_seq INTEGER NOT NULL REFERENCES threads(seq) ON DELETE CASCADE,
  label_key TEXT NOT NULL,
  label TEXT NOT NULL,
  position INTEGER NOT NULL,
  PRIMARY KEY (thread_seq, label_key)
) WITHOUT ROWID;
CREATE INDEX thread_labels_by_key ON thread_labels(label_key, thread_seq);

CREATE TABLE thread_references (
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  message_id TEXT NOT NULL,
  thread_seq INTEGER NOT NULL REFERENCES threads(seq) ON DELETE CASCADE,
  PRIMARY KEY (mailbox_id, message_id, thread_seq)
) WITHOUT ROWID;
CREATE INDEX thread_references_by_thread ON thread_references(thread_seq);

CREATE TABLE messages (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  thread_seq INTEGER NOT NULL REFERENCES threads(seq) ON DELETE CASCADE,
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('received', 'sent', 'draft')),
  folder TEXT NOT NULL CHECK (folder IN ('inbox', 'sent', 'drafts', 'archive', 'spam', 'trash')),
  read INTEGER NOT NULL,
  date INTEGER NOT NULL,
  filed_at INTEGER NOT NULL,
  message_id TEXT,
  in_reply_to TEXT,
  "from" TEXT NOT NULL,
  "to" TEXT NOT NULL,
  cc TEXT NOT NULL,
  bcc TEXT NOT NULL,
  reply_to TEXT NOT NULL,
  subject TEXT NOT NULL,
  snippet TEXT NOT NULL,
  received_on TEXT,
  sent_by TEXT,
  size INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  has_attachments INTEGER NOT NULL,
  auth TEXT,
  delivered_at INTEGER
);
CREATE INDEX messages_by_thread ON messages(thread_seq, seq, date);
CREATE INDEX messages_by_date ON messages(mailbox_id, date DESC, seq DESC, kind);
CREATE INDEX messages_by_folder ON messages(mailbox_id, folder, date DESC, seq DESC, kind);
CREATE INDEX messages_by_message_id ON messages(mailbox_id, message_id);

CREATE TABLE message_bodies (
  message_seq INTEGER PRIMARY KEY REFERENCES messages(seq) ON DELETE CASCADE,
  headers TEXT NOT NULL,
  text TEXT NOT NULL,
  html TEXT,
  html_source BLOB,
  sanitizer INTEGER NOT NULL
);

CREATE TABLE attachments (
  id TEXT PRIMARY KEY,
  message_seq INTEGER NOT NULL REFERENCES messages(seq) ON DELETE CASCADE,
  position INTEGER NOT NULL,
  filename TEXT NOT NULL,
  content_type TEXT NOT NULL,
  size INTEGER NOT NULL,
  inline INTEGER NOT NULL,
  content_id TEXT,
  blob TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX attachments_by_message ON attachments(message_seq, position);
CREATE INDEX attachments_by_blob ON attachments(blob);

-- One document a message; rowid = messages.seq. Contentless: the words are folded by search/fold.ts, so the tokenizer
-- only splits at spaces and ASCII punctuation. Merging is done aside, in small steps (search/fts5.ts). Where that falls
-- behind, filing merges a little with each commit (automerge at 16 segments a level instead of 4), long before it would
-- have to merge a whole level at once (crisismerge), which stalls for most of a second.
CREATE VIRTUAL TABLE message_index USING fts5(
  scope, subject, body, sender, recipients, files,
  content = '', contentless_delete = 1, tokenize = 'ascii'
);
INSERT INTO message_index (message_index, rank) VALUES ('automerge', 16), ('crisismerge', 64);

CREATE TABLE sender_verdicts (
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  sender TEXT NOT NULL,
  verdict TEXT NOT NULL CHECK (verdict IN ('spam', 'forgiven')),
  trained_at INTEGER NOT NULL,
  PRIMARY KEY (mailbox_id, sender)
) WITHOUT ROWID;

CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
  event TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  data TEXT NOT NULL
);

-- The index has no foreign keys: it follows its messages by trigger, so that no way of deleting mail can leave words
-- of it behind.
CREATE TRIGGER messages_leave_index AFTER DELETE ON messages BEGIN
  DELETE FROM message_index WHERE rowid = old.seq;
END;
