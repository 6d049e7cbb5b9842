-- Size and digest of the octets of a message as IMAP serves them, for its author where they see its Bcc, and for everybody
-- else. What a client was told once stays true. structure: BODYSTRUCTURE, unless it is long.
CREATE TABLE imap_octets (
  message_seq INTEGER NOT NULL REFERENCES messages(seq) ON DELETE CASCADE,
  author INTEGER NOT NULL,
  size INTEGER NOT NULL,
  digest BLOB NOT NULL,
  composer INTEGER NOT NULL,
  structure TEXT,
  PRIMARY KEY (message_seq, author)
) WITHOUT ROWID;

-- 0: the octets are to be frozen, 1: they are, 2: they cannot be composed, 3: they are no longer what they were.
ALTER TABLE imap_messages ADD COLUMN octets INTEGER NOT NULL DEFAULT 0;
CREATE INDEX imap_messages_by_octets ON imap_messages(octets, folder_id, uid) WHERE octets <> 1;

-- A draft that is written anew has another UID (0048_uids.sql), and other octets.
CREATE TRIGGER imap_octets_rewritten AFTER UPDATE OF filed_at, size ON messages WHEN new.kind = 'draft' BEGIN
  DELETE FROM imap_octets WHERE message_seq = new.seq;
  UPDATE imap_messages SET octets = 0 WHERE message_seq = new.seq;
END;
