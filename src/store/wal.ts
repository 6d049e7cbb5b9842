/** When a commit writes the pages (4 KiB) of the write-ahead log to the database. */
import type { Database } from "bun:sqlite";

/** A page that many commits change, such as the end of an index, is written once for more of them. */
export const CHECKPOINT_PAGES = 4_000;

/**
 * File in the data folder of a server that has a replica (replica/replica-identity.ts). While it is there, Litestream
 * checkpoints, and neither the server nor a command does.
 */
export const REPLICATED = "replica.json";

/** Leaves checkpoints to Litestream. */
export const leaveCheckpoints = ({ db: { $client: sqlite } }: { db: { $client: Database } }): void =>
  void sqlite.exec(`PRAGMA wal_autocheckpoint = ${REPLICATED_PAGES}`);

/**
 * Pages at which SQLite checkpoints by itself, which happens only when Litestream has not run for long. Litestream notices, and
 * begins with a copy of the whole database.
 */
export const REPLICATED_PAGES = 131_072;
