/** State that several parts of the page share and that is not in the URL: a value, and a hook that follows it. */
import { useSyncExternalStore } from "react";

export interface Cell<T> {
  get(): T;
  set(value: T): void;
  /** A hook. */
  use(): T;
}

export function cell<T>(initial: T): Cell<T> {
  let value = initial;
  const listeners = new Set<() => void>();
  const get = () => value;
  const subscribe = (listener: () => void) => {
    listeners.add(listener);
    return () => listeners.delete(listener);
  };
  return {
    get,
    set(next) {
      value = next;
      for (const listener of listeners) listener();
    },
    use: () => useSyncExternalStore(subscribe, get),
  };
}
