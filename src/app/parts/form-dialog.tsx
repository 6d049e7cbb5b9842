/** A button that opens a form in a dialog, which closes when it is done. */
import { type ReactNode, useState } from "react";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { Form, type Given, type Sending } from "./form.tsx";

export function FormDialog({
  label,
  title,
  action,
  sending,
  submit,
  children,
}: {
  /** What the button says that opens it. */
  label: ReactNode;
  title: string;
  /** What the form's button says. */
  action: string;
  sending: Sending;
  /** `done` closes it. */
  submit(given: Given, done: () => void): void;
  children: ReactNode;
}) {
  const [open, setOpen] = useState(false);
  const close = () => {
    setOpen(false);
    sending.reset();
  };
  return (
    <>
      <Button kind="primary" onClick={() => setOpen(true)}>
        {label}
      </Button>
      <Dialog open={open} close={close} title={title}>
        <Form sending={sending} submit={(given) => submit(given, close)} className="space-y-4">
          {children}
          <div className="flex justify-end gap-2 pt-1">
            <Button onClick={close}>Cancel</Button>
            <Button kind="primary" type="submit" disabled={sending.isPending}>
              {action}
            </Button>
          </div>
        </Form>
      </Dialog>
    </>
  );
}
