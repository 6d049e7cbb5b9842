/**
 * The relay: hands what is due in the queue to lanes, which deliver it (rules: Outbound queue). A lane works for one
 * destination, a domain or the smarthost, on one connection, message after message.
 *
 *   runDue ──claims──► lane: attempt ──► outcome and next claim, one commit ──► attempt ──► …  ──► idle, then closed
 *      ▲                                                                                          │
 *      └────────────────────────────────────── wake ◄─────────────────────────────────────────────┘
 *
 * Every lane at work has a place, and places are few. Who may take which goes by how the destination has done (destination-health.ts):
 *
 *   open   it has answered in time   ──► the shared places, or those kept for its like
 *   new    nothing is known          ──► the shared places
 *   slow   it has kept us waiting    ──► the places of the slow, with all the time RFC 5321 §4.5.3.2 gives it
 *
 * A lane that has waited for its server for a while does not count any more, so others get its place. There is a bound
 * to that, too: then those that have waited for long, and cannot have delivered anything, are cut while others wait, as a
 * failure for now; the next attempt has the time of the slow.
 *
 * Invariants: a destination gets a second lane only once its lanes have shown that they can deliver, so one that hangs
 * keeps one lane waiting and nobody else. A destination that could not be reached is not asked again before its first
 * retry is due; what was due there already shares the failure. A claim is held (leases.ts) until what came of it is
 * recorded: what stopping cuts short is given back. No lane is cut that may have delivered what it has not recorded.
 */

import { MOST_RELAY_WAITING, RELAY_SLOTS } from "../base/descriptors.ts";
import type { Log } from "../base/log.ts";
import { atMost } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Job } from "../base/scheduler.ts";
import { DeliveryFailure, type DeliveryResult } from "../smtp/delivery-result.ts";
import type { QueueLine } from "../store/schema.ts";
import type { Options } from "../store/settings.ts";
import type { Store, Tx } from "../store/store.ts";
import { type AttemptParts, createAttempts } from "./attempt.ts";
import { createStandings, type Standings } from "./destination-health.ts";
import { createLeases } from "./leases.ts";
import {
  type Claim,
  type ClaimTerms,
  claim,
  moveDomain,
  nextDue,
  type OutboundMessage,
  releaseEntries,
  yieldTurn,
} from "./queue.ts";
import type { Connection, Transport } from "./transport.ts";

export interface Relay {
  /** Woken by `wake`: when something was accepted, and by the relay itself. */
  readonly job: Job;
  /** Resolves when nothing is being claimed or attempted; open connections may wait for more. */
  idle(): Promise<void>;
  /** Attempts what is due at once, also at destinations that could not be reached just now: somebody asked for it. */
  endRests(): void;
  /** Claims no more, gives attempts `graceMs` to end, and gives back the rest. */
  stop(graceMs: number): Promise<void>;
}

export interface RelayParts extends AttemptParts {
  store: Pick<Store, "db" | "blobs" | "enqueue" | "transact">;
  transport: Pick<Transport, "connect" | "groupsByMessage" | "close">;
  options: Pick<Options, "get">;
  runtime: Pick<Runtime, "now" | "setTimer">;
  log: Log;
  /** Asks the scheduler to run the job now. */
  wake(): void;
}

/** Connections to one destination. */
const MOST_LANES_OF_ONE = 5;
type Place = keyof typeof RELAY_SLOTS;
/** A lane that has waited that long for its server does not count any more, up to MOST_RELAY_WAITING of them. */
const WHILE_MS = 5_000;
/** A destination that keeps us waiting for longer is slow: until it has the message, and from then on. */
const LONG_MS = 30_000;
const LONG_FOR_ANSWER_MS = 2 * 60_000;
const CUT = "no answer in time while other mail waited";
/** Claims before a lane makes room when others wait for one. */
const TURN = 20;
/** Claims in one commit of the job. */
const PORTION = 10;
const IDLE_MS = 4_000;
const LONGEST_REST_MS = 60_000;

