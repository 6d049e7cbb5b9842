/** Shows the message of lib/toast.ts, with its Undo. */
import { X } from "lucide-react";
import { dismissToast, undoLatest, useToast } from "../lib/toast.ts";
import { IconButton } from "./button.tsx";

export function Toaster() {
  const shown = useToast();
  return (
    <div
      role="status"
      aria-live="polite"
      className="pointer-events-none fixed inset-x-0 bottom-4 z-50 flex justify-center px-4 max-md:bottom-20 print:hidden"
    >
      {shown && (
        <div
          className={`pointer-events-auto flex items-center gap-3 rounded-lg border border-line bg-raised py-1.5 pr-1.5 pl-4 text-sm shadow-lg ${shown.tone === "danger" ? "text-danger" : ""}`}
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
