import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { toVisibleLine, toVisibleText } from "../../src/message/characters.ts";
import { anyCharacter } from "../harness/mail/any-character.ts";

const TAGS = [..."ignore"].map((c) => String.fromCodePoint(0xe0000 + (c.codePointAt(0) ?? 0))).join("");

describe("shownText", () => {
  const cases: [title: string, text: string, shown: string][] = [
    ["tags that spell words", `a${TAGS}b`, "ab"],
    ["direction", "invoice\u202Efdp.exe\u202C \u2066x\u2069 \u200F\u061C", "invoicefdp.exe x "],
    ["no width", "pay\u200Bpal\u2060\uFEFF\u00AD", "paypal"],
    ["selectors that carry octets", "a\uFE00\uFE01\u{E0100}\u{E01EF}b", "ab"],
    ["fillers", "a\u115F\u3164\uFFA0\u034Fb", "ab"],
    ["controls", "a\u0000\u0007\u001B[31mb\u009Bc\u007F", "a[31mbc"],
    ["line breaks", "a\r\nb\rc\u2028d\u2029e\u0085f\vg\fh", "a\nb\nc\nd\ne\nf\ng\nh"],
    ["spaces at the end of lines, empty lines", "a \t\u00a0\n\n\n\n\n\nb", "a\n\n\nb"],
    ["half a pair", "a\uD83D", "a\uFFFD"],
    ["a family, a heart on fire, a keycap", "👨‍👩‍👧 ❤️‍🔥 1️⃣", "👨‍👩‍👧 ❤️‍🔥 1️⃣"],
    ["Persian", "می‌خواهم", "می‌خواهم"],
    ["joiners in Latin", "a\u200Cb\u200Dc", "abc"],
    ["joiners one after another", "م\u200C\u200D\u200Cخ", "مخ"],
    ["tabs stay", "a\tb", "a\tb"],
  ];
  for (const [title, text, shown] of cases) test(title, () => expect(toVisibleText(text)).toBe(shown));
});

test("shownLine folds any text to one line", () => {
  expect(toVisibleLine(" Re:\r\n\tthr_1 | now\u2028 \u2800x\n")).toBe("Re: thr_1 | now x");
});

test("shownText removes every invisible character, and changes no visible one", () => {
  const unit = fc.constantFrom(
    "a",
    "م",
    "👍",
    "\u200D",
    "\u200C",
    "\uFE0F",
    "\u202E",
    "\u{E0041}",
    "\n",
    "\r",
    "\u0000",
    " ",
    "\u{1F3FD}",
  );
  fc.assert(
    fc.property(
      fc.oneof(
        fc.string({ unit: anyCharacter }),
        fc.array(unit).map((units) => units.join("")),
      ),
      (text) => {
        const shown = toVisibleText(text);
        expect(shown).not.toMatch(/[\u202A-\u202E\u2066-\u2069\u200B\u200E\u200F\u{E0000}-\u{E0FFF}\uFEFF]/u);
        expect(shown.replaceAll("\n", "").replaceAll("\t", "")).not.toMatch(/\p{Cc}/u);
        expect(shown).not.toMatch(/(?:\u200C|\u200D|\uFE0E|\uFE0F){3}/);
        expect(toVisibleLine(text)).not.toMatch(/[\n\r\u2028\u2029\u0085]/);
      },
    ),
    { numRuns: 1_000 },
  );
});

test("the shortcut for plain text agrees with the full treatment for every character", () => {
  const differ: string[] = [];
  for (let unit = 0; unit <= 0xffff; unit++) {
    const character = String.fromCharCode(unit);
    for (const text of [`a${character}b`, `a${character}\nb`]) {
      if (toVisibleText(text) !== toVisibleText(`\u200b${text}`)) differ.push(text);
      if (toVisibleLine(text) !== toVisibleLine(`\u200b${text}`)) differ.push(text);
    }
  }
  expect(differ).toEqual([]);
});
