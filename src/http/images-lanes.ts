/** Bounded work: so much at once for each key, the rest in turn, and no more waiting than somebody may wait for. */

/** Does `work` when it is its turn. @throws when too much waits for the key already; whatever `work` throws */
export type InLane = <T>(key: string, work: () => Promise<T>) => Promise<T>;

export function createLanes(width: number, mostWaiting: number): InLane {
  const lanes = new Map<string, { running: number; waiting: (() => void)[] }>();
  return async (key, work) => {
    const lane = lanes.get(key) ?? { running: 0, waiting: [] };
    lanes.set(key, lane);
    if (lane.running < width) lane.running++;
    else if (lane.waiting.length >= mostWaiting) throw new Error("too much waits already");
    // Who ends hands its place over.
    else await new Promise<void>((resolve) => lane.waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = lane.waiting.shift();
      if (next) next();
      else if (--lane.running === 0) lanes.delete(key);
    }
  };
}
