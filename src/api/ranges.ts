/** Conditional requests, and requests for a range of octets (RFC 9110 §13 and §14). */

const withoutWeakness = (tag: string): string => tag.trim().replace(/^W\//, "");

/** Compares an If-None-Match (RFC 9110 §13.1.2). */
export const matchesTag = (ifNoneMatch: string | null, etag: string): boolean =>
  ifNoneMatch?.split(",").some((tag) => tag.trim() === "*" || withoutWeakness(tag) === withoutWeakness(etag)) === true;

/** A range of octets, without the one at `end`. */
export interface OctetRange {
  start: number;
  end: number;
}

/**
 * Reads which of `size` octets a request asks for. "none": of those that it asks for there are none. "all": it asks for all, for
 * several ranges, for what is no range, or for a range of octets with another tag than `etag`, which is strong.
 */
export function readRange({ method, headers }: Request, size: number, etag: string): OctetRange | "all" | "none" {
  const ifRange = headers.get("if-range");
  if (method !== "GET" || (ifRange !== null && ifRange !== etag)) return "all";
  const [, first, last] = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(headers.get("range") ?? "") ?? [];
  if (first === undefined || last === undefined || first + last === "") return "all";
  if (first === "")
    return Number(last) > 0 && size > 0 ? { start: Math.max(0, size - Number(last)), end: size } : "none";
  const start = Number(first);
  const end = last === "" ? size : Math.min(size, Number(last) + 1);
  if (last !== "" && Number(last) < start) return "all";
  return start < size ? { start, end } : "none";
}
