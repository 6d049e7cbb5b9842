/**
 * One run of the Meilisearch server, as a child process: on loopback, with a master key that it gets by its environment,
 * and everything it writes below one folder.
 *
 * Invariant: it never outlives this process, and there are never two on one folder, which Meilisearch itself would take.
 * A shell that reads a pipe of ours kills it when the pipe ends without a word, however we ended; what escaped even that
 * is ended before the next start.
 */
import { existsSync, readdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { availableParallelism, totalmem } from "node:os";
import { join, resolve } from "node:path";
import type { Log } from "../../base/log.ts";
import { atMost } from "../../base/pause.ts";
import type { Runtime } from "../../base/runtime.ts";
import { freePort } from "../../net/ip.ts";
import type { Place } from "./client.ts";

export interface SidecarProcess {
  readonly pid: number;
  /** `http://127.0.0.1:port` */
  readonly url: string;
  /** Resolves when it has ended, with how, in words. */
  readonly exited: Promise<string>;
  /** Its port was taken between choosing and binding it. */
  lostItsPort(): boolean;
  /** Ended by itself and not from outside: what it found on the disk may be the reason. */
  failed(): boolean;
  kill(signal: "SIGTERM" | "SIGKILL"): void;
}

/** Below the folder that is Meilisearch's. */
export const DATABASE = "data";
export const SCRATCH = "tmp";

/**
 * Becomes the server, which is killed before the mail's where memory runs out. What stays beside it waits for a line, which
 * says that the server has ended: a process number that may be another's by then is left alone.
 */
const LIFELINE = `umask 077
exec 3<&0 </dev/null
(trap '' HUP INT TERM; read -r line <&3 || kill -KILL $$) >/dev/null 2>&1 &
exec 3<&-
{ echo 500 >/proc/self/oom_score_adj; } 2>/dev/null
exec "$@"`;

const MB = 1024 * 1024;
/** Of the memory that there is, for indexing; searching takes what the system's cache gives. */
const MEMORY_SHARE = 1 / 8;
const LEAST_MEMORY = 64 * MB;
const MOST_MEMORY = 1024 * MB;
const MOST_THREADS = 4;

/** How long its last words are waited for: what it started may hold its stderr open. */
const LAST_WORDS_MS = 2_000;
/** Lines of its log that are passed on in a minute; what prints without end must not fill ours. */
const LINES_A_MINUTE = 30;
const MINUTE_MS = 60_000;
const LONGEST_LINE = 1_000;

function limits(): { memory: number; threads: number } {
  const memory = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY) * MEMORY_SHARE;
  return {
    memory: Math.round(Math.min(MOST_MEMORY, Math.max(LEAST_MEMORY, memory))),
    threads: Math.min(MOST_THREADS, Math.max(1, Math.floor(availableParallelism() / 2))),
  };
}

