-- Messages of API keys that wait for a person, in the drafts of their mailbox; afterwards, who decided.
CREATE TABLE holds (
  message_seq INTEGER PRIMARY KEY REFERENCES messages(seq) ON DELETE CASCADE,
  message_id TEXT NOT NULL UNIQUE,
  mailbox_id TEXT NOT NULL,
  key_id TEXT NOT NULL,
  user_id TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('waiting', 'approved', 'rejected', 'sent')),
  reason TEXT NOT NULL,
  since INTEGER NOT NULL,
  send_at INTEGER,
  answers TEXT,
  recipients TEXT NOT NULL,
  dsn TEXT NOT NULL,
  size INTEGER,
  bytes BLOB,
  blob TEXT,
  decided_by TEXT,
  decided_at INTEGER,
  told_at INTEGER
);
CREATE INDEX holds_by_state ON holds (state, since) WHERE state <> 'sent';
CREATE INDEX holds_by_mailbox ON holds (mailbox_id, state, since) WHERE state <> 'sent';
CREATE INDEX holds_told ON holds (mailbox_id, told_at) WHERE told_at IS NOT NULL;
CREATE INDEX holds_by_blob ON holds (blob) WHERE blob IS NOT NULL;
