/**
 * Runs jobs when they are due. A job does its due work and returns the time of its next; the scheduler sleeps until the
 * earliest of these, or until `wake` (after a commit or a changed setting). A job that throws is logged and tried again
 * after a growing wait.
 *
 * The clock may be set while the server runs. When it goes back, every job runs anew, because the times that jobs gave
 * are far off now. When it leaps ahead, it may be wrong: jobs that delete by age wait for an hour, in which a time
 * server or a person may correct it.
 */
import type { Log } from "./log.ts";
import type { Runtime } from "./runtime.ts";

export interface Job {
  readonly name: string;
  /** The job deletes by age, and for good. */
  readonly deletes?: boolean;
  /**
   * Does what is due at `now` (epoch ms). Returns when it next has work, or null to run only when woken. `wasAhead`:
   * stored times may come from a clock that was ahead; true at the first run and after the clock was set back.
   */
  runDue(now: number, wasAhead?: boolean): number | null | Promise<number | null>;
}

/**
 * Does `work` for one item after the other. One that fails delays none of the others. @throws the first failure in the end, so
 * that the scheduler logs it and tries again
 */
export async function workOnEach<T>(items: Iterable<T>, work: (item: T) => Promise<unknown>): Promise<void> {
  let failure: unknown;
  for (const item of items) {
    try {
      await work(item);
    } catch (error) {
      failure ??= error;
    }
  }
  if (failure !== undefined) throw failure;
}

interface Entry {
  job: Job;
  /** Epoch ms. */
  due: number | null;
  failures: number;
  running: Promise<void> | null;
  again: boolean;
  wasAhead: boolean;
}

export type Scheduler = ReturnType<typeof createScheduler>;

const FIRST_RETRY_MS = 1_000;
const LONGEST_RETRY_MS = 5 * 60_000;
/** A smaller step back is a routine correction. */
const BACK_MS = 10_000;
/** A smaller leap ahead is a routine correction. A machine that wakes from sleep leaps further. */
const AHEAD_MS = 10 * 60_000;
/** Jobs that delete wait until the clock has run steadily for this long. */
const STEADY_MS = 60 * 60_000;

export function createScheduler(runtime: Pick<Runtime, "now" | "setTimer">, log: Log) {
  const entries: Entry[] = [];
  let cancelTimer: (() => void) | undefined;
  let stopped = true;
  /** The time of the last look, and since when the clock has run steadily: epoch ms. */
  let lookedAt = Number.NEGATIVE_INFINITY;
  let steadySince = Number.NEGATIVE_INFINITY;

  async function run(entry: Entry): Promise<void> {
    do {
      entry.again = false;
      const { wasAhead } = entry;
      entry.wasAhead = false;
      try {
        entry.due = await entry.job.runDue(runtime.now(), wasAhead);
        entry.failures = 0;
      } catch (error) {
        entry.wasAhead ||= wasAhead;
        const wait = Math.min(FIRST_RETRY_MS * 2 ** entry.failures++, LONGEST_RETRY_MS);
        entry.due = runtime.now() + wait;
        log.error("job failed", { job: entry.job.name, failures: entry.failures, retryInMs: wait, error });
      }
    } while (entry.again && !stopped);
  }

  function noticeLeaps(now: number): void {
    if (now < lookedAt - BACK_MS) {
      log.warn("the clock was set back: looking at everything anew", { byMs: lookedAt - now });
      steadySince = Math.min(steadySince, now);
      for (const entry of entries) {
        entry.wasAhead = true;
        if (entry.running) entry.again = true;
        else entry.due = now;
      }
    }
    lookedAt = now;
  }

  function noticeLate(ms: number): void {
    if (ms < AHEAD_MS) return;
    steadySince = runtime.now();
    log.warn("the clock leapt ahead: nothing is deleted by age for an hour", { byMs: ms });
  }

  const entryDueTime = ({ due, job }: Entry): number | null =>
    due !== null && job.deletes ? Math.max(due, steadySince + STEADY_MS) : due;

  function look(): void {
    cancelTimer?.();
    cancelTimer = undefined;
    if (stopped) return;
    const now = runtime.now();
    noticeLeaps(now);
    let earliest = Number.POSITIVE_INFINITY;
    for (const entry of entries) {
      if (entry.running) continue;
      const due = entryDueTime(entry);
      if (due !== null && due <= now) {
        entry.due = null;
        entry.running = run(entry).finally(() => {
          entry.running = null;
          // A wake came after the loop checked for one.
          if (entry.again) entry.due = runtime.now();
          look();
        });
      } else if (due !== null) {
        earliest = Math.min(earliest, due);
      }
    }
    if (!Number.isFinite(earliest)) return;
    const sleepMs = Math.max(0, earliest - now);
    const wakeAt = now + sleepMs;
    cancelTimer = runtime.setTimer(() => {
      noticeLate(runtime.now() - wakeAt);
      look();
    }, sleepMs);
  }

  /** Runs a job, or all jobs, now. */
  function wake(name?: string): void {
    for (const entry of entries) {
      if (name !== undefined && entry.job.name !== name) continue;
      if (entry.running) entry.again = true;
      else entry.due = runtime.now();
    }
    look();
  }

  /** Resolves when no job is due or running. Tests on a fake clock wait for it. */
  async function settled(): Promise<void> {
    look();
    for (;;) {
      const running = entries.flatMap((entry) => entry.running ?? []);
      if (running.length === 0) return;
      await Promise.all(running);
    }
  }

  return {
    /** Adds jobs, before the start. */
    add(jobs: readonly Job[]): void {
      for (const job of jobs) {
        entries.push({ job, due: null, failures: 0, running: null, again: false, wasAhead: true });
      }
    },
    /** Runs every job at once. `leapt`: the clock is so far from the server's last run that it may be wrong. */
    start(leapt = false): void {
      stopped = false;
      if (leapt) steadySince = runtime.now();
      wake();
    },
    wake,
    /** Resolves when the running jobs have ended; starts no other. */
    async stop(): Promise<void> {
      stopped = true;
      cancelTimer?.();
      await Promise.all(entries.map((entry) => entry.running));
    },
    settled,
  };
}
