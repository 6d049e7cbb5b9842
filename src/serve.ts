/**
 * Runs a server on what `open` has opened: its workers, listeners and jobs. They start in order, and stop in reverse: first
 * what takes in work, then what that needs.
 */
import { join } from "node:path";
import { tellAccessChanges } from "./access/access-notices.ts";
import { sweepSessionKeys } from "./access/credentials.ts";
import { openSignInServices } from "./access/identity.ts";
import { mailPasswordLinks } from "./access/password-links.ts";
import { sweepSessions } from "./access/sessions.ts";
import { forgetOldSignInSources, isKnownSignInSource } from "./access/sign-in-sources.ts";
import { findMtaStsPolicyAt, listDomainWebHosts, tellDomainLosses, verifyDomainOnArrival } from "./admin/domains.ts";
import { tellMailboxExpiries } from "./admin/expiry-notices.ts";
import { finishMailboxRemovals, removeExpiredMailboxes } from "./admin/removals.ts";
import * as workspaceAdmin from "./admin/workspace-admin.ts";
import { createApi } from "./api/api.ts";
import { createRequestShares, registerRequestShareMetrics } from "./api/pools.ts";
import { createClientAddressReader, createClientSourceReader } from "./api/request.ts";
import { createScheduledBackups, type StartBackup } from "./backup/scheduled-backups.ts";
import { askProcess, listenToCommands } from "./base/control.ts";
import { hasFreeDescriptors, limitOfOpenFiles, shareDescriptors } from "./base/descriptors.ts";
import type { Job, Scheduler } from "./base/scheduler.ts";
import { build, version } from "./base/version.ts";
import { blobsEnvironment, type Config, type Listen, servesImap } from "./config.ts";
import { findDemo, requireLoopbackListeners } from "./demo/demo-folder.ts";
import { newestMessageFiledAt } from "./doctor/checks/machine.ts";
import { createWebhooks } from "./events/events.ts";
import { createHttpConnections } from "./http/connections.ts";
import { type HttpParts, metricsResponse, startHttp } from "./http/http-server.ts";
import { createMailAppDiscovery } from "./http/mail-app-discovery.ts";
import { createWebApp } from "./http/web.ts";
import { createImap } from "./imap/imap-server.ts";
import { createReadJournal } from "./journal/reads.ts";
import { forgetOldJournalEntries } from "./journal/retention.ts";
import { openMailServices } from "./mail.ts";
import { wakeSnoozed } from "./mailbox/changing/change.ts";
import { forgetThreadChanges } from "./mailbox/changing/change-feed.ts";
import { deleteDiscarded, sweepBlobs } from "./mailbox/changing/removal.ts";
import { forgetAbsenceReplies } from "./mailbox/filing/absences.ts";
import { createImapFolders } from "./mailbox/imap/imap-folders.ts";
import { createOctets } from "./mailbox/imap/octets.ts";
import { countMissingOctets, createMissingOctetsJob } from "./mailbox/reading/missing-octets.ts";
import { renewAllVisibleTexts } from "./mailbox/reading/renewal.ts";
import { registerGauges } from "./monitoring/monitoring.ts";
import { createOAuth } from "./oauth/oauth.ts";
import type { Opened } from "./open.ts";
import { createIdempotency } from "./operations/idempotency.ts";
import { type NotifyAdmins, notifyAdmins } from "./outbound/notices.ts";
import { createSubmissionRole } from "./outbound/submission.ts";
import { createPush } from "./push/push.ts";
import { publicStandbyState, registerStandbyGauges } from "./replica/follow-replica.ts";
import { createReplication, registerReplicaGauges } from "./replica/replication.ts";
import { indexBacklog, maintainIndex } from "./search/fts5/upkeep.ts";
import { explainMeilisearchFailure } from "./search/meilisearch/process.ts";
import { createMeilisearchSupervisor } from "./search/meilisearch/supervisor.ts";
import { registerSearchGauges } from "./search/search.ts";
import type { SmtpRole } from "./smtp/role.ts";
import { smtpListenerLimits } from "./smtp/server-connection.ts";
import { createSmtpListener } from "./smtp/smtp-listener.ts";
import { registerBlobMetrics, watchBlobs } from "./store/blob-watch.ts";
import { startCheckpoints } from "./store/checkpoints.ts";
import { claimFolder } from "./store/claim.ts";
import type { Core } from "./store/core.ts";
import type { ReadOnlyStore } from "./store/read-only.ts";
import { findDatabaseFile } from "./store/reader-database.ts";
import type { Store } from "./store/store.ts";
import { adviceOnCertificateTrouble } from "./tls/advice.ts";
import { type Certificates, openCertificates, ownCertificateNames } from "./tls/certificates.ts";
import type { StartParser } from "./workers/parser-process.ts";
import { createReaderPool, type ReaderPool } from "./workers/reader-pool.ts";

