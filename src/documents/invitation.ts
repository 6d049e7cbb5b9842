/**
 * Reads the invitation in a calendar file (iTIP, RFC 5546), and writes the answer to one. Runs in the parser for documents,
 * since a stranger wrote the file; what comes out has bounded length.
 */
import { toIsoTime } from "../base/time.ts";
import { toVisibleLine } from "../message/characters.ts";
import { decodeUnlabelledText } from "../message/charset.ts";
import { localTimeToUtc, readCalendarPerson } from "./calendar-values.ts";
import ICAL from "./ical.ts";

/** Methods of RFC 5546 that are shown; others are no invitation. */
const METHODS = ["request", "cancel", "reply", "counter", "publish"] as const;
export type InvitationMethod = (typeof METHODS)[number];
/** PARTSTAT of RFC 5545 §3.2.12. */
const ANSWERS = ["accepted", "tentative", "declined"] as const;
export type InvitationAnswer = (typeof ANSWERS)[number];

/** `at`: ISO 8601 in UTC. `date`: a whole day. `local`: a time of day without a known zone, with the zone's name if it has one. */
export type Moment = { at: string } | { date: string } | { local: string; zone?: string };

export interface Guest {
  /** In one spelling (message/address.ts). */
  email: string;
  name?: string;
  answer?: InvitationAnswer;
}

export interface Invitation {
  method: InvitationMethod;
  uid: string;
  /** The version; a higher one replaces it. */
  sequence: number;
  /** DTSTAMP, which orders messages of one version; ISO 8601. */
  stamp?: string;
  /** The RECURRENCE-ID of one occurrence; empty for the whole. */
  occurrence: string;
  summary: string;
  start?: Moment;
  /** Exclusive, as in the file. */
  end?: Moment;
  /** In words. */
  repeats?: string;
  place?: string;
  description?: string;
  organizer?: Guest;
  guests: Guest[];
  /** Guests that are left out of `guests`. */
  moreGuests: number;
}

/** Answer that a guest gives. `now`: when it is written, epoch ms. */
export interface AnswerOrder {
  /** The guest who answers. */
  guest: string;
  answer: InvitationAnswer;
  now: number;
}

export interface ReadInvitation {
  invitation: Invitation;
  /** The calendar file of the answer (RFC 5546 §3.2.3). */
  reply?: string;
}

const LONGEST_LINE = 300;
const LONGEST_DESCRIPTION = 4_000;
const LONGEST_UID = 1_000;
const MOST_GUESTS = 100;

/** Undefined if the file is no invitation to an event. Never throws. */
export function readInvitation(bytes: Uint8Array, order?: AnswerOrder): ReadInvitation | undefined {
  try {
    const calendar = new ICAL.Component(ICAL.parse(decodeUnlabelledText(bytes)));
    const event = findMainEvent(calendar);
    const invitation = event && buildInvitation(calendar, event);
    if (!invitation) return undefined;
    return { invitation, ...(order && { reply: writeInvitationReply(calendar, event, order) }) };
  } catch {
    return undefined;
  }
}

/** The event itself, before those that stand for single occurrences of it. */
function findMainEvent(calendar: ICAL.Component): ICAL.Component | undefined {
  const events = calendar.name === "vcalendar" ? calendar.getAllSubcomponents("vevent") : [];
  return events.find((event) => !event.hasProperty("recurrence-id")) ?? events[0];
}

