/**
 * Courses: each delivers to one endpoint. It holds some claimed deliveries, attempts them in as many lanes as the endpoint
 * has earned, records the outcomes of many in one commit, and claims more in the same.
 *
 * Invariants: what one endpoint does delays no other, since lanes that are slow do not count against those of the rest;
 * of a backlog only what is about to be attempted is in memory, and no body after that; a claim is in `inHand` until its
 * outcome is recorded, and what stopping cuts short is given back.
 */
import type { Log } from "../base/log.ts";
import type { Meters } from "../base/metrics.ts";
import { atMost } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { createPatientCommit } from "../store/patience.ts";
import type { Pace } from "../store/schema.ts";
import type { Options } from "../store/settings.ts";
import type { Store, Tx } from "../store/store.ts";
import { type Attemptable, type Claim, type Claimed, claim, LARGEST_CLAIM, release, yieldTurn } from "./deliveries.ts";
import { type Attempted, type Recorded, recordAttempts, SLOW_MS } from "./outcome.ts";
import type { RequestOutcome, Requests } from "./request.ts";

export interface Courses {
  /** Begins one with what was claimed for it; the endpoint has none yet. */
  begin(endpointSeq: number, pace: Pace, claimed: readonly Claimed[]): void;
  /** `drained`: does not claim by itself what has become due since. Undefined for an endpoint without one. */
  find(endpointSeq: number): { readonly drained: boolean } | undefined;
  /** Something of the endpoint has become due. */
  spur(endpointSeq: number): void;
  /** Whether one more may begin, for endpoints that are slow or for the others. */
  hasRoom(slow: boolean, taken: number): boolean;
  /** Which endpoints, slow or not, have something due and find no lane: those in theirs make room. */
  setCrowded(crowded: Crowded): void;
  /** Counts `work` among what idle and stop wait for. */
  during<T>(work: () => Promise<T>): Promise<T>;
  /** Resolves when nothing is being attempted, claimed or recorded. */
  idle(): Promise<void>;
  /** Attempts nothing more; lets what is under way end for up to `graceMs`, and gives back the rest. */
  stop(graceMs: number): Promise<void>;
}

export interface Crowded {
  slow: boolean;
  brisk: boolean;
}

export interface CoursesParts {
  store: Pick<Store, "enqueue" | "transact">;
  requests: Requests;
  /** All lanes: requests under way at once. */
  mostLanes: number;
  options: Pick<Options, "get">;
  runtime: Pick<Runtime, "now" | "setTimer">;
  log: Log;
  meters?: Pick<Meters, "countWebhook"> | undefined;
  /** Something may be due that no course claims, or there is room again. */
  wake(): void;
  /** Asks for the admins of endpoints just disabled to be told. */
  tell(): void;
}

/** Lanes of one endpoint, by what its answers have been like: one that is not known to work keeps one waiting at most. */
const MOST_LANES_OF_ONE: Record<Pace, number> = { unproven: 1, proven: 8, slow: 8, failing: 1 };
/**
 * Of all lanes, those whose attempt has not taken long yet, of endpoints that are not known to be slow; and as many of
 * those that are. A slow one starts out as brisk.
 */
const SHARE_OF_ALIKE = 1 / 4;
/** Deliveries claimed ahead for an endpoint that works, so that its lanes need not wait for a commit. */
const CLAIMED_AHEAD = 1_024;
/** Outcomes of one endpoint that share a commit, and how long, in ms, they wait for it while the next are attempted. */
const RECORDED_TOGETHER = 512;
const RECORD_MS = 100;
/** Outcomes of one endpoint beyond which its lanes wait for the store. */
const MOST_UNRECORDED = 1_024;
/** Attempts before a course makes room when others like it wait. */
const TURN = 64;
const SLOW_TURN = 1;
const LEASE_MS = 10 * 60_000;

interface Course {
  readonly endpointSeq: number;
  pace: Pace;
  /** Claimed, and not yet attempted. */
  readonly ahead: Claimed[];
  /** Characters of their bodies. */
  aheadSize: number;
  readonly lanes: Set<Lane>;
  /** Attempted, and not yet recorded. */
  readonly ended: Attempted[];
  /** One of them is a failure, which may change what the endpoint gets: it is recorded at once. */
  failed: boolean;
  /** While outcomes wait for company: when the first of them ended is a matter of this timer. */
  cancelTimer: (() => void) | undefined;
  /** Outcomes are being recorded, or more is being claimed. */
  committing: Promise<void> | undefined;
  /** Attempts since it began. */
  served: number;
  /** The last time there was nothing more to claim; what is due since is the job's to notice. */
  drained: boolean;
  /** What is ahead goes back, and nothing more is claimed. */
  over: boolean;
}

interface Lane {
  /** When its attempt began, epoch ms. */
  since: number;
}

export const isSlow = (pace: Pace): boolean => pace === "slow" || pace === "failing";

