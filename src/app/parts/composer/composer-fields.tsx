/**
 * Parts of the composer: sender, subject, text, the button to send, the state of saving, and the notice of a conflict.
 */
import { CalendarClock, ChevronDown } from "lucide-react";
import { type RefObject, useEffect, useId, useState } from "react";
import type { SaveState } from "../../lib/autosave.ts";
import { localTimeInputBounds, timeZone } from "../../lib/time-format.ts";
import { Button } from "../ui/button.tsx";
import { Dialog } from "../ui/dialog.tsx";
import { Menu, suggestedTimes } from "../ui/menus.tsx";

export function FromField({
  value,
  senders,
  change,
}: {
  value: string;
  senders: readonly string[];
  change: (value: string) => void;
}) {
  const id = useId();
  return (
    <div className="flex min-w-0 items-center gap-2 py-0.5">
      <label htmlFor={id} className="w-14 shrink-0 text-sm text-muted">
        From
      </label>
      <select
        id={id}
        value={value}
        onChange={(event) => change(event.target.value)}
        className="h-8 w-full rounded bg-transparent px-0.5 -outline-offset-1 focus-visible:outline-1"
      >
        {senders.map((sender) => (
          <option key={sender} className="bg-raised">
            {sender}
          </option>
        ))}
      </select>
    </div>
  );
}

export function SubjectField({
  value,
  change,
  left,
}: {
  value: string;
  change: (value: string) => void;
  left: () => void;
}) {
  const id = useId();
  return (
    <div className="flex min-w-0 items-center gap-2 py-0.5">
      <label htmlFor={id} className="w-14 shrink-0 text-sm text-muted">
        Subject
      </label>
      <input
        id={id}
        value={value}
        onChange={(event) => change(event.target.value)}
        onBlur={left}
        maxLength={10_000}
        autoComplete="off"
        dir="auto"
        className="h-8 min-w-0 grow rounded bg-transparent px-1.5 -outline-offset-1 focus-visible:outline-1"
      />
    </div>
  );
}

/** Somebody else, or another page, changed the draft meanwhile. Both versions are kept. */
export function Conflict({ why, keep, drop }: { why: string; keep: () => void; drop: () => void }) {
  return (
    <div role="alert" className="mx-4 mb-3 rounded-lg bg-notice px-3 py-2 text-sm">
      <p>{why}. Your text is still here; the attachments stay with the other version.</p>
      <div className="mt-2 flex gap-2">
        <Button onClick={keep}>Save mine as another draft</Button>
        <Button onClick={drop}>Discard mine</Button>
      </div>
    </div>
  );
}

/** Edits the text of a message. The quotation is folded at first. */
export function TextEditor({
  area,
  text,
  change,
  left,
  quote,
  unfold,
  autoFocus,
}: {
  area: RefObject<HTMLTextAreaElement | null>;
  text: string;
  change: (text: string) => void;
  left: () => void;
  /** Quotation below the text. */
  quote: string | undefined;
  /** Lets the quotation be edited. */
  unfold: () => void;
  autoFocus: boolean;
}) {
  // Above a signature.
  useEffect(() => {
    if (autoFocus) area.current?.setSelectionRange(0, 0);
  }, [area, autoFocus]);
  return (
    <>
      <textarea
        ref={area}
        aria-label="Message"
        dir="auto"
        value={text}
        onChange={(event) => change(event.target.value)}
        onBlur={left}
        // biome-ignore lint/a11y/noAutofocus: a reply starts with its text
        autoFocus={autoFocus}
        className="min-h-44 w-full grow resize-none bg-transparent px-4 py-3 text-base leading-relaxed -outline-offset-1 focus-visible:outline-1"
      />
      {quote !== undefined && (
        <p className="px-1 pb-3">
          <Button kind="quiet" onClick={unfold}>
            Show quoted text
          </Button>
        </p>
      )}
    </>
  );
}

/** Sends now, by submitting the form around it, or later, by calling `later` with the chosen time. */
export function SendButton({ busy, later }: { busy: boolean; later: (at: Date) => void }) {
  const [choosing, setChoosing] = useState(false);
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
        items={[
          ...suggestedTimes(later),
          { label: "Choose a time…", icon: CalendarClock, run: () => setChoosing(true) },
        ]}
      />
      <SendTime open={choosing} close={() => setChoosing(false)} choose={later} />
    </div>
  );
}

/** Asks when to send. */
export function SendTime({ open, close, choose }: { open: boolean; close: () => void; choose: (at: Date) => void }) {
  const [{ least, most, initial }] = useState(localTimeInputBounds);
  const [time, setTime] = useState(initial);
  const id = useId();
  const at = new Date(time);
  const isTime = !Number.isNaN(at.getTime());
  function chosen(): void {
    if (!isTime) return;
    close();
    choose(at);
  }
  return (
    <Dialog open={open} close={close} title="Send later">
      <label htmlFor={id} className="mb-1 block text-sm text-soft">
        Send at
      </label>
      <input
        id={id}
        type="datetime-local"
        min={least}
        max={most}
        value={time}
        onChange={(event) => setTime(event.target.value)}
        onKeyDown={(event) => {
          if (event.key !== "Enter") return;
          // Otherwise Enter would submit the form around it, which sends now.
          event.preventDefault();
          event.stopPropagation();
          chosen();
        }}
        className="control w-full"
      />
      <p className="mt-2 text-sm text-muted">Your time zone: {timeZone()}</p>
      <div className="mt-4 flex gap-2">
        <Button kind="primary" disabled={!isTime} onClick={chosen}>
          Send then
        </Button>
        <Button onClick={close}>Cancel</Button>
      </div>
    </Dialog>
  );
}

/** Asks whether to send all the same. */
export function Doubts({
  doubts,
  back,
  send,
}: {
  /** Empty: it is closed. */
  doubts: readonly string[];
  back: () => void;
  send: () => void;
}) {
  return (
    <Dialog open={doubts.length > 0} close={back} title="Send it like this?">
      {doubts.map((doubt) => (
        <p key={doubt} className="mb-2 text-sm text-soft">
          {doubt}
        </p>
      ))}
      <div className="mt-4 flex gap-2">
        <Button onClick={back}>Go back</Button>
        <Button kind="primary" onClick={send}>
          Send anyway
        </Button>
      </div>
    </Dialog>
  );
}

const WORDS = { untouched: "", changed: "", saving: "Saving…", saved: "Saved", conflict: "Not saved" } as const;

/** Shows the state of saving. */
export function SaveMark({ state }: { state: SaveState }) {
  const failed = state.kind === "failed" || state.kind === "conflict";
  return (
    <span role="status" className={`min-w-0 truncate px-2 text-xs ${failed ? "text-danger" : "text-muted"}`}>
      {state.kind === "failed" ? `Not saved: ${state.why}` : WORDS[state.kind]}
    </span>
  );
}
