/** Snoozes until a suggested time or any other. */
import { Clock } from "lucide-react";
import { type FormEvent, useState } from "react";
import { localTime, readLocalTime, shortTime, snoozeTimes } from "../lib/time.ts";
import { Button, IconButton } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { Menu } from "./menu.tsx";
import { MenuItem } from "./menu-item.tsx";

export function SnoozeMenu({
  snooze,
  open,
  onOpenChange,
}: {
  snooze: (until: Date) => void;
  open: boolean;
  onOpenChange: (open: boolean) => void;
}) {
  const [picks, setPicks] = useState(false);
  return (
    <>
      <Menu open={open} onOpenChange={onOpenChange} trigger={<IconButton icon={Clock} label="Snooze" shortcut="b" />}>
        {snoozeTimes().map(({ label, at }) => (
          <MenuItem key={label} hint={shortTime(at.toISOString())} onSelect={() => snooze(at)}>
            {label}
          </MenuItem>
        ))}
        <MenuItem onSelect={() => setPicks(true)}>Pick date and time…</MenuItem>
      </Menu>
      <Dialog open={picks} close={() => setPicks(false)} title="Snooze until">
        <PickTime
          pick={(until) => {
            setPicks(false);
            snooze(until);
          }}
        />
      </Dialog>
    </>
  );
}

function PickTime({ pick }: { pick: (until: Date) => void }) {
  const [{ least, most, initial }] = useState(() => localTime());
  const [text, setText] = useState(initial);
  const until = readLocalTime(text);
  function submit(event: FormEvent): void {
    event.preventDefault();
    if (until) pick(until);
  }
  return (
    <form onSubmit={submit}>
      <label className="block text-sm">
        <span className="mb-1 block text-soft">Date and time</span>
        <input
          type="datetime-local"
          required
          min={least}
          max={most}
          value={text}
          onChange={(event) => setText(event.target.value)}
          className="h-9 w-full rounded-md border border-line bg-ground px-2.5"
        />
      </label>
      <p className="mt-2 mb-4 text-sm text-muted">
        It leaves the inbox until then, and comes back unread; sooner if somebody answers.
      </p>
      <Button kind="primary" type="submit" disabled={!until}>
        Snooze
      </Button>
    </form>
  );
}
