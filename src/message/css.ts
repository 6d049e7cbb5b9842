/**
 * Reads the CSS of mail as tokens, declarations and rules (CSS Syntax 3), for style attributes and for sheets alike. The only
 * user of css-tree, of which it takes the tokenizer: the limits and the grammar of what is served are ours.
 *
 * Linear time: each token is looked at a fixed number of times.
 */
import { tokenize, tokenTypes as types } from "css-tree/tokenizer";
import { type Budget, OverBudget } from "./markup.ts";

export type Kind =
  | "name"
  | "call"
  | "at"
  | "hash"
  | "string"
  | "number"
  | "percentage"
  | "dimension"
  | "space"
  | "ignored"
  | "other";

export interface Token {
  kind: Kind;
  /** The text of the token as written; a space for a comment. */
  text: string;
}

const KINDS = new Map<number, Kind>([
  [types.Ident, "name"],
  [types.Function, "call"],
  [types.AtKeyword, "at"],
  [types.Hash, "hash"],
  [types.String, "string"],
  [types.Number, "number"],
  [types.Percentage, "percentage"],
  [types.Dimension, "dimension"],
  [types.WhiteSpace, "space"],
  [types.Comment, "space"],
  [types.CDO, "ignored"],
  [types.CDC, "ignored"],
]);

/** Steps that a character costs. */
const CHARACTER = 20;

/** The tokens of CSS; each run of white space and comments is one. @throws OverBudget */
export function tokenizeCss(css: string, budget: Budget): Token[] {
  budget.spend(CHARACTER * css.length);
  const tokens: Token[] = [];
  let wasSpace = false;
  tokenize(css, (type, start, end) => {
    const kind = KINDS.get(type) ?? "other";
    if (kind !== "space") tokens.push({ kind, text: css.slice(start, end) });
    else if (!wasSpace) tokens.push({ kind, text: " " });
    wasSpace = kind === "space";
  });
  return tokens;
}

/** CSS Syntax 3 §4.3.7. */
export function unescapeCss(text: string): string {
  if (!text.includes("\\")) return text;
  return text.replace(
    /\\(?:([0-9a-f]{1,6})(?:\r\n|\s)?|(\r\n|[\s\S]))/gi,
    (_, hex: string | undefined, character: string | undefined) => {
      if (hex === undefined) return /^[\r\n\f]/.test(character ?? "") ? "" : (character ?? "");
      const point = Number.parseInt(hex, 16);
      return point > 0 && point <= 0x10ffff && (point & 0xfff800) !== 0xd800 ? String.fromCodePoint(point) : "\ufffd";
    },
  );
}

/** The name of a name, call, at-rule or hash without its mark, unescaped. */
export function readCssTokenName({ kind, text }: Token): string {
  const bare = kind === "call" ? text.slice(0, -1) : kind === "at" || kind === "hash" ? text.slice(1) : text;
  return unescapeCss(bare);
}

/** The content of a string, unescaped. */
export const readStringToken = ({ text }: Token): string =>
  unescapeCss(text.slice(1, text.length > 1 && text.endsWith(text[0] as string) ? -1 : undefined));

const CLOSING: Record<string, string> = { "(": ")", "[": "]", "{": "}" };
const findClosingMark = ({ kind, text }: Token): string | undefined =>
  kind === "call" ? ")" : kind === "other" ? CLOSING[text] : undefined;

/** The offset of the end of the block that the token at `open` opens: its closing token, or the end of all. */
export function endOfBlock(tokens: readonly Token[], open: number): number {
  const closing: string[] = [];
  for (let at = open; at < tokens.length; at++) {
    const token = tokens[at] as Token;
    const opens = findClosingMark(token);
    if (opens !== undefined) closing.push(opens);
    else if (token.kind === "other" && token.text === closing.at(-1)) {
      closing.pop();
      if (closing.length === 0) return at;
    }
  }
  return tokens.length;
}

const isMark = (token: Token | undefined, text: string): boolean => token?.kind === "other" && token.text === text;

function trimmed(tokens: readonly Token[], from: number, to: number): Token[] {
  while (from < to && tokens[from]?.kind === "space") from++;
  while (to > from && tokens[to - 1]?.kind === "space") to--;
  return tokens.slice(from, to);
}

export interface Written {
  /** Lower case; of a custom property as written. */
  property: string;
  value: readonly Token[];
  isImportant: boolean;
}

