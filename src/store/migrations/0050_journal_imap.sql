-- Requests over IMAP have a face of their own.
CREATE TABLE new_journal_entries (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  workspace_id TEXT NOT NULL,
  key_id TEXT NOT NULL,
  user_id TEXT,
  operation TEXT NOT NULL,
  face TEXT CHECK (face IN ('rest', 'mcp', 'smtp', 'imap', 'schedule', 'app', 'cli')),
  client TEXT,
  source TEXT,
  ids TEXT NOT NULL,
  outcome TEXT NOT NULL,
  reads INTEGER,
  changes INTEGER NOT NULL,
  recipients INTEGER NOT NULL,
  sent INTEGER NOT NULL
);
INSERT INTO new_journal_entries SELECT seq, at, workspace_id, key_id, user_id, operation, face, client, source, ids, outcome,
  reads, changes, recipients, sent FROM journal_entries;
-- Numbers stay in use up to the highest ever given.
DELETE FROM sqlite_sequence WHERE name = 'new_journal_entries';
INSERT INTO sqlite_sequence (name, seq) SELECT 'new_journal_entries', seq FROM sqlite_sequence WHERE name = 'journal_entries';
DROP TABLE journal_entries;
ALTER TABLE new_journal_entries RENAME TO journal_entries;
CREATE INDEX journal_by_key ON journal_entries(workspace_id, key_id, at, seq);
CREATE INDEX journal_by_time ON journal_entries(at) WHERE reads IS NULL;
CREATE INDEX journal_reads_by_time ON journal_entries(at) WHERE reads IS NOT NULL;
CREATE INDEX journal_by_changes ON journal_entries(key_id, at, changes) WHERE changes > 0;
CREATE INDEX journal_by_recipients ON journal_entries(key_id, at, recipients) WHERE recipients > 0;
CREATE INDEX journal_by_sent ON journal_entries(key_id, at, sent) WHERE sent > 0;
