import { expect, test } from "bun:test";
import fc from "fast-check";
import { decodeCursor, encodeCursor } from "../../src/store/cursor.ts";

const QUERY = { folder: "inbox", mailbox: undefined };

test("a cursor decodes to its position", () => {
  fc.assert(
    fc.property(
      fc.record(
        { at: fc.integer({ min: -1e15, max: 1e15 }), seq: fc.nat(1e15), place: fc.nat(1e6) },
        { requiredKeys: ["at", "seq"] },
      ),
      (position) => {
        expect(decodeCursor(encodeCursor(position, QUERY), QUERY)).toEqual(position);
      },
    ),
  );
});

test("with other filters it is bad_request", () => {
  const cursor = encodeCursor({ at: 1, seq: 2 }, QUERY);
  expect(() => decodeCursor(cursor, { folder: "archive" })).toThrow(expect.objectContaining({ code: "bad_request" }));
});

test("anything else is bad_request, never another error", () => {
  const good = encodeCursor({ at: 1_700_000_000_000, seq: 3 }, QUERY);
  fc.assert(
    fc.property(
      fc.oneof(fc.string(), fc.base64String(), fc.constantFrom(`${good}=`, `${good} `, `${good}A`, good.slice(1), "")),
      (text) => {
        fc.pre(text !== good);
        expect(() => decodeCursor(text, QUERY)).toThrow(expect.objectContaining({ code: "bad_request" }));
      },
    ),
  );
});
