/** Lists of rows: text while they are empty, and a search field once they are long. */
import { type ComponentProps, type ReactNode, useState } from "react";
import { Nothing, Panel, Rows } from "./settings-blocks.tsx";

interface Search<T> {
  /** Label of the search field, such as "Find a person". */
  label: string;
  /** The text of an entry in which a word is found. */
  text(entry: T): string;
}

interface RowListProps<T> {
  of: readonly T[];
  /** Accessible name. */
  label: string;
  /** Stands there while there are no entries. */
  empty?: ReactNode;
  search?: Search<T>;
  /** The row of an entry: an <li> with a key. */
  children(entry: T, place: number): ReactNode;
}

/** A list of rows among other things in a panel. */
export function RowList<T>({ of: entries, label, empty, search, children: row }: RowListProps<T>) {
  const rows = (shown: readonly T[]) => <Rows label={label}>{shown.map(row)}</Rows>;
  return (
    <>
      {entries.length === 0 && empty && <Nothing>{empty}</Nothing>}
      {search === undefined ? rows(entries) : <Searched of={entries} search={search} rows={rows} />}
    </>
  );
}

/** A panel for a list. `after`: what stands below it. */
export function ListPanel<T>({
  title,
  about,
  action,
  label = title,
  after,
  ...list
}: Omit<ComponentProps<typeof Panel>, "children"> &
  Omit<RowListProps<T>, "label"> & { label?: string; after?: ReactNode }) {
  return (
    <Panel title={title} about={about} action={action}>
      <RowList label={label} {...list} />
      {after}
    </Panel>
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
