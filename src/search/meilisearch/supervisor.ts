/**
 * Keeps Meilisearch running while the settings ask for it: started, watched, started again after ever longer waits, and
 * ended with the appliance. Everything below its folder is made from the mail, so what another version wrote, or what
 * it cannot start with, is removed and filled again.
 *
 * Invariant: whatever goes wrong ends in a state with its reason, and in another try; nothing here is waited for by mail.
 */
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { rm, statfs } from "node:fs/promises";
import { join, resolve } from "node:path";
import type { Log } from "../../base/log.ts";
import { pause } from "../../base/pause.ts";
import type { Runtime } from "../../base/runtime.ts";
import type { Options } from "../../store/settings.ts";
import type { Connection, Place } from "./client.ts";
import {
  anyRuns,
  DATABASE,
  findExecutable,
  keepProcessState,
  killLeftovers,
  type ProcessState,
  SCRATCH,
  SEARCH_FOLDER,
  startProcess,
} from "./process.ts";
import { type Failure, watchProcess } from "./watch.ts";

export interface Supervisor extends Connection {
  /** From then on it follows the settings. */
  start(): void;
  state(): ProcessState;
}

export interface SupervisorParts {
  /** The data folder. */
  data: string;
  options: Pick<Options, "get" | "onRefresh">;
  runtime: Pick<Runtime, "now" | "setTimer" | "randomBytes" | "fetch">;
  log: Log;
  /** Bytes that are free on the disk of a folder. */
  freeBytes?: (folder: string) => Promise<number>;
}

/** Between a failure and the next try, ms: doubled each time. */
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 5 * 60_000;
/** After so long it was no bad start. */
const STABLE_MS = 5 * 60_000;
/** Ports that others were quicker to take, in one start. */
const PORTS = 3;
/** Starts that end by themselves until the data are taken for the reason, and removed. */
const FAILURES_OF_DATA = 3;
/** Mail comes first: with less than that free it is not started, or is ended. */
const ROOM_TO_START = 512 * 1024 * 1024;
const ROOM_TO_RUN = 256 * 1024 * 1024;
/** When settings change, ms. It writes in transactions, so that being killed harms nothing. */
const CHANGE_GRACE_MS = 1_000;
/** How long a killed process may take to be gone, and how often it is looked for, ms. */
const LEFTOVER_LIMIT_MS = 5_000;
const POLL_MS = 20;
const KEY_BYTES = 32;

/** A time in which the same executable is asked for. */
interface Term {
  /** The setting that says where it is. */
  path: string;
  over: AbortController;
  /** What its process has left once it is over, ms. */
  graceMs: number;
  /** How often a process was started. */
  starts: number;
}

const defaultFreeBytes = async (folder: string): Promise<number> => {
  const { bavail, bsize } = await statfs(folder);
  return bavail * bsize;
};

const reasonOf = (error: unknown): string => (error instanceof Error ? error.message : String(error));
const megabytes = (bytes: number): string => `${Math.floor(bytes / (1024 * 1024))} MB`;