/** Destinations that are no domain. The spare lanes are for mail to this server. */
const SMARTHOST = "@smarthost";
const SPARE = "@spare";

interface Lane {
  readonly destination: string;
  place: Place;
  connection: Connection | undefined;
  /** Ends the connection, or the attempt to get one; undefined while there is neither. */
  ending: AbortController | undefined;
  /** For its server, in the step under way; `over` once it has its answer, but no place for more. */
  waits: "not" | "a while" | "long" | "over";
  /** The destination has come to belong into another line. */
  moves: boolean;
  /** It has shown that it can deliver. */
  proven: boolean;
  /** Claims since it was last idle. */
  served: number;
  /** Why no connection can be had, which goes for all that was due at that time (epoch ms). */
  failure: { result: DeliveryResult; at: number } | undefined;
  /** Set while it is idle. */
  cancelIdle: (() => void) | undefined;
}

/** What may be claimed, for lanes of the destination, or of each claim's domain. */
interface Open {
  terms: ClaimTerms;
  destination?: string;
}

/** A claim of the job, for a lane that idles or a new one. */
interface Hand {
  claim: Claim;
  destination: string;
  place: Place;
}

export function createRelay(parts: RelayParts): Relay {
  const { store, transport, local, options, runtime, log, wake } = parts;
  const { attempt, record, commit } = createAttempts(parts);
  const lanes = new Set<Lane>();
  const leases = createLeases(parts);
  /** Until when (epoch ms) a destination gets no new connection; in order of time. */
  const rests = new Map<string, number>();
  const waiters: (() => void)[] = [];
  let known: Standings | undefined;
  let busy = 0;
  let again = false;
  let stopped = false;
  /** Stopped without waiting any longer: what ends now is not recorded, but has been given back. */
  let cut = false;

  const lanesTo = (destination: string): Lane[] => [...lanes].filter((lane) => lane.destination === destination);
  const isIdle = (lane: Lane): boolean => lane.cancelIdle !== undefined;
  /** As the queue knows them when the relay first looks. */
  const standings = (): Standings => {
    known ??= createStandings(store.db);
    return known;
  };
  const lineOf = (destination: string): QueueLine =>
    destination === SMARTHOST ? "open" : standings().lineOf(destination);

  /** It waits, or has waited, for its server in a place that others may have meanwhile. */
  const isWaiting = ({ waits, place }: Lane): boolean => waits !== "not" && (place === "shared" || place === "kept");
  const isCut = ({ ending }: Lane): boolean => ending?.signal.aborted === true;

  /** How many places of each kind are free, besides those of `hands`. */
  function freePlaces(hands: readonly Hand[]): Record<Place, number> {
    const free = { ...RELAY_SLOTS };
    const atWork = [...lanes].filter((lane) => !isIdle(lane));
    for (const { place } of [...atWork.filter((lane) => !isWaiting(lane)), ...hands]) free[place]--;
    const waiting = atWork.filter((lane) => isWaiting(lane) && !isCut(lane)).length;
    // Those that are too many take places after all: else whoever is known would have one more whenever one waits.
    free.shared -= Math.max(0, waiting - MOST_RELAY_WAITING);
    free.kept += Math.min(0, free.shared);
    return free;
  }

  /** One of the free places, for a destination of that line. */
  function placeIn(free: Record<Place, number>, line: QueueLine): Place | undefined {
    const places: readonly Place[] = line === "slow" ? ["slow"] : line === "new" ? ["shared"] : ["shared", "kept"];
    return places.find((place) => free[place] > 0);
  }

  function leave(): void {
    if (--busy > 0) return;
    for (const resolve of waiters.splice(0)) resolve();
  }

  const idle = (): Promise<void> =>
    busy === 0 ? Promise.resolve() : new Promise<void>((resolve) => waiters.push(resolve));

  /** Has the job look for what a lane may take now. */
  function look(): void {
    again = true;
    wake();
  }

  /** To one server at one time goes what leaves for a smarthost, and what stays on this server. */
  function goesAlong({ workspaceId }: OutboundMessage, domain: string, other: string): boolean {
    const stays = local.isLocal(workspaceId, domain);
    return (stays || transport.groupsByMessage()) && local.isLocal(workspaceId, other) === stays;
  }

  const termsAt = (now: number): ClaimTerms => ({ now, leaseUntil: leases.end(), together: goesAlong });

  /** When a destination takes a claim, besides those in `hands`: epoch ms, or 0; Infinity while its lanes are taken. */
  function notBefore(destination: string, hands: readonly Hand[]): number {
    const existing = lanesTo(destination);
    const idling = existing.filter(isIdle).length;
    const taken = hands.filter((hand) => hand.destination === destination).length;
    if (taken < idling) return 0;
    const mayOpen = taken === idling && existing.length < MOST_LANES_OF_ONE && existing.every(({ proven }) => proven);
    return mayOpen ? (rests.get(destination) ?? 0) : Number.POSITIVE_INFINITY;
  }

  /** What may be claimed besides `hands`, and for which lanes; nothing while all are taken. */
  function openings(now: number, hands: readonly Hand[]): Open[] {
    const free = freePlaces(hands);
    const open: Open[] = [];
    if (transport.groupsByMessage()) {
      if (placeIn(free, "open") && notBefore(SMARTHOST, hands) <= now) {
        open.push({ terms: termsAt(now), destination: SMARTHOST });
      }
    } else {
      // Who stands in a line apart has waited for longer.
      const lines = (["slow", "new", "open"] as const).filter((line) => placeIn(free, line));
      const terms = { ...termsAt(now), lines, lineOf, notBefore: (domain: string) => notBefore(domain, hands) };
      if (lines.length > 0) open.push({ terms });
    }
    const isSpareOpen = free.spare > 0 && (open.length === 0 || free.shared <= 0);
    return isSpareOpen ? [...open, { terms: { ...termsAt(now), own: true }, destination: SPARE }] : open;
  }

  function takeHand(tx: Tx, now: number, hands: readonly Hand[]): Hand | undefined {
    for (const { terms, destination } of openings(now, hands)) {
      const claimed = claim(tx, terms);
      if (!claimed) continue;
      if (destination === SPARE) return { claim: claimed, destination, place: "spare" };
      const target = destination ?? claimed.domain;
      return { claim: claimed, destination: target, place: placeIn(freePlaces(hands), lineOf(target)) ?? "shared" };
    }
    return undefined;
  }

  /** Claims for as many lanes as may have one, up to a portion. */
  function takeHands(tx: Tx, now: number): Hand[] {
    leases.keep(tx);
    const hands: Hand[] = [];
    while (hands.length < PORTION && !stopped) {
      const hand = takeHand(tx, now, hands);
      if (!hand) break;
      hands.push(hand);
    }
    return hands;
  }

  /** The next claim of a lane; undefined when there is none, or others are to have its place. */
  function claimFor(tx: Tx, lane: Lane): Claim | undefined {
    const { destination, failure, served } = lane;
    if (stopped) return undefined;
    leases.keep(tx);
    const terms = termsAt(failure?.at ?? runtime.now());
    if (destination === SPARE) return claim(tx, { ...terms, own: true });
    if (transport.groupsByMessage() !== (destination === SMARTHOST)) return undefined;
    if (destination === SMARTHOST) return claim(tx, terms);
    const line = lineOf(destination);
    if (lane.moves) moveDomain(tx, destination, line);
    // What shares a failure takes nobody's time.
    if (!failure) {
      const free = freePlaces([]);
      const isMisplaced = (line === "slow") !== (lane.place === "slow");
      const place = isMisplaced ? placeIn(free, line) : lane.place;
      if (!place) return undefined;
      const isToShare = served >= TURN || line === "slow" || isWaiting(lane);
      if (!isMisplaced && isToShare && free[place] <= 0) return yieldTurn(tx, destination, runtime.now());
      lane.place = place;
      lane.waits = "not";
    }
    return claim(tx, { ...terms, domain: destination });
  }

  const dueOf = (open: readonly Open[]): number =>
    Math.min(...open.map(({ terms }) => nextDue(store.db, terms) ?? Number.POSITIVE_INFINITY));

  async function handOut(): Promise<void> {
    for (;;) {
      const now = runtime.now();
      if (dueOf(openings(now, [])) > now) return makeRoom(now);
      const hands = await store.enqueue((tx) => takeHands(tx, now));
      for (const hand of hands) {
        busy++;
        void serve(lanesTo(hand.destination).find(isIdle) ?? openLane(hand.destination), hand);
      }
      if (hands.length < PORTION) return makeRoom(now);
    }
  }

  /** Has one give up its place, if that makes a place for another. */
  function makeRoom(now: number): void {
    if (transport.groupsByMessage() || freePlaces([]).shared > 0) return;
    const terms = {
      ...termsAt(now),
      lines: ["new", "open"] as const,
      notBefore: (name: string) => notBefore(name, []),
    };
    if (dueOf([{ terms }]) > now) return;
    const mayBeCut = (lane: Lane): boolean =>
      lane.waits === "long" && lane.place !== "slow" && !isCut(lane) && !lane.connection?.isTransmitting();
    [...lanes].find(mayBeCut)?.ending?.abort(CUT);
  }

  function openLane(destination: string): Lane {
    // Those that idle are connections too.
    if (destination !== SPARE && [...lanes].filter((lane) => lane.destination !== SPARE).length >= RELAY_SLOTS.shared) {
      closeLane([...lanes].find(isIdle));
    }
    const lane: Lane = {
      ...{ destination, place: "shared", proven: false, served: 0, waits: "not", moves: false },
      ...{ connection: undefined, ending: undefined, failure: undefined, cancelIdle: undefined },
    };
    lanes.add(lane);
    return lane;
  }

  function closeLane(lane: Lane | undefined): void {
    if (!lane) return;
    lane.cancelIdle?.();
    lane.connection?.close();
    lanes.delete(lane);
  }

  /** Works through one claim after another, until there is no more for the lane. */
  async function serve(lane: Lane, { claim: first, place }: Hand): Promise<void> {
    lane.cancelIdle?.();
    lane.cancelIdle = undefined;
    lane.served = 0;
    lane.place = place;
    lane.waits = "not";
    try {
      for (let current: Claim | undefined = first; current; ) current = await step(lane, current);
    } catch (error) {
      log.error("delivery attempt cannot be recorded; its lease will run out", { error });
    }
    if (!stopped && !lane.failure && lane.connection?.usable()) {
      lane.cancelIdle = runtime.setTimer(() => closeLane(lane), IDLE_MS);
    } else {
      closeLane(lane);
    }
    look();
    leave();
  }

  /** Attempts to deliver a claim, and returns the next. */
  async function step(lane: Lane, current: Claim): Promise<Claim | undefined> {
    leases.hold(current);
    lane.served++;
    lane.moves = false;
    let endWatch = (): void => {};
    try {
      const attempted = await attempt(current, () => {
        endWatch = watch(lane);
        return connectionOf(lane, current.domain);
      });
      endWatch();
      const isSlow = lane.waits === "long";
      if (lane.waits !== "not") lane.waits = "over";
      if (cut) return undefined;
      if (attempted.kind === "unreachable") {
        if (!lane.failure && hasSibling(lane)) {
          // The destination works, and takes no more connections than it has.
          rest(lane.destination);
          return await commit((tx) => releaseEntries(tx, current.entries, runtime.now()));
        }
        if (!lane.failure && !isSlow) note(lane, "new");
        if (!lane.failure && attempted.result.kind === "deferred") rest(lane.destination);
        lane.failure ??= { result: attempted.result, at: runtime.now() };
      } else if (!lane.connection || lane.connection.usable()) {
        if (!isSlow) note(lane, "open");
        if (!lane.proven) look();
        lane.proven = true;
      }
      return await record(current, attempted, (tx) => claimFor(tx, lane));
    } finally {
      leases.letGo(current);
    }
  }

  function note(lane: Lane, line: QueueLine): void {
    const { destination } = lane;
    if (destination === SPARE || destination === SMARTHOST) return;
    if (standings().note(destination, line)) lane.moves = true;
  }

  /** Sees to how long a lane waits for its server. What it returns ends that. */
  function watch(lane: Lane): () => void {
    // A smarthost is all there is.
    if (lane.destination === SMARTHOST || lane.destination === SPARE) return () => {};
    let cancelTimer = runtime.setTimer(() => {
      lane.waits = "a while";
      cancelTimer = runtime.setTimer(() => {
        if (!lane.connection?.isTransmitting()) setLong();
        else cancelTimer = runtime.setTimer(setLong, LONG_FOR_ANSWER_MS - LONG_MS);
      }, LONG_MS - WHILE_MS);
      look();
    }, WHILE_MS);
    function setLong(): void {
      lane.waits = "long";
      note(lane, "slow");
      look();
    }
    return () => cancelTimer();
  }

  async function connectionOf(lane: Lane, domain: string): Promise<Connection> {
    if (lane.failure) throw new DeliveryFailure(lane.failure.result);
    if (lane.connection?.usable()) return lane.connection;
    lane.connection?.close();
    lane.connection = undefined;
    lane.ending = new AbortController();
    lane.connection = await transport.connect(domain, lane.ending.signal);
    return lane.connection;
  }

  const hasSibling = (lane: Lane): boolean =>
    lanesTo(lane.destination).some((other) => other !== lane && other.connection?.usable() === true);

  /** No new connection to the destination before the first retry of what could not be delivered there. */
  function rest(destination: string): void {
    const now = runtime.now();
    for (const [rested, until] of rests) {
      if (until > now) break;
      rests.delete(rested);
    }
    const firstRetryMs = 1_000 * (options.get("smtp.retrySeconds")[0] ?? Number.POSITIVE_INFINITY);
    rests.delete(destination);
    rests.set(destination, now + Math.min(firstRetryMs, LONGEST_REST_MS));
  }

  /** When the job has something to do, if nothing wakes it before: epoch ms. */
  function nextTime(): number | null {
    const now = runtime.now();
    const times = [leases.nextUpkeep(), dueOf(openings(now, []))];
    const rested = rests.get(SMARTHOST) ?? 0;
    if (rested > now) times.push(rested);
    const earliest = Math.min(...times);
    return Number.isFinite(earliest) ? earliest : null;
  }

  async function runDue(_now: number, wasAhead = false): Promise<number | null> {
    if (stopped) return null;
    busy++;
    try {
      await leases.upkeep(wasAhead);
      if (wasAhead) rests.clear();
      do {
        again = false;
        await handOut();
      } while (again && !stopped);
      return stopped ? null : nextTime();
    } finally {
      leave();
    }
  }

  function endRests(): void {
    rests.clear();
    look();
  }

  async function stop(graceMs: number): Promise<void> {
    stopped = true;
    for (const lane of lanes) if (isIdle(lane)) closeLane(lane);
    if (busy > 0 && graceMs > 0) {
      await atMost(runtime, graceMs, idle());
    }
    cut = true;
    transport.close();
    leases.giveBack();
  }

  return { job: { name: "relay", runDue }, idle, endRests, stop };
}
