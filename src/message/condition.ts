/**
 * Conditions of `@supports` and `@container` (CSS Conditional 3 §2, CSS Conditional 5 §5), as far as they can be told without a
 * browser. Linear time but for the depth of brackets, which is bounded.
 */
import { parseCssDeclarations, tokenizeCss } from "./css.ts";
import type { Budget } from "./markup.ts";
import { readSelectors } from "./selector.ts";
import { sanitizeDeclaration } from "./style.ts";

/** True, false, or undefined if it cannot be told. */
export type Truth = boolean | undefined;

export const negateTruth = (truth: Truth): Truth => (truth === undefined ? undefined : !truth);
export const areBothTrue = (one: Truth, other: Truth): Truth =>
  one === false || other === false ? false : one === undefined || other === undefined ? undefined : true;
export const isEitherTrue = (one: Truth, other: Truth): Truth =>
  negateTruth(areBothTrue(negateTruth(one), negateTruth(other)));

const MAX_DEPTH = 10;
/** Limit on the length of a condition, in characters. */
export const LONGEST_CONDITION = 500;

/** `test`: a feature, as it stands in brackets, and the function that they belong to, "" for none. */
export type Test = (feature: string, call: string) => Truth;

/** The truth of a condition. */
export function evaluateCssCondition(condition: string, test: Test, call = "", depth = 0): Truth {
  if (depth > MAX_DEPTH || condition.length > LONGEST_CONDITION) return undefined;
  const units = splitConditionUnits(condition);
  if (units === undefined) return test(condition, call);
  let truth: Truth;
  let isNext = true;
  let joint = "";
  let isNegated = false;
  for (const { word, inner } of units) {
    if (inner === undefined) {
      if (word === "not") isNegated = true;
      else if (!isNext && (word === "and" || word === "or")) [joint, isNext] = [word, true];
      else return undefined;
      continue;
    }
    if (!isNext) return undefined;
    const one = evaluateCssCondition(inner, test, word === "" ? call : word, depth + 1);
    const value = isNegated ? negateTruth(one) : one;
    truth = joint === "" ? value : joint === "and" ? areBothTrue(truth, value) : isEitherTrue(truth, value);
    [isNext, isNegated] = [false, false];
  }
  return isNext ? undefined : truth;
}

/** The words and brackets of a condition, these with the word before; undefined if it is a single feature. */
function splitConditionUnits(condition: string): { word: string; inner?: string }[] | undefined {
  const units: { word: string; inner?: string }[] = [];
  let rest = condition.trim();
  while (rest !== "") {
    const word = /^[a-z-]*/i.exec(rest)?.[0] ?? "";
    if (rest[word.length] === "(") {
      const end = findClosingBracket(rest, word.length);
      units.push({ word: word.toLowerCase(), inner: rest.slice(word.length + 1, end) });
      rest = rest.slice(end + 1).trimStart();
    } else if (/^(?:not|and|or)$/i.test(word)) {
      units.push({ word: word.toLowerCase() });
      rest = rest.slice(word.length).trimStart();
    } else return undefined;
  }
  return units.some(({ inner }) => inner !== undefined) ? units : undefined;
}

function findClosingBracket(text: string, open: number): number {
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    if (text[at] === "(") depth++;
    else if (text[at] === ")" && --depth === 0) return at;
  }
  return text.length;
}

/** Properties of which no value is served, and that browsers know. */
const OTHERS =
  /^(?:--.*|(?:-webkit-)?(?:animation|transition|appearance|backdrop-filter|user-select|mask|border-image|columns?|perspective|hyphens)(?:-[a-z-]+)?|grid(?:-[a-z-]+)?|position|inset|top|right|bottom|left|z-index|transform(?:-[a-z]+)?|translate|scale|rotate|content|cursor|pointer-events|will-change|contain|aspect-ratio|mix-blend-mode|isolation|object-position|order|place-[a-z]+|scroll-[a-z-]+|accent-color|text-wrap|initial-letter|shape-outside|writing-mode|background-attachment|background-blend-mode|list-style-image|font-variation-settings|font-feature-settings|counter-[a-z]+|quotes|resize|tab-size|all)$/;

/** True if browsers support what an `@supports` asks for, or it cannot be told. @throws OverBudget */
export const isCssFeatureSupported = (condition: string, budget: Budget): boolean =>
  evaluateCssCondition(condition, (feature, call) => {
    budget.spend(100 + 50 * feature.length);
    if (call === "selector") return readSelectors(tokenizeCss(feature, budget), budget) !== undefined;
    if (call !== "") return undefined;
    const [declaration, ...more] = parseCssDeclarations(tokenizeCss(feature, budget));
    if (declaration === undefined || more.length > 0) return false;
    const { property, value } = declaration;
    if (sanitizeDeclaration(property, value).length > 0) return true;
    return OTHERS.test(property);
  }) ?? true;
