/**
 * Opaque keyset cursors (rules: Pages): the position after the last row of a page, bound to the query that made it
 * (rules: Parameters). Not secret and not trusted: whatever a position says, reach is asked again.
 */
import { createHash } from "node:crypto";
import { AppError } from "../base/errors.ts";

/** Sort key of the last row of a page: its time (epoch ms) and its number, which makes it unique. */
export interface Position {
  at: number;
  seq: number;
  /** Of rows that stand in an order of their own before the others: how many stand before this one. */
  place?: number | undefined;
}

/** `query`: whatever selects the rows, without the cursor and the page size. */
const bindingOf = (query: unknown): string =>
  createHash("sha256").update(JSON.stringify(query)).digest("base64url").slice(0, 12);

export function encodeCursor(position: Position, query: unknown): string {
  const { at, seq, place } = position;
  const key = place === undefined ? `${at}.${seq}` : `${at}.${seq}.${place}`;
  return Buffer.from(`1.${key}.${bindingOf(query)}`).toString("base64url");
}

/** @throws AppError bad_request for a cursor that is none, or that another query made. */
export function decodeCursor(cursor: string, query: unknown): Position {
  const text = Buffer.from(cursor, "base64url");
  const match = /^1\.(-?\d{1,16})\.(\d{1,16})(?:\.(\d{1,16}))?\.([\w-]{12})$/.exec(text.toString("latin1"));
  // Buffer.from skips what is not base64url: only what encodes back to itself was made here.
  if (!match || text.toString("base64url") !== cursor) {
    throw new AppError("bad_request", "cursor is not valid: pass the nextCursor of the previous page as it is");
  }
  const [, at, seq, place, binding] = match;
  if (binding !== bindingOf(query)) {
    throw new AppError("bad_request", "cursor belongs to another query: repeat the filters of the page it came from");
  }
  return { at: Number(at), seq: Number(seq), ...(place !== undefined && { place: Number(place) }) };
}
