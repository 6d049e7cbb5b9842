/**
 * How the destinations of mail have done lately: each is open (it has replied in time), slow (it has kept us waiting) or new
 * (nothing is known), and waits in that line of the queue. A destination that could not be reached rests: it gets no new
 * connection for a while.
 *
 * Kept in memory, bounded. After a start the queue tells which destinations mail was delivered to, and which wait in the line
 * of the slow.
 */
import { and, eq, gt, sql } from "drizzle-orm";
import { type QueueLine, queueDomains, queueEntries } from "../store/schema.ts";
import type { Db } from "../store/store.ts";

export interface DestinationHealth {
  lineOf(destination: string): QueueLine;
  /** Returns whether that is another line than before. */
  note(destination: string, line: QueueLine): boolean;
  /** No new connection before `until`. Times are epoch ms. */
  rest(destination: string, now: number, until: number): void;
  /** The end of its rest; 0 when it has had none. */
  restsUntil(destination: string): number;
  endRests(): void;
}

/** Beyond it, destinations without news for longest are forgotten first. */
const MOST_KNOWN = 10_000;
/** Entries of the queue that are read at start, the newest. */
const MOST_READ = 10_000;

export function createDestinationHealth(db: Db): DestinationHealth {
  /** In the order of the last note; new destinations are not in it. Read from the queue when it is first asked. */
  let known: Map<string, QueueLine> | undefined;
  /** In order of time. */
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

  const lineOf = (destination: string): QueueLine => lines().get(destination) ?? "new";

  return {
    lineOf,
    note(destination, line) {
      const before = lineOf(destination);
      set(lines(), destination, line);
      return line !== before;
    },
    rest(destination, now, until) {
      for (const [rested, over] of rests) {
        if (over > now) break;
        rests.delete(rested);
      }
      rests.delete(destination);
      rests.set(destination, until);
    },
    restsUntil: (destination) => rests.get(destination) ?? 0,
    endRests: () => rests.clear(),
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
