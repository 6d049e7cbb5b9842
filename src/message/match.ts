/**
 * Which elements the selectors of style sheets match (Selectors 4), and the conditions around these, as far as it can be told
 * from what comes before an element. The message's budget pays for each comparison.
 */

import { type Customs, NO_CUSTOMS, substituteCssVariables } from "./cascade.ts";
import {
  areBothTrue,
  evaluateCssCondition,
  isEitherTrue,
  LONGEST_CONDITION,
  negateTruth,
  type Truth,
} from "./condition.ts";
import { type Declarations, pixels } from "./declarations.ts";
import type { Budget } from "./markup.ts";
import type { AttributeTest, Compound, Selector, Simple } from "./selector.ts";
import type { StyleScope } from "./sheets.ts";

/** An element, with what selectors and conditions may ask of it. */
export interface Styled {
  name: string;
  attributes: Readonly<Record<string, string>>;
  classes: ReadonlySet<string>;
  parent: Styled | undefined;
  /** The sibling before it. */
  previous: Styled | undefined;
  /** Place among its siblings, from 1. */
  place: number;
  /** Its declarations as received. Empty until they are known. */
  style: Declarations;
  /** Its custom properties, inherited ones too. */
  customs: Customs;
  /** Its width in pixels, roughly. */
  width: number;
}

/**
 * Keys under which an element that the selector matches has at least one: a type, an id behind `#`, a class behind a dot, or
 * `*`.
 */
export function listMatchKeys(selector: Selector): string[] {
  const classes: string[][] = [];
  const others: string[][] = [];
  for (const simple of selector.at(-1)?.simples ?? []) {
    if (simple.kind === "id") return [`#${simple.name}`];
    if (simple.kind === "class") classes.push([`.${simple.name}`]);
    else if (simple.kind === "type") others.push([simple.name]);
    else if (simple.kind === "logic" && (simple.name === "is" || simple.name === "where")) {
      others.push([...new Set(simple.selectors.flatMap(listMatchKeys))]);
    }
  }
  return [...classes, ...others].find((all) => !all.includes("*")) ?? ["*"];
}

/**
 * How far an element is from the root of the scope in which a selector matches it; infinity outside of scopes. Undefined if it does
 * not. Where something about it cannot be told, it counts as met, because otherwise it would evade the check.
 */
export function findScopeDistance(
  scope: StyleScope | undefined,
  selector: Selector,
  element: Styled,
  budget: Budget,
): number | undefined {
  if (scope === undefined)
    return isMatch(selector, element, undefined, budget) === false ? undefined : Number.POSITIVE_INFINITY;
  let distance = 0;
  for (let root: Styled | undefined = element; root !== undefined; root = root.parent, distance++) {
    if (isRoot(scope, root, element, budget) && isMatch(selector, element, root, budget) !== false) return distance;
  }
  return undefined;
}

/** True if the element is in the scope of this root. */
function isRoot({ starts, ends, outer }: StyleScope, root: Styled, element: Styled, budget: Budget): boolean {
  if (!starts.some((start) => findScopeDistance(outer, start, root, budget) !== undefined)) return false;
  for (let at: Styled | undefined = element; at !== undefined && at !== root; at = at.parent) {
    const limit = at;
    if (ends.some((end) => isMatch(end, limit, root, budget))) return false;
  }
  return true;
}

/** True if a selector matches an element; undefined if that depends on what comes behind it. `scope`: its root. */
function isMatch(selector: Selector, element: Styled, scope: Styled | undefined, budget: Budget): Truth {
  return isMatchTo(selector, selector.length - 1, element, scope, budget);
}

/**
 * True if the compounds of a selector up to `index` match, with the element as the last of them. Undefined if that depends on
 * what comes behind the element.
 */
