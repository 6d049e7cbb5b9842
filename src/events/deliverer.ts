/**
 * The deliverer fans new events out to the endpoints that want them, and attempts the deliveries that are due (rules:
 * Webhook attempts).
 *
 *   commit ──► turn: record ended attempts, fan out, claim ──► slots of each endpoint ──► attempt ──► ended
 *                ▲                                                                                      │
 *                └──────────────────────────────────────────────────────────────────────────────────────┘
 *
 * A turn is one commit for all endpoints, and one turn follows another while there is work.
 *
 * Concurrency: an idle endpoint begins with one attempt. After it the endpoint has as many slots as its health allows,
 * and a proven one claims a batch ahead, so that its slots need not wait for a commit.
 *
 * Fairness: endpoints compete for slots within their kind: proven, unproven, or slow (which includes failing). Each
 * kind has a quarter of all slots, and the last quarter is for the proven. An attempt of the first two kinds stops
 * counting for its kind once it is slow. When an endpoint finds no slot, its kind is crowded: each endpoint of that
 * kind goes down to one slot and gives back the deliveries that it has claimed ahead, and they take turns.
 *
 * Invariants: one endpoint delays no other. Memory holds the deliveries being attempted, and only the numbers of those
 * claimed ahead. A claimed delivery is in `claimed` until its outcome is recorded or it is given back, and is not
 * attempted a second time meanwhile, even if its lease runs out.
 */
import { awaitAtMost } from "../base/pause.ts";
import type { Job } from "../base/scheduler.ts";
import type { HttpClient } from "../net/http-client.ts";
import type { Core } from "../store/core.ts";
import type { Health } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import { createPatientCommit } from "../store/store.ts";
import { attemptWebhookDelivery } from "./delivery.ts";
import { needsEndpointSweep, sweepEndpoints } from "./delivery-log.ts";
import { type Ended, type OutcomeTerms, type Recorded, recordWebhookAttempts, SLOW_MS } from "./delivery-outcome.ts";
import {
  claimWebhookDeliveries,
  endpointsByDue,
  fanOut,
  hasNewEvents,
  isDeliveryVoid,
  type Loaded,
  loadClaimedDelivery,
  nextEndpointDueTime,
  recallStrayDeliveries,
  releaseAllWebhookLeases,
  releaseWebhookDeliveries,
} from "./delivery-queue.ts";

/** Slots of one endpoint: its concurrency, by its health. */
const SLOTS: Record<Health, number> = { unproven: 1, proven: 8, slow: 8, failing: 1 };
/** Deliveries of one endpoint that are claimed at once, those under way among them. */
const CLAIMED: Record<Health, number> = { ...SLOTS, proven: 64 };
/** The share of all slots that one kind of endpoint has. */
const SHARE_OF_KIND = 1 / 4;
/** Most endpoints that one turn claims for, so that its commit stays short. */
const PORTION = 16;
const LEASE_MS = 10 * 60_000;

/** An endpoint with claimed deliveries. */
interface Busy {
  health: Health;
  /** An attempt has ended since it became busy: the first shows whether the endpoint still works. */
  tried: boolean;
  /** Deliveries that are claimed and not yet attempted: webhook_deliveries.seq. */
  readonly ahead: number[];
  /** Attempts under way. */
  readonly slots: Set<Slot>;
  /** The endpoint waits for the record of a failure, which may change its health: no other attempt begins until then. */
  waits: boolean;
  /** The endpoint is disabled or removed: no attempt begins, and the deliveries claimed ahead go back. */
  off: boolean;
}

interface Slot {
  /** When its attempt began, epoch ms. */
  since: number;
}

/** The group of endpoints among which an endpoint competes for slots. */
type Kind = "proven" | "unproven" | "slow";
const healthGroup = (health: Health): Kind => (health === "failing" ? "slow" : health);

