/** The places where a search matched a conversation, for the rows of the list. */
import type { ThreadView } from "./api.ts";

/** Pairs of start and end, in UTF-16 units; the end is exclusive. */
export type Ranges = readonly (readonly number[])[];

/**
 * The ranges of the conversation's subject. The highlight is of a message's subject, which may begin with `Re:`; a highlight
 * that does not contain the conversation's subject is ignored.
 */
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

/** Id of the first highlight's message, where reading begins; empty without a highlight. */
export const foundMessage = ({ highlights }: Pick<ThreadView, "highlights">): string => highlights?.[0]?.emailId ?? "";

/** UTF-16 units of a snippet that a row shows before the match. */
const ROOM_BEFORE = 24;

/** Shortens the start of a snippet, so that a narrow row still shows the match. */
export function fromFirstMark<T extends { snippet: string; ranges: Ranges }>({ snippet, ranges }: T) {
  const first = ranges[0]?.[0] ?? 0;
  const space = snippet.indexOf(" ", first - ROOM_BEFORE);
  if (first <= ROOM_BEFORE || space < 0 || space >= first) return { snippet, ranges };
  return {
    snippet: `…${snippet.slice(space + 1)}`,
    ranges: ranges.map(([start = 0, end = 0]) => [start - space, end - space]),
  };
}
