-- A mailbox's signature and templates, and the colours of its labels.
CREATE TABLE mailbox_texts (
  mailbox_id TEXT PRIMARY KEY REFERENCES mailboxes(id) ON DELETE CASCADE,
  signature TEXT NOT NULL,
  -- JSON, in the order in which they are offered.
  templates TEXT NOT NULL
);

CREATE TABLE label_colours (
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  label_key TEXT NOT NULL,
  colour TEXT NOT NULL,
  PRIMARY KEY (mailbox_id, label_key)
) WITHOUT ROWID;
