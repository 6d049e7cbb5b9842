/** Watches one Meilisearch process: until it responds, while it does, and until it ends. */

import { pause } from "../../base/pause.ts";
import type { Runtime } from "../../base/runtime.ts";
import { isOurs, type SidecarProcess } from "./process.ts";

/** How often a starting process is polled, and how long it may take, ms. */
const START_POLL_MS = 100;
const START_LIMIT_MS = 120_000;
/** How often a running process is polled, and how many polls it may miss. A busy small machine responds late. */
const WATCH_MS = 10_000;
const ANSWER_LIMIT_MS = 10_000;
const UNANSWERED = 3;

/** Why a process ended unexpectedly. */
export interface Failure {
  reason: string;
  /** Time since its first response, ms; 0 if there was none. */
  ranMs: number;
  /** Its data may be the cause. */
  blamesData: boolean;
}

interface WatchParts {
  runtime: Pick<Runtime, "now" | "setTimer" | "fetch">;
  /** Aborted when the process must end. */
  over: AbortSignal;
  /** Time that it then gets, ms. */
  graceMs(): number;
  /** Called at its first response. */
  onReady(): void;
  /** The reason why it must stop; undefined while it may run. */
  objection(): Promise<string | undefined>;
}

/** Waits until it has ended, on its own or by request; undefined if by request. */
export async function watchProcess(child: SidecarProcess, parts: WatchParts): Promise<Failure | undefined> {
  const { runtime, over, graceMs, onReady, objection } = parts;
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
    const answers = await isHealthy(child.url, ended.signal, runtime);
    if (ended.signal.aborted) break;
    if (readyAt !== undefined) {
      unanswered = answers ? 0 : unanswered + 1;
      why = unanswered === UNANSWERED ? `it did not answer ${UNANSWERED} times in a row` : await objection();
    } else if (answers && isOurs(child.url)) {
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
  return { reason: why ?? how, ranMs, blamesData: why === undefined && child.failed() && !child.lostItsPort() };
}

async function endProcess(
  child: SidecarProcess,
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

async function isHealthy(
  url: string,
  signal: AbortSignal,
  { setTimer, fetch }: Pick<Runtime, "setTimer" | "fetch">,
): Promise<boolean> {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const cancel = setTimer(abort, ANSWER_LIMIT_MS);
  signal.addEventListener("abort", abort);
  try {
    const response = await fetch(`${url}/health`, { signal: controller.signal, redirect: "manual" });
    return response.ok && ((await response.json()) as { status?: unknown } | null)?.status === "available";
  } catch {
    return false;
  } finally {
    cancel();
    signal.removeEventListener("abort", abort);
  }
}
