CREATE TABLE greylist (
  key BLOB PRIMARY KEY NOT NULL,
  first_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
);
CREATE INDEX greylist_by_expiry ON greylist(expires_at);
