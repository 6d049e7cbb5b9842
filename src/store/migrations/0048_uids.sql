-- What IMAP knows messages by. The folders of a mailbox have rows once it is first opened over IMAP; until then no message has
-- a UID and nothing here is written. By trigger, so that no way of changing mail can be forgotten (mailbox/uids.ts).
CREATE TABLE imap_folders (
  id INTEGER PRIMARY KEY,
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  folder TEXT NOT NULL CHECK (folder IN ('inbox', 'sent', 'drafts', 'archive', 'spam', 'trash')),
  uid_validity INTEGER NOT NULL,
  uid_next INTEGER NOT NULL,
  modseq INTEGER NOT NULL,
  fill_next INTEGER,
  vanished_through INTEGER NOT NULL,
  UNIQUE (mailbox_id, folder)
);
CREATE TABLE imap_messages (
  message_seq INTEGER PRIMARY KEY,
  folder_id INTEGER NOT NULL REFERENCES imap_folders(id) ON DELETE CASCADE,
  uid INTEGER NOT NULL,
  modseq INTEGER NOT NULL,
  flags INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX imap_messages_by_uid ON imap_messages(folder_id, uid, modseq);
CREATE TABLE imap_vanished (
  folder_id INTEGER NOT NULL REFERENCES imap_folders(id) ON DELETE CASCADE,
  modseq INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  PRIMARY KEY (folder_id, modseq, uid)
) WITHOUT ROWID;

CREATE TRIGGER imap_messages_begin AFTER INSERT ON messages
WHEN EXISTS (SELECT 1 FROM imap_folders WHERE mailbox_id = new.mailbox_id AND folder = new.folder) BEGIN
  UPDATE imap_folders SET uid_next = uid_next + 1, modseq = modseq + 1
    WHERE mailbox_id = new.mailbox_id AND folder = new.folder;
  INSERT INTO imap_messages (message_seq, folder_id, uid, modseq)
    SELECT new.seq, id, uid_next - 1, modseq FROM imap_folders WHERE mailbox_id = new.mailbox_id AND folder = new.folder;
END;

-- A message that moves, and a draft that is written anew, gets a new UID: its octets under a UID never change.
CREATE TRIGGER imap_messages_move AFTER UPDATE OF folder, filed_at, size ON messages
WHEN (old.folder <> new.folder OR new.kind = 'draft') AND EXISTS (SELECT 1 FROM imap_folders WHERE mailbox_id = new.mailbox_id) BEGIN
  UPDATE imap_folders SET modseq = modseq + 1 WHERE id = (SELECT folder_id FROM imap_messages WHERE message_seq = new.seq);
  INSERT INTO imap_vanished (folder_id, modseq, uid)
    SELECT imap_folders.id, imap_folders.modseq, uid
    FROM imap_messages JOIN imap_folders ON imap_folders.id = folder_id WHERE message_seq = new.seq;
  UPDATE imap_folders SET uid_next = uid_next + 1, modseq = modseq + 1
    WHERE mailbox_id = new.mailbox_id AND folder = new.folder;
  INSERT INTO imap_messages (message_seq, folder_id, uid, modseq)
    SELECT new.seq, id, uid_next - 1, modseq FROM imap_folders WHERE mailbox_id = new.mailbox_id AND folder = new.folder
    -- \Deleted (1) was said of the message where it was.
    ON CONFLICT (message_seq) DO UPDATE
      SET folder_id = excluded.folder_id, uid = excluded.uid, modseq = excluded.modseq, flags = flags & ~1;
END;

CREATE TRIGGER imap_messages_change AFTER UPDATE OF read, flagged ON messages
WHEN (old.read, old.flagged) IS NOT (new.read, new.flagged)
  AND EXISTS (SELECT 1 FROM imap_messages WHERE message_seq = new.seq) BEGIN
  UPDATE imap_folders SET modseq = modseq + 1 WHERE id = (SELECT folder_id FROM imap_messages WHERE message_seq = new.seq);
  UPDATE imap_messages SET modseq = (SELECT modseq FROM imap_folders WHERE id = folder_id) WHERE message_seq = new.seq;
END;

CREATE TRIGGER imap_messages_end AFTER DELETE ON messages
WHEN EXISTS (SELECT 1 FROM imap_messages WHERE message_seq = old.seq) BEGIN
  UPDATE imap_folders SET modseq = modseq + 1 WHERE id = (SELECT folder_id FROM imap_messages WHERE message_seq = old.seq);
  INSERT INTO imap_vanished (folder_id, modseq, uid)
    SELECT imap_folders.id, imap_folders.modseq, uid
    FROM imap_messages JOIN imap_folders ON imap_folders.id = folder_id WHERE message_seq = old.seq;
  DELETE FROM imap_messages WHERE message_seq = old.seq;
END;

-- Labels are keywords of every message of their conversation; messages.seq is threads.seq * 65536 + ordinal.
CREATE TRIGGER imap_messages_label AFTER INSERT ON thread_labels
WHEN EXISTS (SELECT 1 FROM imap_messages WHERE message_seq BETWEEN new.thread_seq * 65536 AND new.thread_seq * 65536 + 65535) BEGIN
  UPDATE imap_folders SET modseq = modseq + 1 WHERE id IN (SELECT folder_id FROM imap_messages
    WHERE message_seq BETWEEN new.thread_seq * 65536 AND new.thread_seq * 65536 + 65535);
  UPDATE imap_messages SET modseq = (SELECT modseq FROM imap_folders WHERE id = folder_id)
    WHERE message_seq BETWEEN new.thread_seq * 65536 AND new.thread_seq * 65536 + 65535;
END;
CREATE TRIGGER imap_messages_unlabel AFTER DELETE ON thread_labels
WHEN EXISTS (SELECT 1 FROM imap_messages WHERE message_seq BETWEEN old.thread_seq * 65536 AND old.thread_seq * 65536 + 65535) BEGIN
  UPDATE imap_folders SET modseq = modseq + 1 WHERE id IN (SELECT folder_id FROM imap_messages
    WHERE message_seq BETWEEN old.thread_seq * 65536 AND old.thread_seq * 65536 + 65535);
  UPDATE imap_messages SET modseq = (SELECT modseq FROM imap_folders WHERE id = folder_id)
    WHERE message_seq BETWEEN old.thread_seq * 65536 AND old.thread_seq * 65536 + 65535;
END;
