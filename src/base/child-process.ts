/**
 * Runs a program as a child process of the server: finds its executable, starts it with a clean environment, passes on
 * what it says, and keeps its state in a file for commands. keep-running.ts decides when it runs. Also starts this
 * program itself once more, as a child that exchanges messages with it.
 *
 * Invariant: the child never outlives this process, and never runs twice for a folder. A shell beside the child reads a
 * pipe from this process and kills the child when the pipe ends without a word, whatever ended this process. Any
 * survivor is killed before the next start.
 */
import {
  closeSync,
  existsSync,
  lstatSync,
  readdirSync,
  readFileSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import { createChildMessageReader, encodeChildMessage } from "./child-messages.ts";
import { isMissing } from "./files.ts";
import type { Log } from "./log.ts";
import { awaitAtMost, pause } from "./pause.ts";
import type { Runtime } from "./runtime.ts";

export interface ChildProcess {
  readonly pid: number;
  /** Resolves when the process has ended, with a description. */
  readonly exited: Promise<string>;
  /** True unless SIGTERM or SIGKILL ended the process: data on the disk may be the cause of its end. */
  failed(): boolean;
  kill(signal: "SIGTERM" | "SIGKILL"): void;
}

/**
 * The script of a shell that becomes the program, which the kernel kills before the mail server when memory runs out.
 * The shell beside it kills the program when its pipe ends, unless a line said that it has ended: its process id may
 * belong to another process by then. `descriptors`: makes the pipe 9. The program may have a descriptor 3.
 */
const lifeline = (descriptors: string) => `exec ${descriptors}
(trap '' HUP INT TERM; read -r line <&9 || kill -KILL $$) >/dev/null 2>&1 3>&- &
exec 9<&-
{ echo 500 >/proc/self/oom_score_adj; } 2>/dev/null
exec "$@"`;

/** Time limit for reading the program's last output: a process that it started may hold stderr open. */
const LAST_WORDS_MS = 2_000;
/** Log lines passed on per minute, so that endless output cannot fill our log. */
const LINES_A_MINUTE = 30;
const MINUTE_MS = 60_000;
const LONGEST_LINE = 1_000;

/** @throws system errors */
export function startChild(
  {
    name,
    command,
    folder,
    env,
    secret,
    hear,
  }: {
    /** Name of the program in the log. */
    name: string;
    /** Executable and arguments. */
    command: string[];
    /** The working directory, which exists. */
    folder: string;
    /** All of the environment but PATH. */
    env: Record<string, string>;
    /** Text that is redacted from every line that the program writes. */
    secret: string;
    /**
     * Tells what to do with a line of its stderr: ignore it, log it (`tell`), or log it and give `last` as the reason if the
     * program ends.
     */
    hear(line: string): "ignore" | "tell" | { last: string };
  },
  { log, ...runtime }: Pick<Runtime, "now" | "setTimer"> & { log: Log },
): ChildProcess {
  const child = Bun.spawn(["/bin/sh", "-c", `umask 077\n${lifeline("9<&0 </dev/null")}`, name, ...command], {
    cwd: folder,
    env: { PATH: "/usr/local/bin:/usr/bin:/bin", ...env },
    // A session of its own: Ctrl-C reaches only this process, which ends the child in order.
    detached: true,
    stdio: ["pipe", "ignore", "pipe"],
  });
  let lastWords = "";
  const passOn = limitedLog(name, log, runtime.now);
  const allRead = (async () => {
    for await (const raw of readStreamLines(child.stderr)) {
      const line = Bun.stripANSI(raw).replaceAll(secret, "[redacted]").trim();
      const heard = hear(line);
      if (heard === "ignore") continue;
      if (heard !== "tell") lastWords = heard.last;
      passOn(line);
    }
  })();
  const exited = (async () => {
    const code = await child.exited;
    await releaseLifeline(child.stdin);
    await awaitAtMost(runtime, LAST_WORDS_MS, allRead);
    const how = child.signalCode === null ? `exit ${code}` : child.signalCode;
    return lastWords === "" ? `it ended (${how})` : `it ended (${how}): ${lastWords}`;
  })();
  return {
    pid: child.pid,
    exited,
    failed: () => child.signalCode !== "SIGKILL" && child.signalCode !== "SIGTERM",
    kill: (signal) => child.kill(signal),
  };
}

/** Tells the shell beside the program that there is nothing left to kill. */
async function releaseLifeline(pipe: Bun.FileSink): Promise<void> {
  try {
    await pipe.write("ended\n");
    await pipe.end();
  } catch {
    // A signal ended it.
  }
}

/** The folder of the modules in the built executable. */
const EMBEDDED = /^\/\$bunfs\//;

/**
 * True if children may open files of this process in /proc. The system gives these to root once a process has changed
 * its user, as commands that root runs do.
 */
const opensToChildren = (): boolean =>
  process.platform === "linux" &&
  lstatSync(`/proc/${process.pid}/exe`, { throwIfNoEntry: false })?.uid === process.geteuid?.();

/**
 * The command that runs this program once more: the very program that runs now, also after an upgrade has put another one
 * at its path, unless the process has changed its user, or `changesUser`.
 */
export function ownProgramCommand({ changesUser = false } = {}): string[] {
  const executable = !changesUser && opensToChildren() ? `/proc/${process.pid}/exe` : process.execPath;
  return EMBEDDED.test(import.meta.dir) ? [executable] : [executable, join(import.meta.dir, "../main.ts")];
}

/** A child process that exchanges messages (child-messages.ts) with this one. */
export interface MessagingChild {
  send(message: unknown): void;
  /** Ends it for sure, also while it is busy. */
  kill(): void;
  /** Bytes of memory that the child has for itself; undefined where the system does not tell, or once it has ended. */
  memory(): number | undefined;
  /** Time of processors that it has used, ms; undefined as for memory. */
  processorTime(): number | undefined;
}

/** Bytes of a message of a child; what is larger is no message. */
const LONGEST_MESSAGE = 4 * 1024 * 1024;
/** Bytes that a child may write to its standard error. */
const MOST_WORDS = 256 * 1024;
/** Characters of its last output that describe its end. */
const LAST_WORDS = 1_000;

/**
 * Starts a child with an empty environment, which reads messages from its standard input and writes to descriptor 3. `heard`
 * is called with each message. `ended` is called once, when the process is gone and its memory with it, and says how it
 * ended; also when it cannot be started. A child that says what is no message, or too much, is killed.
 */
export function startMessagingChild(
  name: string,
  command: readonly string[],
  { heard, ended }: { heard(message: unknown): void; ended(how: string): void },
): MessagingChild {
  let child: Bun.Subprocess<"pipe", "pipe", "pipe">;
  try {
    child = Bun.spawn(["/bin/sh", "-c", lifeline("9<&3 3>&1 >/dev/null"), name, ...command], {
      env: {},
      // A session of its own: Ctrl-C reaches only this process, which ends the child.
      detached: true,
      stdio: ["pipe", "pipe", "pipe", "pipe"],
    }) as Bun.Subprocess<"pipe", "pipe", "pipe">;
  } catch (error) {
    queueMicrotask(() => ended((error as Error).message));
    return { send() {}, kill() {}, memory: () => undefined, processorTime: () => undefined };
  }
  let fault = "";
  let hasSpoken = false;
  let lastWords = "";
  function refuse(error: unknown): void {
    fault = (error as Error).message;
    child.kill("SIGKILL");
  }
  void (async () => {
    const read = createChildMessageReader(LONGEST_MESSAGE, (message) => {
      hasSpoken = true;
      heard(message);
    });
    for await (const chunk of child.stdout) read(chunk);
  })().catch(refuse);
  void (async () => {
    const decoder = new TextDecoder();
    let size = 0;
    for await (const chunk of child.stderr) {
      lastWords = (lastWords + decoder.decode(chunk, { stream: true })).slice(-LAST_WORDS);
      size += chunk.byteLength;
      if (size > MOST_WORDS) throw new Error("it wrote too much to its standard error");
    }
  })().catch(refuse);
  void (async () => {
    const code = await child.exited;
    releaseDescriptor(child.stdio[3] as unknown as number);
    const how = child.signalCode ?? `exit ${code}`;
    ended([how, fault, hasSpoken ? findStackFrames(lastWords) : printable(lastWords)].filter(Boolean).join(" "));
  })();
  return {
    send: (message) => void sendTo(child.stdin, encodeChildMessage(message)),
    kill: () => child.kill("SIGKILL"),
    memory: () => readProcessMemory(child.pid),
    processorTime: () => readProcessorTime(child.pid),
  };
}

async function sendTo(pipe: Bun.FileSink, message: Uint8Array): Promise<void> {
  try {
    pipe.write(message);
    await pipe.flush();
  } catch {
    // The child has just ended.
  }
}

/** Tells the shell, like releaseLifeline, but through a descriptor of this process, which it closes. */
function releaseDescriptor(descriptor: number): void {
  try {
    writeSync(descriptor, "ended\n");
  } catch {
    // A signal ended the shell.
  }
  closeSync(descriptor);
}

/** The characters of ASCII that are shown; a space stands for others. */
export const printable = (text: string): string => text.replace(/[^!-~]+/g, " ").trim();

/** The places in our own code that a child's last words, or a stack, name. Other words may quote what the child has read. */
export const findStackFrames = (text: string): string =>
  printable(text.match(/^ +at [ -~]{1,200}$/gm)?.join("\n") ?? "");

/** Bytes of a process's memory that belong to no file. */
function readProcessMemory(pid: number): number | undefined {
  try {
    const [, kilobytes] = /^RssAnon:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "latin1")) ?? [];
    return kilobytes === undefined ? undefined : Number(kilobytes) * 1_024;
  } catch {
    return undefined;
  }
}

