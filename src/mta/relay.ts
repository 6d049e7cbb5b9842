/**
 * The relay: hands what is due in the queue to lanes, which deliver it (contract: Sending). A lane works for one
 * destination, a domain or the smarthost, on one connection, message after message.
 *
 *   runDue ──claims──► lane: attempt ──► outcome and next claim, one commit ──► attempt ──► …  ──► idle, then closed
 *      ▲                                                                                          │
 *      └────────────────────────────────────── wake ◄─────────────────────────────────────────────┘
 *
 * Invariants: a destination gets a second lane only once its lanes have shown that they can deliver, so one that hangs
 * keeps one lane waiting and nobody else. A destination that could not be reached is not asked again before its first
 * retry is due; what was due there already shares the failure. A claim is held (leases.ts) until what came of it is
 * recorded: what stopping cuts short is given back.
 */
import type { Log } from "../log.ts";
import { atMost } from "../pause.ts";
import type { Runtime } from "../runtime.ts";
import type { Job } from "../scheduler.ts";
import type { Options } from "../store/options.ts";
import type { Store, Tx } from "../store/store.ts";
import { type AttemptParts, createAttempts } from "./attempt.ts";
import { createLeases } from "./leases.ts";
import {
  type Claim,
  type ClaimTerms,
  claim,
  nextDue,
  type OutboundMessage,
  releaseEntries,
  yieldTurn,
} from "./queue.ts";
import type { Connection, Transport } from "./transport.ts";
import { DeliveryFailure, type Verdict } from "./verdict.ts";

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

/** Connections to one destination, and together. */
const MOST_LANES_OF_ONE = 5;
const MOST_LANES = 50;
/** More, for mail to this server itself while all of those are taken. */
const MOST_SPARE_LANES = 4;
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
  connection: Connection | undefined;
  /** It has shown that it can deliver. */
  proven: boolean;
  /** Claims since it was last idle. */
  served: number;
  /** Why no connection can be had, which goes for all that was due at that time (epoch ms). */
  failure: { verdict: Verdict; at: number } | undefined;
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
}

export function createRelay(parts: RelayParts): Relay {
  const { store, transport, local, options, runtime, log, wake } = parts;
  const { attempt, record, commit } = createAttempts(parts);
  const lanes = new Set<Lane>();
  const leases = createLeases(parts);
  /** Until when (epoch ms) a destination gets no new connection; in order of time. */
  const rests = new Map<string, number>();
  const waiters: (() => void)[] = [];
  let busy = 0;
  let again = false;
  let stopped = false;
  /** Stopped without waiting any longer: what ends now is not recorded, but has been given back. */
  let cut = false;

  const lanesTo = (destination: string): Lane[] => [...lanes].filter((lane) => lane.destination === destination);
  const isIdle = (lane: Lane): boolean => lane.cancelIdle !== undefined;
  const lanesAtWork = (): Lane[] => [...lanes].filter((lane) => !isIdle(lane));

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

  /** What may be claimed besides `hands`, and for which lanes; undefined while all are taken. */
  function openTerms(now: number, hands: readonly Hand[]): Open | undefined {
    const atWork = [...lanesAtWork(), ...hands];
    const spare = atWork.filter(({ destination }) => destination === SPARE).length;
    if (atWork.length - spare < MOST_LANES) {
      if (!transport.groupsByMessage()) {
        return { terms: { ...termsAt(now), notBefore: (domain) => notBefore(domain, hands) } };
      }
      if (notBefore(SMARTHOST, hands) <= now) return { terms: termsAt(now), destination: SMARTHOST };
    }
    return spare < MOST_SPARE_LANES ? { terms: { ...termsAt(now), own: true }, destination: SPARE } : undefined;
  }

  /** Claims for as many lanes as may have one, up to a portion. */
  function takeHands(tx: Tx, now: number): Hand[] {
    leases.keep(tx);
    const hands: Hand[] = [];
    while (hands.length < PORTION && !stopped) {
      const open = openTerms(now, hands);
      const claimed = open && claim(tx, open.terms);
      if (!claimed) break;
      hands.push({ claim: claimed, destination: open.destination ?? claimed.domain });
    }
    return hands;
  }

  /** The next claim of a lane; undefined when there is none, or others are to have its place. */
  function claimFor(tx: Tx, { destination, failure, served }: Lane): Claim | undefined {
    if (stopped) return undefined;
    leases.keep(tx);
    const terms = termsAt(failure?.at ?? runtime.now());
    if (destination === SPARE) return claim(tx, { ...terms, own: true });
    if (transport.groupsByMessage() !== (destination === SMARTHOST)) return undefined;
    if (destination === SMARTHOST) return claim(tx, terms);
    const othersWait = served >= TURN && lanesAtWork().length >= MOST_LANES;
    return othersWait ? yieldTurn(tx, destination, runtime.now()) : claim(tx, { ...terms, domain: destination });
  }

  async function handOut(): Promise<void> {
    for (;;) {
      const now = runtime.now();
      const open = openTerms(now, []);
      if (!open || (nextDue(store.db, open.terms) ?? Number.POSITIVE_INFINITY) > now) return;
      const hands = await store.enqueue((tx) => takeHands(tx, now));
      for (const hand of hands) {
        busy++;
        void serve(lanesTo(hand.destination).find(isIdle) ?? openLane(hand.destination), hand.claim);
      }
      if (hands.length < PORTION) return;
    }
  }

  function openLane(destination: string): Lane {
    // Those that idle are connections too.
    if (destination !== SPARE && [...lanes].filter((lane) => lane.destination !== SPARE).length >= MOST_LANES) {
      closeLane([...lanes].find(isIdle));
    }
    const lane: Lane = {
      ...{ destination, proven: false, served: 0 },
      ...{ connection: undefined, failure: undefined, cancelIdle: undefined },
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
  async function serve(lane: Lane, first: Claim): Promise<void> {
    lane.cancelIdle?.();
    lane.cancelIdle = undefined;
    lane.served = 0;
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
    try {
      const attempted = await attempt(current, () => connectionOf(lane, current.domain));
      if (cut) return undefined;
      if (attempted.kind === "unreachable") {
        if (!lane.failure && hasSibling(lane)) {
          // The destination works, and takes no more connections than it has.
          rest(lane.destination);
          return await commit((tx) => releaseEntries(tx, current.entries, runtime.now()));
        }
        if (!lane.failure && attempted.verdict.kind === "deferred") rest(lane.destination);
        lane.failure ??= { verdict: attempted.verdict, at: runtime.now() };
      } else if (!lane.proven && (!lane.connection || lane.connection.usable())) {
        lane.proven = true;
        look();
      }
      return await record(current, attempted, (tx) => claimFor(tx, lane));
    } finally {
      leases.letGo(current);
    }
  }

  async function connectionOf(lane: Lane, domain: string): Promise<Connection> {
    if (lane.failure) throw new DeliveryFailure(lane.failure.verdict);
    if (lane.connection?.usable()) return lane.connection;
    lane.connection?.close();
    lane.connection = undefined;
    lane.connection = await transport.connect(domain);
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
    const open = openTerms(now, []);
    const times = [leases.nextUpkeep()];
    if (open) times.push(nextDue(store.db, open.terms) ?? Number.POSITIVE_INFINITY);
    const rested = rests.get(SMARTHOST) ?? 0;
    if (rested > now) times.push(rested);
    const earliest = Math.min(...times);
    return Number.isFinite(earliest) ? earliest : null;
  }

  async function runDue(): Promise<number | null> {
    if (stopped) return null;
    busy++;
    try {
      if (await leases.upkeep()) rests.clear();
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
