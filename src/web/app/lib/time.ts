/** The browser's clock, and times as people read them. The only file of the app that asks what time it is. */

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

/** When a conversation may come back: each with what it is called. */
export function snoozeTimes(): { label: string; at: Date }[] {
  const at = (days: number, hour: number): Date => {
    const date = now();
    date.setDate(date.getDate() + days);
    date.setHours(hour, 0, 0, 0);
    return date;
  };
  const toMonday = (8 - now().getDay()) % 7 || 7;
  return [
    ...(now().getHours() < 16 ? [{ label: "Later today", at: at(0, 18) }] : []),
    { label: "Tomorrow morning", at: at(1, 8) },
    { label: "Next Monday", at: at(toMonday, 8) },
    { label: "In a month", at: at(30, 8) },
  ];
}
