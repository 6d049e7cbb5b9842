/**
 * Keyboard shortcuts, as in other mail apps. They are off while somebody types, and with Ctrl, Alt or Meta. The name of
 * a handler is its key (KeyboardEvent.key), or two keys with a space between for a sequence.
 */
import { useEffect, useRef } from "react";

interface ShortcutGroup {
  name: string;
  shortcuts: readonly [keys: string, does: string][];
}

export const SHORTCUTS: readonly ShortcutGroup[] = [
  {
    name: "Navigation",
    shortcuts: [
      ["j / k", "Next, previous conversation"],
      ["o / Enter", "Open"],
      ["u", "Back to the list"],
      ["g then i", "Inbox"],
      ["g then s", "Starred"],
      ["g then b", "Snoozed"],
      ["g then d", "Drafts"],
      ["g then t", "Sent"],
      ["g then a", "All mail"],
      ["g then w", "To approve"],
      ["/", "Search"],
    ],
  },
  {
    name: "In a conversation",
    shortcuts: [
      ["n / p", "Next, previous message"],
      ["Space", "Read on, and go to the next message"],
      ["Shift + Space", "Back up"],
    ],
  },
  {
    name: "Actions",
    shortcuts: [
      ["x", "Select"],
      ["Shift + x", "Select from the last one to this one"],
      ["* then a / n", "Select all, none"],
      ["e", "Archive"],
      ["[ / ]", "Archive, and go to the previous, next one"],
      ["#", "Move to trash"],
      ["!", "Mark as spam"],
      ["s", "Star"],
      ["l", "Label"],
      ["b", "Snooze"],
      ["Shift + i / u", "Mark as read, unread"],
      ["z", "Undo"],
    ],
  },
  {
    name: "Writing",
    shortcuts: [
      ["c", "Compose"],
      ["r", "Reply"],
      ["a", "Reply to all"],
      ["f", "Forward"],
      ["Ctrl + Enter", "Send"],
      ["Ctrl + Shift + Enter", "Send and archive"],
      ["Esc", "Save and close"],
    ],
  },
  {
    name: "To approve",
    shortcuts: [
      ["y", "Approve"],
      ["n", "Reject"],
      ["m", "Edit a copy"],
    ],
  },
  {
    name: "Help",
    shortcuts: [
      ["Ctrl + k", "Any action, place or person, by name"],
      ["?", "These shortcuts"],
    ],
  },
];

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement &&
  target.closest("input, textarea, select, [contenteditable], dialog, [role=dialog], [role=menu]") !== null &&
  !(target instanceof HTMLInputElement && target.type === "checkbox");

/** Selectors of the elements that keep a key for themselves while they have the focus, because it activates them. */
const ACTIVATED: Readonly<Record<string, string>> = {
  Enter: "a, button, input, summary",
  " ": "button, input, summary",
};

/** Longest time between the two keys of a sequence, ms. */
const BETWEEN_MS = 1_500;

interface Press {
  key: string;
  at: number;
}
/** Keys that begin a sequence. */
const BEGINNINGS = new Set(["g", "*"]);

/** The last press, and the one before it if that begins a sequence. All handlers share them. */
let latest: Press | undefined;
let begun: Press | undefined;

// In the capture phase, so that the handlers below already find `begun` set.
document.addEventListener(
  "keydown",
  ({ key, target, timeStamp }) => {
    if (["Shift", "Control", "Alt", "Meta"].includes(key)) return;
    begun = latest && BEGINNINGS.has(latest.key) && timeStamp - latest.at < BETWEEN_MS ? latest : undefined;
    latest = isTyping(target) ? undefined : { key, at: timeStamp };
  },
  true,
);

type Handlers = Readonly<Record<string, (event: KeyboardEvent) => void>>;

/** The handlers of all mounted components. */
const mounted = new Set<{ readonly current: Handlers }>();

/**
 * Shortcuts that act, with their names and other words to find them by. All other shortcuts go to places, which have names of
 * their own.
 */
const ACTIONS: readonly [keys: string, name: string, words?: string][] = [
  ["c", "Compose", "new message write mail"],
  ["r", "Reply", "answer"],
  ["a", "Reply to all", "answer everybody"],
  ["f", "Forward"],
  ["e", "Archive", "done"],
  ["#", "Move to trash", "delete bin"],
  ["!", "Mark as spam", "junk"],
  ["s", "Star", "flag remove star"],
  ["l", "Label", "tag"],
  ["b", "Snooze", "later remind"],
  ["I", "Mark as read"],
  ["U", "Mark as unread"],
  ["z", "Undo"],
  ["x", "Select conversation"],
  ["* a", "Select all"],
  ["* n", "Select none"],
  ["j", "Next conversation"],
  ["k", "Previous conversation"],
  ["u", "Back to the list"],
  ["y", "Approve"],
  ["n", "Reject"],
  ["m", "Edit a copy"],
  ["/", "Search mail", "find"],
  ["?", "Keyboard shortcuts", "help keys"],
];

/** The actions that the page offers now. */
export const shortcutActions = (): { name: string; words?: string; keys: string; run: () => void }[] =>
  ACTIONS.flatMap(([keys, name, words]) => {
    const handlers = [...mounted].toReversed().find(({ current }) => current[keys] !== undefined);
    const run = () => handlers?.current[keys]?.(new KeyboardEvent("keydown"));
    return handlers ? [{ name, keys, run, ...(words !== undefined && { words }) }] : [];
  });

/** Calls `handlers` for their keys while the component is mounted. */
export function useShortcuts(handlers: Handlers): void {
  const current = useRef(handlers);
  current.current = handlers;
  useEffect(() => {
    mounted.add(current);
    return () => void mounted.delete(current);
  }, []);
  useEffect(() => {
    function pressed(event: KeyboardEvent): void {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      const { key, target } = event;
      const activated = ACTIVATED[key];
      if (activated !== undefined && target instanceof HTMLElement && target.closest(activated)) return;
      // The second key of a sequence does not act as a shortcut by itself.
      const handler = current.current[begun ? `${begun.key} ${key}` : key];
      if (!handler) return;
      event.preventDefault();
      handler(event);
    }
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}
