-- Web Push (RFC 8030). The key pair by which push services know this server (RFC 8292).
CREATE TABLE push_keys (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  -- Both in base64url: the point, uncompressed, and the scalar.
  public_key TEXT NOT NULL,
  private_key TEXT NOT NULL
);

-- Browsers that asked for it; each ends with its session.
CREATE TABLE push_subscriptions (
  session_id TEXT PRIMARY KEY REFERENCES sessions(id) ON DELETE CASCADE,
  endpoint TEXT NOT NULL UNIQUE,
  -- RFC 8291: the browser's public key and secret, base64url.
  p256dh TEXT NOT NULL,
  auth TEXT NOT NULL,
  -- Ids of mailboxes, JSON.
  mailboxes TEXT NOT NULL,
  -- Sender and subject are told.
  details INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  -- Failures in a row, and until when none is tried.
  failures INTEGER NOT NULL,
  rests_until INTEGER NOT NULL
);
