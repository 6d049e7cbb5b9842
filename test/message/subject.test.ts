import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { isForwardSubject, isReplySubject, PREFIXES, parseSubjectKey } from "../../src/message/subject.ts";

describe("subjectKeyOf", () => {
  const cases: [string, string, boolean][] = [
    ["Lunch", "lunch", false],
    ["Re: Lunch", "lunch", true],
    ["RE[2]: Fwd: re:  Lunch  today", "lunch today", true],
    ["AW: WG: Lunch", "lunch", true],
    ["SV: Lunch", "lunch", true],
    ["Fwd: Lunch", "lunch", false],
    ["回复：午餐", "午餐", true],
    ["Réf : x", "réf : x", false],
    ["[team] Re: [team] Lunch", "lunch", true],
    ["[BUG-12] Lunch", "[bug-12] lunch", false],
    ["[team]", "[team]", false],
    ["Lunch (fwd)", "lunch", false],
    ["Re:", "", true],
    ["Report: done", "report: done", false],
    ["Ｌｕｎｃｈ", "lunch", false],
    ["Vá: Ebéd", "ebéd", true],
    ["Va\u0301: Ebéd", "ebéd", true],
    ["Ang: SV: Lunch", "lunch", true],
    ["Отв: Обед", "обед", true],
    ["İLT: Öğle", "öğle", false],
    ["Re(3): Lunch", "lunch", true],
    ["Re［2］： Lunch", "lunch", true],
    ["\u200fתשובה: צהריים", "צהריים", true],
    ["Trả lời: Bữa trưa", "bữa trưa", true],
    ["إعادة توجيه: غداء", "غداء", false],
    ["Vatican: visit", "vatican: visit", false],
    ["Angebot: Lunch", "angebot: lunch", false],
  ];
  for (const [subject, key, isReply] of cases) {
    test(subject, () => expect(parseSubjectKey(subject)).toEqual({ key, isReply }));
  }

  test("gives a reply the key of its subject", () => {
    fc.assert(
      fc.property(fc.string({ unit: "grapheme", maxLength: 100 }), (subject) => {
        const { key } = parseSubjectKey(subject);
        expect(parseSubjectKey(`Re: ${subject}`)).toEqual({ key, isReply: true });
      }),
    );
  });
});

describe("the prefixes of a language, of which rules.md tells", () => {
  const rules = readFileSync(new URL("../../docs/rules.md", import.meta.url), "utf8");
  test("are those of forty and more", () => expect(PREFIXES.length).toBeGreaterThanOrEqual(40));
  for (const [language, reply, forward] of PREFIXES) {
    test(language, () => {
      expect(rules).toContain(`| ${language} | ${reply} | ${forward} |`);
      for (const word of reply.split(", ")) {
        for (const written of [word, word.toUpperCase(), `${word}[2]`, `${word} (3)`]) {
          expect(parseSubjectKey(`${written}: 7 x`)).toEqual({ key: "7 x", isReply: true });
          expect(isReplySubject(`${written}：x`)).toBe(true);
        }
      }
      for (const word of forward.split(", ")) {
        expect(parseSubjectKey(`${word.toUpperCase()}: 7 x`).key).toBe("7 x");
        expect(isForwardSubject(`${word}: x`)).toBe(true);
      }
    });
  }
});
