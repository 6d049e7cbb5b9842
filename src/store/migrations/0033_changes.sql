-- thread_changes gets the kind and the time of each change, for programs that follow it, and is kept for days instead of
-- for a number of changes. Who gains or loses reach of a mailbox stands in it, too: a row with user_id, for that mailbox,
-- or for all of the workspace where it is null. Times are added at the end of each transaction (mailbox/change-feed.ts).
DROP TRIGGER threads_begin;
DROP TRIGGER threads_change;
DROP TRIGGER threads_end;
DROP TRIGGER queue_entries_settle;
DROP TRIGGER thread_labels_begin;
DROP TRIGGER thread_labels_end;

CREATE TABLE thread_changes_new (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  thread_seq INTEGER UNIQUE,
  thread_id TEXT,
  mailbox_id TEXT,
  kind TEXT NOT NULL,
  at INTEGER,
  user_id TEXT,
  -- The highest threads.seq by then: later conversations have rows of their own.
  through INTEGER
);
INSERT INTO thread_changes_new (seq, thread_seq, thread_id, mailbox_id, kind)
  SELECT seq, thread_seq, thread_id, mailbox_id,
    iif(EXISTS (SELECT 1 FROM threads WHERE threads.seq = thread_seq), 'upserted', 'gone')
  FROM thread_changes;
INSERT INTO sqlite_sequence (name, seq)
  SELECT 'thread_changes_new', 0 WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'thread_changes_new');
UPDATE sqlite_sequence SET seq = coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'thread_changes'), 0)
  WHERE name = 'thread_changes_new';
DROP TABLE thread_changes;
ALTER TABLE thread_changes_new RENAME TO thread_changes;
CREATE INDEX thread_changes_by_user ON thread_changes(user_id) WHERE user_id IS NOT NULL;

CREATE TRIGGER thread_changes_once BEFORE INSERT ON thread_changes WHEN new.thread_seq IS NOT NULL BEGIN
  DELETE FROM thread_changes WHERE thread_seq = new.thread_seq;
END;

CREATE TRIGGER threads_begin AFTER INSERT ON threads BEGIN
  INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id, kind) VALUES (new.seq, new.id, new.mailbox_id, 'upserted');
END;
CREATE TRIGGER threads_change AFTER UPDATE ON threads
WHEN (old.folder, old.unread, old.starred, old.snoozed_until, old.last_message_at, old.message_count, old.subject, old.snippet)
  IS NOT (new.folder, new.unread, new.starred, new.snoozed_until, new.last_message_at, new.message_count, new.subject, new.snippet)
BEGIN
  INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id, kind) VALUES (new.seq, new.id, new.mailbox_id, 'upserted');
END;
CREATE TRIGGER threads_end AFTER DELETE ON threads BEGIN
  INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id, kind) VALUES (old.seq, old.id, old.mailbox_id, 'gone');
END;
CREATE TRIGGER queue_entries_settle AFTER UPDATE OF state ON queue_entries WHEN old.state <> new.state BEGIN
  INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id, kind)
    SELECT threads.seq, threads.id, threads.mailbox_id, 'upserted'
    FROM outbound_messages JOIN threads ON threads.id = thread_id
    WHERE outbound_messages.seq = new.message_seq AND notice = 0;
END;
CREATE TRIGGER thread_labels_begin AFTER INSERT ON thread_labels BEGIN
  INSERT INTO mailbox_labels (mailbox_id, label_key, label, threads)
    SELECT mailbox_id, new.label_key, new.label, 1 FROM threads WHERE seq = new.thread_seq
    ON CONFLICT DO UPDATE SET threads = threads + 1;
  INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id, kind)
    SELECT seq, id, mailbox_id, 'upserted' FROM threads WHERE seq = new.thread_seq;
END;
CREATE TRIGGER thread_labels_end AFTER DELETE ON thread_labels BEGIN
  UPDATE mailbox_labels SET threads = threads - 1
    WHERE label_key = old.label_key AND mailbox_id = (SELECT mailbox_id FROM threads WHERE seq = old.thread_seq);
  DELETE FROM mailbox_labels WHERE threads = 0
    AND label_key = old.label_key AND mailbox_id = (SELECT mailbox_id FROM threads WHERE seq = old.thread_seq);
  INSERT INTO thread_changes (thread_seq, thread_id, mailbox_id, kind)
    SELECT seq, id, mailbox_id, 'upserted' FROM threads WHERE seq = old.thread_seq;
END;

-- The person of a row may be going at this moment: a foreign key then removes a share, or takes an owner away.
CREATE TRIGGER grants_reach AFTER INSERT ON grants BEGIN
  INSERT INTO thread_changes (mailbox_id, kind, user_id, through)
    VALUES (new.mailbox_id, 'upserted', new.user_id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'threads'), 0));
END;
CREATE TRIGGER grants_end AFTER DELETE ON grants BEGIN
  INSERT INTO thread_changes (mailbox_id, kind, user_id, through)
    SELECT old.mailbox_id, 'gone', id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'threads'), 0) FROM users WHERE id = old.user_id;
END;
CREATE TRIGGER mailboxes_change_owner AFTER UPDATE OF owner_id ON mailboxes WHEN old.owner_id IS NOT new.owner_id BEGIN
  INSERT INTO thread_changes (mailbox_id, kind, user_id, through)
    SELECT new.id, 'gone', id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'threads'), 0) FROM users WHERE id = old.owner_id;
  INSERT INTO thread_changes (mailbox_id, kind, user_id, through)
    SELECT new.id, 'upserted', id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'threads'), 0) FROM users WHERE id = new.owner_id;
END;
CREATE TRIGGER mailboxes_end BEFORE DELETE ON mailboxes BEGIN
  INSERT INTO thread_changes (mailbox_id, kind, user_id, through)
    SELECT old.id, 'gone', id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'threads'), 0) FROM users
    WHERE workspace_id = old.workspace_id AND (role <> 'member' OR id = old.owner_id);
END;
CREATE TRIGGER users_change_role AFTER UPDATE OF role ON users
WHEN (old.role = 'member') <> (new.role = 'member') BEGIN
  INSERT INTO thread_changes (kind, user_id, through)
    VALUES (iif(new.role = 'member', 'gone', 'upserted'), new.id, coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'threads'), 0));
END;
CREATE TRIGGER users_end AFTER DELETE ON users BEGIN
  DELETE FROM thread_changes WHERE user_id = old.id;
END;