/** Addresses of the listeners, as `host:port`; `off` for those that did not start. */
export interface Ready {
  http: string;
  /** Undefined when it is off. */
  https?: string;
  mx: string;
  submission: string;
  submissions: string;
  /** Undefined when it is off, as is `imaps`. */
  imap?: string;
  imaps?: string;
}

export interface Server {
  readonly ready: Ready;
  /** Rejects with Fenced when this server may not write any more: the process must end at once. Else pending. */
  readonly fenced: Promise<never>;
  /** Stops accepting, finishes work in flight for up to `graceMs`, and closes the store. */
  stop(graceMs?: number): Promise<void>;
  /** Reads the operator's certificate again, whether its files look changed or not. */
  reload(): void;
  /** Does all due work and resolves when there is no more. Tests on a fake clock wait for it. */
  settled(): Promise<void>;
}

export interface ServeOptions {
  /** Holds mail to the outside instead of sending it. */
  hold?: boolean;
  /** May change the data folder: it runs after this server has claimed the folder, before everything else. */
  prepare?(): Promise<void>;
  /** Ends the wait for the lease of the replica. */
  signal?: AbortSignal;
  /** Starts a parser; replaced in tests. */
  startParser?: StartParser;
  /** Starts a backup's process; replaced in tests. */
  startBackup?: StartBackup;
  /** Networks that strangers' URLs to unsubscribe at and push services may lead to, beside public ones; for tests. */
  allow?: readonly string[];
}

/** How often to look for changes by other processes (rules: Settings). */
const FOLLOW_MS = 600;
/** How often to end HTTP connections that make the server wait too long. */
const SWEEP_MS = 1_000;
/** If no mail came for so long before a start, the clock may be ahead. */
const SILENT_MS = 24 * 60 * 60_000;
/** Leaves some of the ten seconds for closing the store (rules: Stopping). */
const GRACE_MS = 9_000;

/** Socket in the data folder at which commands reach the running server. */
const CONTROL = "server.sock";

/** A started part. */
interface Started {
  stop(graceMs: number): unknown;
}

/** The running parts of the server, in the order of their start. */
class Running {
  /** Parts that take in work. They stop at the same time, each within the grace. */
  readonly frontends: Started[] = [];
  /** Parts that the frontends need. They stop after the frontends, in reverse order. */
  readonly backends: Started[] = [];
  readonly #store: Store;

  constructor(store: Store) {
    this.#store = store;
  }

  async stop(graceMs = GRACE_MS): Promise<void> {
    await Promise.all(this.frontends.splice(0).map((frontend) => frontend.stop(graceMs)));
    while (this.backends.length > 0) await this.backends.pop()?.stop(graceMs);
    this.#store.close();
  }
}

/**
 * Starts listeners and jobs; resolves when all listen. @throws ConfigError for unusable certificate files, and for a demo's
 * listeners that are not loopback; Error for a folder that another server has claimed, or with the variable of a listener that
 * cannot bind; errors of `prepare`; Fenced if another server has taken over; the reason of `signal`. Then nothing is left
 * running, and the store is closed.
 */
export async function serve(opened: Opened, options: ServeOptions = {}): Promise<Server> {
  const running = new Running(opened.core.store);
  try {
    return await start(opened, options, running);
  } catch (error) {
    await running.stop(0);
    throw error;
  }
}

