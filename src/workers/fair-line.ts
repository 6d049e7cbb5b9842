/**
 * Who is next to be worked for: a line in which each message stands as though it had come later by the time that its
 * source has used of late, and the larger it is: many sources that are new cost much with one large message each, and small
 * ones pass these. A source that has used little passes one that has used much, and none waits for ever, since what was
 * used is halved with every minute, and no size counts for more than some seconds.
 *
 * Invariant: whatever strangers send, there are so many messages in a line, so many bytes, and so many known sources.
 */

/** What sources have used of late, in ms of a worker. */
export interface Usage {
  /** The source of a message has used `ms` more, all in all. */
  charge(source: string, ms: number): void;
  /** A message of it took `ms` longer than its size explains. */
  took(source: string, ms: number): void;
  used(source: string): number;
  /** One of its messages took long, not long ago: the longer it took, the longer this holds. */
  isCostly(source: string): boolean;
}

interface Used {
  total: number;
  /** By the message that took longest. */
  worst: number;
  /** Epoch ms at which both were what they are. */
  at: number;
}

const HALF_LIFE_MS = 60_000;
/** More than honest messages take. */
const COSTLY_MS = 500;
const MOST_SOURCES = 10_000;
/** What a message may cost by its size, in ms a byte, and at most. */
const MS_PER_BYTE = 1 / 50;
const MOST_BY_SIZE_MS = 10_000;

/** `now`: epoch ms; `most`: sources; beyond it, those that were charged longest ago are forgotten. */
export function createUsage(now: () => number, most = MOST_SOURCES): Usage {
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
    charge(source, ms) {
      if (ms <= 0) return;
      const used = present(source);
      keep(source, { ...used, total: used.total + ms });
    },
    took(source, ms) {
      if (ms < COSTLY_MS) return;
      const used = present(source);
      keep(source, { ...used, worst: Math.max(used.worst, ms) });
    },
    used: (source) => present(source).total,
    isCostly: (source) => present(source).worst >= COSTLY_MS,
  };
}

/** What stands in a line. */
export interface Waiting {
  source: string;
  /** Epoch ms since when it has been waiting. */
  since: number;
  /** Bytes. */
  size: number;
}

export interface Line<T extends Waiting> {
  /** Lets it wait; gives those that have to leave for it, which may be itself: the last in line. */
  join(item: T): T[];
  /** The first of those that `fits`, which stays in line. */
  first(fits: (item: T) => boolean): T | undefined;
  /** Whether it was there. */
  leave(item: T): boolean;
  readonly length: number;
  /** Empties it. */
  leaveAll(): T[];
}

export interface LineBounds {
  most: number;
  mostBytes: number;
}

export function createLine<T extends Waiting>(usage: Pick<Usage, "used">, { most, mostBytes }: LineBounds): Line<T> {
  const items: T[] = [];
  let bytes = 0;

  /** Who leaves a full line is told by it; size costs nobody a place. */
  const place = ({ since, source }: T): number => since + usage.used(source);
  const turn = (item: T): number => place(item) + Math.min(item.size * MS_PER_BYTE, MOST_BY_SIZE_MS);

  function leave(item: T): boolean {
    const index = items.indexOf(item);
    if (index < 0) return false;
    items.splice(index, 1);
    bytes -= item.size;
    return true;
  }

  return {
    join(item) {
      items.push(item);
      bytes += item.size;
      const gone: T[] = [];
      // One message alone may have any size.
      while (items.length > most || (bytes > mostBytes && items.length > 1)) {
        const last = items.reduce((last, other) => (place(other) >= place(last) ? other : last));
        leave(last);
        gone.push(last);
      }
      return gone;
    },
    first(fits) {
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
    get length() {
      return items.length;
    },
    leaveAll() {
      bytes = 0;
      return items.splice(0);
    },
  };
}
