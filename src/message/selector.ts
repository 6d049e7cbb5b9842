/**
 * Selectors of the style sheets of mail (Selectors 4): read once, for those who ask what a rule hides (stylesheet.ts) and for
 * those who serve it (scope.ts). Nested selectors become ordinary ones here (CSS Nesting 1).
 */
import { endOfBlock, formatCssTokens, readCssTokenName, readStringToken, type Token } from "./css.ts";
import { type Budget, OverBudget } from "./markup.ts";

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
    "scope link visited any-link hover active focus focus-visible focus-within root empty first-child last-child only-child first-of-type " +
    "last-of-type only-of-type"
  ).split(" "),
);
const LOGIC = new Set("is where not has".split(" "));
/** Valid, but of no element of mail that is served. */
const OF_OTHERS =
  /^:?(?:before|after|first-line|first-letter|selection|placeholder|marker|backdrop|target|checked|disabled|enabled|required|optional|valid|invalid|default|indeterminate|read-only|read-write|host|defined|autofill|placeholder-shown|in-range|out-of-range|fullscreen|modal|popover-open|open)$|^:-(?:webkit|moz|ms)-/;
const COUNT = /^(?:odd|even|[+-]?\d{1,6}|[+-]?\d{0,6}n(?: ?[+-] ?\d{1,6})?)$/i;
const LANGUAGE = /^[a-z-]{1,35}$/i;
const ARGUMENTS = new Map([
  ...["nth-child", "nth-last-child", "nth-of-type", "nth-last-of-type"].map((name) => [name, COUNT] as const),
  ["lang", LANGUAGE],
  ["dir", LANGUAGE],
]);
/** Limit on selectors inside each other. */
const MAX_DEPTH = 4;
/** Simple selectors of one, with those that it stands in. */
const MAX_SIZE = 5_000;

/** The selector is valid, but nothing that is served could match it. */
export const UNSERVED = "unserved";

/** Where a selector stands. */
export interface SelectorContext {
  /** The simple selector that `&` stands for. */
  nesting: Simple;
  /** True in a style rule, where every selector begins at `nesting`. */
  isNested: boolean;
  /** True in `@scope`, whose selectors begin at its root. */
  isScoped: boolean;
}

const ROOT: Simple = { kind: "state", name: "root", argument: "" };
const SCOPE: Simple = { kind: "state", name: "scope", argument: "" };
const AT_SCOPE: Simple = { kind: "logic", name: "where", selectors: [[{ combinator: "", simples: [SCOPE] }]] };
/** The root of an `@scope`, for declarations that stand in no rule. */
export const SCOPE_ROOT: Selector = [{ combinator: "", simples: [AT_SCOPE] }];

/** Outside of rules, and in an `@scope`. */
export const OUTERMOST: SelectorContext = { nesting: ROOT, isNested: false, isScoped: false };
export const IN_SCOPE: SelectorContext = { nesting: AT_SCOPE, isNested: false, isScoped: true };
/** The place inside a rule with these selectors. */
export const contextInside = (selectors: readonly Selector[], { isScoped }: SelectorContext): SelectorContext => ({
  nesting: { kind: "logic", name: "is", selectors },
  isNested: true,
  isScoped,
});

type Read = Selector | typeof UNSERVED;

/**
 * The selectors of a list; undefined if browsers ignore the rule, because one of them is none. @throws OverBudget
 */
export function readSelectors(
  tokens: readonly Token[],
  budget: Budget,
  place: SelectorContext = OUTERMOST,
): Read[] | undefined {
  const reader = { place, budget, depth: 0, sees: false };
  return readList(tokens, false, (one) => readWhole(one, reader));
}

interface SelectorReader {
  place: SelectorContext;
  budget: Budget;
  depth: number;
  /** The selector names where it begins. */
  sees: boolean;
}

