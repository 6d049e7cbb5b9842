/** So many at once by name (a source, an account), and so many who wait their turn. */
import { AppError } from "../base/errors.ts";

export interface Places {
  /** Runs `work` once there is a place. @throws AppError rate_limited when too many wait already */
  within<T>(name: string, work: () => Promise<T>): Promise<T>;
}

export function createPlaces({ atOnce, mostWaiting }: { atOnce: number; mostWaiting: number }): Places {
  /** How many are under way, and who waits. */
  const taken = new Map<string, { running: number; waiting: (() => void)[] }>();

  async function enter(name: string): Promise<void> {
    const places = taken.get(name) ?? { running: 0, waiting: [] };
    taken.set(name, places);
    if (places.running < atOnce) {
      places.running++;
      return;
    }
    if (places.waiting.length >= mostWaiting) {
      throw new AppError("rate_limited", "Too many sign-ins at once: try again in a moment", { retryAfter: 5 });
    }
    await new Promise<void>((resolve) => places.waiting.push(resolve));
  }

  /** Whoever waits next takes the place. */
  function leave(name: string): void {
    const places = taken.get(name);
    if (!places) return;
    const next = places.waiting.shift();
    if (next) next();
    else if (--places.running === 0) taken.delete(name);
  }

  return {
    async within(name, work) {
      await enter(name);
      try {
        return await work();
      } finally {
        leave(name);
      }
    },
  };
}
