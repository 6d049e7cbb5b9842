-- A person may want that mail apps see labels as mailboxes, too.
ALTER TABLE users ADD COLUMN label_folders INTEGER NOT NULL DEFAULT 0;

-- The mailboxes of labels have rows once somebody looks at them. They follow the folders when somebody looks again, so that mail
-- of people who do not want them costs nothing more (mailbox/label-folders.ts).
ALTER TABLE imap_folders ADD COLUMN labelled_through INTEGER NOT NULL DEFAULT 0;
CREATE TABLE imap_labels (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  label_key TEXT,
  label TEXT NOT NULL,
  made INTEGER NOT NULL,
  filled INTEGER NOT NULL,
  uid_next INTEGER NOT NULL,
  modseq INTEGER NOT NULL,
  vanished_through INTEGER NOT NULL,
  UNIQUE (mailbox_id, label_key)
);
CREATE TABLE imap_labelled (
  label_id INTEGER NOT NULL REFERENCES imap_labels(id) ON DELETE CASCADE,
  uid INTEGER NOT NULL,
  message_seq INTEGER NOT NULL,
  modseq INTEGER NOT NULL,
  folder_id INTEGER NOT NULL,
  folder_uid INTEGER NOT NULL,
  deleted INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (label_id, uid)
) WITHOUT ROWID;
CREATE UNIQUE INDEX imap_labelled_by_message ON imap_labelled(message_seq, label_id);
CREATE INDEX imap_labelled_by_place ON imap_labelled(folder_id, folder_uid);
CREATE TABLE imap_label_vanished (
  label_id INTEGER NOT NULL REFERENCES imap_labels(id) ON DELETE CASCADE,
  modseq INTEGER NOT NULL,
  uid INTEGER NOT NULL,
  PRIMARY KEY (label_id, modseq, uid)
) WITHOUT ROWID;
