/**
 * Text that a model could take for a line of a fence: two marks or more, and then a word of the fence, in any characters
 * that look like them. The way that the marks point does not matter. Linear time.
 *
 * The lists come from the confusable characters of UTS #39, with arrows of all kinds, which are not among those.
 */
import { isAscii } from "../../message/characters.ts";

/** Characters that are two marks or three, and these marks. */
const SEVERAL: ReadonlyMap<string, string> = new Map([
  ...["≪", "⪡", "⪻", "⏪"].map((character) => [character, "<<"] as const),
  ...["≫", "⪢", "⪼", "⏩"].map((character) => [character, ">>"] as const),
  ...["⋘", "⫷"].map((character) => [character, "<<<"] as const),
  ...["⋙", "⫸"].map((character) => [character, ">>>"] as const),
]);
const HEAVY = [...SEVERAL.keys()].join("");
/** Signs, brackets, arrows, triangles, pointing hands, Canadian syllabics; ranges of a regular expression. */
const SINGLE = [
  "<>＜＞﹤﹥‹›«»〈〉《》\\u2329\\u232a︽︾︿﹀˂˃ᚲ⟨-⟫❬-❱⦑⦒⧼⧽ᐃ-ᐊᐱ-ᐺᑀ",
  "\\u2190-\\u21ff\\u2794-\\u27be\\u27f0-\\u27ff\\u2900-\\u297f\\u2b00-\\u2bff\\uffe9-\\uffec\\u{1f800}-\\u{1f8ff}",
  "\\u2264-\\u2281\\u22b0-\\u22b5\\u22d0-\\u22e9\\u2a79-\\u2abc\\u{16f3f}\\u{1d236}\\u{1d237}",
  "\\u25b2-\\u25c5\\u23f4\\u23f5\\u{1f780}-\\u{1f783}\\u261a-\\u261f\\u{1f446}-\\u{1f449}",
].join("");

const MARKS = `[${SINGLE}${HEAVY}][${SINGLE}${HEAVY}\\p{M}]+|[${HEAVY}]`;
const ANY_MARKS = new RegExp(MARKS, "u");
const ALL_MARKS = new RegExp(MARKS, "gu");
const ASCII_MARKS = /[<>]{2}/;

/** Characters that may stand between the marks and the word. */
const GAP = /[\t\p{Zs}\u2800\p{M}]*/uy;
/** The characters that can be the word, with what combines with them. */
const WORD = /(?:[^\p{M}]\p{M}*){0,8}/uy;
/** A longer word counts as well, because a result may be cut inside of it. */
const FENCE_WORD = /^(?:mall|end)/;

/** Small letters that look like those of the words; `l` stands for `i`, too. */
const LIKE: Readonly<Record<string, string>> = {
  m: "мᴍɱꮇᗰᛖ𐊰𐌑ⲙϻꓟμ",
  a: "аαɑᴀɐⱥꭺᗅꓮ𖽀𐊠⍺@",
  l: "i1|!ıіӏιɩɪɨꭵ⍳ꙇǀⵏᛁꓲ𐌉𐊊𖼨∣│⏽וןا١۱ߊ𞣇𐌠ʟꮮᒪꓡⳑ𖼖𑢲𑢣𐐛𐑃𐔦łƚɫɭɬ",
  e: "еεєҽəɛɇᴇ℮ꬲꭼꓰⴹ⋿𐊆𑢦𑢮ⲉ€",
  n: "ոռпɴνηꓠⲛ𐔓ᑎŋƞɳɲꞑᥒחո∩⋂",
  d: "ԁɗɖđᴅꓒꮷᑯᗞᗪꓓꭰժð",
};

/** The first letters of these alphabets of signs, which have no other form. */
const SIGNS = [0x1f150, 0x1f170, 0x1f1e6];

const LETTER_OF: ReadonlyMap<string, string> = new Map(
  Object.entries(LIKE).flatMap(([letter, others]) => [
    ...[...others].map((other) => [other, letter] as const),
    ...SIGNS.map((first) => [String.fromCodePoint(first + letter.charCodeAt(0) - 0x61), letter] as const),
  ]),
);

/** Folds letters to those of the words that they look like. */
function folded(text: string): string {
  const letters = text
    .replace(/\p{M}+/gu, "")
    .normalize("NFKD")
    .toLowerCase()
    .replace(/[()\p{M}]+/gu, "");
  return [...letters]
    .map((letter) => LETTER_OF.get(letter) ?? letter)
    .join("")
    .replaceAll("rn", "m")
    .replaceAll("cl", "d");
}

/** False for most text, and then for any part of it. */
export const mayLookLikeFence = (text: string): boolean => (isAscii(text) ? ASCII_MARKS : ANY_MARKS).test(text);

/** Replaces the marks before a word of the fence. `replace` gets them one by one. */
export function replaceFenceMarks(text: string, replace: (marks: string[]) => string): string {
  if (!mayLookLikeFence(text)) return text;
  return text.replace(ALL_MARKS, (found, at: number) => {
    const marks = [...found.replace(/\p{M}+/gu, "")].flatMap((mark) => [...(SEVERAL.get(mark) ?? mark)]);
    return marks.length > 1 && isWordAt(text, at + found.length) ? replace(marks) : found;
  });
}

function isWordAt(text: string, position: number): boolean {
  GAP.lastIndex = position;
  const start = position + (GAP.exec(text)?.[0].length ?? 0);
  WORD.lastIndex = start;
  return FENCE_WORD.test(folded(WORD.exec(text)?.[0] ?? ""));
}
