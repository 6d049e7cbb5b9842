/** Saves open drafts when the page is hidden or closed, or the composer unmounts. */
import { useEffect, useRef } from "react";
import type { Autosave } from "./autosave.ts";

/** Open drafts, and the last saves of closed ones. A failed save stays here, since only the page has its content. */
const open = new Set<Autosave>();
const lastSaves = new Set<Promise<void>>();

/** Saves all drafts, and waits for the last saves of closed ones. @throws Error if a save failed */
export async function saveEverything(): Promise<void> {
  await Promise.all([...lastSaves, ...[...open].map((autosave) => autosave.flush())]);
}

/**
 * Saves the draft when the page is hidden or closed; the browser asks before it closes a page with unsaved changes. `gone` is
 * called when the composer unmounts; its promise settles with the last save.
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
