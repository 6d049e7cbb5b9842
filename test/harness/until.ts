/**
 * Waits until something holds that other threads, processes or sockets bring about. Looks again each millisecond rather
 * than at each turn of the event loop, so that the core is theirs meanwhile.
 */
export async function until(holds: () => unknown): Promise<void> {
  while (!(await holds())) await Bun.sleep(1);
}
