/** The text of RTF and calendar files. */
import { describe, expect, test } from "bun:test";
import { extractText } from "../../src/documents/document-text.ts";
import { extracted } from "../harness/mail/documents.ts";

const bytesOf = (text: string) => new Uint8Array(Buffer.from(text, "latin1"));

describe("an RTF file", () => {
  const rtf = (body: string) => extracted(bytesOf(`{\\rtf1\\ansi\\ansicpg1252\\deff0${body}}`));

  test("has characters of its code page, of its fonts and of Unicode", async () => {
    const fonts =
      "{\\fonttbl{\\f0\\froman\\fcharset0 Times New Roman;}{\\f1\\fnil\\fcharset204 Arial;}{\\f2\\fcharset128 MS Mincho;}}";
    const body = `${fonts}\\pard Gr\\'fc\\'dfe, 5 \\u8364? {\\uc2 and \\u-10179??\\u-8704\\'a0\\'a1}\\par\\f1 \\'cf\\'f0\\'e8\\f2 \\'93\\'fa\\'96\\'7b\\f0 \\emdash  \\{\\}\\\\\\~.`;
    expect(await rtf(body)).toEqual({ text: "Grüße, 5 € and 😀\nПри日本— {}\\\u00a0.", notes: [] });
  });

  test("has lines, tables, links, notes and text boxes, and no pictures or tables of its own", async () => {
    const body =
      "{\\colortbl;\\red0;}{\\stylesheet{\\s0 Normal;}}{\\info{\\title Secret}}{\\*\\generator X;}" +
      "one\\line two\\par\r\n\\trowd\\intbl a\\cell b\\cell\\row" +
      '{\\field{\\*\\fldinst HYPERLINK "https://x.example"}{\\fldrslt a link}}{\\footnote a note}\\page ' +
      "{\\pict\\wmetafile8 0102}{\\shp{\\*\\shpinst{\\sp{\\sn n}{\\sv v}}{\\shptxt box}}}{\\object{\\*\\objdata 00}}\\bin4 \\}{} end";
    expect(await rtf(body)).toEqual({
      text: "one\ntwo\na\tb\t\na link [a note]\n\n--- page break ---\n\nbox end",
      notes: [],
    });
  });

  test("keeps hidden and deleted text out", async () => {
    expect(await rtf("a{\\v secret}b\\v more\\v0 c{\\deleted gone}\\plain d")).toEqual({
      text: "abcd",
      notes: ["Left out: characters of hidden text (10), characters of deleted text (4)."],
    });
  });

  test("ends where it ends, and may be broken", async () => {
    expect(await rtf("text}{ignored")).toEqual({ text: "text", notes: [] });
    expect(await extracted(bytesOf("{\\rtf1 open {group\\"))).toEqual({ text: "open group", notes: [] });
    expect(await extracted(bytesOf(`{\\rtf1 ${"{".repeat(2_000)}`))).toEqual({
      failure: "groups are too deep inside each other",
    });
    expect(await extracted(bytesOf("{\\rtf1\\bin9999999999 x}"))).toEqual({ failure: "it has no text" });
  });
});

describe("a calendar", () => {
  const calendar = (...lines: string[]) =>
    bytesOf(["BEGIN:VCALENDAR", "VERSION:2.0", ...lines, "END:VCALENDAR", ""].join("\r\n"));

  test("has its entries with times and zones, place, people and description", async () => {
    const found = await extracted(
      calendar(
        "METHOD:REQUEST",
        "BEGIN:VTIMEZONE",
        "TZID:Europe/Berlin",
        "END:VTIMEZONE",
        "BEGIN:VEVENT",
        "UID:1@remote.example",
        "SUMMARY:Lunch\\, at last",
        "DTSTART;TZID=Europe/Berlin:20260101T100000",
        "DTEND:20260101T103000Z",
        "RRULE:FREQ=WEEKLY;COUNT=3",
        "EXDATE;VALUE=DATE:20260108,20260115",
        "LOCATION:Room 1\\nleft",
        "ORGANIZER;CN=Ann Example:mailto:ann@remote.example",
        'ATTENDEE;PARTSTAT=ACCEPTED;CN="Ben; B":MAILTO:ben@example.test',
        "ATTENDEE;CN=Dora:invalid:nomail",
        "ATTENDEE:mailto:carol@remo",
        " te.example",
        "DESCRIPTION:First\\nSecond",
        "BEGIN:VALARM",
        "TRIGGER:-PT15M",
        "END:VALARM",
        "END:VEVENT",
        "BEGIN:VTODO",
        "SUMMARY:Pay",
        "DUE;VALUE=DATE:20260201",
        "DTSTART:20260101T120000",
        "END:VTODO",
      ),
    );
    expect(found).toEqual({
      text: [
        "Method: REQUEST",
        "",
        "# Event: Lunch, at last",
        "Start: 2026-01-01 10:00 Europe/Berlin",
        "End: 2026-01-01 10:30 UTC",
        "Repeats: freq=WEEKLY; count=3",
        "Not on: 2026-01-08, 2026-01-15",
        "Place: Room 1 left",
        "Organizer: Ann Example <ann@remote.example>",
        "Attendees: Ben; B <ben@example.test> (accepted), Dora, carol@remote.example",
        "Reminders: -PT15M",
        "Description:",
        "First",
        "Second",
        "",
        "# Task: Pay",
        "Start: 2026-01-01 12:00 local time",
        "Due: 2026-02-01",
        "",
      ].join("\n"),
      notes: [],
    });
  });

  test("that is broken, or larger than 4 MB, is no document, so that it is shown as it is", async () => {
    const read = (bytes: Uint8Array<ArrayBuffer>) =>
      extractText(bytes, { filename: "a.ics", contentType: "text/calendar" }, () => 0);
    expect(await read(calendar("BEGIN:VEVENT", "no property"))).toBeUndefined();
    expect(await read(calendar(`X-A:${"a".repeat(4 * 1024 * 1024)}`))).toBeUndefined();
  });
});
