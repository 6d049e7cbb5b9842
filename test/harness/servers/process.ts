/** The program as its users run it: child processes with documented variables and commands (rules: Environment, Commands). */
import { closeSync, openSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { atEndOfFile } from "../end.ts";
import { temporaryFolder } from "../folder.ts";
import { builtExecutable } from "./executable.ts";

const MAIN = join(import.meta.dir, "../../../src/main.ts");

/** The program and its first arguments: from source, or the built executable. */
export type Program = readonly string[];
export const FROM_SOURCE: Program = [process.execPath, MAIN];
/** The executable starts in a third of the time that the source takes. */
export const PROGRAM: Program = builtExecutable === undefined ? FROM_SOURCE : [builtExecutable];

export interface Served {
  readonly pid: number;
  /** `http://host:port` */
  readonly http: string;
  readonly mx: { host: string; port: number };
  /** With STARTTLS. */
  readonly submission: { host: string; port: number };
  /** With implicit TLS. */
  readonly submissions: { host: string; port: number };
  /** The fields of the ready line. */
  readonly ready: Record<string, unknown>;
  /** Its output on stderr so far. */
  stderr(): string;
  /** Resolves with the exit code when the process has ended; null if by a signal. */
  ended: Promise<number | null>;
  /** Sends a signal. Resolves with the exit code when the process has ended. */
  kill(signal: "SIGTERM" | "SIGINT" | "SIGKILL"): Promise<number | null>;
}

export interface Place {
  /** MAILROOM_DATA */
  data: string;
  env?: Record<string, string>;
  program?: Program;
  cwd?: string;
}

function environment(place: Place): Record<string, string> {
  return {
    PATH: process.env.PATH ?? "",
    MAILROOM_DATA: place.data,
    MAILROOM_HTTP: "127.0.0.1:0",
    MAILROOM_MX: "127.0.0.1:0",
    MAILROOM_SUBMISSION: "127.0.0.1:0",
    MAILROOM_SUBMISSIONS: "127.0.0.1:0",
    ...place.env,
  };
}

const ANY_IMAP = { MAILROOM_IMAP: "127.0.0.1:0", MAILROOM_IMAPS: "127.0.0.1:0" };

const running = new Set<Bun.Subprocess>();

atEndOfFile(async () => {
  for (const child of running) child.kill("SIGKILL");
  await Promise.all([...running].map((child) => child.exited));
  running.clear();
});

/** Starts `mailroom serve`. */
export const beginServing = (place: Place, ...args: string[]) => beginCommand(place, "serve", ...args);

function beginCommand(place: Place, ...args: string[]) {
  // A file has everything that was written before the ready line, or before the end. A second pipe may be read later than the
  // first.
  const said = join(temporaryFolder(), "stderr");
  const stderr = () => readFileSync(said, "utf8");
  const file = openSync(said, "a");
  const child = Bun.spawn([...(place.program ?? PROGRAM), ...args], {
    // A demo has IMAP on ports of its own, which two at once cannot have.
    env: { ...(args.includes("--demo") && ANY_IMAP), ...environment(place) },
    cwd: place.cwd ?? place.data,
    stdio: ["ignore", "pipe", file],
  });
  closeSync(file);
  running.add(child);
  const ended = child.exited.then((code) => (child.signalCode === null ? code : null));
  return {
    child,
    stderr,
    ended,
    async kill(signal: "SIGTERM" | "SIGINT" | "SIGKILL"): Promise<number | null> {
      child.kill(signal);
      const code = await ended;
      running.delete(child);
      return code;
    },
  };
}

/** Starts `mailroom serve` and waits for its ready line. */
export const serve = (place: Place, ...args: string[]): Promise<Served> => start(place, "serve", ...args);

/** Starts a command that serves. */
export async function start(place: Place, ...args: string[]): Promise<Served> {
  const { child, stderr, ended, kill } = beginCommand(place, ...args);
  let line = "";
  for await (const chunk of child.stdout.pipeThrough(new TextDecoderStream())) {
    line += chunk;
    if (line.includes("\n")) break;
  }
  if (!line.includes("\n")) throw new Error(`${args[0]} ended with ${await child.exited}: ${stderr()}`);
  const ready = JSON.parse(line) as Record<string, string>;
  const addressOf = (listener: string) => {
    const [, host = "", port = ""] = /^(.*):(\d+)$/.exec(ready[listener] ?? "") ?? [];
    return { host, port: Number(port) };
  };
  return {
    pid: child.pid,
    http: `http://${ready.http}`,
    mx: addressOf("mx"),
    submission: addressOf("submission"),
    submissions: addressOf("submissions"),
    ready,
    stderr,
    ended,
    kill,
  };
}

export interface Ran {
  exitCode: number;
  stdout: string;
  stderr: string;
  /** Bytes of memory that it had at most. */
  mostMemory: number;
}

/** Runs a command to its end, with `stdin` as its whole input. */
export async function run(place: Place, args: readonly string[], stdin = ""): Promise<Ran> {
  const child = Bun.spawn([...(place.program ?? PROGRAM), ...args], {
    env: environment(place),
    cwd: place.cwd ?? place.data,
    stdio: [new Blob([stdin]), "pipe", "pipe"],
  });
  const [stdout, stderr, exitCode] = await Promise.all([
    new Response(child.stdout).text(),
    new Response(child.stderr).text(),
    child.exited,
  ]);
  return { exitCode, stdout, stderr, mostMemory: child.resourceUsage()?.maxRSS ?? 0 };
}

/** Starts a command that the test kills. */
export function begin(place: Place, args: readonly string[]): { kill(): Promise<unknown> } {
  const child = Bun.spawn([...(place.program ?? PROGRAM), ...args], {
    env: environment(place),
    cwd: place.cwd ?? place.data,
    stdio: ["ignore", "ignore", "ignore"],
  });
  running.add(child);
  return {
    async kill() {
      child.kill("SIGKILL");
      await child.exited;
      running.delete(child);
      if (child.signalCode !== "SIGKILL") throw new Error(`${args[0]} had ended: nothing was killed`);
    },
  };
}

/** The port of its IMAP listener with implicit TLS. */
export const imapsOf = ({ ready }: Pick<Served, "ready">): number => Number(String(ready.imaps).split(":")[1]);

/** Runs a command with --json and returns its document. */
export async function runJson<T>(place: Place, ...args: string[]): Promise<T> {
  const { exitCode, stdout, stderr } = await run(place, [...args, "--json"]);
  if (exitCode !== 0) throw new Error(`mailroom ${args.join(" ")} exited ${exitCode}: ${stderr}`);
  return JSON.parse(stdout) as T;
}
