/**
 * The deliverer: fans new events out to the endpoints that want them, and sends what is due (spec: Events).
 *
 *   commit ──► runDue: fan out, claim ──► course of an endpoint: lanes ──attempt──► outcome, one commit for many
 *                 ▲                            └──────────── claims more ◄──────────────┘
 *                 └── wake: the course ends, or there is room again
 *
 * A course delivers to one endpoint: it holds some claimed deliveries, and as many lanes as the endpoint has earned.
 * Invariants: what one endpoint does delays no other, since lanes that are slow do not count against those of the rest;
 * of a backlog only what is about to be attempted is in memory; a claim is in `inHand` until its outcome is recorded, and
 * what stopping cuts short is given back.
 */
import { isUnavailable } from "../errors.ts";
import type { Log } from "../log.ts";
import { newId, type Runtime } from "../runtime.ts";
import type { Job } from "../scheduler.ts";
import type { Options } from "../store/options.ts";
import type { Pace } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import {
  type Claimed,
  claim,
  endpointsByDue,
  fanOut,
  hasNewEvents,
  needsSweep,
  release,
  releaseLeases,
  sweepEndpoints,
  yieldTurn,
} from "./deliveries.ts";
import { type Recorded, recordOutcome, SLOW_MS } from "./outcome.ts";
import type { RequestOutcome, Requests } from "./request.ts";
import { signedHeaders } from "./signature.ts";

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

export interface WebhooksParts {
  store: Pick<Store, "db" | "enqueue" | "transact" | "onCommit">;
  requests: Requests;
  options: Pick<Options, "get">;
  runtime: Pick<Runtime, "now" | "setTimer" | "randomBytes">;
  log: Log;
  /** Asks the scheduler to run the job now. */
  wake(): void;
  /** Asks for the admins of endpoints just disabled to be told. */
  tell(): void;
}

/** Lanes of one endpoint, by what its answers have been like: one that is not known to work keeps one waiting at most. */
const MOST_LANES_OF_ONE: Record<Pace, number> = { unproven: 1, proven: 8, slow: 8, failing: 1 };
/** Lanes whose attempt has not taken long yet, of endpoints that are not known to be slow; and of those that are. */
const MOST_BRISK_LANES = 64;
const MOST_SLOW_LANES = 64;
/** All lanes: a slow one starts out as brisk. */
const MOST_LANES = 256;
/** Deliveries claimed ahead for an endpoint that works. */
const CLAIMED_AHEAD = 48;
/** Courses begun in one commit of the job. */
const PORTION = 16;
/** Attempts before a course makes room when others like it wait. */
const TURN = 64;
const SLOW_TURN = 1;
/** Outcomes on their way to the store beyond which lanes wait for it. */
const MOST_UNRECORDED = 256;
const LEASE_MS = 10 * 60_000;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 30_000;

interface Course {
  readonly endpointSeq: number;
  pace: Pace;
  /** Claimed, and not yet attempted. */
  readonly ahead: Claimed[];
  readonly lanes: Set<Lane>;
  /** Attempts since it began. */
  served: number;
  /** More is being claimed. */
  claiming: boolean;
  /** The last time there was nothing more to claim; newer deliveries are the job's to notice. */
  drained: boolean;
  /** What is ahead goes back, and nothing more is claimed. */
  ended: boolean;
}

interface Lane {
  /** When its attempt began, epoch ms. */
  since: number;
}

const isSlow = (pace: Pace): boolean => pace === "slow" || pace === "failing";

