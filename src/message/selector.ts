/**
 * Selectors of the style sheets of mail (Selectors 4): read once, for those who ask what a rule hides (stylesheet.ts) and for
 * those who serve it (sheet.ts).
 */
import { contentOf, endOfBlock, nameIn, type Token, textOf } from "./css.ts";
import type { Budget } from "./markup.ts";

export interface AttributeTest {
  /** Lower case. */
  name: string;
  /** `=`, `~=`, `|=`, `^=`, `$=` or `*=`; "" if the attribute need only be there. */
  operator: string;
  value: string;
  /** Upper and lower case are one. */
  ignoresCase: boolean;
}

export type Simple =
  | { kind: "type"; name: string }
  | { kind: "any" }
  | { kind: "class"; name: string }
  | { kind: "id"; name: string }
  | { kind: "attribute"; test: AttributeTest }
  /** Depends on the place of the element, or on what its reader does. `argument`: as it is served, with its parentheses. */
  | { kind: "state"; name: string; argument: string }
  | { kind: "logic"; name: string; selectors: readonly Selector[] };

export interface Compound {
  /** Between it and the compound before: `" "` for descendants; "" for the first. */
  combinator: "" | " " | ">" | "+" | "~";
  simples: readonly Simple[];
}

/** Outermost first; the last is the element itself. */
export type Selector = readonly Compound[];

const STATES = new Set(
  (
    "link visited any-link hover active focus focus-visible focus-within root empty first-child last-child only-child first-of-type " +
    "last-of-type only-of-type"
  ).split(" "),
);
const LOGIC = new Set("is where not has".split(" "));
/** Valid, but of no element of mail that is served. */
const OF_OTHERS =
  /^:?(?:before|after|first-line|first-letter|selection|placeholder|marker|backdrop|target|checked|disabled|enabled|required|optional|valid|invalid|default|indeterminate|read-only|read-write|scope|host|defined|autofill|placeholder-shown|in-range|out-of-range|fullscreen|modal|popover-open|open)$|^:-(?:webkit|moz|ms)-/;
const COUNT = /^(?:odd|even|[+-]?\d{1,6}|[+-]?\d{0,6}n(?: ?[+-] ?\d{1,6})?)$/i;
const LANGUAGE = /^[a-z-]{1,35}$/i;
const ARGUMENTS = new Map([
  ...["nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type"].map((name) => [name, COUNT] as const),
  ["lang", LANGUAGE],
  ["dir", LANGUAGE],
]);
/** Of selectors inside each other. */
const MAX_DEPTH = 4;

/** The selector is valid, but nothing that is served could match it. */
export const UNSERVED = "unserved";

/**
 * The selectors of a list; undefined if browsers ignore the rule, because one of them is none. @throws OverBudget
 */
