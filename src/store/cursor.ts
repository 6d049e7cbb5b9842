/**
 * Opaque keyset cursors (rules: Pages): the position after the last row of a page, bound to its query (rules:
 * Parameters). Neither secret nor trusted: access is checked again for every position.
 */
import { createHash } from "node:crypto";
import { AppError } from "../base/errors.ts";

/** Sort key of the last row of a page: time (epoch ms) and a number that makes it unique. */
export interface Position {
  at: number;
  seq: number;
  /** For rows that come first in an order of their own: how many come before this one. */
  place?: number | undefined;
  /** For a query that counts days from today: the day of its first page, in days since 1970. */
  day?: number | undefined;
}

/** Sort key of a row with a text id: time (epoch ms) and that id. */
export interface RowPosition {
  at: number;
  id: string;
}

/** A page of rows in the order of their positions: those after `after`, or all; at most `limit` of them. */
export interface RowPage {
  after?: RowPosition | undefined;
  limit?: number;
}

/** `query`: everything that selects the rows, except cursor and page size. */
const hashQuery = (query: unknown): string =>
  createHash("sha256").update(JSON.stringify(query)).digest("base64url").slice(0, 12);

export function encodeCursor(position: Position, query: unknown): string {
  const { at, seq, place, day } = position;
  const key = `${at}.${seq}${place === undefined ? "" : `.${place}`}${day === undefined ? "" : `.d${day}`}`;
  return Buffer.from(`1.${key}.${hashQuery(query)}`).toString("base64url");
}

export const encodeRowCursor = ({ at, id }: RowPosition, query: unknown): string =>
  Buffer.from(`2.${at}.${hashQuery(query)}.${id}`).toString("base64url");

/** Matches a cursor with `pattern`; its group `binding` must belong to the query. @throws AppError bad_request */
function readCursor(cursor: string, pattern: RegExp, query: unknown): Record<string, string | undefined> {
  const bytes = Buffer.from(cursor, "base64url");
  const groups = pattern.exec(bytes.toString())?.groups;
  // Buffer.from skips characters outside base64url, so a valid cursor must encode back to itself.
  if (!groups || bytes.toString("base64url") !== cursor) {
    throw new AppError("bad_request", "cursor is not valid: pass the nextCursor of the previous page as it is");
  }
  if (groups.binding !== hashQuery(query)) {
    throw new AppError("bad_request", "cursor belongs to another query: repeat the filters of the page it came from");
  }
  return groups;
}

const POSITION =
  /^1\.(?<at>-?\d{1,16})\.(?<seq>\d{1,16})(?:\.(?<place>\d{1,16}))?(?:\.d(?<day>\d{1,6}))?\.(?<binding>[\w-]{12})$/;
const ROW_POSITION = /^2\.(?<at>\d{1,16})\.(?<binding>[\w-]{12})\.(?<id>.{1,512})$/;

/** @throws AppError bad_request for an invalid cursor, or one of another query */
export function decodeCursor(cursor: string, query: unknown): Position {
  const { at, seq, place, day } = readCursor(cursor, POSITION, query);
  return {
    at: Number(at),
    seq: Number(seq),
    ...(place !== undefined && { place: Number(place) }),
    ...(day !== undefined && { day: Number(day) }),
  };
}

/** See decodeCursor; for cursors of encodeRowCursor. @throws AppError bad_request */
export function decodeRowCursor(cursor: string, query: unknown): RowPosition {
  const { at, id = "" } = readCursor(cursor, ROW_POSITION, query);
  return { at: Number(at), id };
}
