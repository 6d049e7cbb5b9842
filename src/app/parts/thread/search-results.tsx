/** Search results: marked words in the rows of the list, the order, and notices when nothing was found. */
import { Link } from "@tanstack/react-router";
import { Paperclip, SearchX } from "lucide-react";
import type { HighlightView, SearchOrder, ThreadView } from "../../lib/mail-views.ts";
import { Notice } from "../ui/notice.tsx";

/** Pairs of start and end, in UTF-16 units; the end is exclusive. */
type Ranges = readonly (readonly number[])[];

/**
 * The ranges of the conversation's subject. The highlight is of a message's subject, which may begin with `Re:`; a
 * highlight that does not contain the conversation's subject is ignored.
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
export const foundMessageId = ({ highlights }: Pick<ThreadView, "highlights">): string =>
  highlights?.[0]?.emailId ?? "";

/** UTF-16 units of a snippet that a row shows before the match. */
const ROOM_BEFORE = 24;

/** Shortens the start of a snippet, so that a narrow row still shows the match. */
export function shortenSnippetStart<T extends { snippet: string; ranges: Ranges }>({ snippet, ranges }: T) {
  const first = ranges[0]?.[0] ?? 0;
  const space = snippet.indexOf(" ", first - ROOM_BEFORE);
  if (first <= ROOM_BEFORE || space < 0 || space >= first) return { snippet, ranges };
  return {
    snippet: `…${snippet.slice(space + 1)}`,
    ranges: ranges.map(([start = 0, end = 0]) => [start - space, end - space]),
  };
}

/** A text with marked ranges. All of it is text nodes, whatever it contains. */
function Marked({ text, ranges }: { text: string; ranges: Ranges }) {
  return (
    <>
      {ranges.map(([start = 0, end = 0], i) => (
        <span key={start}>
          {text.slice(ranges[i - 1]?.[1] ?? 0, start)}
          <mark>{text.slice(start, end)}</mark>
        </span>
      ))}
      {text.slice(ranges.at(-1)?.[1] ?? 0)}
    </>
  );
}

export const FoundSubject = ({ thread }: { thread: ThreadView }) => (
  <Marked text={thread.subject || "(no subject)"} ranges={markedSubject(thread)} />
);

const NAME_OF: Partial<Record<HighlightView["field"], string>> = { from: "From", to: "To", cc: "Cc" };

/** The match outside the subject, in place of the snippet of the conversation's latest message. */
export function FoundText({ thread }: { thread: ThreadView }) {
  const highlight = thread.highlights?.find(({ field }) => field !== "subject");
  if (!highlight) return thread.snippet;
  const { field } = highlight;
  const { snippet, ranges } = shortenSnippetStart(highlight);
  return (
    <>
      {NAME_OF[field] !== undefined && `${NAME_OF[field]}: `}
      {field === "attachment" && <Paperclip size={12} aria-label="Attachment" className="mr-1 inline" />}
      <Marked text={snippet} ranges={ranges} />
    </>
  );
}

const ORDERS: readonly [SearchOrder, string][] = [
  ["newest", "Newest"],
  ["relevance", "Best match"],
];

/** Buttons that choose the order of results. */
export const OrderChoice = ({ sort, choose }: { sort: SearchOrder; choose: (sort: SearchOrder) => void }) => (
  // biome-ignore lint/a11y/useSemanticElements: a fieldset is for what is filled in
  <div role="group" aria-label="Order of results" className="mt-1.5 flex gap-1 text-xs">
    {ORDERS.map(([order, name]) => (
      <button
        type="button"
        key={order}
        aria-pressed={order === sort}
        onClick={() => choose(order)}
        className={`h-6 rounded-md px-2 max-md:h-9 max-md:px-3 ${order === sort ? "bg-chosen font-medium text-ink" : "text-muted hover:bg-hover hover:text-ink"}`}
      >
        {name}
      </button>
    ))}
  </div>
);

/** The notice above results that match other words than the typed ones. */
export const FoundInstead = ({ q, words }: { q: string; words: readonly string[] }) => (
  <p role="status" className="border-b border-line bg-notice px-4 py-2 text-sm break-words">
    Nothing has “{q}” in it.{" "}
    {words.length === 0 ? (
      "Showing similar results."
    ) : (
      <>
        Showing results for <strong>{words.join(", ")}</strong>.
      </>
    )}
  </p>
);

/** Notes on the parts of a query that the search could not take as meant. */
export const SearchNotes = ({ notes }: { notes: readonly string[] }) => (
  <ul aria-label="Notes" className="border-b border-line bg-notice px-4 py-2 text-sm break-words">
    {notes.map((note) => (
      <li key={note}>{note}</li>
    ))}
  </ul>
);

export function NothingFound({
  q,
  suggestion,
  folder,
  mailbox,
  sort,
}: {
  q: string;
  suggestion: string | undefined;
  folder: string;
  mailbox: string | undefined;
  sort: "relevance" | undefined;
}) {
  return (
    <div role="status" className="h-full">
      <Notice icon={SearchX} title={`Nothing found for “${q}”`}>
        {suggestion === undefined ? (
          <p>Every word has to match. To search trash or spam, open that folder first, or add in:trash or in:spam.</p>
        ) : (
          <p className="text-base text-ink">
            Did you mean{" "}
            <Link
              to="/mail/$folder"
              params={{ folder }}
              search={{ ...(mailbox !== undefined && { mailbox }), q: suggestion, sort }}
              // The link disappears; without this, keyboard users would start at the top of the page.
              onClick={() => document.getElementById("content")?.focus()}
              className="font-medium break-words text-accent underline"
            >
              {suggestion}
            </Link>
            ?
          </p>
        )}
      </Notice>
    </div>
  );
}
