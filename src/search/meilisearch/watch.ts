/** The life of one Meilisearch process: until it answers, while it does, and how it ends. */

import { pause } from "../../base/pause.ts";
import type { Runtime } from "../../base/runtime.ts";
import { isOurs, type SidecarProcess } from "./process.ts";

/** How often it is asked whether it is up, while it starts, and how long that may take, ms. */
const START_POLL_MS = 100;
const START_LIMIT_MS = 120_000;
/** How often it is asked whether it still is, and what it may leave unanswered. A busy small machine answers late. */
const WATCH_MS = 10_000;
const ANSWER_LIMIT_MS = 10_000;
const UNANSWERED = 3;

/** Why a process has ended that should not have. */
export interface Failure {
  reason: string;
  /** Since it answered, ms; 0 when it never did. */
  ranMs: number;
  /** Its data may be the reason. */
  blamesData: boolean;
}

interface WatchParts {
  runtime: Pick<Runtime, "now" | "setTimer" | "fetch">;
  /** Aborted when it is to end. */
  over: AbortSignal;
  /** What it has left then, ms. */
  graceMs(): number;
  /** It answers from now on. */
  onReady(): void;
  /** Why it must not go on; undefined while it may. */
  objection(): Promise<string | undefined>;
}

/** Until it has ended, by itself or because it has to; undefined when that was asked for. */
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
