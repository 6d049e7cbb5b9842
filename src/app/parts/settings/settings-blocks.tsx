/** Building blocks of the settings pages: heading, panel, rows, badge, and values to copy. */
import { type ReactNode, useId } from "react";
import { CopyButton } from "../ui/button.tsx";

export function SettingsPage({
  title,
  intro,
  action,
  children,
}: {
  title: string;
  intro?: ReactNode;
  /** The page's main action. */
  action?: ReactNode;
  children: ReactNode;
}) {
  return (
    <>
      <div className="flex flex-wrap items-center justify-between gap-3">
        <h1 className="min-w-0 text-2xl font-semibold tracking-tight break-words">{title}</h1>
        {action}
      </div>
      {intro !== undefined && <p className="mt-1.5 max-w-prose text-soft">{intro}</p>}
      <div className="mt-6 space-y-6">{children}</div>
    </>
  );
}

/** A box with a heading. */
export function Panel({
  title,
  about,
  action,
  children,
}: {
  title: string;
  about?: ReactNode;
  action?: ReactNode;
  children: ReactNode;
}) {
  const id = useId();
  return (
    <section aria-labelledby={id} className="rounded-xl border border-line bg-raised p-5 max-md:p-4">
      <div className="mb-4 flex flex-wrap items-start justify-between gap-x-4 gap-y-2">
        <div className="min-w-0">
          <h2 id={id} className="text-lg font-semibold break-words">
            {title}
          </h2>
          {about !== undefined && <p className="mt-0.5 max-w-prose text-sm text-muted">{about}</p>}
        </div>
        {action}
      </div>
      {children}
    </section>
  );
}

/** A list in a Panel, from edge to edge. `label`: accessible name. */
export function Rows({ label, children }: { label: string; children: ReactNode }) {
  return (
    <ul
      aria-label={label}
      className="-mx-5 divide-y divide-line border-t border-line *:px-5 *:py-3 last:-mb-5 empty:hidden max-md:-mx-4 max-md:*:px-4 max-md:last:-mb-4"
    >
      {children}
    </ul>
  );
}

/** Text for an empty list. */
export const Nothing = ({ children }: { children: ReactNode }) => <p className="text-sm text-muted">{children}</p>;

/** Why something did not work, if it did not. */
export const ErrorLine = ({ error, className = "mb-3" }: { error: Error | null; className?: string }) =>
  error && (
    <p role="alert" className={`text-sm text-danger ${className}`}>
      {error.message}
    </p>
  );

/** Details that open below their title on request. */
export function More({
  title,
  children,
  className = "mt-2",
}: {
  title: ReactNode;
  children: ReactNode;
  className?: string;
}) {
  return (
    <details className={`text-sm ${className}`}>
      <summary className="inline-block text-accent">{title}</summary>
      {children}
    </details>
  );
}

/** A row: title, facts below, and actions beside them. */
export function Facts({ title, facts, children }: { title: ReactNode; facts: ReactNode; children?: ReactNode }) {
  return (
    <div className="flex items-center gap-3 max-md:flex-wrap">
      <div className="min-w-0 grow max-md:basis-full">
        <div className="flex flex-wrap items-center gap-x-2 gap-y-1 font-medium wrap-anywhere">{title}</div>
        <div className="mt-0.5 text-sm text-muted wrap-anywhere">{facts}</div>
      </div>
      {children}
    </div>
  );
}

const TONES = {
  good: "bg-chosen text-accent",
  bad: "bg-alarm text-danger",
  warn: "bg-notice text-ink",
  quiet: "bg-hover text-soft",
} as const;

export function Badge({ tone, children }: { tone: keyof typeof TONES; children: ReactNode }) {
  return (
    <span className={`rounded-full px-2 py-0.5 text-xs font-medium whitespace-nowrap ${TONES[tone]}`}>{children}</span>
  );
}

/** A value with a button to copy it. `label`: accessible name. */
export function CopyValue({ label, value }: { label: string; value: string }) {
  return (
    <div className="flex items-center gap-1 rounded-md border border-line bg-ground pr-0.5 pl-2.5 focus-within:border-accent">
      <input
        readOnly
        aria-label={label}
        value={value}
        onFocus={(event) => event.currentTarget.select()}
        className="h-9 min-w-0 grow bg-transparent font-mono text-sm text-ellipsis"
      />
      <CopyButton label={label} value={value} kind="quiet" className="shrink-0" />
    </div>
  );
}
