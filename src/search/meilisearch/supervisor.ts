/**
 * Keeps Meilisearch running while it is enabled: starts and watches it, restarts it after growing delays, and stops it
 * with the appliance. Everything below its folder is derived from the mail, so data of another version, or data with
 * which it cannot start, are removed and rebuilt.
 *
 * Invariant: every failure ends in a state with its reason and a retry; mail never waits for this.
 */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { rm, statfs } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Log } from "../../base/log.ts";
import { pause } from "../../base/pause.ts";
import type { Runtime } from "../../base/runtime.ts";
import type { Options } from "../../store/settings.ts";
import type { ServerAddress } from "./client.ts";
import {
  anyRuns,
  DATABASE,
  findExecutable,
  isOurs,
  keepProcessState,
  killLeftovers,
  type ProcessState,
  SCRATCH,
  SEARCH_FOLDER,
  type SidecarProcess,
  startProcess,
} from "./process.ts";

export type Supervisor = ReturnType<typeof createSupervisor>;

/** Delay before a retry, ms: doubled each time. */
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 5 * 60_000;
/** A process that ran this long started well. */
const STABLE_MS = 5 * 60_000;
/** Ports tried in one start, if other processes take them first. */
const PORTS = 3;
/** Starts that end on their own before the data are considered the cause and removed. */
const FAILURES_OF_DATA = 3;
/** Mail comes first: with less free space than this, Meilisearch is not started, or is stopped. */
const ROOM_TO_START = 512 * 1024 * 1024;
const ROOM_TO_RUN = 256 * 1024 * 1024;
/** Grace period after a change of settings, ms. Meilisearch writes in transactions, so killing it is harmless. */
const CHANGE_GRACE_MS = 1_000;
/** Time limit for a killed process to disappear, and the interval of checks, ms. */
const LEFTOVER_LIMIT_MS = 5_000;
const POLL_MS = 20;
const KEY_BYTES = 32;

/** A period in which the settings ask for the same executable. */
interface Term {
  /** The setting that names it. */
  path: string;
  over: AbortController;
  /** Time that its process gets to end after the period, ms. */
  graceMs: number;
  /** Number of times a process was started. */
  starts: number;
}

const freeBytesOf = async (folder: string): Promise<number> => {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
};

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
const megabytes = (bytes: number): string => `${Math.floor(bytes / (1024 * 1024))} MB`;

