/**
 * Runs the Meilisearch server as a child process: on loopback, with a master key passed in the environment, writing
 * only below one folder. Finds its executable, and keeps its state in a file for commands. supervisor.ts decides when
 * it runs.
 *
 * Invariant: the child never outlives this process, and a folder never has two of them, which Meilisearch itself would
 * accept. A shell beside the child reads a pipe from this process and kills the child when the pipe ends without a
 * word, whatever ended this process. Any survivor is killed before the next start.
 */
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join, resolve } from "node:path";
import type { Log } from "../../base/log.ts";
import { memoryLimit } from "../../base/memory.ts";
import { atMost } from "../../base/pause.ts";
import type { Runtime } from "../../base/runtime.ts";
import { freePort } from "../../net/ip.ts";
import type { ServerAddress } from "./client.ts";

export interface SidecarProcess {
  readonly pid: number;
  /** `http://127.0.0.1:port` */
  readonly url: string;
  /** Resolves when the process has ended, with a description. */
  readonly exited: Promise<string>;
  /** Another process took its port between choosing and binding it. */
  lostItsPort(): boolean;
  /** It ended on its own, not by a signal: data on the disk may be the cause. */
  failed(): boolean;
  kill(signal: "SIGTERM" | "SIGKILL"): void;
}

/** Below Meilisearch's folder. */
export const DATABASE = "data";
export const SCRATCH = "tmp";

/**
 * The script of a shell that becomes the server, which the kernel kills before the mail server when memory runs out.
 * The shell beside it kills the server when its pipe ends, unless a line said that the server has ended: its process id
 * may belong to another process by then.
 */
const LIFELINE = `umask 077
exec 3<&0 </dev/null
(trap '' HUP INT TERM; read -r line <&3 || kill -KILL $$) >/dev/null 2>&1 &
exec 3<&-
{ echo 500 >/proc/self/oom_score_adj; } 2>/dev/null
exec "$@"`;

const MB = 1024 * 1024;
/** Share of memory for indexing; searching uses the system's cache. */
const MEMORY_SHARE = 1 / 8;
const LEAST_MEMORY = 64 * MB;
const MOST_MEMORY = 1024 * MB;
const MOST_THREADS = 4;

/** Time limit for reading the server's last output: a process that it started may hold stderr open. */
const LAST_WORDS_MS = 2_000;
/** Log lines passed on per minute, so that endless output cannot fill our log. */
const LINES_A_MINUTE = 30;
const MINUTE_MS = 60_000;
const LONGEST_LINE = 1_000;

function limits(): { memory: number; threads: number } {
  const memory = memoryLimit() * MEMORY_SHARE;
  return {
    memory: Math.round(Math.min(MOST_MEMORY, Math.max(LEAST_MEMORY, memory))),
    threads: Math.min(MOST_THREADS, Math.max(1, Math.floor(availableParallelism() / 2))),
  };
}

