/**
 * That work grows with its input and not with the square of it, as it must for whatever a stranger sends: double the
 * input, at most 2.2 times the work.
 */

/** What double the input may cost. */
const AT_MOST = 2.2;
/**
 * Of several runs the cheapest has the least of what is not the work's own: compiling, collecting garbage, other programs.
 * What seems to grow too fast is measured most often, since only noise goes away by that.
 */
const [FEWEST_RUNS, MOST_RUNS] = [2, 15];
/** Linux counts a thread's time in ticks of 4 ms: what takes less than several of them runs several times. Microseconds. */
const RESOLUTION = 40_000;

export interface Growth<T> {
  /** An input of that size, in whatever unit. */
  make: (size: number) => T;
  /** What its work is: steps that were counted, or cpuTime. */
  work: (input: T) => number | Promise<number>;
  /** Ascending; the first large enough that what any input costs does not tell. */
  sizes: readonly number[];
  /** What double the input may cost; more than 2.2 only for CPU time, where caches and garbage tell. */
  atMost?: number;
}

/** @throws Error that tells the work of each size, when it grows faster */
export async function expectLinear<T>({ make, work, sizes, atMost = AT_MOST }: Growth<T>): Promise<void> {
  const seen = sizes.map((size) => ({ size, input: make(size), work: Number.POSITIVE_INFINITY }));
  const [first, last] = [seen[0], seen.at(-1)];
  if (!first || !last || last.size < 2 * first.size) throw new Error("sizes must at least double");
  const perDoubling = () => (last.work / first.work) ** (1 / Math.log2(last.size / first.size));
  for (let run = 1; run <= MOST_RUNS && (run <= FEWEST_RUNS || perDoubling() > atMost); run++) {
    // The largest first, so that compiling is none of the first's work.
    for (const one of seen.toReversed()) one.work = Math.min(one.work, await work(one.input));
  }
  const told = JSON.stringify(seen.map(({ size, work }) => ({ size, work })));
  if (!(first.work > 0)) throw new Error(`no work was counted: ${told}`);
  if (perDoubling() > atMost) throw new Error(`${perDoubling().toFixed(2)} times a doubling: ${told}`);
}

/** For what counts no steps, as libraries: CPU time of this thread in microseconds. */
export async function cpuTime(run: () => unknown): Promise<number> {
  const before = process.threadCpuUsage();
  for (let times = 1; ; times++) {
    await run();
    const { user, system } = process.threadCpuUsage(before);
    if (user + system >= RESOLUTION) return (user + system) / times;
  }
}
