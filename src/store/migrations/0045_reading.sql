-- What people do with the mail that they read.

-- The domain whose DKIM signature covers List-Unsubscribe and List-Unsubscribe-Post (RFC 8058).
ALTER TABLE messages ADD COLUMN list_signer TEXT;

-- Mailing lists that a mailbox was unsubscribed from.
CREATE TABLE left_lists (
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  -- The List-Id, or the address of the sender.
  list TEXT NOT NULL,
  left_at INTEGER NOT NULL,
  PRIMARY KEY (mailbox_id, list)
) WITHOUT ROWID;

-- Senders whose remote images a person always sees.
CREATE TABLE image_senders (
  user_id TEXT NOT NULL REFERENCES users(id) ON DELETE CASCADE,
  sender TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  PRIMARY KEY (user_id, sender)
) WITHOUT ROWID;

-- How a mailbox answered invitations.
CREATE TABLE invitation_answers (
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  uid TEXT NOT NULL,
  -- The RECURRENCE-ID of one occurrence; empty for all of them.
  occurrence TEXT NOT NULL,
  answer TEXT NOT NULL CHECK (answer IN ('accepted', 'tentative', 'declined')),
  -- The version of the invitation.
  sequence INTEGER NOT NULL,
  answered_at INTEGER NOT NULL,
  PRIMARY KEY (mailbox_id, uid, occurrence)
) WITHOUT ROWID;
