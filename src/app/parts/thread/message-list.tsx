/** The messages of a conversation, oldest first. Long rows of read ones are folded, and keys move among the others. */
import { ChevronsUpDown } from "lucide-react";
import { type RefObject, useEffect, useRef, useState } from "react";
import type { ThreadDetailView } from "../../lib/mail-views.ts";
import { useShortcuts } from "../../lib/shortcuts.ts";
import { hasCalendar, MessageCard, type Telling } from "../message/message-card.tsx";

/** Fewest messages above the one to begin with that are folded. */
const FEWEST_FOLDED = 3;
/** Part of the visible height that Space scrolls by. */
const PAGE = 0.85;
/** Part of the visible height that the subject may cover, px. */
const COVERED = 56;

export function Messages({
  detail: { thread, messages },
  begin,
  ready,
  wanted,
  isSpread,
  scroller,
}: {
  detail: ThreadDetailView;
  /** Id of the message to begin with. */
  begin: string | undefined;
  /** True once `begin` is known; the conversation then scrolls to it. */
  ready: boolean;
  /** Id of the message that a search led to. */
  wanted: string;
  /** True: all messages are open, for printing. */
  isSpread: boolean;
  scroller: RefObject<HTMLDivElement | null>;
}) {
  const list = useRef<HTMLOListElement>(null);
  const [unfolded, setUnfolded] = useState(false);
  const [telling, setTelling] = useState<Telling & { id?: string }>();
  const newest = messages.at(-1);
  const invited = messages.filter(hasCalendar).map(({ id }) => id);
  const above = messages.findIndex(({ id }) => id === begin);
  const folded = unfolded || isSpread || !ready || above < FEWEST_FOLDED ? 0 : above;
  const isOpened = telling?.id === undefined && telling?.open === true;

  useEffect(() => {
    if (ready) list.current?.querySelector("[data-begin]")?.scrollIntoView({ block: "start" });
  }, [ready]);

  /** The cards that are shown, and which of them is being read. */
  function reading(): { cards: HTMLElement[]; at: number; view: DOMRect } | undefined {
    const view = scroller.current?.getBoundingClientRect();
    if (!view) return undefined;
    const cards = [...(list.current?.querySelectorAll<HTMLElement>("[data-message]") ?? [])];
    const focused = cards.findIndex((card) => {
      const { top, bottom } = card.getBoundingClientRect();
      return card.contains(document.activeElement) && top < view.bottom && bottom > view.top + COVERED;
    });
    const first = cards.findIndex((card) => card.getBoundingClientRect().bottom > view.top + COVERED);
    return { cards, at: focused < 0 ? first : focused, view };
  }

  function step(by: number): void {
    const { cards = [], at = 0 } = reading() ?? {};
    const next = cards[at + by];
    if (!next) return;
    setTelling({ id: next.dataset.message ?? "", open: true });
    next.querySelector<HTMLElement>("article")?.focus({ preventScroll: true });
    next.scrollIntoView({ block: "start" });
  }

  function turnPage({ shiftKey }: KeyboardEvent): void {
    const { cards = [], at = 0, view } = reading() ?? {};
    if (!view) return;
    const isRead = (cards[at]?.getBoundingClientRect().bottom ?? 0) <= view.bottom + 1;
    if (!shiftKey && isRead && at + 1 < cards.length) step(1);
    else scroller.current?.scrollBy({ top: (shiftKey ? -PAGE : PAGE) * view.height });
  }

  useShortcuts({ n: () => step(1), p: () => step(-1), " ": turnPage });

  function unfold(): void {
    setUnfolded(true);
    // The button is gone, so the first message that it hid takes its place.
    requestAnimationFrame(() => list.current?.querySelector<HTMLElement>("article")?.focus());
  }

  return (
    <>
      {messages.length > 1 && (
        <div className="mb-2 flex justify-between gap-2 text-sm print:hidden">
          {folded > 0 ? (
            <button
              type="button"
              onClick={unfold}
              className="flex min-h-8 items-center gap-1.5 rounded-md border border-line bg-raised px-3 text-soft hover:bg-hover max-md:min-h-10"
            >
              <ChevronsUpDown size={15} aria-hidden />
              {folded} earlier messages
            </button>
          ) : (
            <span />
          )}
          <button
            type="button"
            onClick={() => {
              setUnfolded(true);
              setTelling({ open: !isOpened });
            }}
            className="min-h-8 rounded-md px-2 text-muted hover:bg-hover hover:text-ink max-md:min-h-10"
          >
            {isOpened ? "Close all" : "Open all"}
          </button>
        </div>
      )}
      <ol ref={list} className="space-y-3">
        {messages.slice(folded).map((message) => (
          <li
            key={message.id}
            data-message={message.id}
            data-begin={message.id === begin && messages.length > 1 ? "" : undefined}
          >
            <MessageCard
              message={message}
              folder={thread.folder}
              open={message === newest || !message.read || message.id === wanted || message.id === invited.at(-1)}
              isSpread={isSpread}
              laterInvitations={invited.slice(invited.indexOf(message.id) + 1)}
              {...(telling && (telling.id ?? message.id) === message.id && { telling })}
            />
          </li>
        ))}
      </ol>
    </>
  );
}
