-- Written by the server itself: without a Sent copy, without events, and no part of any cap.
ALTER TABLE outbound_messages ADD COLUMN notice INTEGER NOT NULL DEFAULT 0;

CREATE TABLE webhook_endpoints (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  workspace_id TEXT NOT NULL REFERENCES workspaces(id) ON DELETE CASCADE,
  url TEXT NOT NULL,
  events TEXT NOT NULL,
  secret TEXT NOT NULL,
  previous_secret TEXT,
  previous_until INTEGER,
  state TEXT NOT NULL CHECK (state IN ('active', 'disabled', 'removed')),
  created_at INTEGER NOT NULL,
  disabled_at INTEGER,
  exhausted INTEGER NOT NULL DEFAULT 0,
  pace TEXT NOT NULL CHECK (pace IN ('unproven', 'proven', 'slow', 'failing')),
  after_event INTEGER NOT NULL,
  void_through INTEGER NOT NULL DEFAULT 0,
  sweeping INTEGER NOT NULL DEFAULT 0,
  telling INTEGER NOT NULL DEFAULT 0,
  due_at INTEGER
);
CREATE INDEX webhook_endpoints_by_workspace ON webhook_endpoints(workspace_id, seq);
CREATE INDEX webhook_endpoints_due ON webhook_endpoints(due_at, seq) WHERE due_at IS NOT NULL;
CREATE INDEX webhook_endpoints_sweeping ON webhook_endpoints(seq) WHERE sweeping = 1;
CREATE INDEX webhook_endpoints_telling ON webhook_endpoints(seq) WHERE telling = 1;

CREATE TABLE webhook_deliveries (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  endpoint_seq INTEGER NOT NULL REFERENCES webhook_endpoints(seq) ON DELETE CASCADE,
  event_seq INTEGER REFERENCES events(seq) ON DELETE CASCADE,
  event_id TEXT NOT NULL,
  event TEXT NOT NULL,
  sample TEXT,
  state TEXT NOT NULL CHECK (state IN ('pending', 'retrying', 'delivered', 'failed')),
  attempts INTEGER NOT NULL DEFAULT 0,
  due_at INTEGER,
  leased INTEGER NOT NULL DEFAULT 0,
  status INTEGER,
  response TEXT,
  error TEXT,
  created_at INTEGER NOT NULL,
  finished_at INTEGER
);
CREATE INDEX webhook_deliveries_by_endpoint ON webhook_deliveries(endpoint_seq, seq);
CREATE INDEX webhook_deliveries_due ON webhook_deliveries(endpoint_seq, due_at) WHERE due_at IS NOT NULL;
CREATE INDEX webhook_deliveries_finished ON webhook_deliveries(finished_at) WHERE finished_at IS NOT NULL;
CREATE INDEX webhook_deliveries_by_event ON webhook_deliveries(event_seq) WHERE event_seq IS NOT NULL;

-- How far the events have been fanned out. One row. What happened before there were webhooks concerns no endpoint.
CREATE TABLE webhook_cursor (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  event_seq INTEGER NOT NULL
);
INSERT INTO webhook_cursor (id, event_seq) SELECT 1, coalesce(max(seq), 0) FROM events;
