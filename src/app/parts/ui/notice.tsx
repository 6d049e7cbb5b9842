/** Placeholders for content that is empty, loading, or failed to load. */

import { useQuery } from "@tanstack/react-query";
import type { LucideIcon } from "lucide-react";
import { CircleAlert } from "lucide-react";
import type { ReactNode } from "react";
import { standbyQuery } from "../../lib/queries.ts";
import { useServerAway } from "../../lib/server-away.ts";
import { Button } from "./button.tsx";

export function Notice({ icon: Icon, title, children }: { icon: LucideIcon; title: string; children?: ReactNode }) {
  return (
    <div className="flex h-full flex-col items-center justify-center gap-2 px-8 py-16 text-center">
      <Icon size={26} strokeWidth={1.4} className="text-muted" aria-hidden />
      <p className="max-w-full text-lg font-medium break-words">{title}</p>
      <div className="max-w-72 text-sm text-balance text-muted">{children}</div>
    </div>
  );
}

export function Failed({ error, retry }: { error: Error; retry: () => void }) {
  return (
    <div role="alert" className="h-full">
      <Notice icon={CircleAlert} title="Could not load this">
        <p className="mb-4">{error.message}</p>
        <Button onClick={retry}>Try again</Button>
      </Notice>
    </div>
  );
}

const ROWS = ["w-3/5", "w-2/5", "w-1/2", "w-2/3", "w-2/5", "w-3/5", "w-1/2"];

/** Screen readers hear `what`. It appears late, so that quick loads do not flash it. */
export function Skeleton({ what }: { what: string }) {
  const away = useServerAway();
  return (
    <div role="status" aria-label={`Loading ${what}`} className="appear-late space-y-5 p-4">
      {away && <p className="text-sm text-muted">The server is not responding. This appears when it is back.</p>}
      {ROWS.map((width, row) => (
        // biome-ignore lint/suspicious/noArrayIndexKey: they never change places
        <div key={row} className="space-y-2">
          <div className={`h-3 rounded bg-line ${width}`} />
          <div className="h-2.5 w-11/12 rounded bg-hover" />
        </div>
      ))}
    </div>
  );
}

/**
 * Stands for the content until there is some: a placeholder, or the failure with a button to try again. Content that is
 * there stays when a later request fails, since it may hold what is typed, or a key that is shown once.
 */
export function NotLoaded({
  query: { error, refetch },
  what,
}: {
  query: { error: Error | null; refetch: () => unknown };
  what: string;
}) {
  return error ? <Failed error={error} retry={() => refetch()} /> : <Skeleton what={what} />;
}

/** Says of a standby that nothing can be changed here, how old what it shows may be, and where the server is. */
export function StandbyBanner() {
  const { data: standby } = useQuery(standbyQuery);
  if (!standby) return null;
  const behind =
    standby.behindSeconds === null
      ? "of which is not known how old it is"
      : `${Math.ceil(standby.behindSeconds)} seconds behind`;
  return (
    <p role="status" className="border-b border-line bg-notice px-4 py-2 text-sm print:hidden">
      This is a standby, {behind}. Nothing can be changed here
      {standby.url === null ? "." : ": the server is "}
      {standby.url !== null && (
        <a href={standby.url} className="underline">
          {standby.url}
        </a>
      )}
    </p>
  );
}
