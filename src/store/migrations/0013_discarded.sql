-- Conversations in trash or spam, for retention.trashDays: since when, once somebody has looked (mailbox/retention.ts).
-- Which they are is kept by triggers, whatever moves them; moving one from either to the other begins anew.
CREATE TABLE discarded_threads (
  thread_seq INTEGER PRIMARY KEY REFERENCES threads(seq) ON DELETE CASCADE,
  since INTEGER
);
CREATE INDEX discarded_threads_by_time ON discarded_threads(since);
INSERT INTO discarded_threads (thread_seq) SELECT seq FROM threads WHERE folder IN ('trash', 'spam');

CREATE TRIGGER threads_begin_discarded AFTER INSERT ON threads WHEN new.folder IN ('trash', 'spam') BEGIN
  INSERT INTO discarded_threads (thread_seq) VALUES (new.seq);
END;
CREATE TRIGGER threads_are_discarded AFTER UPDATE OF folder ON threads
WHEN new.folder <> old.folder AND new.folder IN ('trash', 'spam') BEGIN
  INSERT INTO discarded_threads (thread_seq) VALUES (new.seq) ON CONFLICT (thread_seq) DO UPDATE SET since = NULL;
END;
CREATE TRIGGER threads_come_back AFTER UPDATE OF folder ON threads
WHEN new.folder <> old.folder AND new.folder NOT IN ('trash', 'spam') BEGIN
  DELETE FROM discarded_threads WHERE thread_seq = new.seq;
END;
