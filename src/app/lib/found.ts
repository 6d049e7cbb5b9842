/** Where a search found a conversation, for the rows of the list. */
import type { ThreadView } from "./api.ts";

/** From, up to; UTF-16 units. */
export type Ranges = readonly (readonly number[])[];

/** The ranges of the conversation's subject. Its messages' have `Re:` before it; one that differs is not shown in its place. */
export function markedSubject({ subject, highlights }: Pick<ThreadView, "subject" | "highlights">): Ranges {
  for (const { field, snippet, ranges } of highlights ?? []) {
    const at = field === "subject" && subject !== "" ? snippet.indexOf(subject) : -1;
    if (at < 0) continue;
    return ranges
      .map(([start = 0, end = 0]) => [start - at, end - at])
      .filter(([start = 0, end = 0]) => start >= 0 && end <= subject.length);
  }
  return [];
}

/** Id of the message to begin with: the latest that was found; empty if none is known. */
export const foundMessage = ({ highlights }: Pick<ThreadView, "highlights">): string => highlights?.[0]?.emailId ?? "";

/** Units of a snippet that a row has room for before what was found. */
const ROOM_BEFORE = 24;

/** A snippet that begins shortly before what was found, so that a row which has no room for all of it shows that. */
export function fromFirstMark<T extends { snippet: string; ranges: Ranges }>({ snippet, ranges }: T) {
  const first = ranges[0]?.[0] ?? 0;
  const space = snippet.indexOf(" ", first - ROOM_BEFORE);
  if (first <= ROOM_BEFORE || space < 0 || space >= first) return { snippet, ranges };
  return {
    snippet: `…${snippet.slice(space + 1)}`,
    ranges: ranges.map(([start = 0, end = 0]) => [start - space, end - space]),
  };
}
