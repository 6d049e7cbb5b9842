-- The index knows the visible words of the HTML, too (search/fold.ts): the server takes in again what has some of its own.
INSERT OR IGNORE INTO search_waiting SELECT message_seq FROM message_bodies WHERE seen_text IS NOT NULL;
-- How far stored HTML was read anew with the present rules for visible text (mailbox/renewal.ts).
CREATE TABLE seen_renewal (
  id INTEGER PRIMARY KEY,
  version INTEGER NOT NULL,
  below_seq INTEGER NOT NULL
);
