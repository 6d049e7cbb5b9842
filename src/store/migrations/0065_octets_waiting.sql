-- Mail from before octets were kept, mail that was moved here, and mail whose octets could not be made (lost).
CREATE TABLE octets_waiting (
  message_seq INTEGER PRIMARY KEY REFERENCES messages(seq) ON DELETE CASCADE,
  filed_at INTEGER NOT NULL,
  lost INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX octets_waiting_newest ON octets_waiting(lost, filed_at);
INSERT INTO octets_waiting (message_seq, filed_at)
SELECT seq, filed_at FROM messages
WHERE kind <> 'draft' AND NOT EXISTS (SELECT 1 FROM message_octets WHERE message_seq = seq);

-- Nothing is frozen any more: what mail apps were told is compared with what is kept, once.
DROP TRIGGER message_octets_kept;
DROP TRIGGER imap_octets_rewritten;
CREATE TRIGGER imap_octets_rewritten AFTER UPDATE OF filed_at, size ON messages WHEN new.kind = 'draft' BEGIN
  DELETE FROM imap_octets WHERE message_seq = new.seq;
END;
DROP INDEX imap_messages_by_octets;
ALTER TABLE imap_messages DROP COLUMN octets;
ALTER TABLE imap_octets DROP COLUMN size;
ALTER TABLE imap_octets DROP COLUMN composer;
ALTER TABLE imap_octets DROP COLUMN structure;
