/** One conversation: its messages, oldest first, with actions and replies. Opening it marks it as read. */
import { useQuery } from "@tanstack/react-query";
import { Link, Navigate, useLocation, useParams } from "@tanstack/react-router";
import { ArrowLeft, X } from "lucide-react";
import { use, useEffect, useRef, useState } from "react";
import { useCommands } from "../lib/commands.ts";
import type { ThreadView } from "../lib/mail-views.ts";
import { draftMarksQuery, standbyQuery, threadQuery, useLabelColour } from "../lib/queries.ts";
import { ListContext } from "../lib/selection.ts";
import { threadActions } from "../lib/thread-actions.ts";
import { fullTime } from "../lib/time-format.ts";
import { DraftBox } from "../parts/composer/composer.tsx";
import { Replies } from "../parts/composer/replies.tsx";
import { Messages } from "../parts/thread/message-list.tsx";
import { ThreadToolbar } from "../parts/thread/thread-toolbars.tsx";
import { NotLoaded } from "../parts/ui/notice.tsx";

export function ConversationPage() {
  const { folder, threadId } = useParams({ from: "/shell/mail/$folder/$threadId" });
  // The key keeps an unfinished reply from moving to the next conversation.
  return <Conversation key={threadId} folder={folder} threadId={threadId} />;
}

function Conversation({ folder, threadId }: { folder: string; threadId: string }) {
  const query = useQuery(threadQuery(threadId));
  const { left } = use(ListContext);
  const detail = query.data;
  const unread = detail?.thread.unread ?? false;
  const { data: standby, isFetched: knowsStandby } = useQuery(standbyQuery);
  const isDraft = detail?.thread.folder === "drafts";
  const maySend = detail?.permissions.send === true && !isDraft;
  const marks = useQuery({ ...draftMarksQuery(detail?.thread.mailboxId ?? ""), enabled: isDraft });

  // Marked as read only once, at opening, so that the person can mark it as unread.
  const [seen, setSeen] = useState(false);
  /** Id of the message that a search led to. */
  const wanted = useLocation({ select: ({ hash }) => hash });
  /** Id of that message, or of the first one unread at opening; absent: the newest. */
  const [beginning, setBeginning] = useState<string>();
  const scroller = useRef<HTMLDivElement>(null);
  const [spread, setSpread] = usePrinting();
  useEffect(() => {
    if (!detail || seen || !knowsStandby) return;
    setSeen(true);
    const { messages } = detail;
    setBeginning((messages.find(({ id }) => id === wanted) ?? messages.find(({ read }) => !read))?.id);
    if (unread && !standby) void threadActions.markUnread([detail.thread], false, false);
  }, [detail, knowsStandby, seen, standby, unread, wanted]);
  useCommands([{ name: "Print", group: "Actions", run: () => setSpread(true) }]);
  const subject = detail?.thread.subject;
  useEffect(() => {
    if (subject !== undefined) document.title = `${subject || "(no subject)"} · Mailroom`;
  }, [subject]);

  if (!detail) return <NotLoaded query={query} what="the conversation" />;
  const { thread, messages, permissions } = detail;
  if (isDraft && permissions.send) {
    if (marks.isPending) return <NotLoaded query={marks} what="the draft" />;
    const held = marks.data?.held.find(({ draftId }) => draftId === threadId);
    if (held) return <Navigate to="/approve/$emailId" params={{ emailId: held.emailId }} replace />;
  }
  const begin = beginning ?? messages.at(-1)?.id;

  return (
    <article aria-labelledby="subject" className="flex h-full flex-col print:block">
      <header className="flex items-center gap-1 border-b border-line bg-panel px-3 py-1.5 max-md:px-1 print:hidden">
        <Link
          to="/mail/$folder"
          params={{ folder }}
          search={true}
          aria-label="Back to the list"
          className="grid size-10 place-items-center rounded-md text-muted hover:bg-hover lg:hidden"
        >
          <ArrowLeft size={18} aria-hidden />
        </Link>
        <div className="ml-auto lg:ml-0">
          <ThreadToolbar thread={thread} manage={permissions.manage} print={() => setSpread(true)} />
        </div>
      </header>
      <div ref={scroller} className="min-h-0 grow scroll-pt-12 overflow-y-auto print:overflow-visible">
        <div className={`@container mx-auto px-4 pt-5 pb-16 md:px-8 ${isDraft ? "max-w-320" : "max-w-208"}`}>
          <Subject subject={thread.subject || "(no subject)"} />
          <p className="mb-4 flex flex-wrap items-center gap-x-2 gap-y-1 text-sm text-muted">
            {thread.mailbox}
            {thread.labels.map((label) => (
              <Label key={label} label={label} thread={thread} manage={permissions.manage} />
            ))}
            {thread.snoozedUntil !== undefined && <span>Snoozed until {fullTime(thread.snoozedUntil)}</span>}
          </p>
          {isDraft && permissions.send ? (
            <DraftBox thread={thread} folder={folder} left={left} />
          ) : (
            <Messages
              detail={detail}
              begin={begin}
              ready={seen}
              wanted={wanted}
              isSpread={spread}
              scroller={scroller}
            />
          )}
          {maySend && <Replies detail={detail} />}
        </div>
      </div>
    </article>
  );
}

