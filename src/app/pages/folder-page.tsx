/** A list of conversations with its search. The open one is beside it, or on a phone in its place. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Link, Outlet, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { CalendarX, Menu as MenuIcon, PenLine, SearchX, X } from "lucide-react";
import { useCallback, useEffect, useMemo, useRef, useState } from "react";
import { api, Refusal } from "../lib/api-client.ts";
import { chosenMailbox, findFolderById, openSidebar } from "../lib/folders.ts";
import { formatCount } from "../lib/format.ts";
import type { DraftMarks, ListFilters, ThreadView } from "../lib/mail-views.ts";
import { openNewMessage } from "../lib/open-composers.ts";
import {
  draftMarksQuery,
  mailboxesQuery,
  queryClient,
  refreshMail,
  threadQuery,
  threadsQuery,
} from "../lib/queries.ts";
import { ListContext, useSelection } from "../lib/selection.ts";
import { useShortcuts } from "../lib/shortcuts.ts";
import { type Target, threadActions } from "../lib/thread-actions.ts";
import { toast, toastFailure } from "../lib/toast.ts";
import { MakeRule } from "../parts/thread/make-rule.tsx";
import { SearchBox } from "../parts/thread/search-box.tsx";
import {
  FoundInstead,
  foundMessageId,
  NothingFound,
  OrderChoice,
  SearchNotes,
} from "../parts/thread/search-results.tsx";
import { type RowActions, ThreadRow } from "../parts/thread/thread-row.tsx";
import { confirmDeletion, type OpenMenu, SelectionBar } from "../parts/thread/thread-toolbars.tsx";
import { Button, IconButton } from "../parts/ui/button.tsx";
import { Failed, Notice, Skeleton } from "../parts/ui/notice.tsx";

export function FolderPage() {
  const { folder } = useParams({ from: "/shell/mail/$folder" });
  const { threadId: openId } = useParams({ strict: false });
  const { mailbox: asked, q, sort, label } = useSearch({ from: "/shell/mail/$folder" });
  const navigate = useNavigate();
  const { data: mailboxes = [] } = useQuery(mailboxesQuery);
  const mailbox = chosenMailbox(mailboxes, asked);
  /** The server refuses a folder that there is not. */
  const asks = (q && folder === "inbox" ? undefined : folder) as ListFilters["folder"];
  const filters = { mailbox: mailbox?.id, folder: asks, q, label };
  const list = useInfiniteQuery(threadsQuery(q === undefined ? filters : { ...filters, sort }));
  const [cursorId, setCursorId] = useState<string>();
  const [menu, setMenu] = useState<OpenMenu>();
  const search = useRef<HTMLInputElement>(null);

  const first = list.data?.pages[0];
  const marks = useQuery({
    ...draftMarksQuery(mailbox?.id ?? ""),
    enabled: folder === "drafts" && mailbox !== undefined,
  });
  const threads = useFlat(list.data?.pages, folder === "drafts" && q === undefined ? marks.data : undefined);
  const selection = useSelection(JSON.stringify(filters), threads);
  const selecting = selection.threads.length > 0;
  const currentId = openId ?? cursorId;
  const index = threads.findIndex(({ id }) => id === currentId);
  const current = threads[index];
  const manage = mailbox?.access.manage ?? false;
  useEffect(() => {
    if (openId !== undefined) setCursorId(openId);
  }, [openId]);
  // The person will probably read one of these next: the neighbours of the open one, or the one at the cursor.
  const ahead = (
    openId === undefined ? [threads[Math.max(0, index)], threads[index + 1]] : [threads[index + 1], threads[index - 1]]
  )
    .flatMap((thread) => thread?.id ?? [])
    .join();
  useEffect(() => {
    for (const id of ahead.split(",")) if (id !== "") void queryClient.prefetchQuery(threadQuery(id));
  }, [ahead]);

  const open = (thread: ThreadView | undefined) =>
    thread
      ? navigate({
          to: "/mail/$folder/$threadId",
          params: { folder, threadId: thread.id },
          search: true,
          hash: foundMessageId(thread),
        })
      : navigate({ to: "/mail/$folder", params: { folder }, search: true });

  function step(by: 1 | -1): void {
    const next = threads[index < 0 ? 0 : index + by];
    if (next) setCursorId(next.id);
    if (next && openId !== undefined) void open(next);
    if (by === 1 && index + 3 > threads.length && list.hasNextPage && !list.isFetchingNextPage)
      void list.fetchNextPage();
  }
  /** Moves to a neighbour after the conversation at the cursor has left the list. */
  function left(to: "next" | "previous" | "list" = "next"): void {
    const beside = to === "previous" ? [index - 1, index + 1] : [index + 1, index - 1];
    const next = beside.map((at) => threads[at]).find((thread) => thread !== undefined);
    setCursorId(next?.id);
    if (openId !== undefined) void open(to === "list" ? undefined : next);
  }
  /** Shortcuts act on these: the selected conversations, else the one that is open or at the cursor. */
  const targets = selecting ? selection.threads : current ? [current] : [];
  function leave(to?: "next" | "previous"): void {
    if (selecting) selection.clear();
    if (targets.some(({ id }) => id === currentId)) left(to);
  }
  const move = (target: Target, to?: "next" | "previous") => () => {
    const moved = targets.filter((thread) => {
      const mayGo = target === "trash" || thread.folder !== "drafts";
      return mayGo && (thread.folder !== target || thread.snoozedUntil !== undefined);
    });
    if (!manage || moved.length === 0) return;
    void threadActions.move(moved, target);
    leave(to);
  };
  function trash(): void {
    if (!targets.some(({ folder: from }) => from === "trash" || from === "spam")) move("trash")();
    else if (manage && confirmDeletion(targets.length)) {
      void threadActions.deleteForGood(targets);
      leave();
    }
  }
  const markRead = () => void threadActions.markUnread(targets, false);
  function markUnread(): void {
    void threadActions.markUnread(targets, true);
    if (targets.length > 0 && !selecting && openId !== undefined) void open(undefined);
  }
  /** The row's conversation has left the list. */
  const rowLeft = (thread: ThreadView) => thread.id === currentId && left();
  // A stable object, so that rows do not render again with each list.
  const latestLeft = useRef(rowLeft);
  latestLeft.current = rowLeft;
  const actions = useMemo(
    (): RowActions => ({
      star: (thread) => void threadActions.star([thread], !thread.starred),
      markUnread: (thread, unread) => void threadActions.markUnread([thread], unread),
      move(thread, to) {
        void threadActions.move([thread], to);
        latestLeft.current(thread);
      },
      snooze(thread, until) {
        void threadActions.snooze([thread], until);
        latestLeft.current(thread);
      },
    }),
    [],
  );
  function openMenu(which: OpenMenu): void {
    if (!manage) return;
    if (!selecting && current) selection.toggle(current.id);
    if (selecting || current) setMenu(which);
  }
  const openCurrent = () => void (current && open(current));
  const toggleCurrent = (range: boolean) => () => current && selection.toggle(current.id, range);
  useShortcuts({
    j: () => step(1),
    k: () => step(-1),
    Enter: openCurrent,
    o: openCurrent,
    u: () => void open(undefined),
    x: toggleCurrent(false),
    X: toggleCurrent(true),
    "* a": selection.selectShown,
    "* n": selection.clear,
    e: move("archive"),
    "]": move("archive", "next"),
    "[": move("archive", "previous"),
    "#": trash,
    "!": move("spam"),
    s: () =>
      manage &&
      void threadActions.star(
        targets,
        targets.some(({ starred }) => !starred),
      ),
    // An open conversation without a selection has these menus itself (parts/thread/thread-toolbars.tsx).
    ...((selecting || openId === undefined) && { l: () => openMenu("label"), b: () => openMenu("snooze") }),
    I: markRead,
    U: markUnread,
    "/": () => search.current?.focus(),
  });

  const known = findFolderById(folder);
  const name = q ? "Search" : (label ?? known?.name ?? "Mail");
  useEffect(() => {
    document.title = `${name} · Mailroom`;
  }, [name]);
  // A stable function, so that rows do not render again with each list.
  const toggle = useRef(selection.toggle);
  toggle.current = selection.toggle;
  const select = useCallback((id: string, range: boolean) => toggle.current(id, range), []);
  const badSearch =
    list.error instanceof Refusal && list.error.status === 400 && q !== undefined ? list.error : undefined;

  return (
    <ListContext value={{ left, selecting }}>
      <section
        aria-label={name}
        className={`relative flex w-full min-w-0 flex-col border-r border-line bg-panel lg:w-88 lg:shrink-0 xl:w-104 print:hidden ${openId === undefined ? "" : "max-lg:hidden"}`}
      >
        <header className="border-b border-line px-3 pt-3 pb-2">
          <div className="mb-2 flex items-center gap-1">
            <IconButton icon={MenuIcon} label="Folders" onClick={openSidebar} className="md:hidden" />
            <h1 className="min-w-0 truncate px-1 text-xl font-semibold tracking-tight">{name}</h1>
            {label !== undefined && (
              <Link
                to="/mail/$folder"
                params={{ folder }}
                search={inMailbox(asked)}
                aria-label="Clear label filter"
                className="grid size-8 place-items-center rounded-md text-muted hover:bg-hover"
              >
                <X size={15} aria-hidden />
              </Link>
            )}
            {(folder === "trash" || folder === "spam") && manage && threads.length > 0 && mailbox && (
              <EmptyButton folder={folder} mailboxId={mailbox.id} />
            )}
          </div>
          <SearchBox
            key={q}
            box={search}
            q={q ?? ""}
            mailboxId={mailbox?.id}
            submit={(text) =>
              navigate({
                to: "/mail/$folder",
                params: { folder },
                search: { ...inMailbox(asked), ...(text !== "" && { q: text, ...(sort && { sort }) }) },
              })
            }
          />
          {q !== undefined && (
            <div className="flex items-center justify-between">
              <OrderChoice
                sort={sort ?? "newest"}
                choose={(chosen) =>
                  navigate({
                    to: ".",
                    search: (was) => ({ ...was, sort: chosen === "relevance" ? chosen : undefined }),
                  })
                }
              />
              {manage && mailbox && <MakeRule mailbox={mailbox.id} match={q} />}
            </div>
          )}
        </header>
        {selecting && (
          <SelectionBar
            selection={selection}
            shown={threads}
            filters={filters}
            hasMore={list.hasNextPage}
            manage={manage}
            menu={menu}
            setMenu={setMenu}
            acted={() => leave()}
          />
        )}
        <div id="content" tabIndex={-1} className="min-h-0 grow overflow-y-auto outline-none max-md:pb-20">
          {list.isPending && <Skeleton what="conversations" />}
          {badSearch && (
            <div role="alert" className="h-full">
              <Notice icon={CalendarX} title="Check your search">
                <p className="mb-4">{badSearch.message.replace(/^q: /, "")}</p>
                <Button onClick={() => search.current?.focus()}>Edit search</Button>
              </Notice>
            </div>
          )}
          {list.isError && !badSearch && threads.length === 0 && (
            <Failed error={list.error} retry={() => list.refetch()} />
          )}
          {first?.notes && <SearchNotes notes={first.notes} />}
          {list.isSuccess && threads.length === 0 && q !== undefined && (
            <NothingFound q={q} suggestion={first?.suggestion} folder={folder} mailbox={asked} sort={sort} />
          )}
          {list.isSuccess && threads.length === 0 && q === undefined && (
            <Notice icon={known?.icon ?? SearchX} title="Nothing here">
              {label === undefined ? known?.empty : "No conversation has this label."}
            </Notice>
          )}
          {q !== undefined && threads.length > 0 && first?.nearWords && <FoundInstead q={q} words={first.nearWords} />}
          {threads.length > 0 && (
            <ul aria-label="Conversations">
              {threads.map((thread) => (
                <ThreadRow
                  key={thread.id}
                  thread={thread}
                  folder={folder}
                  current={thread.id === currentId}
                  selected={selection.has(thread.id)}
                  select={select}
                  actions={manage ? actions : undefined}
                />
              ))}
            </ul>
          )}
          {list.hasNextPage && (
            <More
              busy={list.isFetchingNextPage}
              failure={list.isFetchNextPageError ? list.error.message : undefined}
              load={() => void list.fetchNextPage()}
            />
          )}
        </div>
        <Button
          kind="primary"
          onClick={() => openNewMessage(mailbox?.address)}
          className="absolute right-4 bottom-4 h-12! rounded-full! px-5! shadow-lg md:hidden"
        >
          <PenLine size={17} aria-hidden />
          Compose
        </Button>
      </section>
      <div className={`min-w-0 grow ${openId === undefined ? "max-lg:hidden" : ""}`}>
        <Outlet />
      </div>
    </ListContext>
  );
}

