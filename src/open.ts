/** Opens a data folder: the context of everything that works on it. Nothing runs yet; most commands need no more. */
import { createFirstRun, type FirstRun } from "./admin/setup.ts";
import type { AppError } from "./base/errors.ts";
import type { Log } from "./base/log.ts";
import { createMeters, createMetrics } from "./base/metrics.ts";
import type { Runtime } from "./base/runtime.ts";
import { createScheduler, type Scheduler } from "./base/scheduler.ts";
import type { Config, Listen } from "./config.ts";
import { createDoctor, type Doctor, type DoctorOptions, STANDBY_CHECKS } from "./doctor/doctor.ts";
import { stampThreadChanges } from "./mailbox/changing/change-feed.ts";
import { createLocalComposers } from "./mailbox/filing/keep-composed.ts";
import type { MailCore } from "./mailbox/state/mail-core.ts";
import { readInThisThread } from "./mailbox/state/readers.ts";
import { readHtmlInThisThread } from "./message/reading.ts";
import type { StandbyState } from "./replica/follow-replica.ts";
import { createSearch } from "./search/search.ts";
import type { Core } from "./store/core.ts";
import type { ReadOnlyStore } from "./store/read-only.ts";
import { openS3Blobs } from "./store/s3-blobs.ts";
import { openOptions } from "./store/settings.ts";
import { openStore } from "./store/store.ts";

/** The database that a standby reads, and its state. A standby changes nothing. */
export interface Following {
  store: ReadOnlyStore;
  /** For the health page, the app and metrics. */
  state(): StandbyState;
  /** The refusal of every request while the database cannot be read. */
  unreadable(): AppError | undefined;
}

export interface OpenOptions {
  /** Reads this, and changes nothing: no listeners for mail and mail apps, no jobs. */
  following?: Following | undefined;
  /** Database file in place of the folder's (store.ts). */
  file?: string | Uint8Array;
  /** How long a write waits for another process's, ms. */
  busyTimeoutMs?: number;
  doctor?: DoctorOptions;
}

export interface Opened {
  readonly config: Config;
  readonly core: MailCore;
  readonly search: ReturnType<typeof createSearch>;
  /** Runs the jobs that `serve` adds. */
  readonly scheduler: Scheduler;
  readonly following: Following | undefined;
  readonly firstRun: FirstRun;
  readonly doctor: Doctor;
  /** Closes what was not served: `stop` of a server does it. */
  close(): void;
}

export function open(
  given: Config,
  runtime: Runtime,
  log: Log,
  { following, doctor: doctorOptions, ...storeOptions }: OpenOptions = {},
): Opened {
  const config: Config = following
    ? { ...given, mx: "off", submission: "off", submissions: "off", imap: "off", imaps: "off" }
    : given;
  const { hostname, baseUrl, data: folder } = config;
  const s3 = config.blobs && openS3Blobs(config.blobs, runtime);
  const store = following?.store ?? openStore({ folder, s3, runtime, log, ...storeOptions });
  const options = openOptions(store);
  store.remote?.cache.bound(() => options.get("blobs.cacheBytes"));
  const metrics = createMetrics();
  const ports = {
    imap: configuredPort(config.imap),
    imaps: configuredPort(config.imaps),
    submission: configuredPort(config.submission),
    submissions: configuredPort(config.submissions),
  };
  const scheduler = createScheduler(runtime, log);
  const base: Core = {
    db: store.db,
    blobs: store.blobs,
    now: runtime.now,
    store,
    options,
    runtime,
    log,
    metrics,
    meters: createMeters(metrics, runtime.now),
    site: { folder, hostname, baseUrl, ports },
    // Transactions are synchronous.
    wake: (job) => queueMicrotask(() => scheduler.wake(job)),
  };
  const search = createSearch(base);
  stampThreadChanges(base);
  const parser = { read: readHtmlInThisThread, ...createLocalComposers(store.blobs) };
  const readers = readInThisThread({ ...base, engine: search });
  const core: MailCore = { ...base, engine: search, readers, parser };
  const checks = following ? { checks: STANDBY_CHECKS } : {};
  const doctor = createDoctor({ ...core, config }, { ...checks, ...doctorOptions });
  const firstRun = createFirstRun(core);
  return {
    config,
    core,
    search,
    scheduler,
    following,
    firstRun,
    doctor,
    close: () => store.close(),
  };
}

/** Port of a listener as it is set; null for one that is off, or on a port that is chosen when it starts. */
const configuredPort = (listen: Listen): number | null => (listen === "off" ? null : listen.port || null);
