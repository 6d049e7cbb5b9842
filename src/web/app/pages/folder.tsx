/** A list of conversations, with its search; the one that is open stands beside it, or on a phone in its place. */
import { useInfiniteQuery, useQuery } from "@tanstack/react-query";
import { Outlet, useNavigate, useParams, useSearch } from "@tanstack/react-router";
import { Menu as MenuIcon, SearchX, X } from "lucide-react";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { api, type ThreadView } from "../lib/api.ts";
import { folderOf } from "../lib/folders.ts";
import { useShortcuts } from "../lib/keys.ts";
import { ListContext } from "../lib/list-context.ts";
import { chosenMailbox } from "../lib/mailbox.ts";
import { mailboxesQuery, refreshMail, threadsQuery, useThreadActions } from "../lib/queries.ts";
import { openSidebar } from "../lib/sidebar.ts";
import { toast } from "../lib/toast.ts";
import { Button, IconButton } from "../parts/button.tsx";
import { Failed, Notice, Skeleton } from "../parts/notice.tsx";
import { ThreadRow } from "../parts/thread-row.tsx";

export function FolderPage() {
  const { folder } = useParams({ from: "/mail/$folder" });
  const { threadId: openId } = useParams({ strict: false });
  const { mailbox: asked, q } = useSearch({ from: "/mail/$folder" });
  const navigate = useNavigate();
  const { data: mailboxes = [] } = useQuery(mailboxesQuery);
  const mailbox = chosenMailbox(mailboxes, asked);
  const list = useInfiniteQuery(
    threadsQuery({ mailbox: mailbox?.id, folder: q && folder === "inbox" ? undefined : folder, q }),
  );
  const actions = useThreadActions();
  const [cursorId, setCursorId] = useState<string>();
  const search = useRef<HTMLInputElement>(null);

  const threads = list.data?.pages.flatMap((page) => page.threads) ?? [];
  const currentId = openId ?? cursorId;
  const index = threads.findIndex(({ id }) => id === currentId);
  const current = threads[index];
  const manage = mailbox?.access.manage ?? false;
  useEffect(() => {
    if (openId !== undefined) setCursorId(openId);
  }, [openId]);

  const open = (thread: ThreadView | undefined) =>
    thread
      ? navigate({ to: "/mail/$folder/$threadId", params: { folder, threadId: thread.id }, search: true })
      : navigate({ to: "/mail/$folder", params: { folder }, search: true });

  function step(by: 1 | -1): void {
    const next = threads[index < 0 ? 0 : index + by];
    if (!next) return;
    setCursorId(next.id);
    if (openId !== undefined) void open(next);
  }
  /** The open conversation has left the list: the next one takes its place. */
  function left(): void {
    const next = threads[index + 1] ?? threads[index - 1];
    setCursorId(next?.id);
    if (openId !== undefined) void open(next);
  }
  const isDraft = current?.folder === "drafts";
  const move = (target: "archive" | "trash" | "spam") => () => {
    if (!current || !manage || current.folder === target || (isDraft && target !== "trash")) return;
    actions.move(current, target);
    left();
  };
  const openCurrent = () => void (current && open(current));
  function markUnread(): void {
    if (!current) return;
    actions.markUnread(current, true);
    if (openId !== undefined) void open(undefined);
  }
  useShortcuts({
    j: () => step(1),
    k: () => step(-1),
    Enter: openCurrent,
    o: openCurrent,
    u: () => void open(undefined),
    e: move("archive"),
    "#": move("trash"),
    "!": move("spam"),
    s: () => current && manage && actions.star(current, !current.starred),
    U: markUnread,
    "/": () => search.current?.focus(),
  });

  const known = folderOf(folder);
  const name = q ? "Search" : (known?.name ?? "Mail");
  useEffect(() => {
    document.title = `${name} · Mailroom`;
  }, [name]);

  return (
    <ListContext value={{ left }}>
      <section
        aria-label={name}
        className={`flex w-full flex-col border-r border-line bg-panel md:w-88 md:shrink-0 xl:w-104 ${openId === undefined ? "" : "max-md:hidden"}`}
      >
        <header className="border-b border-line px-3 pt-3 pb-2">
          <div className="mb-2 flex items-center gap-1">
            <IconButton icon={MenuIcon} label="Folders" onClick={openSidebar} className="md:hidden" />
            <h1 className="min-w-0 truncate px-1 text-xl font-semibold tracking-tight">{name}</h1>
            {(folder === "trash" || folder === "spam") && manage && threads.length > 0 && mailbox && (
              <EmptyButton folder={folder} mailboxId={mailbox.id} />
            )}
          </div>
          <SearchBox
            key={q}
            box={search}
            q={q ?? ""}
            submit={(text) =>
              navigate({
                to: "/mail/$folder",
                params: { folder },
                search: { ...(asked !== undefined && { mailbox: asked }), ...(text !== "" && { q: text }) },
              })
            }
          />
        </header>
        <div id="content" tabIndex={-1} className="min-h-0 grow overflow-y-auto outline-none">
          {list.isPending && <Skeleton what="conversations" />}
          {list.isError && <Failed error={list.error} retry={() => list.refetch()} />}
          {list.isSuccess && threads.length === 0 && (
            <Notice icon={q ? SearchX : (known?.icon ?? SearchX)} title={q ? "Nothing found" : "Nothing here"}>
              {q ? "Every word has to match. Trash and spam are searched from within." : known?.empty}
            </Notice>
          )}
          {threads.length > 0 && (
            <ul aria-label="Conversations">
              {threads.map((thread) => (
                <ThreadRow key={thread.id} thread={thread} folder={folder} current={thread.id === currentId} />
              ))}
            </ul>
          )}
          {list.hasNextPage && <More busy={list.isFetchingNextPage} load={() => void list.fetchNextPage()} />}
        </div>
      </section>
      <div className={`min-w-0 grow ${openId === undefined ? "max-md:hidden" : ""}`}>
        <Outlet />
      </div>
    </ListContext>
  );
}

