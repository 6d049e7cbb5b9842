/**
 * The composition root: creates and connects all parts of the appliance, starts them in order and stops them in
 * reverse. `createAppliance` opens the data folder and starts nothing, which is enough for most commands; `serve` also
 * calls `start`.
 */
import { join } from "node:path";
import { openIdentity } from "./access/identity.ts";
import { createAccessNotices } from "./access/notices.ts";
import { createPasswordLinkMails } from "./access/password-links.ts";
import { createDevelopers, type Developers } from "./admin/developers.ts";
import { createDomains, createLossNotices, type Domains } from "./admin/domains.ts";
import { createErasure } from "./admin/erasure.ts";
import { createExpiryNotices } from "./admin/expiry-notices.ts";
import { createKeyJournal, type KeyJournal } from "./admin/journal.ts";
import { createMailAppRecords } from "./admin/mail-apps.ts";
import { createPublishedPolicy } from "./admin/mta-sts.ts";
import { createOutbound, type Outbound } from "./admin/outbound.ts";
import { createPeople, type People } from "./admin/people.ts";
import { createFirstRun, type FirstRun } from "./admin/setup.ts";
import { createApi } from "./api/api.ts";
import { createPools, registerPools } from "./api/pools.ts";
import { createAddressReader, createSourceReader } from "./api/request.ts";
import type { StartBackup } from "./backup/schedule.ts";
import { createScheduledBackups } from "./backup/schedule.ts";
import { askProcess, listenToCommands } from "./base/control.ts";
import { hasFreeDescriptors, limitOfOpenFiles, shareDescriptors } from "./base/descriptors.ts";
import type { AppError } from "./base/errors.ts";
import type { Log } from "./base/log.ts";
import type { Meters } from "./base/metrics.ts";
import type { Runtime } from "./base/runtime.ts";
import { createScheduler, type Job, type Scheduler } from "./base/scheduler.ts";
import { build, version } from "./base/version.ts";
import { blobsEnvironment, type Config, type Listen, servesImap } from "./config.ts";
import { findDemo, requireLoopback } from "./demo/folder.ts";
import { newestFiledAt } from "./doctor/checks/machine.ts";
import { createDoctor, type Doctor, type DoctorOptions, STANDBY_CHECKS } from "./doctor/doctor.ts";
import { createEvents, type Events } from "./events/events.ts";
import { createConnections } from "./http/connections.ts";
import { createDiscovery } from "./http/discovery.ts";
import { createMetricsPage, type HttpParts, startHttp } from "./http/server.ts";
import { createWeb } from "./http/web.ts";
import { createImap } from "./imap/server.ts";
import { createReadJournal } from "./journal/reads.ts";
import { forgetJournal } from "./journal/retention.ts";
import { createMailFlow } from "./mail.ts";
import { createMailbox, type Mailbox } from "./mailbox/mailbox.ts";
import { composeHere } from "./mailbox/octets.ts";
import { readHere } from "./message/reading.ts";
import { createMonitoring } from "./monitoring/monitoring.ts";
import { createOAuth } from "./oauth/oauth.ts";
import { createIdempotency } from "./operations/idempotency.ts";
import { createSubmissionRole } from "./outbound/submission.ts";
import { createPush } from "./push/push.ts";
import { createReplication, registerReplicaGauges } from "./replica/replication.ts";
import { publicState, registerStandbyGauges, type StandbyState } from "./replica/standby.ts";
import { createBacklogJob, createIndexUpkeep } from "./search/fts5/upkeep.ts";
import { explain } from "./search/meilisearch/process.ts";
import { createSupervisor } from "./search/meilisearch/supervisor.ts";
import { createSearch, registerSearchGauges } from "./search/search.ts";
import type { SmtpRole } from "./smtp/role.ts";
import { createSmtpListener } from "./smtp/server.ts";
import { limitsFor } from "./smtp/server-connection.ts";
import { registerBlobMetrics, watchBlobs } from "./store/blob-watch.ts";
import { startCheckpoints } from "./store/checkpoints.ts";
import { claimFolder } from "./store/claim.ts";
import type { ReadOnlyStore } from "./store/read-only.ts";
import { openS3Blobs } from "./store/s3.ts";
import { type Options, openOptions } from "./store/settings.ts";
import { openStore, type Store } from "./store/store.ts";
import { adviceOn } from "./tls/advice.ts";
import { type Certificates, openCertificates, ownNames } from "./tls/certificates.ts";
import type { StartParser } from "./workers/parser-process.ts";

