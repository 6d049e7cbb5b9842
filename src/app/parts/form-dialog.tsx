/** A button that opens a form in a dialog. */
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
  /** Label of the button that opens it. */
  label: ReactNode;
  title: string;
  /** Label of the form's button. */
  action: string;
  sending: Sending;
  /** `done` closes the dialog. */
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
