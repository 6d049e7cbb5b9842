-- Programs that register themselves over OAuth (RFC 7591).
CREATE TABLE oauth_clients (
  id TEXT PRIMARY KEY,
  name TEXT NOT NULL,
  redirect_uris TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  -- When a person last gave it a grant.
  used_at INTEGER
);
CREATE INDEX oauth_clients_by_age ON oauth_clients(used_at, created_at);

-- What a grant has beyond a key: the program, and the code that the program gets its first tokens for. The code stays, used,
-- as long as the grant, so that its reuse is noticed.
CREATE TABLE oauth_grants (
  key_id TEXT PRIMARY KEY REFERENCES api_keys(id) ON DELETE CASCADE,
  client_id TEXT NOT NULL,
  client_name TEXT NOT NULL,
  client_host TEXT NOT NULL,
  resource TEXT NOT NULL,
  -- How long its access tokens last.
  access_ms INTEGER NOT NULL,
  code_hash TEXT NOT NULL UNIQUE,
  -- As the request for the code gave it.
  redirect_uri TEXT,
  challenge TEXT NOT NULL,
  code_expires_at INTEGER NOT NULL,
  code_used_at INTEGER
);
CREATE INDEX oauth_grants_by_client ON oauth_grants(client_id);
CREATE INDEX oauth_grants_unused ON oauth_grants(code_expires_at) WHERE code_used_at IS NULL;

CREATE TABLE oauth_tokens (
  seq INTEGER PRIMARY KEY,
  hash TEXT NOT NULL UNIQUE,
  key_id TEXT NOT NULL REFERENCES oauth_grants(key_id) ON DELETE CASCADE,
  kind TEXT NOT NULL CHECK (kind IN ('access', 'refresh')),
  expires_at INTEGER NOT NULL,
  -- When a refresh token was exchanged.
  used_at INTEGER
);
CREATE INDEX oauth_tokens_by_grant ON oauth_tokens(key_id, kind, seq);
CREATE INDEX oauth_tokens_by_expiry ON oauth_tokens(expires_at);
