-- The index in half the room: what most words stand in comes first, which FTS5 need not say at each place, and documents
-- have numbers that lie close together (search/document-number.ts). It begins empty. Folding is done by the program, so
-- the server takes in what is stored (search/backlog.ts), the newest first.
DROP TRIGGER messages_leave_index;
DROP TABLE message_index;
CREATE VIRTUAL TABLE message_index USING fts5(
  body, subject, sender, recipients, files, scope,
  content = '', contentless_delete = 1, tokenize = 'ascii'
);
-- While nothing else is to do, any two segments of a level are merged (search/upkeep.ts): each has a list of words of its own.
INSERT INTO message_index (message_index, rank) VALUES ('automerge', 16), ('crisismerge', 64), ('usermerge', 2);

-- No way of deleting mail can leave words of it behind. The document's number, as in search/document-number.ts.
CREATE TRIGGER messages_leave_index AFTER DELETE ON messages BEGIN
  DELETE FROM message_index WHERE rowid = iif(old.seq % 65536 < 32,
    old.seq / 268435456 * 131072 + old.seq % 65536 / 4 * 16384 + old.seq / 65536 % 4096 * 4 + old.seq % 4,
    old.seq + 281474976710656);
END;

-- Stored messages that the index may lack; no row when it has all.
CREATE TABLE search_backlog (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  below_seq INTEGER NOT NULL,
  messages INTEGER NOT NULL
);
INSERT INTO search_backlog SELECT 1, max(seq) + 1, count(*) FROM messages HAVING count(*) > 0;
