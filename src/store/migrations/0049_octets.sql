-- Size and digest of the octets of a message as IMAP first served them, for its author where they see its Bcc, and for
-- everybody else. What a client was told once stays true.
CREATE TABLE imap_octets (
  message_seq INTEGER NOT NULL REFERENCES messages(seq) ON DELETE CASCADE,
  author INTEGER NOT NULL,
  size INTEGER NOT NULL,
  digest BLOB NOT NULL,
  composer INTEGER NOT NULL,
  PRIMARY KEY (message_seq, author)
) WITHOUT ROWID;

-- A draft that is written anew has another UID (0048_uids.sql), and other octets.
CREATE TRIGGER imap_octets_rewritten AFTER UPDATE OF filed_at, size ON messages WHEN new.kind = 'draft' BEGIN
  DELETE FROM imap_octets WHERE message_seq = new.seq;
END;
