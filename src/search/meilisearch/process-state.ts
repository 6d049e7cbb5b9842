/**
 * What became of the Meilisearch process, in a file of its folder while a server runs: for the checks of a command
 * beside it, which then ask the process itself. It holds the key of that process, so it is its owner's alone.
 */
import { readFileSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { Place } from "./connection.ts";

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
