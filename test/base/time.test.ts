/** Times as text: RFC 3339 §5.6 and §5.7. */
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseTime, readTimeField, toIsoTime, toIsoTimeOrNull } from "../../src/base/time.ts";

const AT = Date.UTC(2026, 2, 2, 9, 30);

test.each([
  ["2026-03-02T09:30:00Z", AT],
  ["2026-03-02T09:30Z", AT],
  ["2026-03-02t09:30:00z", AT],
  ["2026-03-02 09:30:00Z", AT],
  ["2026-03-02T09:30:00+00:00", AT],
  ["2026-03-02T09:30:00-00:00", AT],
  ["2026-03-02T11:00+01:30", AT],
  ["2026-03-01T22:00:00-11:30", AT],
  ["2026-03-02T09:30:00.5Z", AT + 500],
  ["2026-03-02T09:30:00.1239Z", AT + 123],
  [`2026-03-02T09:30:00.${"0".repeat(43)}Z`, AT],
  ["2024-02-29T00:00:00Z", Date.UTC(2024, 1, 29)],
  ["2026-12-31T23:59:59.999Z", Date.UTC(2027, 0) - 1],
  ["0000-01-01T00:00:00Z", -62_167_219_200_000],
  ["9999-12-31T23:59:59.999Z", 253_402_300_799_999],
])("%s is read", (text, at) => {
  expect(parseTime(text)).toBe(at);
});

test.each([
  [""],
  ["tomorrow"],
  ["1772443800000"],
  ["2026-03-02"],
  ["2026-03-02T09Z"],
  ["2026-03-02T0930Z"],
  ["2026-03-02T09:30:00"],
  ["2026-03-02T09:30:00.Z"],
  ["2026-03-02T09:30:00,5Z"],
  ["2026-03-02T09:30.5Z"],
  ["2026-03-02T09:30:00 Z"],
  [" 2026-03-02T09:30:00Z"],
  ["2026-03-02T09:30:00Z\n"],
  ["2026-03-02T09:30:00UTC"],
  ["2026-03-02T09:30:00+01"],
  ["2026-03-02T09:30:00+0100"],
  ["2026-03-02T09:30:00+24:00"],
  ["2026-03-02T09:30:00+01:60"],
  ["2026-03-02T24:00:00Z"],
  ["2026-03-02T25:00:00Z"],
  ["2026-03-02T09:60:00Z"],
  ["2026-03-02T09:30:61Z"],
  ["2026-12-31T23:59:60Z"],
  ["2026-02-29T00:00:00Z"],
  ["2026-02-30T00:00:00Z"],
  ["2026-04-31T00:00:00Z"],
  ["2026-00-01T00:00:00Z"],
  ["2026-13-01T00:00:00Z"],
  ["2026-01-00T00:00:00Z"],
  ["2026-01-32T00:00:00Z"],
  ["+002026-03-02T09:30:00Z"],
  ["9999-12-31T23:59:59-00:01"],
  ["0000-01-01T00:00:00+00:01"],
  ["２０２６-03-02T09:30:00Z"],
  [`2026-03-02T09:30:00.${"0".repeat(44)}Z`],
])("%j is refused", (text) => {
  expect(parseTime(text)).toBeUndefined();
});

const year = fc.integer({ min: -62_167_219_200_000, max: 253_402_300_799_999 });

test("what isoOf writes is read", () => {
  fc.assert(fc.property(year, (ms) => parseTime(toIsoTime(ms)) === ms));
  expect(toIsoTimeOrNull(null)).toBeNull();
  expect(toIsoTimeOrNull(AT)).toBe("2026-03-02T09:30:00.000Z");
});

test("an offset moves a time by as much", () => {
  const offset = fc.record({ minutes: fc.integer({ min: 0, max: 23 * 60 + 59 }), sign: fc.constantFrom("+", "-") });
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 4e12 }), offset, (ms, { minutes, sign }) => {
      const zone = [Math.floor(minutes / 60), minutes % 60].map((part) => String(part).padStart(2, "0")).join(":");
      const text = toIsoTime(ms).replace("Z", sign + zone);
      return parseTime(text) === ms - (sign === "+" ? 1 : -1) * minutes * 60_000;
    }),
  );
});

describe("readTime", () => {
  test("names the field that it refuses", () => {
    expect(readTimeField("since", "2026-03-02T09:30Z")).toBe(AT);
    expect(() => readTimeField("since", "2026-02-30T00:00:00Z")).toThrow(
      "since must be a time as in 2030-01-07T08:00:00Z",
    );
  });
});