/** Starts it on a port that is free now. `folder`: Meilisearch's, which is there. @throws what the system says */
export async function startProcess(
  { executable, folder, key }: { executable: string; folder: string; key: string },
  { log, ...runtime }: Pick<Runtime, "now" | "setTimer"> & { log: Log },
): Promise<SidecarProcess> {
  const address = `127.0.0.1:${await freePort()}`;
  const { memory, threads } = limits();
  const child = Bun.spawn(
    [
      ...["/bin/sh", "-c", LIFELINE, "meilisearch", executable],
      ...["--env", "production", "--no-analytics", "--log-level", "WARN", "--http-addr", address],
      ...["--db-path", join(folder, DATABASE)],
      ...["--dump-dir", join(folder, SCRATCH), "--snapshot-dir", join(folder, SCRATCH)],
      ...["--max-indexing-memory", String(memory), "--max-indexing-threads", String(threads)],
    ],
    {
      cwd: folder,
      env: { MEILI_MASTER_KEY: key, TMPDIR: join(folder, SCRATCH), PATH: "/usr/local/bin:/usr/bin:/bin" },
      // A session of its own: Ctrl-C is for us, who end it in order.
      detached: true,
      stdio: ["pipe", "ignore", "pipe"],
    },
  );
  let portTaken = false;
  let lastWords = "";
  const passOn = limitedLog(log, runtime.now);
  const said = (async () => {
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
    await letGo(child.stdin);
    await atMost(runtime, LAST_WORDS_MS, said);
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

/** Tells the lifeline that there is nothing left to kill. */
async function letGo(pipe: Bun.FileSink): Promise<void> {
  try {
    await pipe.write("ended\n");
    await pipe.end();
  } catch {
    // It was ended from outside.
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = "";
  for await (const chunk of stream) {
    const lines = (rest + decoder.decode(chunk, { stream: true })).split("\n");
    // Of what never ends its line, the beginning is enough.
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
 * Kills what an appliance that was killed may have left on the folder: processes of the same user with that folder's
 * database. Returns their numbers. Where there is no /proc, the pipe alone has to do.
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
      // It has ended meanwhile, or is another user's.
      return false;
    }
  });
}

/** Whether one of them is still there; a zombie, which holds nothing, is not. */
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
 * Whether who listens on the loopback port is of our own user: our key, and mail, must not go to another who was quicker
 * to bind it. True where the system does not tell.
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

/* Which Meilisearch executable is run, and which version it is. */

export interface Executable {
  path: string;
  /** As it says itself: `1.21.0`. */
  version: string;
}

/** How long it may take to say its version, ms. */
const PATIENCE_MS = 10_000;
const LONGEST_QUOTE = 200;

/**
 * The path of the executable: what the setting names, and then nothing else; without it (`auto`), that in the data folder,
 * else the one in PATH. @throws Error that names the places when there is none
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
 * Finds it and asks its version; given up when `signal` is aborted. @throws Error saying why it cannot be run, or that it
 * is no Meilisearch
 */
export async function findExecutable(
  setting: string,
  data: string,
  { setTimer }: Pick<Runtime, "setTimer">,
  signal: AbortSignal,
): Promise<Executable> {
  const path = locateExecutable(setting, data);
  let asked: Bun.Subprocess<"ignore", "pipe", "ignore">;
  try {
    asked = Bun.spawn([path, "--version"], { env: {}, signal, stdio: ["ignore", "pipe", "ignore"] });
  } catch (error) {
    throw new Error(
      `${path} cannot be run here (${(error as Error).message}): is it executable, and for this machine?`,
    );
  }
  const cancel = setTimer(() => asked.kill("SIGKILL"), PATIENCE_MS);
  let said = "";
  for await (const chunk of asked.stdout.pipeThrough(new TextDecoderStream())) {
    said += chunk;
    if (said.length > LONGEST_QUOTE) asked.kill("SIGKILL");
  }
  const code = await asked.exited;
  cancel();
  said = said.replaceAll(/\s+/g, " ").trim();
  const [, version] = /^meilisearch (\d+\.\d+\.\d+\S*)$/.exec(said) ?? [];
  if (code === 0 && version !== undefined) return { path, version };
  const answer = said === "" ? "nothing" : `"${said.slice(0, LONGEST_QUOTE)}"`;
  throw new Error(
    `${path} is no Meilisearch: asked its version, it said ${answer} (${asked.signalCode ?? `exit ${code}`})`,
  );
}

/*
 * What became of the Meilisearch process, in a file of its folder while a server runs: for the checks of a command
 * beside it, which then ask the process itself. It holds the key of that process, so it is its owner's alone.
 */

/** In the data folder: all that is Meilisearch's, made from the mail and replaceable. */
export const SEARCH_FOLDER = "search";
const FILE = "process.json";

export interface ProcessState {
  /** `off`: it is not asked for. `failed`: it is, does not run, and is tried again. */
  state: "off" | "starting" | "running" | "failed";
  /** Why it does not run, in a sentence without its full stop. */
  reason?: string;
  executable?: string;
  version?: string;
  pid?: number;
  /** How often it has been started again since the server was. */
  restarts: number;
  /** When it is tried again, epoch ms. */
  retryAt?: number;
}

/** For admins alone, who may know of paths and disks: why no search is answered by the process, where that is the reason. */
export const explain = <S extends { engine: string; reason?: string }>(search: S, child: ProcessState): S =>
  child.state === "failed" ? { ...search, reason: `meilisearch does not run: ${child.reason}` } : search;

/** With where it can be asked, while it runs. */
export interface KeptState extends ProcessState {
  place?: Place;
}

/** `data`: the data folder, in which Meilisearch's is. @throws what the file system says */
export function keepProcessState(data: string, state: KeptState): void {
  const path = join(data, SEARCH_FOLDER, FILE);
  writeFileSync(`${path}.new`, `${JSON.stringify(state)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** What a server on the data folder kept last; undefined when none did. */
export function readProcessState(data: string): KeptState | undefined {
  try {
    return JSON.parse(readFileSync(join(data, SEARCH_FOLDER, FILE), "utf8")) as KeptState;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT" || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
