import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  fold,
  foldAddress,
  foldAddresses,
  foldDocument,
  foldDocumentInTurns,
  foldInTurns,
  LONGEST_BODY,
} from "../../src/search/fold.ts";
import { anyCharacter } from "../harness/any-character.ts";

/** Any UTF-16 code units, including lone surrogates and controls, and strings that folding treats specially. */
const anyText = fc.oneof(
  fc.string({ unit: anyCharacter }),
  fc.array(fc.integer({ min: 0, max: 0xffff }).map((unit) => String.fromCharCode(unit))).map((units) => units.join("")),
  fc
    .array(
      fc.constantFrom(..."aZé\u0301\u0308 ßẞİıςΣがｶﾞ\u3099ー漢字한ᄒ\u1161ที่ำဗမာកម្ពុ🎉👍🏽🇩🇪\u200d\u00ad\ue100½ﬁ-@._'\0"),
    )
    .map((units) => units.join("")),
);

describe("fold", () => {
  const cases: [text: string, folded: string][] = [
    ["", ""],
    [" \t\r\n", ""],
    ["!?… — ***", ""],
    ["Hello, World!", "hello world"],
    ["e-mail don't O’Brien", "e mail don t o brien"],
    ["Ärger naïve CAFÉ cafe\u0301", "arger naive cafe cafe"],
    ["Straße STRASSE GROẞ", "strasse strasse gross"],
    ["İstanbul ISTANBUL ısı", "istanbul istanbul isi"],
    ["Łódź Søren Ærø Œuvre Þór", "lodz soren aero oeuvre thor"],
    ["ΟΔΟΣ οδός", "οδοσ οδοσ"],
    ["Ёлка ёлка", "елка елка"],
    ["ＡＢＣ１２３ ﬁle ² ™", "abc123 file 2 tm"],
    ["שָׁלוֹם مُحَمَّد محـمد", "שלום محمد محمد"],
    ["会议2024年", "会 议 2024 年"],
    ["東京タワー ﾀﾜｰ", "東 京 タ ワ ー タ ワ ー"],
    ["が か", "が か"],
    ["한국어", "한 국 어"],
    ["ที่นี่", "ที่ นี่"],
    ["हिन्दी", "हिन्दी"],
    ["🎉Party👍🏽 ❤️", "🎉 party 👍 ❤"],
    ["soft\u00adhyphen zero\u200bwidth", "softhyphen zerowidth"],
    ["https://example.com/a?b=1", "https example com a b 1"],
    ["private \ue100mbx use", "private mbx use"],
    ["lone \ud800x surrogate\udc00", "lone x surrogate"],
    ["nul\0byte", "nul byte"],
    ["x".repeat(70), "x".repeat(64)],
  ];
  for (const [text, folded] of cases) test(JSON.stringify(text), () => expect(fold(text)).toBe(folded));

  test("any text becomes tokens separated by single spaces, idempotently", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const folded = fold(text);
        expect(folded).toMatch(/^(?:[\p{L}\p{N}\p{M}\p{Extended_Pictographic}\p{Regional_Indicator}]+(?: (?!$)|$))*$/u);
        expect(folded.isWellFormed()).toBe(true);
        expect(folded).toBe(fold(folded));
        expect(Math.max(...folded.split(" ").map((token) => token.length))).toBeLessThanOrEqual(64);
      }),
      { numRuns: 500 },
    );
  });

  test("case is ignored", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."aeoxyzäöüéñçßабвγδς 1-") }), (text) => {
        expect(fold(text.toUpperCase())).toBe(fold(text));
      }),
    );
  });
});

describe("addresses", () => {
  test("a complete address is one token in any spelling", () => {
    const token = foldAddress("Ann.Lee+x@Example.COM");
    expect(token).toBeDefined();
    expect(token).not.toMatch(/[\p{Cc} -/:-@[-`{-~]/u);
    expect(foldAddress("<ann.lee+x@example.com>")).toBe(token);
    expect(foldAddress("ann-lee+x@example.com")).not.toBe(token);
    expect(foldAddress("info@Bücher.example")).toBe(foldAddress("info@xn--bcher-kva.example"));
  });

  for (const partial of [
    "ann",
    "@example.com",
    "ann@",
    "ann@example",
    "Ann <ann@example.com>",
    "a b@example.com",
    "",
  ]) {
    test(`${JSON.stringify(partial)} is not a complete address`, () => expect(foldAddress(partial)).toBeUndefined());
  }

  test("an invalid address still yields its words", () => {
    expect(foldAddresses([{ email: "not an address", name: "Someone" }])).toContain("someone not an address");
  });

  test("folding never fails and never makes a token that FTS5 would split", () => {
    fc.assert(
      fc.property(fc.array(fc.record({ email: anyText, name: anyText })), (addresses) => {
        expect(foldAddresses(addresses)).toMatch(/^[^\p{Cc}!-/:-@[-`{-~]*$/u);
      }),
    );
  });
});

test("the cost of one message for the index is bounded", () => {
  const many = Array.from({ length: 3_000 }, (_, i) => ({ email: `u${i}@example.test`, name: "n".repeat(5_000) }));
  const document = foldDocument({
    subject: "s ".repeat(1_000_000),
    text: "w ".repeat(3_000_000),
    from: many,
    to: many,
    cc: many,
    filenames: many.map(({ name }) => name),
  });
  expect(document.body.split(" ").length).toBe(200_000);
  for (const [field, folded] of Object.entries(document)) {
    expect({ field, small: folded.length <= 1_048_576 }).toEqual({ field, small: true });
  }
  expect(
    foldDocument({ subject: "", text: "漢".repeat(500_000), from: [], to: [], cc: [], filenames: [] }).body.length,
  ).toBe(399_999);
});

describe("in turns", () => {
  test("a text folds to the same with any size of pieces", async () => {
    const spaced = fc
      .array(fc.tuple(anyText, fc.constantFrom(" ", "\n", "", "漢", "\u0301")))
      .map((pairs) => pairs.join(""));
    await fc.assert(
      fc.asyncProperty(fc.oneof(anyText, spaced), fc.integer({ min: 1, max: 40 }), async (text, piece) => {
        expect(await foldInTurns(text, async () => {}, piece)).toBe(fold(text));
      }),
      { numRuns: 2_000 },
    );
  });

  const texts: [string, string][] = [
    ["Latin", "The quarterly budget of Zürich, and what it costs.\n"],
    ["Chinese without a space", "会议记录请准时参加明天下午三点"],
  ];
  test.each(texts)("the longest document yields to others: %s", async (_, line) => {
    const message = {
      subject: "S",
      from: [{ email: "a@b.example" }],
      to: [],
      cc: [],
      filenames: ["f.pdf"],
      text: line.repeat(Math.ceil((LONGEST_BODY + 50_000) / line.length)),
    };
    let turns = 0;
    const folded = await foldDocumentInTurns(message, async () => void turns++);
    expect(folded).toEqual(foldDocument(message));
    expect(turns).toBe(31);
  });
});
