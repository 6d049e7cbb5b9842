-- One queue of webhook deliveries: a row for each, from fan-out to the end of its log, with its own id. What waited in runs
-- (0017) becomes a row for each delivery; what was logged without its event's id and kind (0018) gets them; both keep
-- their number and the id that they were listed under.
CREATE TABLE webhook_queue (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL,
  endpoint_seq INTEGER NOT NULL REFERENCES webhook_endpoints(seq) ON DELETE CASCADE,
  event_seq INTEGER REFERENCES events(seq) ON DELETE CASCADE,
  event_id TEXT NOT NULL,
  event TEXT NOT NULL,
  sample TEXT,
  state TEXT NOT NULL CHECK (state IN ('pending', 'retrying', 'delivered', 'failed')),
  attempts INTEGER NOT NULL DEFAULT 0,
  urgent INTEGER NOT NULL DEFAULT 0,
  due_at INTEGER,
  leased INTEGER NOT NULL DEFAULT 0,
  status INTEGER,
  response TEXT,
  error TEXT,
  created_at INTEGER NOT NULL,
  finished_at INTEGER
);
INSERT INTO webhook_queue
  SELECT seq, id, endpoint_seq, event_seq, event_id, event, sample, state, attempts, 1, due_at, leased, status, response, error,
    created_at, finished_at
  FROM webhook_log
  UNION ALL
  SELECT seq, id, endpoint_seq, event_seq, event_id, event, NULL, 'pending', 0, 0, due_at, leased, NULL, NULL, NULL,
    created_at, NULL
  FROM webhook_pending WHERE seq NOT IN (SELECT seq FROM webhook_deliveries);

-- The numbers that were drawn stay drawn.
DELETE FROM sqlite_sequence WHERE name = 'webhook_queue';
INSERT INTO sqlite_sequence (name, seq) SELECT 'webhook_queue', seq FROM sqlite_sequence WHERE name = 'webhook_deliveries';
DROP VIEW webhook_pending;
DROP VIEW webhook_log;
DROP TABLE webhook_waiting;
DROP TABLE webhook_deliveries;
ALTER TABLE webhook_queue RENAME TO webhook_deliveries;

CREATE UNIQUE INDEX webhook_deliveries_by_id ON webhook_deliveries(id);
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries(endpoint_seq, seq);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries(endpoint_seq, urgent, due_at, leased) WHERE due_at IS NOT NULL;
CREATE INDEX webhook_deliveries_finished ON webhook_deliveries(finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_event ON webhook_deliveries(event_seq) WHERE event_seq IS NOT NULL;

ALTER TABLE webhook_endpoints RENAME COLUMN pace TO health;
