/** The keyboard shortcuts, in a dialog. */
import { SHORTCUTS } from "../lib/keys.ts";
import { Dialog } from "./dialog.tsx";

export function ShortcutHelp({ open, close }: { open: boolean; close: () => void }) {
  return (
    <Dialog open={open} close={close} title="Keyboard shortcuts" wide>
      <div className="columns-1 gap-8 sm:columns-2 lg:columns-3">
        {SHORTCUTS.map(({ name, shortcuts }) => (
          <section key={name} className="mb-4 break-inside-avoid">
            <h3 className="mb-1.5 text-sm font-medium text-muted">{name}</h3>
            <dl className="grid grid-cols-[auto_1fr] gap-x-4 gap-y-1.5 text-sm">
              {shortcuts.map(([keys, does]) => (
                <div key={keys} className="contents">
                  <dt>
                    <kbd className="rounded border border-line bg-ground px-1.5 py-0.5 font-sans text-xs whitespace-nowrap">
                      {keys}
                    </kbd>
                  </dt>
                  <dd className="text-soft">{does}</dd>
                </div>
              ))}
            </dl>
          </section>
        ))}
      </div>
      <p className="text-xs text-muted">None of them acts while you type.</p>
    </Dialog>
  );
}
