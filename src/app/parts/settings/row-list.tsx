/** A list of rows in a panel: its text while it is empty, and a search field once it is long. */
import { type ReactNode, useState } from "react";
import { Nothing, Rows } from "./settings-blocks.tsx";

interface Search<T> {
  /** Label of the search field, such as "Find a person". */
  label: string;
  /** The text of an entry in which a word is found. */
  text(entry: T): string;
}

export function RowList<T>({
  of: entries,
  label,
  empty,
  search,
  children: row,
}: {
  of: readonly T[];
  /** Accessible name. */
  label: string;
  /** Stands there while there are no entries. */
  empty?: ReactNode;
  search?: Search<T>;
  /** The row of an entry: an <li> with a key. */
  children(entry: T, place: number): ReactNode;
}) {
  const rows = (shown: readonly T[]) => <Rows label={label}>{shown.map(row)}</Rows>;
  return (
    <>
      {entries.length === 0 && empty && <Nothing>{empty}</Nothing>}
      {search === undefined ? rows(entries) : <Searched of={entries} search={search} rows={rows} />}
    </>
  );
}

/** Entries from which on the list has a search field. */
const LONG = 9;
/** Most entries on the page. */
const MOST = 200;

function Searched<T>({
  of: entries,
  search: { label, text },
  rows,
}: {
  of: readonly T[];
  search: Search<T>;
  rows(shown: readonly T[]): ReactNode;
}) {
  const [word, setWord] = useState("");
  const wanted = word.trim().toLowerCase();
  const found = wanted === "" ? entries : entries.filter((entry) => text(entry).toLowerCase().includes(wanted));
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
      {rows(found.slice(0, MOST))}
      {found.length > MOST && (
        <p className="mt-3 text-sm text-muted">
          These are the first {MOST} of {found.length}: find the others by a word of theirs.
        </p>
      )}
    </>
  );
}
