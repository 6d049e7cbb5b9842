/** Invitations: what is read of calendar files, and the answers to them. */
import { describe, expect, test } from "bun:test";
import { type Invitation, type Moment, readInvitation } from "../../src/documents/invitation.ts";

const ZONE = `BEGIN:VTIMEZONE
TZID:House time
BEGIN:STANDARD
DTSTART:19701025T030000
RRULE:FREQ=YEARLY;BYMONTH=10;BYDAY=-1SU
TZOFFSETFROM:+0200
TZOFFSETTO:+0100
END:STANDARD
BEGIN:DAYLIGHT
DTSTART:19700329T020000
RRULE:FREQ=YEARLY;BYMONTH=3;BYDAY=-1SU
TZOFFSETFROM:+0100
TZOFFSETTO:+0200
END:DAYLIGHT
END:VTIMEZONE`;

/** A calendar with one event of these lines. */
const calendar = (lines: string, { method = "METHOD:REQUEST", more = "" } = {}): Uint8Array =>
  Buffer.from(
    `BEGIN:VCALENDAR\nVERSION:2.0\nPRODID:x\n${method}\n${more}\nBEGIN:VEVENT\nUID:1@x\n${lines}\nEND:VEVENT\nEND:VCALENDAR\n`.replaceAll(
      /\n+/g,
      "\r\n",
    ),
  );
const read = (lines: string, how?: Parameters<typeof calendar>[1]): Invitation | undefined =>
  readInvitation(calendar(lines, how))?.invitation;

test("an invitation, whole", () => {
  const lines = `SEQUENCE:2
DTSTAMP:20260105T080000Z
SUMMARY:Boards\\, and the lake
DTSTART:20260601T080000Z
DURATION:PT90M
LOCATION:House\\nby the lake
DESCRIPTION:Bring\\nshoes
ORGANIZER;CN=Bea Brand:MAILTO:Bea@Remote.example
ATTENDEE;CN=Alice;PARTSTAT=NEEDS-ACTION:mailto:alice@example.test
ATTENDEE;PARTSTAT=DECLINED:mailto:bob@example.test
ATTENDEE:urn:uuid:1
ATTENDEE;CN="carol@x.example":mailto:carol@x.example`;
  expect(read(lines)).toEqual({
    method: "request",
    uid: "1@x",
    sequence: 2,
    stamp: "2026-01-05T08:00:00.000Z",
    occurrence: "",
    summary: "Boards, and the lake",
    start: { at: "2026-06-01T08:00:00.000Z" },
    end: { at: "2026-06-01T09:30:00.000Z" },
    place: "House by the lake",
    description: "Bring\nshoes",
    organizer: { email: "bea@remote.example", name: "Bea Brand" },
    guests: [
      { email: "alice@example.test", name: "Alice" },
      { email: "bob@example.test", answer: "declined" },
      { email: "carol@x.example" },
    ],
    moreGuests: 0,
  });
});

describe("its organizer", () => {
  test.each([
    ['ORGANIZER;CN="Brand, Bea":mailto:bea@x.example', "Brand, Bea"],
    ["ORGANIZER;CN='Bea':MAILTO:Bea@X.example", "Bea"],
    ["ORGANIZER:bea@x.example", undefined],
    ["ORGANIZER:Bea Brand <bea@x.example>", "Bea Brand"],
    ['ORGANIZER:mailto:"Brand, Bea" <bea@x.example>', "Brand, Bea"],
    ["ORGANIZER:mailto:Bea%20Brand%20%3Cbea@x.example%3E", "Bea Brand"],
    ["ORGANIZER:Bea Brand <mailto:bea@x.example>", "Bea Brand"],
    ["ORGANIZER:CN=Bea:MAILTO:bea@x.example", "Bea"],
    ["ORGANIZER;CN=Team: Boards:mailto:bea@x.example", "Team"],
    ["ORGANIZER;CN=Bea;EMAIL=bea@x.example:invalid:nomail", "Bea"],
  ])("%s", (written, name) => {
    expect(read(written)?.organizer).toEqual({ email: "bea@x.example", ...(name !== undefined && { name }) });
  });

  test("may have no address", () => {
    const invitation = read("ORGANIZER;CN=Bea:invalid:nomail");
    expect([invitation?.uid, invitation?.organizer]).toEqual(["1@x", undefined]);
    expect(read(`ORGANIZER:mailto:${"(".repeat(100_000)}`)?.organizer).toBeUndefined();
  });
});

