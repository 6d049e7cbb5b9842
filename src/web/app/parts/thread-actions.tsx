/** What can be done with a conversation, as a row of buttons; what its mailbox or folder does not allow is not there. */
import { Archive, Clock, Inbox, MailOpen, Mails, OctagonAlert, Star, Trash2 } from "lucide-react";
import type { ThreadView } from "../lib/api.ts";
import type { useThreadActions } from "../lib/queries.ts";
import { shortTime, snoozeTimes } from "../lib/time.ts";
import { IconButton } from "./button.tsx";
import { Menu, MenuItem } from "./menu.tsx";

export function ThreadActions({
  thread,
  manage,
  actions,
  left,
}: {
  thread: ThreadView;
  /** Whether it may be moved and starred. */
  manage: boolean;
  actions: ReturnType<typeof useThreadActions>;
  /** It has left the list that it was in. */
  left: () => void;
}) {
  const { folder } = thread;
  const gone = folder === "trash" || folder === "spam";
  const draft = folder === "drafts";
  const move = (target: Parameters<typeof actions.move>[1]) => () => {
    actions.move(thread, target);
    left();
  };
  return (
    <div className="flex items-center">
      {manage && (
        <>
          {(folder === "archive" || gone) && (
            <IconButton icon={Inbox} label={folder === "spam" ? "Not spam" : "Move to inbox"} onClick={move("inbox")} />
          )}
          {!gone && !draft && folder !== "archive" && (
            <IconButton icon={Archive} label="Archive" shortcut="e" onClick={move("archive")} />
          )}
          {!gone && !draft && (
            <Menu trigger={<IconButton icon={Clock} label="Snooze" />}>
              {snoozeTimes().map(({ label, at }) => (
                <MenuItem
                  key={label}
                  hint={shortTime(at.toISOString())}
                  onSelect={() => {
                    actions.snooze(thread, at, label);
                    left();
                  }}
                >
                  {label}
                </MenuItem>
              ))}
            </Menu>
          )}
          {folder !== "spam" && !draft && (
            <IconButton icon={OctagonAlert} label="Mark as spam" shortcut="!" onClick={move("spam")} />
          )}
          {gone ? (
            <IconButton
              icon={Trash2}
              label="Delete for good"
              className="text-danger"
              onClick={() => {
                if (!confirm("Delete this conversation for good? It cannot be brought back.")) return;
                actions.deleteForGood(thread);
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
        shortcut="Shift+u"
        onClick={() => {
          actions.markUnread(thread, !thread.unread);
          if (!thread.unread) left();
        }}
      />
      {manage && (
        <IconButton
          icon={Star}
          label={thread.starred ? "Remove star" : "Star"}
          shortcut="s"
          aria-pressed={thread.starred}
          filled={thread.starred}
          className={thread.starred ? "text-star" : ""}
          onClick={() => actions.star(thread, !thread.starred)}
        />
      )}
    </div>
  );
}