function readDeclaration(tokens: readonly Token[]): Written | undefined {
  const [name] = tokens;
  const colon = tokens[1]?.kind === "space" ? 2 : 1;
  if (name?.kind !== "name" || !isMark(tokens[colon], ":")) return undefined;
  let value = trimmed(tokens, colon + 1, tokens.length);
  const last = value.at(-1);
  let isImportant = false;
  if (last?.kind === "name" && readCssTokenName(last).toLowerCase() === "important") {
    const before = trimmed(value, 0, value.length - 1);
    if (isMark(before.at(-1), "!")) {
      value = trimmed(before, 0, before.length - 1);
      isImportant = true;
    }
  }
  if (value.length === 0) return undefined;
  const property = readCssTokenName(name);
  return { property: property.startsWith("--") ? property : property.toLowerCase(), value, isImportant };
}

/** A part of a sheet or of a block. */
export type Item =
  | { kind: "declarations"; declarations: Written[] }
  /** `prelude`: its selectors. */
  | { kind: "rule"; prelude: readonly Token[]; items: readonly Item[] }
  /** `name`: lower case. `items`: undefined for a statement, which has no block. */
  | { kind: "at"; name: string; prelude: readonly Token[]; items: readonly Item[] | undefined };

/** Blocks inside each other; a sheet that goes deeper is an attack. */
const MAX_AROUND = 20;
const NO_NAMES: ReadonlySet<string> = new Set();

/** The rules of a sheet. Of at-rules with blocks, those that `enters`. @throws OverBudget */
export const parseCssRules = (tokens: readonly Token[], enters: ReadonlySet<string>): Item[] =>
  itemsAt(tokens, { at: 0 }, enters, 0, { isStyle: false, hasDeclarations: false });

/** The declarations of a style attribute, in order; what browsers take for none, and rules inside, are left out. */
export const parseCssDeclarations = (tokens: readonly Token[]): Written[] =>
  itemsAt(tokens, { at: 0 }, NO_NAMES, 0, { isStyle: true, hasDeclarations: true }).flatMap((item) =>
    item.kind === "declarations" ? item.declarations : [],
  );

/**
 * Reads the items of a block up to its end, and moves `cursor` behind it (CSS Syntax 3 §5.5.4). `isStyle`: it is that of a style
 * rule, or inside of one.
 */
function itemsAt(
  tokens: readonly Token[],
  cursor: { at: number },
  enters: ReadonlySet<string>,
  depth: number,
  { isStyle, hasDeclarations }: { isStyle: boolean; hasDeclarations: boolean },
): Item[] {
  if (depth > MAX_AROUND) throw new OverBudget("rules too deep inside each other");
  const items: Item[] = [];
  while (cursor.at < tokens.length) {
    const start = cursor.at;
    const first = tokens[start] as Token;
    const isEnd = (token: Token) => depth > 0 && isMark(token, "}");
    if (isEnd(first)) {
      cursor.at++;
      return items;
    }
    const isAt = first.kind === "at";
    if (first.kind === "space" || first.kind === "ignored" || (hasDeclarations && isMark(first, ";"))) {
      cursor.at++;
      continue;
    }
    // A block makes a rule of what looked like a declaration, except for custom properties.
    const isCustom = hasDeclarations && first.text.startsWith("--");
    let at = start;
    for (; at < tokens.length; at++) {
      const token = tokens[at] as Token;
      if (isEnd(token) || (isMark(token, "{") && !isCustom)) break;
      if (isMark(token, ";") && (isAt || hasDeclarations)) break;
      if (findClosingMark(token) !== undefined) at = endOfBlock(tokens, at);
    }
    at = Math.min(at, tokens.length);
    cursor.at = at;
    const name = isAt ? readCssTokenName(first).toLowerCase() : "";
    if (!isMark(tokens[at], "{")) {
      if (isAt) items.push({ kind: "at", name, prelude: trimmed(tokens, start + 1, at), items: undefined });
      const declaration = hasDeclarations ? readDeclaration(trimmed(tokens, start, at)) : undefined;
      const last = items.at(-1);
      if (declaration !== undefined && last?.kind === "declarations") last.declarations.push(declaration);
      else if (declaration !== undefined) items.push({ kind: "declarations", declarations: [declaration] });
      if (isMark(tokens[at], ";")) cursor.at++;
    } else if (isAt && !enters.has(name)) {
      cursor.at = endOfBlock(tokens, at) + 1;
    } else {
      const prelude = trimmed(tokens, isAt ? start + 1 : start, at);
      cursor.at++;
      const inStyle = isStyle || !isAt;
      // An `@scope` may have declarations of its root.
      const block = { isStyle: inStyle, hasDeclarations: inStyle || name === "scope" };
      const inside = itemsAt(tokens, cursor, enters, depth + 1, block);
      items.push(isAt ? { kind: "at", name, prelude, items: inside } : { kind: "rule", prelude, items: inside });
    }
  }
  return items;
}

/** Tokens as text, without the comments. */
export const formatCssTokens = (tokens: readonly Token[]): string => tokens.map(({ text }) => text).join("");