async function start(
  opened: Opened,
  { hold = false, prepare, signal, startParser, startBackup, allow = [] }: ServeOptions,
  running: Running,
): Promise<Server> {
  const { config, core, search, scheduler, following, doctor } = opened;
  const { store, options, runtime, log, metrics, meters, wake } = core;
  const { remote } = store;
  const { hostname, baseUrl, data: folder, trustedProxies } = config;
  const { frontends, backends } = running;

  const readers = following ? undefined : openReaders(core);
  const replication = following ? undefined : await takeFolder(config, core, running, readers, signal);
  if (readers) backends.push(readers);
  await prepare?.();
  const isDemo = findDemo(core) !== undefined;
  if (isDemo) requireLoopbackListeners(config);
  const sidecar = createMeilisearchSupervisor({ data: folder, options, runtime, log });
  if (!following) {
    sidecar.start();
    frontends.push(sidecar);
  }
  const shares = shareDescriptors(limitOfOpenFiles(), { imap: servesImap(config) });
  if (!shares.suffices) log.warn("the limit of open files is low: see mailroom doctor", { limit: shares.limit });
  const certificates = await openTls(opened);
  if (certificates) frontends.push(certificates);
  backends.push(registerGauges(core, certificates));
  registerSearchGauges(metrics, { search: search.state, process: sidecar.state });
  if (remote) registerBlobMetrics(metrics, remote);
  if (following) registerStandbyGauges(metrics, following.state);
  if (replication) registerReplicaGauges(metrics, replication.state);

  const mail = openMailServices(readers ? { ...core, readers } : core, {
    hold,
    startParser,
    verifyOnArrival: (domain) => verifyDomainOnArrival(core, domain),
  });
  const { relay } = mail;
  const { parser } = mail.core;
  const imapFolders = createImapFolders(mail.core);
  const octets = createOctets(mail.core);
  const notify: NotifyAdmins = (notice, record) => notifyAdmins(mail.core, notice, record);
  backends.push(parser);
  frontends.push(relay);
  const events = createWebhooks(core, { notifyAdmins: notify, mostConnections: shares.webhooks });
  frontends.push(events);
  const operators = () => workspaceAdmin.listWorkspaces(core)[0]?.id;
  const backups = createScheduledBackups(core, {
    notifyAdmins: notify,
    operators,
    environment: blobsEnvironment(config),
    start: startBackup,
  });
  const watch = doctor.watch({ notifyAdmins: notify, operators });
  if (!following) frontends.push(backups, watch);

  const identity = openSignInServices(core);
  const { signIn, slowdown, touchKey } = identity;
  const role = createSubmissionRole(mail.core, { signIn });
  const listen = (variable: string, at: Listen, most: number, role: SmtpRole, implicitTls = false) =>
    startSmtp(core, running, { variable, listen: at, most, role, implicitTls, certificates });
  const listeners = {
    mx: await listen("MAILROOM_MX", config.mx, shares.smtp.mx, mail.mxRole),
    submission: await listen("MAILROOM_SUBMISSION", config.submission, shares.smtp.submission, role),
    submissions: await listen("MAILROOM_SUBMISSIONS", config.submissions, shares.smtp.submissions, role, true),
  };

  const pools = createRequestShares({ mostConnections: shares.http, runtime });
  registerRequestShareMetrics(metrics, pools);
  const reads = createReadJournal(core);
  if (!following) backends.push({ stop: reads.flush });
  const imap = createImap(mail.core, {
    folders: imapFolders,
    octets,
    signIn,
    reads,
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
      "Messages whose octets are not ready for mail apps: waiting to be, and lost as they cannot be read",
      () => Object.entries(countMissingOctets(store.db)).map(([octets, count]) => [{ octets }, count]),
    );
  }
  frontends.push(imap);
  const startImap = async (variable: string, listen: Listen, implicitTls: boolean): Promise<string | undefined> =>
    listen === "off" || !certificates
      ? undefined
      : bindListener(variable, () => imap.listen({ listen, implicitTls, certificates }));
  const imapAddress = await startImap("MAILROOM_IMAP", config.imap, false);
  const imapsAddress = await startImap("MAILROOM_IMAPS", config.imaps, true);

  const oauth = createOAuth(core);
  const idempotency = createIdempotency(core);
  const performing = {
    core: mail.core,
    idempotency,
    reads,
    pools,
  };
  const mailApps = {
    host: hostname,
    imap: listenerPort(imapAddress),
    imaps: listenerPort(imapsAddress),
    submission: listenerPort(listeners.submission.address),
    submissions: listenerPort(listeners.submissions.address),
  };
  const readClientAddress = createClientAddressReader(trustedProxies);
  const readClientSource = createClientSourceReader(trustedProxies);
  const api = createApi({ ...performing, slowdown, touchKey, readClientAddress });
  const web = createWebApp({
    ...performing,
    allow: () => allow,
    firstRun: opened.firstRun,
    doctor,
    readClientSource,
    identity,
    oauth,
    mailApps,
    certificate: () => certificates?.current(),
    standby: () => following?.state(),
    searching: () => explainMeilisearchFailure(search.state(), sidecar.state()),
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
        ...(replication && { replica: () => options.get("replica.ack") === "local" || replication.state().works }),
      };
  if (!following) {
    search.start(sidecar);
    backends.push(search);
    frontends.push(createPush(core, { contact: operatorContact(baseUrl, hostname), allow: () => allow }));
  }
  const connections = createHttpConnections({
    most: shares.http,
    trustedProxies,
    runtime,
    isKnown: (source) => isKnownSignInSource(core, source),
    refused: meters.countHttpRefusal,
  });
  metrics.gauge("mailroom_http_connections", "Open HTTP and HTTPS connections, and how many there may be", () => [
    [{ kind: "open" }, connections.open()],
    [{ kind: "most" }, shares.http],
  ]);
  const addresses = await startWeb(opened, running, {
    localOnly: isDemo,
    rest: api.rest,
    web,
    health,
    ...(following && { standby: () => publicStandbyState(following.state()), unavailable: following.unreadable }),
    search: search.state,
    ...(remote && { blobs: () => (remote.s3.failure() === undefined ? "s3" : "s3 (failing)") }),
    ...(replication && { replica: replication.state }),
    metrics: (request, peer) => metricsResponse(core, request, peer),
    discovery: createMailAppDiscovery(core, mailApps, readClientSource),
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
    sweepSessions(core),
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
    wakeSnoozed(core),
    sweepBlobs(core),
    deleteDiscarded(core),
    forgetThreadChanges(core),
    forgetAbsenceReplies(core),
    ...imapFolders.jobs,
    createMissingOctetsJob(mail.core),
    renewAllVisibleTexts(mail.core),
    ...(remote ? [watchBlobs(remote, log)] : []),
    maintainIndex(core, core.engine),
    indexBacklog(core, core.engine),
    ...(certificates ? [certificates.job] : []),
    idempotency.job,
    reads.job,
    forgetOldJournalEntries(core),
    sweepSessions(core),
    sweepSessionKeys(core),
    forgetOldSignInSources(core),
    oauth.job,
    tellAccessChanges(core, notify),
    mailPasswordLinks(core, notify),
    tellMailboxExpiries(core, notify),
    finishMailboxRemovals(core),
    removeExpiredMailboxes(core),
    tellDomainLosses(core, notify),
    ...mail.jobs,
    ...events.jobs,
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
      wake("make-octets");
      search.look();
      wake("search-backlog");
      wake("wake-snoozed");
      for (const { name } of events.jobs) wake(name);
    }),
  ];
  scheduler.add(following ? standbyJobs(following.store) : serverJobs);
  // The job sleeps until the time that the former setting gave.
  options.onRefresh(() => wake("delete-discarded"));
  scheduler.start(runtime.now() - (newestMessageFiledAt(store.db) ?? runtime.now()) > SILENT_MS);
  frontends.push(scheduler);
  if (!following) {
    listenForCommands(core, running, {
      "renew-certificate": ({ domain }) => renewCertificate(opened, certificates, domain),
    });
  }
  const ready = {
    ...addresses,
    mx: listeners.mx.address,
    submission: listeners.submission.address,
    submissions: listeners.submissions.address,
    ...(imapAddress !== undefined && { imap: imapAddress }),
    ...(imapsAddress !== undefined && { imaps: imapsAddress }),
  };
  readers?.warm();
  log.info("ready", { version, build, ...ready });
  return {
    ready,
    fenced: replication?.fenced ?? new Promise<never>(() => {}),
    stop: (graceMs) => running.stop(graceMs),
    reload() {
      if (!certificates) return;
      certificates.forget();
      wake(certificates.job.name);
    },
    settled: settledWith(store, scheduler, [relay, events, search]),
  };
}

