-- What is learned of a From that fails DMARC is kept apart from what is learned of the sender whose address it shows.
CREATE TABLE sender_verdicts_of_either (
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  sender TEXT NOT NULL,
  spoofed INTEGER NOT NULL,
  verdict TEXT NOT NULL CHECK (verdict IN ('spam', 'forgiven', 'answered')),
  trained_at INTEGER NOT NULL,
  PRIMARY KEY (mailbox_id, sender, spoofed)
) WITHOUT ROWID;
INSERT INTO sender_verdicts_of_either SELECT mailbox_id, sender, 0, verdict, trained_at FROM sender_verdicts;
DROP TABLE sender_verdicts;
ALTER TABLE sender_verdicts_of_either RENAME TO sender_verdicts;

CREATE TABLE junk_filters (
  seq INTEGER PRIMARY KEY,
  mailbox_id TEXT NOT NULL UNIQUE REFERENCES mailboxes(id) ON DELETE CASCADE,
  spam INTEGER NOT NULL,
  ham INTEGER NOT NULL
);

-- Some 18 bytes a row: a mailbox may have 200,000 of them, and each message looks up hundreds.
CREATE TABLE junk_tokens (
  filter_seq INTEGER NOT NULL REFERENCES junk_filters(seq) ON DELETE CASCADE,
  token INTEGER NOT NULL,
  spam INTEGER NOT NULL,
  ham INTEGER NOT NULL,
  PRIMARY KEY (filter_seq, token)
) WITHOUT ROWID;

CREATE TABLE message_judgements (
  message_seq INTEGER PRIMARY KEY REFERENCES messages(seq) ON DELETE CASCADE,
  filed_for TEXT CHECK (filed_for IN ('sender', 'arrival', 'junk')),
  score REAL,
  clues TEXT,
  trained TEXT CHECK (trained IN ('spam', 'ham'))
);
