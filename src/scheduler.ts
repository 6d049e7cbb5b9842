/**
 * Runs what is due. A job does its due work and says when it has more; the scheduler sleeps until the earliest and is
 * woken by `wake` (a commit, a changed setting). A job that throws is logged and tried again, later each time.
 */
import type { Log } from "./log.ts";
import type { Runtime } from "./runtime.ts";

export interface Job {
  readonly name: string;
  /** Does what is due at `now` (epoch ms) and returns when it next has work, or null for not before it is woken. */
  runDue(now: number): number | null | Promise<number | null>;
}

export interface Scheduler {
  /** Looks at every job at once. */
  start(): void;
  /** Asks a job, or all of them, to look again now. */
  wake(name?: string): void;
  /** Ends after the running jobs have. */
  stop(): Promise<void>;
  /** Resolves when nothing is due and nothing runs: how tests on a fake clock wait. */
  settled(): Promise<void>;
}

const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 5 * 60_000;

export function createScheduler(runtime: Pick<Runtime, "now" | "setTimer">, log: Log, jobs: readonly Job[]): Scheduler {
  const entries = jobs.map((job) => ({
    job,
    due: null as number | null,
    failures: 0,
    running: null as Promise<void> | null,
    again: false,
  }));
  type Entry = (typeof entries)[number];
  let cancelTimer: (() => void) | undefined;
  let stopped = true;

  async function run(entry: Entry): Promise<void> {
    do {
      entry.again = false;
      try {
        entry.due = await entry.job.runDue(runtime.now());
        entry.failures = 0;
      } catch (error) {
        const wait = Math.min(FIRST_RETRY_MS * 2 ** entry.failures++, LONGEST_RETRY_MS);
        entry.due = runtime.now() + wait;
        log.error("job failed", { job: entry.job.name, failures: entry.failures, retryInMs: wait, error });
      }
    } while (entry.again && !stopped);
  }

  function look(): void {
    cancelTimer?.();
    cancelTimer = undefined;
    if (stopped) return;
    const now = runtime.now();
    let earliest = Number.POSITIVE_INFINITY;
    for (const entry of entries) {
      if (entry.running) continue;
      if (entry.due !== null && entry.due <= now) {
        entry.due = null;
        entry.running = run(entry).finally(() => {
          entry.running = null;
          look();
        });
      } else if (entry.due !== null) {
        earliest = Math.min(earliest, entry.due);
      }
    }
    if (Number.isFinite(earliest)) cancelTimer = runtime.setTimer(look, Math.max(0, earliest - now));
  }

  function wake(name?: string): void {
    for (const entry of entries) {
      if (name !== undefined && entry.job.name !== name) continue;
      if (entry.running) entry.again = true;
      else entry.due = runtime.now();
    }
    look();
  }

  async function settled(): Promise<void> {
    look();
    for (;;) {
      const running = entries.flatMap((entry) => entry.running ?? []);
      if (running.length === 0) return;
      await Promise.all(running);
    }
  }

  return {
    start() {
      stopped = false;
      wake();
    },
    wake,
    async stop() {
      stopped = true;
      cancelTimer?.();
      await Promise.all(entries.map((entry) => entry.running));
    },
    settled,
  };
}
