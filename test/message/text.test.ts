import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { htmlOfText, makeSnippet, trimLineBreaks } from "../../src/message/text.ts";
import { anyCharacter } from "../harness/mail/any-character.ts";

test("htmlOfText shows a text unchanged", () => {
  expect(htmlOfText("a <b> & c\n d")).toBe('<div style="white-space:pre-wrap">a &lt;b&gt; &amp; c\n d</div>');
});

test("trimLineBreaks removes line breaks at the end only", () => {
  expect(trimLineBreaks("\na\n\n")).toBe("\na");
  expect(trimLineBreaks("\n")).toBe("");
});

describe("snippetOf", () => {
  const cases: [string, string][] = [
    ["Hello\n\n  world\t!", "Hello world !"],
    ["> quoted\n\nMy answer", "My answer"],
    ["My answer\n\nOn Mon, 1 Jan 2024 at 10:00, Ann <a@b.example> wrote:\n> quoted", "My answer"],
    ["Danke\n\nAm Mo., 1. Jan. 2024 um 10:00 Uhr schrieb Ann:\nText", "Danke"],
    ["See below\n-----Original Message-----\nFrom: x", "See below"],
    ["> only quoted", "> only quoted"],
    ["Read <https://a.example/very/long> this ==========", "Read this"],
    [
      `${"\u034f\u200c\u00a0".repeat(80)}Hello${"\u200c".repeat(50)}you${"\u200b\u2060\ufeff ".repeat(50)}there`,
      "Hello you there",
    ],
    ["Donau\u00addampf\u200bschiff \u202aab\u202c", "Donaudampfschiff ab"],
    [
      "می\u200cخواهم \u{1f468}\u200d\u{1f469}\u200d\u{1f467} \u2764\ufe0f",
      "می\u200cخواهم \u{1f468}\u200d\u{1f469}\u200d\u{1f467} \u2764\ufe0f",
    ],
    ["\u200c", ""],
    ["", ""],
  ];
  for (const [text, expected] of cases) test(JSON.stringify(text), () => expect(makeSnippet(text)).toBe(expected));

  test("gives at most 200 characters, cut between words", () => {
    const snippet = makeSnippet("word ".repeat(100));
    expect(snippet.length).toBeLessThanOrEqual(200);
    expect(snippet).toEndWith("word…");
    expect(makeSnippet("漢".repeat(300)).length).toBe(200);
  });

  test("gives the beginning of a long line, after any number of characters left out", () => {
    const rest = "word ".repeat(2_000);
    for (const length of [390, 400, 795, 800, 1_600, 7_000]) {
      expect(makeSnippet(`Read <https://a.example/${"x".repeat(length)}> this ${rest}`)).toStartWith("Read this word");
      expect(makeSnippet(`Read ${"=".repeat(length)} this ${rest}`)).toStartWith("Read this word");
      expect(makeSnippet(`Read ${" ".repeat(length)} this ${rest}`)).toStartWith("Read this word");
    }
  });

  test("gives one line without control characters or lone surrogates, for any text", () => {
    fc.assert(
      fc.property(fc.string({ unit: anyCharacter, maxLength: 400 }), (text) => {
        const snippet = makeSnippet(text);
        expect(snippet.length).toBeLessThanOrEqual(200);
        expect(snippet).not.toMatch(/\p{Cc}/u);
        expect(snippet.isWellFormed()).toBe(true);
      }),
    );
  });
});
