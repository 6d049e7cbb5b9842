/** A conversation in a list, to open, select and star. The browser skips the layout of rows out of sight, for speed. */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { Bot, CircleX, Clock, Hourglass, type LucideIcon, Paperclip, Star, TriangleAlert } from "lucide-react";
import { memo, useEffect, useRef } from "react";
import type { DraftMarks, ThreadView } from "../lib/api.ts";
import { otherOf } from "../lib/format.ts";
import { draftMarksQuery } from "../lib/queries.ts";
import { dayAndTime, fullTime, shortTime } from "../lib/time.ts";
import { FoundSubject, FoundText, foundMessage } from "./search-results.tsx";

export const ThreadRow = memo(function ThreadRow({
  thread,
  folder,
  current,
  selected,
  select,
  star,
}: {
  thread: ThreadView;
  folder: string;
  current: boolean;
  selected: boolean;
  select: (id: string, range: boolean) => void;
  /** Undefined where the person may not star it. */
  star: ((thread: ThreadView) => void) | undefined;
}) {
  const row = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (current) row.current?.scrollIntoView({ block: "nearest" });
  }, [current]);
  const { unread, starred } = thread;
  const subject = thread.subject || "(no subject)";
  return (
    <li
      ref={row}
      className={`relative border-b border-line/70 [contain-intrinsic-size:auto_5rem] [content-visibility:auto] ${selected ? "bg-chosen/60" : ""}`}
    >
      <label className="absolute top-0 bottom-0 left-0 z-10 flex w-9 cursor-pointer items-start justify-center pt-3.5 max-md:w-10">
        <input
          type="checkbox"
          aria-label={`Select ${subject}`}
          checked={selected}
          onChange={(event) => select(thread.id, (event.nativeEvent as MouseEvent).shiftKey === true)}
          className="size-3.5 accent-accent max-md:size-4"
        />
      </label>
      <Link
        to="/mail/$folder/$threadId"
        params={{ folder, threadId: thread.id }}
        search={true}
        hash={foundMessage(thread)}
        aria-current={current || undefined}
        className={`relative block py-2.5 pr-4 pl-9 -outline-offset-2 max-md:pl-10 ${current ? "bg-chosen" : "hover:bg-hover"}`}
      >
        {unread && (
          <span aria-hidden className="absolute top-9 left-3.75 size-1.5 rounded-full bg-accent max-md:left-4.25" />
        )}
        <span className="flex items-baseline gap-2">
          <span className={`min-w-0 truncate ${unread ? "font-semibold" : "text-soft"}`}>{otherOf(thread)}</span>
          {thread.messageCount > 1 && <span className="text-xs text-muted tabular-nums">{thread.messageCount}</span>}
          <span className="ml-auto flex shrink-0 items-center gap-1.5 text-xs text-muted tabular-nums">
            {thread.hasAttachments && <Paperclip size={12} aria-label="Has attachments" />}
            {thread.snoozedUntil !== undefined && (
              <span className="flex items-center gap-1" title={fullTime(thread.snoozedUntil)}>
                <Clock size={12} aria-hidden />
                <span className="sr-only">Snoozed until </span>
                {folder === "snoozed" && shortTime(thread.snoozedUntil)}
                {folder !== "snoozed" && <span className="sr-only">{fullTime(thread.snoozedUntil)}</span>}
              </span>
            )}
            <time dateTime={thread.lastMessageAt}>{shortTime(thread.lastMessageAt)}</time>
          </span>
        </span>
        <span className={`block truncate pr-6 ${unread ? "font-medium" : ""}`}>
          {unread && <span className="sr-only">Unread. </span>}
          <FoundSubject thread={thread} />
        </span>
        <span className="flex items-center gap-1.5 pr-6 text-sm text-muted">
          {thread.folder === "drafts" && <DraftMark thread={thread} />}
          {thread.labels.slice(0, 3).map((label) => (
            <span key={label} className="max-w-32 shrink-0 truncate rounded bg-hover px-1.5 text-xs text-soft">
              {label}
            </span>
          ))}
          {thread.labels.length > 3 && <span className="shrink-0 text-xs">+{thread.labels.length - 3}</span>}
          <span className="min-w-0 truncate">
            <FoundText thread={thread} />
          </span>
        </span>
      </Link>
      {(star || starred) && (
        <button
          type="button"
          disabled={!star}
          aria-label={`Star ${subject}`}
          aria-pressed={starred}
          onClick={() => star?.(thread)}
          className={`absolute right-2 bottom-2 grid size-7 place-items-center rounded-md hover:bg-hover max-md:size-9 ${starred ? "text-star" : "text-muted/70"}`}
        >
          <Star size={14} fill={starred ? "currentColor" : "none"} aria-hidden />
        </button>
      )}
    </li>
  );
});

/** Shows that a message is held, that an agent made a draft, that it is scheduled, or that sending it failed. */
function DraftMark({ thread: { id, mailboxId } }: { thread: ThreadView }) {
  const { data } = useQuery(draftMarksQuery(mailboxId));
  const held = data?.held.find(({ draftId }) => draftId === id);
  const mark = data?.drafts.find(({ draftId }) => draftId === id);
  const shown = held ? heldMark(held.state) : mark && draftMark(mark);
  if (!shown) return null;
  const [Icon, what] = shown;
  return (
    <span className="flex min-w-0 items-center gap-1 rounded bg-notice px-1.5 text-xs text-ink">
      <Icon size={12} className="shrink-0" aria-hidden />
      <span className="truncate">{what}</span>
    </span>
  );
}

type Marks = DraftMarks["drafts"][number];

const draftMark = ({ agent, dueAt, refused }: Marks): [LucideIcon, string] => {
  if (refused) return [TriangleAlert, "Not sent"];
  return dueAt !== null ? [Clock, `Scheduled for ${dayAndTime(dueAt)}`] : [Bot, `By agent “${agent}”`];
};

function heldMark(state: DraftMarks["held"][number]["state"]): [LucideIcon, string] {
  if (state === "rejected") return [CircleX, "Rejected"];
  return state === "approved" ? [Clock, "Approved, for later"] : [Hourglass, "Waits for approval"];
}
