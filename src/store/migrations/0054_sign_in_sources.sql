-- Sources (an IPv4 address, an IPv6 /64) from which somebody signed in: listeners keep a part of their room for them.
CREATE TABLE sign_in_sources (
  source TEXT PRIMARY KEY,
  signed_in_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX sign_in_sources_by_time ON sign_in_sources (signed_in_at);
