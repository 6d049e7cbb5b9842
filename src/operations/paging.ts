/**
 * Pages of the lists of administration: `cursor` and `limit` in the query, `nextCursor` in the answer (rules: Pages).
 */
import { nullable, t } from "../base/json-schema.ts";
import { decodeRowCursor, encodeRowCursor, type RowPosition } from "../store/cursor.ts";
import { DEFAULT_LIMIT, parameter } from "./shared-schemas.ts";

/** Query parameters of every list. */
export const PAGE_QUERY = { cursor: parameter.cursor, limit: parameter.limit };

/** Field of the answer, beside the list. */
export const nextCursor = nullable(t.String(), { description: "null on the last page" });

interface List<T> {
  /** Names the list and its filters: a cursor made with others is refused. */
  query: unknown;
  /** Returns the position of a row in the order of the list. */
  rowPosition(row: T): RowPosition;
  /** Reads rows in order, the first `limit` at least, or all; with `after`, those after that position. */
  read(after: RowPosition | undefined, limit: number): Iterable<T>;
}

/** Reads one page of a list. @throws AppError bad_request for a cursor that is damaged, or of another list */
export function readListPage<T>(
  { query, rowPosition, read }: List<T>,
  { cursor, limit = DEFAULT_LIMIT }: { cursor?: string; limit?: number },
): { page: T[]; nextCursor: string | null } {
  const after = cursor === undefined ? undefined : decodeRowCursor(cursor, query);
  const rows = Iterator.from(read(after, limit + 1))
    .take(limit + 1)
    .toArray();
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { page, nextCursor: rows.length > limit && last ? encodeRowCursor(rowPosition(last), query) : null };
}

/** Makes `read` for a list that is short enough to be read whole: `rows`, in any order. */
export function createListReader<T>(
  rows: readonly T[],
  rowPosition: (row: T) => RowPosition,
  order: "oldest first" | "newest first",
): List<T>["read"] {
  const sign = order === "oldest first" ? 1 : -1;
  const compare = (a: RowPosition, b: RowPosition): number =>
    sign * (a.at - b.at || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  const sorted = rows.toSorted((a, b) => compare(rowPosition(a), rowPosition(b)));
  return (after) => sorted.filter((row) => after === undefined || compare(rowPosition(row), after) > 0);
}