/** Addresses of the listeners, as `host:port`; `off` for those that did not start. */
export interface Ready {
  http: string;
  /** Undefined when it is off. */
  https?: string;
  mx: string;
  submission: string;
  submissions: string;
  /** Only where they are on. */
  imap?: string;
  imaps?: string;
}

export interface Appliance {
  readonly config: Config;
  readonly runtime: Runtime;
  readonly store: Store;
  readonly options: Options;
  readonly people: People;
  readonly erasure: ReturnType<typeof createErasure>;
  readonly domains: Domains;
  readonly developers: Developers;
  readonly outbound: Outbound;
  readonly firstRun: FirstRun;
  readonly mailbox: Mailbox;
  readonly journal: KeyJournal;
  readonly doctor: Doctor;
  /**
   * Starts listeners and jobs; resolves when all listen. `hold`: holds mail to the outside instead of sending it.
   * `prepare` may change the data folder: it runs after this server has claimed the folder, before everything else.
   * `signal` ends the wait for the lease of the replica.
   * @throws ConfigError for unusable certificate files, and for a demo's listeners that are not loopback; Error for a
   * folder that another server has claimed, or with the variable of a listener that cannot bind; errors of `prepare`.
   * Nothing is left running then. Fenced if another server has taken over; the reason of `signal`.
   */
  start(options?: { hold?: boolean; prepare?(): Promise<void>; signal?: AbortSignal }): Promise<Ready>;
  /** Rejects with Fenced when this server may not write any more: the process must end at once. Else pending. */
  readonly fenced: Promise<never>;
  /** Stops accepting, finishes work in flight for up to `graceMs`, and closes the store. */
  stop(graceMs?: number): Promise<void>;
  /** Reads the operator's certificate again, whether its files look changed or not. */
  reload(): void;
  /** Does all due work and resolves when there is no more. Tests on a fake clock wait for it. */
  settled(): Promise<void>;
  /** Closes the data folder of an appliance that was not started. */
  close(): void;
}

/** What an appliance that only reads, a standby, knows of what it follows. */
export interface Following {
  store: ReadOnlyStore;
  /** For the health page, the app and metrics. */
  state(): StandbyState;
  /** The refusal of every request while the database cannot be read. */
  unreadable(): AppError | undefined;
}

export interface ApplianceOptions {
  /** Reads this, and changes nothing: no listeners for mail and mail apps, no jobs. */
  following?: Following | undefined;
  /** Another database file than the folder's (store.ts). */
  file?: string | Uint8Array;
  /** How long a write waits for another process's, ms. */
  busyTimeoutMs?: number;
  /** Starts a parser; replaced in tests. */
  startParser?: StartParser;
  /** Starts a backup's process; replaced in tests. */
  startBackup?: StartBackup;
  doctor?: DoctorOptions;
  /** Networks that strangers' URLs to unsubscribe at and push services may lead to, beside public ones; for tests. */
  allow?: readonly string[];
}

/** How often to look for changes by other processes (rules: Settings). */
const FOLLOW_MS = 600;
/** How often to end HTTP connections that make the server wait too long. */
const SWEEP_MS = 1_000;
/** After so long without mail before a start, the clock may be ahead. */
const SILENT_MS = 24 * 60 * 60_000;
/** Leaves some of the ten seconds for closing the store (rules: Stopping). */
const GRACE_MS = 9_000;

