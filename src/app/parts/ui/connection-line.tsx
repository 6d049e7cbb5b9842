/** The line that tells of a lost connection, and how many changes wait for it. */
import { CloudOff } from "lucide-react";
import { useEffect, useState } from "react";
import { formatCount } from "../../lib/format.ts";
import { useLiveUpdatesCutOff } from "../../lib/live-updates.ts";
import { useServerAway, useWaitingChanges } from "../../lib/server-away.ts";

/** A connection that is back sooner is not told of, unless the person acts meanwhile, ms. */
const HICCUP_MS = 4_000;

export function Connection() {
  const away = useServerAway();
  const cutOff = useLiveUpdatesCutOff();
  const waiting = useWaitingChanges();
  const lost = away || cutOff;
  const [shown, setShown] = useState(false);
  useEffect(() => {
    if (!lost) return setShown(false);
    const timer = setTimeout(() => setShown(true), navigator.onLine ? HICCUP_MS : 0);
    return () => clearTimeout(timer);
  }, [lost]);
  return (
    <div role="status" className="pointer-events-none fixed inset-x-0 top-2 z-50 flex justify-center px-4 print:hidden">
      {(waiting > 0 || shown) && (
        <p className="flex items-center gap-2 rounded-lg border border-line bg-notice px-3 py-1.5 text-sm shadow-lg">
          <CloudOff size={15} aria-hidden />
          {waiting > 0
            ? `No connection to the server. ${formatCount(waiting, "change")} will be sent when it is back.`
            : "No connection to the server. This page may be out of date."}
        </p>
      )}
    </div>
  );
}
