/** The thread of checkpoints.ts: checkpoints the database that a message names, and posts when that has ended. */
import { Database } from "bun:sqlite";

declare const self: Worker;

self.onmessage = ({ data: path }: MessageEvent<string>) => {
  try {
    using sqlite = new Database(path, { readwrite: true });
    sqlite.exec("PRAGMA wal_checkpoint(PASSIVE)");
  } catch {
    // The main thread, which checkpoints next, meets the same error and logs it.
  }
  self.postMessage("ended");
};
