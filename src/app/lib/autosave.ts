/**
 * Saves what is being written: some moments after each change, when it is left, and when the page is closed. One request
 * at a time, each naming the revision that it starts from.
 *
 * Invariant: what was typed is in the page until the server has said that it has it.
 */
import type { SavedDraft } from "./api.ts";
import { Refusal } from "./ask.ts";

export type SaveState =
  | { kind: "untouched" | "changed" | "saving" | "saved" }
  /** `conflict`: the draft was changed elsewhere, or is no draft any more. */
  | { kind: "failed" | "conflict"; why: string };

export interface Autosave {
  /** Something was typed. */
  touch(): void;
  /** Saves what is not saved yet. The draft, once it has everything; undefined when nothing was ever written. Rejects with the refusal. */
  flush(options?: { leaving: boolean }): Promise<SavedDraft | undefined>;
  /** The same, and there is a draft afterwards. */
  ensure(): Promise<SavedDraft>;
  /** Goes on with another draft: the present content becomes a new one at the next save. */
  detach(): void;
  /** It was saved by another way, and is this now. */
  adopt(draft: SavedDraft): void;
  /** Saves no more: it was sent or discarded. */
  end(): void;
  isSettled(): boolean;
  /** Nothing was typed since it was opened, and it is still what it was. */
  isUntouched(): boolean;
  draft(): SavedDraft | undefined;
}

const AFTER_MS = 1_000;
const AGAIN_MS = 5_000;

export function createAutosave(parts: {
  saved: SavedDraft | undefined;
  /** Puts the content, as it is when this is called. */
  put(saved: SavedDraft | undefined, leaving: boolean): Promise<SavedDraft>;
  tell(state: SaveState, saved: SavedDraft | undefined): void;
}): Autosave {
  const { put, tell } = parts;
  let { saved } = parts;
  let dirty = false;
  let touched = false;
  /** What refused the last save, where saving again would be refused as well. */
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
    // Others may have waited for the same one.
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
