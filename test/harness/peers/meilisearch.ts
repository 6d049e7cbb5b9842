/**
 * A real Meilisearch server, the executable that MEILISEARCH_BIN names: one for all tests of a process, on a free port of
 * the loopback, with its data in a temporary folder. Indexes have random names, so that tests share it.
 */
import { existsSync } from "node:fs";
import type { ServerAddress } from "../../../src/search/meilisearch/meilisearch-client.ts";
import { atEndOfFile } from "../end.ts";
import { temporaryFolder } from "../folder.ts";
import { takePort } from "../port.ts";
import { until } from "../until.ts";

const executable = process.env.MEILISEARCH_BIN ?? "";
export const hasMeilisearch = executable !== "" && existsSync(executable);
/** The reason why its tests are skipped, for their titles. */
export const WITHOUT_MEILISEARCH = hasMeilisearch
  ? ""
  : " (not run: MEILISEARCH_BIN names no executable of Meilisearch)";

const KEY = "a-master-key-for-tests";
const MASTER: Record<string, string> = { MEILI_MASTER_KEY: KEY, MEILI_NO_ANALYTICS: "true", MEILI_ENV: "production" };

export interface MeilisearchServer extends ServerAddress {
  readonly pid: number;
  /** Ends it at once, as a crash would. */
  kill(): Promise<void>;
  /** Starts it again on the same data and port. */
  restart(): Promise<void>;
}

const running = new Set<Bun.Subprocess>();
let shared: Promise<MeilisearchServer> | undefined;
atEndOfFile(async () => {
  for (const child of running) child.kill("SIGKILL");
  await Promise.all([...running].map((child) => child.exited));
  running.clear();
  shared = undefined;
});

/** Starts one for a single test, which may kill it. */
export async function startMeilisearch(): Promise<MeilisearchServer> {
  const port = await takePort();
  const folder = temporaryFolder();
  const url = `http://127.0.0.1:${port}`;
  let child: Bun.Subprocess | undefined;
  async function start(): Promise<void> {
    const begun = Bun.spawn(
      [
        executable,
        "--http-addr",
        `127.0.0.1:${port}`,
        "--db-path",
        `${folder}/data`,
        "--log-level",
        "ERROR",
        // By default it takes two thirds of the machine's memory for each index, and touches much of it.
        "--max-indexing-memory",
        "64MiB",
        "--max-indexing-threads",
        "1",
      ],
      { cwd: folder, env: MASTER, stdio: ["ignore", "ignore", "ignore"] },
    );
    running.add(begun);
    child = begun;
    await until(async () => {
      if (begun.exitCode !== null) throw new Error(`Meilisearch ended with ${begun.exitCode}`);
      return (await fetch(`${url}/health`).catch(() => undefined))?.ok;
    });
  }
  await start();
  return {
    url,
    key: KEY,
    pid: child?.pid ?? 0,
    async kill() {
      child?.kill("SIGKILL");
      await child?.exited;
      if (child) running.delete(child);
    },
    restart: start,
  };
}

export function sharedMeilisearch(): Promise<MeilisearchServer> {
  shared ??= startMeilisearch();
  return shared;
}
