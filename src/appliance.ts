/**
 * The composition root: every part of the appliance, made once and joined here, started in order and stopped in reverse.
 * `createAppliance` opens the data folder and starts nothing: commands use its parts so; `serve` then calls `start`.
 */
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { createKeyUse, findCaller } from "./access/credentials.ts";
import { createSessionSweep, createSessionUse } from "./access/sessions.ts";
import { createSignIn, type TrySignIn } from "./access/sign-in.ts";
import { createSlowdown, type Slowdown } from "./access/slowdown.ts";
import { createGate } from "./api/gate.ts";
import { createIdempotency, type Idempotency } from "./api/idempotency.ts";
import { createMcp } from "./api/mcp.ts";
import { describeApi } from "./api/openapi.ts";
import { OPERATIONS } from "./api/operations/all.ts";
import { API_PREFIX, createRest } from "./api/rest.ts";
import { createSourceReader } from "./api/source.ts";
import type { Config, Listen } from "./config.ts";
import { createLogUpkeep } from "./events/log-upkeep.ts";
import { createDisabledNotices } from "./events/notices.ts";
import { openRequests } from "./events/request.ts";
import { createWebhooks, type Webhooks } from "./events/webhooks.ts";
import type { Log } from "./log.ts";
import { createMailbox, type Mailbox } from "./mailbox/mailbox.ts";
import { createAdminNotices, type NotifyAdmins } from "./mta/admin-notice.ts";
import { createDnsCache } from "./mta/dns-cache.ts";
import { createBlocklists } from "./mta/dnsbl.ts";
import { createDoor } from "./mta/door.ts";
import { createFeedback } from "./mta/feedback.ts";
import { createGreylist } from "./mta/greylist.ts";
import { createInbound } from "./mta/inbound.ts";
import { createSmtpListener } from "./mta/listener.ts";
import { createLocalDelivery } from "./mta/local.ts";
import { createMxRole } from "./mta/mx.ts";
import { createOutcomes } from "./mta/outcome.ts";
import { createParserPool, type StartWorker } from "./mta/parser-pool.ts";
import { createRelay } from "./mta/relay.ts";
import type { SmtpRole } from "./mta/role.ts";
import { createSending, type Sending } from "./mta/sending.ts";
import { openSpool } from "./mta/spool.ts";
import { createSubmissionRole } from "./mta/submission.ts";
import { createSubmit, type Submit } from "./mta/submit.ts";
import { createTransport } from "./mta/transport.ts";
import type { Runtime } from "./runtime.ts";
import { createScheduler, type Job, type Scheduler } from "./scheduler.ts";
import { createFts5Engine } from "./search/fts5.ts";
import { createIndexUpkeep } from "./search/upkeep.ts";
import { createDevelopers, type Developers } from "./settings/developers.ts";
import { createDomains, type Domains } from "./settings/domains.ts";
import { createOutbound, type Outbound } from "./settings/outbound.ts";
import { createPeople, type People } from "./settings/people.ts";
import { claimFolder } from "./store/claim.ts";
import { type Options, openOptions } from "./store/options.ts";
import { openStore, type Store } from "./store/store.ts";
import { type Certificates, openCertificates } from "./tls.ts";
import { createHttpServer } from "./web/server.ts";
import { createWeb, type Web } from "./web/web.ts";

/** Where the listeners are, as `host:port`; `off` for those that did not start. */
export interface Ready {
  http: string;
  mx: string;
  submission: string;
  submissions: string;
}