function isMatchTo(
  selector: Selector,
  index: number,
  element: Styled,
  scope: Styled | undefined,
  budget: Budget,
): Truth {
  const { combinator, simples } = selector[index] as Compound;
  let fits: Truth = true;
  for (const simple of simples) {
    fits = areBothTrue(fits, isOne(simple, element, scope, budget));
    if (fits === false) return false;
  }
  if (index === 0) return fits;
  const isUp = combinator === " " || combinator === ">";
  const isNear = combinator === ">" || combinator === "+";
  // Where only ancestors count, what fits none of those of the nearest fits no other.
  const isPlain = combinator === " " && selector.slice(1, index).every((one) => one.combinator === " ");
  let found: Truth = false;
  for (let at = isUp ? element.parent : element.previous; at !== undefined; at = isUp ? at.parent : at.previous) {
    budget.spend(10);
    const outer = isMatchTo(selector, index - 1, at, scope, budget);
    found = isEitherTrue(found, outer);
    if (found === true || isNear) break;
    if (isPlain && index > 1 && outer === false && isCompound(selector, index - 1, at, scope, budget)) break;
  }
  return areBothTrue(fits, found);
}

const isCompound = (
  selector: Selector,
  index: number,
  element: Styled,
  scope: Styled | undefined,
  budget: Budget,
): boolean => selector[index]?.simples.every((simple) => isOne(simple, element, scope, budget)) ?? false;

function isOne(simple: Simple, element: Styled, scope: Styled | undefined, budget: Budget): Truth {
  budget.spend(10);
  const { name, attributes, classes } = element;
  switch (simple.kind) {
    case "type":
      return simple.name === name;
    case "id":
      return simple.name === attributes.id;
    case "class":
      return classes.has(simple.name);
    case "attribute":
      return hasAttribute(attributes, simple.test, budget);
    case "state":
      return isIn(simple, element, scope, budget);
    case "logic": {
      if (simple.name === "has") return undefined;
      let found: Truth = false;
      for (const one of simple.selectors) {
        found = isEitherTrue(found, isMatch(one, element, scope, budget));
        if (found === true) break;
      }
      return simple.name === "not" ? negateTruth(found) : found;
    }
    default:
      return true;
  }
}

/** True if an element is in a state, as it is before its reader does anything. */
function isIn(
  { name, argument }: Extract<Simple, { kind: "state" }>,
  element: Styled,
  scope: Styled | undefined,
  budget: Budget,
): Truth {
  const { attributes, place, previous } = element;
  switch (name) {
    case "scope":
      return element === scope;
    case "root":
      return element.name === "html";
    case "link":
    case "any-link":
      return element.name === "a" && attributes.href !== undefined;
    case "first-child":
      return place === 1;
    case "only-child":
      return place > 1 ? false : undefined;
    case "nth-child":
      return isCounted(argument, place);
    case "first-of-type":
    case "only-of-type":
    case "nth-of-type": {
      let count = 1;
      for (let at = previous; at !== undefined; at = at.previous) {
        budget.spend(5);
        if (at.name === element.name) count++;
      }
      if (name === "nth-of-type") return isCounted(argument, count);
      return count > 1 ? false : name === "first-of-type" || undefined;
    }
    case "lang": {
      const wanted = argument.slice(1, -1).toLowerCase();
      for (let at: Styled | undefined = element; at !== undefined; at = at.parent) {
        budget.spend(5);
        const lang = at.attributes.lang?.toLowerCase();
        if (lang !== undefined) return lang === wanted || lang.startsWith(`${wanted}-`);
      }
      return false;
    }
    case "empty":
    case "last-child":
    case "last-of-type":
    case "nth-last-child":
    case "nth-last-of-type":
    case "dir":
    case "open":
      return undefined;
    default:
      return false;
  }
}

/** True if a number is one of those that `(2n+1)` and its like mean (CSS Syntax 3 §6). */
function isCounted(argument: string, place: number): Truth {
  const text = argument.slice(1, -1).replace(/\s/g, "").toLowerCase();
  const [, step, offset] = /^([+-]?\d*)n([+-]\d+)?$/.exec(text.replace("odd", "2n+1").replace("even", "2n")) ?? [];
  if (step === undefined) return Number(text) === place;
  const each = step === "" || step === "+" ? 1 : step === "-" ? -1 : Number(step);
  const least = Number(offset ?? 0);
  return each === 0 ? place === least : (place - least) % each === 0 && (place - least) / each >= 0;
}

