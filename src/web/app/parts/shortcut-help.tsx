/** The keyboard shortcuts, in a dialog. */
import { X } from "lucide-react";
import { useEffect, useRef } from "react";
import { SHORTCUTS } from "../lib/keys.ts";
import { IconButton } from "./button.tsx";

export function ShortcutHelp({ open, close }: { open: boolean; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return (
    <dialog
      ref={dialog}
      onClose={close}
      aria-labelledby="shortcuts"
      className="m-auto w-88 max-w-[92vw] rounded-xl border border-line bg-raised p-5 text-ink shadow-xl backdrop:bg-black/40"
    >
      <div className="mb-3 flex items-center justify-between">
        <h2 id="shortcuts" className="text-lg font-semibold">
          Keyboard shortcuts
        </h2>
        <IconButton icon={X} label="Close" onClick={close} />
      </div>
      <dl className="grid grid-cols-[auto_1fr] gap-x-5 gap-y-1.5 text-sm">
        {SHORTCUTS.map(([keys, does]) => (
          <div key={keys} className="contents">
            <dt>
              <kbd className="rounded border border-line bg-ground px-1.5 py-0.5 font-sans text-xs">{keys}</kbd>
            </dt>
            <dd className="text-soft">{does}</dd>
          </div>
        ))}
      </dl>
    </dialog>
  );
}
