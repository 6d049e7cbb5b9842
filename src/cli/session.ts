/**
 * One run of the program: what the world gives it, and what its command opens. Configuration and appliance are opened
 * when they are first asked for, so that `version` and `--help` touch nothing.
 */
import { type Appliance, createAppliance } from "../appliance.ts";
import { ConfigError, UsageError } from "../base/errors.ts";
import { createLog, type Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { type Config, readConfig } from "../config.ts";

/** The process around the program; tests hand in another. */
export interface Io {
  readonly env: Readonly<Record<string, string | undefined>>;
  /** Standard input to its end. */
  readStdin(): Promise<string>;
  writeStdout(text: string): Promise<void>;
  writeStderr(text: string): void;
  /** `dnsServers` as in MAILROOM_DNS. */
  runtime(dnsServers: readonly string[]): Runtime;
  /** Resolves at the first SIGTERM or SIGINT; the second ends the process at once. */
  interrupted(): Promise<void>;
}

export interface Session {
  readonly io: Io;
  readonly runtime: Runtime;
  /** @throws UsageError for a bad environment */
  readonly config: Config;
  readonly log: Log;
  /** Its database and its functions; not started. */
  readonly appliance: Appliance;
  /** What standard input gives in place of an argument: its first line. */
  readSecret(): Promise<string>;
  /** Closes what was opened. */
  close(): void;
}

/** rules: Environment: a bad value in the environment exits 2. @throws UsageError, or what else it was */
export function refuseEnvironment(error: unknown): never {
  throw error instanceof ConfigError ? new UsageError(error.message) : error;
}

/** How long a command waits for the server's transactions: they are short, but may come in numbers. */
const BUSY_TIMEOUT_MS = 10_000;

/** `serving`: the process is the server, which must not block on a busy store for long. */
export function openSession(io: Io, { serving }: { serving: boolean }): Session {
  const once = <T>(make: () => T): (() => T) => {
    let made: { value: T } | undefined;
    return () => {
      made ??= { value: make() };
      return made.value;
    };
  };
  const config = once(() => {
    try {
      return readConfig(io.env);
    } catch (error) {
      return refuseEnvironment(error);
    }
  });
  const runtime = once(() => io.runtime(config().dns));
  const log = once(() => createLog(config().log, runtime().now, (line) => io.writeStderr(`${line}\n`)));
  let opened: Appliance | undefined;
  const appliance = once(() => {
    opened = createAppliance(config(), runtime(), log(), serving ? {} : { busyTimeoutMs: BUSY_TIMEOUT_MS });
    return opened;
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
    get appliance() {
      return appliance();
    },
    readSecret: async () => (await io.readStdin()).split(/\r?\n/)[0] as string,
    close: () => opened?.close(),
  };
}
