/** Mail with invitations, as calendar programs send it (RFC 6047). */

export interface Invited {
  uid?: string;
  method?: string;
  sequence?: number;
  summary?: string;
  organizer?: string;
  attendees?: readonly string[];
  /** Further lines of the event. */
  lines?: string;
  /** Content-Type of the file. */
  declared?: string;
}

/** The calendar file. */
function calendarFile({
  uid = "1@remote.example",
  method = "REQUEST",
  sequence = 0,
  summary = "Boards by the lake",
  organizer = "bea@remote.example",
  attendees = ["alice@example.test"],
  lines = "DTSTART:20260601T080000Z\nDTEND:20260601T093000Z",
}: Invited = {}): string {
  const guests = attendees.map((email) => `ATTENDEE;CN=${email.split("@")[0]};RSVP=TRUE:mailto:${email}`);
  return [
    "BEGIN:VCALENDAR",
    "VERSION:2.0",
    "PRODID:-//Remote//EN",
    `METHOD:${method}`,
    "BEGIN:VEVENT",
    `UID:${uid}`,
    `SEQUENCE:${sequence}`,
    `DTSTAMP:2026010${Math.min(9, sequence + 1)}T080000Z`,
    `SUMMARY:${summary}`,
    `ORGANIZER;CN=Bea Brand:mailto:${organizer}`,
    ...guests,
    ...lines.split("\n"),
    "END:VEVENT",
    "END:VCALENDAR",
    "",
  ].join("\r\n");
}

/** A message with the file as an alternative to its text. `headers`: lines, each with its end. */
export const invitationMail = (
  { to = "alice@example.test", id, headers = "" }: { to?: string; id: string; headers?: string },
  invited: Invited = {},
): string => `From: Bea Brand <bea@remote.example>\r
To: ${to}\r
Subject: Invitation\r
Message-ID: <${id}>\r
${headers}MIME-Version: 1.0\r
Content-Type: multipart/alternative; boundary=b\r
\r
--b\r
Content-Type: text/plain\r
\r
Please come.\r
--b\r
Content-Type: ${invited.declared ?? `text/calendar; charset=utf-8; method=${invited.method ?? "REQUEST"}`}\r
\r
${calendarFile(invited)}\r
--b--\r
`;