export function createSupervisor({
  data,
  options,
  runtime,
  log,
  freeBytes = defaultFreeBytes,
}: SupervisorParts): Supervisor {
  // The process has it as its working folder, from which relative paths would lead elsewhere.
  const folder = resolve(data, SEARCH_FOLDER);
  // For this process alone: who reads an old one has nothing.
  const key = Buffer.from(runtime.randomBytes(KEY_BYTES)).toString("hex");
  const listeners: (() => void)[] = [];
  let place: Place | undefined;
  let state: ProcessState = { state: "off", restarts: 0 };
  let started = false;
  let restarts = 0;
  let term: Term | undefined;
  /** The end of the former term, and of its process, comes before the next one begins. */
  let turn = Promise.resolve();

  function tell(next: Omit<ProcessState, "restarts">, where?: Place): void {
    state = { ...next, restarts };
    place = where;
    try {
      if (next.state !== "off") mkdirSync(folder, { recursive: true, mode: 0o700 });
      if (existsSync(folder)) keepProcessState(data, { ...state, ...(where && { place: where }) });
    } catch (error) {
      log.warn("the state of meilisearch cannot be kept", { error });
    }
    for (const listener of listeners) listener();
  }

  /** The setting that says which executable is to run; undefined while none is. */
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
    if (place !== undefined) tell({ state: "off" });
  }

  /** What is not fed grows old, and mail that is deleted must not live on in it. */
  async function forget(): Promise<void> {
    if (!existsSync(folder)) return tell({ state: "off" });
    try {
      await endLeftovers();
      await rm(folder, { recursive: true, force: true });
    } catch (error) {
      log.warn("the folder of meilisearch cannot be removed", { folder, error });
    }
    tell({ state: "off" });
  }

  async function keepRunning(own: Term): Promise<void> {
    let failures = 0;
    let blamed = 0;
    const { signal } = own.over;
    while (!signal.aborted) {
      tell({ state: "starting" });
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
      tell({
        ...{ state: "failed", reason: failure.reason, retryAt: runtime.now() + waitMs },
        ...(executable !== undefined && { executable }),
        ...(version !== undefined && { version }),
      });
      await pause(runtime, waitMs, signal);
    }
    tell({ state: "off" });
  }

  /** Half of it to all of it. */
  const jittered = (ms: number): number => Math.round(ms * (0.5 + (runtime.randomBytes(1)[0] ?? 0) / 510));

  /** From finding the executable to the end of its process; undefined when that was asked for. @throws what keeps it from starting */
  async function run(own: Term): Promise<Failure | undefined> {
    const { signal } = own.over;
    const { path, version } = await findExecutable(own.path, data, runtime, signal);
    tell({ state: "starting", executable: path, version });
    await requireRoom(ROOM_TO_START);
    await endLeftovers();
    if (isOfAnother(version)) await removeData(`it is not of version ${version}`);
    await rm(join(folder, SCRATCH), { recursive: true, force: true });
    mkdirSync(join(folder, SCRATCH), { mode: 0o700 });
    if (signal.aborted) return undefined;
    if (own.starts++ > 0) restarts++;
    for (let port = 1; ; port++) {
      const child = await startProcess({ executable: path, folder, key }, { ...runtime, log });
      tell({ state: "starting", executable: path, version, pid: child.pid });
      const failure = await watchProcess(child, {
        ...{ runtime, over: signal, graceMs: () => own.graceMs },
        onReady() {
          log.info("meilisearch runs", { version, url: child.url, pid: child.pid });
          tell({ state: "running", executable: path, version, pid: child.pid }, { url: child.url, key });
        },
        objection: () => requireRoom(ROOM_TO_RUN).then(() => undefined, reasonOf),
      });
      place = undefined;
      if (failure === undefined || !child.lostItsPort() || port === PORTS) return failure;
    }
  }

  async function requireRoom(bytes: number): Promise<void> {
    const free = await freeBytes(data);
    if (free >= bytes) return;
    throw new Error(`the disk of ${data} has ${megabytes(free)} free, which is kept for mail: make room`);
  }

  /** Of a server that was killed. */
  async function endLeftovers(): Promise<void> {
    const pids = killLeftovers(folder);
    if (pids.length > 0) log.warn("what was left of a meilisearch was ended", { pids });
    const startedAt = runtime.now();
    while (anyRuns(pids)) {
      if (runtime.now() - startedAt >= LEFTOVER_LIMIT_MS) throw new Error(`process ${pids.join()} does not end`);
      await pause(runtime, POLL_MS);
    }
  }

  /** Whether the data are another version's, or of one that never finished making them. */
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
    start() {
      started = true;
      beginTerm(wanted(), 0);
    },
    state: () => state,
    current: () => place,
    onChange: (listener) => void listeners.push(listener),
    async stop(graceMs) {
      started = false;
      endTerm(graceMs);
      await turn;
    },
  };
}
