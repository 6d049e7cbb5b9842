-- What waits, by runs: a row stands for as many deliveries as its length, whose numbers follow each other from seq, of
-- events that follow each other from event_seq. A backlog is a few rows. What waited before this are runs of one.
ALTER TABLE webhook_waiting ADD COLUMN length INTEGER NOT NULL DEFAULT 1 CHECK (length > 0);

-- By run and event_seq it is read in the order of seq.
DROP VIEW webhook_pending;
CREATE VIEW webhook_pending AS
  SELECT w.seq + e.seq - w.event_seq AS seq, 'whd_' || substr(e.id, 5) || '_' || w.endpoint_seq AS id, w.endpoint_seq,
    e.seq AS event_seq, e.id AS event_id, e.event, NULL AS sample, 'pending' AS state, 0 AS attempts,
    coalesce(w.leased_until, w.created_at) AS due_at, w.leased_until IS NOT NULL AS leased, NULL AS status, NULL AS response,
    NULL AS error, w.created_at, NULL AS finished_at, w.seq AS run
  FROM webhook_waiting w JOIN events e ON e.seq BETWEEN w.event_seq AND w.event_seq + w.length - 1;
