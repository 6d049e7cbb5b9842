-- What changed last in each conversation, by whomever and in whatever process: open pages follow it. By trigger, so that
-- no way of changing mail can be forgotten. A conversation stands in it once; the oldest go.
CREATE TABLE thread_changes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  -- By number: those of new conversations grow, so their entries of the index lie together.
  thread_seq INTEGER NOT NULL UNIQUE,
  thread_id TEXT NOT NULL,
  mailbox_id TEXT NOT NULL
);

CREATE TRIGGER thread_changes_once BEFORE INSERT ON thread_changes BEGIN
  DELETE FROM thread_changes WHERE thread_seq = new.thread_seq;
END;
CREATE TRIGGER thread_changes_bounded AFTER INSERT ON thread_changes WHEN new.seq % 256 = 0 BEGIN
  DELETE FROM thread_changes WHERE seq <= new.seq - 20000;
END;

CREATE TRIGGER threads_begin AFTER INSERT ON threads BEGIN
  INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id) VALUES (new.seq, new.id, new.mailbox_id);
END;
CREATE TRIGGER threads_change AFTER UPDATE ON threads
WHEN (old.folder, old.unread, old.starred, old.snoozed_until, old.last_message_at, old.message_count, old.subject, old.snippet)
  IS NOT (new.folder, new.unread, new.starred, new.snoozed_until, new.last_message_at, new.message_count, new.subject, new.snippet)
BEGIN
  INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id) VALUES (new.seq, new.id, new.mailbox_id);
END;
CREATE TRIGGER threads_end AFTER DELETE ON threads BEGIN
  INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id) VALUES (old.seq, old.id, old.mailbox_id);
END;
CREATE TRIGGER queue_entries_settle AFTER UPDATE OF state ON queue_entries WHEN old.state <> new.state BEGIN
  INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id)
    SELECT threads.seq, threads.id, threads.mailbox_id FROM outbound_messages JOIN threads ON threads.id = thread_id
    WHERE outbound_messages.seq = new.message_seq AND notice = 0;
END;

-- The labels in use in each mailbox, and in how many conversations: to be suggested without reading those.
CREATE TABLE mailbox_labels (
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  label_key TEXT NOT NULL,
  label TEXT NOT NULL,
  threads INTEGER NOT NULL,
  PRIMARY KEY (mailbox_id, label_key)
) WITHOUT ROWID;
INSERT INTO mailbox_labels (mailbox_id, label_key, label, threads)
  SELECT mailbox_id, label_key, label, count(*) FROM thread_labels JOIN threads ON threads.seq = thread_seq
  GROUP BY mailbox_id, label_key;

CREATE TRIGGER thread_labels_begin AFTER INSERT ON thread_labels BEGIN
  INSERT INTO mailbox_labels (mailbox_id, label_key, label, threads)
    SELECT mailbox_id, new.label_key, new.label, 1 FROM threads WHERE seq = new.thread_seq
    ON CONFLICT DO UPDATE SET threads = threads + 1;
  INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id) SELECT seq, id, mailbox_id FROM threads WHERE seq = new.thread_seq;
END;
CREATE TRIGGER thread_labels_end AFTER DELETE ON thread_labels BEGIN
  UPDATE mailbox_labels SET threads = threads - 1
    WHERE label_key = old.label_key AND mailbox_id = (SELECT mailbox_id FROM threads WHERE seq = old.thread_seq);
  DELETE FROM mailbox_labels WHERE threads = 0
    AND label_key = old.label_key AND mailbox_id = (SELECT mailbox_id FROM threads WHERE seq = old.thread_seq);
  INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id) SELECT seq, id, mailbox_id FROM threads WHERE seq = old.thread_seq;
END;
-- While the conversation can still be asked for its mailbox: the foreign key would act too late.
CREATE TRIGGER threads_leave_labels BEFORE DELETE ON threads BEGIN
  DELETE FROM thread_labels WHERE thread_seq = old.seq;
END;
