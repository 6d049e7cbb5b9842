-- What a delivery has from its event and its endpoint is not kept a second time. Its own are the id of one from before
-- 0016, and all that is a test's.
CREATE TABLE webhook_deliveries_narrow (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  endpoint_seq INTEGER NOT NULL REFERENCES webhook_endpoints(seq) ON DELETE CASCADE,
  event_seq INTEGER REFERENCES events(seq) ON DELETE CASCADE,
  state TEXT NOT NULL CHECK (state IN ('pending', 'retrying', 'delivered', 'failed')),
  attempts INTEGER NOT NULL DEFAULT 0,
  due_at INTEGER,
  leased INTEGER NOT NULL DEFAULT 0,
  status INTEGER,
  response TEXT,
  error TEXT,
  created_at INTEGER NOT NULL,
  finished_at INTEGER,
  id TEXT,
  event_id TEXT,
  event TEXT,
  sample TEXT
);
INSERT INTO webhook_deliveries_narrow
  SELECT d.seq, d.endpoint_seq, d.event_seq, d.state, d.attempts, d.due_at, d.leased, d.status, d.response, d.error,
    d.created_at, d.finished_at, CASE WHEN d.id IS NOT 'whd_' || substr(e.id, 5) || '_' || d.endpoint_seq THEN d.id END,
    CASE WHEN d.event_id IS NOT e.id THEN d.event_id END, CASE WHEN d.event IS NOT e.event THEN d.event END, d.sample
  FROM webhook_deliveries d LEFT JOIN events e ON e.seq = d.event_seq ORDER BY d.seq;
-- The numbers that were drawn stay drawn.
DELETE FROM sqlite_sequence WHERE name = 'webhook_deliveries_narrow';
INSERT INTO sqlite_sequence (name, seq)
  SELECT 'webhook_deliveries_narrow', seq FROM sqlite_sequence WHERE name = 'webhook_deliveries';
DROP TABLE webhook_deliveries;
ALTER TABLE webhook_deliveries_narrow RENAME TO webhook_deliveries;

CREATE UNIQUE INDEX webhook_deliveries_by_id ON webhook_deliveries(id) WHERE id IS NOT NULL;
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries(endpoint_seq, seq);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries(endpoint_seq, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhook_deliveries_finished ON webhook_deliveries(finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_event ON webhook_deliveries(event_seq) WHERE event_seq IS NOT NULL;

-- Whole, as it is read.
CREATE VIEW webhook_log AS
  SELECT d.seq, coalesce(d.id, 'whd_' || substr(e.id, 5) || '_' || d.endpoint_seq) AS id, d.endpoint_seq, d.event_seq,
    coalesce(d.event_id, e.id) AS event_id, coalesce(d.event, e.event) AS event, d.sample, d.state, d.attempts, d.due_at,
    d.leased, d.status, d.response, d.error, d.created_at, d.finished_at
  FROM webhook_deliveries d LEFT JOIN events e ON e.seq = d.event_seq;