/** Starts it on a free port. `folder`: Meilisearch's folder, which exists. @throws system errors */
export async function startProcess(
  { executable, folder, key }: { executable: string; folder: string; key: string },
  { log, ...runtime }: Pick<Runtime, "now" | "setTimer"> & { log: Log },
): Promise<SidecarProcess> {
  const address = `127.0.0.1:${await freePort()}`;
  const { memory, threads } = limits();
  const child = Bun.spawn(
    [
      "/bin/sh",
      "-c",
      LIFELINE,
      "meilisearch",
      executable,
      "--env",
      "production",
      "--no-analytics",
      "--log-level",
      "WARN",
      "--http-addr",
      address,
      "--db-path",
      join(folder, DATABASE),
      "--dump-dir",
      join(folder, SCRATCH),
      "--snapshot-dir",
      join(folder, SCRATCH),
      "--max-indexing-memory",
      String(memory),
      "--max-indexing-threads",
      String(threads),
    ],
    {
      cwd: folder,
      env: { MEILI_MASTER_KEY: key, TMPDIR: join(folder, SCRATCH), PATH: "/usr/local/bin:/usr/bin:/bin" },
      // A session of its own: Ctrl-C reaches only this process, which ends the child in order.
      detached: true,
      stdio: ["pipe", "ignore", "pipe"],
    },
  );
  let portTaken = false;
  let lastWords = "";
  const passOn = limitedLog(log, runtime.now);
  const allRead = (async () => {
    for await (const raw of linesOf(child.stderr)) {
      const line = Bun.stripANSI(raw).replaceAll(key, "[redacted]").trim();
      if (/address already in use|os error 98/i.test(line)) portTaken = true;
      if (!/^\S+ +(WARN|ERROR)\b|^Error: |\bpanicked at\b/.test(line)) continue;
      if (/^Error: |\bpanicked at\b/.test(line)) lastWords = line.replace(/^Error: /, "");
      passOn(line);
    }
  })();
  const exited = (async () => {
    const code = await child.exited;
    await releaseLifeline(child.stdin);
    await atMost(runtime, LAST_WORDS_MS, allRead);
    const how = child.signalCode === null ? `exit ${code}` : child.signalCode;
    return lastWords === "" ? `it ended (${how})` : `it ended (${how}): ${lastWords}`;
  })();
  return {
    pid: child.pid,
    url: `http://${address}`,
    exited,
    lostItsPort: () => portTaken,
    failed: () => child.signalCode !== "SIGKILL" && child.signalCode !== "SIGTERM",
    kill: (signal) => child.kill(signal),
  };
}

/** Tells the shell beside the server that there is nothing left to kill. */
async function releaseLifeline(pipe: Bun.FileSink): Promise<void> {
  try {
    await pipe.write("ended\n");
    await pipe.end();
  } catch {
    // A signal ended it.
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    // Keeps only the beginning of an endless line.
    rest = (lines.pop() ?? "").slice(0, LONGEST_LINE);
    for (const line of lines) yield line.slice(0, LONGEST_LINE);
  }
  if (rest !== "") yield rest;
}

function limitedLog(log: Log, now: () => number): (line: string) => void {
  let minute = 0;
  let lines = 0;
  return (line) => {
    if (now() - minute >= MINUTE_MS) {
      if (lines > LINES_A_MINUTE) log.warn("meilisearch said more", { lines: lines - LINES_A_MINUTE });
      minute = now();
      lines = 0;
    }
    if (++lines <= LINES_A_MINUTE) log.warn("meilisearch says", { line });
  };
}

/**
 * Kills the processes that a killed appliance may have left: those of the same user with this folder's database.
 * Returns their ids. Without /proc, only the pipe protects.
 */
export function killLeftovers(folder: string): number[] {
  const database = `\0--db-path\0${join(folder, DATABASE)}\0`;
  return processes().filter((pid) => {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(Buffer.from(database).toString("latin1")))
        return false;
      process.kill(pid, "SIGKILL");
      return true;
    } catch {
      // It has ended meanwhile, or belongs to another user.
      return false;
    }
  });
}

/** True if any of these processes still runs; a zombie, which holds nothing, does not count. */
export const anyRuns = (pids: readonly number[]): boolean =>
  pids.some((pid) => {
    try {
      return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
    } catch {
      return false;
    }
  });

function processes(): number[] {
  try {
    return readdirSync("/proc")
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  } catch {
    return [];
  }
}

/**
 * True if the listener on the loopback port belongs to this user, or if the system does not tell: our key and mail must
 * not reach another process that bound the port first.
 */
export function isOurs(url: string): boolean {
  const port = Number(new URL(url).port).toString(16).toUpperCase().padStart(4, "0");
  try {
    const sockets = readFileSync("/proc/self/net/tcp", "latin1")
      .split("\n")
      .map((line) => line.trim().split(/ +/));
    const listener = sockets.find(([, local, , state]) => local === `0100007F:${port}` && state === "0A");
    return listener?.[7] === String(process.getuid?.());
  } catch {
    return true;
  }
}

/* Finds the Meilisearch executable and its version. */

export interface Executable {
  path: string;
  /** As it reports itself: `1.21.0`. */
  version: string;
}