/** `data`: the data folder. `freeBytes` gives the free space on the disk of a folder. */
export function createSupervisor({
  data,
  options,
  runtime,
  log,
  freeBytes = freeBytesOf,
}: {
  data: string;
  options: Pick<Options, "get" | "onRefresh">;
  runtime: Runtime;
  log: Log;
  freeBytes?: (folder: string) => Promise<number>;
}) {
  // Absolute, because the folder is the process's working directory, where relative paths lead elsewhere.
  const folder = resolve(data, SEARCH_FOLDER);
  // A new key for each run of this process: an old one is useless.
  const key = Buffer.from(runtime.randomBytes(KEY_BYTES)).toString("hex");
  const listeners: (() => void)[] = [];
  let address: ServerAddress | undefined;
  let state: ProcessState = { state: "off", restarts: 0 };
  let started = false;
  let restarts = 0;
  let term: Term | undefined;
  /** A period begins only after the previous one and its process have ended. */
  let turn = Promise.resolve();

  function setState(next: Omit<ProcessState, "restarts">, nextAddress?: ServerAddress): void {
    state = { ...next, restarts };
    address = nextAddress;
    try {
      if (next.state !== "off") mkdirSync(folder, { recursive: true, mode: 0o700 });
      if (existsSync(folder)) keepProcessState(data, { ...state, ...(nextAddress && { place: nextAddress }) });
    } catch (error) {
      log.warn("the state of meilisearch cannot be kept", { error });
    }
    for (const listener of listeners) listener();
  }

  /** The setting that names the wanted executable; undefined if none is wanted. */
  const wanted = (): string | undefined =>
    options.get("search.engine") === "meilisearch" && options.get("search.meilisearchUrl") === "none"
      ? options.get("search.meilisearchPath")
      : undefined;

  function follow(): void {
    if (!started || wanted() === term?.path) return;
    beginTerm(wanted(), CHANGE_GRACE_MS);
  }

  function beginTerm(path: string | undefined, graceMs: number): void {
    endTerm(graceMs);
    const next = path === undefined ? undefined : { path, over: new AbortController(), graceMs: 0, starts: 0 };
    term = next;
    turn = turn
      .then(() => (next ? keepRunning(next) : forget()))
      .catch((error) => log.error("meilisearch is not looked after any more", { error }));
  }

  function endTerm(graceMs: number): void {
    if (term === undefined) return;
    term.graceMs = graceMs;
    term.over.abort();
    term = undefined;
    if (address !== undefined) setState({ state: "off" });
  }

  /** An index that is not fed becomes stale, and deleted mail must not survive in it. */
  async function forget(): Promise<void> {
    if (!existsSync(folder)) return setState({ state: "off" });
    try {
      await endLeftovers();
      await rm(folder, { recursive: true, force: true });
    } catch (error) {
      log.warn("the folder of meilisearch cannot be removed", { folder, error });
    }
    setState({ state: "off" });
  }

  async function keepRunning(own: Term): Promise<void> {
    let failures = 0;
    let blamed = 0;
    const { signal } = own.over;
    while (!signal.aborted) {
      setState({ state: "starting" });
      const failure = await run(own).catch(
        (error): Failure => ({ reason: reasonOf(error), ranMs: 0, blamesData: false }),
      );
      if (signal.aborted || failure === undefined) break;
      if (failure.ranMs >= STABLE_MS) failures = blamed = 0;
      if (failure.blamesData && ++blamed === FAILURES_OF_DATA) await removeData("it fails again and again");
      const waitMs = jittered(Math.min(FIRST_RETRY_MS * 2 ** failures++, LONGEST_RETRY_MS));
      log.warn("meilisearch does not run: searches are answered by fts5", {
        reason: failure.reason,
        retryInMs: waitMs,
      });
      const { executable, version } = state;
      setState({
        state: "failed",
        reason: failure.reason,
        retryAt: runtime.now() + waitMs,
        ...(executable !== undefined && { executable }),
        ...(version !== undefined && { version }),
      });
      await pause(runtime, waitMs, signal);
    }
    setState({ state: "off" });
  }

  /** Between half of it and all of it. */
  const jittered = (ms: number): number => Math.round(ms * (0.5 + (runtime.randomBytes(1)[0] ?? 0) / 510));

  /**
   * Finds the executable, runs it and waits for its end; undefined if the end was requested. @throws errors that
   * prevent the start
   */
  async function run(own: Term): Promise<Failure | undefined> {
    const { signal } = own.over;
    const { path, version } = await findExecutable(own.path, data, runtime, signal);
    setState({ state: "starting", executable: path, version });
    await requireRoom(ROOM_TO_START);
    await endLeftovers();
    if (isOfAnother(version)) await removeData(`it is not of version ${version}`);
    await rm(join(folder, SCRATCH), { recursive: true, force: true });
    mkdirSync(join(folder, SCRATCH), { mode: 0o700 });
    if (signal.aborted) return undefined;
    if (own.starts++ > 0) restarts++;
    for (let port = 1; ; port++) {
      const child = await startProcess({ executable: path, folder, key }, { ...runtime, log });
      setState({ state: "starting", executable: path, version, pid: child.pid });
      const failure = await watchProcess(child, {
        runtime,
        over: signal,
        graceMs: () => own.graceMs,
        onReady() {
          log.info("meilisearch runs", { version, url: child.url, pid: child.pid });
          setState({ state: "running", executable: path, version, pid: child.pid }, { url: child.url, key });
        },
        objection: () => requireRoom(ROOM_TO_RUN).then(() => undefined, reasonOf),
      });
      address = undefined;
      if (failure === undefined || !child.lostItsPort() || port === PORTS) return failure;
    }
  }

  async function requireRoom(bytes: number): Promise<void> {
    const free = await freeBytes(data);
    if (free >= bytes) return;
    throw new Error(`the disk of ${data} has ${megabytes(free)} free, which is kept for mail: make room`);
  }

  /** Ends processes left by a killed server. */
  async function endLeftovers(): Promise<void> {
    const pids = killLeftovers(folder);
    if (pids.length > 0) log.warn("what was left of a meilisearch was ended", { pids });
    const startedAt = runtime.now();
    while (anyRuns(pids)) {
      if (runtime.now() - startedAt >= LEFTOVER_LIMIT_MS) throw new Error(`process ${pids.join()} does not end`);
      await pause(runtime, POLL_MS);
    }
  }

  /** True if the data belong to another version, or to one that never finished creating them. */
  function isOfAnother(version: string): boolean {
    const database = join(folder, DATABASE);
    if (!existsSync(database)) return false;
    try {
      return readFileSync(join(database, "VERSION"), "utf8").trim() !== version;
    } catch {
      return true;
    }
  }

  async function removeData(reason: string): Promise<void> {
    log.warn("the data of meilisearch are removed, and made from the mail again", { reason });
    await rm(join(folder, DATABASE), { recursive: true, force: true });
  }

  options.onRefresh(follow);
  return {
    /** Follows the settings from then on. */
    start(): void {
      started = true;
      beginTerm(wanted(), 0);
    },
    state: (): ProcessState => state,
    current: (): ServerAddress | undefined => address,
    onChange: (listener: () => void): void => void listeners.push(listener),
    async stop(graceMs: number): Promise<void> {
      started = false;
      endTerm(graceMs);
      await turn;
    },
  };
}

