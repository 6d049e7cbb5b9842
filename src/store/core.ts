/**
 * The context: what functions of all layers are given first, as one object. Each layer above extends it by what it owns
 * (mailbox/state/mail-core.ts, workers/parsing-core.ts, outbound/send-core.ts).
 */
import type { Log } from "../base/log.ts";
import type { Meters, Metrics } from "../base/metrics.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Blobs } from "./blobs.ts";
import type { Options } from "./settings.ts";
import type { Db, Store } from "./store.ts";

/** The parts that reading needs. A function that takes no more than this can run in a process that cannot write. */
export interface Reader {
  readonly db: Db;
  readonly blobs: Blobs;
  /** Epoch ms. */
  readonly now: () => number;
}

/** Ports of the listeners for mail apps; null where there is none. */
export interface MailAppPorts {
  /** Port with STARTTLS. */
  imap: number | null;
  /** Port with TLS from the start. */
  imaps: number | null;
  submission: number | null;
  submissions: number | null;
}

/** Names and places of this server. */
export interface Site {
  /** The data folder. */
  readonly folder: string;
  readonly hostname: string;
  /** The public origin. */
  readonly baseUrl: string;
  /** Ports as the settings give them; null also for a port that is chosen when its listener starts. */
  readonly ports: MailAppPorts;
}

export interface Core extends Reader {
  readonly store: Store;
  readonly options: Options;
  readonly runtime: Runtime;
  readonly log: Log;
  readonly metrics: Metrics;
  readonly meters: Meters;
  readonly site: Site;
  /**
   * Runs a job soon, because there may be work for it. In a transaction, the job begins after its end. Nothing happens in
   * a process that runs no jobs.
   */
  readonly wake: (job: string) => void;
}