/**
 * Claims the data folder, and has its database replicated where that is asked for. Resolves with the replication. A standby
 * has claimed the folder before it followed anything.
 */
async function takeFolder(
  config: Config,
  core: Core,
  { backends }: Running,
  readers: ReaderPool | undefined,
  signal: AbortSignal | undefined,
) {
  const { store, log } = core;
  backends.push({ stop: claimFolder(config.data) });
  if (!config.replica) {
    const checkpoints = startCheckpoints(store, log, { ...(readers && { atRest: readers.atRest }) });
    readers?.whenGone(checkpoints.look);
    backends.push(checkpoints);
    return undefined;
  }
  const replication = createReplication(core, config.replica);
  backends.push(replication);
  await replication.start(signal);
  // Who writes the database also removes the blobs that it names no more.
  await store.remote?.own().catch((error) => log.warn("blobs without a row are not removed yet", { error }));
  return replication;
}

/** Undefined for a database in memory, which no other process reads. */
function openReaders({ store, site, runtime, log, metrics }: Core): ReaderPool | undefined {
  const file = findDatabaseFile(store.db);
  if (file === undefined) return undefined;
  return createReaderPool({ file, replyFolder: join(site.folder, "spool"), runtime, log, metrics });
}

/** Undefined where no listener uses TLS. */
async function openTls({ config, core }: Opened): Promise<Certificates | undefined> {
  const { https, mx, submission, submissions, imap, imaps } = config;
  if ([https, mx, submission, submissions, imap, imaps].every((listen) => listen === "off")) return undefined;
  const { tls: mode, data: folder, hostname, baseUrl } = config;
  const { runtime, log } = core;
  const names = ownCertificateNames({ hostname, baseUrl });
  return openCertificates({ mode, hostname, folder, names, domains: () => listDomainWebHosts(core), runtime, log });
}

