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
import { endLeftoverProcesses, findExecutable, keepProcessState, type ProcessState } from "../../base/child-process.ts";
import { type Failure, keepRunning, STABLE_MS, watchProcess } from "../../base/keep-running.ts";
import type { Log } from "../../base/log.ts";
import type { Runtime } from "../../base/runtime.ts";
import { readResponseText, SHORT_ANSWER } from "../../net/answer.ts";
import type { Options } from "../../store/settings.ts";
import type { ServerAddress } from "./meilisearch-client.ts";
import {
  DATABASE,
  isOwnLoopbackListener,
  MEILISEARCH,
  meilisearchDatabaseArguments,
  SCRATCH,
  SEARCH_FOLDER,
  type StoredState,
  startMeilisearchProcess,
} from "./process.ts";

export type Supervisor = ReturnType<typeof createMeilisearchSupervisor>;

/** Ports tried in one start, if other processes take them first. */
const PORTS = 3;
/** Starts that end on their own before the data are considered the cause and removed. */
const FAILURES_OF_DATA = 3;
/** Mail comes first: with less free space than this, Meilisearch is not started, or is stopped. */
const ROOM_TO_START = 512 * 1024 * 1024;
const ROOM_TO_RUN = 256 * 1024 * 1024;
/** Grace period after a change of settings, ms. Meilisearch writes in transactions, so killing it is harmless. */
const CHANGE_GRACE_MS = 1_000;
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

const readFreeBytes = async (folder: string): Promise<number> => {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
};

const describeError = (error: unknown): string => (error instanceof Error ? error.message : String(error));
const megabytes = (bytes: number): string => `${Math.floor(bytes / (1024 * 1024))} MB`;

/** `data`: the data folder. `freeBytes` gives the free space on the disk of a folder. */
export function createMeilisearchSupervisor({
  data,
  options,
  runtime,
  log,
  freeBytes = readFreeBytes,
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
      const stored: StoredState = { ...state, ...(nextAddress && { place: nextAddress }) };
      if (existsSync(folder)) keepProcessState(folder, stored);
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
      .then(() => (next ? keep(next) : forget()))
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
      await endOthers();
      await rm(folder, { recursive: true, force: true });
    } catch (error) {
      log.warn("the folder of meilisearch cannot be removed", { folder, error });
    }
    setState({ state: "off" });
  }

  async function keep(own: Term): Promise<void> {
    let blamed = 0;
    await keepRunning({
      run() {
        setState({ state: "starting" });
        return run(own);
      },
      async failed({ reason, ranMs, blamesData }, waitMs) {
        if (ranMs >= STABLE_MS) blamed = 0;
        if (blamesData && ++blamed === FAILURES_OF_DATA) await removeData("it fails again and again");
        log.warn("meilisearch does not run: searches are answered by fts5", { reason, retryInMs: waitMs });
        const { executable, version } = state;
        setState({
          state: "failed",
          reason,
          retryAt: runtime.now() + waitMs,
          ...(executable !== undefined && { executable }),
          ...(version !== undefined && { version }),
        });
      },
      runtime,
      over: own.over.signal,
    });
    setState({ state: "off" });
  }

  /**
   * Finds the executable, runs it and waits for its end; undefined if the end was requested. @throws errors that
   * prevent the start
   */
  async function run(own: Term): Promise<Failure | undefined> {
    const { signal } = own.over;
    const { path, version } = await findExecutable(MEILISEARCH, own.path, data, runtime, signal);
    setState({ state: "starting", executable: path, version });
    await requireRoom(ROOM_TO_START);
    await endOthers();
    if (isOfAnother(version)) await removeData(`it is not of version ${version}`);
    await rm(join(folder, SCRATCH), { recursive: true, force: true });
    mkdirSync(join(folder, SCRATCH), { mode: 0o700 });
    if (signal.aborted) return undefined;
    if (own.starts++ > 0) restarts++;
    for (let port = 1; ; port++) {
      const child = await startMeilisearchProcess({ executable: path, folder, key }, { ...runtime, log });
      setState({ state: "starting", executable: path, version, pid: child.pid });
      const failure = await watchProcess(child, {
        responds: (over) => isHealthy(child.url, over, runtime),
        isOurs: () => isOwnLoopbackListener(child.url),
        onReady() {
          log.info("meilisearch runs", { version, url: child.url, pid: child.pid });
          setState({ state: "running", executable: path, version, pid: child.pid }, { url: child.url, key });
        },
        objection: () => requireRoom(ROOM_TO_RUN).then(() => undefined, describeError),
        runtime,
        over: signal,
        graceMs: () => own.graceMs,
      });
      address = undefined;
      if (failure === undefined || !child.lostItsPort()) return failure;
      if (port === PORTS) return { ...failure, blamesData: false };
    }
  }

  /** Ends processes left by a killed server. */
  const endOthers = () =>
    endLeftoverProcesses(MEILISEARCH.name, meilisearchDatabaseArguments(folder), { ...runtime, log });

  async function requireRoom(bytes: number): Promise<void> {
    const free = await freeBytes(data);
    if (free >= bytes) return;
    throw new Error(`the disk of ${data} has ${megabytes(free)} free, which is kept for mail: make room`);
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

/** Time limit for a response, ms. */
const RESPONSE_LIMIT_MS = 10_000;

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
    const answer =
      response.ok && (JSON.parse(await readResponseText(response, SHORT_ANSWER)) as { status?: unknown } | null);
    return answer !== false && answer?.status === "available";
  } catch {
    return false;
  } finally {
    cancel();
    signal.removeEventListener("abort", abort);
  }
}