/** Until when what is claimed now is leased, epoch ms. */
export const leaseUntil = (now: number, options: Pick<Options, "get">): number =>
  now + LEASE_MS + options.get("webhooks.timeoutSeconds") * 1_000;

export function createCourses(parts: CoursesParts): Courses {
  const { store, requests, options, runtime, log, mostLanes, wake, tell } = parts;
  const courses = new Map<number, Course>();
  /** What is claimed, until its outcome is recorded. */
  const inHand = new Set<Attemptable>();
  const waiters: (() => void)[] = [];
  /** Attempts, claims and records under way. */
  let busy = 0;
  let crowded: Crowded = { slow: false, brisk: false };
  let stopped = false;
  /** Stopped without waiting any longer: what ends now is not recorded, but has been given back. */
  let cut = false;

  function enter(): void {
    busy++;
  }

  function leave(): void {
    if (--busy > 0) return;
    for (const resolve of waiters.splice(0)) resolve();
  }

  const idle = (): Promise<void> =>
    busy === 0 ? Promise.resolve() : new Promise<void>((resolve) => waiters.push(resolve));

  const commit = createPatientCommit({
    ...{ store, runtime, log, warning: "the store cannot record webhook deliveries" },
    isOver: () => cut,
  });

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
    return Math.min(mostLanes - all, mostLanes * SHARE_OF_ALIKE - alike);
  }

  const timeoutMs = (): number => options.get("webhooks.timeoutSeconds") * 1_000;
  /** To be claimed ahead: for a course that works enough to keep its lanes busy over a commit. */
  const aheadOf = (pace: Pace): number => (pace === "proven" ? CLAIMED_AHEAD : MOST_LANES_OF_ONE[pace]);

  function hold(course: Course, claimed: readonly Claimed[]): void {
    for (const { delivery, body } of claimed) {
      inHand.add(delivery);
      course.aheadSize += body.length;
    }
    course.ahead.push(...claimed);
  }

  /** Opens the lanes that a course may have, has its outcomes recorded, and ends it when there is nothing more. */
  function proceed(course: Course): void {
    const { ahead, lanes, ended } = course;
    if ((stopped || course.over) && ahead.length > 0) giveBack(course);
    if (!course.committing && !cut) {
      const ripe = ended.length >= RECORDED_TOGETHER || ahead.length === 0 || course.failed;
      if (claimable(course, 0.5) > 0 || (ended.length > 0 && ripe)) commitNow(course);
      else if (ended.length > 0) course.cancelTimer ??= runtime.setTimer(() => commitNow(course), RECORD_MS);
    }
    while (ahead.length > 0 && lanes.size < MOST_LANES_OF_ONE[course.pace]) {
      if (lanes.size > 0 && room(isSlow(course.pace)) <= 0) break;
      void run(course);
    }
    if (lanes.size > 0 || course.committing || ahead.length > 0 || (ended.length > 0 && !cut)) return;
    if (courses.get(course.endpointSeq) === course) courses.delete(course.endpointSeq);
    if (!stopped) wake();
  }

  /** How many more a course may claim; none when it holds `share` of what it may, and of large bodies one for each lane. */
  const claimable = ({ pace, ahead, aheadSize, lanes, drained, over }: Course, share = 1): number => {
    const isLarge = aheadSize >= share * LARGEST_CLAIM && ahead.length + lanes.size >= MOST_LANES_OF_ONE[pace];
    const isFull = isLarge || ahead.length >= share * aheadOf(pace);
    return stopped || over || drained || isFull ? 0 : aheadOf(pace) - ahead.length;
  };

  function commitNow(course: Course): void {
    course.cancelTimer?.();
    course.cancelTimer = undefined;
    if (!course.committing && !cut) course.committing = commitCourse(course);
  }

  /** The commit may have waited for the store: a lease counts from when it is given. */
  function claimNow(tx: Tx, endpointSeq: number, count: number): Claim {
    const now = runtime.now();
    return claim(tx, endpointSeq, count, now, leaseUntil(now, options));
  }

  /** Records what has ended, and claims as much as there is place for: two commits would cost twice. */
  async function commitCourse(course: Course): Promise<void> {
    const { endpointSeq } = course;
    const count = claimable(course);
    const ended = course.ended.splice(0);
    course.failed = false;
    const terms = {
      now: runtime.now(),
      retrySeconds: options.get("webhooks.retrySeconds"),
      disableAfter: options.get("webhooks.disableAfter"),
      timeoutMs: timeoutMs(),
    };
    enter();
    try {
      const { recorded, taken } = await commit((tx) => ({
        recorded: ended.length === 0 ? undefined : recordAttempts(tx, endpointSeq, ended, terms),
        taken: count === 0 ? undefined : claimNow(tx, endpointSeq, count),
      }));
      if (taken) {
        course.drained = !taken.more;
        hold(course, taken.claimed);
      }
      // While an attempt takes its time, what was retried falls due.
      if (course.drained && course.lanes.size > 0 && !stopped) wake();
      if (recorded) follow(course, recorded);
    } catch (error) {
      course.over = true;
      log.error("webhook attempts cannot be recorded; their leases will run out", { attempts: ended.length, error });
    } finally {
      for (const { delivery } of ended) inHand.delete(delivery);
      course.committing = undefined;
      proceed(course);
      leave();
    }
  }

  function follow(course: Course, { pace, off }: Recorded): void {
    if (pace === "failing" && course.pace !== "failing") giveBack(course);
    course.pace = pace;
    if (!off) return;
    course.over = true;
    tell();
  }

  /** What is ahead, and will not be attempted by this course, goes back. */
  function giveBack(course: Course): void {
    const back = course.ahead.splice(0);
    course.aheadSize = 0;
    if (cut || (back.length === 0 && !course.over)) return;
    const deliveries = back.map(({ delivery }) => delivery);
    enter();
    void commit((tx) => {
      release(tx, deliveries, runtime.now());
      return course.over ? yieldTurn(tx, course.endpointSeq, runtime.now()) : undefined;
    })
      .catch((error) => log.error("webhook deliveries cannot be given back; their leases will run out", { error }))
      .finally(() => {
        for (const one of deliveries) inHand.delete(one);
        course.drained = false;
        if (!stopped) wake();
        leave();
      });
  }

  /** Takes the next to be attempted. An endpoint that has become slow may not come to all before their leases end. */
  function takeNext(course: Course): Claimed | undefined {
    const [next] = course.ahead;
    if (next && next.leasedUntil < runtime.now() + timeoutMs()) giveBack(course);
    return course.ahead.shift();
  }

  /** A lane: attempts one delivery after another. */
  async function run(course: Course): Promise<void> {
    const lane: Lane = { since: runtime.now() };
    course.lanes.add(lane);
    enter();
    for (let next = takeNext(course); next; next = takeNext(course)) {
      const { delivery, body } = next;
      lane.since = runtime.now();
      course.served++;
      course.aheadSize -= body.length;
      const number = delivery.attempts + 1;
      const outcome = await attempt(next, number);
      report(next, number, outcome);
      course.ended.push({ delivery, outcome });
      if (!outcome.ok) course.failed = true;
      proceed(course);
      const waits = !outcome.ok || course.ended.length > MOST_UNRECORDED;
      while (waits && course.committing && inHand.has(delivery)) await course.committing;
      if (course.lanes.size > MOST_LANES_OF_ONE[course.pace] || makesRoom(course)) break;
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
    if (course.lanes.size > 1 || course.over) return true;
    if (course.served < (slow ? SLOW_TURN : TURN)) return false;
    course.over = true;
    giveBack(course);
    return true;
  }

  function attempt({ delivery, endpoint, body, sign }: Claimed, number: number): Promise<RequestOutcome> {
    const { eventId, event } = delivery;
    const fields = sign({ eventId, event, body, number, now: runtime.now() });
    return requests.post({ url: endpoint.url, fields, body, timeoutMs: timeoutMs(), attempt: number });
  }

  function report({ delivery, endpoint }: Claimed, number: number, { ok, status, error, ms }: RequestOutcome): void {
    parts.meters?.countWebhook(ok, ms);
    const { id, event } = delivery;
    log.info("webhook attempt", { delivery: id, endpoint: endpoint.id, event, attempt: number, ok, status, error, ms });
  }

  async function stop(graceMs: number): Promise<void> {
    stopped = true;
    for (const course of [...courses.values()]) proceed(course);
    if (busy > 0 && graceMs > 0) await atMost(runtime, graceMs, idle());
    cut = true;
    requests.close();
    if (inHand.size === 0) return;
    try {
      const left = [...inHand];
      store.transact((tx) => release(tx, left, runtime.now()));
    } catch (error) {
      log.warn("webhook attempts cut short will be taken up at the next start", { attempts: inHand.size, error });
    }
  }

  return {
    begin(endpointSeq, pace, claimed) {
      const course: Course = {
        ...{ endpointSeq, pace, ahead: [], aheadSize: 0, lanes: new Set<Lane>(), ended: [], failed: false },
        ...{ served: 0, cancelTimer: undefined, committing: undefined, drained: false, over: false },
      };
      courses.set(endpointSeq, course);
      hold(course, claimed);
      proceed(course);
    },
    find: (endpointSeq) => courses.get(endpointSeq),
    spur(endpointSeq) {
      const course = courses.get(endpointSeq);
      if (!course) return;
      course.drained = false;
      proceed(course);
    },
    hasRoom: (slow, taken) => room(slow) > taken,
    setCrowded(now) {
      crowded = now;
    },
    async during(work) {
      enter();
      try {
        return await work();
      } finally {
        leave();
      }
    },
    idle,
    stop,
  };
}
