/**
 * Saves a draft while it is written: a second after a change, when a field loses the focus, and when the page closes. It
 * makes one request at a time, each with the revision that it starts from.
 *
 * Invariant: the page keeps the text until the server has confirmed it.
 */
import type { SavedDraft } from "./api.ts";
import { Refusal } from "./ask.ts";

export type SaveState =
  | { kind: "untouched" | "changed" | "saving" | "saved" }
  /** `conflict`: the draft was changed, sent or discarded elsewhere. */
  | { kind: "failed" | "conflict"; why: string };

export interface Autosave {
  /** Notes a change. */
  touch(): void;
  /**
   * Saves pending changes. Resolves with the draft, or undefined if nothing was ever written. Rejects with the refusal.
   */
  flush(options?: { leaving: boolean }): Promise<SavedDraft | undefined>;
  /** As flush, and makes a draft if there is none. */
  ensure(): Promise<SavedDraft>;
  /** Makes the next save create a new draft. */
  detach(): void;
  /** Takes over the result of a save outside of this queue. */
  adopt(draft: SavedDraft): void;
  /** Stops saving: the draft was sent or discarded. */
  end(): void;
  isSettled(): boolean;
  /** True while nothing was typed, sent or discarded. */
  isUntouched(): boolean;
  draft(): SavedDraft | undefined;
}

const AFTER_MS = 1_000;
const AGAIN_MS = 5_000;

export function createAutosave(parts: {
  saved: SavedDraft | undefined;
  /** Sends the present content to the server. */
  put(saved: SavedDraft | undefined, leaving: boolean): Promise<SavedDraft>;
  tell(state: SaveState, saved: SavedDraft | undefined): void;
}): Autosave {
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
    touch() {
      if (ended) return;
      dirty = true;
      touched = true;
      if (!running && !conflict) tell({ kind: "changed" }, saved);
      later(AFTER_MS);
    },
    flush,
    async ensure() {
      dirty ||= saved === undefined;
      const draft = await flush();
      if (!draft) throw new Error("nothing was saved");
      return draft;
    },
    detach() {
      saved = undefined;
      conflict = undefined;
      dirty = true;
    },
    adopt(draft) {
      saved = draft;
      tell({ kind: dirty ? "changed" : "saved" }, saved);
    },
    end() {
      ended = true;
      clearTimeout(timer);
    },
    isSettled: () => ended || (!dirty && !running),
    isUntouched: () => !touched && !ended,
    draft: () => saved,
  };
}
