/** A button to add something to a list, with its form in a dialog. */
import { type LucideIcon, Plus } from "lucide-react";
import { type ReactNode, useState } from "react";
import { Button } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Form, type Given, type Sending } from "../ui/form.tsx";
import { SaveRow } from "./save-row.tsx";

export function AddDialog({
  title,
  icon: Icon = Plus,
  action,
  sending,
  submit,
  children,
}: {
  /** Title of the dialog, and label of the button that opens it. */
  title: string;
  icon?: LucideIcon;
  /** Label of the form's button. */
  action: string;
  sending: Sending;
  /** `done` closes the dialog. */
  submit(given: Given, done: () => void): void;
  /** The fields. */
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
        <Icon size={16} aria-hidden /> {title}
      </Button>
      <Dialog open={open} close={close} title={title}>
        <Form sending={sending} submit={(given) => submit(given, close)} className="space-y-4">
          {children}
          <div className="pt-1">
            <SaveRow action={action} sending={sending} cancel={close} atEnd />
          </div>
        </Form>
      </Dialog>
    </>
  );
}
