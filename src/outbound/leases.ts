/**
 * The leases of what the relay attempts: held from the claim until what came of it is recorded, and given back when a
 * stop cuts the attempt short.
 *
 * Invariant: what is being attempted is not claimed again, however long it takes and however the clock is set meanwhile.
 * What a process that ended had leased is due at the next start.
 */
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Options } from "../store/settings.ts";
import type { Store, Tx } from "../store/store.ts";
import { type Claim, extendLeases, recallAccepted, recallStrays, releaseEntries, releaseLeases } from "./queue.ts";

export interface LeaseParts {
  store: Pick<Store, "enqueue" | "transact">;
  options: Pick<Options, "get">;
  runtime: Pick<Runtime, "now">;
  log: Log;
}

export interface Leases {
  /** The end of one that is taken now: epoch ms. */
  end(): number;
  hold(claim: Claim): void;
  letGo(claim: Claim): void;
  /** Prolongs those that end soon: before every claim, in its transaction, for the clock may have leapt. */
  keep(tx: Tx): void;
  /** The same by itself. `wasAhead`, as in Job: it also takes up what earlier attempts left. */
  upkeep(wasAhead: boolean): Promise<void>;
  /** When there is something to prolong: epoch ms; Infinity while none is held. */
  nextUpkeep(): number;
  /** Gives back all that are held, their attempts not counted; or leaves that to the next start. */
  giveBack(): void;
}

const LEASE_MS = 30 * 60_000;
/** A lease is prolonged when this much of it is left. */
const LEFT_MS = LEASE_MS / 2;

export function createLeases({ store, options, runtime, log }: LeaseParts): Leases {
  /** What is being attempted, and the end of its lease (epoch ms). */
  const held = new Map<Claim, number>();
  let isStart = true;

  const end = (): number => runtime.now() + LEASE_MS;

  const ending = (): Claim[] => {
    const now = runtime.now();
    return [...held].filter(([, until]) => until - now <= LEFT_MS).map(([claim]) => claim);
  };

  /** Returns for what. The transaction may fail: `held` has the new end only once it is known to have not. */
  function prolong(tx: Tx): Claim[] {
    const claims = ending();
    for (const { entries } of claims) extendLeases(tx, entries, end());
    return claims;
  }

  /** What was cut short by a stop, or put off by a clock that was ahead. */
  async function takeUp(now: number): Promise<void> {
    const waits = options.get("smtp.retrySeconds").map((seconds) => 1_000 * seconds);
    const { released, recalled } = await store.enqueue((tx) => {
      recallAccepted(tx, now);
      return { released: isStart ? releaseLeases(tx, now) : 0, recalled: recallStrays(tx, waits, now) };
    });
    isStart = false;
    if (released > 0) log.info("took up delivery attempts that a stop had cut short", { recipients: released });
    if (recalled > 0) log.warn("the clock was ahead: took up what it had put off too far", { recipients: recalled });
  }

  return {
    end,
    hold: (claim) => void held.set(claim, claim.leaseUntil),
    letGo: (claim) => void held.delete(claim),
    keep: (tx) => void prolong(tx),

    async upkeep(wasAhead) {
      const now = runtime.now();
      if (wasAhead) await takeUp(now);
      if (ending().length > 0) {
        for (const claim of await store.enqueue(prolong)) if (held.has(claim)) held.set(claim, now + LEASE_MS);
      }
    },

    nextUpkeep: () => Math.min(...[...held.values()].map((until) => until - LEFT_MS)),

    giveBack() {
      if (held.size === 0) return;
      try {
        store.transact((tx) => {
          for (const { entries } of held.keys()) releaseEntries(tx, entries, runtime.now());
        });
      } catch (error) {
        log.warn("delivery attempts cut short will be taken up at the next start", { attempts: held.size, error });
      }
    },
  };
}
