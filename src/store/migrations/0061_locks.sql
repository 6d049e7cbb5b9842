-- Since when an owner or admin, or the operator, keeps somebody out.
ALTER TABLE users ADD COLUMN locked_at INTEGER;

-- The link by which somebody chooses a password; the latest of a person.
CREATE TABLE password_links (
  user_id TEXT PRIMARY KEY REFERENCES users(id) ON DELETE CASCADE,
  -- SHA-256, hex, of its token; null until it is mailed, since only the mail has the token.
  hash TEXT UNIQUE,
  -- Where it is to be mailed; null where it was shown.
  mail_to TEXT,
  -- Who asked for it, and with which API key; null: the operator, or no key.
  made_by TEXT REFERENCES users(id) ON DELETE CASCADE,
  key_id TEXT,
  expires_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX password_links_by_maker ON password_links(made_by) WHERE made_by IS NOT NULL;
CREATE INDEX password_links_to_mail ON password_links(expires_at) WHERE hash IS NULL;

-- So that open pages look at once whether their session has ended: a change of no conversation, which nobody else sees.
CREATE TRIGGER sessions_end AFTER DELETE ON sessions BEGIN
  INSERT INTO thread_changes (kind) VALUES ('gone');
END;
