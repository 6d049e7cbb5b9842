/**
 * Writes the pages of the write-ahead log to the database on a thread of its own (checkpoint-worker.ts), so that no request
 * waits for it: it takes as long as many commits. SQLite starts the log over only when all of it is in the database and nobody
 * reads from it, so the main thread writes what was committed meanwhile while the readers rest: one that is always at work would
 * have the log grow.
 *
 * If the thread fails, SQLite checkpoints at a commit, as it does in commands.
 */
import type { Log } from "../base/log.ts";
import type { Store } from "./store.ts";

/** Pages (4 KiB) of the log from which the thread writes them, and from which SQLite does at a commit. */
const PAGES = { thread: 8_000, commit: 16_000 };

export function startCheckpoints(
  { db: { $client: sqlite }, onCommit }: Pick<Store, "db" | "onCommit">,
  log: Pick<Log, "error">,
  {
    most = PAGES,
    atRest = async (work) => work(),
  }: { most?: typeof PAGES; atRest?: (work: () => void) => Promise<void> } = {},
): {
  /** Looks whether there is something to write, as after a commit. */
  look(): void;
  /** Resolves when the thread has ended. */
  stop(): Promise<void>;
} {
  // Both are -1 without a log, as in memory.
  const countPages = sqlite.prepare<{ log: number; checkpointed: number }, []>("PRAGMA wal_checkpoint(NOOP)");
  const checkpoint = sqlite.prepare("PRAGMA wal_checkpoint(PASSIVE)");
  sqlite.exec(`PRAGMA wal_autocheckpoint = ${most.commit}`);
  let worker: Worker | undefined;
  let underWay: PromiseWithResolvers<void> | undefined;
  let hasStopped = false;

  function startWorker(): Worker {
    // The same address in the single executable (entry naming [name]).
    const started = new Worker(new URL("./checkpoint-worker.ts", import.meta.url).href);
    started.addEventListener("message", async () => {
      try {
        await atRest(() => void checkpoint.get());
      } catch (error) {
        log.error("the write-ahead log was not checkpointed", { error });
      }
      underWay?.resolve();
      underWay = undefined;
    });
    started.addEventListener("error", (event) => {
      event.preventDefault();
      log.error("the thread that checkpoints failed", { error: event.error ?? event.message });
      forget();
      underWay?.resolve();
    });
    return started;
  }

  function look(): void {
    const pages = underWay || hasStopped ? undefined : countPages.get();
    if (!pages || pages.log - pages.checkpointed < most.thread) return;
    underWay = Promise.withResolvers();
    worker ??= startWorker();
    worker.postMessage(sqlite.filename);
  }

  const forget = onCommit(look);

  return {
    look,
    async stop() {
      hasStopped = true;
      forget();
      await underWay?.promise;
      worker?.terminate();
    },
  };
}
