-- What a key is restricted to, as JSON; since when it is paused; the key that made it.
ALTER TABLE api_keys ADD COLUMN policy TEXT NOT NULL DEFAULT '{}';
ALTER TABLE api_keys ADD COLUMN paused_at INTEGER;
ALTER TABLE api_keys ADD COLUMN made_by TEXT;
CREATE INDEX api_keys_by_maker ON api_keys (made_by) WHERE made_by IS NOT NULL;
-- All keys of the workspace are paused, also those that are made later.
ALTER TABLE workspaces ADD COLUMN keys_paused_at INTEGER;
-- The mailboxes, by address, of whose events a key may tell an endpoint; null: all.
ALTER TABLE webhook_endpoints ADD COLUMN mailboxes TEXT;
-- Whom each mailbox has sent to, as policies compare addresses: accepted by their server, and not as Bcc.
CREATE TABLE known_recipients (
  mailbox_id TEXT NOT NULL REFERENCES mailboxes(id) ON DELETE CASCADE,
  address TEXT NOT NULL,
  PRIMARY KEY (mailbox_id, address)
) WITHOUT ROWID;
INSERT OR IGNORE INTO known_recipients (mailbox_id, address)
SELECT mailbox_id, iif(local GLOB '[^"]*+*' AND instr(local, '+') > 1, substr(local, 1, instr(local, '+') - 1), local) || '@' || domain
FROM (
  SELECT m.mailbox_id, q.domain, lower(substr(q.recipient, 1, length(q.recipient) - length(q.domain) - 1)) AS local
  FROM queue_entries q JOIN outbound_messages m ON m.seq = q.message_seq JOIN mailboxes b ON b.id = m.mailbox_id
  WHERE q.state = 'delivered' AND q.field <> 'bcc' AND m.notice = 0
);
