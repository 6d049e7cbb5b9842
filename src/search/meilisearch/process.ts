/**
 * The Meilisearch server as a child process: on loopback, with a master key passed in the environment, writing only below
 * one folder. A folder never has two of them, which Meilisearch itself would accept.
 */
import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path";
import { type ChildProcess, type ProcessState, type Program, startChild } from "../../base/child-process.ts";
import type { Log } from "../../base/log.ts";
import { memoryLimit } from "../../base/memory.ts";
import type { Runtime } from "../../base/runtime.ts";
import { freePort } from "../../net/ip.ts";
import type { ServerAddress } from "./meilisearch-client.ts";

export interface SidecarProcess extends ChildProcess {
  /** `http://127.0.0.1:port` */
  readonly url: string;
  /** Another process took its port between choosing and binding it. */
  lostItsPort(): boolean;
}

export const MEILISEARCH: Program = {
  name: "meilisearch",
  title: "Meilisearch",
  setting: "search.meilisearchPath",
  versionArgs: ["--version"],
  versionForm: /^meilisearch (\d+\.\d+\.\d+\S*)$/,
};

/** Below Meilisearch's folder. */
export const DATABASE = "data";
export const SCRATCH = "tmp";

const MB = 1024 * 1024;
/** Share of memory for indexing; searching uses the system's cache. */
const MEMORY_SHARE = 1 / 8;
const LEAST_MEMORY = 64 * MB;
const MOST_MEMORY = 1024 * MB;
const MOST_THREADS = 4;

function limits(): { memory: number; threads: number } {
  const memory = memoryLimit() * MEMORY_SHARE;
  return {
    memory: Math.round(Math.min(MOST_MEMORY, Math.max(LEAST_MEMORY, memory))),
    threads: Math.min(MOST_THREADS, Math.max(1, Math.floor(availableParallelism() / 2))),
  };
}

/** Starts it on a free port. `folder`: Meilisearch's folder, which exists. @throws system errors */
export async function startMeilisearchProcess(
  { executable, folder, key }: { executable: string; folder: string; key: string },
  runtime: Pick<Runtime, "now" | "setTimer"> & { log: Log },
): Promise<SidecarProcess> {
  const address = `127.0.0.1:${await freePort()}`;
  const { memory, threads } = limits();
  let portTaken = false;
  const child = startChild(
    {
      name: MEILISEARCH.name,
      command: [
        executable,
        ...["--env", "production", "--no-analytics", "--log-level", "WARN", "--http-addr", address],
        ...meilisearchDatabaseArguments(folder),
        ...["--dump-dir", join(folder, SCRATCH), "--snapshot-dir", join(folder, SCRATCH)],
        ...["--max-indexing-memory", String(memory), "--max-indexing-threads", String(threads)],
      ],
      folder,
      env: { MEILI_MASTER_KEY: key, TMPDIR: join(folder, SCRATCH) },
      secret: key,
      hear(line) {
        if (/address already in use|os error 98/i.test(line)) portTaken = true;
        if (/^Error: |\bpanicked at\b/.test(line)) return { last: line.replace(/^Error: /, "") };
        return /^\S+ +(WARN|ERROR)\b/.test(line) ? "tell" : "ignore";
      },
    },
    runtime,
  );
  return { ...child, url: `http://${address}`, lostItsPort: () => portTaken };
}

/** Those that tell the process of this folder from others. */
export const meilisearchDatabaseArguments = (folder: string): string[] => ["--db-path", join(folder, DATABASE)];

/**
 * True if the listener on the loopback port belongs to this user, or if the system does not tell: our key and mail must
 * not reach another process that bound the port first.
 */
export function isOwnLoopbackListener(url: string): boolean {
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

/** In the data folder: everything of Meilisearch's, which is derived from the mail and replaceable. */
export const SEARCH_FOLDER = "search";

/**
 * Replaces the reason why Meilisearch serves no search by that of its process, if it has failed. For admins only,
 * because the reason may name paths and disks.
 */
export const explainMeilisearchFailure = <S extends { engine: string; reason?: string }>(
  search: S,
  child: ProcessState,
): S => (child.state === "failed" ? { ...search, reason: `meilisearch does not run: ${child.reason}` } : search);

/** With the address of the process, while it runs, and its key. */
export interface StoredState extends ProcessState {
  place?: ServerAddress;
}
