/**
 * A stand-in for the Meilisearch executable that behaves according to its `mode`: real child processes, real sockets,
 * and the test's clock for all waits of a second or more.
 */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createLog } from "../../../src/base/log.ts";
import { createMeilisearchSupervisor, type Supervisor } from "../../../src/search/meilisearch/supervisor.ts";
import { atEndOfFile } from "../end.ts";
import { temporaryFolder } from "../folder.ts";
import { type FakeRuntime, fakeRuntime } from "../runtime.ts";
import { whenChanged } from "../until.ts";

/**
 * Its behaviour, in a file beside it that is read at each start and request. `hangs`: accepts requests and never
 * responds. `slow`: listens only after the mode changes. `stubborn`: works, and ignores requests to end.
 */
export type Mode =
  | ("works" | "hangs" | "slow" | "stubborn" | "exits" | "floods" | "loses its port")
  | ("leaves a child" | "says no version" | "floods its version" | "finds its data corrupt");

/** The shell does what needs no server, because it starts faster. */
const FRONT = `#!/bin/sh
here=$(dirname "$0")
mode=$(cat "$here/mode")
version=$(cat "$here/version")
if [ "$1" = --version ]; then
  while [ "$mode" = "floods its version" ]; do echo meilisearch meilisearch meilisearch; done
  if [ "$mode" = "says no version" ]; then echo hello; else echo "meilisearch $version"; fi
  exit
fi
leave() { echo "Error: $1" >&2; exit 1; }
for word; do
  if [ "$before" = --db-path ]; then folder=$word; fi
  before=$word
done
mkdir -p "$folder"
printf %s "$version" >"$folder/VERSION"
case $mode in
  exits) leave "it will not, with the key $MEILI_MASTER_KEY" ;;
  "finds its data corrupt") if [ -e "$folder/mark" ]; then leave MDB_INVALID; fi ;;
  "loses its port")
    printf x >>"$here/tried"
    if [ "$(cat "$here/tried")" != xxx ]; then leave "Address already in use (os error 98)"; fi
    ;;
  "leaves a child")
    sleep 1000 >/dev/null &
    echo $! >"$here/child"
    leave "its stderr is still open"
    ;;
  floods)
    i=0
    while [ $i -lt 1000 ]; do echo "2026-01-05T09:00:00Z  WARN noise: $i" >&2; i=$((i + 1)); done
    ;;
esac
exec ${JSON.stringify(process.execPath)} "$here/server.js" "$@"
`;

const SERVER = `
const { readFileSync, watch } = require("node:fs");
const { join } = require("node:path");
const mode = () => readFileSync(join(__dirname, "mode"), "utf8");
const [hostname, port] = process.argv[process.argv.indexOf("--http-addr") + 1].split(":");
const answer = (request) => {
  if (mode() === "hangs") return new Promise(() => {});
  const { pathname } = new URL(request.url);
  if (pathname === "/health") return Response.json({ status: "available" });
  const isKnown = request.headers.get("authorization") === "Bearer " + process.env.MEILI_MASTER_KEY;
  if (!isKnown) return new Response(null, { status: 403 });
  return pathname === "/stats" ? Response.json({ databaseSize: 12_300_000 }) : new Response(null, { status: 404 });
};
const listen = () => Bun.serve({ hostname, port: Number(port), idleTimeout: 0, fetch: answer });
process.on("SIGTERM", () => { if (mode() !== "stubborn") process.exit(0); });
if (mode() === "slow") {
  watch(join(__dirname, "mode"), () => { if (mode() === "works") listen(); });
} else listen();
`;

export interface StandIn {
  path: string;
  mode(mode: Mode): void;
  version(version: string): void;
}

