/**
 * One run of the program: the process around it, and the configuration and data folder that its command uses. Both are
 * opened at first use, so that `version` and `--help` open nothing.
 */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ConfigError, StandbyRefusal, UsageError } from "../base/errors.ts";
import { createLog, type Log, type LogLevel, openSystemdPriorities } from "../base/log.ts";
import { type Runtime, systemRuntime } from "../base/runtime.ts";
import { type Config, processEnvironment, readConfig } from "../config.ts";
import { demoEnvironment } from "../demo/demo-folder.ts";
import { createConfiguredHostLookup, fetchByName } from "../net/configured-names.ts";
import { type Following, type Opened, open } from "../open.ts";
import {
  describeStandbyRefusal,
  followedDatabase,
  readFileSchemaVersion,
  readStandby,
  type StandbyRecord,
  schemaMismatch,
} from "../replica/follow-replica.ts";
import { isDataFolderClaimed } from "../store/claim.ts";
import { makeFolderFor } from "../store/named-files.ts";
import { openReadOnlyStore } from "../store/read-only.ts";
import { openS3Blobs } from "../store/s3-blobs.ts";
import { type Lent, lendOwnFiles, type Named, startFileLender } from "./lending.ts";

/** The process around the program; tests hand in a fake. */
export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Standard input to its end. */
  readStdin(): Promise<string>;
  writeStdout(text: string): Promise<void>;
  writeStderr(text: string): void;
  /** Prefix of a line on stderr that tells its reader how grave the line is (base/log.ts). */
  priority(level: LogLevel): string;
  /** `dnsServers` as in MAILROOM_DNS. */
  runtime(dnsServers: readonly string[]): Runtime;
  /** Resolves at the first SIGTERM, SIGINT or SIGQUIT; the second ends the process at once. */
  interrupted(): Promise<void>;
  /**
   * From now on SIGHUP calls `reload`, and the other signals that would end the process without grace do no more than
   * call `ignored` with their name.
   */
  keepRunning(on: { reload(): void; ignored(signal: string): void }): void;
  /**
   * Turns root into the owner of the data folder for good. Files that the process then makes belong to the server's user, and
   * links that this user planted there lead no further than that user may go. Returns the name of the user that the process
   * became; undefined where it stays as it is.
   */
  actAsFolderOwner(folder: string): string | undefined;
  /** Before `actAsFolderOwner`: root makes a folder that is missing, and gives it to that owner. */
  prepareFolder(folder: string, path: string): Promise<void>;
  /** Opens what the command line named. Before `actAsFolderOwner`: with root's rights, also after that, where root named it. */
  lendFiles(folder: string, named: Named): Lent;
}

function interrupted(): Promise<void> {
  return new Promise((resolve) => {
    let asked = false;
    for (const signal of ["SIGTERM", "SIGINT", "SIGQUIT"] as const) {
      process.on(signal, () => {
        if (asked) process.exit(1);
        asked = true;
        resolve();
      });
    }
  });
}

/** Signals with no meaning for a server. Those of faults (SIGSEGV and others) and of limits of the system stay as they are. */
const MEANINGLESS = ["SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO"] as const;

function keepRunning({ reload, ignored }: Parameters<Io["keepRunning"]>[0]): void {
  process.on("SIGHUP", reload);
  for (const signal of MEANINGLESS) process.on(signal, ignored);
}

/** The other user that root is to become; undefined if it stays root, or this process is another user's. */
function findFolderOwner(folder: string): { uid: number; gid: number } | undefined {
  const owner = statSync(folder, { throwIfNoEntry: false });
  return process.getuid?.() !== 0 || owner?.uid === 0 ? undefined : owner;
}

function actAsFolderOwner(folder: string): string | undefined {
  const owner = findFolderOwner(folder);
  if (!owner) return undefined;
  try {
    // Missing from the types.
    (process as { initgroups?(user: number, group: number): void }).initgroups?.(owner.uid, owner.gid);
  } catch {
    // The system has no user of that number, and so no groups of it.
    process.setgroups?.([owner.gid]);
  }
  process.setgid?.(owner.gid);
  process.setuid?.(owner.uid);
  return readSystemUserName(owner.uid);
}

/** The name of a user of this machine. */
function readSystemUserName(uid: number): string {
  try {
    const line = readFileSync("/etc/passwd", "utf8")
      .split("\n")
      .find((line) => line.split(":")[2] === String(uid));
    return line?.split(":")[0] ?? `user ${uid}`;
  } catch {
    return `user ${uid}`;
  }
}

export function processIo(): Io {
  // A reader may close the pipe, and a terminal may be gone.
  process.stdout.on("error", () => {});
  process.stderr.on("error", () => {});
  // The runtime's timers do not keep the process alive while a command waits on one; this interval does.
  setInterval(() => {}, 60_000);
  const env = processEnvironment();
  let stdin: Promise<string> | undefined;
  return {
    env,
    // A command on a full disk may be run a second time.
    readStdin: () => {
      stdin ??= Bun.stdin.text();
      return stdin;
    },
    // Resolves once the system has the text, so that exiting cuts nothing off.
    writeStdout: (text) => new Promise((resolve) => process.stdout.write(text, () => resolve())),
    writeStderr: (text) => {
      process.stderr.write(text);
    },
    priority: openSystemdPriorities(2, env.JOURNAL_STREAM),
    runtime: (dnsServers) => {
      const runtime = systemRuntime(dnsServers);
      return { ...runtime, fetch: fetchByName(runtime.fetch, createConfiguredHostLookup(runtime)) };
    },
    interrupted,
    keepRunning,
    actAsFolderOwner,
    async prepareFolder(folder, path) {
      const owner = findFolderOwner(folder);
      if (owner) await makeFolderFor(owner, path);
    },
    lendFiles: (folder, named) =>
      findFolderOwner(folder) ? startFileLender(named) : lendOwnFiles(named, systemRuntime()),
  };
}

