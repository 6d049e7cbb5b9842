/**
 * The relay hands due entries of the queue to workers, which deliver them (rules: Outbound queue). A worker works for one
 * destination, a domain or the smarthost, on one connection, message after message. It needs a slot (slots.ts) to work.
 *
 *   runDue ──claims──► worker: attempt ──► outcome and next claim, one commit ──► attempt ──► …  ──► idle, then closed
 *      ▲                                                                                             │
 *      └──────────────────────────────────────── wake ◄──────────────────────────────────────────────┘
 *
 * While others wait for a slot, the relay cuts a worker that has waited long for its server and cannot have delivered
 * anything. That is a temporary failure; the next attempt gets a slow slot.
 *
 * Invariants: a destination gets a second worker only once its workers have shown that they can deliver, so a destination
 * that hangs holds up one worker and no other mail. A destination that could not be reached is left alone until its first
 * retry is due; everything else that was due there shares the failure. The relay holds a claim (claims.ts) until its outcome is
 * recorded, and gives it back when a stop cuts the attempt short. It never cuts a worker that may have delivered a message and
 * not recorded it.
 */
import { RELAY_SLOTS } from "../base/descriptors.ts";
import { awaitAtMost, pause } from "../base/pause.ts";
import type { Job } from "../base/scheduler.ts";
import { localDomain } from "../mailbox/state/addresses.ts";
import { DeliveryFailure } from "../smtp/delivery-result.ts";
import type { QueueLine } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { type AttemptOptions, createAttempts } from "./attempt.ts";
import {
  type Claim,
  type ClaimTerms,
  claimQueueEntries,
  createQueueLeases,
  moveDomainToQueueLine,
  nextQueueDueTime,
  releaseQueueEntries,
  yieldDomainTurn,
} from "./claims.ts";
import type { OutboundMessage } from "./queue.ts";
import type { SendCore } from "./send-core.ts";
import {
  type Assignment,
  createDestinationHealth,
  type DeliveryWorker,
  freeSlots,
  isWaitingForServer,
  isWorkerIdle,
  mayCutDelivery,
  newWorker,
  slotFor,
} from "./slots.ts";
import type { Connection } from "./transport.ts";

/** Most connections to one destination. */
const MOST_SESSIONS_OF_ONE = 5;
/** After waiting this long for its server, a worker counts as waiting (isWaitingForServer in slots.ts). */
const WHILE_MS = 5_000;
/** A destination that keeps us waiting for longer is slow; the second limit is for the reply to the message. */
const LONG_MS = 30_000;
const LONG_FOR_REPLY_MS = 2 * 60_000;
const CUT = "no answer in time while other mail waited";
/** Number of claims after which a worker makes room when others wait for a slot. */
const TURN = 20;
/** Most claims in one commit of the job. */
const PORTION = 10;
const IDLE_MS = 4_000;
const LONGEST_REST_MS = 60_000;

/** Destinations that are not domains. The spare workers are for mail to this server. */
const SMARTHOST = "@smarthost";
const SPARE = "@spare";

/** Between looks whether the replica has a claim. */
const UNCONFIRMED_MS = 2_000;

/** The terms of the next claim, for workers of `destination`, or of the claim's domain. */
interface Opening {
  terms: ClaimTerms;
  destination?: string;
}

