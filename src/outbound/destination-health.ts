/**
 * How the destinations of mail have done of late, which says in which line they wait (relay.ts): those that have answered
 * in time, those that keep us waiting, and all others, about which nothing is known.
 *
 * Kept in memory, bounded. After a start it is what the queue knows: whom mail was delivered to, and who waits in the line
 * of the slow.
 */
import { and, eq, gt, sql } from "drizzle-orm";
import { type QueueLine, queueDomains, queueEntries } from "../store/schema.ts";
import type { Db } from "../store/store.ts";

export interface Standings {
  lineOf(destination: string): QueueLine;
  /** Returns whether that is news. */
  note(destination: string, line: QueueLine): boolean;
}

/** Those that have been silent for longest are forgotten first. */
const MOST_KNOWN = 10_000;
/** Entries of the queue that are read at start, the newest. */
const MOST_READ = 10_000;

export function createStandings(db: Db): Standings {
  /** In the order of the last note; who is `new` is not in it. */
  const known = new Map<string, QueueLine>();

  function note(destination: string, line: QueueLine): boolean {
    const before = lineOf(destination);
    known.delete(destination);
    if (line !== "new") known.set(destination, line);
    for (const oldest of known.keys()) {
      if (known.size <= MOST_KNOWN) break;
      known.delete(oldest);
    }
    return line !== before;
  }

  const lineOf = (destination: string): QueueLine => known.get(destination) ?? "new";

  const newest = db
    .select({ seq: sql<number>`coalesce(max(${queueEntries.seq}), 0)` })
    .from(queueEntries)
    .get();
  const delivered = db
    .selectDistinct({ domain: queueEntries.domain })
    .from(queueEntries)
    .where(and(gt(queueEntries.seq, (newest?.seq ?? 0) - MOST_READ), sql`+${queueEntries.state} = 'delivered'`))
    .all();
  const slow = db
    .select({ domain: queueDomains.domain })
    .from(queueDomains)
    .where(eq(queueDomains.line, "slow"))
    .limit(MOST_KNOWN)
    .all();
  for (const { domain } of delivered) note(domain, "open");
  for (const { domain } of slow) note(domain, "slow");

  return { lineOf, note };
}
