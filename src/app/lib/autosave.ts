/**
 * Saves a draft while it is written: a second after a change, when a field loses the focus, and when the page is hidden
 * or closed. It makes one request at a time, each with the revision that it starts from.
 *
 * Invariant: the page keeps the text until the server has confirmed it.
 */
import { useEffect, useRef } from "react";
import { Refusal } from "./api-client.ts";
import type { SavedDraft } from "./mail-views.ts";

export type SaveState =
  | { kind: "untouched" | "changed" | "saving" | "saved" }
  /** `conflict`: the draft was changed, sent or discarded elsewhere. */
  | { kind: "failed" | "conflict"; why: string };

const AFTER_MS = 1_000;
const AGAIN_MS = 5_000;

/** Saves one draft. `saved`: the draft, if it was saved before. `tell` is called at each change of the state. */
export function createAutosave(parts: {
  saved: SavedDraft | undefined;
  /** Sends the present content to the server. */
  put(saved: SavedDraft | undefined, leaving: boolean): Promise<SavedDraft>;
  tell(state: SaveState, saved: SavedDraft | undefined): void;
}) {
  const { put, tell } = parts;
  let { saved } = parts;
  let dirty = false;
  let touched = false;
  /** The refusal of the last save, if the server would refuse the next as well. */
  let conflict: Error | undefined;
  let ended = false;
  let running: Promise<void> | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;

  function later(ms: number): void {
    clearTimeout(timer);
    if (!ended && !conflict) timer = setTimeout(() => void flush().catch(() => {}), ms);
  }

  async function save(leaving: boolean): Promise<void> {
    dirty = false;
    tell({ kind: "saving" }, saved);
    try {
      saved = await put(saved, leaving);
      tell({ kind: dirty ? "changed" : "saved" }, saved);
    } catch (error) {
      dirty = true;
      const gone = error instanceof Refusal && error.status === 404 && saved !== undefined;
      const why = gone ? "This draft was sent or discarded elsewhere" : (error as Error).message;
      conflict = gone || (error instanceof Refusal && error.status === 409) ? new Error(why) : undefined;
      tell({ kind: conflict ? "conflict" : "failed", why }, saved);
      if (error instanceof Refusal && (error.status === 0 || error.status >= 500)) later(AGAIN_MS);
      throw error;
    }
  }

  /** Saves pending changes. Resolves with the draft, or undefined if nothing was ever written. @throws Refusal */
  async function flush({ leaving } = { leaving: false }): Promise<SavedDraft | undefined> {
    clearTimeout(timer);
    await running?.catch(() => {});
    // Another caller that waited for the same save may have begun the next.
    if (running) return flush({ leaving });
    if (ended || !dirty) return saved;
    if (conflict) throw conflict;
    running = save(leaving).finally(() => {
      running = undefined;
    });
    await running;
    return dirty ? flush({ leaving }) : saved;
  }

  return {
    /** Notes a change. */
    touch() {
      if (ended) return;
      dirty = true;
      touched = true;
      if (!running && !conflict) tell({ kind: "changed" }, saved);
      later(AFTER_MS);
    },
    flush,
    /** Saves like flush, and makes a draft if there is none. */
    async ensure() {
      dirty ||= saved === undefined;
      const draft = await flush();
      if (!draft) throw new Error("nothing was saved");
      return draft;
    },
    /** Makes the next save create a new draft. */
    detach() {
      saved = undefined;
      conflict = undefined;
      dirty = true;
    },
    /** Takes over the result of a save outside of this queue. */
    adopt(draft: SavedDraft) {
      saved = draft;
      tell({ kind: dirty ? "changed" : "saved" }, saved);
    },
    /** Begins no further save: the draft was sent or discarded. */
    end() {
      ended = true;
      clearTimeout(timer);
    },
    isSettled: () => ended || (!dirty && !running),
    /** True while nothing was typed, sent or discarded. */
    isUntouched: () => !touched && !ended,
    draft: () => saved,
  };
}

type Autosave = ReturnType<typeof createAutosave>;

/** Open drafts, and the last saves of closed ones. A failed save stays here, since only the page has its content. */
const open = new Set<Autosave>();
const lastSaves = new Set<Promise<void>>();

/** Saves all drafts, and waits for the last saves of closed ones. @throws Error if a save failed */
export async function saveAllDrafts(): Promise<void> {
  await Promise.all([...lastSaves, ...[...open].map((autosave) => autosave.flush())]);
}

/**
 * Saves the draft when the page is hidden or closed; the browser asks before it closes a page with unsaved changes.
 * `gone` is called when the composer unmounts; its promise settles with the last save.
 */
export function useSaveOnLeaving(autosave: Autosave, gone: () => Promise<void>): void {
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