/** Time limit for reporting its version, ms. */
const PATIENCE_MS = 10_000;
const LONGEST_QUOTE = 200;

/**
 * The path of the executable: only the configured one; for `auto`, the one in the data folder, else the one in PATH.
 * @throws Error that names the searched paths if there is none
 */
function locateExecutable(setting: string, data: string): string {
  if (setting !== "auto") {
    if (existsSync(setting)) return setting;
    throw new Error(`search.meilisearchPath names ${setting}, which is not there`);
  }
  const own = resolve(data, "bin/meilisearch");
  const found = existsSync(own) ? own : Bun.which("meilisearch");
  if (found) return found;
  throw new Error(`there is no Meilisearch: search.meilisearchPath names none, there is no ${own}, and none in PATH`);
}

/**
 * Finds it and asks for its version, until `signal` aborts. @throws Error with the reason why it cannot run, or is not
 * Meilisearch
 */
export async function findExecutable(
  setting: string,
  data: string,
  { setTimer }: Pick<Runtime, "setTimer">,
  signal: AbortSignal,
): Promise<Executable> {
  const path = locateExecutable(setting, data);
  let child: Bun.Subprocess<"ignore", "pipe", "ignore">;
  try {
    child = Bun.spawn([path, "--version"], { env: {}, signal, stdio: ["ignore", "pipe", "ignore"] });
  } catch (error) {
    throw new Error(
      `${path} cannot be run here (${(error as Error).message}): is it executable, and for this machine?`,
    );
  }
  const cancel = setTimer(() => child.kill("SIGKILL"), PATIENCE_MS);
  let output = "";
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    output += chunk;
    if (output.length > LONGEST_QUOTE) child.kill("SIGKILL");
  }
  const code = await child.exited;
  cancel();
  output = output.replaceAll(/\s+/g, " ").trim();
  const [, version] = /^meilisearch (\d+\.\d+\.\d+\S*)$/.exec(output) ?? [];
  if (code === 0 && version !== undefined) return { path, version };
  const quote = output === "" ? "nothing" : `"${output.slice(0, LONGEST_QUOTE)}"`;
  throw new Error(
    `${path} is no Meilisearch: asked its version, it said ${quote} (${child.signalCode ?? `exit ${code}`})`,
  );
}

/*
 * The state of the Meilisearch process, in a file of its folder while a server runs. A command beside the server
 * (doctor) reads it, then queries the process itself. It contains the process's key, so only the owner can read it.
 */

/** In the data folder: everything of Meilisearch's, which is derived from the mail and replaceable. */
export const SEARCH_FOLDER = "search";
const FILE = "process.json";

export interface ProcessState {
  /** `off`: not enabled. `failed`: enabled, not running, and retried. */
  state: "off" | "starting" | "running" | "failed";
  /** The reason why it does not run, as a sentence without its full stop. */
  reason?: string;
  executable?: string;
  version?: string;
  pid?: number;
  /** Restarts since the server started. */
  restarts: number;
  /** When it is retried, epoch ms. */
  retryAt?: number;
}

/**
 * Replaces the reason why Meilisearch serves no search by that of its process, if it has failed. For admins only,
 * because the reason may name paths and disks.
 */
export const explain = <S extends { engine: string; reason?: string }>(search: S, child: ProcessState): S =>
  child.state === "failed" ? { ...search, reason: `meilisearch does not run: ${child.reason}` } : search;

/** With the address of the process, while it runs. */
export interface KeptState extends ProcessState {
  place?: ServerAddress;
}

/** `data`: the data folder, which contains Meilisearch's. @throws file system errors */
export function keepProcessState(data: string, state: KeptState): void {
  const path = join(data, SEARCH_FOLDER, FILE);
  writeFileSync(`${path}.new`, `${JSON.stringify(state)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** The last state written by a server on the data folder; undefined if there is none. */
export function readProcessState(data: string): KeptState | undefined {
  try {
    return JSON.parse(readFileSync(join(data, SEARCH_FOLDER, FILE), "utf8")) as KeptState;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
