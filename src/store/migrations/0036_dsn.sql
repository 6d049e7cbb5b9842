-- What mail apps ask for with DSN (RFC 3461), as it stood in MAIL and RCPT.
ALTER TABLE outbound_messages ADD COLUMN ret TEXT CHECK (ret IN ('FULL', 'HDRS'));
ALTER TABLE outbound_messages ADD COLUMN envid TEXT;
ALTER TABLE queue_entries ADD COLUMN notify TEXT;
ALTER TABLE queue_entries ADD COLUMN orcpt TEXT;
