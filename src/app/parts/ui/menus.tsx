/**
 * Menus under a button: any actions, labels, snooze. Their code (menu-overlays.tsx) is loaded when the first one is
 * opened.
 */
import { Clock, Tag } from "lucide-react";
import { type FormEvent, useState } from "react";
import { lazyOverlay } from "../../lib/lazy-part.tsx";
import { localTimeInputBounds, readLocalTime, shortTime, snoozeTimes } from "../../lib/time-format.ts";
import { Button, IconButton } from "./button.tsx";
import { Dialog } from "./dialog.tsx";
import type { LabelOverlayProps, MenuProps } from "./menu-overlays.tsx";

export const Menu = lazyOverlay<MenuProps>("menu", async () => (await import("./menu-overlays.tsx")).MenuOverlay);

const Labels = lazyOverlay<LabelOverlayProps>("dialog", async () => (await import("./menu-overlays.tsx")).LabelOverlay);

/** Adds labels to conversations and removes them. */
export function LabelMenu(props: Omit<LabelOverlayProps, "trigger">) {
  return <Labels {...props} trigger={<IconButton icon={Tag} label="Label" shortcut="l" />} />;
}

/** Menu items that call `choose` with a suggested time. */
export const suggestedTimes = (choose: (at: Date) => void): MenuProps["items"] =>
  snoozeTimes().map(({ label, at }) => ({ label, hint: shortTime(at.toISOString()), run: () => choose(at) }));

/** Snoozes until a suggested time or any other. */
export function SnoozeMenu({
  snooze,
  open,
  onOpenChange,
  className = "",
}: {
  snooze: (until: Date) => void;
  open: boolean;
  onOpenChange: (open: boolean) => void;
  className?: string;
}) {
  const [picks, setPicks] = useState(false);
  return (
    <>
      <Menu
        open={open}
        onOpenChange={onOpenChange}
        trigger={<IconButton icon={Clock} label="Snooze" shortcut="b" className={className} />}
        items={[...suggestedTimes(snooze), { label: "Pick date and time…", run: () => setPicks(true) }]}
      />
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
  const [{ least, most, initial }] = useState(() => localTimeInputBounds());
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
        It leaves the inbox until then, and comes back unread; or sooner if someone replies.
      </p>
      <Button kind="primary" type="submit" disabled={!until}>
        Snooze
      </Button>
    </form>
  );
}
