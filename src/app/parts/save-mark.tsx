/** Shows the state of saving. */
import type { SaveState } from "../lib/autosave.ts";

const WORDS = { untouched: "", changed: "", saving: "Saving…", saved: "Saved", conflict: "Not saved" } as const;

export function SaveMark({ state }: { state: SaveState }) {
  const failed = state.kind === "failed" || state.kind === "conflict";
  return (
    <span role="status" className={`min-w-0 truncate px-2 text-xs ${failed ? "text-danger" : "text-muted"}`}>
      {state.kind === "failed" ? `Not saved: ${state.why}` : WORDS[state.kind]}
    </span>
  );
}
