-- Webhook deliveries whose first attempt has not ended: a narrow row each, in one tree. The first outcome makes a row of
-- webhook_deliveries of it, with the number it has here. What was pending before this stays where it is.
-- Without a foreign key to events, which would want an index: one whose event is gone goes when its turn comes.
CREATE TABLE webhook_waiting (
  endpoint_seq INTEGER NOT NULL REFERENCES webhook_endpoints(seq) ON DELETE CASCADE,
  seq INTEGER NOT NULL,
  event_seq INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  leased_until INTEGER,
  PRIMARY KEY (endpoint_seq, seq)
) WITHOUT ROWID;

-- Its numbers are drawn from those of webhook_deliveries, so that both are in one order.
INSERT INTO sqlite_sequence (name, seq) SELECT 'webhook_deliveries', 0
  WHERE NOT EXISTS (SELECT 1 FROM sqlite_sequence WHERE name = 'webhook_deliveries');

-- What waits, as rows of webhook_deliveries. An event goes to an endpoint once: from the two comes the id.
CREATE VIEW webhook_pending AS
  SELECT w.seq, 'whd_' || substr(e.id, 5) || '_' || w.endpoint_seq AS id, w.endpoint_seq, w.event_seq, e.id AS event_id, e.event,
    NULL AS sample, 'pending' AS state, 0 AS attempts,
    coalesce(w.leased_until, w.created_at) AS due_at, w.leased_until IS NOT NULL AS leased, NULL AS status, NULL AS response,
    NULL AS error, w.created_at, NULL AS finished_at
  FROM webhook_waiting w JOIN events e ON e.seq = w.event_seq;
