/** A conversation in a list. */
import { Link } from "@tanstack/react-router";
import { Clock, Paperclip, Star } from "lucide-react";
import { useEffect, useRef } from "react";
import type { ThreadView } from "../lib/api.ts";
import { otherOf } from "../lib/people.ts";
import { fullTime, shortTime } from "../lib/time.ts";

export function ThreadRow({ thread, folder, current }: { thread: ThreadView; folder: string; current: boolean }) {
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (current) row.current?.scrollIntoView({ block: "nearest" });
  }, [current]);
  const { unread } = thread;
  return (
    <li ref={row} className="border-b border-line/70">
      <Link
        to="/mail/$folder/$threadId"
        params={{ folder, threadId: thread.id }}
        search={true}
        aria-current={current || undefined}
        className={`relative block px-4 py-2.5 -outline-offset-2 ${current ? "bg-chosen" : "hover:bg-hover"}`}
      >
        {unread && <span aria-hidden className="absolute top-4 left-1.5 size-1.5 rounded-full bg-accent" />}
        <span className="flex items-baseline gap-2">
          <span className={`min-w-0 truncate ${unread ? "font-semibold" : "text-soft"}`}>{otherOf(thread)}</span>
          {thread.messageCount > 1 && <span className="text-xs text-muted tabular-nums">{thread.messageCount}</span>}
          <span className="ml-auto flex shrink-0 items-center gap-1.5 text-xs text-muted tabular-nums">
            {thread.hasAttachments && <Paperclip size={12} aria-label="Has attachments" />}
            {thread.starred && <Star size={12} fill="currentColor" className="text-star" aria-label="Starred" />}
            {thread.snoozedUntil !== undefined && (
              <Clock size={12} aria-label={`Snoozed until ${fullTime(thread.snoozedUntil)}`} />
            )}
            <time dateTime={thread.lastMessageAt}>{shortTime(thread.lastMessageAt)}</time>
          </span>
        </span>
        <span className={`block truncate ${unread ? "font-medium" : ""}`}>
          {unread && <span className="sr-only">Unread. </span>}
          {thread.subject || "(no subject)"}
        </span>
        <span className="flex items-center gap-1.5 text-sm text-muted">
          {thread.labels.map((label) => (
            <span key={label} className="shrink-0 rounded bg-hover px-1.5 text-xs text-soft">
              {label}
            </span>
          ))}
          <span className="min-w-0 truncate">{thread.snippet}</span>
        </span>
      </Link>
    </li>
  );
}
