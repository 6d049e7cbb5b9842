-- What Meilisearch, where it is the engine, has yet to be told (search/meilisearch/feed.ts). Without it both stay empty.
CREATE TABLE search_feed (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  active INTEGER NOT NULL,
  index_uid TEXT NOT NULL,
  replaced_uid TEXT,
  settings_version INTEGER NOT NULL,
  filled_through INTEGER,
  mark TEXT NOT NULL,
  previous_mark TEXT
);
CREATE TABLE search_changes (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  message_seq INTEGER NOT NULL,
  refused INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX search_changes_refused ON search_changes(message_seq) WHERE refused = 1;

-- As with message_index: no way of deleting mail can leave words of it behind.
CREATE TRIGGER messages_leave_search AFTER DELETE ON messages WHEN (SELECT active FROM search_feed) BEGIN
  INSERT INTO search_changes (message_seq) VALUES (old.seq);
END;
