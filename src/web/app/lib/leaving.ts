/** What happens to what is being written when its page is hidden or closed, or its composer goes. */
import { useEffect, useRef } from "react";
import type { Autosave } from "./autosave.ts";

/** Saves it; who closes the page before it is saved is asked. `gone` is called when the composer goes, as it last was. */
export function useLeaving(autosave: Autosave, gone: () => void): void {
  const latest = useRef(gone);
  latest.current = gone;
  useEffect(() => {
    const ended = new AbortController();
    const { signal } = ended;
    const leave = () => void autosave.flush({ leaving: true }).catch(() => {});
    addEventListener("pagehide", leave, { signal });
    addEventListener("beforeunload", (event) => !autosave.isSettled() && event.preventDefault(), { signal });
    document.addEventListener("visibilitychange", () => document.visibilityState === "hidden" && leave(), { signal });
    return () => {
      ended.abort();
      latest.current();
    };
  }, [autosave]);
}
