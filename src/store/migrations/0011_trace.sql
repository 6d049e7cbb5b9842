-- What happened to messages on their way, where no other row says it: how they came, and each attempt to deliver them.
-- Without foreign keys: it tells of mail that was refused, and of mail that is gone.
CREATE TABLE trace_steps (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  at INTEGER NOT NULL,
  key TEXT NOT NULL,
  step TEXT NOT NULL CHECK (step IN ('received', 'refused', 'attempted')),
  trace TEXT,
  detail TEXT NOT NULL
);
CREATE INDEX trace_steps_by_key ON trace_steps(key, seq);

-- Which events a message caused.
ALTER TABLE events ADD COLUMN email_id TEXT;
CREATE INDEX events_by_email ON events(email_id) WHERE email_id IS NOT NULL;