/** Starts an SMTP listener on `listen`, the value of `variable`. */
async function startSmtp(
  core: Core,
  { frontends }: Running,
  {
    variable,
    listen,
    most,
    certificates,
    ...kind
  }: {
    variable: string;
    listen: Listen;
    most: number;
    role: SmtpRole;
    implicitTls: boolean;
    certificates: Certificates | undefined;
  },
): Promise<{ address: string; works(): boolean }> {
  if (listen === "off" || !certificates) return { address: "off", works: () => true };
  const limits = smtpListenerLimits(most);
  const listener = createSmtpListener(core, { ...kind, certificates, limits, listen });
  const address = await bindListener(variable, () => listener.start());
  frontends.push(listener);
  return { address, works: () => listener.isListening() };
}

function startWeb(
  { config: { http, https, baseUrl }, core }: Opened,
  { frontends }: Running,
  parts: Omit<HttpParts, "http" | "https" | "baseUrl" | "policyAt" | "runtime" | "log" | "bound">,
) {
  const { runtime, log } = core;
  return startHttp({
    ...parts,
    ...{ http, https, baseUrl, runtime, log },
    policyAt: (host, path) => findMtaStsPolicyAt(core, host, path),
    bound: (variable, start) =>
      bindListener(variable, async () => {
        const server = await start();
        frontends.push(server);
        return server.address;
      }),
  });
}

/** Orders a certificate at once. Resolves with what came of it. @throws Error that says why nothing is ordered */
async function renewCertificate(
  { config, core }: Opened,
  certificates: Certificates | undefined,
  domain: unknown,
): Promise<RenewalAnswer> {
  if (!certificates) throw new Error("no listener of this server uses TLS");
  const renewing = certificates.renew(typeof domain === "string" ? domain : undefined);
  core.wake(certificates.job.name);
  const { names, until, trouble } = await renewing;
  if (!trouble || config.tls.mode !== "acme") return { names, until };
  const { reason, retryAt } = trouble;
  const todo = adviceOnCertificateTrouble(trouble, { ...config.tls, host: names[0] ?? config.hostname });
  return { names, until, failure: { reason, retryAt, todo } };
}

/** Answers the commands that talk to the running server, which goes on without it where the folder's path is too long. */
function listenForCommands(
  { site, log }: Core,
  { frontends }: Running,
  handlers: Parameters<typeof listenToCommands>[1],
): void {
  try {
    frontends.push(listenToCommands(join(site.folder, CONTROL), handlers));
  } catch (error) {
    log.warn("commands cannot talk to this server: its socket cannot be opened", { error });
  }
}

/** Answer of the running server to a request to renew a certificate. Times are epoch ms. */
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
export const askCertificateRenewal = (data: string, domain: string | undefined): Promise<RenewalAnswer | undefined> =>
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
const operatorContact = (baseUrl: string, hostname: string): string =>
  baseUrl.startsWith("https:") ? baseUrl : `mailto:postmaster@${hostname}`;

/** Port of a started listener; null for one that is off. */
const listenerPort = (address = "off"): number | null =>
  address === "off" ? null : Number(address.slice(address.lastIndexOf(":") + 1));

/** Starts a listener and gives its `host:port`. @throws Error that names the variable to change */
export async function bindListener(variable: string, start: () => Bound | Promise<Bound>): Promise<string> {
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
