ALTER TABLE users ADD COLUMN undo_seconds INTEGER NOT NULL DEFAULT 10;

CREATE TABLE drafts (
  message_seq INTEGER PRIMARY KEY REFERENCES messages(seq) ON DELETE CASCADE,
  revision INTEGER NOT NULL,
  answers INTEGER REFERENCES threads(seq) ON DELETE SET NULL,
  unfinished TEXT NOT NULL,
  agent TEXT,
  due_at INTEGER,
  due_by TEXT,
  refusal TEXT
);
CREATE INDEX drafts_by_answered ON drafts(answers) WHERE answers IS NOT NULL;
CREATE INDEX drafts_due ON drafts(due_at) WHERE due_at IS NOT NULL;

-- Drafts from before knew what they answer by its Message-ID alone.
INSERT INTO drafts (message_seq, revision, unfinished, answers)
SELECT seq, 1, '{"to":"","cc":"","bcc":""}', (
  SELECT answered.thread_seq FROM messages AS answered
  WHERE answered.mailbox_id = draft.mailbox_id AND answered.message_id = draft.in_reply_to AND answered.kind <> 'draft'
  LIMIT 1)
FROM messages AS draft WHERE kind = 'draft';
