/** Tokens with positions: the tokens of `fold`, at the positions that produced them. */
import { expect, test } from "bun:test";
import fc from "fast-check";
import { fold, foldWithOffsets } from "../../src/search/fold.ts";
import { oddText } from "../harness/odd-text.ts";

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

test("a long token is cut as by fold, and its position covers all of it", () => {
  const blob = "Aé".repeat(60);
  expect(foldWithOffsets(`x ${blob} y`)).toEqual([
    { token: "x", start: 0, end: 1 },
    { token: fold(blob), start: 2, end: 122 },
    { token: "y", start: 123, end: 124 },
  ]);
});

test("the tokens of fold, in its order, at positions between characters", () => {
  fc.assert(
    fc.property(oddText(25), (text) => {
      const tokens = foldWithOffsets(text);
      expect(tokens.map(({ token }) => token).join(" ")).toBe(fold(text));
      const isCut = (at: number) => /^[\ud800-\udbff][\udc00-\udfff]$/.test(text.slice(at - 1, at + 1));
      const odd = tokens.filter(
        ({ start, end }, i) => start < (tokens[i - 1]?.start ?? 0) || end <= start || isCut(start) || isCut(end),
      );
      expect(odd).toEqual([]);
    }),
    { numRuns: 150 },
  );
});