/* Watches one process: until it responds, while it does, and until it ends. */

/** Interval of polls of a starting process, and the time limit for its start, ms. */
const START_POLL_MS = 100;
const START_LIMIT_MS = 120_000;
/** Interval of polls of a running process, time limit for each, ms, and number that it may miss on a busy machine. */
const WATCH_MS = 10_000;
const RESPONSE_LIMIT_MS = 10_000;
const UNANSWERED = 3;

/** The unexpected end of a process. */
interface Failure {
  reason: string;
  /** Time since its first response, ms; 0 if there was none. */
  ranMs: number;
  /** Its data may be the cause. */
  blamesData: boolean;
}

/** Waits until a process has ended, on its own or by request; undefined if by request. */
async function watchProcess(
  child: SidecarProcess,
  {
    runtime,
    over,
    graceMs,
    onReady,
    objection,
  }: {
    runtime: Runtime;
    /** Aborted when the process must end. */
    over: AbortSignal;
    /** Time that it then gets, ms. */
    graceMs(): number;
    /** Called at its first response. */
    onReady(): void;
    /** The reason why it must stop; undefined while it may run. */
    objection(): Promise<string | undefined>;
  },
): Promise<Failure | undefined> {
  const ended = new AbortController();
  const end = () => ended.abort();
  over.addEventListener("abort", end);
  if (over.aborted) end();
  const gone = child.exited.finally(end);
  const startedAt = runtime.now();
  let readyAt: number | undefined;
  let unanswered = 0;
  let why: string | undefined;
  while (why === undefined && !ended.signal.aborted) {
    const responds = await isHealthy(child.url, ended.signal, runtime);
    if (ended.signal.aborted) break;
    if (readyAt !== undefined) {
      unanswered = responds ? 0 : unanswered + 1;
      why = unanswered === UNANSWERED ? `it did not answer ${UNANSWERED} times in a row` : await objection();
    } else if (responds && isOurs(child.url)) {
      readyAt = runtime.now();
      onReady();
    } else if (runtime.now() - startedAt >= START_LIMIT_MS) {
      why = `it was started, and did not answer within ${START_LIMIT_MS / 1_000} s`;
    }
    if (why === undefined) await pause(runtime, readyAt === undefined ? START_POLL_MS : WATCH_MS, ended.signal);
  }
  over.removeEventListener("abort", end);
  if (over.aborted) {
    await endProcess(child, gone, graceMs(), runtime);
    return undefined;
  }
  if (why !== undefined) child.kill("SIGKILL");
  const how = await gone;
  const ranMs = readyAt === undefined ? 0 : runtime.now() - readyAt;
  return { reason: why ?? how, ranMs, blamesData: why === undefined && child.failed() && !child.lostItsPort() };
}

async function endProcess(
  child: SidecarProcess,
  gone: Promise<unknown>,
  graceMs: number,
  runtime: Pick<Runtime, "setTimer">,
): Promise<void> {
  const patience = new AbortController();
  const ending = gone.then(() => patience.abort());
  if (graceMs > 0) {
    child.kill("SIGTERM");
    await pause(runtime, graceMs, patience.signal);
  }
  if (!patience.signal.aborted) child.kill("SIGKILL");
  await ending;
}

async function isHealthy(
  url: string,
  signal: AbortSignal,
  { setTimer, fetch }: Pick<Runtime, "setTimer" | "fetch">,
): Promise<boolean> {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const cancel = setTimer(abort, RESPONSE_LIMIT_MS);
  signal.addEventListener("abort", abort);
  try {
    const response = await fetch(`${url}/health`, { signal: controller.signal, redirect: "manual" });
    return response.ok && ((await response.json()) as { status?: unknown } | null)?.status === "available";
  } catch {
    return false;
  } finally {
    cancel();
    signal.removeEventListener("abort", abort);
  }
}
