/** Initials of a person. Screen readers skip them, since the name is always beside them. */
import { initialsOf } from "../lib/people.ts";

export function Avatar({ of }: { of: { email: string; name?: string } }) {
  return (
    <span
      aria-hidden
      className="grid size-8 shrink-0 place-items-center rounded-full bg-chosen text-xs font-semibold text-accent"
    >
      {initialsOf(of)}
    </span>
  );
}
