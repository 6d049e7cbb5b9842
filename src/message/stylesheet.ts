/**
 * Finds the declarations of an element in the style sheets of a mail, in the order in which they override each other, and serves
 * declarations (style.ts) so that what they hide stays hidden. The message's budget pays for each comparison: a sheet that exceeds
 * it is an attempt to evade the check.
 */
import { type Customs, cascadeCssDeclarations, type Matched, NO_CUSTOMS } from "./cascade.ts";
import type { Written } from "./css.ts";
import {
  canPropertyHideText,
  type Declaration,
  type Declarations,
  GLOBAL,
  isCustomProperty,
  longhandsIn,
  toTextDeclarations,
} from "./declarations.ts";
import {
  hasNegativeZIndex,
  hidesAll,
  isCssPositioned,
  isPlacedOutOfSight,
  isTransformedOutOfSight,
  MOVING,
  PLACING,
} from "./hiding.ts";
import type { Budget } from "./markup.ts";
import { findScopeDistance, isContainerConditionMet, listMatchKeys, type Styled } from "./match.ts";
import { measureSelector, type Selector } from "./selector.ts";
import { readStyleSheets, type Sheets, type StyleRule } from "./sheets.ts";
import { sanitizeDeclaration } from "./style.ts";

/** A rule with one of its selectors. */
interface Choice {
  selector: Selector;
  weight: number;
  block: Block;
}

/** The declarations of a rule, parsed at the first match: as received, and as served. */
interface Block {
  rule: StyleRule;
  declarations?: readonly [received: readonly Declaration[], shown: readonly Declaration[]];
}

/** Finds what the sheets declare for an element. @throws OverBudget */
export type Sheet = (element: Styled) => readonly Matched[];

/** Reads the sheets of a mail; undefined if no rule in them could hide something. @throws OverBudget */
export function readHidingStyleSheets(html: string, budget: Budget): Sheet | undefined {
  const choices: Choice[] = [];
  const byKey = new Map<string, number[]>();
  for (const rule of readStyleSheets(html, budget).rules) {
    if (rule.isElsewhere || !rule.declarations.some(({ property }) => canPropertyHideText(property))) continue;
    const block: Block = { rule };
    for (const selector of rule.selectors) {
      const index = choices.push({ selector, weight: measureSelector(selector).weight, block }) - 1;
      for (const key of listMatchKeys(selector)) {
        const indexes = byKey.get(key) ?? [];
        byKey.set(key, indexes);
        indexes.push(index);
      }
    }
  }
  if (choices.length === 0) return undefined;
  const hiding = findHidingDeclarations(html, budget);
  return (element) => {
    const found = [byKey.get("*"), byKey.get(element.name), byKey.get(`#${element.attributes.id ?? ""}`)];
    for (const name of element.classes) found.push(byKey.get(`.${name}`));
    budget.spend(10 * found.length);
    const lists = found.filter((list) => list !== undefined);
    const indexes = lists.length > 1 ? new Set(lists.flat()) : (lists[0] ?? []);
    const matched: (Choice & { index: number; distance: number })[] = [];
    for (const index of indexes) {
      budget.spend(50);
      const choice = choices[index] as Choice;
      const { scope, containers } = choice.block.rule;
      const distance = findScopeDistance(scope, choice.selector, element, budget);
      if (distance === undefined || !containers.every((one) => isContainerConditionMet(one, element, budget))) continue;
      const { selector, weight, block } = choice;
      matched.push({ selector, weight, block, index, distance });
    }
    budget.spend(100 * matched.length);
    const layerOrder = ({ block }: Choice): number => block.rule.layer?.order ?? Number.POSITIVE_INFINITY;
    // Infinity less infinity is no number.
    const byLayer = (one: Choice, other: Choice): number =>
      layerOrder(one) === layerOrder(other) ? 0 : layerOrder(one) - layerOrder(other);
    return matched
      .sort(
        (one, other) =>
          byLayer(one, other) || one.weight - other.weight || other.distance - one.distance || one.index - other.index,
      )
      .map((choice) => {
        choice.block.declarations ??= listRuleDeclarations(choice.block.rule, hiding, budget);
        return { declarations: choice.block.declarations, layer: layerOrder(choice) };
      });
  };
}

function listRuleDeclarations(
  { declarations, around }: StyleRule,
  hiding: Hiding,
  budget: Budget,
): NonNullable<Block["declarations"]> {
  const received = longhandsIn(toTextDeclarations(declarations, budget), budget);
  return [
    received,
    around === undefined ? [] : longhandsIn(serve(declarations, received, budget, { ofRule: true, hiding }), budget),
  ];
}

/** Audience of declarations, and the place where they stand. */
export interface Serving {
  /** The declarations are those of a rule: other rules may position its elements. */
  ofRule?: boolean;
  /** The mail leaves. */
  isSent?: boolean;
  hiding?: Hiding;
}

/** Declarations in the sheets of a mail that hide something anywhere, in a way that other declarations undo. */
export interface Hiding {
  /** Properties that are not served but where they hide, or undo what hides. */
  properties: ReadonlySet<string>;
  customs: Customs;
}
export const NOTHING_HIDES: Hiding = { properties: new Set(), customs: NO_CUSTOMS };

const MOVED = new Map([
  ["transform", "scale(0)"],
  ["translate", "-9999px"],
  ["scale", "0"],
  ["rotate", "x 90deg"],
]);

const CONCEALING = /transform$|^(?:position|translate|scale|rotate|clip|z-index|inset.*|top|right|bottom|left)$/;
const IN_ATTRIBUTES =
  /(?<![\w-])(?:(top|right|bottom|left)\s*:\s*-?[\d.]{2}|(clip)\s*:\s*rect|(transform|translate|scale|rotate)\s*:|(z-index)\s*:\s*-|(position)\s*:\s*[afrs\\])/gi;
