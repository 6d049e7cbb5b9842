/** Parts of the composer: sender, subject, and the notice of a conflict. */
import { useId } from "react";
import { Button } from "./button.tsx";

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
        className="h-8 min-w-0 grow rounded bg-transparent px-1.5 -outline-offset-1 focus-visible:outline-1"
      />
    </div>
  );
}

/** Somebody else, or another page, changed the draft meanwhile. Both versions are kept. */
export function Conflict({ why, keep, drop }: { why: string; keep: () => void; drop: () => void }) {
  return (
    <div role="alert" className="mx-4 mb-3 rounded-lg bg-notice px-3 py-2 text-sm">
      <p>{why}. What you wrote is still here; what is attached stays with the other version.</p>
      <div className="mt-2 flex gap-2">
        <Button onClick={keep}>Save mine as another draft</Button>
        <Button onClick={drop}>Drop mine</Button>
      </div>
    </div>
  );
}
