-- Several workspaces may claim a domain until one of them verifies it, each with addresses of its own there. The domains
-- that are here already take mail as before, verified or not, until another workspace verifies them.

CREATE TABLE domains_rebuilt (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  ownership_token TEXT NOT NULL,
  verified_at INTEGER,
  accepts_unverified INTEGER NOT NULL DEFAULT 0,
  lost_at INTEGER,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
INSERT INTO domains_rebuilt (id, workspace_id, name, ownership_token, verified_at, accepts_unverified, created_at)
  SELECT id, workspace_id, name, ownership_token, verified_at, verified_at IS NULL, created_at FROM domains;
DROP TABLE domains;
ALTER TABLE domains_rebuilt RENAME TO domains;
CREATE INDEX domains_by_workspace ON domains(workspace_id);
CREATE UNIQUE INDEX domains_by_name ON domains(name, workspace_id);
CREATE UNIQUE INDEX domains_verified ON domains(name) WHERE verified_at IS NOT NULL;

CREATE TABLE mailboxes_rebuilt (
  id TEXT PRIMARY KEY,
  workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
  address TEXT NOT NULL,
  name TEXT NOT NULL,
  owner_id TEXT REFERENCES users(id) ON DELETE SET NULL,
  quota_bytes INTEGER,
  created_at INTEGER NOT NULL,
  paused_reason TEXT
) WITHOUT ROWID;
INSERT INTO mailboxes_rebuilt (id, workspace_id, address, name, owner_id, quota_bytes, created_at, paused_reason)
  SELECT id, workspace_id, address, name, owner_id, quota_bytes, created_at, paused_reason FROM mailboxes;
DROP TABLE mailboxes;
ALTER TABLE mailboxes_rebuilt RENAME TO mailboxes;
CREATE INDEX mailboxes_by_workspace ON mailboxes(workspace_id);
CREATE INDEX mailboxes_by_owner ON mailboxes(owner_id);
CREATE UNIQUE INDEX mailboxes_by_address ON mailboxes(address, workspace_id);

CREATE TABLE addresses_rebuilt (
  address TEXT NOT NULL,
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  domain_id TEXT NOT NULL REFERENCES domains(id),
  kind TEXT NOT NULL CHECK (kind IN ('primary', 'alias', 'catch-all')),
  created_at INTEGER NOT NULL,
  PRIMARY KEY (address, domain_id)
) WITHOUT ROWID;
INSERT INTO addresses_rebuilt (address, mailbox_id, domain_id, kind, created_at)
  SELECT address, mailbox_id, domain_id, kind, created_at FROM addresses;
DROP TABLE addresses;
ALTER TABLE addresses_rebuilt RENAME TO addresses;
CREATE INDEX addresses_by_mailbox ON addresses(mailbox_id);
CREATE INDEX addresses_by_domain ON addresses(domain_id);