/** True unless an `@container` says otherwise of the containers around an element. */
export function isContainerConditionMet(condition: string, element: Styled, budget: Budget): boolean {
  if (condition.length > LONGEST_CONDITION) return true;
  const [, name, query = ""] = /^(?:(?!not\b|and\b|or\b|style\()([\w-]+)(?![\w-]*\())?\s*(.*)$/s.exec(condition) ?? [];
  const isNamed = ({ style }: Styled): boolean =>
    name === undefined || (style.get("container-name")?.split(" ") ?? []).includes(name.toLowerCase());
  function around(fits: (one: Styled) => boolean): Styled | undefined {
    for (let at = element.parent; at !== undefined; at = at.parent) {
      budget.spend(10);
      if (fits(at) && isNamed(at)) return at;
    }
    return undefined;
  }
  if (query === "") return around(() => true) !== undefined;
  const sized = around(({ style }) => /size/.test(style.get("container-type") ?? ""));
  // Without a container that it may ask, a condition is not met, whatever it negates.
  let isAsked = true;
  const ask = (container: Styled | undefined): Styled | undefined => {
    isAsked &&= container !== undefined;
    return container;
  };
  const truth = evaluateCssCondition(query, (feature, call) => {
    budget.spend(20 * feature.length);
    if (call === "style") return hasStyle(feature, ask(around(() => true)), budget);
    if (call !== "") return undefined;
    if (ask(sized) === undefined || sized === undefined) return false;
    return hasWidth(feature.toLowerCase().replace(/\s+/g, " ").trim(), sized.width);
  });
  return isAsked && (truth ?? true);
}

function hasStyle(feature: string, container: Styled | undefined, budget: Budget): Truth {
  const [, name, wanted] = /^\s*(--[^\s:]+)\s*(?::([\s\S]*))?$/.exec(feature) ?? [];
  if (name === undefined) return undefined;
  const value = container?.customs.get(name);
  if (wanted === undefined || value === undefined) return value !== undefined;
  const given = substituteCssVariables(wanted, container?.customs ?? NO_CUSTOMS, budget) ?? "";
  return given.trim().replace(/\s+/g, " ") === value.trim().replace(/\s+/g, " ");
}

const WIDTH_FEATURE =
  /^(?:(min-|max-)?(?:width|inline-size) ?: ?(\S+)|(?:(\S+) ?([<>]=?) ?)?(?:width|inline-size)(?: ?([<>]=?|=) ?(\S+))?)$/;

function hasWidth(feature: string, width: number): Truth {
  const [, bound, single, least, sign, other, most] = WIDTH_FEATURE.exec(feature) ?? [];
  const compare = (one: number | undefined, how: string | undefined, two: number | undefined): Truth => {
    if (one === undefined || two === undefined) return undefined;
    if (how?.startsWith("<")) return how === "<" ? one < two : one <= two;
    if (how?.startsWith(">")) return how === ">" ? one > two : one >= two;
    return one === two;
  };
  if (single !== undefined)
    return compare(width, bound === "min-" ? ">=" : bound === "max-" ? "<=" : "=", pixels(single));
  if (sign === undefined && other === undefined) return /width|inline-size/.test(feature) ? width > 0 : undefined;
  return areBothTrue(
    sign === undefined ? true : compare(pixels(least), sign, width),
    other === undefined ? true : compare(width, other, pixels(most)),
  );
}

/** True if an element has an attribute that a selector asks for. @throws OverBudget */
export function hasAttribute(
  attributes: Readonly<Record<string, string>>,
  { name, operator, value: given, ignoresCase }: AttributeTest,
  budget: Budget,
): boolean {
  budget.spend(10);
  if (!Object.hasOwn(attributes, name)) return false;
  if (operator === "") return true;
  const written = attributes[name] ?? "";
  budget.spend(operator === "~=" ? 4 * written.length : (written.length + given.length) / 4);
  const [actual, value] = ignoresCase ? [written.toLowerCase(), given.toLowerCase()] : [written, given];
  switch (operator) {
    case "~=":
      return value !== "" && actual.split(/\s+/).includes(value);
    case "^=":
      return value !== "" && actual.startsWith(value);
    case "$=":
      return value !== "" && actual.endsWith(value);
    case "*=":
      return value !== "" && actual.includes(value);
    case "|=":
      return actual === value || actual.startsWith(`${value}-`);
    default:
      return actual === value;
  }
}