const hidings = new WeakMap<Sheets, Hiding>();

/** Finds the declarations in the sheets of HTML that hide something. @throws OverBudget */
export function findHidingDeclarations(html: string, budget: Budget): Hiding {
  const sheets = readStyleSheets(html, budget);
  const known = hidings.get(sheets);
  if (known !== undefined) return known;
  const properties = new Set<string>();
  const customs = new Map<string, string>();
  const add = (names: readonly string[]) => {
    for (const name of names) properties.add(name);
  };
  const moving: Declaration[][] = [];
  for (const { declarations } of sheets.rules) {
    budget.spend(20);
    const isMoving = declarations.some(({ property }) => CONCEALING.test(property));
    if (!isMoving && !declarations.some(({ property }) => isCustomProperty(property))) continue;
    const read = longhandsIn(toTextDeclarations(declarations, budget), budget);
    for (const { property, value } of read) if (isCustomProperty(property)) customs.set(property, value);
    if (isMoving) moving.push(read);
  }
  for (const read of moving) {
    const style = computeStyle(read, customs, budget);
    add(PLACING.filter((property) => isPlacedOutOfSight(property, style.get(property))));
    add(MOVING.filter((property) => isTransformedOutOfSight(property, style.get(property))));
    if (hasNegativeZIndex(style)) add(["z-index"]);
    if (isCssPositioned(style)) add(["position"]);
  }
  // What attributes hide is undone in sheets. That something else reads so does no harm.
  budget.spend(html.length);
  for (const [, ...names] of html.matchAll(IN_ATTRIBUTES)) {
    const name = names.find(Boolean)?.toLowerCase() ?? "";
    if (sheets.rules.length > 0 || name === "z-index") properties.add(name);
  }
  const hiding = { properties, customs };
  hidings.set(sheets, hiding);
  return hiding;
}

const computeStyle = (declarations: readonly Declaration[], customs: Customs, budget: Budget): Map<string, string> =>
  cascadeCssDeclarations(
    [],
    declarations.filter(({ property }) => !isCustomProperty(property)),
    0,
    customs,
    budget,
  ).style;

/**
 * Declarations as they are served (style.ts), separated by semicolons. A declaration that hides an element, and is not served,
 * is replaced by one that is.
 * @throws OverBudget
 */
export function sanitizeDeclarations(written: readonly Written[], budget: Budget, serving: Serving = {}): string {
  const received = longhandsIn(toTextDeclarations(written, budget), budget);
  return serve(written, received, budget, serving)
    .map(({ property, value, isImportant }) => `${property}:${value}${isImportant ? "!important" : ""}`)
    .join(";");
}

/** `received`: what can hide of these declarations. */
function serve(
  written: readonly Written[],
  received: readonly Declaration[],
  budget: Budget,
  { ofRule = false, isSent = false, hiding = NOTHING_HIDES }: Serving,
): Declaration[] {
  const result: Declaration[] = [];
  let isWhole = true;
  for (const { property, value, isImportant } of written) {
    budget.spend(100 + 20 * value.length);
    const declarations = sanitizeDeclaration(property, value, isSent);
    isWhole &&= declarations.length > 0;
    for (const [property, value] of declarations) result.push({ property, value, isImportant });
  }
  if (isWhole || received.length === 0) return result;
  for (const isImportant of [false, true]) {
    const style = computeStyle(
      received.filter((one) => one.isImportant === isImportant),
      hiding.customs,
      budget,
    );
    for (const [property, value] of concealed(style, hiding.properties)) result.push({ property, value, isImportant });
  }
  const style = computeStyle(received, hiding.customs, budget);
  if (ofRule && !style.has("position") && hiding.properties.has("position")) style.set("position", "absolute");
  if (!hidesAll(style) || hidesAll(computeStyle(longhandsIn(result, budget), hiding.customs, budget))) return result;
  return [...result, { property: "display", value: "none", isImportant: true }];
}

/** Declarations that hide in the place of those of a rule that are not served, in a mail where such ones hide. */
function concealed(style: Declarations, hiding: Hiding["properties"]): [property: string, value: string][] {
  const found: [string, string][] = [];
  for (const property of MOVING) {
    const value = style.get(property);
    if (isTransformedOutOfSight(property, value)) found.push([property, MOVED.get(property) as string]);
    else if (value !== undefined && hiding.has(property)) found.push([property, "none"]);
  }
  const position = style.get("position");
  const places = PLACING.filter((property) => hiding.has(property));
  const isStatic = position === "static" || GLOBAL.test(position ?? "");
  const isUndone = places.length > 0 && (isStatic || places.every((property) => style.has(property)));
  // Without sheets, nothing undoes it.
  if (hiding.size === 0) return found;
  const isPlacedThere = position === undefined ? hiding.has("position") : !isStatic && position !== "sticky";
  if (isPlacedThere && PLACING.some((property) => isPlacedOutOfSight(property, style.get(property)))) {
    // Out of the flow, and cut off: so it lies over nothing.
    found.push(["position", "absolute"], ["clip", "rect(0,0,0,0)"]);
  } else if (isUndone) found.push(["position", isStatic ? "static" : "relative"]);
  else if (position !== undefined && hiding.has("z-index") && (places.length === 0 || hasNegativeZIndex(style)))
    found.push(["position", isStatic ? "static" : "relative"]);
  if (hiding.has("z-index") && style.has("z-index")) {
    const isPicture = /^[+-]?\d/.test(style.get("z-index") ?? "");
    found.push(["z-index", hasNegativeZIndex(style) ? "-1" : isPicture ? "0" : "auto"]);
  }
  return found;
}