/** The heading, and a line in its place while it is scrolled out of sight. */
function Subject({ subject }: { subject: string }) {
  const heading = useRef<HTMLHeadingElement>(null);
  const [isAway, setAway] = useState(false);
  useEffect(() => {
    const observer = new IntersectionObserver(([entry]) => setAway(entry?.isIntersecting === false));
    if (heading.current) observer.observe(heading.current);
    return () => observer.disconnect();
  }, []);
  return (
    <>
      {isAway && (
        <div aria-hidden className="sticky top-0 z-20 h-0 print:hidden">
          <p
            dir="auto"
            className="-mx-4 truncate border-b border-line bg-ground px-4 py-2 text-sm font-semibold md:-mx-8 md:px-8"
          >
            {subject}
          </p>
        </div>
      )}
      <h1
        ref={heading}
        id="subject"
        dir="auto"
        className="mb-1 text-xl leading-snug font-semibold tracking-tight wrap-anywhere text-pretty"
      >
        {subject}
      </h1>
    </>
  );
}

/** A label: a link to all conversations with it, and a button to remove it. */
function Label({ label, thread, manage }: { label: string; thread: ThreadView; manage: boolean }) {
  const findLabelColour = useLabelColour(thread.mailboxId);
  return (
    <span data-colour={findLabelColour(label)} className="label-chip inline-flex max-w-64 items-center rounded text-xs">
      <Link
        to="/mail/$folder"
        params={{ folder: "all" }}
        search={({ mailbox }: { mailbox?: string }) => ({ ...(mailbox !== undefined && { mailbox }), label })}
        className="min-w-0 truncate px-1.5 hover:underline"
      >
        {label}
      </Link>
      {manage && (
        <button
          type="button"
          aria-label={`Remove label ${label}`}
          onClick={() => void threadActions.removeLabel([thread], label)}
          className="grid size-5 shrink-0 place-items-center rounded hover:bg-chosen print:hidden max-md:size-7"
        >
          <X size={11} aria-hidden />
        </button>
      )}
    </span>
  );
}

/** True while all messages are open for printing. */
function usePrinting() {
  const [spread, setSpread] = useState(false);
  useEffect(() => {
    if (!spread) return;
    const done = () => setSpread(false);
    window.addEventListener("afterprint", done);
    // The frames take a moment to load and to get their height.
    const timer = setTimeout(() => window.print(), PRINT_AFTER_MS);
    return () => {
      clearTimeout(timer);
      window.removeEventListener("afterprint", done);
    };
  }, [spread]);
  return [spread, setSpread] as const;
}

const PRINT_AFTER_MS = 600;
