/**
 * The buttons for the open conversation, and those for the selected ones. Actions that are not allowed are left out.
 */
import { Archive, Inbox, MailOpen, Mails, OctagonAlert, Printer, Star, Trash2, X } from "lucide-react";
import { use, useEffect, useRef, useState } from "react";
import { formatCount } from "../../lib/format.ts";
import type { ListFilters, ThreadView } from "../../lib/mail-views.ts";
import { ListContext, MOST_MATCHING, type Selection } from "../../lib/selection.ts";
import { useShortcuts } from "../../lib/shortcuts.ts";
import { type Target, threadActions } from "../../lib/thread-actions.ts";
import { toastFailure } from "../../lib/toast.ts";
import { Button, IconButton } from "../ui/button.tsx";
import { LabelMenu, SnoozeMenu } from "../ui/menus.tsx";
import { MakeRuleIcon, senderRuleMatch } from "./make-rule.tsx";

/** The buttons for the open conversation. */
export function ThreadToolbar({
  thread,
  manage,
  print,
}: {
  thread: ThreadView;
  /** True: the person may move, star and label it. */
  manage: boolean;
  print: () => void;
}) {
  const { left, selecting } = use(ListContext);
  const [menu, setMenu] = useState<OpenMenu>();
  const { folder } = thread;
  const gone = folder === "trash" || folder === "spam";
  const draft = folder === "drafts";
  const snoozes = manage && !gone && !draft;
  useShortcuts(
    selecting || !manage ? {} : { l: () => setMenu("label"), ...(snoozes && { b: () => setMenu("snooze") }) },
  );
  const move = (target: Target) => () => {
    void threadActions.move([thread], target);
    left();
  };
  const opener = (which: OpenMenu) => ({
    open: menu === which,
    onOpenChange: (open: boolean) => setMenu(open ? which : undefined),
  });
  return (
    <div className="flex flex-wrap items-center">
      {manage && (
        <>
          {(folder === "archive" || gone || thread.snoozedUntil !== undefined) && (
            <IconButton icon={Inbox} label={folder === "spam" ? "Not spam" : "Move to inbox"} onClick={move("inbox")} />
          )}
          {!gone && !draft && folder !== "archive" && (
            <IconButton icon={Archive} label="Archive" shortcut="e" onClick={move("archive")} />
          )}
          {snoozes && (
            <SnoozeMenu
              {...opener("snooze")}
              snooze={(until) => {
                void threadActions.snooze([thread], until);
                left();
              }}
            />
          )}
          {folder !== "spam" && !draft && (
            <IconButton icon={OctagonAlert} label="Mark as spam" shortcut="!" onClick={move("spam")} />
          )}
          <TrashButton threads={[thread]} gone={gone} acted={() => left()} />
        </>
      )}
      <IconButton
        icon={thread.unread ? MailOpen : Mails}
        label={thread.unread ? "Mark as read" : "Mark as unread"}
        shortcut={thread.unread ? "Shift+i" : "Shift+u"}
        onClick={() => {
          void threadActions.markUnread([thread], !thread.unread);
          if (!thread.unread) left("list");
        }}
      />
      {manage && (
        <>
          <IconButton
            icon={Star}
            label={thread.starred ? "Remove star" : "Star"}
            shortcut="s"
            aria-pressed={thread.starred}
            filled={thread.starred}
            className={thread.starred ? "text-star" : ""}
            onClick={() => void threadActions.star([thread], !thread.starred)}
          />
          <LabelMenu threads={[thread]} {...opener("label")} />
          {!draft && <MakeRuleIcon mailbox={thread.mailboxId} match={senderRuleMatch(thread.from.email)} />}
        </>
      )}
      {!draft && <IconButton icon={Printer} label="Print" onClick={print} className="max-md:hidden" />}
    </div>
  );
}

export type OpenMenu = "label" | "snooze" | undefined;

/** Asks the person before conversations are deleted for good. */
export const confirmDeletion = (count: number): boolean =>
  confirm(
    `Delete ${count === 1 ? "this conversation" : formatCount(count, "conversation")} for good? That cannot be undone.`,
  );

/** Moves conversations to the trash. `gone`: they are in trash or spam, from where it deletes them for good. */
function TrashButton({
  threads,
  gone,
  acted,
}: {
  threads: readonly ThreadView[];
  gone: boolean;
  /** Called when it was pressed and confirmed. */
  acted: () => void;
}) {
  function remove(): void {
    if (gone && !confirmDeletion(threads.length)) return;
    void (gone ? threadActions.deleteForGood(threads) : threadActions.move(threads, "trash"));
    acted();
  }
  return gone ? (
    <IconButton icon={Trash2} label="Delete for good" className="text-danger!" onClick={remove} />
  ) : (
    <IconButton icon={Trash2} label="Move to trash" shortcut="#" onClick={remove} />
  );
}