/** Everything that a command may work with. */
export interface CommandContext {
  readonly io: Io;
  readonly runtime: Runtime;
  /** @throws UsageError for a bad environment */
  readonly config: Config;
  readonly log: Log;
  /** The data folder, open. */
  readonly opened: Opened;
  /** Lets the command write into the folder that the command line named. To be called as `lendFiles`. */
  prepareFolder(path: string): Promise<void>;
  /** The files that the command line named. To be called before anything else here is used: see Io.lendFiles. */
  lendFiles(named: Named): Lent;
  /** The first line of standard input, in place of an argument. */
  readSecret(): Promise<string>;
  /** The user that root has become (Io.actAsFolderOwner). */
  readonly user: string | undefined;
  /** Closes what was opened. */
  close(): void;
}

/** A bad value in the environment exits 2 (rules: Environment). @throws UsageError for a ConfigError; other errors as they are */
export function rethrowAsUsageError(error: unknown): never {
  throw error instanceof ConfigError ? new UsageError(error.message) : error;
}

/** How long a command waits for the server's transactions, which are short but may be many. */
const BUSY_TIMEOUT_MS = 10_000;

/** True for a folder that is not there, or has nothing in it, such as the one of a checkout. */
function isUnused(folder: string): boolean {
  const found = statSync(folder, { throwIfNoEntry: false });
  return !found || (found.isDirectory() && readdirSync(folder).every((name) => name === ".gitkeep"));
}

/** For a command beside a running standby: reads what it follows, and refuses to write. @throws Error if none can be read */
function followedBy({ data, blobs }: Config, record: StandbyRecord, parts: { runtime: Runtime; log: Log }): Following {
  const file = followedDatabase(data, record);
  if (file === undefined)
    throw new Error(`the standby of ${data} has no database yet: start mailroom standby, and wait`);
  // Without it, the last change may have been applied by half.
  if (!isDataFolderClaimed(data)) throw new Error(`the standby of ${data} does not run: start mailroom standby`);
  const mismatch = schemaMismatch(readFileSchemaVersion(file));
  if (mismatch !== undefined) throw new Error(mismatch);
  const s3 = blobs && openS3Blobs(blobs, parts.runtime);
  const refusal = () => new StandbyRefusal(describeStandbyRefusal(record));
  const store = openReadOnlyStore({ folder: data, s3, file, refusal, ...parts });
  return { store, state: () => ({}), unreadable: () => undefined };
}

/** `serving`: this process is the server, which must not wait long for a busy store. `staysRoot`, `lists`: see Command. `isDemo`: it serves a demo. */
export function openCommandContext(
  io: Io,
  {
    serving,
    staysRoot,
    lists,
    isDemo,
  }: { serving: boolean; staysRoot: boolean | undefined; lists: boolean | undefined; isDemo: boolean },
): CommandContext {
  const once = <T>(make: () => T): (() => T) => {
    let made: { value: T } | undefined;
    return () => {
      made ??= { value: make() };
      return made.value;
    };
  };
  let user: string | undefined;
  const environment = once(() => {
    try {
      return readConfig(isDemo ? demoEnvironment(io.env) : io.env);
    } catch (error) {
      return rethrowAsUsageError(error);
    }
  });
  const config = once(() => {
    if (!staysRoot) user = io.actAsFolderOwner(environment().data);
    return environment();
  });
  const runtime = once(() => io.runtime(config().dns));
  const log = once(() =>
    createLog(config().log, runtime().now, (line, level) => io.writeStderr(`${io.priority(level)}${line}\n`)),
  );
  let folder: Opened | undefined;
  let standIn: string | undefined;
  const opened = once(() => {
    let used = config();
    if (lists && isUnused(used.data)) {
      io.writeStderr(`mailroom: there is nothing in ${used.data} yet (MAILROOM_DATA names another data folder)\n`);
      standIn = mkdtempSync(join(tmpdir(), "mailroom-"));
      used = { ...used, data: standIn };
    }
    const record = readStandby(used.data);
    if (record && serving) {
      throw new Error(
        `${used.data} is the data folder of a standby: start mailroom standby, or mailroom promote first`,
      );
    }
    const following = record && followedBy(used, record, { runtime: runtime(), log: log() });
    const options = serving ? {} : { busyTimeoutMs: BUSY_TIMEOUT_MS };
    folder = open(used, runtime(), log(), following ? { following } : options);
    return folder;
  });
  return {
    io,
    get runtime() {
      return runtime();
    },
    get config() {
      return config();
    },
    get log() {
      return log();
    },
    get opened() {
      return opened();
    },
    prepareFolder: (path) => io.prepareFolder(environment().data, path),
    lendFiles: (named) => io.lendFiles(environment().data, named),
    get user() {
      return user;
    },
    readSecret: async () => (await io.readStdin()).split(/\r?\n/)[0] as string,
    close() {
      folder?.close();
      if (standIn !== undefined) rmSync(standIn, { recursive: true, force: true });
    },
  };
}
