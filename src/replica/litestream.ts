/**
 * Litestream as a child process: it copies the database's log to the replica, and checkpoints it. It runs with a configuration
 * file and a socket in DATA/replica, and has the credentials in its environment alone.
 *
 * Invariant: every failure ends in a state with its reason and a retry. The consequences for mail are in replication.ts.
 */
import { mkdirSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import {
  type ChildProcess,
  endLeftoverProcesses,
  findExecutable,
  keepProcessState,
  type ProcessState,
  type Program,
  startChild,
} from "../base/child-process.ts";
import { type Failure, keepRunning, watchProcess } from "../base/keep-running.ts";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { readResponseText, SHORT_ANSWER } from "../net/answer.ts";
import { formatS3Location, type S3Location } from "../net/s3.ts";
import type { Core } from "../store/core.ts";
import { epochPath } from "./lease.ts";

export const LITESTREAM: Program = {
  name: "litestream",
  title: "Litestream",
  setting: "replica.litestreamPath",
  versionArgs: ["version"],
  versionForm: /^v?(\d+\.\d+\.\d+\S*)$/,
};

/** Versions that Mailroom works with: 0.5.18 and later ones of 0.5. */
const KNOWN_VERSION = /^0\.5\.(1[89]|[2-9]\d|\d{3,})$/;

/** Folder in the data folder that has everything of Litestream's. */
export const REPLICA_FOLDER = "replica";
const CONFIG_FILE = "litestream.yml";
const SOCKET = "litestream.sock";

const configPath = (data: string): string => resolve(data, REPLICA_FOLDER, CONFIG_FILE);

/** Kills what a killed server has left of its Litestream. @throws Error if it does not end */
export const endLitestream = (data: string, runtime: Parameters<typeof endLeftoverProcesses>[2]): Promise<void> =>
  endLeftoverProcesses(LITESTREAM.name, ["-config", configPath(data)], runtime);

/**
 * Name of the folder in which Litestream keeps its knowledge of an epoch, which begins with a copy of the whole database. The
 * knowledge of another epoch is of no use: its transactions have the same numbers.
 */
const metaFolderName = (location: S3Location, epoch: number): string =>
  `meta-${epoch}-${Bun.hash(formatS3Location(location)).toString(36)}`;
/** The longest path of a socket (sun_path). */
const LONGEST_SOCKET = 107;

/** How often it looks at the log, and sends what is new. */
const INTERVAL = "250ms";
/** Space of other processes' transactions for its own, which bound the log. */
const BUSY = "2s";
/** Pause between looks at a process that starts, ms. */
const STARTING_MS = 50;
/** Time limit for /info, ms. */
const RESPONSE_LIMIT_MS = 10_000;

/** @throws Error for a version that is not known to work */
export async function findLitestream(
  setting: string,
  data: string,
  runtime: Pick<Runtime, "setTimer">,
  signal: AbortSignal,
): Promise<{ path: string; version: string }> {
  const found = await findExecutable(LITESTREAM, setting, data, runtime, signal);
  if (KNOWN_VERSION.test(found.version)) return found;
  throw new Error(`${found.path} is version ${found.version} of Litestream: Mailroom works with 0.5.18 and later 0.5`);
}

/** The environment in which Litestream runs: the credentials and nothing else of ours. */
export const litestreamEnvironment = ({ accessKeyId, secretAccessKey }: S3Location): Record<string, string> => ({
  LITESTREAM_ACCESS_KEY_ID: accessKeyId,
  LITESTREAM_SECRET_ACCESS_KEY: secretAccessKey,
});

/** The replica of an epoch, as its configuration names it. */
const replicaConfig = ({ bucket, prefix, endpoint, region }: S3Location, epoch: number) => ({
  type: "s3",
  bucket,
  path: `${prefix}${epochPath(epoch)}`,
  endpoint,
  region,
  "force-path-style": true,
});

/** Asks the Litestream of a data folder over its socket. @throws Error with what it answers, or why it does not */
async function askLitestream(
  data: string,
  { fetch, setTimer }: Pick<Runtime, "fetch" | "setTimer">,
  path: string,
  limitMs: number,
  body?: object,
): Promise<unknown> {
  const controller = new AbortController();
  const cancel = setTimer(() => controller.abort(), limitMs);
  try {
    const response = await fetch(`http://litestream${path}`, {
      unix: resolve(data, REPLICA_FOLDER, SOCKET),
      signal: controller.signal,
      ...(body && { method: "POST", body: JSON.stringify(body) }),
    } as RequestInit);
    const answer = JSON.parse(await readResponseText(response, SHORT_ANSWER)) as { error?: unknown };
    if (response.ok) return answer;
    throw new Error(`litestream answers: ${String(answer.error).slice(0, 300)}`);
  } catch (error) {
    if (controller.signal.aborted) throw new Error(`litestream does not answer within ${limitMs / 1_000} s`);
    throw error;
  } finally {
    cancel();
  }
}

/** Has everything that is committed by now copied to the replica. @throws Error with the reason why it was not */
export async function syncReplica(
  data: string,
  runtime: Pick<Runtime, "fetch" | "setTimer">,
  limitMs: number,
): Promise<void> {
  // Its own limit, in whole seconds, ends the work; ours is for a process that hangs.
  const timeout = Math.max(1, Math.floor(limitMs / 1_000));
  const body = { path: databasePath(data), wait: true, timeout };
  const answer = await askLitestream(data, runtime, "/sync", limitMs + 1_000, body);
  const { txid, replicated_txid: replicated } = answer as { txid?: unknown; replicated_txid?: unknown };
  if (typeof txid !== "number" || typeof replicated !== "number" || replicated === 0) {
    throw new Error("litestream did not say what it has copied");
  }
}

const databasePath = (data: string): string => resolve(data, "mailroom.db");

export function createLitestream({ options, runtime, log, site }: Core, location: S3Location) {
  const data = site.folder;
  // Absolute, because the folder is the process's working directory, where relative paths lead elsewhere.
  const folder = resolve(data, REPLICA_FOLDER);
  const config = configPath(data);
  const over = new AbortController();
  let state: ProcessState = { state: "off", restarts: 0 };
  let starts = 0;
  let graceMs = 0;
  let child: ChildProcess | undefined;
  let turn = Promise.resolve();

  function setState(next: Omit<ProcessState, "restarts">): void {
    state = { ...next, restarts: Math.max(0, starts - 1) };
    try {
      keepProcessState(folder, state);
    } catch (error) {
      log.warn("the state of litestream cannot be kept", { error });
    }
  }

  /** Also removes what is of other epochs. @throws Error */
  function prepare(epoch: number): void {
    const socket = join(folder, SOCKET);
    if (Buffer.byteLength(socket) > LONGEST_SOCKET) {
      throw new Error(
        `the path of the data folder is too long for a socket in it (${socket}): at most ${LONGEST_SOCKET} bytes`,
      );
    }
    const meta = metaFolderName(location, epoch);
    for (const name of readdirSync(folder)) {
      if (name.startsWith("meta-") && name !== meta) rmSync(join(folder, name), { recursive: true, force: true });
    }
    const settings = {
      socket: { enabled: true, path: socket, permissions: 0o600 },
      logging: { level: "warn", type: "text", stderr: true },
      "shutdown-sync-timeout": "3s",
      dbs: [
        {
          path: databasePath(data),
          "meta-path": join(folder, meta),
          "monitor-interval": INTERVAL,
          "busy-timeout": BUSY,
          replica: { ...replicaConfig(location, epoch), "sync-interval": INTERVAL },
        },
      ],
    };
    // JSON is YAML.
    writeFileSync(config, `${JSON.stringify(settings, null, 2)}\n`, { mode: 0o600 });
  }

  async function run(epoch: number): Promise<Failure | undefined> {
    setState({ state: "starting" });
    const { path, version } = await findLitestream(options.get("replica.litestreamPath"), data, runtime, over.signal);
    await endLitestream(data, { ...runtime, log });
    prepare(epoch);
    if (over.signal.aborted) return undefined;
    starts++;
    child = startChild(
      {
        name: LITESTREAM.name,
        command: [path, "replicate", "-config", config],
        folder,
        env: litestreamEnvironment(location),
        secret: location.secretAccessKey,
        hear(line) {
          const [, message = ""] = /\blevel=ERROR msg=(.*)$/.exec(line) ?? /^Error: (.*)$/.exec(line) ?? [];
          if (message !== "") return { last: message };
          return /\blevel=WARN\b/.test(line) ? "tell" : "ignore";
        },
      },
      { ...runtime, log },
    );
    const { pid } = child;
    setState({ state: "starting", executable: path, version, pid });
    return watchProcess(child, {
      responds: (signal) =>
        askLitestream(data, runtime, "/info", RESPONSE_LIMIT_MS).then(
          (answer) => !signal.aborted && (answer as { pid?: unknown }).pid === pid,
          () => false,
        ),
      isOurs: () => true,
      onReady() {
        log.info("litestream runs", { version, pid, epoch });
        setState({ state: "running", executable: path, version, pid });
      },
      objection: async () => undefined,
      runtime,
      over: over.signal,
      graceMs: () => graceMs,
    });
  }

  return {
    state: (): ProcessState => state,
    /** Keeps it running from now on. */
    start(epoch: number): void {
      mkdirSync(folder, { recursive: true, mode: 0o700 });
      turn = keepRunning({
        run: () => run(epoch),
        failed({ reason }, waitMs) {
          log.error("litestream does not run: the replica does not get what happens here", {
            reason,
            retryInMs: waitMs,
          });
          setState({ ...state, state: "failed", reason, retryAt: runtime.now() + waitMs });
        },
        runtime,
        over: over.signal,
      }).catch((error) => log.error("litestream is not looked after any more", { error }));
    },
    /** Has everything that is committed by now copied. @throws Error with the reason why it was not */
    async sync(limitMs: number): Promise<void> {
      for (let waited = 0; state.state === "starting" && waited < limitMs; waited += STARTING_MS) {
        await pause(runtime, STARTING_MS);
      }
      if (state.state === "running") return syncReplica(data, runtime, limitMs);
      throw new Error(`litestream does not run${state.reason === undefined ? "" : `: ${state.reason}`}`);
    },
    /** Ends it at once, without its last words to the replica. */
    kill(): void {
      over.abort();
      child?.kill("SIGKILL");
    },
    /** Gives it `ms` to send what it has. */
    async stop(ms: number): Promise<void> {
      graceMs = ms;
      over.abort();
      await turn;
      if (starts > 0) setState({ state: "off" });
    },
  };
}