/** Linux counts in such ticks for programs, whatever the kernel's own (proc_pid_stat(5)). */
const MS_PER_TICK = 10;

/** Time that all threads of a process have used, ms. */
function readProcessorTime(pid: number): number | undefined {
  try {
    // The name of the program stands in brackets, and may have any characters.
    const fields = readFileSync(`/proc/${pid}/stat`, "latin1").split(") ").at(-1)?.split(" ") ?? [];
    const ticks = Number(fields[11]) + Number(fields[12]);
    return Number.isNaN(ticks) ? undefined : ticks * MS_PER_TICK;
  } catch {
    return undefined;
  }
}

async function* readStreamLines(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
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

function limitedLog(name: string, log: Log, now: () => number): (line: string) => void {
  let minute = 0;
  let lines = 0;
  return (line) => {
    if (now() - minute >= MINUTE_MS) {
      if (lines > LINES_A_MINUTE) log.warn(`${name} said more`, { lines: lines - LINES_A_MINUTE });
      minute = now();
      lines = 0;
    }
    if (++lines <= LINES_A_MINUTE) log.warn(`${name} says`, { line });
  };
}

/** Time limit for a killed process to disappear, and the interval of checks, ms. */
const LEFTOVER_LIMIT_MS = 5_000;
const POLL_MS = 20;

/**
 * Kills the processes that a killed server may have left: those of the same user with these successive arguments. Without
 * /proc, only the pipe protects. @throws Error if one does not end
 */
export async function endLeftoverProcesses(
  name: string,
  args: readonly string[],
  { log, ...runtime }: Pick<Runtime, "now" | "setTimer"> & { log: Log },
): Promise<void> {
  const pids = killThose(args);
  if (pids.length > 0) log.warn(`what was left of a ${name} was ended`, { pids });
  const startedAt = runtime.now();
  while (anyRuns(pids)) {
    if (runtime.now() - startedAt >= LEFTOVER_LIMIT_MS) throw new Error(`process ${pids.join()} does not end`);
    await pause(runtime, POLL_MS);
  }
}

/** Returns their ids. */
function killThose(args: readonly string[]): number[] {
  const wanted = Buffer.from(`\0${args.join("\0")}\0`).toString("latin1");
  return processes().filter((pid) => {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, "latin1").includes(wanted)) return false;
      process.kill(pid, "SIGKILL");
      return true;
    } catch {
      // It has ended meanwhile, or belongs to another user.
      return false;
    }
  });
}

