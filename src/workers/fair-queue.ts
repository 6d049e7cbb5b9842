/**
 * The order in which messages get a worker. Each message stands as though it had come later by the time that its source has
 * used lately, and by its size: so small messages pass the large ones of many new sources, and a source that has used little
 * passes one that has used much. Used time is halved every minute and size counts for seconds at most, so none waits for
 * ever.
 *
 * Invariant: the numbers of waiting messages, of their bytes, and of known sources are bounded.
 */

/** The time that sources have used lately, in ms of a worker. */
export interface Usage {
  /** Adds `ms` to what the source of a message has used. */
  charge(source: string, ms: number): void;
  /** A message of the source took `ms` longer than its size explains. */
  took(source: string, ms: number): void;
  used(source: string): number;
  /** One of its messages took long lately; the longer it took, the longer this holds. */
  isCostly(source: string): boolean;
}

interface Used {
  total: number;
  /** By the message that took longest. */
  worst: number;
  /** Epoch ms at which both values held. */
  at: number;
}

const HALF_LIFE_MS = 60_000;
/** More than honest messages take. */
const COSTLY_MS = 500;
const MOST_SOURCES = 10_000;
/** How far a message may fall back by its size, in ms a byte, and at most. */
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

/** An item in a queue. */
export interface Waiting {
  source: string;
  /** Epoch ms since when it has been waiting. */
  since: number;
  /** Bytes. */
  size: number;
}

export interface FairQueue<T extends Waiting> {
  /** Adds an item. Returns those that leave because the queue is full, the last first; the item may be among them. */
  join(item: T): T[];
  /** The first item that `fits`; it stays in the queue. */
  first(fits: (item: T) => boolean): T | undefined;
  /** Whether it was there. */
  leave(item: T): boolean;
  readonly length: number;
  /** Empties it. */
  leaveAll(): T[];
}

export interface QueueBounds {
  most: number;
  mostBytes: number;
}

export function createFairQueue<T extends Waiting>(
  usage: Pick<Usage, "used">,
  { most, mostBytes }: QueueBounds,
): FairQueue<T> {
  const items: T[] = [];
  let bytes = 0;

  /** Decides which item leaves a full queue; size does not count here. */
  const rank = ({ since, source }: T): number => since + usage.used(source);
  const turn = (item: T): number => rank(item) + Math.min(item.size * MS_PER_BYTE, MOST_BY_SIZE_MS);

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
        const last = items.reduce((last, other) => (rank(other) >= rank(last) ? other : last));
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
