/** Keyboard shortcuts, as mail people know them. None acts while somebody types, nor beside Ctrl, Alt or Meta. */
import { useEffect, useRef } from "react";

export const SHORTCUTS: readonly [keys: string, does: string][] = [
  ["j / k", "Next, previous conversation"],
  ["Enter", "Open"],
  ["u", "Back to the list"],
  ["e", "Archive"],
  ["#", "Move to trash"],
  ["!", "Mark as spam"],
  ["s", "Star"],
  ["Shift + u", "Mark as unread"],
  ["r", "Reply"],
  ["a", "Reply to all"],
  ["c", "Compose"],
  ["z", "Undo"],
  ["/", "Search"],
  ["?", "These shortcuts"],
];

const isTyping = (target: EventTarget | null): boolean =>
  target instanceof HTMLElement && target.closest("input, textarea, select, [contenteditable], dialog") !== null;

/** While the component is there, `handlers[key]` is called for a key of that name (KeyboardEvent.key). */
export function useShortcuts(handlers: Readonly<Record<string, () => void>>): void {
  const latest = useRef(handlers);
  latest.current = handlers;
  useEffect(() => {
    function pressed(event: KeyboardEvent): void {
      if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
      // A button or link that has the focus keeps the key that presses it.
      if (event.key === "Enter" && event.target instanceof HTMLElement && event.target.closest("a, button")) return;
      const handler = latest.current[event.key];
      if (!handler) return;
      event.preventDefault();
      handler();
    }
    document.addEventListener("keydown", pressed);
    return () => document.removeEventListener("keydown", pressed);
  }, []);
}
