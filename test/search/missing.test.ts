import { expect, test } from "bun:test";
import fc from "fast-check";
import { foldDocument } from "../../src/search/fold.ts";
import { findMissingPhrases, LONGEST_PHRASE } from "../../src/search/missing.ts";

const words = (text: string): string[] => (text === "" ? [] : text.split(" "));
const has = (text: string, phrase: string): boolean => ` ${text} `.includes(` ${phrase} `);

test("the runs have every phrase that the text lacks, and nothing that the HTML has not", () => {
  const token = fc.constantFrom(..."abcdef");
  const text = fc.array(token, { maxLength: 60 }).map((tokens) => tokens.join(" "));
  fc.assert(
    fc.property(text, text, fc.nat(40), fc.nat(40), (own, other, from, to) => {
      // Much is alike, as in real mail.
      const seen = [...words(own).slice(Math.min(from, to), Math.max(from, to)), ...words(other), ...words(own)].join(
        " ",
      );
      const runs = findMissingPhrases(own, seen);
      expect(runs.filter((run) => !has(seen, run))).toEqual([]);
      const tokens = words(seen);
      for (let length = 1; length <= LONGEST_PHRASE; length++) {
        for (let at = 0; at + length <= tokens.length; at++) {
          const phrase = tokens.slice(at, at + length).join(" ");
          if (![own, ...runs].some((part) => has(part, phrase))) throw new Error(`${phrase} of ${seen} is lost`);
        }
      }
    }),
    { numRuns: 500 },
  );
});

test("what both have costs nothing, and a difference no more than the phrases around it", () => {
  const tokens = Array.from({ length: 2_000 }, (_, i) => `w${i}`);
  const text = tokens.join(" ");
  expect(findMissingPhrases(text, text)).toEqual([]);
  expect(findMissingPhrases(text, "")).toEqual([]);
  expect(findMissingPhrases(text, tokens.slice(500, 900).join(" "))).toEqual([]);
  expect(findMissingPhrases("", "a b")).toEqual(["a b"]);
  expect(findMissingPhrases("a", "b a")).toEqual(["b a"]);
  const seen = [...tokens.slice(0, 1_000), "button", ...tokens.slice(1_000)].join(" ");
  expect(findMissingPhrases(text, seen)).toEqual([
    [...tokens.slice(1_001 - LONGEST_PHRASE, 1_000), "button", ...tokens.slice(1_000, 999 + LONGEST_PHRASE)].join(" "),
  ]);
});

test("takes linear time, whatever the texts", () => {
  const time = (count: number): number => {
    const text = "a ".repeat(count).trim();
    const started = performance.now();
    findMissingPhrases(text, `${"a b ".repeat(count / 2)}a`);
    findMissingPhrases(`${text} b`, `b ${text}`);
    return performance.now() - started;
  };
  time(10_000);
  expect(time(200_000)).toBeLessThan(50 * Math.max(time(20_000), 10));
});

test("no phrase joins the text and the HTML, nor two places of the HTML", () => {
  const { body } = foldDocument({
    subject: "",
    text: "one two",
    seen: "Three one two four",
    from: [],
    to: [],
    cc: [],
    filenames: [],
  });
  expect(body).toBe("one two \ue000 three one two four");
});