function buildInvitation(calendar: ICAL.Component, event: ICAL.Component): Invitation | undefined {
  const text = (name: string): string => {
    const value = event.getFirstPropertyValue(name);
    return typeof value === "string" ? value : "";
  };
  const given = String(calendar.getFirstPropertyValue("method") ?? "publish").toLowerCase();
  const method = METHODS.find((one) => one === given);
  const uid = text("uid");
  if (method === undefined || uid === "" || uid.length > LONGEST_UID) return undefined;
  const isCancelled = text("status").toLowerCase() === "cancelled";
  const place = line(text("location"));
  const description = cut(text("description").replace(/\r\n?/g, "\n"), LONGEST_DESCRIPTION).trim();
  const organizer = readGuest(event.getFirstProperty("organizer"));
  const guests = event.getAllProperties("attendee").flatMap((attendee) => readGuest(attendee) ?? []);
  const start = readEventMoment(event, "dtstart");
  const end = readEventMoment(event, "dtend") ?? endBy(event);
  const repeats = describeRepetition(event);
  const stamp = event.getFirstPropertyValue("dtstamp");
  return {
    method: isCancelled && (method === "request" || method === "publish") ? "cancel" : method,
    uid,
    sequence: Math.max(0, Number(event.getFirstPropertyValue("sequence") ?? 0)) || 0,
    ...(stamp instanceof ICAL.Time && { stamp: stamp.toJSDate().toISOString() }),
    occurrence: cut(String(event.getFirstPropertyValue("recurrence-id") ?? ""), LONGEST_LINE),
    summary: line(text("summary")),
    ...(start && { start }),
    ...(end && { end }),
    ...(repeats !== undefined && { repeats }),
    ...(place !== "" && { place }),
    ...(description !== "" && { description }),
    ...(organizer && { organizer }),
    guests: guests.slice(0, MOST_GUESTS),
    moreGuests: Math.max(0, guests.length - MOST_GUESTS),
  };
}

const cut = (text: string, length: number): string =>
  text.length > length ? `${text.slice(0, length).toWellFormed()}…` : text;
const line = (text: string): string => cut(toVisibleLine(text.replace(/\s+/g, " ").trim()), LONGEST_LINE);

function readGuest(property: ICAL.Property | null): Guest | undefined {
  const value = property?.getFirstValue();
  if (!property || typeof value !== "string") return undefined;
  const parameter = (name: string): string => String(property.getFirstParameter(name) ?? "");
  const { email, name: given } = readCalendarPerson(value, { cn: parameter("cn"), email: parameter("email") });
  if (email === undefined) return undefined;
  const name = line(given);
  const state = parameter("partstat").toLowerCase();
  const answer = ANSWERS.find((one) => one === state);
  return { email, ...(name !== "" && name !== email && { name }), ...(answer && { answer }) };
}

function readEventMoment(event: ICAL.Component, name: "dtstart" | "dtend"): Moment | undefined {
  const property = event.getFirstProperty(name);
  const time = property?.getFirstValue();
  if (!property || !(time instanceof ICAL.Time)) return undefined;
  return moment(time, String(property.getFirstParameter("tzid") ?? ""));
}

/** DTSTART and DURATION (RFC 5545 §3.6.1). */
function endBy(event: ICAL.Component): Moment | undefined {
  const start = event.getFirstProperty("dtstart");
  const time = start?.getFirstValue();
  const duration = event.getFirstPropertyValue("duration");
  if (!start || !(time instanceof ICAL.Time) || !(duration instanceof ICAL.Duration)) return undefined;
  const end = time.clone();
  end.addDuration(duration);
  return moment(end, String(start.getFirstParameter("tzid") ?? ""));
}

function moment(time: ICAL.Time, tzid: string): Moment {
  if (time.isDate) return { date: time.toString().slice(0, 10) };
  const isFloating = time.zone === ICAL.Timezone.localTimezone;
  if (!isFloating) return { at: toIsoTime(time.toUnixTime() * 1_000) };
  const local = time.toString().slice(0, 16);
  // A file should define the zones that it names (RFC 5545 §3.2.19); many use names of the IANA or of Windows without.
  const at = tzid === "" ? undefined : localTimeToUtc(local, tzid);
  if (at !== undefined) return { at };
  return { local, ...(tzid !== "" && { zone: line(tzid) }) };
}

