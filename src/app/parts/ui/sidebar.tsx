/** Mailboxes, folders and labels. On a phone the sidebar covers the list, and is opened from there. */
import { useQuery } from "@tanstack/react-query";
import { Link, useLocation, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import {
  Bot,
  CalendarClock,
  ChevronsUpDown,
  Hourglass,
  Keyboard,
  LogOut,
  PenLine,
  Rows3,
  Search,
  Settings,
  Tag,
} from "lucide-react";
import { Fragment, useEffect, useState } from "react";
import { api, Refusal } from "../../lib/api-client.ts";
import { saveAllDrafts } from "../../lib/autosave.ts";
import { openPalette, useCommands } from "../../lib/commands.ts";
import { toggleDensity, useCompact } from "../../lib/density.ts";
import { chosenMailbox, closeSidebar, FOLDERS, useSidebar } from "../../lib/folders.ts";
import { formatByteSize, formatCount } from "../../lib/format.ts";
import type { MailboxView } from "../../lib/mail-views.ts";
import { openNewMessage } from "../../lib/open-composers.ts";
import {
  approvalsQuery,
  draftMarksQuery,
  labelsQuery,
  meQuery,
  scheduledQuery,
  unreadQuery,
  usageQuery,
} from "../../lib/queries.ts";
import { forgetSearches } from "../../lib/search-completions.ts";
import { toastFailure } from "../../lib/toast.ts";
import { LabelSettings } from "../settings/label-settings.tsx";
import { Button } from "./button.tsx";
import { Avatar, Mark, UseBar } from "./graphics.tsx";
import { Menu } from "./menus.tsx";

export function Sidebar({ mailboxes, showHelp }: { mailboxes: readonly MailboxView[]; showHelp: () => void }) {
  const open = useSidebar();
  const { folder } = useParams({ strict: false });
  const { mailbox: asked, label } = useSearch({ strict: false });
  const chosen = chosenMailbox(mailboxes, asked);
  useEffect(() => {
    const closeOnEscape = ({ key }: KeyboardEvent) => key === "Escape" && closeSidebar();
    document.addEventListener("keydown", closeOnEscape);
    return () => document.removeEventListener("keydown", closeOnEscape);
  }, []);

  return (
    <>
      {open && (
        <button
          type="button"
          aria-label="Close folders"
          onClick={closeSidebar}
          className="fixed inset-0 z-20 bg-black/40 md:hidden"
        />
      )}
      <aside
        className={`flex w-56 shrink-0 flex-col border-r border-line bg-ground print:hidden max-md:fixed max-md:inset-y-0 max-md:left-0 max-md:z-30 max-md:w-72 max-md:shadow-xl ${open ? "" : "max-md:hidden"}`}
      >
        <div className="flex items-center gap-2 px-4 pt-4 pb-3">
          <Mark className="size-6" />
          <span className="font-semibold tracking-tight">Mailroom</span>
        </div>
        <div className="px-3 pb-3">
          <Button
            kind="primary"
            className="w-full"
            title="Compose (c)"
            onClick={() => {
              closeSidebar();
              openNewMessage(chosen?.address);
            }}
          >
            <PenLine size={15} aria-hidden />
            Compose
          </Button>
        </div>
        <nav aria-label="Mail" className="min-h-0 grow overflow-y-auto px-2 pb-4">
          {mailboxes.some(({ access }) => access.send) && <ToApprove />}
          {chosen && <Folders mailbox={chosen} folder={label === undefined ? folder : undefined} asked={asked} />}
          {chosen && <Labels mailbox={chosen} label={label} asked={asked} />}
          {mailboxes.length > 1 && (
            <section className="mt-5" aria-labelledby="mailboxes">
              <h2 id="mailboxes" className="px-2 pb-1 text-xs font-medium text-muted">
                Mailboxes
              </h2>
              <ul>
                {mailboxes.map((mailbox) => (
                  <li key={mailbox.id}>
                    <Link
                      to="/mail/$folder"
                      params={{ folder: "inbox" }}
                      search={{ mailbox: mailbox.id }}
                      onClick={closeSidebar}
                      aria-current={mailbox.id === chosen?.id || undefined}
                      title={mailbox.address}
                      className={`flex h-8 items-center gap-2 rounded-md px-2 max-md:h-10 ${mailbox.id === chosen?.id ? "font-medium text-ink" : "text-soft hover:bg-hover"}`}
                    >
                      <span className="min-w-0 truncate">{mailbox.displayName}</span>
                      <Count of={mailbox.unread} />
                    </Link>
                  </li>
                ))}
              </ul>
            </section>
          )}
        </nav>
        {chosen && <QuotaUse mailbox={chosen} />}
        <Account showHelp={showHelp} />
      </aside>
    </>
  );
}

/** Link to the messages that wait for approval. */
function ToApprove() {
  const { data } = useQuery(approvalsQuery);
  const { pathname } = useLocation();
  const isHere = /^\/approve(?:\/|$)/.test(pathname);
  return (
    <Link
      to="/approve"
      onClick={closeSidebar}
      aria-current={isHere ? "page" : undefined}
      className={`mb-3 flex h-8 items-center gap-2.5 rounded-md px-2 max-md:h-10 ${isHere ? "bg-chosen font-medium text-ink" : "text-soft hover:bg-hover"}`}
    >
      <Hourglass size={16} strokeWidth={1.8} aria-hidden className="text-muted" />
      To approve
      <Count of={data?.waiting.length} beyond={data?.more} what="waiting" />
    </Link>
  );
}

function Folders({
  mailbox,
  folder,
  asked,
}: {
  mailbox: MailboxView;
  folder: string | undefined;
  asked: string | undefined;
}) {
  const spam = useQuery(unreadQuery(mailbox.id, "spam"));
  const scheduled = useQuery(scheduledQuery(mailbox.id));
  const search = asked === undefined ? {} : { mailbox: asked };
  const isScheduled = useLocation({ select: ({ pathname }) => pathname.startsWith("/mail/scheduled") });
  const { data: marks } = useQuery(draftMarksQuery(mailbox.id));
  const drafts = marks?.drafts.filter(({ dueAt }) => dueAt === null) ?? [];
  const byAgents = drafts.filter(({ agent }) => agent !== null).length;
  const counts: Record<string, number | undefined> = {
    inbox: mailbox.unread,
    spam: spam.data,
    drafts: drafts.length,
  };
  return (
    <ul aria-label={`Folders of ${mailbox.displayName}`}>
      {FOLDERS.map(({ id, name, icon: Icon }) => (
        <Fragment key={id}>
          <li>
            <Link
              to="/mail/$folder"
              params={{ folder: id }}
              search={search}
              onClick={closeSidebar}
              aria-current={id === folder ? "page" : undefined}
              className={folderClass(id === folder)}
            >
              <Icon size={16} strokeWidth={1.8} aria-hidden className="text-muted" />
              {name}
              {id === "drafts" && byAgents > 0 && (
                <span
                  title={formatCount(byAgents, "draft of an agent", "drafts of agents")}
                  className="ml-auto flex items-center gap-1 rounded bg-notice px-1.5 text-xs text-ink tabular-nums"
                >
                  <Bot size={12} aria-hidden />
                  {byAgents}
                  <span className="sr-only"> by agents, of</span>
                </span>
              )}
              <Count
                of={counts[id]}
                what={id === "drafts" ? "drafts" : "unread"}
                isAlone={id !== "drafts" || byAgents === 0}
              />
            </Link>
          </li>
          {id === "drafts" && (
            <li>
              <Link
                to="/mail/scheduled"
                search={search}
                onClick={closeSidebar}
                aria-current={isScheduled ? "page" : undefined}
                className={folderClass(isScheduled)}
              >
                <CalendarClock size={16} strokeWidth={1.8} aria-hidden className="text-muted" />
                Scheduled
                <Count of={scheduled.data?.length} what="scheduled" />
              </Link>
            </li>
          )}
        </Fragment>
      ))}
    </ul>
  );
}

const folderClass = (isHere: boolean): string =>
  `flex h-8 items-center gap-2.5 rounded-md px-2 max-md:h-10 ${isHere ? "bg-chosen font-medium text-ink" : "text-soft hover:bg-hover"}`;

/** Labels in the list before the person asks for more. */
const FEW_LABELS = 12;

function Labels({
  mailbox,
  label,
  asked,
}: {
  mailbox: MailboxView;
  label: string | undefined;
  asked: string | undefined;
}) {
  const { data: labels = [] } = useQuery(labelsQuery(mailbox.id));
  const [all, setAll] = useState(false);
  const navigate = useNavigate();
  const inAsked = asked === undefined ? {} : { mailbox: asked };
  if (labels.length === 0) return null;
  const shown = all ? labels : labels.slice(0, FEW_LABELS);
  return (
    <section className="mt-5" aria-labelledby="labels">
      <h2 id="labels" className="px-2 pb-1 text-xs font-medium text-muted">
        Labels
      </h2>
      <ul>
        {shown.map((one) => (
          <li key={one.label} className="group relative">
            <Link
              to="/mail/$folder"
              params={{ folder: "all" }}
              search={{ ...(asked !== undefined && { mailbox: asked }), label: one.label }}
              onClick={closeSidebar}
              aria-current={one.label === label ? "page" : undefined}
              className={`flex h-8 items-center gap-2.5 rounded-md px-2 max-md:h-10 ${one.label === label ? "bg-chosen font-medium text-ink" : "text-soft hover:bg-hover"}`}
            >
              <Tag
                size={15}
                strokeWidth={1.8}
                fill={one.colour === null ? "none" : "currentColor"}
                aria-hidden
                data-colour={one.colour ?? undefined}
                className="label-dot shrink-0"
              />
              <span dir="auto" className="min-w-0 truncate pr-6">
                {one.label}
              </span>
            </Link>
            {mailbox.access.manage && (
              <LabelSettings
                mailboxId={mailbox.id}
                label={one.label}
                renamed={(name) => {
                  if (one.label === label)
                    void navigate({ to: ".", search: (was) => ({ ...was, label: name }), replace: true });
                }}
                removed={() => {
                  if (one.label === label)
                    void navigate({ to: "/mail/$folder", params: { folder: "inbox" }, search: inAsked });
                }}
              />
            )}
          </li>
        ))}
      </ul>
      {labels.length > FEW_LABELS && (
        <Button kind="quiet" onClick={() => setAll(!all)} className="h-7 px-2 text-xs">
          {all ? "Fewer" : `${labels.length - FEW_LABELS} more`}
        </Button>
      )}
    </section>
  );
}

/** The mailbox's use of its quota. */
function QuotaUse({ mailbox }: { mailbox: MailboxView }) {
  const { data: usage } = useQuery(usageQuery(mailbox.id));
  if (!usage) return null;
  const { bytes, quotaBytes } = usage;
  const share = quotaBytes === 0 ? 1 : bytes / quotaBytes;
  return (
    <div className="px-4 pt-1 pb-3 text-xs text-muted">
      <div className="mb-1.5">
        <UseBar label="Storage used" used={bytes} of={quotaBytes} />
      </div>
      <p className={share >= 0.9 ? "text-danger" : ""}>
        {formatByteSize(bytes)} of {formatByteSize(quotaBytes)}
        {share >= 1 ? ": full. New mail is deferred until there is space." : share >= 0.9 ? ": nearly full" : ""}
      </p>
    </div>
  );
}

/** `beyond`: there are more than these. */
function Count({
  of,
  beyond = false,
  what = "unread",
  isAlone = true,
}: {
  of: number | undefined;
  beyond?: boolean | undefined;
  what?: string;
  /** False: something else stands before it at the end of the row. */
  isAlone?: boolean;
}) {
  if (!of) return null;
  return (
    <span className={`text-xs font-medium text-accent tabular-nums ${isAlone ? "ml-auto" : ""}`}>
      {of > 999 ? "999+" : `${of}${beyond ? "+" : ""}`}
      <span className="sr-only"> {what}</span>
    </span>
  );
}

function Account({ showHelp }: { showHelp: () => void }) {
  const { data: me } = useQuery(meQuery);
  const navigate = useNavigate();
  const isCompact = useCompact();
  const density = isCompact ? "Comfortable lists" : "Compact lists";
  useCommands([
    { name: density, group: "Actions", words: "density rows", run: toggleDensity },
    { name: "Sign out", group: "Actions", words: "log out leave", run: () => me && void signOut(me.id) },
  ]);
  if (!me) return null;
  async function signOut(userId: string): Promise<void> {
    // The browser asks before it leaves a page with a draft that could not be saved.
    await saveAllDrafts().catch(() => {});
    try {
      await api.signOut();
    } catch (error) {
      const isOver = error instanceof Refusal && error.status === 401;
      if (!isOver) return toastFailure(error);
    }
    forgetSearches(userId);
    // A new page, since this one still has the person's mail, drafts and undos.
    window.location.assign("/sign-in");
  }
  return (
    <div className="border-t border-line p-2">
      <Menu
        trigger={
          <button type="button" className="flex w-full items-center gap-2.5 rounded-md p-1.5 text-left hover:bg-hover">
            <Avatar of={me} />
            <span className="min-w-0 grow">
              <span className="block truncate text-sm font-medium">
                <span className="sr-only">Account of </span>
                {me.name}
              </span>
              <span className="block truncate text-xs text-muted">{me.email}</span>
            </span>
            <ChevronsUpDown size={14} className="text-muted" aria-hidden />
          </button>
        }
        items={[
          { label: "Settings", icon: Settings, run: () => void navigate({ to: "/settings/profile" }) },
          { label: density, icon: Rows3, run: toggleDensity },
          { label: "Find anything…", icon: Search, hint: "Ctrl+K", run: openPalette },
          { label: "Keyboard shortcuts", icon: Keyboard, hint: "?", run: showHelp },
          { label: "Sign out", icon: LogOut, run: () => void signOut(me.id) },
        ]}
      />
    </div>
  );
}