export function createWebhooks(parts: WebhooksParts): Webhooks {
  const { store, requests, options, runtime, log, wake, tell } = parts;
  const courses = new Map<number, Course>();
  /** What is claimed, until its outcome is recorded. */
  const inHand = new Set<Claimed>();
  const waiters: (() => void)[] = [];
  /** Attempts, claims and records under way. */
  let busy = 0;
  let unrecorded = 0;
  let asked = false;
  let started = false;
  /** An endpoint that is slow, or one that is not, has something due and finds no lane. */
  let crowded = { slow: false, brisk: false };
  let stopped = false;
  /** Stopped without waiting any longer: what ends now is not recorded, but has been given back. */
  let cut = false;

  const stopListening = store.onCommit(() => {
    if (!started || stopped || !(asked || hasNewEvents(store.db))) return;
    asked = false;
    wake();
  });

  function enter(): void {
    busy++;
  }

  function leave(): void {
    if (--busy > 0) return;
    for (const resolve of waiters.splice(0)) resolve();
  }

  const idle = (): Promise<void> =>
    busy === 0 ? Promise.resolve() : new Promise<void>((resolve) => waiters.push(resolve));

  const pause = (ms: number): Promise<void> => new Promise((resolve) => void runtime.setTimer(resolve, ms));

  /** Commits, however long the store takes to become available. */
  async function commit<T>(work: (tx: Tx) => T extends PromiseLike<unknown> ? never : T): Promise<T> {
    for (let wait = FIRST_WAIT_MS; ; wait = Math.min(2 * wait, LONGEST_WAIT_MS)) {
      try {
        return await store.enqueue<T>(work);
      } catch (error) {
        if (!isUnavailable(error) || cut) throw error;
        log.warn("the store cannot record webhook deliveries", { retryInMs: wait, error });
        await pause(wait);
      }
    }
  }

  /** How many more lanes may begin, for endpoints that are slow or for the others. */
  function room(slow: boolean): number {
    const now = runtime.now();
    let all = 0;
    let alike = 0;
    for (const { lanes, pace } of courses.values()) {
      for (const { since } of lanes) {
        all++;
        if (slow ? isSlow(pace) : !isSlow(pace) && now - since < SLOW_MS) alike++;
      }
    }
    return Math.min(MOST_LANES - all, (slow ? MOST_SLOW_LANES : MOST_BRISK_LANES) - alike);
  }

  const timeoutMs = (): number => options.get("webhooks.timeoutSeconds") * 1_000;
  const leaseUntil = (): number => runtime.now() + LEASE_MS + timeoutMs();
  /** To be claimed ahead: for a course that works enough to keep its lanes busy over a commit. */
  const aheadOf = (pace: Pace): number => (pace === "proven" ? CLAIMED_AHEAD : MOST_LANES_OF_ONE[pace]);

  /** Fans out a portion, and claims for endpoints without a course as far as there is room. */
  function take(tx: Tx) {
    const now = runtime.now();
    const reached = fanOut(tx, now, () => newId(runtime, "whd"));
    const rooms = { slow: room(true), brisk: room(false) };
    const taken = new Map<number, { pace: Pace; claimed: Claimed[] }>();
    const full = { slow: false, brisk: false };
    for (const { seq, pace } of endpointsByDue(tx, now)) {
      if (taken.size >= PORTION) break;
      if (courses.has(seq)) continue;
      const kind = isSlow(pace) ? "slow" : "brisk";
      if (rooms[kind] <= 0) {
        full[kind] = true;
        if (full.slow && full.brisk) break;
        continue;
      }
      const claimed = claim(tx, seq, MOST_LANES_OF_ONE.unproven, now, leaseUntil());
      if (claimed.length === 0) continue;
      rooms[kind]--;
      taken.set(seq, { pace: pace === "proven" ? "unproven" : pace, claimed });
    }
    return { reached, taken, full };
  }

  /** Whether there are events to fan out, or an endpoint without a course has something due and finds a lane. */
  function hasWork(): boolean {
    return hasNewEvents(store.db) || (nextTime() ?? Number.POSITIVE_INFINITY) <= runtime.now();
  }

  /** A portion of the work. */
  async function handOut(): Promise<void> {
    const { reached, taken, full } = await store.enqueue(take);
    crowded = full;
    for (const seq of reached) {
      const course = courses.get(seq);
      if (!course) continue;
      course.drained = false;
      proceed(course);
    }
    for (const [endpointSeq, { pace, claimed }] of taken) {
      const course: Course = {
        ...{ endpointSeq, pace, ahead: [], lanes: new Set<Lane>(), served: 0 },
        ...{ claiming: false, drained: false, ended: false },
      };
      courses.set(endpointSeq, course);
      hold(course, claimed);
      proceed(course);
    }
  }

  function hold(course: Course, claimed: readonly Claimed[]): void {
    for (const one of claimed) inHand.add(one);
    course.ahead.push(...claimed);
  }

  /** Opens the lanes that a course may have, claims ahead, and ends it when there is nothing more. */
  function proceed(course: Course): void {
    if (stopped || (course.ended && course.ahead.length > 0)) giveBack(course);
    if (
      !stopped &&
      !course.ended &&
      !course.drained &&
      !course.claiming &&
      course.ahead.length < aheadOf(course.pace) / 2
    ) {
      void claimMore(course);
    }
    const most = MOST_LANES_OF_ONE[course.pace];
    while (
      course.ahead.length > 0 &&
      course.lanes.size < most &&
      (course.lanes.size === 0 || room(isSlow(course.pace)) > 0)
    ) {
      void run(course);
    }
    if (course.lanes.size > 0 || course.claiming || course.ahead.length > 0) return;
    if (courses.get(course.endpointSeq) === course) courses.delete(course.endpointSeq);
    if (!stopped) wake();
  }

  async function claimMore(course: Course): Promise<void> {
    course.claiming = true;
    enter();
    try {
      const count = aheadOf(course.pace) - course.ahead.length;
      const claimed = await commit((tx) => claim(tx, course.endpointSeq, count, runtime.now(), leaseUntil()));
      course.drained = claimed.length < count;
      hold(course, claimed);
    } catch (error) {
      course.ended = true;
      log.error("webhook deliveries cannot be claimed", { error });
    } finally {
      course.claiming = false;
      proceed(course);
      leave();
    }
  }

  /** What is ahead, and will not be attempted by this course, goes back. */
  function giveBack(course: Course): void {
    const back = course.ahead.splice(0);
    if (cut || (back.length === 0 && !course.ended)) return;
    const deliveries = back.map(({ delivery }) => delivery);
    enter();
    void commit((tx) => {
      release(tx, deliveries, runtime.now());
      return course.ended ? yieldTurn(tx, course.endpointSeq, runtime.now()) : undefined;
    })
      .catch((error) => log.error("webhook deliveries cannot be given back; their leases will run out", { error }))
      .finally(() => {
        for (const one of back) inHand.delete(one);
        course.drained = false;
        if (!stopped) wake();
        leave();
      });
  }

  /** A lane: attempts one delivery after another. */
  async function run(course: Course): Promise<void> {
    const lane: Lane = { since: runtime.now() };
    course.lanes.add(lane);
    enter();
    for (let next = course.ahead.shift(); next; next = course.ahead.shift()) {
      lane.since = runtime.now();
      course.served++;
      const outcome = await attempt(next);
      const recorded = record(course, next, outcome);
      if (!outcome.ok || unrecorded > MOST_UNRECORDED) await recorded;
      if (course.lanes.size > MOST_LANES_OF_ONE[course.pace] || makesRoom(course)) break;
      proceed(course);
    }
    course.lanes.delete(lane);
    proceed(course);
    if (!stopped && (crowded.slow || crowded.brisk)) wake();
    leave();
  }

  /** Whether a lane ends because others wait for one. */
  function makesRoom(course: Course): boolean {
    const slow = isSlow(course.pace);
    if (!(slow ? crowded.slow : crowded.brisk)) return false;
    if (course.lanes.size > 1 || course.ended) return true;
    if (course.served < (slow ? SLOW_TURN : TURN)) return false;
    course.ended = true;
    giveBack(course);
    return true;
  }

  async function attempt({ delivery, endpoint, body }: Claimed): Promise<RequestOutcome> {
    const { eventId, event } = delivery;
    const number = delivery.attempts + 1;
    const headers = signedHeaders({ eventId, event, body, number, now: runtime.now() }, endpoint);
    const outcome = await requests.post({ url: endpoint.url, headers, body, timeoutMs: timeoutMs(), attempt: number });
    log.info("webhook attempt", {
      ...{ delivery: delivery.id, endpoint: endpoint.id, event, attempt: number },
      ...{ ok: outcome.ok, status: outcome.status, error: outcome.error, ms: outcome.ms },
    });
    return outcome;
  }

  async function record(course: Course, claimed: Claimed, outcome: RequestOutcome): Promise<void> {
    if (cut) return;
    enter();
    unrecorded++;
    const terms = {
      now: runtime.now(),
      retrySeconds: options.get("webhooks.retrySeconds"),
      disableAfter: options.get("webhooks.disableAfter"),
      timeoutMs: timeoutMs(),
    };
    try {
      const recorded = await commit<Recorded>((tx) => recordOutcome(tx, claimed, outcome, terms));
      follow(course, recorded);
    } catch (error) {
      log.error("webhook attempt cannot be recorded; its lease will run out", { delivery: claimed.delivery.id, error });
    } finally {
      inHand.delete(claimed);
      unrecorded--;
      leave();
    }
  }

  function follow(course: Course, { pace, disabled }: Recorded): void {
    if (pace === "failing" && course.pace !== "failing") giveBack(course);
    course.pace = pace;
    if (!disabled) return;
    course.ended = true;
    tell();
    proceed(course);
  }

  /** When the job has something to do, if nothing wakes it before: epoch ms. */
  function nextTime(): number | null {
    const now = runtime.now();
    const times: number[] = [];
    for (const { seq, dueAt, pace } of endpointsByDue(store.db, Number.MAX_SAFE_INTEGER)) {
      if (courses.has(seq)) continue;
      // What finds no lane waits for one to end, which wakes the job, or to become slow.
      const waits = dueAt <= now && crowded[isSlow(pace) ? "slow" : "brisk"];
      times.push(waits ? now + SLOW_MS : dueAt);
      if (!waits) break;
    }
    return times.length === 0 ? null : Math.min(...times);
  }

  async function runDue(): Promise<number | null> {
    if (stopped) return null;
    enter();
    try {
      if (!started) {
        const released = await store.enqueue((tx) => releaseLeases(tx, runtime.now()));
        if (released > 0) log.info("took up webhook attempts that a stop had cut short", { deliveries: released });
        started = true;
      }
      // Each portion is a transaction of its own, and the event loop turns between two.
      while (!stopped && needsSweep(store.db)) await store.enqueue((tx) => sweepEndpoints(tx, runtime.now()));
      crowded = { slow: false, brisk: false };
      while (!stopped && hasWork()) await handOut();
      return stopped ? null : nextTime();
    } finally {
      leave();
    }
  }

  async function stop(graceMs: number): Promise<void> {
    stopped = true;
    stopListening();
    for (const course of courses.values()) giveBack(course);
    if (busy > 0 && graceMs > 0) await Promise.race([idle(), pause(graceMs)]);
    cut = true;
    requests.close();
    if (inHand.size === 0) return;
    try {
      const left = [...inHand].map(({ delivery }) => delivery);
      store.transact((tx) => release(tx, left, runtime.now()));
    } catch (error) {
      log.warn("webhook attempts cut short will be taken up at the next start", { attempts: inHand.size, error });
    }
  }

  return {
    job: { name: "webhooks", runDue },
    deliverSoon() {
      asked = true;
    },
    idle,
    stop,
  };
}
