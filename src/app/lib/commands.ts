/**
 * Commands that Ctrl+K finds by name: actions that the pages offer while they are shown, and places. A command is found by the
 * beginnings of its words, in any order, and by letters in between.
 */
import { useEffect, useRef } from "react";
import { createSharedValue } from "./cell.ts";

export interface Command {
  name: string;
  group: "Actions" | "Folders" | "Labels" | "Mailboxes" | "Settings" | "People";
  /** Other words to find the command by. */
  words?: string;
  /** Shortcut of the command, or something that tells it from others. */
  hint?: string | undefined;
  run: () => void;
}

/** The number of the palette that is open, 0 for none: one that still closes does not close its successor. */
const open = createSharedValue(0);
let opened = 0;
export const usePalette = open.use;
export const openPalette = (): void => open.set(++opened);
export function closePalette(number: number): void {
  if (open.get() === number) open.set(0);
}

/** Commands of mounted components, beside those of shortcuts. */
const offered = new Set<{ readonly current: readonly Command[] }>();
export const offeredCommands = (): Command[] => [...offered].flatMap(({ current }) => current);

/** Offers commands while the component is mounted. */
export function useCommands(commands: readonly Command[]): void {
  const current = useRef(commands);
  current.current = commands;
  useEffect(() => {
    offered.add(current);
    return () => void offered.delete(current);
  }, []);
}

const folded = (text: string): string => text.normalize("NFKD").replaceAll(/\p{M}/gu, "").toLowerCase();

/** How well a text matches what is typed, the lower the better; undefined if it does not. */
export function rankMatch(text: string, typed: string): number | undefined {
  const words = folded(text).split(/[\s@./-]+/);
  const wanted = folded(typed).split(/\s+/).filter(Boolean);
  let worst = 0;
  for (const part of wanted) {
    if (words[0]?.startsWith(part)) continue;
    if (words.some((word) => word.startsWith(part))) worst = Math.max(worst, 1);
    else if (folded(text).includes(part)) worst = Math.max(worst, 2);
    else return undefined;
  }
  return worst;
}

/** The commands that match, the best first; those that match equally stay in their order. */
export function commandsFor(commands: readonly Command[], typed: string, most: number): Command[] {
  return commands
    .flatMap((command) => {
      const byName = rankMatch(command.name, typed);
      const byWords = rankMatch(`${command.name} ${command.words ?? ""}`, typed);
      const score = byName ?? (byWords === undefined ? undefined : byWords + 3);
      return score === undefined ? [] : [{ command, score }];
    })
    .toSorted((a, b) => a.score - b.score)
    .slice(0, most)
    .map(({ command }) => command);
}
