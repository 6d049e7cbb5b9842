/**
 * Greylisting (RFC 6647): the first mail from a network and reverse-path to a recipient is deferred, and accepted when the
 * sender tries again after the wait. Programs that send only once never come back. The only writer of greylist.
 *
 * Invariant: the table is bounded. In a flood, first mail from the networks with most of it is removed first, so that a few
 * sources cannot keep others from ever passing. Senders that have come back are forgotten last.
 */
import { createHash } from "node:crypto";
import { asc, count, desc, eq, inArray, isNotNull, lte, type SQL, sql } from "drizzle-orm";
import type { Job } from "../base/scheduler.ts";
import { splitAddress } from "../message/address.ts";
import { Refusal } from "../smtp/refusal.ts";
import type { Core } from "../store/core.ts";
import { greylist } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";

/** A sender and its recipient. */
export interface Triplet {
  /** Network of the sender (ipAddressNetwork), because large senders retry from another address of their network. */
  network: string;
  reversePath: string;
  recipient: string;
}

export type Greylist = ReturnType<typeof createGreylist>;

const DAY_MS = 24 * 60 * 60_000;
/** The time in which a retry must come: at least a day (RFC 6647 §3). */
const AWAITED_MS = 2 * DAY_MS;
/** More than a month, so that a monthly mailing waits once. */
const REMEMBERED_MS = 36 * DAY_MS;
/** About 20 MB. */
const MOST_ROWS = 100_000;
/** Rows of a network that are counted at a new one, in an eighth of a millisecond. Networks with more count as alike. */
const MOST_COUNTED = 1_000;
const SWEEP_MS = 60 * 60_000;
/** Rows deleted in one step: it blocks other writes for a few milliseconds. */
const STEP = 500;
const NEXT_STEP_MS = 100;

const statements = prepared((db) => ({
  find: db
    .select({ firstAt: greylist.firstAt, expiresAt: greylist.expiresAt })
    .from(greylist)
    .where(eq(greylist.key, sql.placeholder("key")))
    .prepare(),
  soonest: db
    .select({ expiresAt: greylist.expiresAt })
    .from(greylist)
    .orderBy(asc(greylist.expiresAt))
    .limit(1)
    .prepare(),
  count: db.select({ rows: count() }).from(greylist).prepare(),
  countOf: db
    .select({ rows: count() })
    .from(
      db
        .select({ network: greylist.network })
        .from(greylist)
        .where(eq(greylist.network, sql.placeholder("network")))
        .limit(MOST_COUNTED)
        .as("counted"),
    )
    .prepare(),
}));

function hashTriplet({ network, reversePath, recipient }: Triplet): Buffer {
  return createHash("sha256")
    .update([network, spelled(reversePath), spelled(recipient)].join("\0"))
    .digest();
}

/**
 * Spells an address without digits: mailing lists write another number into each reverse-path, to tell bounces apart (VERP).
 */
function spelled(address: string): string {
  const { local, domain } = splitAddress(address.toLowerCase());
  return `${local.replace(/\d+/g, "#")}@${domain}`;
}

/** Tests set `mostRows`. */
export function createGreylist({ db, store, now: clock }: Core, mostRows = MOST_ROWS) {
  let rows: number | undefined;

  /** Removes at most `most` of the rows that match, in this order; returns their number. */
  function remove(tx: Tx, most: number, matching: SQL, ...order: SQL[]): number {
    const { key } = greylist;
    const gone = tx
      .select({ key })
      .from(greylist)
      .where(matching)
      .orderBy(...order)
      .limit(most);
    return tx.delete(greylist).where(inArray(key, gone)).returning({ key }).all().length;
  }

  function makeRoom(tx: Tx, most: number): number {
    const { nth, network, expiresAt } = greylist;
    return (
      remove(tx, most, isNotNull(network), desc(nth), asc(expiresAt)) ||
      remove(tx, most, isNotNull(expiresAt), asc(expiresAt))
    );
  }

  async function remember(key: Buffer, network: string, now: number): Promise<void> {
    await store.enqueue((tx) => {
      const counted = rows ?? statements(tx).count.get()?.rows ?? 0;
      const removed = counted >= mostRows ? makeRoom(tx, Math.min(STEP, counted - mostRows + 1)) : 0;
      const nth = 1 + (statements(tx).countOf.get({ network })?.rows ?? 0);
      const row = { firstAt: now, expiresAt: now + AWAITED_MS, network, nth };
      tx.insert(greylist)
        .values({ key, ...row })
        .onConflictDoUpdate({ target: greylist.key, set: row })
        .run();
      rows = counted - removed + 1;
    });
  }

  return {
    /** Resolves for a sender that has waited `waitMs`, now or within the last 36 days. @throws Refusal greylisted */
    async admit(triplet: Triplet, waitMs: number): Promise<void> {
      const key = hashTriplet(triplet);
      const now = clock();
      const row = statements(db).find.get({ key });
      if (!row || row.expiresAt <= now || row.firstAt > now) {
        await remember(key, triplet.network, now);
        throw new Refusal("greylisted");
      }
      if (now < row.firstAt + waitMs) throw new Refusal("greylisted");
      // Renewed once a day, not at every message.
      if (row.expiresAt < now + REMEMBERED_MS - DAY_MS) {
        await store.enqueue((tx) => {
          tx.update(greylist)
            .set({ expiresAt: now + REMEMBERED_MS, network: null, nth: null })
            .where(eq(greylist.key, key))
            .run();
        });
      }
    },
    /** Removes expired rows. */
    job: {
      name: "greylist",
      async runDue(now) {
        const soonest = statements(db).soonest.get()?.expiresAt;
        const isDue = soonest !== undefined && soonest <= now;
        const removed = isDue
          ? await store.enqueue((tx) => remove(tx, STEP, lte(greylist.expiresAt, now), asc(greylist.expiresAt)))
          : 0;
        rows = undefined;
        return now + (removed === STEP ? NEXT_STEP_MS : SWEEP_MS);
      },
    } satisfies Job,
  };
}
