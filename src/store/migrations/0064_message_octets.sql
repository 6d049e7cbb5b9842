-- The octets of a message as they came, or as they were signed and sent, without the attachments that are blobs anyway
-- (message/skeleton.ts); and what mail apps ask for most.
CREATE TABLE message_octets (
  message_seq INTEGER PRIMARY KEY REFERENCES messages(seq) ON DELETE CASCADE,
  -- Of all octets.
  size INTEGER NOT NULL,
  -- SHA-256 of all octets, and of those that everybody sees, where these are fewer.
  digest BLOB NOT NULL,
  served_digest BLOB,
  -- What not everybody sees: [[start, end, "bcc" or "results"], …].
  hidden TEXT,
  -- As IMAP tells them, unless they are long.
  envelope TEXT,
  structure TEXT,
  -- Packed, in the row or as a blob.
  skeleton BLOB,
  blob TEXT
);
CREATE INDEX message_octets_by_blob ON message_octets(blob) WHERE blob IS NOT NULL;

-- A mail app is served these, so nothing is to be frozen.
CREATE TRIGGER message_octets_kept AFTER INSERT ON message_octets BEGIN
  UPDATE imap_messages SET octets = 1 WHERE message_seq = new.message_seq;
END;