/** Installs one in the folder, as `meilisearch`. */
export function makeStandIn(folder: string, mode: Mode = "works"): StandIn {
  mkdirSync(folder, { recursive: true });
  const path = join(folder, "meilisearch");
  writeFileSync(path, FRONT, { mode: 0o755 });
  writeFileSync(join(folder, "server.js"), SERVER);
  const standIn: StandIn = {
    path,
    mode: (next) => writeFileSync(join(folder, "mode"), next),
    version: (next) => writeFileSync(join(folder, "version"), next),
  };
  standIn.mode(mode);
  standIn.version("1.21.0");
  return standIn;
}

export interface Rig {
  supervisor: Supervisor;
  data: string;
  clock: FakeRuntime;
  /** Changes settings as a command does. */
  set(settings: Record<string, string>): void;
  /** Free bytes on its disk from now on. */
  room(bytes: number): void;
  /** Resolves once it holds; checked whenever the supervisor reports a change. */
  until(isSo: () => boolean): Promise<void>;
  /**
   * Waits like `until`, while the clock advances to whatever is due next: while the supervisor runs or waits, not while it
   * starts. A request first gets its response; `unanswered`: there will be none, so its time limit passes, too.
   */
  passing(isSo: () => boolean, how?: "unanswered"): Promise<void>;
  /** A request to it has neither a response nor timed out. */
  isAsking(): boolean;
  /** Its log lines. */
  lines: Record<string, unknown>[];
}

const running = new Set<Supervisor>();
atEndOfFile(async () => {
  await Promise.all([...running].map((supervisor) => supervisor.stop(0)));
  running.clear();
});

/** Shorter waits happen in the real time of processes. */
const REAL_BELOW_MS = 1_000;

export function supervise(settings: Record<string, string>, data = temporaryFolder()): Rig {
  const values: Record<string, string> = {
    "search.engine": "meilisearch",
    "search.meilisearchPath": "auto",
    "search.meilisearchUrl": "none",
    ...settings,
  };
  const clock = fakeRuntime();
  let questions = 0;
  let free = Number.POSITIVE_INFINITY;
  const followers: (() => void)[] = [];
  const lines: Record<string, unknown>[] = [];
  const supervisor = createMeilisearchSupervisor({
    data,
    options: {
      get: ((name: string) => values[name]) as never,
      onRefresh: (listener) => void followers.push(listener),
    },
    runtime: {
      ...clock,
      fetch: (async (...asked: Parameters<typeof fetch>) => {
        questions++;
        return fetch(...asked).finally(() => questions--);
      }) as typeof fetch,
      // Maximum jitter.
      randomBytes: (size) => new Uint8Array(size).fill(255),
      setTimer(wake, ms) {
        if (ms >= REAL_BELOW_MS) return clock.setTimer(wake, ms);
        const timer = setTimeout(wake, ms);
        return () => clearTimeout(timer);
      },
    },
    log: createLog("info", clock.now, (line) => lines.push(JSON.parse(line))),
    freeBytes: async () => free,
  });
  running.add(supervisor);
  const { changed, until } = whenChanged();
  supervisor.onChange(changed);
  const rig: Rig = {
    supervisor,
    data,
    clock,
    lines,
    isAsking: () => questions > 0,
    set(changed) {
      Object.assign(values, changed);
      for (const follow of followers) follow();
    },
    room(bytes) {
      free = bytes;
    },
    until,
    async passing(isSo, how) {
      const isBusy = () => how === undefined && (questions > 0 || supervisor.state().state === "starting");
      while (!isSo()) {
        const next = clock.nextTimer();
        if (next !== undefined && !isBusy()) clock.advanceTo(next);
        await new Promise((resolve) => setImmediate(resolve));
      }
    },
  };
  return rig;
}

/** A file that disappears with Meilisearch's data. */
export function markData(data: string): { isThere(): boolean } {
  const folder = join(data, "search/data");
  mkdirSync(folder, { recursive: true });
  const mark = join(folder, "mark");
  writeFileSync(mark, "");
  return { isThere: () => existsSync(mark) };
}

/** The arguments with which a process was started. */
export const argumentsOf = (pid: number | undefined): string[] =>
  readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(0, -1);

/** True while it exists and is not a zombie. */
export function isAlive(pid: number | undefined): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}
