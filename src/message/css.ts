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
  /** As written; a comment is a space. */
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
export function tokensOf(css: string, budget: Budget): Token[] {
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
export function nameIn({ kind, text }: Token): string {
  const bare = kind === "call" ? text.slice(0, -1) : kind === "at" || kind === "hash" ? text.slice(1) : text;
  return unescapeCss(bare);
}

/** The content of a string, unescaped. */
export const contentOf = ({ text }: Token): string =>
  unescapeCss(text.slice(1, text.length > 1 && text.endsWith(text[0] as string) ? -1 : undefined));

const CLOSING: Record<string, string> = { "(": ")", "[": "]", "{": "}" };
const closingOf = ({ kind, text }: Token): string | undefined =>
  kind === "call" ? ")" : kind === "other" ? CLOSING[text] : undefined;

/** The offset of the end of the block that the token at `open` opens: its closing token, or the end of all. */
export function endOfBlock(tokens: readonly Token[], open: number): number {
  const closing: string[] = [];
  for (let at = open; at < tokens.length; at++) {
    const token = tokens[at] as Token;
    const opens = closingOf(token);
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
  /** Lower case. */
  property: string;
  value: readonly Token[];
  isImportant: boolean;
}

/** The declarations between two tokens, in order; what browsers take for none, and rules inside, are left out. */
export function* declarationsIn(tokens: readonly Token[], from = 0, to = tokens.length): Generator<Written> {
  for (let at = from; at < to; at++) {
    while (at < to && tokens[at]?.kind === "space") at++;
    const start = at;
    const first = tokens[start];
    let isRule = first?.kind === "at";
    for (; at < to && !isMark(tokens[at], ";"); at++) {
      const isBlock = isMark(tokens[at], "{");
      if (closingOf(tokens[at] as Token) !== undefined) at = Math.min(endOfBlock(tokens, at), to);
      // A block makes a rule of what looked like a declaration, except for custom properties, and ends it.
      if (isBlock && !first?.text.startsWith("--")) {
        isRule = true;
        break;
      }
    }
    if (isRule) continue;
    const declaration = readDeclaration(trimmed(tokens, start, Math.min(at, to)));
    if (declaration !== undefined) yield declaration;
  }
}

function readDeclaration(tokens: readonly Token[]): Written | undefined {
  const [name] = tokens;
  const colon = tokens[1]?.kind === "space" ? 2 : 1;
  if (name?.kind !== "name" || !isMark(tokens[colon], ":")) return undefined;
  let value = trimmed(tokens, colon + 1, tokens.length);
  const last = value.at(-1);
  let isImportant = false;
  if (last?.kind === "name" && nameIn(last).toLowerCase() === "important") {
    const before = trimmed(value, 0, value.length - 1);
    if (isMark(before.at(-1), "!")) {
      value = trimmed(before, 0, before.length - 1);
      isImportant = true;
    }
  }
  if (value.length === 0) return undefined;
  return { property: nameIn(name).toLowerCase(), value, isImportant };
}

/** A rule with declarations. */
export interface Rule {
  /** What stands before its block. */
  prelude: readonly Token[];
  /** The offsets of its declarations. */
  from: number;
  to: number;
  /** The at-rules around it, outermost first: name in lower case and prelude. */
  around: readonly AtRule[];
}

export interface AtRule {
  name: string;
  prelude: readonly Token[];
}

/** At-rules inside each other; a sheet that goes deeper is an attack. */
const MAX_AROUND = 20;

/** The rules with declarations, also those in at-rules that `enters`, in order. @throws OverBudget */
export function* rulesIn(tokens: readonly Token[], enters: ReadonlySet<string>): Generator<Rule> {
  const around: AtRule[] = [];
  let start = 0;
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at] as Token;
    if (at === start && (token.kind === "space" || token.kind === "ignored")) {
      start = at + 1;
    } else if (isMark(token, "}") && around.length > 0) {
      around.pop();
      start = at + 1;
    } else if (isMark(token, "{")) {
      const first = tokens[start] as Token;
      const name = first.kind === "at" ? nameIn(first).toLowerCase() : undefined;
      if (name !== undefined && enters.has(name)) {
        if (around.length === MAX_AROUND) throw new OverBudget("at-rules too deep inside each other");
        around.push({ name, prelude: trimmed(tokens, start + 1, at) });
      } else {
        const end = endOfBlock(tokens, at);
        if (name === undefined) {
          yield { prelude: trimmed(tokens, start, at), from: at + 1, to: end, around: [...around] };
        }
        at = end;
      }
      start = at + 1;
    } else if (isMark(token, ";") && tokens[start]?.kind === "at") {
      start = at + 1;
    } else if (closingOf(token) !== undefined) {
      at = endOfBlock(tokens, at);
    }
  }
}

/** Tokens as text, without the comments. */
export const textOf = (tokens: readonly Token[]): string => tokens.map(({ text }) => text).join("");