/** Where commands reach the running server: in its data folder. */
const CONTROL = "server.sock";

/** A started part. */
interface Started {
  stop(graceMs: number): unknown;
}

export function createAppliance(
  given: Config,
  runtime: Runtime,
  log: Log,
  { following, startParser, startBackup, doctor: doctorOptions, allow = [], ...storeOptions }: ApplianceOptions = {},
): Appliance {
  const config: Config = following
    ? { ...given, mx: "off", submission: "off", submissions: "off", imap: "off", imaps: "off" }
    : given;
  const s3 = config.blobs && openS3Blobs(config.blobs, runtime);
  const store = following?.store ?? openStore({ folder: config.data, s3, runtime, log, ...storeOptions });
  const options = openOptions(store);
  store.remote?.cache.bound(() => options.get("blobs.cacheBytes"));
  const engine = createSearch({ store, options, runtime, log, putOff: () => wake("search-backlog") });
  const sidecar = createSupervisor({ data: config.data, options, runtime, log });
  let read = readHere;
  let composeStored = composeHere(store.blobs);
  const mailbox = createMailbox({
    store,
    engine,
    runtime,
    options,
    log,
    read: (source, reading) => read(source, reading),
    composeStored: (parts, owner) => composeStored(parts, owner),
    wake: (job) => wake(job),
  });
  const { hostname, baseUrl } = config;
  const people = createPeople({ store, runtime, baseUrl });
  const erasure = createErasure({ store, people, engine, runtime });
  const ports = {
    imap: configuredPort(config.imap),
    imaps: configuredPort(config.imaps),
    submission: configuredPort(config.submission),
    submissions: configuredPort(config.submissions),
  };
  const policy = createPublishedPolicy({ options, hostname, baseUrl });
  const mailAppRecords = createMailAppRecords({ hostname, baseUrl, ports });
  const domains = createDomains({ store, runtime, log, hostname, policy, mailApps: mailAppRecords });
  const checks = following ? { checks: STANDBY_CHECKS } : {};
  const doctor = createDoctor({ config, store, options, domains, runtime, log }, { ...checks, ...doctorOptions });
  const replication =
    !following &&
    config.replica &&
    createReplication({ ...config, url: config.baseUrl, location: config.replica, store, options, runtime, log });
  let events: Events | undefined;
  const deliverSoon = (): void => events?.deliverSoon();
  const developers = createDevelopers({ store, options, runtime, deliverSoon });
  const firstRun = createFirstRun({ store, people, domains, developers, runtime });
  let endRests = (): void => {};
  const journal = createKeyJournal({ store, options, runtime, mailbox, snoozed: () => wake("wake-snoozed") });
  const outbound = createOutbound({ store, runtime, sendSoon: () => endRests() });

  /** Parts that take in work. They stop at the same time, each within the grace. */
  const frontends: Started[] = [];
  /** Parts that the frontends need. They stop after the frontends, in reverse order. */
  const backends: Started[] = [];
  let scheduler: Scheduler | undefined;
  const wake = (job: string): void => scheduler?.wake(job);
  let reload = (): void => {};
  let settled = async (): Promise<void> => {};

  /** Starts an SMTP listener on `listen`, the value of `variable`. */
  async function startSmtp(
    variable: string,
    listen: Listen,
    most: number,
    parts: { role: SmtpRole; certificates: Certificates | undefined; meters: Meters; implicitTls?: boolean },
  ): Promise<{ address: string; works(): boolean }> {
    const { certificates } = parts;
    if (listen === "off" || !certificates) return { address: "off", works: () => true };
    const limits = limitsFor(most);
    const confirm = () => store.replicated();
    const listener = createSmtpListener({
      ...{ ...parts, certificates, limits, listen, hostname, confirm, options, runtime, log },
    });
    const address = await bound(variable, () => listener.start());
    frontends.push(listener);
    return { address, works: () => listener.isListening() };
  }

  async function openTls(): Promise<Certificates | undefined> {
    const { https, mx, submission, submissions, imap, imaps } = config;
    if ([https, mx, submission, submissions, imap, imaps].every((listen) => listen === "off")) return undefined;
    const { tls: mode, data: folder } = config;
    const names = ownNames({ hostname, baseUrl });
    const listed = domains.webHosts;
    const certificates = await openCertificates({ mode, hostname, folder, names, domains: listed, runtime, log });
    frontends.push(certificates);
    reload = () => {
      certificates.forget();
      wake(certificates.job.name);
    };
    return certificates;
  }

  function startWeb(parts: Omit<HttpParts, "http" | "https" | "baseUrl" | "policyAt" | "runtime" | "log" | "bound">) {
    const { http, https } = config;
    return startHttp({
      ...parts,
      policyAt: domains.policyAt,
      http,
      https,
      baseUrl,
      runtime,
      log,
      bound: (variable, start) =>
        bound(variable, async () => {
          const server = await start();
          frontends.push(server);
          return server.address;
        }),
    });
  }

  /** Orders a certificate at once. Resolves with what came of it. @throws Error that says why nothing is ordered */
  async function renewCertificate(certificates: Certificates | undefined, domain: unknown): Promise<RenewalAnswer> {
    if (!certificates) throw new Error("no listener of this server uses TLS");
    const renewing = certificates.renew(typeof domain === "string" ? domain : undefined);
    wake(certificates.job.name);
    const { names, until, trouble } = await renewing;
    if (!trouble || config.tls.mode !== "acme") return { names, until };
    const { reason, retryAt } = trouble;
    return {
      names,
      until,
      failure: { reason, retryAt, todo: adviceOn(trouble, { ...config.tls, host: names[0] ?? hostname }) },
    };
  }

  /** Answers the commands that talk to the running server, which goes on without it where the folder's path is too long. */
  function listenForCommands(handlers: Parameters<typeof listenToCommands>[1]): void {
    try {
      frontends.push(listenToCommands(join(config.data, CONTROL), handlers));
    } catch (error) {
      log.warn("commands cannot talk to this server: its socket cannot be opened", { error });
    }
  }

  async function stop(graceMs = GRACE_MS): Promise<void> {
    await Promise.all(frontends.splice(0).map((frontend) => frontend.stop(graceMs)));
    while (backends.length > 0) await backends.pop()?.stop(graceMs);
    store.close();
  }

  return {
    config,
    runtime,
    store,
    options,
    people,
    erasure,
    domains,
    developers,
    outbound,
    firstRun,
    mailbox,
    journal,
    doctor,
    fenced: (replication || undefined)?.fenced ?? new Promise<never>(() => {}),
    async start({ hold = false, prepare, signal } = {}) {
      try {
        // A standby has claimed it before it followed anything.
        if (!following) {
          backends.push({ stop: claimFolder(config.data) });
          if (replication) {
            backends.push(replication);
            await replication.start(signal);
            // Who writes the database also removes the blobs that it names no more.
            await store.remote?.own().catch((error) => log.warn("blobs without a row are not removed yet", { error }));
          } else backends.push(startCheckpoints(store, log));
        }
        await prepare?.();
        const isDemo = findDemo({ people, domains }) !== undefined;
        if (isDemo) requireLoopback(config);
        if (!following) {
          sidecar.start();
          frontends.push(sidecar);
        }
        const { data: folder } = config;
        let certificates: Certificates | undefined;
        const certificate = () => certificates?.current().cert;
        const domainCertificates = () => certificates?.domains() ?? [];
        const monitoring = createMonitoring({ store, options, folder, certificate, domainCertificates, runtime });
        backends.push(monitoring);
        const { meters, metrics } = monitoring;
        const shares = shareDescriptors(limitOfOpenFiles(), { imap: servesImap(config) });
        if (!shares.suffices) log.warn("the limit of open files is low: see mailroom doctor", { limit: shares.limit });
        registerSearchGauges(metrics, { search: engine.state, process: sidecar.state });
        const { remote } = store;
        if (remote) registerBlobMetrics(metrics, remote);
        if (following) registerStandbyGauges(metrics, following.state);
        if (replication) registerReplicaGauges(metrics, replication.state);
        const base = { store, options, runtime, log, meters };
        const { verifyOnArrival } = domains;
        const mailFlow = createMailFlow({
          ...base,
          mailbox,
          verifyOnArrival,
          folder,
          hostname,
          baseUrl,
          startParser,
          hold,
          wake,
        });
        const { relay, submit, spool, sending, invitations, notifyAdmins, readDocument } = mailFlow;
        read = mailFlow.read;
        composeStored = mailFlow.composeStored;
        backends.push({ stop: mailFlow.stopParsing });
        frontends.push(relay);
        endRests = relay.endRests;
        const opened = createEvents({ ...base, notifyAdmins, baseUrl, wake, mostConnections: shares.webhooks });
        events = opened;
        frontends.push(opened);
        const operators = () => people.listWorkspaces()[0]?.id;
        const backups = createScheduledBackups({
          ...base,
          folder,
          hostname,
          notifyAdmins,
          operators,
          environment: blobsEnvironment(config),
          start: startBackup,
        });
        const watch = doctor.watch({ notifyAdmins, operators });
        if (!following) frontends.push(backups, watch);

        certificates = await openTls();
        const identity = openIdentity({ ...base, folder });
        const { signIn, signInSources, slowdown, touchKey } = identity;
        const role = createSubmissionRole({ ...base, signIn, signInSources, submit, spool, hostname });
        const secured = { certificates, meters };
        const listeners = {
          mx: await startSmtp("MAILROOM_MX", config.mx, shares.smtp.mx, { ...secured, role: mailFlow.mxRole }),
          submission: await startSmtp("MAILROOM_SUBMISSION", config.submission, shares.smtp.submission, {
            ...secured,
            role,
          }),
          submissions: await startSmtp("MAILROOM_SUBMISSIONS", config.submissions, shares.smtp.submissions, {
            ...secured,
            role,
            implicitTls: true,
          }),
        };

        const mostConnections = shares.http;
        const pools = createPools({ mostConnections, runtime });
        registerPools(metrics, pools);
        const reads = createReadJournal(base);
        if (!following) backends.push({ stop: reads.flush });
        const imap = createImap({
          ...base,
          mailbox,
          signIn,
          signInSources,
          reads,
          parser: mailFlow.parser,
          hostname,
          mostConnections: shares.imap,
          appended: pools.appended,
        });
        if (servesImap(config)) {
          metrics.gauge("mailroom_imap_connections", "Open IMAP connections, and how many there may be", () => [
            [{ kind: "open" }, imap.open()],
            [{ kind: "most" }, shares.imap],
          ]);
          metrics.gauge(
            "mailroom_imap_messages",
            "Messages of mailboxes that mail apps opened: ready, waiting to be, lost as they cannot be read, and changed since an app was told of them",
            () => mailbox.octets.samples(),
          );
        }
        frontends.push(imap);
        const startImap = async (
          variable: string,
          listen: Listen,
          implicitTls: boolean,
        ): Promise<string | undefined> =>
          listen === "off" || !certificates
            ? undefined
            : bound(variable, () => imap.listen({ listen, implicitTls, certificates: certificates as Certificates }));
        const imapAddress = await startImap("MAILROOM_IMAP", config.imap, false);
        const imapsAddress = await startImap("MAILROOM_IMAPS", config.imaps, true);

        const oauth = createOAuth({ ...base, baseUrl });
        const idempotency = createIdempotency(base);
        const administration = {
          store,
          people,
          domains,
          developers,
          journal,
          outbound,
          mailbox,
          options,
          runtime,
          log,
        };
        const performing = {
          mailbox,
          sending,
          snoozed: () => wake("wake-snoozed"),
          administration,
          idempotency,
          reads,
          meters,
          pools,
        };
        const mailApps = {
          host: hostname,
          imap: portOf(imapAddress),
          imaps: portOf(imapsAddress),
          submission: portOf(listeners.submission.address),
          submissions: portOf(listeners.submissions.address),
        };
        const addressOf = createAddressReader(config.trustedProxies);
        const sourceOf = createSourceReader(config.trustedProxies);
        const api = createApi({
          ...base,
          ...performing,
          spool,
          readDocument,
          slowdown,
          touchKey,
          addressOf,
          baseUrl,
        });
        const web = createWeb({
          ...base,
          ...performing,
          invitations,
          allow: () => allow,
          people,
          firstRun,
          doctor,
          sourceOf,
          baseUrl,
          identity,
          oauth,
          mailApps,
          certificate: () => certificates?.current(),
          standby: () => following?.state(),
          searching: () => explain(engine.state(), sidecar.state()),
        });
        frontends.push(api, web);
        // A listener without free descriptors accepts no connection.
        const imapWorks = () => imap.isListening() && hasFreeDescriptors();
        const smtpWorks = () => Object.values(listeners).every((listener) => listener.works()) && hasFreeDescriptors();
        const health = following
          ? { store: () => store.works(), replica: () => following.unreadable() === undefined }
          : {
              store: () => store.works(),
              smtp: smtpWorks,
              ...(servesImap(config) && { imap: imapWorks }),
              ...(replication && {
                replica: () => options.get("replica.ack") === "local" || replication.state().works,
              }),
            };
        if (!following) {
          engine.start(sidecar);
          backends.push(engine);
          frontends.push(createPush({ ...base, metrics, contact: contactOf(baseUrl, hostname), allow: () => allow }));
        }
        const metricsPage = createMetricsPage({ metrics, options });
        const { trustedProxies } = config;
        const connections = createConnections({
          most: mostConnections,
          trustedProxies,
          runtime,
          isKnown: signInSources.isKnown,
          refused: meters.countHttpRefusal,
        });
        metrics.gauge("mailroom_http_connections", "Open HTTP and HTTPS connections, and how many there may be", () => [
          [{ kind: "open" }, connections.open()],
          [{ kind: "most" }, mostConnections],
        ]);
        const addresses = await startWeb({
          localOnly: isDemo,
          rest: api.rest,
          web,
          health,
          ...(following && { standby: () => publicState(following.state()), unavailable: following.unreadable }),
          search: engine.state,
          ...(remote && { blobs: () => (remote.s3.failure() === undefined ? "s3" : "s3 (failing)") }),
          ...(replication && { replica: replication.state }),
          metrics: metricsPage,
          discovery: createDiscovery({ ...base, mailApps, isHosted: domains.isHosted, baseUrl, sourceOf }),
          certificates,
          connections,
          pools,
        });

        const sweepConnections: Job = {
          name: "http-connections",
          runDue(now) {
            connections.sweep();
            return now + SWEEP_MS;
          },
        };
        const standbyJobs = (standby: ReadOnlyStore): Job[] => [
          // An authority asks the server that the name leads to, which is another.
          ...(certificates && config.tls.mode !== "acme" ? [certificates.job] : []),
          identity.sweepSessions,
          sweepConnections,
          {
            name: "follow",
            runDue(now) {
              if (following?.unreadable()) return now + FOLLOW_MS;
              options.refresh();
              standby.look();
              return now + FOLLOW_MS;
            },
          },
        ];
        const serverJobs: readonly Job[] = [
          ...mailbox.jobs,
          ...(remote ? [watchBlobs(remote, log)] : []),
          createIndexUpkeep(store, engine),
          createBacklogJob(store, engine, runtime),
          ...(certificates ? [certificates.job] : []),
          idempotency.job,
          reads.job,
          forgetJournal(store, options),
          identity.sweepSessions,
          identity.sweepSessionKeys,
          signInSources.job,
          oauth.job,
          createAccessNotices({ ...base, notify: notifyAdmins }),
          createPasswordLinkMails({ ...base, notify: notifyAdmins, baseUrl, wake }),
          createExpiryNotices({ store, notify: notifyAdmins }),
          people.finishRemovals,
          people.removeExpired,
          createLossNotices({ store, runtime, hostname, notifyAdmins }),
          ...mailFlow.jobs,
          ...opened.jobs,
          backups.job,
          sweepConnections,
          imap.job,
          // The demo needs no daily examination.
          ...(hold ? [] : [watch.job]),
          follow(store, () => {
            options.refresh();
            relay.endRests();
            web.look();
            imap.look();
            mailbox.octets.look();
            engine.look();
            wake("search-backlog");
            wake("wake-snoozed");
            for (const { name } of opened.jobs) wake(name);
          }),
        ];
        scheduler = createScheduler(runtime, log, following ? standbyJobs(following.store) : serverJobs);
        // The job sleeps until the time that the former setting gave.
        options.onRefresh(() => wake("delete-discarded"));
        scheduler.start(runtime.now() - (newestFiledAt(store.db) ?? runtime.now()) > SILENT_MS);
        frontends.push(scheduler);
        if (!following) {
          listenForCommands({ "renew-certificate": ({ domain }) => renewCertificate(certificates, domain) });
        }
        settled = settledWith(store, scheduler, [relay, opened, engine]);
        const { mx, submission, submissions } = listeners;
        const ready = {
          ...addresses,
          mx: mx.address,
          submission: submission.address,
          submissions: submissions.address,
          ...(imapAddress !== undefined && { imap: imapAddress }),
          ...(imapsAddress !== undefined && { imaps: imapsAddress }),
        };
        log.info("ready", { version, build, ...ready });
        return ready;
      } catch (error) {
        await stop(0);
        throw error;
      }
    },
    stop,
    reload: () => reload(),
    settled: () => settled(),
    close: () => store.close(),
  };
}