export function readSelectors(
  tokens: readonly Token[],
  budget: Budget,
  depth = 0,
): (Selector | typeof UNSERVED)[] | undefined {
  const selectors: (Selector | typeof UNSERVED)[] = [];
  let start = 0;
  for (let at = 0; at <= tokens.length; at++) {
    const token = tokens[at];
    if (token !== undefined && (token.kind === "call" || /^[([{]$/.test(token.text))) at = endOfBlock(tokens, at);
    else if (token === undefined || token.text === ",") {
      const selector = readSelector(tokens.slice(start, at), budget, depth);
      if (selector === undefined) return undefined;
      selectors.push(selector);
      start = at + 1;
    }
  }
  return selectors;
}

function readSelector(tokens: readonly Token[], budget: Budget, depth: number): Selector | typeof UNSERVED | undefined {
  budget.spend(300 + 40 * tokens.length);
  const compounds: Compound[] = [];
  let combinator: Compound["combinator"] = "";
  let simples: Simple[] = [];
  let isUnserved = depth > MAX_DEPTH;
  const finish = (): boolean => {
    if (simples.length === 0) return false;
    compounds.push({ combinator, simples });
    simples = [];
    return true;
  };
  for (let at = 0; at < tokens.length; at++) {
    const token = tokens[at] as Token;
    const { kind, text } = token;
    if (kind === "space" || />|\+|~/.test(kind === "other" ? text : "")) {
      // Spaces around another combinator, or at the ends.
      let mark = " ";
      for (; at < tokens.length; at++) {
        const { kind, text } = tokens[at] as Token;
        if (kind === "space") continue;
        if (kind !== "other" || !/^[>+~]$/.test(text)) break;
        if (mark !== " ") return undefined;
        mark = text;
      }
      const isEnd = at === tokens.length;
      if (mark === " " && (isEnd || (simples.length === 0 && compounds.length === 0))) {
        at--;
        continue;
      }
      // A combinator at the beginning is relative to an element around, which only `:has()` has.
      if (isEnd || (!finish() && depth === 0)) return undefined;
      combinator = mark as Compound["combinator"];
      at--;
      continue;
    }
    const next = tokens[at + 1];
    if (kind === "name" && simples.length === 0) simples.push({ kind: "type", name: nameIn(token).toLowerCase() });
    else if (text === "*" && simples.length === 0) simples.push({ kind: "any" });
    else if (kind === "hash") simples.push({ kind: "id", name: nameIn(token) });
    else if (text === "." && next?.kind === "name") {
      simples.push({ kind: "class", name: nameIn(next) });
      at++;
    } else if (text === "[") {
      const end = endOfBlock(tokens, at);
      const test = readTest(tokens.slice(at + 1, end).filter(({ kind }) => kind !== "space"));
      if (test === undefined) return undefined;
      simples.push({ kind: "attribute", test });
      at = end;
    } else if (text === ":" && next !== undefined) {
      const isElement = next.text === ":";
      const named = isElement ? tokens[at + 2] : next;
      if (named?.kind !== "name" && named?.kind !== "call") return undefined;
      const name = nameIn(named).toLowerCase();
      at += isElement ? 2 : 1;
      const end = named.kind === "call" ? endOfBlock(tokens, at) : at;
      const inside = tokens.slice(at + 1, end);
      at = end;
      if (isElement || OF_OTHERS.test(`:${name}`)) {
        if (!OF_OTHERS.test(`:${name}`)) return undefined;
        isUnserved = true;
        simples.push({ kind: "any" });
      } else if (named.kind === "name" && STATES.has(name)) simples.push({ kind: "state", name, argument: "" });
      else if (named.kind === "call" && ARGUMENTS.has(name)) {
        const argument = textOf(inside).trim();
        if (!ARGUMENTS.get(name)?.test(argument)) isUnserved = true;
        simples.push({ kind: "state", name, argument: `(${argument})` });
      } else if (named.kind === "call" && LOGIC.has(name)) {
        const selectors = depth < MAX_DEPTH ? readSelectors(inside, budget, depth + 1) : [];
        if (selectors === undefined) return undefined;
        const known = selectors.filter((one) => one !== UNSERVED);
        if (known.length < selectors.length || known.length === 0) isUnserved = true;
        simples.push({ kind: "logic", name, selectors: known });
      } else return undefined;
    } else return undefined;
  }
  if (!finish()) return undefined;
  return isUnserved ? UNSERVED : compounds;
}

/** The inside of the brackets, without spaces. */
function readTest(tokens: readonly Token[]): AttributeTest | undefined {
  const [name, ...rest] = tokens;
  if (name?.kind !== "name") return undefined;
  const test = { name: nameIn(name).toLowerCase(), operator: "", value: "", ignoresCase: false };
  if (rest.length === 0) return test;
  const marks = rest.findIndex(({ kind }) => kind !== "other");
  const [value, flag, ...more] = rest.slice(marks);
  const operator = textOf(rest.slice(0, Math.max(0, marks)));
  if (!/^[~|^$*]?=$/.test(operator) || value === undefined || more.length > 0) return undefined;
  if (value.kind !== "name" && value.kind !== "string") return undefined;
  if (flag !== undefined && !(flag.kind === "name" && /^[is]$/i.test(flag.text))) return undefined;
  return {
    ...test,
    operator,
    value: value.kind === "string" ? contentOf(value) : nameIn(value),
    ignoresCase: flag?.text.toLowerCase() === "i",
  };
}
