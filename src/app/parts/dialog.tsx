/** A modal dialog by the browser's <dialog>, which keeps the focus inside and returns it. */
import { X } from "lucide-react";
import { type ReactNode, useEffect, useId, useRef } from "react";
import { IconButton } from "./button.tsx";

export function Dialog({
  open,
  close,
  title,
  wide = false,
  children,
}: {
  open: boolean;
  close: () => void;
  title: string;
  wide?: boolean;
  /** Rendered only while the dialog is open. */
  children: ReactNode;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  const name = useId();
  useEffect(() => {
    if (open) dialog.current?.showModal();
    else dialog.current?.close();
  }, [open]);
  return (
    <dialog
      ref={dialog}
      onClose={close}
      aria-labelledby={name}
      className={`m-auto max-h-[92vh] max-w-[94vw] rounded-xl border border-line bg-raised p-5 text-ink shadow-xl backdrop:bg-black/40 ${wide ? "w-240" : "w-96"}`}
    >
      <div className="mb-3 flex items-center justify-between gap-3">
        <h2 id={name} className="min-w-0 truncate text-lg font-semibold">
          {title}
        </h2>
        <IconButton icon={X} label="Close" onClick={close} />
      </div>
      {open && children}
    </dialog>
  );
}
