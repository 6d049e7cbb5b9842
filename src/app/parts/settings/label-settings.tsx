/** The menu of a label of a mailbox: its colour, its name, and its removal. */
import { Ban, Circle, EllipsisVertical, PencilLine, Trash2 } from "lucide-react";
import { type FormEvent, useState } from "react";
import { api } from "../../lib/api-client.ts";
import { formatCount } from "../../lib/format.ts";
import type { LabelColour } from "../../lib/mail-views.ts";
import { refreshMail } from "../../lib/queries.ts";
import { toast, toastFailure } from "../../lib/toast.ts";
import { Button, IconButton } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Field } from "../ui/fields.tsx";
import { Menu } from "../ui/menus.tsx";

const COLOURS: Record<LabelColour, string> = {
  red: "Red",
  orange: "Orange",
  yellow: "Yellow",
  green: "Green",
  teal: "Teal",
  blue: "Blue",
  purple: "Purple",
  pink: "Pink",
};
/** Characters. */
const LONGEST_LABEL = 60;

export function LabelSettings({
  mailboxId,
  label,
  renamed,
  removed,
}: {
  mailboxId: string;
  label: string;
  /** Called with the new name. */
  renamed: (name: string) => void;
  removed: () => void;
}) {
  const [asked, setAsked] = useState<"rename" | "remove">();
  const [name, setName] = useState(label);
  const [busy, setBusy] = useState(false);

  async function change(work: () => Promise<void>): Promise<void> {
    setBusy(true);
    try {
      await work();
      setAsked(undefined);
    } catch (error) {
      toastFailure(error);
    } finally {
      setBusy(false);
      refreshMail();
    }
  }
  const paint = (colour: LabelColour | null) =>
    void change(async () => void (await api.changeLabel({ label, mailbox: mailboxId, colour })));
  function rename(event: FormEvent): void {
    event.preventDefault();
    void change(async () => {
      await api.changeLabel({ label, mailbox: mailboxId, name: name.trim() });
      renamed(name.trim());
      toast({ text: `Label renamed to ${name.trim()}` });
    });
  }
  const remove = () =>
    void change(async () => {
      const { threads } = await api.removeLabel({ label, mailbox: mailboxId });
      removed();
      toast({ text: `Label ${label} removed from ${formatCount(threads, "conversation")}` });
    });

  return (
    <>
      <Menu
        trigger={
          <IconButton
            icon={EllipsisVertical}
            label={`Change label ${label}`}
            className="absolute top-0.5 right-0.5 size-7! opacity-0 group-focus-within:opacity-100 group-hover:opacity-100 aria-expanded:opacity-100 max-md:top-0 max-md:size-10! max-md:opacity-100"
          />
        }
        items={[
          ...Object.entries(COLOURS).map(([colour, text]) => ({
            label: text,
            icon: Circle,
            colour,
            run: () => paint(colour as LabelColour),
          })),
          { label: "No colour", icon: Ban, run: () => paint(null) },
          {
            label: "Rename…",
            icon: PencilLine,
            run: () => {
              setName(label);
              setAsked("rename");
            },
          },
          { label: "Delete label…", icon: Trash2, run: () => setAsked("remove") },
        ]}
      />
      <Dialog open={asked === "rename"} close={() => setAsked(undefined)} title={`Rename ${label}`}>
        <form onSubmit={rename} className="space-y-4">
          <Field
            label="Name"
            value={name}
            maxLength={LONGEST_LABEL}
            required
            autoComplete="off"
            onChange={(event) => setName(event.target.value)}
            hint="All conversations of this mailbox that have the label get the new name."
          />
          <div className="flex gap-2">
            <Button kind="primary" type="submit" disabled={busy || name.trim() === ""}>
              Rename
            </Button>
            <Button onClick={() => setAsked(undefined)}>Cancel</Button>
          </div>
        </form>
      </Dialog>
      <Dialog open={asked === "remove"} close={() => setAsked(undefined)} title={`Delete ${label}?`}>
        <p className="mb-4 text-sm text-soft">
          All conversations of this mailbox lose the label. The conversations themselves stay.
        </p>
        <div className="flex gap-2">
          <Button kind="destroy" disabled={busy} onClick={remove}>
            Delete label
          </Button>
          <Button onClick={() => setAsked(undefined)}>Cancel</Button>
        </div>
      </Dialog>
    </>
  );
}
