/** What happens to what is being written when its page is hidden or closed, or its composer goes. */
import { useEffect, useRef } from "react";
import type { Autosave } from "./autosave.ts";

/** What is being written, and the last saves of what was left. A save that failed stays: what it had is only in the page. */
const open = new Set<Autosave>();
const lastSaves = new Set<Promise<void>>();

/** Saves all that is or was being written. @throws Error for what could not be saved */
export async function saveEverything(): Promise<void> {
  await Promise.all([...lastSaves, ...[...open].map((autosave) => autosave.flush())]);
}

/**
 * Saves it; who closes the page before it is saved is asked. `gone` is called when the composer goes, as it last was: what
 * it returns settles with the last save.
 */
export function useLeaving(autosave: Autosave, gone: () => Promise<void>): void {
  const latest = useRef(gone);
  latest.current = gone;
  useEffect(() => {
    const ended = new AbortController();
    const { signal } = ended;
    const leave = () => void autosave.flush({ leaving: true }).catch(() => {});
    addEventListener("pagehide", leave, { signal });
    addEventListener("beforeunload", (event) => !autosave.isSettled() && event.preventDefault(), { signal });
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && leave(), { signal });
    open.add(autosave);
    return () => {
      open.delete(autosave);
      ended.abort();
      const last = latest.current();
      lastSaves.add(last);
      last.then(
        () => lastSaves.delete(last),
        () => {},
      );
    };
  }, [autosave]);
}
