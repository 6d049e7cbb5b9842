-- A message that a mail app moved stays in its folder when new mail brings its conversation back, also while both are in one.
ALTER TABLE messages ADD COLUMN apart INTEGER NOT NULL DEFAULT 0;
UPDATE messages SET apart = 1 WHERE seq IN (
  SELECT messages.seq FROM messages JOIN threads ON threads.seq = messages.seq / 65536
  WHERE messages.folder <> CASE
    WHEN messages.kind = 'received' OR threads.folder IN ('trash', 'spam') THEN threads.folder
    WHEN messages.kind = 'sent' THEN 'sent' ELSE 'drafts' END
);

-- discarded_messages has the messages that are apart in trash or spam, whatever moves them.
DELETE FROM discarded_messages
  WHERE message_seq NOT IN (SELECT seq FROM messages WHERE apart = 1 AND folder IN ('trash', 'spam'));
INSERT OR IGNORE INTO discarded_messages (message_seq)
  SELECT seq FROM messages WHERE apart = 1 AND folder IN ('trash', 'spam');
CREATE TRIGGER messages_are_discarded AFTER UPDATE OF folder, apart ON messages
WHEN (old.folder, old.apart) IS NOT (new.folder, new.apart) BEGIN
  DELETE FROM discarded_messages WHERE message_seq = new.seq;
  INSERT INTO discarded_messages (message_seq) SELECT new.seq WHERE new.apart = 1 AND new.folder IN ('trash', 'spam');
END;