function SearchBox({
  box,
  q,
  submit,
}: {
  box: React.RefObject<HTMLInputElement | null>;
  q: string;
  submit: (q: string) => void;
}) {
  const [text, setText] = useState(q);
  function search(event: FormEvent): void {
    event.preventDefault();
    submit(text.trim());
  }
  return (
    // biome-ignore lint/a11y/useSemanticElements: <search> is not in every browser yet
    <form onSubmit={search} role="search" className="relative">
      <input
        ref={box}
        type="text"
        enterKeyHint="search"
        aria-label="Search mail"
        placeholder="Search: words, from:, has:attachment"
        maxLength={500}
        value={text}
        onChange={(event) => setText(event.target.value)}
        onKeyDown={(event) => {
          if (event.key === "Escape") event.currentTarget.blur();
        }}
        className="h-9 w-full rounded-md border border-line bg-raised pr-9 pl-3 text-sm placeholder:text-muted focus:border-accent"
      />
      {q !== "" && (
        <IconButton
          icon={X}
          label="Clear search"
          onClick={() => submit("")}
          className="absolute top-0.5 right-0.5 max-md:size-8"
        />
      )}
    </form>
  );
}

/** Loads the next page when it comes into sight; the button is for who does not scroll. */
function More({ busy, load }: { busy: boolean; load: () => void }) {
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
      <Button kind="quiet" disabled={busy} onClick={load}>
        {busy ? "Loading…" : "Show more"}
      </Button>
    </div>
  );
}

function EmptyButton({ folder, mailboxId }: { folder: "trash" | "spam"; mailboxId: string }) {
  const [busy, setBusy] = useState(false);
  async function empty(): Promise<void> {
    if (!confirm(`Delete everything in ${folder} for good? It cannot be brought back.`)) return;
    setBusy(true);
    try {
      const { deleted } = await api.empty(folder, mailboxId);
      toast({ text: `${deleted} ${deleted === 1 ? "conversation" : "conversations"} deleted for good` });
    } catch (error) {
      toast({ text: (error as Error).message, tone: "danger" });
    } finally {
      setBusy(false);
      refreshMail();
    }
  }
  return (
    <Button kind="quiet" disabled={busy} onClick={empty} className="ml-auto text-danger">
      Empty {folder}
    </Button>
  );
}
