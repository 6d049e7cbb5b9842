/** Pages of administration's lists: `cursor` and `limit` in the query, `nextCursor` in the answer. */
import { decodeRowCursor, encodeRowCursor, type RowPosition } from "../store/cursor.ts";
import { t } from "./json-schema.ts";
import { DEFAULT_LIMIT, nullable, parameter } from "./schemas.ts";

/** Query parameters of every list. */
export const PAGE_QUERY = { cursor: parameter.cursor, limit: parameter.limit };

/** Beside the list in its answer. */
export const nextCursor = nullable(t.String(), { description: "null on the last page" });

interface List<T> {
  /** The list and its filters: a cursor made by another is refused. */
  query: unknown;
  /** Where a row stands in the list's order. */
  positionOf(row: T): RowPosition;
  /** At most `limit` rows, in order, those after a position alone. */
  read(after: RowPosition | undefined, limit: number): Iterable<T>;
}

/** One page of a list. @throws AppError bad_request for a cursor that is none, or of another list */
export function pageOf<T>(
  { query, positionOf, read }: List<T>,
  { cursor, limit = DEFAULT_LIMIT }: { cursor?: string; limit?: number },
): { page: T[]; nextCursor: string | null } {
  const after = cursor === undefined ? undefined : decodeRowCursor(cursor, query);
  const rows = Iterator.from(read(after, limit + 1))
    .take(limit + 1)
    .toArray();
  const page = rows.slice(0, limit);
  const last = page.at(-1);
  return { page, nextCursor: rows.length > limit && last ? encodeRowCursor(positionOf(last), query) : null };
}

/** `read` of a list that is short enough to be read whole. */
export function readAmong<T>(
  rows: readonly T[],
  positionOf: (row: T) => RowPosition,
  order: "oldest first" | "newest first",
): List<T>["read"] {
  const sign = order === "oldest first" ? 1 : -1;
  const compare = (a: RowPosition, b: RowPosition): number =>
    sign * (a.at - b.at || (a.id < b.id ? -1 : a.id > b.id ? 1 : 0));
  const sorted = rows.toSorted((a, b) => compare(positionOf(a), positionOf(b)));
  return (after) => sorted.filter((row) => after === undefined || compare(positionOf(row), after) > 0);
}
