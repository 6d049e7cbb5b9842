import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  foldAddress,
  foldAddresses,
  foldDocument,
  foldDocumentInTurns,
  foldText,
  foldTextInTurns,
  foldWithOffsets,
  LONGEST_BODY,
  MOST_OCCURRENCES,
  partOfToken,
  tokensWithin,
} from "../../src/search/fold.ts";
import { anyCharacter } from "../harness/mail/any-character.ts";
import { runs } from "../harness/runs.ts";
import { oddText } from "./odd-text.ts";

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
  for (const [text, folded] of cases) test(JSON.stringify(text), () => expect(foldText(text)).toBe(folded));

  test("makes any text into tokens separated by single spaces, idempotently", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        const folded = foldText(text);
        expect(folded).toMatch(/^(?:[\p{L}\p{N}\p{M}\p{Extended_Pictographic}\p{Regional_Indicator}]+(?: (?!$)|$))*$/u);
        expect(folded.isWellFormed()).toBe(true);
        expect(folded).toBe(foldText(folded));
        expect(Math.max(...folded.split(" ").map((token) => token.length))).toBeLessThanOrEqual(64);
      }),
      { numRuns: runs(500) },
    );
  });

  test("ignores case", () => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(..."aeoxyzäöüéñçßабвγδς 1-") }), (text) => {
        expect(foldText(text.toUpperCase())).toBe(foldText(text));
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
    text: Array.from({ length: 250_000 }, (_, i) => i % 1_000).join(" "),
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

test("a token that occurs too often leaves the others in their places", () => {
  const message = { subject: "", from: [], to: [], cc: [], filenames: [] };
  const pairs = `a b${" a".repeat(MOST_OCCURRENCES)} c `;
  const tokens = foldDocument({ ...message, text: pairs.repeat(2) }).body.split(" ");
  expect(tokens).toHaveLength(2 * (MOST_OCCURRENCES + 3));
  expect(tokens.filter((token) => token === "a")).toHaveLength(MOST_OCCURRENCES);
  for (const [at, token] of pairs.repeat(2).trim().split(" ").entries()) {
    expect([token, token === "a" ? "\ue000" : token]).toContain(tokens[at] ?? "");
  }
  expect(tokens.slice(-3)).toEqual(["\ue000", "\ue000", "c"]);
});

describe("foldInTurns", () => {
  test("gives the tokens of fold with any size of pieces", async () => {
    const spaced = fc
      .array(fc.tuple(anyText, fc.constantFrom(" ", "\n", "", "漢", "\u0301")))
      .map((pairs) => pairs.join(""));
    await fc.assert(
      fc.asyncProperty(fc.oneof(anyText, spaced), fc.integer({ min: 1, max: 40 }), async (text, piece) => {
        expect(await foldTextInTurns(text, async () => {}, piece)).toBe(foldText(text));
      }),
      { numRuns: runs(30_000) },
    );
  });

  const texts: [string, string][] = [
    ["Latin", "The quarterly budget of Zürich, and what it costs.\n"],
    ["Chinese without a space", "会议记录请准时参加明天下午三点"],
  ];
  test.each(texts)("yields to other work in the longest document: %s", async (_, line) => {
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

describe("foldWithOffsets", () => {
  /** `token` at `text`: the text at its position. */
  const placed = (text: string) =>
    foldWithOffsets(text).map(({ token, start, end }) => `${token} at ${text.slice(start, end)}`);

  test.each<[text: string, tokens: string[]]>([
    ["Pay 99.50 EUR!", ["pay at Pay", "99 at 99", "50 at 50", "eur at EUR"]],
    ["Größe Maß", ["grosse at Größe", "mass at Maß"]],
    ["cafe\u0301 nai\u0308ve", ["cafe at cafe\u0301", "naive at nai\u0308ve"]],
    ["ﬁnal ｆｕｌｌ ①②", ["final at ﬁnal", "full at ｆｕｌｌ", "12 at ①②"]],
    ["in\u00advoice a\u200bb", ["invoice at in\u00advoice", "ab at a\u200bb"]],
    ["北京。ﾊﾝｶﾞ", ["北 at 北", "京 at 京", "ハ at ﾊ", "ン at ﾝ", "ガ at ｶﾞ"]],
    ["회의를", ["회 at 회", "의 at 의", "를 at 를"]],
    ["\u1112\u116c의", ["회 at \u1112\u116c", "의 at 의"]],
    ["น้ำใจ", ["น้ํ at น้ำ", "า at น้ำ", "ใ at ใ", "จ at จ"]],
    ["Hi👩🏽‍💻🎉", ["hi at Hi", "👩 at 👩🏽‍", "💻 at 💻", "🎉 at 🎉"]],
    ["½x", ["1 at ½", "2x at ½x"]],
    ["か\u200b\u3099き", ["が at か\u200b\u3099", "き at き"]],
    ["𝐢𝐧𝐯𝐨𝐢𝐜𝐞", ["invoice at 𝐢𝐧𝐯𝐨𝐢𝐜𝐞"]],
    ["İstanbul", ["istanbul at İstanbul"]],
    ["\ud800a\udc00", ["a at a"]],
  ])("%p", (text, tokens) => {
    expect(placed(text)).toEqual(tokens);
  });

  test("cuts a long token as fold does, and gives the position of all of it", () => {
    const blob = "Aé".repeat(60);
    expect(foldWithOffsets(`x ${blob} y`)).toEqual([
      { token: "x", start: 0, end: 1 },
      { token: foldText(blob), start: 2, end: 122 },
      { token: "y", start: 123, end: 124 },
    ]);
  });

  test("gives the tokens of fold, in its order, at positions between characters", () => {
    fc.assert(
      fc.property(oddText(25), (text) => {
        const tokens = foldWithOffsets(text);
        expect(tokens.map(({ token }) => token).join(" ")).toBe(foldText(text));
        const isCut = (at: number) => /^[\ud800-\udbff][\udc00-\udfff]$/.test(text.slice(at - 1, at + 1));
        const odd = tokens.filter(
          ({ start, end }, i) => start < (tokens[i - 1]?.start ?? 0) || end <= start || isCut(start) || isCut(end),
        );
        expect(odd).toEqual([]);
      }),
      { numRuns: runs(150) },
    );
  });
});

describe("parts of texts", () => {
  /** True if some of the tokens stand in a text one after the other, the last as a beginning. */
  function stands(tokens: readonly string[], text: string): boolean {
    const all = foldText(text).split(" ");
    return all.some((_, at) =>
      tokens.every((token, i) =>
        i === tokens.length - 1 ? all[at + i]?.startsWith(token) === true : all[at + i] === token,
      ),
    );
  }
  const compared = (text: string): string => text.normalize("NFKC").toLowerCase();
  /** But parts of a letter that something keeps apart which nobody sees: to the index they are one. */
  const text = anyText.map((one) =>
    one.replaceAll(/[\p{Default_Ignorable_Code_Point}\p{Emoji_Modifier}\p{sc=Zinh}]+(?=[\p{M}\u1100-\u11ffﾞﾟ])/gu, ""),
  );

  test("wherever a text is part of another, so are the tokens within it", () => {
    fc.assert(
      fc.property(text, fc.nat(), fc.nat(), (whole, from, length) => {
        const characters = [...whole];
        const start = from % (characters.length + 1);
        const part = characters.slice(start, start + 1 + (length % 20)).join("");
        if (!compared(whole).includes(compared(part))) return;
        const tokens = tokensWithin(part);
        expect([whole, part, tokens.length === 0 || stands(tokens, whole)]).toEqual([whole, part, true]);
      }),
      { numRuns: runs(5_000) },
    );
  });

  test("cut anywhere, too", () => {
    fc.assert(
      fc.property(text, fc.nat(), fc.nat(), (whole, from, length) => {
        const all = [...compared(whole)];
        const start = from % (all.length + 1);
        const part = all.slice(start, start + 1 + (length % 20)).join("");
        const tokens = tokensWithin(part);
        expect([whole, part, tokens.length === 0 || stands(tokens, whole)]).toEqual([whole, part, true]);
      }),
      { numRuns: runs(5_000) },
    );
  });

  test.each([
    ["budget review", ["review"]],
    [" budget", ["budget"]],
    ["budget", []],
    ["東京", ["東", "京"]],
    ["x東", ["東"]],
    ["<a.b@c", ["a", "b", "c"]],
    ["!?", []],
  ])("within %p", (text, tokens) => {
    expect(tokensWithin(text)).toEqual(tokens);
  });

  test.each([
    ["Café", "cafe"],
    ["a b", undefined],
    ["(a", undefined],
    ["a.", undefined],
    ["東", undefined],
    ["x".repeat(65), undefined],
  ])("%p is of one token", (text, token) => {
    expect(partOfToken(text)).toBe(token as string);
  });
});
