/** Messages that a mailbox sends later: the list, the next first, beside the open message, which is shown as it goes out. */
import { useQuery } from "@tanstack/react-query";
import { Link, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { ArrowLeft, CalendarClock, Menu as MenuIcon, UserCheck } from "lucide-react";
import { chosenMailbox, openSidebar } from "../lib/folders.ts";
import { formatAddressNames } from "../lib/format.ts";
import type { ScheduledView } from "../lib/mail-views.ts";
import { isSendingSoon } from "../lib/open-composers.ts";
import { mailboxesQuery, scheduledQuery } from "../lib/queries.ts";
import { useShortcuts } from "../lib/shortcuts.ts";
import { dayAndTime } from "../lib/time-format.ts";
import { DraftEditor } from "../parts/composer/composer.tsx";
import { IconButton } from "../parts/ui/button.tsx";
import { Failed, Notice, Skeleton } from "../parts/ui/notice.tsx";

export function ScheduledPage() {
  const { draftId: openId } = useParams({ strict: false });
  const { mailbox: asked } = useSearch({ from: "/shell/mail/scheduled" });
  const { data: mailboxes = [] } = useQuery(mailboxesQuery);
  const mailbox = chosenMailbox(mailboxes, asked);
  const list = useQuery({ ...scheduledQuery(mailbox?.id ?? ""), enabled: mailbox !== undefined });
  const scheduled = list.data ?? [];
  const navigate = useNavigate();
  const toList = () => void navigate({ to: "/mail/scheduled", search: true });
  const index = scheduled.findIndex(({ id }) => id === openId);
  const step = (by: 1 | -1) => {
    const next = scheduled[index < 0 ? 0 : index + by];
    if (next && next.emailId === null)
      void navigate({ to: "/mail/scheduled/$draftId", params: { draftId: next.id }, search: true });
  };
  useShortcuts({ j: () => step(1), k: () => step(-1), u: toList });

  return (
    <>
      <section
        aria-label="Scheduled"
        className={`flex w-full min-w-0 flex-col border-r border-line bg-panel lg:w-88 lg:shrink-0 xl:w-104 print:hidden ${openId === undefined ? "" : "max-lg:hidden"}`}
      >
        <header className="border-b border-line px-3 pt-3 pb-2">
          <div className="mb-1 flex items-center gap-1">
            <IconButton icon={MenuIcon} label="Folders" onClick={openSidebar} className="md:hidden" />
            <h1 className="min-w-0 truncate px-1 text-xl font-semibold tracking-tight">Scheduled</h1>
          </div>
        </header>
        <div id="content" tabIndex={-1} className="min-h-0 grow overflow-y-auto outline-none">
          {list.isPending && <Skeleton what="scheduled mail" />}
          {list.isError && scheduled.length === 0 && <Failed error={list.error} retry={() => list.refetch()} />}
          {list.isSuccess && scheduled.length === 0 && (
            <Notice icon={CalendarClock} title="Nothing is scheduled">
              Messages that you send later wait here until their time.
            </Notice>
          )}
          {scheduled.length > 0 && (
            <ul aria-label="Scheduled messages">
              {scheduled.map((one) => (
                <Row key={one.id} of={one} isOpen={one.id === openId} />
              ))}
            </ul>
          )}
        </div>
      </section>
      <div className={`min-w-0 grow overflow-y-auto ${openId === undefined ? "max-lg:hidden" : ""}`}>
        {openId === undefined ? (
          scheduled.length > 0 && <Notice icon={CalendarClock} title="No message selected" />
        ) : (
          <div className="mx-auto max-w-208 px-4 pt-5 pb-16 md:px-8">
            <Link
              to="/mail/scheduled"
              search={true}
              aria-label="Back to the list"
              className="mb-2 grid size-10 place-items-center rounded-md text-muted hover:bg-hover lg:hidden"
            >
              <ArrowLeft size={18} aria-hidden />
            </Link>
            <section aria-label="Scheduled message" className="flex flex-col rounded-xl border border-line bg-raised">
              <DraftEditor key={openId} draftId={openId} asksSubject close={toList} left={toList} />
            </section>
          </div>
        )}
      </div>
    </>
  );
}

function Row({ of: { id, emailId, to, cc, subject, snippet, dueAt }, isOpen }: { of: ScheduledView; isOpen: boolean }) {
  const link =
    emailId === null
      ? ({ to: "/mail/scheduled/$draftId", params: { draftId: id }, search: true } as const)
      : ({ to: "/approve/$emailId", params: { emailId } } as const);
  return (
    <li className="border-b border-line/70">
      <Link
        {...link}
        aria-current={isOpen || undefined}
        className={`block px-4 py-2.5 -outline-offset-2 ${isOpen ? "bg-chosen" : "hover:bg-hover"}`}
      >
        <span className="flex items-baseline gap-2">
          <span dir="auto" className="min-w-0 truncate font-medium">
            To {formatAddressNames([...to, ...cc]) || "nobody yet"}
          </span>
          {emailId !== null && <UserCheck size={13} className="shrink-0 text-muted" aria-label="Approved" />}
          <time dateTime={dueAt} className="ml-auto shrink-0 text-xs text-muted tabular-nums">
            {isSendingSoon(dueAt) ? "Sending…" : dayAndTime(dueAt)}
          </time>
        </span>
        <span dir="auto" className="block truncate">
          {subject || "(no subject)"}
        </span>
        <span dir="auto" className="block truncate text-sm text-muted">
          {snippet}
        </span>
      </Link>
    </li>
  );
}
