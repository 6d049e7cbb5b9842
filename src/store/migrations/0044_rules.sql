-- What a mailbox does with mail that arrives: rules in their order, as JSON.
CREATE TABLE mailbox_rules (
  mailbox_id TEXT PRIMARY KEY REFERENCES mailboxes(id) ON DELETE CASCADE,
  rules TEXT NOT NULL
);

-- What the server is to write by itself about a message that arrived: filing commits it, a job sends it.
CREATE TABLE automatic_mail (
  seq INTEGER PRIMARY KEY,
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  message_seq INTEGER NOT NULL REFERENCES messages(seq) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('forward', 'absence')),
  recipient TEXT NOT NULL,
  -- Mailboxes that passed the message on before, as JSON.
  passed TEXT NOT NULL,
  asked_at INTEGER NOT NULL,
  due_at INTEGER NOT NULL
);
CREATE INDEX automatic_mail_by_time ON automatic_mail(due_at);
CREATE INDEX automatic_mail_by_message ON automatic_mail(message_seq);
CREATE INDEX automatic_mail_by_mailbox ON automatic_mail(mailbox_id);

-- The times in which a mailbox tells senders that nobody reads it.
CREATE TABLE absences (
  mailbox_id TEXT PRIMARY KEY REFERENCES mailboxes(id) ON DELETE CASCADE,
  starts_at INTEGER NOT NULL,
  ends_at INTEGER NOT NULL,
  subject TEXT,
  text TEXT NOT NULL
);
CREATE TABLE absence_replies (
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  recipient TEXT NOT NULL,
  replied_at INTEGER NOT NULL,
  PRIMARY KEY (mailbox_id, recipient)
) WITHOUT ROWID;
CREATE INDEX absence_replies_by_time ON absence_replies(replied_at);

-- Of a message that the server wrote for a mailbox by itself: why.
ALTER TABLE outbound_messages ADD COLUMN automatic TEXT CHECK (automatic IN ('forward', 'absence'));

CREATE TABLE new_access_notices (
  id INTEGER PRIMARY KEY NOT NULL,
  user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
  deed TEXT NOT NULL CHECK (deed IN ('password', 'second_factor', 'key', 'forwarding')),
  done_by TEXT NOT NULL CHECK (done_by IN ('self', 'admin', 'share', 'operator')),
  app_passwords INTEGER NOT NULL,
  keys INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  -- Of forwarding: where it goes, and from which mailbox.
  detail TEXT
);
INSERT INTO new_access_notices SELECT id, user_id, deed, done_by, app_passwords, keys, created_at, NULL FROM access_notices;
DROP TABLE access_notices;
ALTER TABLE new_access_notices RENAME TO access_notices;