describe("its time", () => {
  const cases: [name: string, lines: string, start: Moment][] = [
    [
      "in a zone that the file defines, in summer",
      "DTSTART;TZID=House time:20260601T100000",
      { at: "2026-06-01T08:00:00.000Z" },
    ],
    ["in winter", "DTSTART;TZID=House time:20260105T100000", { at: "2026-01-05T09:00:00.000Z" }],
    [
      "in a zone of the IANA without a definition",
      "DTSTART;TZID=America/New_York:20260601T100000",
      { at: "2026-06-01T14:00:00.000Z" },
    ],
    [
      "there, in the hour after a change",
      "DTSTART;TZID=America/New_York:20260308T030000",
      { at: "2026-03-08T07:00:00.000Z" },
    ],
    [
      "in a zone of Windows",
      "DTSTART;TZID=W. Europe Standard Time:20260601T100000",
      { at: "2026-06-01T08:00:00.000Z" },
    ],
    [
      "in another zone of Windows",
      'DTSTART;TZID="Eastern Standard Time":20260601T100000',
      { at: "2026-06-01T14:00:00.000Z" },
    ],
    [
      "in a zone of the IANA behind a path",
      "DTSTART;TZID=/example.org/20260101_1/America/Argentina/Salta:20260601T100000",
      { at: "2026-06-01T13:00:00.000Z" },
    ],
    [
      "in an unknown zone",
      "DTSTART;TZID=Nowhere/At all:20260601T100000",
      { local: "2026-06-01T10:00", zone: "Nowhere/At all" },
    ],
    ["without a zone", "DTSTART:20260601T100000", { local: "2026-06-01T10:00" }],
    ["a day", "DTSTART;VALUE=DATE:20260601", { date: "2026-06-01" }],
  ];
  for (const [name, lines, start] of cases) {
    test(name, () => expect(read(lines, { more: ZONE })?.start).toEqual(start));
  }
});

describe("its repetition in words", () => {
  const cases: [rule: string, words: string][] = [
    ["FREQ=DAILY", "Every day"],
    ["FREQ=WEEKLY;INTERVAL=2;BYDAY=MO,WE,FR;COUNT=10", "Every 2 weeks on Monday, Wednesday and Friday, 10 times"],
    ["FREQ=MONTHLY;BYDAY=2TU;UNTIL=20261231T000000Z", "Every month on the second Tuesday, until 2026-12-31"],
    ["FREQ=MONTHLY;BYDAY=-1FR", "Every month on the last Friday"],
    ["FREQ=YEARLY;BYMONTH=3;BYMONTHDAY=4", "Every year, by its own rule"],
    ["FREQ=MONTHLY;BYDAY=MO,TU;BYSETPOS=-1", "Every month, by its own rule"],
    ["FREQ=SECONDLY", "Repeats"],
  ];
  for (const [rule, words] of cases) {
    test(rule, () => expect(read(`DTSTART:20260601T100000Z\nRRULE:${rule}`)?.repeats).toBe(words));
  }
});

describe("its method", () => {
  test("may be absent, and a status can cancel", () => {
    expect(read("DTSTART:20260601T100000Z", { method: "" })?.method).toBe("publish");
    expect(read("STATUS:CANCELLED")?.method).toBe("cancel");
    expect(read("", { method: "METHOD:CANCEL" })?.method).toBe("cancel");
    expect(read("", { method: "METHOD:REFRESH" })).toBeUndefined();
  });
});

test("the event itself comes before its occurrences", () => {
  const file = Buffer.from(
    "BEGIN:VCALENDAR\r\nMETHOD:REQUEST\r\nBEGIN:VEVENT\r\nUID:1\r\nSUMMARY:One\r\nRECURRENCE-ID:20260601T100000Z\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\nUID:1\r\nSUMMARY:All\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n",
  );
  expect(readInvitation(file)?.invitation).toMatchObject({ summary: "All", occurrence: "" });
  expect(read("RECURRENCE-ID:20260601T100000Z")?.occurrence).toBe("2026-06-01T10:00:00Z");
});

