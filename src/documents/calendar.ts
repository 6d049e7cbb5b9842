/** The text of a calendar file (iCalendar, RFC 5545): its events, tasks and journal entries. */
import { decodeUnlabelledText } from "../message/charset.ts";
import { readCalendarPerson } from "./calendar-values.ts";
import type { Text } from "./extracted-text.ts";
import ICAL from "./ical.ts";

/** RFC 7265: name, parameters, type, values. */
type Property = [name: string, parameters: Record<string, string | string[]>, type: string, ...values: unknown[]];
type Component = [name: string, properties: Property[], components: Component[]];

const ENTRIES: Readonly<Record<string, string>> = { vevent: "Event", vtodo: "Task", vjournal: "Journal entry" };

/** A larger one would take too much memory; an invitation has some 2 kB. */
const MOST_BYTES = 4 * 1024 * 1024;

/** False if it cannot be read: it is shown as it is then. */
export function readCalendar(bytes: Uint8Array, text: Text): boolean {
  if (bytes.byteLength > MOST_BYTES) return false;
  let parsed: Component | Component[];
  try {
    parsed = ICAL.parse(decodeUnlabelledText(bytes));
  } catch {
    return false;
  }
  const calendars = (typeof parsed[0] === "string" ? [parsed] : parsed) as Component[];
  for (const [, properties, components] of calendars) {
    const method = properties.find(([name]) => name === "method")?.[3];
    if (method !== undefined) text.add(`Method: ${oneLine(method)}\n`);
    for (const component of components) writeEntry(component, text);
  }
  return true;
}

function writeEntry([kind, properties, components]: Component, text: Text): void {
  const called = ENTRIES[kind];
  if (called === undefined) return;
  const all = (name: string) => properties.filter(([one]) => one === name);
  const line = (title: string, values: string[]): void => {
    const shown = values.filter((value) => value !== "").join(", ");
    if (shown !== "") text.add(`${title}: ${shown}\n`);
  };
  const plain = (name: string): string[] => all(name).flatMap(([, , , ...values]) => values.map(oneLine));

  text.title(`# ${called}: ${plain("summary").join(" ")}`);
  line("Start", all("dtstart").map(formatCalendarTime));
  line("End", all("dtend").map(formatCalendarTime));
  line("Due", all("due").map(formatCalendarTime));
  line("Duration", plain("duration"));
  line(
    "Repeats",
    all("rrule").map(([, , , rule]) => formatRecurrenceRule(rule)),
  );
  line("Also on", all("rdate").map(formatCalendarTime));
  line("Not on", all("exdate").map(formatCalendarTime));
  line("Status", plain("status"));
  line("Place", plain("location"));
  line("Link", plain("url"));
  line("Organizer", all("organizer").map(formatCalendarPerson));
  line("Attendees", all("attendee").map(formatCalendarPerson));
  line("Reminders", components.filter(([name]) => name === "valarm").map(formatAlarmTrigger));
  for (const name of ["description", "comment"]) {
    for (const [, , , value] of all(name)) text.add(`${name === "comment" ? "Comment" : "Description"}:\n${value}\n`);
  }
}

const oneLine = (value: unknown): string =>
  (typeof value === "string" ? value : JSON.stringify(value)).replace(/\s+/g, " ").trim();

/** `2026-01-01 10:00 Europe/Berlin`. */
function formatCalendarTime([, { tzid }, type, ...values]: Property): string {
  return values
    .map((value) => {
      const time = oneLine(value).replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::00)?/, "$1 $2");
      if (type === "date" || !time.includes(":")) return time;
      if (time.endsWith("Z")) return `${time.slice(0, -1)} UTC`;
      return tzid === undefined ? `${time} local time` : `${time} ${oneLine(tzid)}`;
    })
    .join(", ");
}

const formatRecurrenceRule = (rule: unknown): string =>
  typeof rule === "object" && rule !== null
    ? Object.entries(rule)
        .map(([name, value]) => `${name}=${value}`)
        .join("; ")
    : oneLine(rule);

/** `Ann Example <ann@remote.example> (accepted)`. */
function formatCalendarPerson([, { cn, email, partstat }, , value]: Property): string {
  const parameter = (given: string | string[] | undefined): string => (given === undefined ? "" : oneLine(given));
  const person = readCalendarPerson(oneLine(value), { cn: parameter(cn), email: parameter(email) });
  const address = person.email ?? (person.name === "" ? oneLine(value) : undefined);
  const named = [person.name, address && (person.name === "" ? address : `<${address}>`)].filter(Boolean).join(" ");
  return partstat === undefined ? named : `${named} (${oneLine(partstat).toLowerCase()})`;
}

function formatAlarmTrigger([, properties]: Component): string {
  const trigger = properties.find(([name]) => name === "trigger");
  return trigger ? oneLine(trigger[3]) : "";
}