/** True if any of these processes still runs; a zombie, which holds nothing, does not count. */
const anyRuns = (pids: readonly number[]): boolean =>
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

/* Finds an executable and its version. */

export interface Executable {
  path: string;
  /** Version as the program reports it, such as `1.21.0`. */
  version: string;
}

/** A program that the operator installs beside the server. */
export interface Program {
  /** Name of its executable, which the log uses, too. */
  name: string;
  /** Name for sentences. */
  title: string;
  /** The setting that names its executable: a path, or `auto`. */
  setting: string;
  /** Arguments that make it report its version. */
  versionArgs: string[];
  /** Finds the version in what the program reports, as its first group. */
  versionForm: RegExp;
}

/** Time limit for reporting its version, ms. */
const PATIENCE_MS = 10_000;
const LONGEST_QUOTE = 200;

/**
 * The path of the executable: only the configured one; for `auto`, the one in the data folder, else the one beside this program,
 * where install.sh puts it, else the one in PATH.
 * @throws Error that names the searched paths if there is none
 */
function locateExecutable({ name, title, setting }: Program, value: string, data: string): string {
  if (value !== "auto") {
    if (existsSync(value)) return value;
    throw new Error(`${setting} names ${value}, which is not there`);
  }
  const own = resolve(data, "bin", name);
  const found = existsSync(own) ? own : (Bun.which(name, { PATH: dirname(process.execPath) }) ?? Bun.which(name));
  if (found) return found;
  throw new Error(`there is no ${title}: ${setting} names none, there is no ${own}, and none in PATH`);
}

