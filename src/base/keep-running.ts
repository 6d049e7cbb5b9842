/** Keeps a child process running: watches it until it ends, and restarts it after growing delays. */
import type { ChildProcess } from "./child-process.ts";
import { pause } from "./pause.ts";
import type { Runtime } from "./runtime.ts";

/** Delay before a retry, ms: doubled each time. */
const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 5 * 60_000;
/** A process that ran this long started well. */
export const STABLE_MS = 5 * 60_000;

/** The unexpected end of a process. */
export interface Failure {
  reason: string;
  /** Time since its first response, ms; 0 if there was none. */
  ranMs: number;
  /** Its data may be the cause. */
  blamesData: boolean;
}

/**
 * Calls `run` again and again until it has ended as requested, or `over` is aborted. `run` resolves when the process has
 * ended; undefined if as requested. `failed` hears why it did not run, and how long it waits before the next try, ms.
 */
export async function keepRunning({
  run,
  failed,
  runtime,
  over,
}: {
  run(): Promise<Failure | undefined>;
  failed(failure: Failure, waitMs: number): Promise<void> | void;
  runtime: Pick<Runtime, "setTimer" | "randomBytes">;
  over: AbortSignal;
}): Promise<void> {
  let failures = 0;
  while (!over.aborted) {
    const failure = await run().catch(
      (error): Failure => ({
        reason: error instanceof Error ? error.message : String(error),
        ranMs: 0,
        blamesData: false,
      }),
    );
    if (over.aborted || failure === undefined) return;
    if (failure.ranMs >= STABLE_MS) failures = 0;
    const waitMs = Math.min(FIRST_RETRY_MS * 2 ** failures++, LONGEST_RETRY_MS);
    // Between half of it and all of it.
    const jitteredMs = Math.round(waitMs * (0.5 + (runtime.randomBytes(1)[0] ?? 0) / 510));
    const waited = pause(runtime, jitteredMs, over);
    await failed(failure, jitteredMs);
    await waited;
  }
}

/** Interval of polls of a starting process, and the time limit for its start, ms. */
const START_POLL_MS = 100;
const START_LIMIT_MS = 120_000;
/** Interval of polls of a running process, ms, and number that it may miss on a busy machine. */
const WATCH_MS = 10_000;
const UNANSWERED = 3;

/** Waits until a process has ended, on its own or by request; undefined if by request. */
export async function watchProcess(
  child: ChildProcess,
  {
    responds: isHealthy,
    isOurs,
    onReady,
    objection,
    runtime,
    over,
    graceMs,
  }: {
    /** Whether it answers, until the signal is aborted. */
    responds(signal: AbortSignal): Promise<boolean>;
    /** Whether what answers is the child. */
    isOurs(): boolean;
    /** Called at its first response. */
    onReady(): void;
    /** The reason why it must stop; undefined while it may run. */
    objection(): Promise<string | undefined>;
    runtime: Pick<Runtime, "now" | "setTimer">;
    /** Aborted when the process must end. */
    over: AbortSignal;
    /** Time that it then gets, ms. */
    graceMs(): number;
  },
): Promise<Failure | undefined> {
  const ended = new AbortController();
  const end = () => ended.abort();
  over.addEventListener("abort", end);
  if (over.aborted) end();
  const gone = child.exited.finally(end);
  const startedAt = runtime.now();
  let readyAt: number | undefined;
  let unanswered = 0;
  let why: string | undefined;
  while (why === undefined && !ended.signal.aborted) {
    const responds = await isHealthy(ended.signal);
    if (ended.signal.aborted) break;
    if (readyAt !== undefined) {
      unanswered = responds ? 0 : unanswered + 1;
      why = unanswered === UNANSWERED ? `it did not answer ${UNANSWERED} times in a row` : await objection();
    } else if (responds && isOurs()) {
      readyAt = runtime.now();
      onReady();
    } else if (runtime.now() - startedAt >= START_LIMIT_MS) {
      why = `it was started, and did not answer within ${START_LIMIT_MS / 1_000} s`;
    }
    if (why === undefined) await pause(runtime, readyAt === undefined ? START_POLL_MS : WATCH_MS, ended.signal);
  }
  over.removeEventListener("abort", end);
  if (over.aborted) {
    await endProcess(child, gone, graceMs(), runtime);
    return undefined;
  }
  if (why !== undefined) child.kill("SIGKILL");
  const how = await gone;
  const ranMs = readyAt === undefined ? 0 : runtime.now() - readyAt;
  return { reason: why ?? how, ranMs, blamesData: why === undefined && child.failed() };
}

async function endProcess(
  child: ChildProcess,
  gone: Promise<unknown>,
  graceMs: number,
  runtime: Pick<Runtime, "setTimer">,
): Promise<void> {
  const patience = new AbortController();
  const ending = gone.then(() => patience.abort());
  if (graceMs > 0) {
    child.kill("SIGTERM");
    await pause(runtime, graceMs, patience.signal);
  }
  if (!patience.signal.aborted) child.kill("SIGKILL");
  await ending;
}
