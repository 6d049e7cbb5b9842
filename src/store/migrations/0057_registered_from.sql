-- The network from which a program registered; empty for this host, and for those from before.
ALTER TABLE oauth_clients ADD COLUMN network TEXT NOT NULL DEFAULT '';
DROP INDEX oauth_clients_by_age;
CREATE INDEX oauth_clients_by_age ON oauth_clients (used_at, network, created_at);
