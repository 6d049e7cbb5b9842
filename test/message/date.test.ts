import { expect, test } from "bun:test";
import fc from "fast-check";
import { dateHeader, parseDate } from "../../src/message/date.ts";

const CASES: [string, string | undefined][] = [
  ["Tue, 1 Jul 2003 10:52:37 +0200", "2003-07-01T08:52:37.000Z"],
  ["1 Jul 2003 10:52 GMT", "2003-07-01T10:52:00.000Z"],
  ["Tue, 1 Jul 03 10:52:37 EDT", "2003-07-01T14:52:37.000Z"],
  ["1 Jul 97 10:52:37 -0800", "1997-07-01T18:52:37.000Z"],
  ["Tue, 1 Jul 2003 ((nested) comment) 10:52:37 +0200 (CEST)", "2003-07-01T08:52:37.000Z"],
  ["Tue, 1 Jul 2003 10:52:37 Z", "2003-07-01T10:52:37.000Z"],
  ["Tue, 1 Jul 2003 10:52:60 +0000", "2003-07-01T10:52:59.000Z"],
  ["Tue, 01-Jul-2003 10:52:37 UTC+02:00", "2003-07-01T08:52:37.000Z"],
  ["2003-07-01T10:52:37Z", "2003-07-01T10:52:37.000Z"],
  ["2003-07-01 10:52:37 +02:00", "2003-07-01T08:52:37.000Z"],
  ["Tue Jul  1 10:52:37 2003", "2003-07-01T10:52:37.000Z"],
  ["Jul 1, 2003 10:52:37 PM +0000", "2003-07-01T22:52:37.000Z"],
  ["Tue, 1 Jul 2003 25:52:37 +0200", undefined],
  ["Tue, 32 Jul 2003 10:52:37 +0200", undefined],
  ["yesterday", undefined],
  ["", undefined],
];

for (const [text, expected] of CASES) {
  test(JSON.stringify(text), () => {
    const date = parseDate(text);
    expect(date === undefined ? undefined : new Date(date).toISOString()).toBe(expected as string);
  });
}

test("parseDate never throws, and gives valid dates", () => {
  fc.assert(
    fc.property(fc.oneof(fc.string(), fc.date({ noInvalidDate: true }).map(String)), (text) => {
      const date = parseDate(text);
      if (date !== undefined) expect(() => new Date(date).toISOString()).not.toThrow();
    }),
  );
});

test("parseDate reads dates written according to RFC 5322", () => {
  const seconds = fc.integer({ min: Date.UTC(1950, 0) / 1000, max: Date.UTC(2100, 0) / 1000 });
  fc.assert(fc.property(seconds, (s) => expect(parseDate(new Date(s * 1000).toUTCString())).toBe(s * 1000)));
});

test("dateHeader writes dates in UTC, which parseDate reads back", () => {
  expect(dateHeader(Date.UTC(2003, 6, 1, 8, 52, 37, 999))).toBe("Tue, 01 Jul 2003 08:52:37 +0000");
  expect(dateHeader(0)).toBe("Thu, 01 Jan 1970 00:00:00 +0000");
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4_102_444_799 }), (seconds) => {
      expect(parseDate(dateHeader(seconds * 1_000))).toBe(seconds * 1_000);
    }),
  );
});
