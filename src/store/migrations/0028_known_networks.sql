-- Networks (an IPv4 /24, an IPv6 /48) that have delivered wanted mail: the MX listener keeps connections for them.
CREATE TABLE known_networks (
  network TEXT PRIMARY KEY,
  wanted_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX known_networks_by_time ON known_networks (wanted_at);