const inMailbox = (mailbox: string | undefined): { mailbox?: string } => (mailbox === undefined ? {} : { mailbox });

/**
 * The conversations of all pages, each once; one that moved between two requests is on two pages. Drafts that `marks`
 * says are scheduled have a page of their own.
 */
const useFlat = (
  pages: readonly { threads: readonly ThreadView[] }[] | undefined,
  marks: DraftMarks | undefined,
): readonly ThreadView[] =>
  useMemo(() => {
    const scheduled = new Set(marks?.drafts.flatMap(({ draftId, dueAt }) => (dueAt === null ? [] : draftId)));
    const all = pages?.flatMap((page) => page.threads) ?? [];
    return [
      ...new Map(all.flatMap((thread) => (scheduled.has(thread.id) ? [] : [[thread.id, thread] as const]))).values(),
    ];
  }, [pages, marks]);

/** Loads the next page when it comes into sight, or by its button. */
function More({ busy, failure, load }: { busy: boolean; failure: string | undefined; load: () => void }) {
  const end = useRef<HTMLDivElement>(null);
  const latest = useRef(load);
  latest.current = load;
  useEffect(() => {
    const seen = new IntersectionObserver(([entry]) => entry?.isIntersecting && latest.current());
    if (end.current) seen.observe(end.current);
    return () => seen.disconnect();
  }, []);
  return (
    <div ref={end} className="p-4 text-center">
      {failure !== undefined && (
        <p role="alert" className="mb-2 text-sm text-danger">
          {failure}
        </p>
      )}
      <Button kind="quiet" disabled={busy} onClick={load}>
        {busy ? "Loading…" : "Show more"}
      </Button>
    </div>
  );
}

function EmptyButton({ folder, mailboxId }: { folder: "trash" | "spam"; mailboxId: string }) {
  const [busy, setBusy] = useState(false);
  async function run(): Promise<void> {
    if (!confirm(`Delete everything in ${folder} for good? This cannot be undone.`)) return;
    setBusy(true);
    try {
      const empty = folder === "trash" ? api.emptyTrash : api.emptySpam;
      const { deleted } = await empty({ mailbox: mailboxId });
      toast({ text: `${formatCount(deleted, "conversation")} deleted for good` });
    } catch (error) {
      toastFailure(error);
    } finally {
      setBusy(false);
      refreshMail();
    }
  }
  return (
    <Button kind="quiet" disabled={busy} onClick={run} className="ml-auto text-danger!">
      Empty {folder}
    </Button>
  );
}
