import { expect, test } from "bun:test";
import fc from "fast-check";
import { arrayOf, objectOf, stringOf, write, writeLines } from "../../../src/api/mcp/result.ts";
import { anyCharacter } from "../../harness/any-character.ts";

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

test("arrays and objects have their values, and objects leave out undefined ones", () => {
  fc.assert(
    fc.property(texts, (values) => {
      const strings = values.map((value) => stringOf(write(value)));
      expect(JSON.parse(arrayOf(strings))).toEqual(values);
      const object = objectOf({ none: undefined, first: strings[0], list: arrayOf(strings), other: undefined });
      expect(object).toBe(JSON.stringify({ first: values[0], list: values }));
    }),
  );
  expect(objectOf({})).toBe("{}");
  expect(arrayOf([])).toBe("[]");
});
