/** Shows the message of lib/toast.ts, with its Undo, in a row of its own below the page, where it covers nothing. */
import { X } from "lucide-react";
import { dismissToast, undoLatest, useToast } from "../../lib/toast.ts";
import { IconButton } from "./button.tsx";

export function Toaster() {
  const shown = useToast();
  return (
    <div role="status" aria-live="polite" className="flex shrink-0 justify-center bg-ground px-4 print:hidden">
      {shown && (
        <div
          className={`my-1.5 flex max-w-full items-center gap-3 rounded-lg border border-line bg-raised py-1 pr-1 pl-4 text-sm ${shown.tone === "danger" ? "text-danger" : ""}`}
        >
          <span>{shown.text}</span>
          {shown.undo && (
            <button
              type="button"
              onClick={undoLatest}
              className="rounded px-2 py-1 font-medium text-accent hover:bg-hover"
            >
              Undo
            </button>
          )}
          <IconButton icon={X} label="Dismiss" onClick={dismissToast} className="size-7" />
        </div>
      )}
    </div>
  );
}
