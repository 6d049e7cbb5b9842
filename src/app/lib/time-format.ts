/** Formats and reads times. It is the only file of the app that reads the browser's clock. */

const now = (): Date => new Date();

const sameDay = (a: Date, b: Date): boolean => a.toDateString() === b.toDateString();

/** For a list: the time today, the day this year, else the date. */
export function shortTime(iso: string): string {
  const date = new Date(iso);
  const today = now();
  if (sameDay(date, today)) return date.toLocaleTimeString(undefined, { hour: "numeric", minute: "2-digit" });
  if (date.getFullYear() === today.getFullYear()) {
    return date.toLocaleDateString(undefined, { day: "numeric", month: "short" });
  }
  return date.toLocaleDateString(undefined, { day: "numeric", month: "short", year: "numeric" });
}

export const fullTime = (iso: string): string =>
  new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

/** A time to come, to the minute: "Fri, 27 Nov 2026, 08:00". */
export const dayAndTime = (iso: string): string =>
  new Date(iso).toLocaleString(undefined, {
    weekday: "short",
    day: "numeric",
    month: "short",
    year: "numeric",
    hour: "numeric",
    minute: "2-digit",
  });

/** The name of the time zone in which times are shown. */
export const timeZone = (): string => Intl.DateTimeFormat().resolvedOptions().timeZone;

/** The time in so many milliseconds, as shortTime shows it. */
export const formatTimeFromNow = (ms: number): string => shortTime(new Date(now().getTime() + ms).toISOString());

export const msUntil = (iso: string): number => new Date(iso).getTime() - now().getTime();

/** Suggested times to snooze until, or to send at. */
export function snoozeTimes(): { label: string; at: Date }[] {
  const at = (days: number, hour: number): Date => {
    const date = now();
    date.setDate(date.getDate() + days);
    date.setHours(hour, 0, 0, 0);
    return date;
  };
  const today = now().getDay();
  const toMonday = (8 - today) % 7 || 7;
  const toSaturday = (6 - today + 7) % 7;
  const soon = now();
  soon.setHours(soon.getHours() + 3, 0, 0, 0);
  return [
    ...(soon.getDate() === now().getDate() ? [{ label: "In three hours", at: soon }] : []),
    ...(now().getHours() < 16 ? [{ label: "This evening", at: at(0, 18) }] : []),
    { label: "Tomorrow morning", at: at(1, 8) },
    ...(toSaturday > 1 ? [{ label: "At the weekend", at: at(toSaturday, 9) }] : []),
    { label: "Next Monday", at: at(toMonday, 8) },
    { label: "In a month", at: at(30, 8) },
  ];
}

const two = (number: number): string => String(number).padStart(2, "0");
/** A local time as the value of an <input type="datetime-local">. */
const local = (date: Date): string =>
  `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())}T${two(date.getHours())}:${two(date.getMinutes())}`;

/** An ISO 8601 time as the value of such an input. */
export const toLocalTimeInput = (iso: string): string => local(new Date(iso));

/** Bounds and initial value of such an input for a snooze, within the server's limit of a year. */
export function localTimeInputBounds(): { least: string; most: string; initial: string } {
  const inDays = (days: number, hour?: number): Date => {
    const date = now();
    date.setDate(date.getDate() + days);
    if (hour !== undefined) date.setHours(hour, 0, 0, 0);
    return date;
  };
  return { least: local(now()), most: local(inDays(365)), initial: local(inDays(1, 8)) };
}

/** The time in such an input, if it is within the coming year. */
export function readLocalTime(text: string): Date | undefined {
  const { most } = localTimeInputBounds();
  const date = new Date(text);
  return date.getTime() > now().getTime() && text <= most ? date : undefined;
}

/** The time `hours` ago, ISO 8601. */
export const hoursAgo = (hours: number): string => new Date(now().getTime() - hours * 3_600_000).toISOString();

/** The date `days` before today, YYYY-MM-DD. */
export function dayBefore(days: number): string {
  const date = now();
  date.setDate(date.getDate() - days);
  return local(date).slice(0, 10);
}