const UNITS: Readonly<Record<string, string>> = { DAILY: "day", WEEKLY: "week", MONTHLY: "month", YEARLY: "year" };
const DAYS: Readonly<Record<string, string>> = {
  MO: "Monday",
  TU: "Tuesday",
  WE: "Wednesday",
  TH: "Thursday",
  FR: "Friday",
  SA: "Saturday",
  SU: "Sunday",
};
const ORDINALS = ["", "first", "second", "third", "fourth", "fifth"];

/** A rule in words; a rare kind is told by its unit alone. */
function describeRepetition(event: ICAL.Component): string | undefined {
  const rules = event.getAllProperties("rrule").map((property) => property.getFirstValue());
  const [rule] = rules;
  if (!(rule instanceof ICAL.Recur)) return undefined;
  const unit = UNITS[rule.freq];
  if (unit === undefined || rules.length > 1) return "Repeats";
  const { interval, count, until, parts } = rule;
  const days = (parts.BYDAY ?? []).map(dayInWords);
  const isSimple =
    days.length <= 7 && !days.includes(undefined) && Object.keys(parts).every((part) => part === "BYDAY");
  return [
    interval > 1 ? `Every ${interval} ${unit}s` : `Every ${unit}`,
    isSimple ? (days.length > 0 ? ` on ${days.join(", ").replace(/, ([^,]+)$/, " and $1")}` : "") : ", by its own rule",
    count ? `, ${count} times` : until ? `, until ${until.toString().slice(0, 10)}` : "",
  ].join("");
}

/** `2MO` as "the second Monday". */
function dayInWords(given: unknown): string | undefined {
  const [, sign, number, day = ""] = /^([+-]?)(\d?)([A-Z]{2})$/.exec(String(given)) ?? [];
  const name = DAYS[day];
  if (name === undefined || number === undefined || number === "") return number === "" ? name : undefined;
  if (sign === "-") return number === "1" ? `the last ${name}` : undefined;
  return ORDINALS[Number(number)] ? `the ${ORDINALS[Number(number)]} ${name}` : undefined;
}

/** RFC 5546 §3.2.3: the event as its organizer named it, with the guest who answers, and nobody else. */
function writeInvitationReply(
  calendar: ICAL.Component,
  event: ICAL.Component,
  { guest, answer, now }: AnswerOrder,
): string {
  const invited = event.getAllProperties("attendee").find((one) => readGuest(one)?.email === guest);
  const reply = new ICAL.Component("vcalendar");
  reply.addPropertyWithValue("prodid", "-//Mailroom//Mailroom//EN");
  reply.addPropertyWithValue("version", "2.0");
  reply.addPropertyWithValue("method", "REPLY");
  const answered = new ICAL.Component("vevent");
  for (const name of ["uid", "organizer", "recurrence-id", "sequence", "dtstart", "dtend", "duration", "summary"]) {
    const property = event.getFirstProperty(name);
    if (property) answered.addProperty(copyProperty(property));
  }
  answered.addPropertyWithValue("dtstamp", ICAL.Time.fromJSDate(new Date(now), true));
  const attendee = new ICAL.Property("attendee");
  attendee.setValue(`mailto:${guest}`);
  const name = invited?.getFirstParameter("cn");
  if (typeof name === "string") attendee.setParameter("cn", line(name));
  attendee.setParameter("partstat", answer.toUpperCase());
  answered.addProperty(attendee);
  for (const zone of listNamedTimezones(calendar, answered))
    reply.addSubcomponent(new ICAL.Component(structuredClone(zone.jCal)));
  reply.addSubcomponent(answered);
  return `${reply.toString()}\r\n`;
}

const copyProperty = (property: ICAL.Property): ICAL.Property => new ICAL.Property(structuredClone(property.jCal));

/** The definitions of the zones that the properties of `event` name. */
function listNamedTimezones(calendar: ICAL.Component, event: ICAL.Component): ICAL.Component[] {
  const named = new Set(event.getAllProperties().map((property) => property.getFirstParameter("tzid")));
  return calendar
    .getAllSubcomponents("vtimezone")
    .filter((zone) => named.has(String(zone.getFirstPropertyValue("tzid"))));
}
