/** Small drawings: the logo, a person's initials, and a meter of use. */
import { addressInitials } from "../../lib/format.ts";

/** The app's logo, as its favicon (src/http/pages.ts), in the page's colours. */
export function Mark({ className }: { className: string }) {
  return (
    <svg viewBox="0 0 32 32" className={className} aria-hidden="true">
      <rect width="32" height="32" rx="8" className="fill-accent" />
      <g className="stroke-on-accent" fill="none" strokeWidth="2.2" strokeLinecap="round" strokeLinejoin="round">
        <rect x="7.5" y="9" width="17" height="14" rx="2" />
        <path d="m8 10.5 8 6.5 8-6.5" />
      </g>
    </svg>
  );
}

/** Initials of a person. Screen readers skip them, since the name is always beside them. */
export function Avatar({ of }: { of: { email: string; name?: string } }) {
  return (
    <span
      aria-hidden
      className="grid size-8 shrink-0 place-items-center rounded-full bg-chosen text-xs font-semibold text-accent"
    >
      {addressInitials(of)}
    </span>
  );
}

/** A meter of use. `label`: accessible name. */
export function UseBar({ label, used, of }: { label: string; used: number; of: number }) {
  return (
    <meter
      aria-label={label}
      className="use-bar"
      min={0}
      max={Math.max(of, 1)}
      high={Math.max(of, 1) * 0.9}
      optimum={0}
      value={used}
    />
  );
}
