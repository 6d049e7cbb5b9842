/** A modal dialog, and a button that asks for a confirmation in one. */
import { X } from "lucide-react";
import { type ButtonHTMLAttributes, type FormEvent, type ReactNode, useEffect, useId, useRef, useState } from "react";
import { Button, IconButton } from "./button.tsx";
import { Field } from "./fields.tsx";

/** A modal dialog by the browser's <dialog>, which keeps the focus inside and returns it. */
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

/**
 * A button for serious actions: a dialog tells the consequences and takes a second press, or a typed phrase as well.
 */
export function ConfirmButton({
  question,
  action,
  consequences,
  phrase,
  harmless = false,
  run,
  children,
  ...button
}: Omit<ButtonHTMLAttributes<HTMLButtonElement>, "onClick"> & {
  question: string;
  /** Label of the second button. */
  action: string;
  /** The consequences, in words for people. */
  consequences: ReactNode;
  /** Text that has to be typed first. */
  phrase?: string;
  /** True: the action destroys nothing. */
  harmless?: boolean;
  run: () => void;
}) {
  const [open, setOpen] = useState(false);
  const [typed, setTyped] = useState("");
  const close = () => {
    setOpen(false);
    setTyped("");
  };
  function confirmed(event: FormEvent): void {
    event.preventDefault();
    close();
    run();
  }
  return (
    <>
      <Button kind={harmless ? "plain" : "danger"} {...button} onClick={() => setOpen(true)}>
        {children}
      </Button>
      <Dialog open={open} close={close} title={question}>
        <form onSubmit={confirmed} className="space-y-4">
          <div className="space-y-2 text-sm text-soft">{consequences}</div>
          {phrase !== undefined && (
            <Field
              label={`Type ${phrase} to go on`}
              value={typed}
              onChange={(event) => setTyped(event.target.value)}
              autoComplete="off"
              spellCheck={false}
            />
          )}
          <div className="flex justify-end gap-2 pt-1">
            <Button onClick={close}>Cancel</Button>
            <Button
              kind={harmless ? "primary" : "destroy"}
              type="submit"
              disabled={phrase !== undefined && typed.trim() !== phrase}
            >
              {action}
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
