/**
 * The composition root: every part of the appliance, made once and joined here, started in order and stopped in reverse.
 * `createAppliance` opens the data folder and starts nothing: commands use its parts so; `serve` then calls `start`.
 */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { createKeyUse, findCaller } from "./access/credentials.ts";
import { createSlowdown } from "./access/slowdown.ts";
import { createGate } from "./api/gate.ts";
import { describeApi } from "./api/openapi.ts";
import { OPERATIONS } from "./api/operations/all.ts";
import { API_PREFIX, createRest } from "./api/rest.ts";
import { createSourceReader } from "./api/source.ts";
import type { Config, Listen } from "./config.ts";
import type { Log } from "./log.ts";
import { createMailbox, type Mailbox } from "./mailbox/mailbox.ts";
import { createInbound } from "./mta/inbound.ts";
import { createMxListener } from "./mta/listener.ts";
import { createParserPool } from "./mta/parser-pool.ts";
import { openSpool } from "./mta/spool.ts";
import type { Runtime } from "./runtime.ts";
import { createScheduler, type Job } from "./scheduler.ts";
import type { SearchEngine } from "./search/engine.ts";
import { createFts5Engine } from "./search/fts5.ts";
import { createDevelopers, type Developers } from "./settings/developers.ts";
import { createDomains, type Domains } from "./settings/domains.ts";
import { createPeople, type People } from "./settings/people.ts";
import { claimFolder } from "./store/claim.ts";
import { type Options, openOptions } from "./store/options.ts";
import { openStore, type Store } from "./store/store.ts";
import { openCertificates } from "./tls.ts";
import { createHttpServer } from "./web/server.ts";

/** Where the listeners are, as `host:port`; `off` for those that did not start. */
export interface Ready {
  http: string;
  mx: string;
}

export interface Appliance {
  readonly config: Config;
  readonly runtime: Runtime;
  readonly store: Store;
  readonly options: Options;
  readonly people: People;
  readonly domains: Domains;
  readonly developers: Developers;
  readonly mailbox: Mailbox;
  /**
   * Brings up listeners and jobs; resolves when all listen. @throws ConfigError for certificate files that do not work,
   * Error for a folder that another server has, and naming the variable of a listener that cannot bind; then nothing is
   * left running.
   */
  start(): Promise<Ready>;
  /** Stops accepting, finishes what is in flight for up to `graceMs`, and closes. */
  stop(graceMs?: number): Promise<void>;
  /** Looks at what is due and resolves when nothing is: how tests on a fake clock wait. */
  settled(): Promise<void>;
  /** Closes the data folder of an appliance that was not started. */
  close(): void;
}

export interface ApplianceOptions {
  /** The database file; `:memory:` for tests. */
  file?: string;
  /** How long a write waits for another process's, ms. */
  busyTimeoutMs?: number;
}

/** contract: a running server follows within 2 s. */
const FOLLOW_MS = 1_000;
/** contract: SIGTERM. A little is left for closing the store. */
const GRACE_MS = 9_000;
const MOST_PARSERS = 4;

/** What was started and how it ends. */
interface Started {
  stop(graceMs: number): unknown;
}

