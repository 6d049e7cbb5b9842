/** Invitations in words. Pure, but for the zone of the browser. */
import type { InvitationAnswer, InvitationView } from "./mail-views.ts";

type Moment = NonNullable<InvitationView["start"]>;

export const ANSWERS: readonly [InvitationAnswer, label: string, done: string][] = [
  ["accepted", "Accept", "You accepted"],
  ["tentative", "Maybe", "You said maybe"],
  ["declined", "Decline", "You declined"],
];

const DAY: Intl.DateTimeFormatOptions = { weekday: "short", day: "numeric", month: "short", year: "numeric" };
const TIME: Intl.DateTimeFormatOptions = { hour: "numeric", minute: "2-digit" };
const DAY_MS = 24 * 60 * 60_000;

/** A date or local time of day that is the same everywhere, as a time in UTC. */
const placed = (text: string): number => Date.parse(text.length === 10 ? `${text}T00:00Z` : `${text}Z`);

/**
 * When an event is, in the reader's zone, such as "Mon, 5 Jan 2026, 10:00 – 11:00 (Europe/Berlin)"; undefined without
 * a start. `timeZone`: by default the browser's.
 */
export function formatEventTime(
  { start, end }: Pick<InvitationView, "start" | "end">,
  { timeZone = Intl.DateTimeFormat().resolvedOptions().timeZone, locale }: { timeZone?: string; locale?: string } = {},
): string | undefined {
  if (!start) return undefined;
  if ("date" in start) {
    const format = new Intl.DateTimeFormat(locale, { ...DAY, timeZone: "UTC" });
    const from = placed(start.date);
    // The end is the day after the last.
    const to = end && "date" in end ? placed(end.date) - DAY_MS : from;
    return `${to > from ? format.formatRange(from, to) : format.format(from)}, all day`;
  }
  const inZone = "at" in start;
  const momentToMs = (moment: Moment): number | undefined =>
    "at" in moment
      ? inZone
        ? Date.parse(moment.at)
        : undefined
      : "local" in moment && !inZone
        ? placed(moment.local)
        : undefined;
  const format = new Intl.DateTimeFormat(locale, { ...DAY, ...TIME, timeZone: inZone ? timeZone : "UTC" });
  const from = momentToMs(start) ?? 0;
  const to = end && momentToMs(end);
  const shown = to !== undefined && to > from ? format.formatRange(from, to) : format.format(from);
  const zone = inZone ? timeZone.replaceAll("_", " ") : (start.zone ?? "at the place of the event");
  return `${shown} (${zone})`;
}

/** True if `later` replaces `earlier`: the same event in a later version, or written later. */
export function replacesInvitation(later: InvitationView, earlier: InvitationView): boolean {
  if (later.uid !== earlier.uid || later.occurrence !== earlier.occurrence) return false;
  if (later.method !== "request" && later.method !== "cancel") return false;
  return (
    later.sequence > earlier.sequence ||
    (later.sequence === earlier.sequence && (later.stamp ?? "") > (earlier.stamp ?? ""))
  );
}
