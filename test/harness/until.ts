/**
 * Waits for a condition that other threads, processes or sockets fulfil. Checks it each millisecond and not at each turn of the
 * event loop, so that they have the core meanwhile.
 */
export async function until(holds: () => unknown): Promise<void> {
  while (!(await holds())) await Bun.sleep(1);
}
