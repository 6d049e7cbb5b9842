/**
 * Concurrency of the relay: how destinations have done lately, and how many workers may work at once. A destination is open
 * (it has replied in time), slow (it has kept us waiting) or new (nothing is known). It waits in that line of the queue, and
 * the line says which slots its workers may take:
 *
 *   line   slots          what they are for
 *   open   shared, reserved   a destination that replies in time always finds one of the reserved slots
 *   new    shared         a destination that may hang can take no more than those
 *   slow   slow           a destination that hangs has all the time that RFC 5321 §4.5.3.2 gives it, and costs others nothing
 *   -      spare          mail to this server itself, while all shared slots are taken
 *
 * A worker that has waited a while for its server no longer counts, so that others get its slot. That is bounded: beyond
 * MOST_RELAY_WAITING such workers count after all.
 *
 * A destination that could not be reached rests: it gets no new connection for a while. All of this is kept in memory, bounded.
 * After a start it is read from the queue: destinations of delivered mail are open, and those in the slow line are slow.
 */
import { and, eq, gt, sql } from "drizzle-orm";
import { MOST_RELAY_WAITING, RELAY_SLOTS } from "../base/descriptors.ts";
import type { DeliveryResult } from "../smtp/delivery-result.ts";
import { type QueueLine, queueDomains, queueEntries } from "../store/schema.ts";
import type { Db } from "../store/store.ts";
import type { Claim } from "./claims.ts";
import type { Connection } from "./transport.ts";

export type Slot = keyof typeof RELAY_SLOTS;

const SLOTS_OF: Record<QueueLine, readonly Slot[]> = { open: ["shared", "reserved"], new: ["shared"], slow: ["slow"] };

/** A worker for one destination, a domain or the smarthost: on one connection, message after message. */
export interface DeliveryWorker {
  readonly destination: string;
  slot: Slot;
  connection: Connection | undefined;
  /** Ends the connection, or the attempt to get one; undefined while there is neither. */
  ending: AbortController | undefined;
  /** The time that it has waited for its server in the step under way; `over`: it has the reply, but no slot to go on in. */
  waits: "not" | "a while" | "long" | "over";
  /** Its destination belongs to another line now. */
  moves: boolean;
  /** The session has shown that it can deliver. */
  proven: boolean;
  /** Claims since it was last idle. */
  served: number;
  /** Set when no connection can be made: the result for everything that was due at `at` (epoch ms). */
  failure: { result: DeliveryResult; at: number } | undefined;
  /** Set while it is idle. */
  cancelIdle: (() => void) | undefined;
}

/** A claim for an idle worker, or for a new one. */
export interface Assignment {
  claim: Claim;
  destination: string;
  slot: Slot;
}

export const newWorker = (destination: string): DeliveryWorker => ({
  destination,
  slot: "shared",
  connection: undefined,
  ending: undefined,
  waits: "not",
  moves: false,
  proven: false,
  served: 0,
  failure: undefined,
  cancelIdle: undefined,
});

export const isWorkerIdle = (worker: DeliveryWorker): boolean => worker.cancelIdle !== undefined;
const isCut = ({ ending }: DeliveryWorker): boolean => ending?.signal.aborted === true;

/** Tells whether it waits, or has waited, for its server, so that others may use its slot meanwhile. */
export const isWaitingForServer = ({ waits, slot }: DeliveryWorker): boolean =>
  waits !== "not" && (slot === "shared" || slot === "reserved");

/** Tells whether it may be cut to make room: it has waited long, and cannot have delivered anything. */
export const mayCutDelivery = (worker: DeliveryWorker): boolean =>
  worker.waits === "long" && worker.slot !== "slow" && !isCut(worker) && !worker.connection?.isTransmitting();

/** Counts the free slots of each kind, less those of `assignments`. */
export function freeSlots(
  workers: Iterable<DeliveryWorker>,
  assignments: readonly Pick<Assignment, "slot">[],
): Record<Slot, number> {
  const free = { ...RELAY_SLOTS };
  const atWork = [...workers].filter((worker) => !isWorkerIdle(worker));
  for (const { slot } of [...atWork.filter((worker) => !isWaitingForServer(worker)), ...assignments]) free[slot]--;
  const waiting = atWork.filter((worker) => isWaitingForServer(worker) && !isCut(worker)).length;
  // Sessions beyond the bound take slots after all. Otherwise an open destination would get one more whenever one waits.
  free.shared -= Math.max(0, waiting - MOST_RELAY_WAITING);
  free.reserved += Math.min(0, free.shared);
  return free;
}

/** Finds a free slot for a destination of that line. */
export const slotFor = (free: Record<Slot, number>, line: QueueLine): Slot | undefined =>
  SLOTS_OF[line].find((slot) => free[slot] > 0);

/** Most destinations kept; beyond this, the one without news for longest is forgotten first. */
const MOST_KNOWN = 10_000;
/** Entries of the queue, the newest, that are read at start. */
const MOST_READ = 10_000;

/** Keeps the lines and rests of destinations. Times are epoch ms. */
export function createDestinationHealth(db: Db) {
  /**
   * Lines of destinations, in the order of the last note, without new destinations. Read from the queue when it is first asked.
   */
  let known: Map<string, QueueLine> | undefined;
  /** End of each rest, in the order in which the rests began. */
  const rests = new Map<string, number>();

  function set(lines: Map<string, QueueLine>, destination: string, line: QueueLine): void {
    lines.delete(destination);
    if (line !== "new") lines.set(destination, line);
    for (const oldest of lines.keys()) {
      if (lines.size <= MOST_KNOWN) break;
      lines.delete(oldest);
    }
  }

  function lines(): Map<string, QueueLine> {
    if (known) return known;
    known = new Map();
    for (const domain of deliveredLately(db)) set(known, domain, "open");
    for (const domain of slowInQueue(db)) set(known, domain, "slow");
    return known;
  }

  const getQueueLine = (destination: string): QueueLine => lines().get(destination) ?? "new";

  return {
    getQueueLine,
    /** Notes the line of a destination; returns whether it is another than before. */
    note(destination: string, line: QueueLine): boolean {
      const before = getQueueLine(destination);
      set(lines(), destination, line);
      return line !== before;
    },
    /** Lets a destination rest: it gets no new connection before `until`. */
    rest(destination: string, now: number, until: number): void {
      for (const [rested, over] of rests) {
        if (over > now) break;
        rests.delete(rested);
      }
      rests.delete(destination);
      rests.set(destination, until);
    },
    /** Returns the end of a destination's rest; 0 when it has had none. */
    restsUntil: (destination: string): number => rests.get(destination) ?? 0,
    endRests: (): void => rests.clear(),
  };
}

function deliveredLately(db: Db): string[] {
  const newest = db
    .select({ seq: sql<number>`coalesce(max(${queueEntries.seq}), 0)` })
    .from(queueEntries)
    .get();
  return db
    .selectDistinct({ domain: queueEntries.domain })
    .from(queueEntries)
    .where(and(gt(queueEntries.seq, (newest?.seq ?? 0) - MOST_READ), sql`+${queueEntries.state} = 'delivered'`))
    .all()
    .map(({ domain }) => domain);
}

const slowInQueue = (db: Db): string[] =>
  db
    .select({ domain: queueDomains.domain })
    .from(queueDomains)
    .where(eq(queueDomains.line, "slow"))
    .limit(MOST_KNOWN)
    .all()
    .map(({ domain }) => domain);
