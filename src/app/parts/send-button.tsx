/** Sends now or later. */
import { CalendarClock, ChevronDown } from "lucide-react";
import { useId, useState } from "react";
import { shortTime, snoozeTimes } from "../lib/time.ts";
import { Button } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import { Menu } from "./menu.tsx";
import { MenuItem } from "./menu-item.tsx";

/** Submits the form around it, or calls `later` with the chosen time. */
export function SendButton({ busy, later }: { busy: boolean; later: (at: Date) => void }) {
  const [choosing, setChoosing] = useState(false);
  const [time, setTime] = useState("");
  const id = useId();
  const at = new Date(time);

  function choose(): void {
    if (Number.isNaN(at.getTime())) return;
    setChoosing(false);
    later(at);
  }

  return (
    <div className="flex">
      <Button kind="primary" type="submit" disabled={busy} title="Send (Ctrl+Enter)" className="rounded-r-none">
        {busy ? "Sending…" : "Send"}
      </Button>
      <Menu
        trigger={
          <Button
            kind="primary"
            disabled={busy}
            aria-label="Send later"
            title="Send later"
            className="rounded-l-none border-l border-on-accent/30 px-1.5"
          >
            <ChevronDown size={15} aria-hidden />
          </Button>
        }
      >
        {snoozeTimes().map(({ label, at }) => (
          <MenuItem key={label} hint={shortTime(at.toISOString())} onSelect={() => later(at)}>
            {label}
          </MenuItem>
        ))}
        <MenuItem onSelect={() => setChoosing(true)}>
          <CalendarClock size={15} aria-hidden /> Choose a time…
        </MenuItem>
      </Menu>
      <Dialog open={choosing} close={() => setChoosing(false)} title="Send later">
        <label htmlFor={id} className="mb-1 block text-sm text-soft">
          Send at
        </label>
        <input
          id={id}
          type="datetime-local"
          value={time}
          onChange={(event) => setTime(event.target.value)}
          onKeyDown={(event) => {
            if (event.key !== "Enter") return;
            // Otherwise Enter would submit the form around it, which sends now.
            event.preventDefault();
            event.stopPropagation();
            choose();
          }}
          className="control"
        />
        <div className="mt-4 flex gap-2">
          <Button kind="primary" disabled={Number.isNaN(at.getTime())} onClick={choose}>
            Send then
          </Button>
          <Button onClick={() => setChoosing(false)}>Cancel</Button>
        </div>
      </Dialog>
    </div>
  );
}