export function createAppliance(
  config: Config,
  runtime: Runtime,
  log: Log,
  applianceOptions: ApplianceOptions = {},
): Appliance {
  const store = openStore({ folder: config.data, runtime, ...applianceOptions });
  const options = openOptions(store);
  const engine = createFts5Engine(store);
  const mailbox = createMailbox({ store, engine, runtime, options, log });
  const people = createPeople({ store, runtime });
  const domains = createDomains({ store, runtime, hostname: config.hostname });
  const developers = createDevelopers({ store, runtime });

  /** What takes in work; all of it stops at once, and has the same time to finish. */
  const fronts: Started[] = [];
  /** What they work with; ended after them, in reverse. */
  const backs: Started[] = [];
  let settled = async (): Promise<void> => {};

  async function startMx(listen: Listen, jobs: Job[]): Promise<{ address: string; works(): boolean }> {
    if (listen === "off") return { address: "off", works: () => true };
    const { data: folder, hostname, tls: mode } = config;
    const certificates = await openCertificates({ mode, hostname, folder, runtime, log });
    jobs.push(certificates.job);
    const workers = Math.min(MOST_PARSERS, Math.max(1, availableParallelism() - 1));
    const parser = createParserPool({ blobFolder: join(folder, "blobs"), runtime, log, workers });
    backs.push(parser);
    const spool = openSpool(join(folder, "spool"));
    const inbound = createInbound({ store, mailbox, parser, spool, options, runtime, log });
    const mx = createMxListener({ listen, hostname, certificates, inbound, options, runtime, log });
    const address = await bound("MAILROOM_MX", () => mx.start());
    fronts.push(mx);
    return { address, works: () => mx.isListening() };
  }

  async function startHttp(listen: Listen, mxWorks: () => boolean): Promise<string> {
    if (listen === "off") return "off";
    const gate = createGate({
      findCaller: (key) => findCaller(store.db, key),
      touchKey: createKeyUse(store, log).touchKey,
      slowdown: createSlowdown(runtime),
      options,
      now: runtime.now,
    });
    const rest = createRest({
      operations: OPERATIONS,
      document: describeApi(OPERATIONS, config.baseUrl, API_PREFIX),
      gate,
      sourceOf: createSourceReader(config.trustedProxies),
      mailbox,
      runtime,
      log,
    });
    const health = { store: () => store.works(), smtp: mxWorks };
    return bound("MAILROOM_HTTP", () => {
      const http = createHttpServer({ listen, rest, health, runtime, log });
      fronts.push(http);
      return http.address;
    });
  }

  async function stop(graceMs = GRACE_MS): Promise<void> {
    await Promise.all(fronts.splice(0).map((front) => front.stop(graceMs)));
    while (backs.length > 0) await backs.pop()?.stop(graceMs);
    store.close();
  }

  return {
    config,
    runtime,
    store,
    options,
    people,
    domains,
    developers,
    mailbox,
    async start() {
      const jobs: Job[] = [...mailbox.jobs, indexUpkeep(store, engine)];
      try {
        backs.push({ stop: claimFolder(config.data) });
        const mx = await startMx(config.mx, jobs);
        const http = await startHttp(config.http, mx.works);
        const scheduler = createScheduler(runtime, log, [...jobs, follow(store, options)]);
        scheduler.start();
        fronts.push(scheduler);
        settled = scheduler.settled;
        log.info("ready", { http, mx: mx.address });
        return { http, mx: mx.address };
      } catch (error) {
        await stop(0);
        throw error;
      }
    },
    stop,
    settled: () => settled(),
    close: () => store.close(),
  };
}

/** Notices what commands wrote into the database beside the running server. */
function follow(store: Store, options: Options): Job {
  let seen = store.dataVersion();
  return {
    name: "follow",
    runDue(now) {
      const version = store.dataVersion();
      if (version !== seen) {
        seen = version;
        options.refresh();
      }
      return now + FOLLOW_MS;
    },
  };
}

/** Between two steps while there is something to merge, and looks while there is nothing. */
const UPKEEP_STEP_MS = 50;
const UPKEEP_LOOK_MS = 10_000;
/** Commits a second above which upkeep stands back; FTS5 then merges by itself what it must. */
const UPKEEP_YIELDS_TO = 20;
const UPKEEP_YIELD_MS = 1_000;

/** Merges the search index in short steps while the appliance has little else to do. */
function indexUpkeep(store: Store, engine: SearchEngine): Job {
  let commits = 0;
  let lookedAt = 0;
  store.onCommit(() => commits++);
  return {
    name: "index-upkeep",
    runDue(now) {
      const busy = (commits * 1_000) / Math.max(1, now - lookedAt) > UPKEEP_YIELDS_TO;
      commits = 0;
      lookedAt = now;
      if (busy) return now + UPKEEP_YIELD_MS;
      return now + (engine.maintain() ? UPKEEP_STEP_MS : UPKEEP_LOOK_MS);
    },
  };
}

/** `host:port` of a listener, or the error that says which variable to change. */
async function bound(variable: string, start: () => Bound | Promise<Bound>): Promise<string> {
  try {
    const { host, port } = await start();
    return `${host.includes(":") ? `[${host}]` : host}:${port}`;
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    throw new Error(`${variable}: cannot listen there (${reason})`, { cause: error });
  }
}

interface Bound {
  host: string;
  port: number;
}
