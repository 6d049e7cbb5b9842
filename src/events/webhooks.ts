/**
 * The deliverer: fans new events out to the endpoints that want them, and has what is due sent (rules: Events).
 *
 *   commit ──► runDue: fan out, claim ──► course of an endpoint: lanes ──attempt──► outcomes, and more claimed,
 *                 ▲                            ▲                                      in one commit for many
 *                 │                            └────────────────────────────────────────────┘
 *                 └── wake: the course ends, or there is room again
 *
 * This is the job, which begins the courses; what they do is in courses.ts.
 */
import type { Job } from "../base/scheduler.ts";
import type { Pace } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import { type CoursesParts, createCourses, isSlow, leaseUntil } from "./courses.ts";
import { type Claimed, claim, endpointsByDue, recallStrays, releaseLeases } from "./deliveries.ts";
import { needsSweep, sweepEndpoints } from "./delivery-log.ts";
import { fanOut, hasNewEvents } from "./fan-out.ts";
import { SLOW_MS } from "./outcome.ts";

export interface Webhooks {
  /** Woken by commits of this process that emit events or ask for a delivery, and by the deliverer itself. */
  readonly job: Job;
  /** After the commit under way, something may be due: it was asked for. */
  deliverSoon(): void;
  /** Resolves when nothing is being attempted or recorded. */
  idle(): Promise<void>;
  /** Claims no more, gives attempts `graceMs` to end, and gives back the rest. */
  stop(graceMs: number): Promise<void>;
}

export interface WebhooksParts extends CoursesParts {
  store: Pick<Store, "db" | "enqueue" | "transact" | "onCommit">;
}

/** Courses begun in one commit of the job. */
const PORTION = 16;

export function createWebhooks(parts: WebhooksParts): Webhooks {
  const { store, options, runtime, log, wake } = parts;
  const courses = createCourses(parts);
  let asked = false;
  let started = false;
  let stopped = false;
  /** An endpoint that is slow, or one that is not, has something due and finds no lane. */
  let crowded = { slow: false, brisk: false };

  const stopListening = store.onCommit(() => {
    if (!started || stopped || !(asked || hasNewEvents(store.db))) return;
    asked = false;
    wake();
  });

  /** Fans out a portion, and claims for endpoints without a course as far as there is room. */
  function take(tx: Tx) {
    const now = runtime.now();
    const reached = fanOut(tx, now);
    const taken = new Map<number, { pace: Pace; claimed: Claimed[] }>();
    const begun = { slow: 0, brisk: 0 };
    const full = { slow: false, brisk: false };
    for (const { seq, pace } of endpointsByDue(tx, now)) {
      if (taken.size >= PORTION) break;
      const course = courses.find(seq);
      if (course) {
        if (course.drained) reached.add(seq);
        continue;
      }
      const kind = isSlow(pace) ? "slow" : "brisk";
      if (!courses.hasRoom(kind === "slow", begun[kind])) {
        full[kind] = true;
        if (full.slow && full.brisk) break;
        continue;
      }
      const { claimed } = claim(tx, seq, 1, now, leaseUntil(now, options));
      if (claimed.length === 0) continue;
      begun[kind]++;
      // Whether it still works shows with the first.
      taken.set(seq, { pace: pace === "proven" ? "unproven" : pace, claimed });
    }
    return { reached, taken, full };
  }

  /** Whether there are events to fan out, or something is due that no course is about to claim and that finds a lane. */
  function hasWork(): boolean {
    return hasNewEvents(store.db) || (nextTime() ?? Number.POSITIVE_INFINITY) <= runtime.now();
  }

  /** A portion of the work. */
  async function handOut(): Promise<void> {
    const { reached, taken, full } = await store.enqueue(take);
    setCrowded(full);
    for (const seq of reached) courses.spur(seq);
    for (const [seq, { pace, claimed }] of taken) courses.begin(seq, pace, claimed);
  }

  function setCrowded(now: typeof crowded): void {
    crowded = now;
    courses.setCrowded(now);
  }

  /** When the job has something to do, if nothing wakes it before: epoch ms. */
  function nextTime(): number | null {
    const now = runtime.now();
    const times: number[] = [];
    for (const { seq, dueAt, pace } of endpointsByDue(store.db, Number.MAX_SAFE_INTEGER)) {
      if (courses.find(seq)?.drained === false) continue;
      // What finds no lane waits for one to end, which wakes the job, or to become slow.
      const waits = dueAt <= now && crowded[isSlow(pace) ? "slow" : "brisk"];
      times.push(waits ? now + SLOW_MS : dueAt);
      if (!waits) break;
    }
    return times.length === 0 ? null : Math.min(...times);
  }

  async function work(wasAhead: boolean): Promise<number | null> {
    if (wasAhead) {
      const waits = options.get("webhooks.retrySeconds").map((seconds) => 1_000 * seconds);
      await store.enqueue((tx) => recallStrays(tx, waits, runtime.now()));
    }
    if (!started) {
      const released = await store.enqueue((tx) => releaseLeases(tx, runtime.now()));
      if (released > 0) log.info("took up webhook attempts that a stop had cut short", { deliveries: released });
      started = true;
    }
    setCrowded({ slow: false, brisk: false });
    // Each portion is a transaction of its own, and the event loop turns between two. What is to be swept is due until it
    // is, and an endpoint may be disabled between any two.
    while (!stopped) {
      if (needsSweep(store.db)) await store.enqueue((tx) => sweepEndpoints(tx, runtime.now()));
      else if (hasWork()) await handOut();
      else return nextTime();
    }
    return null;
  }

  return {
    job: {
      name: "webhooks",
      runDue: async (_, wasAhead = false) => (stopped ? null : courses.during(() => work(wasAhead))),
    },
    deliverSoon() {
      asked = true;
    },
    idle: courses.idle,
    stop(graceMs) {
      stopped = true;
      stopListening();
      return courses.stop(graceMs);
    },
  };
}
