/** A list with a search field once it is long. */
import { type ReactNode, useState } from "react";

/** Entries from which on the list has a search field. */
const LONG = 9;
/** Most entries on the page. */
const MOST = 200;

export function Filtered<T>({
  of: entries,
  label,
  textOf,
  children,
}: {
  of: readonly T[];
  /** Label of the search field, such as "Find a person". */
  label: string;
  textOf(entry: T): string;
  children(shown: readonly T[]): ReactNode;
}) {
  const [word, setWord] = useState("");
  const wanted = word.trim().toLowerCase();
  const found = wanted === "" ? entries : entries.filter((entry) => textOf(entry).toLowerCase().includes(wanted));
  return (
    <>
      {entries.length >= LONG && (
        <div className="mb-4">
          <input
            type="search"
            aria-label={label}
            placeholder={`${label}…`}
            value={word}
            onChange={(event) => setWord(event.target.value)}
            className="control w-full max-w-80"
          />
          <p role="status" className={wanted === "" ? "sr-only" : "mt-2 text-sm text-muted"}>
            {wanted !== "" && `${found.length} of ${entries.length}`}
          </p>
        </div>
      )}
      {children(found.slice(0, MOST))}
      {found.length > MOST && (
        <p className="mt-3 text-sm text-muted">
          These are the first {MOST} of {found.length}: find the others by a word of theirs.
        </p>
      )}
    </>
  );
}