/**
 * Finds it and asks for its version, until `signal` aborts. `value`: of its setting. @throws Error with the reason why it
 * cannot run, or is not that program
 */
export async function findExecutable(
  program: Program,
  value: string,
  data: string,
  { setTimer }: Pick<Runtime, "setTimer">,
  signal: AbortSignal,
): Promise<Executable> {
  const path = locateExecutable(program, value, data);
  let child: Bun.Subprocess<"ignore", "pipe", "ignore">;
  try {
    child = Bun.spawn([path, ...program.versionArgs], { env: {}, signal, stdio: ["ignore", "pipe", "ignore"] });
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
  const [, version] = program.versionForm.exec(output) ?? [];
  if (code === 0 && version !== undefined) return { path, version };
  const quote = output === "" ? "nothing" : `"${output.slice(0, LONGEST_QUOTE)}"`;
  throw new Error(
    `${path} is no ${program.title}: asked its version, it said ${quote} (${child.signalCode ?? `exit ${code}`})`,
  );
}

/* The state of a child, in a file of its folder while a server runs. A command beside the server (doctor) reads it. */

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

/** Only the owner can read it: it may contain a key. @throws file system errors */
export function keepProcessState(folder: string, state: ProcessState): void {
  const path = join(folder, FILE);
  writeFileSync(`${path}.new`, `${JSON.stringify(state)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** The last state written by a server; undefined if there is none. */
export function readProcessState<S extends ProcessState>(folder: string): S | undefined {
  try {
    return JSON.parse(readFileSync(join(folder, FILE), "utf8")) as S;
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return undefined;
    throw error;
  }
}