/** `mostSlots`: all slots, of attempts under way at once. */
export function createDeliverer(core: Core, { http, mostSlots }: { http: HttpClient; mostSlots: number }) {
  const { store, options, runtime, log, meters, wake } = core;
  const busy = new Map<number, Busy>();
  /** Claimed deliveries: webhook_deliveries.seq. */
  const claimed = new Set<number>();
  /** Attempts whose outcome is not recorded yet. */
  const ended: Ended[] = [];
  /** True of a kind if one of its endpoints had a due delivery and found no slot, when `claimable` last looked. */
  const crowded: Record<Kind, boolean> = { proven: false, unproven: false, slow: false };
  const waiters: (() => void)[] = [];
  let underWay = 0;
  let turning: Promise<void> | undefined;
  /** When it last looked for due deliveries, epoch ms. */
  let lookedAt = 0;
  let started = false;
  let stopped = false;
  /**
   * The grace of `stop` is over: attempts that end now are not recorded, since their deliveries have been given back.
   */
  let cut = false;

  const commit = createPatientCommit({
    store,
    runtime,
    log,
    warning: "the store cannot record webhook deliveries",
    isOver: () => cut,
  });

  const stopListening = store.onCommit(() => {
    if (!started || stopped || !hasNewEvents(store.db)) return;
    wake("webhooks");
  });

  /** Returns how many more attempts of that kind may begin. */
  function room(kind: Kind): number {
    const now = runtime.now();
    let all = 0;
    let alike = 0;
    for (const { slots, health } of busy.values()) {
      for (const { since } of slots) {
        all++;
        if (healthGroup(health) === kind && (kind === "slow" || now - since < SLOW_MS)) alike++;
      }
    }
    const share = mostSlots * SHARE_OF_KIND;
    return Math.min((kind === "proven" ? mostSlots : mostSlots - share) - all, share - alike);
  }

  /** Returns how many deliveries an endpoint may have claimed, including those under way. */
  const mostClaimed = (one: Busy): number => (stopped || one.off ? 0 : allowed(one, CLAIMED));
  /** Returns the endpoint's number `of` slots or claims; 1 before its first attempt has ended, and in a crowd. */
  const allowed = ({ health, tried }: Busy, of: Record<Health, number>): number =>
    tried && !crowded[healthGroup(health)] ? of[health] : 1;

  /** Returns how many of the deliveries that an endpoint has claimed ahead go back. */
  const countExcessDeliveries = (one: Busy): number =>
    Math.min(one.ahead.length, Math.max(0, one.ahead.length + one.slots.size - mostClaimed(one)));

  /** Yields the endpoints to claim for, in the order of their turns, with a number of deliveries. Sets `crowded`. */
  function* claimable(db: Db): Generator<{ seq: number; health: Health; count: number }> {
    if (stopped) return;
    const free: Record<Kind, number> = { proven: room("proven"), unproven: room("unproven"), slow: room("slow") };
    const lacking: Record<Kind, boolean> = { proven: false, unproven: false, slow: false };
    lookedAt = runtime.now();
    for (const { seq, health } of endpointsByDue(db, lookedAt)) {
      const one = busy.get(seq);
      const kind = healthGroup(one?.health ?? health);
      const held = one ? one.ahead.length + one.slots.size : 0;
      const most = one ? mostClaimed(one) : 1;
      if (held > 0) {
        if (most > held && !one?.waits) yield { seq, health, count: most - held };
      } else if (free[kind] >= 1) {
        free[kind]--;
        if (most > 0) yield { seq, health, count: most };
      } else {
        lacking[kind] = true;
        if (lacking.proven && lacking.unproven && lacking.slow) break;
      }
    }
    Object.assign(crowded, lacking);
  }

  function hasWork(): boolean {
    if (ended.length > 0 || busy.values().some((one) => countExcessDeliveries(one) > 0)) return true;
    return !stopped && (needsEndpointSweep(store.db) || hasNewEvents(store.db) || !claimable(store.db).next().done);
  }

  /** Takes turns until no work is left. */
  async function work(): Promise<void> {
    if (!turning && hasWork()) turning = takeTurns();
    await turning;
  }

  async function takeTurns(): Promise<void> {
    try {
      do await takeTurn();
      while (!cut && hasWork());
    } finally {
      turning = undefined;
      noticeIdle();
    }
  }

  const termsNow = (): OutcomeTerms => ({
    now: runtime.now(),
    retrySeconds: options.get("webhooks.retrySeconds"),
    disableAfter: options.get("webhooks.disableAfter"),
    timeoutMs: timeoutMs(),
  });
  const timeoutMs = (): number => options.get("webhooks.timeoutSeconds") * 1_000;

  async function takeTurn(): Promise<void> {
    const recording = ended.splice(0);
    const back = [...busy.values()].flatMap((one) => one.ahead.splice(one.ahead.length - countExcessDeliveries(one)));
    const terms = termsNow();
    try {
      const { recorded, fresh } = await commit((tx) => ({
        recorded: recordWebhookAttempts(tx, recording, terms),
        fresh: takeUp(tx, back),
      }));
      for (const [seq, what] of recorded) follow(seq, what);
      for (const { seq, health, deliveries } of fresh) hold(seq, health, deliveries);
    } catch (error) {
      if (cut) return;
      // These outcomes are lost, so no endpoint waits for them.
      for (const { delivery } of recording) {
        const one = busy.get(delivery.endpointSeq);
        if (one) one.waits = false;
      }
      log.error("webhook attempts cannot be recorded; their leases will run out", {
        attempts: recording.length,
        error,
      });
      throw error;
    } finally {
      for (const { delivery } of recording) claimed.delete(delivery.seq);
      for (const seq of back) claimed.delete(seq);
      for (const one of busy.values()) begin(one);
      for (const [seq, { ahead, slots }] of busy) if (ahead.length + slots.size === 0) busy.delete(seq);
    }
  }

  /** Gives back, sweeps, fans out and claims, each as far as one transaction may. */
  function takeUp(tx: Tx, back: readonly number[]) {
    // The commit may have waited for the store, so leases start now.
    const now = runtime.now();
    releaseWebhookDeliveries(tx, back, now);
    if (stopped) return [];
    if (needsEndpointSweep(tx)) sweepEndpoints(tx, now);
    if (hasNewEvents(tx)) fanOut(tx, runtime);
    const leasedUntil = now + LEASE_MS + timeoutMs();
    return claimable(tx)
      .take(PORTION)
      .toArray()
      .map(({ seq, health, count }) => ({
        seq,
        health,
        deliveries: claimWebhookDeliveries(tx, seq, count, now, leasedUntil),
      }));
  }

  function follow(seq: number, { health, off }: Recorded): void {
    if (off) wake("webhook-notices");
    const one = busy.get(seq);
    if (one) Object.assign(one, { health, off, tried: true, waits: false });
  }

  function hold(seq: number, health: Health, deliveries: readonly number[]): void {
    const fresh: Busy = { health, tried: false, ahead: [], slots: new Set(), waits: false, off: false };
    const one = busy.get(seq) ?? fresh;
    busy.set(seq, one);
    for (const delivery of deliveries) {
      // Its lease ran out while its attempt is under way; this claim has renewed the lease.
      if (claimed.has(delivery)) continue;
      claimed.add(delivery);
      one.ahead.push(delivery);
    }
  }

  /** Begins as many attempts as the endpoint may have at once. */
  function begin(one: Busy): void {
    const { ahead, slots } = one;
    while (ahead.length > 0 && slots.size < allowed(one, SLOTS) && !(stopped || one.off || one.waits)) {
      if (slots.size > 0 && room(healthGroup(one.health)) < 1) break;
      void run(one, ahead.shift() as number);
    }
  }

  /** Makes one attempt, from its slot to its outcome. */
  async function run(one: Busy, delivery: number): Promise<void> {
    const slot: Slot = { since: runtime.now() };
    one.slots.add(slot);
    underWay++;
    try {
      const loaded = loadClaimedDelivery(store.db, delivery);
      if (!loaded) claimed.delete(delivery);
      else if (isDeliveryVoid(loaded.delivery, loaded.endpoint)) {
        // Another process has disabled the endpoint.
        one.ahead.push(delivery);
        one.off = true;
      } else await attemptNow(one, loaded);
    } catch (error) {
      log.error("a webhook delivery cannot be attempted; its lease will run out", { error });
      claimed.delete(delivery);
    }
    one.slots.delete(slot);
    underWay--;
    if (cut) return;
    begin(one);
    // Waking the job tells the scheduler when it is next due. During a stop the scheduler may have ended, so work
    // directly: takeTurn logs what fails.
    if (stopped) work().catch(() => {});
    else wake("webhooks");
    noticeIdle();
  }

  async function attemptNow(one: Busy, loaded: Loaded): Promise<void> {
    const { delivery, endpoint } = loaded;
    const outcome = await attemptWebhookDelivery({ http, runtime }, loaded, timeoutMs());
    if (cut) return;
    const { id, event, attempts } = delivery;
    const { ok, status, error, ms } = outcome;
    meters.countWebhook(ok, ms);
    const facts = { delivery: id, endpoint: endpoint.id, event, attempt: attempts + 1, ok, status, error, ms };
    log.info("webhook attempt", facts);
    if (!ok) one.waits = true;
    ended.push({ delivery, outcome });
  }

  /** Returns when the job next has work, unless it is woken earlier: epoch ms. */
  function nextTime(): number | null {
    // Something may have become due since the last look.
    const next = nextEndpointDueTime(store.db, lookedAt);
    // An attempt that becomes slow makes room for another.
    const slowAt = runtime.now() + SLOW_MS;
    return crowded.proven || crowded.unproven ? Math.min(next ?? Number.POSITIVE_INFINITY, slowAt) : next;
  }

  async function runDue(wasAhead: boolean): Promise<number | null> {
    if (stopped) return null;
    if (wasAhead) {
      const waits = options.get("webhooks.retrySeconds").map((seconds) => 1_000 * seconds);
      await store.enqueue((tx) => recallStrayDeliveries(tx, waits, runtime.now()));
    }
    if (!started) {
      const released = await store.enqueue((tx) => releaseAllWebhookLeases(tx, runtime.now()));
      if (released > 0) log.info("took up webhook attempts that a stop had cut short", { deliveries: released });
      started = true;
    }
    await work();
    return stopped ? null : nextTime();
  }

  const isIdle = (): boolean => underWay === 0 && ended.length === 0 && !turning;
  /** Resolves when nothing is being attempted or recorded. */
  const idle = (): Promise<void> =>
    isIdle() ? Promise.resolve() : new Promise<void>((resolve) => waiters.push(resolve));

  function noticeIdle(): void {
    if (isIdle()) for (const resolve of waiters.splice(0)) resolve();
  }

  return {
    /** Woken by commits of this process that emit events, by who makes a delivery due, and by attempts that end. */
    job: { name: "webhooks", runDue: (_, wasAhead = false) => runDue(wasAhead) } as Job,
    idle,
    /** Stops claiming, gives attempts `graceMs` to end, and gives the other deliveries back. */
    async stop(graceMs: number) {
      stopped = true;
      stopListening();
      const finished = work().then(idle);
      if (graceMs > 0) await awaitAtMost(runtime, graceMs, finished);
      cut = true;
      http.close();
      const recording = ended.splice(0);
      for (const { delivery } of recording) claimed.delete(delivery.seq);
      if (recording.length + claimed.size === 0) return;
      try {
        store.transact((tx) => {
          recordWebhookAttempts(tx, recording, termsNow());
          releaseWebhookDeliveries(tx, [...claimed], runtime.now());
        });
      } catch (error) {
        log.warn("webhook attempts cut short will be taken up at the next start", { attempts: claimed.size, error });
      }
    },
  };
}
