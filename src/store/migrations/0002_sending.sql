ALTER TABLE workspaces ADD COLUMN paused_reason TEXT;
ALTER TABLE mailboxes ADD COLUMN paused_reason TEXT;

-- Answers to be replayed. A key that is in use and not here yet is known to the process alone: a crash frees it.
CREATE TABLE idempotency_keys (
  api_key_id TEXT NOT NULL REFERENCES api_keys(id) ON DELETE CASCADE,
  key TEXT NOT NULL,
  fingerprint TEXT NOT NULL,
  status INTEGER NOT NULL,
  response TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (api_key_id, key)
) WITHOUT ROWID;
CREATE INDEX idempotency_keys_by_time ON idempotency_keys(created_at);

-- No foreign keys to mailboxes or messages: what was accepted is sent and answered for, whatever is removed meanwhile.
CREATE TABLE outbound_messages (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  workspace_id TEXT NOT NULL,
  mailbox_id TEXT NOT NULL,
  mailbox TEXT NOT NULL,
  thread_id TEXT NOT NULL,
  message_id TEXT NOT NULL,
  subject TEXT NOT NULL,
  domain TEXT NOT NULL,
  return_path TEXT NOT NULL UNIQUE,
  accepted_at INTEGER NOT NULL,
  recipients INTEGER NOT NULL,
  outside_recipients INTEGER NOT NULL,
  mailbox_total INTEGER NOT NULL,
  workspace_total INTEGER NOT NULL
);
-- The caps look up the first of a window, and the last, and read no row.
CREATE INDEX outbound_by_mailbox ON outbound_messages(mailbox_id, accepted_at, mailbox_total, recipients);
CREATE INDEX outbound_by_mailbox_total ON outbound_messages(mailbox_id, mailbox_total, accepted_at);
CREATE INDEX outbound_by_workspace ON outbound_messages(workspace_id, accepted_at, workspace_total, recipients);
CREATE INDEX outbound_by_workspace_total ON outbound_messages(workspace_id, workspace_total, accepted_at);
-- Warm-up adds up, of a day and no more than its ceiling.
CREATE INDEX outbound_by_domain ON outbound_messages(domain, accepted_at, outside_recipients);
CREATE INDEX outbound_by_message_id ON outbound_messages(message_id);

CREATE TABLE outbound_contents (
  message_seq INTEGER PRIMARY KEY REFERENCES outbound_messages(seq) ON DELETE CASCADE,
  size INTEGER NOT NULL,
  bytes BLOB,
  blob TEXT
);
CREATE INDEX outbound_contents_by_blob ON outbound_contents(blob) WHERE blob IS NOT NULL;

CREATE TABLE queue_entries (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  message_seq INTEGER NOT NULL REFERENCES outbound_messages(seq) ON DELETE CASCADE,
  recipient TEXT NOT NULL,
  name TEXT,
  field TEXT NOT NULL CHECK (field IN ('to', 'cc', 'bcc')),
  domain TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'held', 'delivered', 'bounced', 'cancelled')),
  due_at INTEGER,
  leased INTEGER NOT NULL DEFAULT 0,
  attempts INTEGER NOT NULL DEFAULT 0,
  reply TEXT,
  settled_at INTEGER,
  complained_at INTEGER
);
CREATE INDEX queue_entries_by_message ON queue_entries(message_seq);
CREATE INDEX queue_entries_due ON queue_entries(domain, due_at) WHERE state = 'waiting';
CREATE INDEX queue_entries_unsettled ON queue_entries(state, seq) WHERE state IN ('waiting', 'held');

CREATE TABLE queue_domains (
  domain TEXT PRIMARY KEY,
  due_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX queue_domains_by_due ON queue_domains(due_at);

CREATE TABLE suppressions (
  id TEXT NOT NULL UNIQUE,
  workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
  address TEXT NOT NULL,
  reason TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (workspace_id, address)
) WITHOUT ROWID;
