/** The parser workers of an import: those of the appliance, with more in hand, for here one thread waits for nobody. */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { createDnsCache } from "../net/dns-cache.ts";
import { createParserPool, type ParserPool, type StartWorker } from "../workers/parser-pool.ts";

const MOST_WORKERS = 4;
/** While a transaction runs, workers get nothing new. */
const IN_HAND = 32;

/** `folder`: the data folder; `startWorker`: for tests. */
export function openParser(parts: {
  folder: string;
  runtime: Runtime;
  log: Log;
  startWorker?: StartWorker;
}): ParserPool {
  const { folder, ...rest } = parts;
  const { runtime } = rest;
  return createParserPool({
    ...rest,
    blobFolder: join(folder, "blobs"),
    names: createDnsCache(runtime),
    workers: Math.min(MOST_WORKERS, Math.max(1, availableParallelism() - 1)),
    mostInHand: IN_HAND,
  });
}