/** What the running server says of a renewal; times are epoch ms. */
interface RenewalAnswer {
  names: readonly string[];
  /** When the authority's certificate in force ends; undefined without one. */
  until: number | undefined;
  failure?: { reason: string; retryAt: number; todo: string };
}

/**
 * Has the server that runs on a data folder order its certificate, or that of a domain. Undefined if none runs there.
 * @throws Error that says why nothing is ordered
 */
export const askRenewal = (data: string, domain: string | undefined): Promise<RenewalAnswer | undefined> =>
  askProcess(join(data, CONTROL), "renew-certificate", {
    request: { domain },
    broken: "the server ended before the authority had answered: its log says why",
  });

/**
 * Resolves when no job is due and nothing is being delivered. Deliveries make jobs due, and jobs make deliveries, so it
 * repeats until a round without commits.
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

/** A job that notices when other processes, such as commands, wrote to the database. */
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

/** URL of whoever runs the server, for push services (RFC 8292 §2.1). */
const contactOf = (baseUrl: string, hostname: string): string =>
  baseUrl.startsWith("https:") ? baseUrl : `mailto:postmaster@${hostname}`;

/** Port of a listener as it is set; null for one that is off, or on a port that is chosen when it starts. */
const configuredPort = (listen: Listen): number | null => (listen === "off" ? null : listen.port || null);

/** Port of a started listener; null for one that is off. */
const portOf = (address = "off"): number | null =>
  address === "off" ? null : Number(address.slice(address.lastIndexOf(":") + 1));

/** Starts a listener and gives its `host:port`. @throws Error that names the variable to change */
export async function bound(variable: string, start: () => Bound | Promise<Bound>): Promise<string> {
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
