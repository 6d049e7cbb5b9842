/**
 * Any character of Unicode, as a unit of fast-check's strings. A seed gives the same values as with its own unit "binary",
 * whose table of all characters costs each process a second and 150 MB.
 */
import fc from "fast-check";

const FIRST_SURROGATE = 0xd800;
const SURROGATES = 0x800;
const LAST = 0x10ffff;

export const anyCharacter: fc.Arbitrary<string> = fc
  .integer({ min: 0, max: LAST - SURROGATES })
  .map((place) => String.fromCodePoint(place < FIRST_SURROGATE ? place : place + SURROGATES), placeOf);

/** @throws Error for any other string. fast-check asks this way when it shrinks a text. */
function placeOf(character: unknown): number {
  const point = typeof character === "string" ? character.codePointAt(0) : undefined;
  if (point === undefined || character !== String.fromCodePoint(point)) throw new Error("not one character");
  if (point < FIRST_SURROGATE) return point;
  if (point < FIRST_SURROGATE + SURROGATES) throw new Error("half a character");
  return point - SURROGATES;
}