export function createRelay(core: SendCore, attempts: AttemptOptions) {
  const { db, store, transport, options, runtime, log } = core;
  const { attempt, recordAttempt, commit } = createAttempts(core, attempts);
  const workers = new Set<DeliveryWorker>();
  const leases = createQueueLeases(core);
  const health = createDestinationHealth(db);
  const waiters: (() => void)[] = [];
  let busy = 0;
  let again = false;
  let stopped = false;
  /** The grace of `stop` is over: attempts that end now are not recorded, since their claims have been given back. */
  let isGraceOver = false;

  const workersTo = (destination: string): DeliveryWorker[] =>
    [...workers].filter((worker) => worker.destination === destination);
  const getQueueLine = (destination: string): QueueLine =>
    destination === SMARTHOST ? "open" : health.getQueueLine(destination);

  function leave(): void {
    if (--busy > 0) return;
    for (const resolve of waiters.splice(0)) resolve();
  }

  /** Resolves when nothing is being claimed or attempted; open connections may wait for more. */
  const idle = (): Promise<void> =>
    busy === 0 ? Promise.resolve() : new Promise<void>((resolve) => waiters.push(resolve));

  /** Wakes the job, to look for claims that workers may take now. */
  function look(): void {
    again = true;
    core.wake(job.name);
  }

  /**
   * Tells whether two domains of a message share a transaction: all that leaves for a smarthost does, and all that stays here.
   */
  function goesAlong({ workspaceId }: OutboundMessage, domain: string, other: string): boolean {
    const isLocal = (name: string) => localDomain(db, workspaceId, name) !== undefined;
    const stays = isLocal(domain);
    return (stays || transport.groupsByMessage()) && isLocal(other) === stays;
  }

  const termsAt = (now: number): ClaimTerms => ({ now, leaseUntil: leases.end(), together: goesAlong });

  /**
   * Returns the time from which a destination takes a claim beside those in `assignments`: epoch ms, or 0; Infinity while its
   * workers are taken.
   */
  function notBefore(destination: string, assignments: readonly Assignment[]): number {
    const existing = workersTo(destination);
    const idling = existing.filter(isWorkerIdle).length;
    const taken = assignments.filter((assignment) => assignment.destination === destination).length;
    if (taken < idling) return 0;
    const mayOpen =
      taken === idling && existing.length < MOST_SESSIONS_OF_ONE && existing.every(({ proven }) => proven);
    return mayOpen ? health.restsUntil(destination) : Number.POSITIVE_INFINITY;
  }

  /** Lists the terms on which more may be claimed beside `assignments`, and for which workers; none while all are taken. */
  function openings(now: number, assignments: readonly Assignment[]): Opening[] {
    const free = freeSlots(workers, assignments);
    const open: Opening[] = [];
    if (transport.groupsByMessage()) {
      if (slotFor(free, "open") && notBefore(SMARTHOST, assignments) <= now) {
        open.push({ terms: termsAt(now), destination: SMARTHOST });
      }
    } else {
      // The slow and the new go first: their entries have waited longer.
      const lines = (["slow", "new", "open"] as const).filter((line) => slotFor(free, line));
      const terms = {
        ...termsAt(now),
        lines,
        getQueueLine,
        notBefore: (domain: string) => notBefore(domain, assignments),
      };
      if (lines.length > 0) open.push({ terms });
    }
    const isSpareOpen = free.spare > 0 && (open.length === 0 || free.shared <= 0);
    return isSpareOpen ? [...open, { terms: { ...termsAt(now), own: true }, destination: SPARE }] : open;
  }

  function assign(tx: Tx, now: number, assignments: readonly Assignment[]): Assignment | undefined {
    for (const { terms, destination } of openings(now, assignments)) {
      const claimed = claimQueueEntries(tx, terms);
      if (!claimed) continue;
      if (destination === SPARE) return { claim: claimed, destination, slot: "spare" };
      const target = destination ?? claimed.domain;
      return {
        claim: claimed,
        destination: target,
        slot: slotFor(freeSlots(workers, assignments), getQueueLine(target)) ?? "shared",
      };
    }
    return undefined;
  }

  /** Claims for as many workers as may have one, up to a portion. */
  function assignAll(tx: Tx, now: number): Assignment[] {
    leases.keep(tx);
    const assignments: Assignment[] = [];
    while (assignments.length < PORTION && !stopped) {
      const assignment = assign(tx, now, assignments);
      if (!assignment) break;
      assignments.push(assignment);
    }
    return assignments;
  }

  /** Makes the next claim of a worker; undefined when there is none, or when others get its slot. */
  function claimFor(tx: Tx, worker: DeliveryWorker): Claim | undefined {
    const { destination, failure, served } = worker;
    if (stopped) return undefined;
    leases.keep(tx);
    const terms = termsAt(failure?.at ?? runtime.now());
    if (destination === SPARE) return claimQueueEntries(tx, { ...terms, own: true });
    if (transport.groupsByMessage() !== (destination === SMARTHOST)) return undefined;
    if (destination === SMARTHOST) return claimQueueEntries(tx, terms);
    const line = getQueueLine(destination);
    if (worker.moves) moveDomainToQueueLine(tx, destination, line);
    // A claim that shares a failure needs no slot.
    if (!failure) {
      const free = freeSlots(workers, []);
      const isMisplaced = (line === "slow") !== (worker.slot === "slow");
      const slot = isMisplaced ? slotFor(free, line) : worker.slot;
      if (!slot) return undefined;
      const isToShare = served >= TURN || line === "slow" || isWaitingForServer(worker);
      if (!isMisplaced && isToShare && free[slot] <= 0) return yieldDomainTurn(tx, destination, runtime.now());
      worker.slot = slot;
      worker.waits = "not";
    }
    return claimQueueEntries(tx, { ...terms, domain: destination });
  }

  const earliestDue = (open: readonly Opening[]): number =>
    Math.min(...open.map(({ terms }) => nextQueueDueTime(db, terms) ?? Number.POSITIVE_INFINITY));

  async function handOut(): Promise<void> {
    for (;;) {
      const now = runtime.now();
      if (earliestDue(openings(now, [])) > now) return makeRoom(now);
      const assignments = await store.enqueue((tx) => assignAll(tx, now));
      for (const assignment of assignments) {
        busy++;
        void serve(
          workersTo(assignment.destination).find(isWorkerIdle) ?? openWorker(assignment.destination),
          assignment,
        );
      }
      if (assignments.length < PORTION) return makeRoom(now);
    }
  }

  /** Cuts a worker that has waited long for its server, if another destination would get its slot. */
  function makeRoom(now: number): void {
    if (transport.groupsByMessage() || freeSlots(workers, []).shared > 0) return;
    const terms = {
      ...termsAt(now),
      lines: ["new", "open"] as const,
      notBefore: (name: string) => notBefore(name, []),
    };
    if (earliestDue([{ terms }]) > now) return;
    [...workers].find(mayCutDelivery)?.ending?.abort(CUT);
  }

  function openWorker(destination: string): DeliveryWorker {
    // Idle workers are connections too.
    if (
      destination !== SPARE &&
      [...workers].filter((worker) => worker.destination !== SPARE).length >= RELAY_SLOTS.shared
    ) {
      closeWorker([...workers].find(isWorkerIdle));
    }
    const worker = newWorker(destination);
    workers.add(worker);
    return worker;
  }

  function closeWorker(worker: DeliveryWorker | undefined): void {
    if (!worker) return;
    worker.cancelIdle?.();
    worker.connection?.close();
    workers.delete(worker);
  }

  /** Works through one claim after another, until there is none for the worker. */
  async function serve(worker: DeliveryWorker, { claim: first, slot }: Assignment): Promise<void> {
    worker.cancelIdle?.();
    worker.cancelIdle = undefined;
    worker.served = 0;
    worker.slot = slot;
    worker.waits = "not";
    try {
      for (let current: Claim | undefined = first; current; ) current = await step(worker, current);
    } catch (error) {
      log.error("delivery attempt cannot be recorded; its lease will run out", { error });
    }
    if (!stopped && !worker.failure && worker.connection?.usable()) {
      worker.cancelIdle = runtime.setTimer(() => closeWorker(worker), IDLE_MS);
    } else {
      closeWorker(worker);
    }
    look();
    leave();
  }

  /** Resolves once a claim, and the message, are safe; false if the relay stops first. Nothing else is sent. */
  async function confirmed(): Promise<boolean> {
    while (!stopped) {
      try {
        await store.replicated();
        return true;
      } catch (error) {
        log.warn("mail waits for the replica", { error });
        await pause(runtime, UNCONFIRMED_MS);
      }
    }
    return false;
  }

  /** Attempts to deliver a claim, and returns the next. */
  async function step(worker: DeliveryWorker, current: Claim): Promise<Claim | undefined> {
    leases.hold(current);
    worker.served++;
    worker.moves = false;
    let endWatch = (): void => {};
    try {
      if (!(await confirmed())) return await commit((tx) => releaseQueueEntries(tx, current.entries, runtime.now()));
      const attempted = await attempt(current, () => {
        endWatch = watch(worker);
        return getWorkerConnection(worker, current.domain);
      });
      endWatch();
      const isSlow = worker.waits === "long";
      if (worker.waits !== "not") worker.waits = "over";
      if (isGraceOver) return undefined;
      if (attempted.kind === "unreachable") {
        if (!worker.failure && hasSibling(worker)) {
          // The destination works, but takes no further connection.
          rest(worker.destination);
          return await commit((tx) => releaseQueueEntries(tx, current.entries, runtime.now()));
        }
        if (!worker.failure && !isSlow) note(worker, "new");
        if (!worker.failure && attempted.result.kind === "deferred") rest(worker.destination);
        worker.failure ??= { result: attempted.result, at: runtime.now() };
      } else if (!worker.connection || worker.connection.usable()) {
        if (!isSlow) note(worker, "open");
        if (!worker.proven) look();
        worker.proven = true;
      }
      return await recordAttempt(current, attempted, (tx) => claimFor(tx, worker));
    } finally {
      leases.letGo(current);
    }
  }

  function note(worker: DeliveryWorker, line: QueueLine): void {
    const { destination } = worker;
    if (destination === SPARE || destination === SMARTHOST) return;
    if (health.note(destination, line)) worker.moves = true;
  }

  /** Notes how long a worker waits for its server. Returns a function that ends it. */
  function watch(worker: DeliveryWorker): () => void {
    // A slow smarthost makes room for nothing: all mail goes through it.
    if (worker.destination === SMARTHOST || worker.destination === SPARE) return () => {};
    let cancelTimer = runtime.setTimer(() => {
      worker.waits = "a while";
      cancelTimer = runtime.setTimer(() => {
        if (!worker.connection?.isTransmitting()) setLong();
        else cancelTimer = runtime.setTimer(setLong, LONG_FOR_REPLY_MS - LONG_MS);
      }, LONG_MS - WHILE_MS);
      look();
    }, WHILE_MS);
    function setLong(): void {
      worker.waits = "long";
      note(worker, "slow");
      look();
    }
    return () => cancelTimer();
  }

  async function getWorkerConnection(worker: DeliveryWorker, domain: string): Promise<Connection> {
    if (worker.failure) throw new DeliveryFailure(worker.failure.result);
    if (worker.connection?.usable()) return worker.connection;
    worker.connection?.close();
    worker.connection = undefined;
    worker.ending = new AbortController();
    worker.connection = await transport.connect(domain, worker.ending.signal);
    return worker.connection;
  }

  const hasSibling = (worker: DeliveryWorker): boolean =>
    workersTo(worker.destination).some((other) => other !== worker && other.connection?.usable() === true);

  /** Allows no new connection to the destination before the first retry of the mail that could not be delivered there. */
  function rest(destination: string): void {
    const now = runtime.now();
    const firstRetryMs = 1_000 * (options.get("smtp.retrySeconds")[0] ?? Number.POSITIVE_INFINITY);
    health.rest(destination, now, now + Math.min(firstRetryMs, LONGEST_REST_MS));
  }

  /** Returns when the job next has work, unless it is woken earlier: epoch ms. */
  function nextTime(): number | null {
    const now = runtime.now();
    const times = [leases.nextUpkeep(), earliestDue(openings(now, []))];
    const rested = health.restsUntil(SMARTHOST);
    if (rested > now) times.push(rested);
    const earliest = Math.min(...times);
    return Number.isFinite(earliest) ? earliest : null;
  }

  async function runDue(_now: number, wasAhead = false): Promise<number | null> {
    if (stopped) return null;
    busy++;
    try {
      await leases.upkeep(wasAhead);
      if (wasAhead) health.endRests();
      do {
        again = false;
        await handOut();
      } while (again && !stopped);
      return stopped ? null : nextTime();
    } finally {
      leave();
    }
  }

  /** Ends all rests, because the operator asks for attempts now: also at destinations that could not be reached just before. */
  function endRests(): void {
    health.endRests();
    look();
  }

  /** Stops claiming, gives attempts `graceMs` to end, and gives the other claims back. */
  async function stop(graceMs: number): Promise<void> {
    stopped = true;
    for (const worker of workers) if (isWorkerIdle(worker)) closeWorker(worker);
    if (busy > 0 && graceMs > 0) {
      await awaitAtMost(runtime, graceMs, idle());
    }
    isGraceOver = true;
    transport.close();
    leases.giveBack();
  }

  /** Woken when a message is accepted, and by the relay itself. */
  const job: Job = { name: "relay", runDue };
  return { job, idle, endRests, stop };
}
