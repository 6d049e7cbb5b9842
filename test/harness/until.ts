/**
 * Waits for a condition that other threads, processes or sockets fulfil. Checks it each millisecond and not at each turn of the
 * event loop, so that they have the core meanwhile.
 */
export async function until(holds: () => unknown): Promise<void> {
  while (!(await holds())) await Bun.sleep(1);
}

/** Waits for conditions that are checked at each call of `changed`. */
export function whenChanged() {
  const looks = new Set<() => void>();
  return {
    changed(): void {
      for (const look of looks) look();
    },
    until: (holds: () => boolean): Promise<void> =>
      new Promise((resolve) => {
        const look = () => {
          if (!holds()) return;
          looks.delete(look);
          resolve();
        };
        looks.add(look);
        look();
      }),
  };
}
