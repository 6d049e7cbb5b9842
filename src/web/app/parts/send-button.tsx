/** Send, now or later. */
import { CalendarClock, ChevronDown } from "lucide-react";
import { type FormEvent, useRef } from "react";
import { shortTime, snoozeTimes } from "../lib/time.ts";
import { Button } from "./button.tsx";
import { Menu, MenuItem } from "./menu.tsx";

/** Within a form, which it submits. `later` is given a time in the future. */
export function SendButton({ busy, later }: { busy: boolean; later: (at: Date) => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  const time = useRef<HTMLInputElement>(null);

  function choose(event: FormEvent): void {
    event.preventDefault();
    const at = new Date(time.current?.value ?? "");
    dialog.current?.close();
    if (!Number.isNaN(at.getTime())) later(at);
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
        <MenuItem onSelect={() => dialog.current?.showModal()}>
          <CalendarClock size={15} aria-hidden /> Choose a time…
        </MenuItem>
      </Menu>
      <dialog
        ref={dialog}
        aria-label="Send later"
        className="m-auto rounded-xl border border-line bg-raised p-5 text-ink backdrop:bg-black/40"
      >
        <label className="block text-sm">
          <span className="mb-1 block text-soft">Send at</span>
          <input ref={time} type="datetime-local" className="h-9 rounded-md border border-line bg-raised px-2.5" />
        </label>
        <div className="mt-4 flex gap-2">
          <Button kind="primary" onClick={choose}>
            Send then
          </Button>
          <Button onClick={() => dialog.current?.close()}>Cancel</Button>
        </div>
      </dialog>
    </div>
  );
}
