-- What API keys did: an entry for each transaction of a request, and one a minute for reads. Without foreign keys, because
-- the journal of a key outlives its person.
CREATE TABLE journal_entries (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  workspace_id TEXT NOT NULL,
  key_id TEXT NOT NULL,
  user_id TEXT,
  operation TEXT NOT NULL,
  face TEXT CHECK (face IN ('rest', 'mcp', 'smtp', 'schedule', 'app', 'cli')),
  client TEXT,
  source TEXT,
  ids TEXT NOT NULL,
  outcome TEXT NOT NULL,
  reads INTEGER,
  changes INTEGER NOT NULL,
  recipients INTEGER NOT NULL,
  sent INTEGER NOT NULL
);
CREATE INDEX journal_by_key ON journal_entries(workspace_id, key_id, at, seq);
CREATE INDEX journal_by_time ON journal_entries(at) WHERE reads IS NULL;
CREATE INDEX journal_reads_by_time ON journal_entries(at) WHERE reads IS NOT NULL;
CREATE INDEX journal_by_changes ON journal_entries(key_id, at, changes) WHERE changes > 0;
CREATE INDEX journal_by_recipients ON journal_entries(key_id, at, recipients) WHERE recipients > 0;
CREATE INDEX journal_by_sent ON journal_entries(key_id, at, sent) WHERE sent > 0;

-- What each change of a key needs to be taken back, a row a field of a conversation. Without foreign keys, because undo says
-- what it cannot take back any more.
CREATE TABLE key_changes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  workspace_id TEXT NOT NULL,
  key_id TEXT NOT NULL,
  mailbox_id TEXT NOT NULL,
  thread_seq INTEGER NOT NULL,
  thread_id TEXT NOT NULL,
  -- training: what a move taught the junk filter.
  field TEXT NOT NULL CHECK (field IN ('folder', 'starred', 'unread', 'label', 'training')),
  label_key TEXT,
  before TEXT NOT NULL,
  settled_by TEXT CHECK (settled_by IN ('person', 'key', 'mail', 'server', 'undone')),
  -- The change of another key that settled it, if that can be taken back.
  settled_seq INTEGER
);
CREATE INDEX key_changes_by_key ON key_changes(workspace_id, key_id, at, seq);
CREATE INDEX key_changes_by_thread ON key_changes(thread_seq, seq);
CREATE INDEX key_changes_by_mailbox ON key_changes(mailbox_id, label_key);
CREATE INDEX key_changes_settled ON key_changes(settled_seq) WHERE settled_seq IS NOT NULL;
CREATE INDEX key_changes_by_time ON key_changes(at);