export interface Appliance {
  readonly config: Config;
  readonly runtime: Runtime;
  readonly store: Store;
  readonly options: Options;
  readonly people: People;
  readonly domains: Domains;
  readonly developers: Developers;
  readonly outbound: Outbound;
  readonly mailbox: Mailbox;
  /**
   * Brings up listeners and jobs; resolves when all listen. `hold`: mail to the outside is held rather than sent. @throws ConfigError for certificate files that do not work,
   * Error for a folder that another server has, and naming the variable of a listener that cannot bind; then nothing is
   * left running.
   */
  start(options?: { hold?: boolean }): Promise<Ready>;
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
  /** How a parser's worker is started. */
  startWorker?: StartWorker;
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
  { startWorker, ...storeOptions }: ApplianceOptions = {},
): Appliance {
  const store = openStore({ folder: config.data, runtime, ...storeOptions });
  const options = openOptions(store);
  const engine = createFts5Engine(store);
  const mailbox = createMailbox({ store, engine, runtime, options, log });
  const people = createPeople({ store, runtime });
  const domains = createDomains({ store, runtime, hostname: config.hostname });
  let webhooks: Webhooks | undefined;
  const deliverSoon = (): void => webhooks?.deliverSoon();
  const developers = createDevelopers({ store, options, runtime, deliverSoon });
  let endRests = (): void => {};
  const outbound = createOutbound({ store, runtime, sendSoon: () => endRests() });

  /** What takes in work; all of it stops at once, and has the same time to finish. */
  const fronts: Started[] = [];
  /** What they work with; ended after them, in reverse. */
  const backs: Started[] = [];
  let scheduler: Scheduler | undefined;
  let web: Web | undefined;
  let settled = async (): Promise<void> => {};

  /** The way of the mail, in and out, without its listeners. */
  function openMta(hold: boolean) {
    const { data: folder, hostname } = config;
    const workers = Math.min(MOST_PARSERS, Math.max(1, availableParallelism() - 1));
    const names = createDnsCache(runtime);
    const blobFolder = join(folder, "blobs");
    const parser = createParserPool({ blobFolder, names, runtime, log, workers, ...(startWorker && { startWorker }) });
    backs.push(parser);
    const spool = openSpool(join(folder, "spool"));
    const transport = createTransport({ runtime, hostname, options, log });
    const local = createLocalDelivery({ db: store.db, mailbox, parser, runtime });
    const outcomes = createOutcomes({ store, mailbox, options, runtime, hostname, log });
    const wake = () => scheduler?.wake(relay.job.name);
    const relay = createRelay({ store, transport, local, outcomes, options, runtime, log, hold, wake });
    fronts.push(relay);
    endRests = relay.endRests;
    const accept = createSubmit({ store, mailbox, local, transport, parser, options, runtime, log });
    const submit: Submit = async (submission, record) => {
      const sent = await accept(submission, record);
      wake();
      return sent;
    };
    const feedback = createFeedback({ db: store.db, outcomes, local, runtime });
    const inbound = createInbound({ store, mailbox, parser, spool, feedback, options, runtime, hostname, log });
    const greylist = createGreylist({ store, runtime });
    const blocklists = createBlocklists({ names, runtime, log });
    const mx = createMxRole(inbound, createDoor({ options, blocklists, greylist, runtime }));
    const notifyAdmins = createAdminNotices({ store, parser, runtime, hostname, log });
    return {
      spool,
      relay,
      submit,
      mx,
      greylist,
      notifyAdmins: async (...notice: Parameters<NotifyAdmins>) => {
        await notifyAdmins(...notice);
        wake();
      },
      sending: createSending({ store, mailbox, parser, submit, options, runtime, log }),
    };
  }

  /** What tells receivers elsewhere of events, and the jobs beside it. */
  function openWebhooks(notifyAdmins: NotifyAdmins) {
    const none: readonly string[] = [];
    const allow = () => {
      const networks = options.get("webhooks.allowNetworks");
      return networks === "none" ? none : networks;
    };
    const requests = openRequests({ runtime, allow });
    const notices = createDisabledNotices({ store, notifyAdmins, baseUrl: config.baseUrl });
    const wake = () => scheduler?.wake(opened.job.name);
    const tell = () => scheduler?.wake(notices.name);
    const opened = createWebhooks({ store, requests, options, runtime, log, wake, tell });
    webhooks = opened;
    fronts.push(opened);
    return { ...opened, jobs: [opened.job, notices, createLogUpkeep(store, options, runtime)] };
  }

  /** Listens for SMTP on `listen`, the value of `variable`. */
  async function startSmtp(
    variable: string,
    listen: Listen,
    parts: { role: SmtpRole; certificates: Certificates | undefined; implicitTls?: boolean },
  ): Promise<{ address: string; works(): boolean }> {
    const { certificates } = parts;
    if (listen === "off" || !certificates) return { address: "off", works: () => true };
    const { hostname } = config;
    const listener = createSmtpListener({ ...parts, certificates, listen, hostname, options, runtime, log });
    const address = await bound(variable, () => listener.start());
    fronts.push(listener);
    return { address, works: () => listener.isListening() };
  }

  async function openTls(): Promise<Certificates | undefined> {
    if ([config.mx, config.submission, config.submissions].every((listen) => listen === "off")) return undefined;
    return openCertificates({ mode: config.tls, hostname: config.hostname, folder: config.data, runtime, log });
  }

  async function startHttp(
    listen: Listen,
    parts: {
      sending: Sending;
      idempotency: Idempotency;
      slowdown: Slowdown;
      trySignIn: TrySignIn;
      touchKey(keyId: string, now: number): void;
      smtpWorks(): boolean;
    },
  ): Promise<string> {
    if (listen === "off") return "off";
    const { sending, idempotency, slowdown, trySignIn, touchKey, smtpWorks } = parts;
    const gate = createGate({
      findCaller: (key) => findCaller(store.db, key),
      touchKey,
      slowdown,
      options,
      now: runtime.now,
    });
    const { baseUrl } = config;
    const performing = { operations: OPERATIONS, mailbox, sending, idempotency };
    const mcp = createMcp({ ...performing, gate, store, runtime, baseUrl, log });
    fronts.push(mcp);
    const sourceOf = createSourceReader(config.trustedProxies);
    const rest = createRest({
      ...performing,
      describe: () => describeApi(OPERATIONS, baseUrl, API_PREFIX),
      gate,
      mcp,
      sourceOf,
      runtime,
      log,
    });
    const opened = createWeb({
      ...performing,
      ...{ store, people, domains, developers, outbound, options, trySignIn, sourceOf, baseUrl, runtime, log },
      touchSession: createSessionUse(store, log),
      snoozed: () => scheduler?.wake("wake-snoozed"),
    });
    web = opened;
    fronts.push(opened);
    const health = { store: () => store.works(), smtp: smtpWorks };
    return bound("MAILROOM_HTTP", () => {
      const http = createHttpServer({ listen, rest, web: opened, health, runtime, log });
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
    outbound,
    mailbox,
    async start({ hold = false } = {}) {
      try {
        backs.push({ stop: claimFolder(config.data) });
        const { spool, relay, submit, mx: mxRole, greylist, sending, notifyAdmins } = openMta(hold);
        const events = openWebhooks(notifyAdmins);
        const certificates = await openTls();
        const slowdown = createSlowdown(runtime);
        const { touchKey } = createKeyUse(store, log);
        const idempotency = createIdempotency({ store, options, runtime });
        const trySignIn = createSignIn({ db: store.db, slowdown });
        const { hostname } = config;
        const role = createSubmissionRole({
          ...{ store, signIn: trySignIn, touchKey, submit, spool, hostname, options, runtime, log },
        });
        const listeners = {
          mx: await startSmtp("MAILROOM_MX", config.mx, { role: mxRole, certificates }),
          submission: await startSmtp("MAILROOM_SUBMISSION", config.submission, { role, certificates }),
          submissions: await startSmtp("MAILROOM_SUBMISSIONS", config.submissions, {
            ...{ role, certificates, implicitTls: true },
          }),
        };
        const smtpWorks = () => Object.values(listeners).every((listener) => listener.works());
        const http = await startHttp(config.http, {
          ...{ sending, idempotency, slowdown, trySignIn, touchKey, smtpWorks },
        });
        scheduler = createScheduler(runtime, log, [
          ...mailbox.jobs,
          createIndexUpkeep(store, engine),
          ...(certificates ? [certificates.job] : []),
          idempotency.job,
          createSessionSweep(store),
          relay.job,
          greylist.job,
          ...events.jobs,
          follow(store, () => {
            options.refresh();
            relay.endRests();
            web?.look();
            for (const { name } of events.jobs) scheduler?.wake(name);
          }),
        ]);
        scheduler.start();
        fronts.push(scheduler);
        settled = settledWith(store, scheduler, [relay, events]);
        const { mx, submission, submissions } = listeners;
        const ready = { http, mx: mx.address, submission: submission.address, submissions: submissions.address };
        log.info("ready", ready);
        return ready;
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

/**
 * Resolves when no job is due and nothing is being delivered: a delivery may make a job due, and a job deliver, so it
 * takes a round in which nothing was written.
 */
function settledWith(
  store: Store,
  scheduler: Scheduler,
  deliverers: readonly { idle(): Promise<void> }[],
): () => Promise<void> {
  let commits = 0;
  store.onCommit(() => commits++);
  return async () => {
    for (let before = -1; before !== commits; ) {
      before = commits;
      await scheduler.settled();
      for (const deliverer of deliverers) await deliverer.idle();
      await scheduler.settled();
    }
  };
}

/** Notices what commands wrote into the database beside the running server. */
function follow(store: Store, changed: () => void): Job {
  let seen = store.dataVersion();
  return {
    name: "follow",
    runDue(now) {
      const version = store.dataVersion();
      if (version !== seen) {
        seen = version;
        changed();
      }
      return now + FOLLOW_MS;
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
