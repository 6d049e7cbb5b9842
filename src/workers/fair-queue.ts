/**
 * The order in which messages get a parser. A message is ranked by its arrival plus delays: the time that its
 * source used recently, and the workspace of that, and an allowance for its size. Small messages thus pass large ones of many new sources, and
 * sources that used little pass those that used much. Used time is halved every minute and the allowance for size is
 * limited, so every message has its turn.
 *
 * Invariant: the numbers of waiting messages, of their bytes, and of known sources are bounded.
 */

/** The time that a source has used recently, in ms of a parser. */
interface Used {
  total: number;
  /** The excess of the message that took longest. */
  worst: number;
  /** Epoch ms at which both values held. */
  at: number;
}

const HALF_LIFE_MS = 60_000;
/** Least excess of a costly message, ms; no honest message takes so long beyond what its size explains. */
const COSTLY_MS = 500;
const MOST_SOURCES = 10_000;
/** The allowance for size: ms per byte, and the most ms. */
const MS_PER_BYTE = 1 / 50;
const MOST_BY_SIZE_MS = 10_000;

/** `now`: epoch ms. Remembers `most` sources, and forgets those that were charged longest ago. */
export function createSourceUsage(now: () => number, most = MOST_SOURCES) {
  const sources = new Map<string, Used>();

  function present(source: string): Used {
    const at = now();
    const known = sources.get(source);
    if (!known) return { total: 0, worst: 0, at };
    const left = 0.5 ** (Math.max(0, at - known.at) / HALF_LIFE_MS);
    return { total: known.total * left, worst: known.worst * left, at };
  }

  function keep(source: string, used: Used): void {
    sources.delete(source);
    sources.set(source, used);
    for (const oldest of sources.keys()) {
      if (sources.size <= most) break;
      sources.delete(oldest);
    }
  }

  return {
    /** Adds `ms` to what a source has used. */
    charge(source: string, ms: number): void {
      if (ms <= 0) return;
      const used = present(source);
      keep(source, { ...used, total: used.total + ms });
    },
    /** Records that a message of the source took `ms` longer than its size explains. Tells whether that is costly. */
    took(source: string, ms: number): boolean {
      if (ms < COSTLY_MS) return false;
      const used = present(source);
      keep(source, { ...used, worst: Math.max(used.worst, ms) });
      return true;
    },
    used: (source: string): number => present(source).total,
    /** True if one of its messages recently took long; the longer it took, the longer this holds. */
    isCostly: (source: string): boolean => present(source).worst >= COSTLY_MS,
  };
}

/** An item in a queue. */
export interface Waiting {
  source: string;
  /** The workspace of the source, if it has one. */
  workspace?: string | undefined;
  /** Epoch ms since when it has been waiting. */
  since: number;
  /** Bytes. */
  size: number;
}

/** A queue of at most `most` items and `mostBytes` bytes. */
export function createFairQueue<T extends Waiting>(
  usage: Pick<ReturnType<typeof createSourceUsage>, "used">,
  { most, mostBytes }: { most: number; mostBytes: number },
) {
  const items: T[] = [];
  let bytes = 0;

  /** The item with the highest rank leaves a full queue; size does not count here. */
  const rank = ({ since, source, workspace }: T): number =>
    since + usage.used(source) + (workspace === undefined ? 0 : usage.used(workspace));
  const turn = (item: T): number => rank(item) + Math.min(item.size * MS_PER_BYTE, MOST_BY_SIZE_MS);

  /** True if the item was in the queue. */
  function leave(item: T): boolean {
    const index = items.indexOf(item);
    if (index < 0) return false;
    items.splice(index, 1);
    bytes -= item.size;
    return true;
  }

  return {
    /** Adds an item; returns those that leave a full queue, the last first. The item may be among them. */
    join(item: T): T[] {
      items.push(item);
      bytes += item.size;
      const gone: T[] = [];
      // A single message may have any size.
      while (items.length > most || (bytes > mostBytes && items.length > 1)) {
        const last = items.reduce((last, other) => (rank(other) >= rank(last) ? other : last));
        leave(last);
        gone.push(last);
      }
      return gone;
    },
    /** The first item that `fits`; it stays in the queue. */
    first(fits: (item: T) => boolean): T | undefined {
      let first: T | undefined;
      let earliest = Number.POSITIVE_INFINITY;
      for (const item of items) {
        const at = turn(item);
        if (at < earliest && fits(item)) {
          first = item;
          earliest = at;
        }
      }
      return first;
    },
    leave,
    get length(): number {
      return items.length;
    },
    /** Empties the queue; returns its items. */
    leaveAll(): T[] {
      bytes = 0;
      return items.splice(0);
    },
  };
}
