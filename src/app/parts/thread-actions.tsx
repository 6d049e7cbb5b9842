/** Buttons for the open conversation. Actions that its mailbox or folder does not allow are left out. */
import { Archive, Inbox, MailOpen, Mails, OctagonAlert, Printer, Star, Trash2 } from "lucide-react";
import { use, useState } from "react";
import type { ThreadView } from "../lib/api.ts";
import { useShortcuts } from "../lib/keys.ts";
import { ListContext } from "../lib/list-context.ts";
import { type Target, threadActions } from "../lib/thread-actions.ts";
import { IconButton } from "./button.tsx";
import { LabelMenu } from "./label-menu.tsx";
import { confirmDeletion, type OpenMenu } from "./selection-bar.tsx";
import { SnoozeMenu } from "./snooze-menu.tsx";

export function ThreadActions({
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
          {gone ? (
            <IconButton
              icon={Trash2}
              label="Delete for good"
              className="text-danger!"
              onClick={() => {
                if (!confirmDeletion(1)) return;
                void threadActions.deleteForGood([thread]);
                left();
              }}
            />
          ) : (
            <IconButton icon={Trash2} label="Move to trash" shortcut="#" onClick={move("trash")} />
          )}
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
        </>
      )}
      {!draft && <IconButton icon={Printer} label="Print" onClick={print} className="max-md:hidden" />}
    </div>
  );
}
