import { expect, test } from "bun:test";
import fc from "fast-check";
import { objectOf, stringOf, write, writeLines } from "../../../src/api/mcp/result.ts";
import { anyCharacter } from "../../harness/mail/any-character.ts";

const unit = fc.constantFrom("", '"', "\\", "\n", "\t", "words ", "é", "…", "👍");
const ascii = fc.constantFrom('"', "\\", "\n", "\t", "words ", "\\n");
const long = fc.array(ascii, { minLength: 400, maxLength: 600 }).map((units) => units.join(""));
const text = fc.oneof(
  fc.string({ unit: anyCharacter }),
  unit,
  long,
  fc.tuple(long, fc.string({ unit: anyCharacter })).map((parts) => parts.join("")),
);
const texts = fc.array(text, { minLength: 1, maxLength: 6 });

test("a text is written as JSON.stringify writes it", () => {
  fc.assert(
    fc.property(text, (one) => expect(stringOf(write(one))).toBe(JSON.stringify(one))),
    { numRuns: 500 },
  );
});

test("written lines are the given lines, with their length", () => {
  fc.assert(
    fc.property(texts, (lines) => {
      const [first = "", ...rest] = lines;
      const written = writeLines(write(first), ...rest.map(write));
      expect(JSON.parse(stringOf(written))).toBe(lines.join("\n"));
      expect(written.length).toBe(lines.join("\n").length);
    }),
  );
});

test("objects have their values, and leave out undefined ones", () => {
  fc.assert(
    fc.property(texts, ([first = "", last = first]) => {
      const fields = { none: undefined, first: stringOf(write(first)), last: stringOf(write(last)), other: undefined };
      expect(objectOf(fields)).toBe(JSON.stringify({ first, last }));
    }),
  );
  expect(objectOf({})).toBe("{}");
});
