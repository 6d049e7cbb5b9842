/**
 * A conversation in a list, to open, select and star; under the mouse it has buttons for more. The browser skips the
 * layout of rows out of sight, for speed.
 */
import { useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import {
  Archive,
  Bot,
  CircleX,
  Clock,
  Hourglass,
  Inbox,
  type LucideIcon,
  MailOpen,
  Mails,
  Paperclip,
  PencilLine,
  Star,
  Trash2,
  TriangleAlert,
} from "lucide-react";
import { memo, useEffect, useRef, useState } from "react";
import { useCompact } from "../../lib/density.ts";
import { formatDraftRecipients, formatOtherParty } from "../../lib/format.ts";
import type { DraftMarks, ThreadView } from "../../lib/mail-views.ts";
import { draftMarksQuery, useLabelColour } from "../../lib/queries.ts";
import type { Target } from "../../lib/thread-actions.ts";
import { dayAndTime, fullTime, shortTime } from "../../lib/time-format.ts";
import { IconButton } from "../ui/button.tsx";
import { SnoozeMenu } from "../ui/menus.tsx";
import { FoundSubject, FoundText, foundMessageId } from "./search-results.tsx";

/** Actions of the buttons of a row. */
export interface RowActions {
  star: (thread: ThreadView) => void;
  move: (thread: ThreadView, to: Target) => void;
  markUnread: (thread: ThreadView, unread: boolean) => void;
  snooze: (thread: ThreadView, until: Date) => void;
}

export const ThreadRow = memo(function ThreadRow({
  thread,
  folder,
  current,
  selected,
  select,
  actions,
}: {
  thread: ThreadView;
  folder: string;
  current: boolean;
  selected: boolean;
  select: (id: string, range: boolean) => void;
  /** Undefined where the person may not change it. */
  actions: RowActions | undefined;
}) {
  const row = useRef<HTMLLIElement>(null);
  const [isUnderMouse, setUnderMouse] = useState(false);
  const isCompact = useCompact();
  useEffect(() => {
    if (current) row.current?.scrollIntoView({ block: "nearest" });
  }, [current]);
  const { unread, starred } = thread;
  const subject = thread.subject || "(no subject)";
  return (
    <li
      ref={row}
      onPointerEnter={({ pointerType }) => pointerType === "mouse" && setUnderMouse(true)}
      onPointerLeave={() => setUnderMouse(false)}
      className={`relative border-b border-line/70 [content-visibility:auto] ${isCompact ? "[contain-intrinsic-size:auto_3rem]" : "[contain-intrinsic-size:auto_5rem]"} ${selected ? "bg-chosen/60" : ""}`}
    >
      <label
        className={`absolute top-0 bottom-0 left-0 z-10 flex w-9 cursor-pointer items-start justify-center max-md:w-10 ${isCompact ? "pt-2" : "pt-3.5"}`}
      >
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
        hash={foundMessageId(thread)}
        aria-current={current || undefined}
        className={`relative block pr-4 pl-9 -outline-offset-2 max-md:pl-10 ${isCompact ? "py-1" : "py-2.5"} ${current ? "bg-chosen" : "hover:bg-hover"}`}
      >
        {unread && (
          <span
            aria-hidden
            className={`absolute left-3.75 size-1.5 rounded-full bg-accent max-md:left-4.25 ${isCompact ? "top-7.5" : "top-9"}`}
          />
        )}
        <span className="flex items-baseline gap-2">
          <span dir="auto" className={`min-w-0 truncate ${unread ? "font-semibold" : "text-soft"}`}>
            {thread.folder === "drafts" ? <Recipients thread={thread} /> : formatOtherParty(thread)}
          </span>
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
        {isCompact ? (
          <span className="flex items-center gap-1.5 pr-6 text-sm text-muted">
            {unread && <span className="sr-only">Unread. </span>}
            <DraftMark thread={thread} />
            <Labels thread={thread} most={1} />
            <span dir="auto" className="min-w-0 truncate">
              <span className={unread ? "font-medium text-ink" : "text-soft"}>
                <FoundSubject thread={thread} />
              </span>
              {"  "}
              <FoundText thread={thread} />
            </span>
          </span>
        ) : (
          <>
            <span dir="auto" className={`block truncate pr-6 ${unread ? "font-medium" : ""}`}>
              {unread && <span className="sr-only">Unread. </span>}
              <FoundSubject thread={thread} />
            </span>
            <span className="flex items-center gap-1.5 pr-6 text-sm text-muted">
              <DraftMark thread={thread} />
              <Labels thread={thread} most={3} />
              <span dir="auto" className="min-w-0 grow truncate">
                <FoundText thread={thread} />
              </span>
            </span>
          </>
        )}
      </Link>
      {actions && <Actions thread={thread} actions={actions} isShown={isUnderMouse} />}
      {(actions || starred) && (
        <button
          type="button"
          disabled={!actions}
          aria-label={`Star ${subject}`}
          aria-pressed={starred}
          onClick={() => actions?.star(thread)}
          className={`absolute right-2 grid size-7 place-items-center rounded-md hover:bg-hover max-md:size-9 ${isCompact ? "bottom-0" : "bottom-2"} ${starred ? "text-star" : "text-muted/70"}`}
        >
          <Star size={14} fill={starred ? "currentColor" : "none"} aria-hidden />
        </button>
      )}
    </li>
  );
});

/** Buttons over the row, for the mouse; keys and the toolbar of the selection do the same. */
function Actions({ thread, actions, isShown }: { thread: ThreadView; actions: RowActions; isShown: boolean }) {
  const [isSnoozing, setSnoozing] = useState(false);
  if (!isShown && !isSnoozing) return null;
  const { folder, unread } = thread;
  const isGone = folder === "trash" || folder === "spam";
  const isDraft = folder === "drafts";
  const small = "size-7";
  return (
    <div className="absolute top-1 right-2 flex rounded-md bg-raised shadow-sm">
      {!isDraft && !isGone && folder !== "archive" && (
        <IconButton icon={Archive} label="Archive" className={small} onClick={() => actions.move(thread, "archive")} />
      )}
      {(isGone || folder === "archive") && (
        <IconButton
          icon={Inbox}
          label={folder === "spam" ? "Not spam" : "Move to inbox"}
          className={small}
          onClick={() => actions.move(thread, "inbox")}
        />
      )}
      {!isGone && (
        <IconButton
          icon={Trash2}
          label="Move to trash"
          className={small}
          onClick={() => actions.move(thread, "trash")}
        />
      )}
      {!isDraft && (
        <IconButton
          icon={unread ? MailOpen : Mails}
          label={unread ? "Mark as read" : "Mark as unread"}
          className={small}
          onClick={() => actions.markUnread(thread, !unread)}
        />
      )}
      {!isDraft && !isGone && (
        <SnoozeMenu
          open={isSnoozing}
          onOpenChange={setSnoozing}
          snooze={(until) => actions.snooze(thread, until)}
          className={small}
        />
      )}
    </div>
  );
}

function Labels({ thread: { labels, mailboxId }, most }: { thread: ThreadView; most: number }) {
  const findLabelColour = useLabelColour(mailboxId);
  return (
    <>
      {labels.slice(0, most).map((label) => (
        <span
          key={label}
          data-colour={findLabelColour(label)}
          className="label-chip max-w-32 shrink-0 truncate rounded px-1.5 text-xs"
        >
          <bdi>{label}</bdi>
        </span>
      ))}
      {labels.length > most && <span className="shrink-0 text-xs">+{labels.length - most}</span>}
    </>
  );
}

function Recipients({ thread }: { thread: ThreadView }) {
  const { data } = useQuery(draftMarksQuery(thread.mailboxId));
  const draft = data?.drafts.find(({ draftId }) => draftId === thread.id);
  return draft ? formatDraftRecipients(draft) : formatOtherParty(thread);
}

/**
 * Shows of a draft that it is held, made by an agent, scheduled, or could not be sent; and of a conversation, that a
 * draft or a message that waits answers it.
 */
function DraftMark({ thread: { id, mailboxId, folder } }: { thread: ThreadView }) {
  const { data } = useQuery(draftMarksQuery(mailboxId));
  const shown = data && (folder === "drafts" ? markOfDraft(data, id) : markOfAnswered(data, id));
  if (!shown) return null;
  const [Icon, what] = shown;
  return (
    <span className="flex min-w-0 shrink-0 items-center gap-1 rounded bg-notice px-1.5 text-xs text-ink">
      <Icon size={12} className="shrink-0" aria-hidden />
      <span className="truncate">{what}</span>
    </span>
  );
}

function markOfDraft({ held, drafts }: DraftMarks, id: string): [LucideIcon, string] | undefined {
  const hold = held.find(({ draftId }) => draftId === id);
  if (hold) return heldMark(hold.state);
  const { agent, dueAt, refused } = drafts.find(({ draftId }) => draftId === id) ?? {};
  if (refused) return [TriangleAlert, "Not sent"];
  if (dueAt) return [Clock, `Scheduled for ${dayAndTime(dueAt)}`];
  return agent ? [Bot, `By agent “${agent}”`] : undefined;
}

function markOfAnswered({ held, drafts }: DraftMarks, id: string): [LucideIcon, string] | undefined {
  const hold = held.find(({ answers, state }) => answers === id && state !== "rejected");
  if (hold) return heldMark(hold.state);
  const draft = drafts.find(({ answers, agent }) => answers === id && agent !== null);
  if (draft) return [Bot, "Agent’s draft"];
  return drafts.some(({ answers }) => answers === id) ? [PencilLine, "Draft"] : undefined;
}

function heldMark(state: DraftMarks["held"][number]["state"]): [LucideIcon, string] | undefined {
  if (state === "rejected") return [CircleX, "Rejected"];
  return state === "approved" ? [Clock, "Approved, for later"] : [Hourglass, "Waits for approval"];
}
