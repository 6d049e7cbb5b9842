/**
 * The leases of what the relay attempts: held from the claim until what came of it is recorded, and given back when a
 * stop cuts the attempt short.
 *
 * Invariant: what is being attempted is not claimed again, however long it takes and however the clock is set meanwhile.
 * What a process that ended had leased is due at the next start.
 */
import type { Log } from "../log.ts";
import type { Runtime } from "../runtime.ts";
import type { Options } from "../store/options.ts";
import type { Store, Tx } from "../store/store.ts";
import { type Claim, extendLeases, recallStrays, releaseEntries, releaseLeases } from "./queue.ts";

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
  /**
   * The same by itself; at first, and when the clock was set back, it also takes up what earlier attempts left. Resolves
   * with whether the clock was set back.
   */
  upkeep(): Promise<boolean>;
  /** When there is something to prolong: epoch ms; Infinity while none is held. */
  nextUpkeep(): number;
  /** Gives back all that are held, their attempts not counted; or leaves that to the next start. */
  giveBack(): void;
}

const LEASE_MS = 30 * 60_000;
/** A lease is prolonged when this much of it is left. */
const LEFT_MS = LEASE_MS / 2;
/** A clock that is set back by less was only kept right. */
const CLOCK_SLACK_MS = 10_000;

export function createLeases({ store, options, runtime, log }: LeaseParts): Leases {
  /** What is being attempted, and the end of its lease (epoch ms). */
  const held = new Map<Claim, number>();
  /** When `upkeep` last looked: epoch ms. */
  let lookedAt: number | undefined;

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
  async function takeUp(now: number, isStart: boolean): Promise<void> {
    const longestWaitMs = 1_000 * Math.max(0, ...options.get("smtp.retrySeconds"));
    const { released, recalled } = await store.enqueue((tx) => ({
      released: isStart ? releaseLeases(tx, now) : 0,
      recalled: recallStrays(tx, now + longestWaitMs, now),
    }));
    if (released > 0) log.info("took up delivery attempts that a stop had cut short", { recipients: released });
    if (recalled > 0) log.warn("the clock was ahead: took up what it had put off too far", { recipients: recalled });
  }

  return {
    end,
    hold: (claim) => void held.set(claim, claim.leaseUntil),
    letGo: (claim) => void held.delete(claim),
    keep: (tx) => void prolong(tx),

    async upkeep() {
      const now = runtime.now();
      const isSetBack = lookedAt !== undefined && now < lookedAt - CLOCK_SLACK_MS;
      if (lookedAt === undefined || isSetBack) await takeUp(now, lookedAt === undefined);
      lookedAt = now;
      if (ending().length > 0) {
        for (const claim of await store.enqueue(prolong)) if (held.has(claim)) held.set(claim, now + LEASE_MS);
      }
      return isSetBack;
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
