/**
 * Times as text: RFC 3339 §5.6, and ISO 8601. The server reads those of requests here alone. Times of mail, HTTP and
 * calendars have other formats.
 */
import { AppError } from "./errors.ts";

/** The right form of a time, for a sentence with "must be". */
export const A_TIME = "a time as in 2030-01-07T08:00:00Z";

/** Longer text is no time. */
const LONGEST = 64;
const DATE_TIME = /^(\d{4}-\d\d-\d\d)[Tt ](\d\d:\d\d)(?::(\d\d)(?:\.(\d+))?)?(?:[Zz]|([+-])([01]\d|2[0-3]):([0-5]\d))$/;

/** A time in epoch ms as ISO 8601, in UTC; null stays null. */
export const toIsoTime = (ms: number): string => new Date(ms).toISOString();
export const toIsoTimeOrNull = (ms: number | null): string | null => (ms === null ? null : toIsoTime(ms));

/**
 * Reads a date-time of RFC 3339 §5.6 as epoch ms; undefined for any other text. Its seconds may be left out, its offset
 * may not. Digits after milliseconds do not count. A leap second is refused: epoch milliseconds have none.
 */
export function parseTime(text: string): number | undefined {
  const match = text.length > LONGEST ? null : DATE_TIME.exec(text);
  if (!match) return undefined;
  const [, day, minute, second = "00", fraction = "", sign, hours, minutes] = match;
  const inZone = `${day}T${minute}:${second}.${fraction.slice(0, 3).padEnd(3, "0")}Z`;
  const ms = Date.parse(inZone);
  // A day that its month lacks, and 24:00, would roll over into the next.
  if (Number.isNaN(ms) || toIsoTime(ms) !== inZone) return undefined;
  if (sign === undefined) return ms;
  const offset = (Number(hours) * 60 + Number(minutes)) * 60_000;
  const at = sign === "+" ? ms - offset : ms + offset;
  // An offset may lead out of the years that a date-time can say.
  return toIsoTime(at).length === inZone.length ? at : undefined;
}

/** Reads the time of a field as parseTime does. @throws AppError bad_request */
export function readTimeField(field: string, text: string): number {
  const at = parseTime(text);
  if (at === undefined) throw new AppError("bad_request", `${field} must be ${A_TIME}`);
  return at;
}
