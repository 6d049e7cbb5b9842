/** A value that several parts of the page show, and that no address has: one place to keep it, and a hook that follows it. */
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
