CREATE TABLE mta_sts_policies (
  domain TEXT PRIMARY KEY NOT NULL,
  id TEXT NOT NULL,
  mode TEXT NOT NULL,
  mx TEXT NOT NULL,
  max_age_seconds INTEGER NOT NULL,
  fetched_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL
);
CREATE INDEX mta_sts_policies_by_expiry ON mta_sts_policies(expires_at);
