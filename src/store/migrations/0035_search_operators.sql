-- Searches by size read it from the indexes that they read dates from.
DROP INDEX messages_by_thread;
CREATE INDEX messages_by_thread ON messages (thread_seq, seq, date, size);
DROP INDEX messages_by_folder;
CREATE INDEX messages_by_folder ON messages (mailbox_id, folder, date DESC, seq DESC, kind, size);
-- The index knows the recipients in Cc as such (search/fold.ts): the server takes in again what has some.
INSERT OR IGNORE INTO search_waiting SELECT seq FROM messages WHERE cc <> '[]';
