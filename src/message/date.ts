/**
 * Reads the date-time of RFC 5322 §3.3, in its obsolete and other common forms, and writes it. Uses no clock and no
 * local time zone.
 */

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/** RFC 5322 §4.3. The military letters are unreliable and count as +0000. */
const ZONES: Record<string, number> = {
  est: -300,
  edt: -240,
  cst: -360,
  cdt: -300,
  mst: -420,
  mdt: -360,
  pst: -480,
  pdt: -420,
  cet: 60,
  cest: 120,
  bst: 60,
  jst: 540,
};

const TIME = String.raw`(\d{1,2})[:.](\d{1,2})(?:[:.](\d{1,2})(?:\.\d+)?)?\s*(am|pm)?`;
const ZONE = String.raw`(?:\s*(?:gmt|utc|ut)?\s*([+-]\d{1,2}:?\d{2})|\s*([a-z]{1,5})(?![a-z]))?`;
const RFC5322 = new RegExp(String.raw`(\d{1,2})[\s-]+([a-z]{3})[a-z]*\.?[\s-]+(\d{2,4})[\s,]+${TIME}${ZONE}`, "i");
const US = new RegExp(String.raw`([a-z]{3})[a-z]*\.?\s+(\d{1,2}),?\s+(\d{4})[\s,]+${TIME}${ZONE}`, "i");
const CTIME = new RegExp(String.raw`([a-z]{3})\s+(\d{1,2})\s+${TIME}${ZONE}\s+(\d{4})`, "i");
const ISO = new RegExp(String.raw`(\d{4})-(\d{1,2})-(\d{1,2})[t\s]+${TIME}(?:${ZONE}|z)`, "i");

/** Epoch milliseconds of a Date header value; undefined when it cannot be read. */
export function parseDate(text: string): number | undefined {
  // A longer value is not a date.
  const value = withoutComments(text.slice(0, 200));
  let match = RFC5322.exec(value);
  if (match) return readDateParts(match[3], match[2], match[1], match.slice(4, 8), match[8], match[9]);
  match = ISO.exec(value);
  if (match) return readDateParts(match[1], match[2], match[3], match.slice(4, 8), match[8], match[9]);
  match = US.exec(value);
  if (match) return readDateParts(match[3], match[1], match[2], match.slice(4, 8), match[8], match[9]);
  match = CTIME.exec(value);
  if (match) return readDateParts(match[9], match[1], match[2], match.slice(3, 7), match[7], match[8]);
  return undefined;
}

/** Removes comments, nested ones included. */
function withoutComments(text: string): string {
  const bare = text.replace(/\([^()]*\)/g, " ");
  return bare === text ? text : withoutComments(bare);
}

function readDateParts(
  yearText: string | undefined,
  monthText: string | undefined,
  dayText: string | undefined,
  [hourText, minuteText, secondText, half]: (string | undefined)[],
  offset: string | undefined,
  zone: string | undefined,
): number | undefined {
  const year = fullYear(yearText ?? "");
  const month = /^\d/.test(monthText ?? "") ? Number(monthText) - 1 : MONTHS.indexOf((monthText ?? "").toLowerCase());
  const day = Number(dayText);
  const hour = half === undefined ? Number(hourText) : (Number(hourText) % 12) + (/pm/i.test(half) ? 12 : 0);
  const minute = Number(minuteText);
  const second = Number(secondText ?? 0);
  const valid = year >= 1900 && month >= 0 && month < 12 && day >= 1 && day <= 31 && hour < 24 && minute < 60;
  if (!valid || second > 60) return undefined;
  // Counts a leap second as the last second of its minute.
  const utc = Date.UTC(year, month, day, hour, minute, Math.min(second, 59));
  return utc - readZoneMinutes(offset, zone) * 60_000;
}

/** RFC 5322 §4.3: two digits are 2000 to 2049 or 1950 to 1999, three are counted from 1900. */
function fullYear(text: string): number {
  const year = Number(text);
  if (text.length === 2) return year < 50 ? 2000 + year : 1900 + year;
  return text.length === 3 ? 1900 + year : year;
}

function readZoneMinutes(offset: string | undefined, zone: string | undefined): number {
  if (offset === undefined) return ZONES[zone?.toLowerCase() ?? ""] ?? 0;
  const digits = offset.replace(/[^\d]/g, "").padStart(4, "0");
  const minutes = Number(digits.slice(0, -2)) * 60 + Number(digits.slice(-2));
  return offset.startsWith("-") ? -minutes : minutes;
}

/** Epoch milliseconds as the date-time of RFC 5322 §3.3, in UTC. */
export function dateHeader(ms: number): string {
  return new Date(ms).toUTCString().replace("GMT", "+0000");
}
