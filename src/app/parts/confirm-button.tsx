/** A button for serious actions: a dialog tells the consequences and takes a second press, or a typed phrase as well. */
import { type ButtonHTMLAttributes, type FormEvent, type ReactNode, useState } from "react";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { Field } from "./field.tsx";

export function ConfirmButton({
  question,
  deed,
  told,
  phrase,
  harmless = false,
  run,
  children,
  ...button
}: Omit<ButtonHTMLAttributes<HTMLButtonElement>, "onClick"> & {
  question: string;
  /** Label of the second button. */
  deed: string;
  /** The consequences, in words for people. */
  told: ReactNode;
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
          <div className="space-y-2 text-sm text-soft">{told}</div>
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
              {deed}
            </Button>
          </div>
        </form>
      </Dialog>
    </>
  );
}
