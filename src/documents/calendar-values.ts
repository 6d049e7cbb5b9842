/** Values of calendar files as programs write them, beside what RFC 5545 asks for: people, and names of zones. */
import { findIana } from "windows-iana";
import { toIsoTime } from "../base/time.ts";
import { normalizeAddress, parseAddressList } from "../message/address.ts";

/** Characters of a value that are read. */
const LONGEST_VALUE = 1_000;

/**
 * Reads an ORGANIZER or ATTENDEE. Programs also write a name beside the address, the address without `mailto:`, and a name with
 * a colon that is not quoted. `email` is in one spelling (message/address.ts), and absent for such values as `invalid:nomail`.
 */
export function readCalendarPerson(value: string, { cn = "", email = "" }): { email?: string; name: string } {
  const uri = value.slice(0, LONGEST_VALUE);
  const scheme = uri.toLowerCase().lastIndexOf(MAILTO);
  const [written] = parseAddressList(decodePercent(scheme < 0 ? uri : uri.slice(scheme + MAILTO.length)));
  const address = normalizeAddress(written?.email ?? email.slice(0, LONGEST_VALUE));
  const name = cn.replace(/^'(.*)'$/s, "$1") || (written?.name ?? nameBefore(uri.slice(0, Math.max(0, scheme))));
  return { ...(address !== undefined && { email: address }), name };
}

const MAILTO = "mailto:";

/** The name in `Bea Brand <mailto:` and `CN=Bea Brand:mailto:`. */
const nameBefore = (text: string): string =>
  text
    .replace(/^cn=/i, "")
    .replace(/[<>":]/g, "")
    .trim();

function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * A local time, `2026-06-01T10:00`, in a zone as ISO 8601 in UTC. Zones are those of the IANA, also behind a path of the
 * program that wrote them, and those of Windows (CLDR's windowsZones). Undefined for an unknown zone.
 */
export function localTimeToUtc(local: string, zone: string): string | undefined {
  const format = zonesNamed(zone)
    .map(formatIn)
    .find((one) => one !== undefined);
  if (format === undefined) return undefined;
  const wanted = Date.parse(`${local}:00Z`);
  let at = wanted;
  // The second look corrects a guess on the other side of a change of the clock.
  for (let looks = 0; looks < 2; looks++) at += wanted - Date.parse(`${format.format(at).replace(" ", "T")}:00Z`);
  return toIsoTime(at);
}

/** Names that the IANA may have for a zone: `/example.org/2026a/Europe/Berlin` is Europe/Berlin there. */
function zonesNamed(zone: string): string[] {
  const parts = zone.slice(0, LONGEST_VALUE).split("/");
  return [zone, ...findIana(zone), ...[3, 2].map((count) => parts.slice(-count).join("/"))];
}

function formatIn(timeZone: string): Intl.DateTimeFormat | undefined {
  try {
    return new Intl.DateTimeFormat("sv-SE", { timeZone, dateStyle: "short", timeStyle: "short" });
  } catch {
    return undefined;
  }
}