/** The buttons for the selected conversations. Each tells its result; all but deletion can be undone. */
export function SelectionBar({
  selection,
  shown,
  filters,
  hasMore,
  manage,
  menu,
  setMenu,
  acted,
}: {
  selection: Selection;
  shown: readonly ThreadView[];
  /** Filters of the list. */
  filters: ListFilters;
  /** True: the list has more than the page shows. */
  hasMore: boolean;
  /** True: the person may move, star and label them. */
  manage: boolean;
  menu: OpenMenu;
  setMenu: (menu: OpenMenu) => void;
  /** Called after an action that removes them from the list. */
  acted: () => void;
}) {
  const { threads, matching } = selection;
  const all = useRef<HTMLInputElement>(null);
  const [busy, setBusy] = useState(false);
  const isAll = threads.length >= shown.length;
  useEffect(() => {
    if (all.current) all.current.indeterminate = !isAll;
  }, [isAll]);

  const gone = threads.every(({ folder }) => folder === "trash" || folder === "spam");
  const drafts = threads.every(({ folder }) => folder === "drafts");
  const isIn = (target: Target) => threads.every(({ folder, snoozedUntil }) => folder === target && !snoozedUntil);
  const move = (target: Target) => () => {
    void threadActions.move(threads, target);
    acted();
  };
  async function selectMatching(): Promise<void> {
    setBusy(true);
    try {
      await selection.selectMatching(filters);
    } catch (error) {
      toastFailure(error);
    } finally {
      setBusy(false);
    }
  }
  const someUnread = threads.some(({ unread }) => unread);
  const someUnstarred = threads.some(({ starred }) => !starred);

  return (
    <div role="toolbar" aria-label="Selected conversations" className="border-b border-line bg-chosen/50 px-1.5 py-1">
      <div className="flex flex-wrap items-center max-md:[&_button]:size-9">
        <label className="grid size-8 cursor-pointer place-items-center max-md:size-10">
          <input
            ref={all}
            type="checkbox"
            aria-label="Select all shown"
            checked={isAll}
            onChange={() => (isAll ? selection.clear() : selection.selectShown())}
            className="size-3.5 accent-accent"
          />
        </label>
        <span role="status" className="mr-auto text-sm font-medium tabular-nums">
          {threads.length.toLocaleString()} <span className="max-md:sr-only">selected</span>
        </span>
        {manage && (
          <>
            {!isIn("inbox") && !drafts && (
              <IconButton
                icon={Inbox}
                label={threads.every(({ folder }) => folder === "spam") ? "Not spam" : "Move to inbox"}
                onClick={move("inbox")}
              />
            )}
            {!isIn("archive") && !drafts && (
              <IconButton icon={Archive} label="Archive" shortcut="e" onClick={move("archive")} />
            )}
            {!isIn("spam") && !drafts && (
              <IconButton icon={OctagonAlert} label="Mark as spam" shortcut="!" onClick={move("spam")} />
            )}
            <TrashButton threads={threads} gone={gone} acted={acted} />
          </>
        )}
        <IconButton
          icon={someUnread ? MailOpen : Mails}
          label={someUnread ? "Mark as read" : "Mark as unread"}
          shortcut={someUnread ? "Shift+i" : "Shift+u"}
          onClick={() => void threadActions.markUnread(threads, !someUnread)}
        />
        {manage && (
          <>
            <IconButton
              icon={Star}
              label={someUnstarred ? "Star" : "Remove star"}
              shortcut="s"
              onClick={() => void threadActions.star(threads, someUnstarred)}
            />
            <LabelMenu
              threads={threads}
              open={menu === "label"}
              onOpenChange={(open) => setMenu(open ? "label" : undefined)}
            />
            {!gone && !drafts && (
              <SnoozeMenu
                open={menu === "snooze"}
                onOpenChange={(open) => setMenu(open ? "snooze" : undefined)}
                snooze={(until) => {
                  void threadActions.snooze(threads, until);
                  acted();
                }}
              />
            )}
          </>
        )}
        <IconButton icon={X} label="Select none" onClick={selection.clear} />
      </div>
      {isAll && hasMore && (
        <p className="px-2 pb-1 text-sm text-soft">
          {matching ? (
            `All ${threads.length.toLocaleString()} that match are selected${threads.length >= MOST_MATCHING ? ": no more at once" : ""}.`
          ) : (
            <>
              All {shown.length.toLocaleString()} that are shown are selected.{" "}
              <Button
                kind="quiet"
                disabled={busy}
                onClick={() => void selectMatching()}
                className="h-6 px-1.5 text-accent max-md:!size-auto"
              >
                {busy ? "Selecting…" : "Select all that match"}
              </Button>
            </>
          )}
        </p>
      )}
    </div>
  );
}
