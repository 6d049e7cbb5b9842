/** The last row of a form: its button, and one to cancel. */
import type { ComponentProps } from "react";
import { Button } from "../ui/button.tsx";
import type { Sending } from "../ui/form.tsx";

export function SaveRow({
  action,
  sending,
  kind = "primary",
  cancel,
  atEnd = false,
}: {
  /** Label of the form's button. */
  action: string;
  sending: Sending;
  kind?: ComponentProps<typeof Button>["kind"];
  cancel?: (() => void) | undefined;
  /** True: at the end of the line, the button to cancel first. */
  atEnd?: boolean;
}) {
  const save = (
    <Button kind={kind} type="submit" disabled={sending.isPending}>
      {action}
    </Button>
  );
  const giveUp = cancel && <Button onClick={cancel}>Cancel</Button>;
  if (atEnd) {
    return (
      <div className="flex justify-end gap-2">
        {giveUp}
        {save}
      </div>
    );
  }
  if (!giveUp) return save;
  return (
    <div className="flex gap-2">
      {save}
      {giveUp}
    </div>
  );
}
