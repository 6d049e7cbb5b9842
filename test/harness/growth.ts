/**
 * Checks that work grows linearly with its input, as it must for everything that a stranger sends: double the input takes at
 * most 2.2 times the work.
 */

/** The most that double the input may cost. */
const AT_MOST = 2.2;
/**
 * Runs of a measured time. The cheapest of several runs has the least noise: compiling, collecting garbage, other programs. A
 * measurement that seems to grow too fast is repeated most often, since repeating removes only noise.
 */
const [FEWEST_RUNS, MOST_RUNS] = [2, 15];
/** Least time of a measurement, in microseconds: Linux counts in ticks of 4 ms, so shorter work runs several times. */
const RESOLUTION = 40_000;

export type Growth<T> = Inputs<T> & (Counted<T> | Measured<T>);

interface Counted<T> {
  /** Counts the steps of its work, the same number every time. */
  steps: (input: T) => number;
}

interface Measured<T> {
  /** Measures its work: cpuTime. */
  work: (input: T) => Promise<number>;
}

interface Inputs<T> {
  /** Makes an input of a size, in any unit. */
  make: (size: number) => T;
  /** Ascending. The first is so large that fixed costs do not matter. */
  sizes: readonly number[];
  /** The most that double the input may cost. More than 2.2 only for CPU time, where caches and garbage matter. */
  atMost?: number;
}

/** @throws Error with the work of each size, when it grows faster */
export async function expectLinear<T>({ make, sizes, atMost = AT_MOST, ...growth }: Growth<T>): Promise<void> {
  const [work, fewest, most] = "steps" in growth ? [growth.steps, 1, 1] : [growth.work, FEWEST_RUNS, MOST_RUNS];
  const seen = sizes.map((size) => ({ size, input: make(size), work: Number.POSITIVE_INFINITY }));
  const [first, last] = [seen[0], seen.at(-1)];
  if (!first || !last || last.size < 2 * first.size) throw new Error("sizes must at least double");
  const perDoubling = () => (last.work / first.work) ** (1 / Math.log2(last.size / first.size));
  for (let run = 1; run <= most && (run <= fewest || perDoubling() > atMost); run++) {
    // The largest comes first, so that the work of the smallest includes no compiling.
    for (const one of seen.toReversed()) one.work = Math.min(one.work, await work(one.input));
  }
  const told = JSON.stringify(seen.map(({ size, work }) => ({ size, work })));
  if (!(first.work > 0)) throw new Error(`no work was counted: ${told}`);
  if (perDoubling() > atMost) throw new Error(`${perDoubling().toFixed(2)} times a doubling: ${told}`);
}

/** Measures the CPU time of this thread in microseconds, for work without countable steps, such as that of libraries. */
export async function cpuTime(run: () => unknown): Promise<number> {
  const before = process.threadCpuUsage();
  for (let times = 1; ; times++) {
    await run();
    const { user, system } = process.threadCpuUsage(before);
    if (user + system >= RESOLUTION) return (user + system) / times;
  }
}
