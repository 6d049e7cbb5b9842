import { describe, expect, test } from "bun:test";
import { readFileSync } from "node:fs";
import fc from "fast-check";
import { hasVisibleCharacter, isMimeNote, isPlaceholderTextPart } from "../../src/message/notes.ts";

/** The sentences of a table of docs/mail.md, below that heading. */
function listed(heading: string): string[] {
  const page = readFileSync(new URL("../../docs/mail.md", import.meta.url), "utf8");
  const section = page.split(`\n### ${heading}\n`)[1]?.split(/\n##/)[0] ?? "";
  return section
    .split("\n")
    .filter((line) => line.startsWith("| ") && !line.startsWith("| language"))
    .flatMap((line) => (line.split("|")[2] ?? "").split("·"))
    .map((sentence) => sentence.trim());
}

const NEEDS_HTML = listed("Texts that count as absent");
const IN_MIME = listed("Notes for old mail programs");

describe("isStub", () => {
  test("knows the sentences that docs/mail.md lists, in any case and punctuation, several of them and with a link", () => {
    expect(NEEDS_HTML.length).toBeGreaterThan(60);
    for (const [index, sentence] of NEEDS_HTML.entries()) {
      const next = NEEDS_HTML[(index + 1) % NEEDS_HTML.length] ?? "";
      const forms = [
        sentence,
        sentence.toUpperCase(),
        ` ${sentence.replace(/[.!?。]$/u, "").replaceAll(" ", "\r\n")}\u200b`,
        `*** ${sentence} ***\nhttps://view.example/?qs=${"a1".repeat(900)}\n`,
        `${sentence} ${next}`,
      ];
      expect(forms.filter((form) => !isPlaceholderTextPart(form))).toEqual([]);
    }
  });

  test("knows texts without visible characters, and dashes", () => {
    for (const text of [
      "",
      " \t\r\n",
      "\u00a0\u2003\u3000",
      "\u200b\u200c\u200d\u2060\ufeff\u034f\u00ad",
      "\u2800",
      " - ",
      "--",
      "\u2013",
      "\u2014",
    ])
      expect([text, isPlaceholderTextPart(text)]).toEqual([text, true]);
    expect(isPlaceholderTextPart(" ".repeat(1_000_000))).toBe(true);
  });

  test("knows nothing else", () => {
    const others = [
      ".",
      "x",
      "Thanks",
      "Sorry",
      "HTML",
      "-- \nAnn",
      "https://a.example/",
      "See you online at noon",
      "Please view the attached report",
      "Your email client called",
      "View this email in your browser. Your invoice is due on Friday.",
      "Your order 5 has shipped. Your email client does not support HTML.",
      `${NEEDS_HTML[0]} `.repeat(60),
      NEEDS_HTML[0]?.replace("HTML", "us") ?? "",
    ];
    expect(others.filter(isPlaceholderTextPart)).toEqual([]);
  });

  test("takes linear time for any beginning of its sentences", () => {
    const words = [...new Set(NEEDS_HTML.join(" ").split(" "))];
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...words), { minLength: 100, maxLength: 200 }), (chosen) => {
        const started = performance.now();
        isPlaceholderTextPart(chosen.join(" "));
        isPlaceholderTextPart(words[0]?.repeat(200) ?? "");
        expect(performance.now() - started).toBeLessThan(100);
      }),
      { numRuns: 50 },
    );
  });
});

describe("isNote", () => {
  test("knows the notes that docs/mail.md lists; beside HTML they count as absent", () => {
    expect(IN_MIME.length).toBeGreaterThan(20);
    expect(IN_MIME.filter((note) => !isMimeNote(note) || !isPlaceholderTextPart(note))).toEqual([]);
  });

  test("knows nothing that says more", () => {
    for (const note of IN_MIME) {
      expect(isMimeNote(`${note} Pay by Friday.`)).toBe(false);
      expect(isMimeNote(`${note} https://a.example/`)).toBe(false);
    }
  });
});

test("isVisible tells white space and characters without width from others", () => {
  expect([" \n\u00a0\u200b\u034f", "-", "a", "\u{1f600}", "\u0301"].map(hasVisibleCharacter)).toEqual([
    false,
    true,
    true,
    true,
    true,
  ]);
});