/** `isForgiving`: what is no selector is left out. */
function readList(
  tokens: readonly Token[],
  isForgiving: boolean,
  read: (tokens: readonly Token[]) => Read | undefined,
): Read[] | undefined {
  const selectors: Read[] = [];
  let start = 0;
  for (let at = 0; at <= tokens.length; at++) {
    const token = tokens[at];
    if (token !== undefined && (token.kind === "call" || /^[([{]$/.test(token.text))) at = endOfBlock(tokens, at);
    else if (token === undefined || token.text === ",") {
      const selector = read(tokens.slice(start, at));
      if (selector !== undefined) selectors.push(selector);
      else if (!isForgiving) return undefined;
      start = at + 1;
    }
  }
  return selectors;
}

/** A selector that stands in no other one, from where it begins. */
function readWhole(tokens: readonly Token[], reader: SelectorReader): Read | undefined {
  const { nesting, isNested, isScoped } = reader.place;
  reader.sees = false;
  const selector = readSelector(tokens, reader);
  if (selector === undefined || selector === UNSERVED) return selector;
  const isRelative = selector[0]?.combinator !== "";
  if (isRelative && !isNested && !isScoped) return undefined;
  const whole =
    (isNested || isScoped) && (isRelative || !reader.sees)
      ? joined(
          nesting,
          isRelative ? selector : [{ ...(selector[0] as Compound), combinator: " " }, ...selector.slice(1)],
        )
      : merged(selector);
  const { size } = measureSelector(whole);
  if (size > MAX_SIZE) throw new OverBudget("selectors too long");
  reader.budget.spend(50 * size);
  return whole;
}

const findOnlySelector = (simple: Simple | undefined): Selector | undefined =>
  simple?.kind === "logic" && simple.name === "is" && simple.selectors.length === 1 ? simple.selectors[0] : undefined;

/** Behind the selectors around it. */
const joined = (nesting: Simple, rest: Selector): Selector => [
  ...(findOnlySelector(nesting) ?? [{ combinator: "" as const, simples: [nesting] }]),
  ...rest,
];

/** A selector that begins with `:is()` of a single one begins with that one. */
function merged(selector: Selector): Selector {
  const [first, ...rest] = selector;
  const only = findOnlySelector(first?.simples[0]);
  const last = only?.at(-1);
  if (first === undefined || only === undefined || last === undefined || only[0]?.combinator !== "") return selector;
  const isTyped = first.simples.slice(1).some(({ kind }) => kind === "type" || kind === "any");
  if (isTyped) return selector;
  return [...only.slice(0, -1), { ...last, simples: [...last.simples, ...first.simples.slice(1)] }, ...rest];
}

interface Measure {
  /** Simple selectors. */
  size: number;
  /** Its specificity (Selectors 4 §17): a million for each id, a thousand for each class, one for each type. */
  weight: number;
}
const measures = new WeakMap<Selector, Measure>();

/** How long a selector is, and how much it weighs. */
export function measureSelector(selector: Selector): Measure {
  let found = measures.get(selector);
  if (found === undefined) {
    found = { size: 0, weight: 0 };
    for (const { simples } of selector) {
      for (const simple of simples) {
        const inner = simple.kind === "logic" ? simple.selectors.map(measureSelector) : [];
        found.size += inner.reduce((sum, { size }) => sum + size, 1);
        found.weight += simpleSelectorWeight(simple, inner);
      }
    }
    measures.set(selector, found);
  }
  return found;
}

function simpleSelectorWeight(simple: Simple, inner: readonly Measure[]): number {
  if (simple.kind === "id") return 1_000_000;
  if (simple.kind === "type") return 1;
  if (simple.kind === "any") return 0;
  if (simple.kind !== "logic") return 1_000;
  return simple.name === "where" ? 0 : Math.max(0, ...inner.map(({ weight }) => weight));
}

function readSelector(tokens: readonly Token[], reader: SelectorReader): Read | undefined {
  const { budget, depth, place } = reader;
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
      // A combinator at the beginning is relative to an element around.
      if (isEnd || (!finish() && compounds.length > 0)) return undefined;
      combinator = mark as Compound["combinator"];
      at--;
      continue;
    }
    const next = tokens[at + 1];
    if (kind === "name" && simples.length === 0)
      simples.push({ kind: "type", name: readCssTokenName(token).toLowerCase() });
    else if (text === "*" && simples.length === 0) simples.push({ kind: "any" });
    else if (text === "&" && kind === "other") {
      reader.sees = true;
      simples.push(place.nesting);
    } else if (kind === "hash") simples.push({ kind: "id", name: readCssTokenName(token) });
    else if (text === "." && next?.kind === "name") {
      simples.push({ kind: "class", name: readCssTokenName(next) });
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
      const name = readCssTokenName(named).toLowerCase();
      at += isElement ? 2 : 1;
      const end = named.kind === "call" ? endOfBlock(tokens, at) : at;
      const inside = tokens.slice(at + 1, end);
      at = end;
      if (isElement || OF_OTHERS.test(`:${name}`)) {
        if (!OF_OTHERS.test(`:${name}`)) return undefined;
        // Nothing is in such a state, which `:not()` may ask for.
        isUnserved ||= depth === 0 || isElement || name.startsWith("-");
        if (named.kind === "call") isUnserved = true;
        simples.push({ kind: "state", name, argument: "" });
      } else if (named.kind === "name" && STATES.has(name)) {
        if (name === "scope" && !place.isNested) reader.sees = true;
        simples.push(name === "scope" && !place.isScoped ? ROOT : { kind: "state", name, argument: "" });
      } else if (named.kind === "call" && ARGUMENTS.has(name)) {
        const argument = formatCssTokens(inside).trim();
        if (!ARGUMENTS.get(name)?.test(argument)) isUnserved = true;
        simples.push({ kind: "state", name, argument: `(${argument})` });
      } else if (named.kind === "call" && LOGIC.has(name)) {
        reader.depth++;
        const isForgiving = name === "is" || name === "where";
        const read = (one: readonly Token[]) => {
          const selector = readSelector(one, reader);
          return name !== "has" && typeof selector === "object" && selector[0]?.combinator !== ""
            ? undefined
            : selector;
        };
        const selectors = depth < MAX_DEPTH ? readList(inside, isForgiving, read) : [];
        reader.depth--;
        if (selectors === undefined) return undefined;
        const known = selectors.filter((one) => one !== UNSERVED);
        if (known.length === 0 || (known.length < selectors.length && name === "not")) isUnserved = true;
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
  const test = { name: readCssTokenName(name).toLowerCase(), operator: "", value: "", ignoresCase: false };
  if (rest.length === 0) return test;
  const marks = rest.findIndex(({ kind }) => kind !== "other");
  const [value, flag, ...more] = rest.slice(marks);
  const operator = formatCssTokens(rest.slice(0, Math.max(0, marks)));
  if (!/^[~|^$*]?=$/.test(operator) || value === undefined || more.length > 0) return undefined;
  if (value.kind !== "name" && value.kind !== "string") return undefined;
  if (flag !== undefined && !(flag.kind === "name" && /^[is]$/i.test(flag.text))) return undefined;
  return {
    ...test,
    operator,
    value: value.kind === "string" ? readStringToken(value) : readCssTokenName(value),
    ignoresCase: flag?.text.toLowerCase() === "i",
  };
}
