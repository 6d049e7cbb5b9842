/** When a commit writes the pages (4 KiB) of the write-ahead log to the database. */
import type { Database } from "bun:sqlite";

/** A page that many commits change, such as the end of an index, is written once for more of them. */
export const CHECKPOINT_PAGES = 4_000;

/**
 * In the data folder of a server that has a replica (replica/replica-identity.ts): Litestream checkpoints, and neither the server
 * nor a command does.
 */
export const REPLICATED = "replica.json";

/** Leaves checkpoints to Litestream. */
export const leaveCheckpoints = ({ db: { $client: sqlite } }: { db: { $client: Database } }): void =>
  void sqlite.exec(`PRAGMA wal_autocheckpoint = ${REPLICATED_PAGES}`);

/** Only when Litestream has not run for long. It notices, and begins with a copy of the whole database. */
export const REPLICATED_PAGES = 131_072;