describe("a hostile file", () => {
  const bad: [name: string, bytes: Uint8Array][] = [
    ["no calendar", Buffer.from("Hello")],
    ["an empty one", Buffer.from("")],
    ["without an event", Buffer.from("BEGIN:VCALENDAR\r\nEND:VCALENDAR\r\n")],
    ["another component", Buffer.from("BEGIN:VCARD\r\nFN:x\r\nEND:VCARD\r\n")],
    ["cut off", calendar("SUMMARY:x").subarray(0, 60)],
    [
      "with a UID without end",
      Buffer.from(`BEGIN:VCALENDAR
BEGIN:VEVENT
UID:${"x".repeat(5_000)}
END:VEVENT
END:VCALENDAR
`),
    ],
  ];
  for (const [name, bytes] of bad) test(name, () => expect(readInvitation(bytes)).toBeUndefined());

  test("is bounded", () => {
    const guests = Array.from({ length: 3_000 }, (_, n) => `ATTENDEE:mailto:g${n}@x.example`).join("\n");
    const found = read(
      `SUMMARY:${"s".repeat(9_999)}\nLOCATION:${"l".repeat(9_999)}\nDESCRIPTION:${"d".repeat(99_999)}\n${guests}`,
    );
    expect(found?.guests).toHaveLength(100);
    expect(found?.moreGuests).toBe(2_900);
    expect(JSON.stringify(found).length).toBeLessThan(20_000);
    expect(read("SUMMARY:a\u202eb\\nc")?.summary).not.toContain("\u202e");
  });

  test("with broken values is read as far as it goes, or not at all", () => {
    for (const lines of [
      "DTSTART:never",
      "SEQUENCE:-5",
      "SEQUENCE:x",
      "DURATION:long",
      "RRULE:FREQ=NEVER",
      "ATTENDEE:",
      "DTSTAMP:x",
    ]) {
      const found = read(lines);
      expect(found === undefined || found.sequence === 0).toBe(true);
    }
  });
});

describe("an answer", () => {
  const now = Date.parse("2026-01-05T09:00:00Z");
  const answer = (lines: string, more = "") =>
    readInvitation(calendar(lines, { more }), { guest: "alice@example.test", answer: "accepted", now })?.reply ?? "";

  test("names the event and the guest, and nobody else", () => {
    const lines = `SEQUENCE:2\nSUMMARY:Boards\nDTSTART;TZID=House time:20260601T100000\nRECURRENCE-ID;TZID=House time:20260601T100000\nORGANIZER;CN=Bea:mailto:bea@remote.example\nATTENDEE;CN=Alice;RSVP=TRUE:mailto:Alice@example.test\nATTENDEE:mailto:bob@example.test\nX-SECRET:1\nDESCRIPTION:Long`;
    const reply = answer(lines, ZONE);
    expect(reply.replaceAll("\r\n ", "").split("\r\n")).toEqual([
      "BEGIN:VCALENDAR",
      "PRODID:-//Mailroom//Mailroom//EN",
      "VERSION:2.0",
      "METHOD:REPLY",
      ...ZONE.split("\n"),
      "BEGIN:VEVENT",
      "UID:1@x",
      "ORGANIZER;CN=Bea:mailto:bea@remote.example",
      "RECURRENCE-ID;TZID=House time:20260601T100000",
      "SEQUENCE:2",
      "DTSTART;TZID=House time:20260601T100000",
      "SUMMARY:Boards",
      "DTSTAMP:20260105T090000Z",
      "ATTENDEE;CN=Alice;PARTSTAT=ACCEPTED:mailto:alice@example.test",
      "END:VEVENT",
      "END:VCALENDAR",
      "",
    ]);
    expect(reply.split("\r\n").every((one) => one.length <= 75)).toBe(true);
  });

  test("reads as one, and cannot be given further lines", () => {
    const reply = answer("SUMMARY:a\\nATTENDEE:mailto:x@x.example\nORGANIZER:mailto:bea@remote.example");
    expect(reply.match(/^ATTENDEE/gm)).toHaveLength(1);
    expect(readInvitation(Buffer.from(reply))?.invitation).toMatchObject({
      method: "reply",
      uid: "1@x",
      guests: [{ email: "alice@example.test", answer: "accepted" }],
    });
  });
});
