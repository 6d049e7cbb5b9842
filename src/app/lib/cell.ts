/** State that several parts of the page share and that is not in the URL: a value, and a hook that follows it. */
import { useSyncExternalStore } from "react";

export function createSharedValue<T>(initial: T) {
  let value = initial;
  const listeners = new Set<() => void>();
  const get = () => value;
  const subscribe = (listener: () => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  return {
    get,
    set(next: T): void {
      value = next;
      for (const listener of listeners) listener();
    },
    /** A hook: the present value. */
    use: () => useSyncExternalStore(subscribe, get),
  };
}
