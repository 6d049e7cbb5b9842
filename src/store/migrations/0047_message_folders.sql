-- A message has a folder and a flag of its own: mail apps move and flag single messages. Of a conversation that was starred
-- before, the message that stands for it is flagged.
ALTER TABLE messages ADD COLUMN flagged INTEGER NOT NULL DEFAULT 0;
UPDATE messages SET flagged = 1 WHERE seq IN (
  SELECT (SELECT seq FROM messages WHERE thread_seq = threads.seq ORDER BY kind = 'received' DESC, date DESC, seq DESC LIMIT 1)
  FROM threads WHERE starred = 1
);

-- Messages in trash or spam whose conversation is elsewhere, for retention.trashDays; discarded_threads has the others.
CREATE TABLE discarded_messages (
  message_seq INTEGER PRIMARY KEY REFERENCES messages(seq) ON DELETE CASCADE,
  since INTEGER
);
CREATE INDEX discarded_messages_by_time ON discarded_messages(since);

-- What we wrote and a mail app has put there, among much that others wrote.
CREATE INDEX messages_outgoing_moved ON messages(mailbox_id, folder, date, seq)
  WHERE kind <> 'received' AND folder IN ('inbox', 'archive');
