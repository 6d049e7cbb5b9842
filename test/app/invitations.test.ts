/** Invitations in words: times in the reader's zone, and which version replaces which. */
import { describe, expect, test } from "bun:test";
import { formatEventTime, replacesInvitation } from "../../src/app/lib/invitation-words.ts";
import type { InvitationView } from "../../src/app/lib/mail-views.ts";

const IN_BERLIN = { timeZone: "Europe/Berlin", locale: "en-GB" };
type When = Parameters<typeof formatEventTime>[0];
const spaces = (text: string | undefined) => text?.replace(/\s/gu, " ");

describe("the time", () => {
  const cases: [name: string, when: When, words: string | undefined][] = [
    [
      "in the reader's zone",
      { start: { at: "2026-06-01T08:00:00Z" }, end: { at: "2026-06-01T09:30:00Z" } },
      "Mon, 1 Jun 2026, 10:00–11:30 (Europe/Berlin)",
    ],
    ["without an end", { start: { at: "2026-01-05T08:00:00Z" } }, "Mon, 5 Jan 2026, 9:00 (Europe/Berlin)"],
    [
      "over midnight",
      { start: { at: "2026-01-05T22:00:00Z" }, end: { at: "2026-01-06T01:00:00Z" } },
      "Mon, 5 Jan 2026, 23:00 – Tue, 6 Jan 2026, 02:00 (Europe/Berlin)",
    ],
    ["of a day", { start: { date: "2026-01-05" }, end: { date: "2026-01-06" } }, "Mon, 5 Jan 2026, all day"],
    [
      "of days, whose end is the day after",
      { start: { date: "2026-01-05" }, end: { date: "2026-01-08" } },
      "Mon, 5 Jan – Wed, 7 Jan 2026, all day",
    ],
    [
      "of no zone",
      { start: { local: "2026-01-05T10:00" }, end: { local: "2026-01-05T11:00" } },
      "Mon, 5 Jan 2026, 10:00–11:00 (at the place of the event)",
    ],
    ["of an unknown zone", { start: { local: "2026-01-05T10:00", zone: "Lake" } }, "Mon, 5 Jan 2026, 10:00 (Lake)"],
    [
      "with an end before its start",
      { start: { at: "2026-01-05T08:00:00Z" }, end: { at: "2026-01-04T08:00:00Z" } },
      "Mon, 5 Jan 2026, 9:00 (Europe/Berlin)",
    ],
    [
      "with an end of another kind",
      { start: { at: "2026-01-05T08:00:00Z" }, end: { date: "2026-01-06" } },
      "Mon, 5 Jan 2026, 9:00 (Europe/Berlin)",
    ],
    ["of none", {}, undefined],
  ];
  for (const [name, when, words] of cases)
    test(name, () => expect(spaces(formatEventTime(when, IN_BERLIN))).toBe(words));
});

test("a later version, or the same one written later, replaces", () => {
  const one = {
    uid: "1",
    occurrence: "",
    method: "request",
    sequence: 1,
    stamp: "2026-01-01T00:00:00Z",
  } as InvitationView;
  expect(replacesInvitation({ ...one, sequence: 2 }, one)).toBe(true);
  expect(replacesInvitation({ ...one, method: "cancel", stamp: "2026-01-02T00:00:00Z" }, one)).toBe(true);
  expect(replacesInvitation({ ...one, sequence: 0, stamp: "2026-01-02T00:00:00Z" }, one)).toBe(false);
  expect(replacesInvitation({ ...one, sequence: 2, method: "reply" }, one)).toBe(false);
  expect(replacesInvitation({ ...one, sequence: 2, uid: "2" }, one)).toBe(false);
  expect(replacesInvitation({ ...one, sequence: 2, occurrence: "x" }, one)).toBe(false);
});
