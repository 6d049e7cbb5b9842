/** Which of the declarations for an element count (CSS Cascade 6), with the values of custom properties (CSS Variables 1). */

import {
  type Declaration,
  expandToLonghands,
  GLOBAL,
  isCustomProperty,
  longhandNames,
  MAX_VALUE,
  normalizeCssValue,
  usesCustomProperties,
} from "./declarations.ts";
import type { Budget } from "./markup.ts";

/** Values by name, of which the case counts. */
export type Customs = ReadonlyMap<string, string>;
export const NO_CUSTOMS: Customs = new Map();

/** The declarations that apply to an element, those that override others last, and the layer that they are of. */
export interface Matched {
  declarations: readonly [received: readonly Declaration[], shown: readonly Declaration[]];
  layer: number;
}

/** Values inside of each other. */
const MAX_DEPTH = 20;

/** A value with those of the custom properties in it; undefined if one has none. @throws OverBudget */
export function substituteCssVariables(value: string, customs: Customs, budget: Budget, depth = 0): string | undefined {
  let text = "";
  let rest = value;
  for (let at = rest.search(/\bvar\(/i); at >= 0; at = rest.search(/\bvar\(/i)) {
    budget.spend(50 + rest.length);
    if (depth > MAX_DEPTH) return undefined;
    const [inner, behind] = splitAtClosingBracket(rest.slice(at + 4));
    const comma = inner.indexOf(",");
    const name = (comma < 0 ? inner : inner.slice(0, comma)).trim();
    const given = customs.get(name) ?? (comma < 0 ? undefined : inner.slice(comma + 1));
    const one = given === undefined ? undefined : substituteCssVariables(given, customs, budget, depth + 1);
    if (one === undefined || text.length + one.length > MAX_VALUE) return undefined;
    text += `${rest.slice(0, at)}${one}`;
    rest = behind;
  }
  return text + rest;
}

/** Splits text at the bracket that closes a call: into the call's argument, and the text behind it. */
function splitAtClosingBracket(text: string): [inner: string, behind: string] {
  let depth = 1;
  for (let at = 0; at < text.length; at++) {
    if (text[at] === "(") depth++;
    else if (text[at] === ")" && --depth === 0) return [text.slice(0, at), text.slice(at + 1)];
  }
  return [text, ""];
}

/** The values that hold for an element after all declarations overrode each other, and its custom properties. */
export interface Cascaded {
  style: Map<string, string>;
  customs: Customs;
}

/**
 * Lets declarations override each other. `own`: of its style attribute; `reading`: which declarations of the sheets count; `outer`:
 * the custom properties around it. @throws OverBudget
 */
export function cascadeCssDeclarations(
  matched: readonly Matched[],
  own: readonly Declaration[],
  reading: 0 | 1,
  outer: Customs,
  budget: Budget,
): Cascaded {
  const ofSheets = matched.map(({ declarations, layer }) => ({ list: declarations[reading], layer }));
  const attribute = { list: own, layer: Number.NaN };
  const sides = [
    { isImportant: false, lists: [...ofSheets, attribute] },
    // Of layers, the first one is the strongest.
    {
      isImportant: true,
      lists: [
        ...ofSheets.toSorted((one, other) => (one.layer < other.layer ? 1 : one.layer > other.layer ? -1 : 0)),
        attribute,
      ],
    },
  ];
  const customs = computeCustomProperties(
    sides.flatMap(({ isImportant, lists }) =>
      lists.flatMap(({ list }) =>
        list.filter((one) => one.isImportant === isImportant && isCustomProperty(one.property)),
      ),
    ),
    outer,
    budget,
  );
  const style = new Map<string, string>();
  for (const { isImportant, lists } of sides) {
    let below = new Map<string, string>();
    let layer: number | undefined;
    for (const one of lists) {
      if (one.layer !== layer) {
        budget.spend(10 * style.size);
        below = new Map(style);
        layer = one.layer;
      }
      for (const declaration of one.list) {
        if (declaration.isImportant !== isImportant || isCustomProperty(declaration.property)) continue;
        // Several regular expressions will scan the value.
        budget.spend(20 + declaration.value.length);
        for (const [property, value] of computeLonghands(declaration, customs, budget)) {
          if (property === "all") {
            resetAll(style, value);
            continue;
          }
          const given = value === "revert-layer" ? below.get(property) : value === "revert" ? undefined : value;
          if (given === undefined) style.delete(property);
          else style.set(property, given);
        }
      }
    }
  }
  return { style, customs };
}

/** Applies a declaration of `all`, which gives every other property the same value. */
function resetAll(style: Map<string, string>, value: string): void {
  style.clear();
  if (value === "initial")
    for (const [property, initial] of [
      ["color", "initial"],
      ["visibility", "visible"],
      ["font-size", "medium"],
    ] as const)
      style.set(property, initial);
  if (value === "initial" || value === "unset") style.set("display", "inline");
}

/** The longhands of a declaration. One that is invalid with the values of custom properties counts as unset. */
function computeLonghands({ property, value }: Declaration, customs: Customs, budget: Budget): [string, string][] {
  if (!usesCustomProperties(value)) return [[property, value]];
  const text = substituteCssVariables(value, customs, budget);
  const longhands = text === undefined ? [] : expandToLonghands(property, normalizeCssValue(text));
  return longhands.length > 0 ? longhands : longhandNames(property).map((name) => [name, "unset"]);
}

function computeCustomProperties(declarations: readonly Declaration[], outer: Customs, budget: Budget): Customs {
  if (declarations.length === 0) return outer;
  budget.spend(10 * (declarations.length + outer.size));
  const given = new Map(outer);
  for (const { property, value } of declarations) {
    const text = value.trim();
    const inherited = /^(?:inherit|unset|revert(?:-layer)?)$/i.test(text) ? outer.get(property) : undefined;
    if (inherited !== undefined) given.set(property, inherited);
    else if (GLOBAL.test(text.toLowerCase())) given.delete(property);
    else given.set(property, text);
  }
  const customs = new Map<string, string>();
  for (const [name, value] of given) {
    const text = usesCustomProperties(value) ? substituteCssVariables(value, given, budget) : value;
    if (text !== undefined && text.length <= MAX_VALUE) customs.set(name, text);
  }
  return customs;
}
