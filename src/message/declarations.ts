/**
 * Reads those declarations that can hide text, as longhands. A declaration that browsers ignore must not undo one that hides,
 * so colours, lengths and shorthands are checked.
 */
import { parseColor } from "./color.ts";
import { formatCssTokens, parseCssDeclarations, tokenizeCss, unescapeCss, type Written } from "./css.ts";
import { PLACES } from "./ground.ts";
import type { Budget } from "./markup.ts";
import { PIXELS } from "./style.ts";

/** Declarations by property, lower case. */
export type Declarations = ReadonlyMap<string, string>;

/** A property in lower case, and its value. */
export interface Declaration {
  property: string;
  value: string;
  isImportant: boolean;
}

export const SIDES = ["top", "right", "bottom", "left"];
const COLORS = new Set(["color", "background-color", "-webkit-text-fill-color", "-webkit-text-stroke-color"]);
const LENGTHS = new Set([
  ..."font-size line-height height width max-height max-width min-height min-width letter-spacing text-indent".split(
    " ",
  ),
  ...SIDES.flatMap((side) => [side, `margin-${side}`, `padding-${side}`]),
]);
/** The properties that the rest of this file and visible.ts use. */
const READ = new Set([
  ...COLORS,
  ...LENGTHS,
  ...PLACES,
  ...(
    "display visibility opacity background background-image font position inset margin padding transform translate scale zoom clip clip-path " +
    "content-visibility filter overflow overflow-x overflow-y white-space text-decoration rotate float z-index isolation mask mask-image " +
    "mask-composite mask-mode -webkit-line-clamp -webkit-text-stroke -webkit-text-stroke-width text-shadow container container-type " +
    "container-name mix-blend-mode will-change contain -webkit-text-security all"
  ).split(" "),
]);

const LOGICAL: [flow: string, start: string, end: string][] = [
  ["inline", "left", "right"],
  ["block", "top", "bottom"],
];
const BOTH_SIDES = new Map(
  LOGICAL.flatMap(([flow, start, end]) =>
    ["margin-", "padding-", "inset-"].map((box) => {
      const before = box === "inset-" ? "" : box;
      return [box + flow, [before + start, before + end]] as const;
    }),
  ),
);
/** Other names of these properties, in text that runs from left to right. */
const ALIASES = new Map([
  ...LOGICAL.flatMap(([flow, start, end]) =>
    ["margin-", "padding-", "inset-"].flatMap((box) => [
      [`${box}${flow}-start`, box === "inset-" ? start : box + start] as const,
      [`${box}${flow}-end`, box === "inset-" ? end : box + end] as const,
    ]),
  ),
  ...["", "max-", "min-"].flatMap((most) => [
    [`${most}inline-size`, `${most}width`] as const,
    [`${most}block-size`, `${most}height`] as const,
  ]),
  ["-webkit-transform", "transform"],
  ["-ms-transform", "transform"],
  ["-webkit-filter", "filter"],
  ["-webkit-clip-path", "clip-path"],
  ["-webkit-background-clip", "background-clip"],
  ["-webkit-mask", "mask"],
  ["-webkit-mask-image", "mask-image"],
  ["-webkit-mask-composite", "mask-composite"],
  ["line-clamp", "-webkit-line-clamp"],
]);

export const canPropertyHideText = (property: string): boolean =>
  READ.has(ALIASES.get(property) ?? property) || BOTH_SIDES.has(property) || property.startsWith("--");

export const isCustomProperty = (property: string): boolean => property.startsWith("--");
/** True if a value uses custom properties, so that it has to be read again with their values. */
export const usesCustomProperties = (value: string): boolean => /\bvar\(/i.test(value);

const SMALL_NUMBER = /(?<![\w.#-])[\d.]{1,20}e-\d{1,3}/g;
const CALC_OF_ONE = /(?<![\w-])calc\( ?([+-]?[\d.]{1,20}[a-z%]{0,4}) ?\)/g;
export const MAX_VALUE = 500;
const LENGTH =
  /^(?:[+-]?0|[+-]?(?:\d+\.?\d*|\.\d+)(?:px|pt|pc|em|rem|ex|ch|in|cm|mm|q|%|v[a-z]{1,3})|auto|none|normal|(?:x{1,3}-)?(?:small|large)|medium|smaller|larger|inherit|initial|unset|revert(?:-layer)?|(?:min|max|fit)-content|.*\(.*)$/;
export const INHERITED = /^(?:inherit|unset|currentcolor|revert(?:-layer)?)$/;
export const NUMBER = /^(?:\d+\.?\d*|\.\d+)$/;
const FAMILY = String.raw`(?:"[^"]*"|'[^']*'|-?[a-z_][\w-]*(?: -?[a-z_][\w-]*)*)`;
/** font: italic bold 0/0 Arial, sans-serif */
const FONT = new RegExp(
  String.raw`^(?:(?:normal|italic|oblique|bold|bolder|lighter|small-caps|[1-9]00) )*([a-z\d.%-]+)(?: ?/ ?([a-z\d.%-]+))? ${FAMILY}(?: ?, ?${FAMILY})*$`,
);

/** The declarations that a valid one stands for; none for one that browsers ignore. `value`: lower case, spaces folded. */
export function expandToLonghands(property: string, value: string): [property: string, value: string][] {
  if (isCustomProperty(property)) return [[property, value]];
  if (GLOBAL.test(value)) return longhandNames(property).map((name) => [name, value]);
  // Longer than what the app keeps, and not worth a search.
  if (value.length > MAX_VALUE) {
    const image: [string, string][] = value.includes("gradient(") ? [["background-image", "gradient("]] : [];
    if (property === "background") return [["background-color", "transparent"], ...image];
    return property === "background-image" ? image : [];
  }
  value = value
    .replace(SMALL_NUMBER, (number) => Number(number).toFixed(6))
    .replace(CALC_OF_ONE, (_, only: string) => only);
  if (property === "font") {
    const [, size = "", line = "normal"] = FONT.exec(value) ?? [];
    return LENGTH.test(size) && isLineHeight(line)
      ? [
          ["font-size", size],
          ["line-height", line],
        ]
      : [];
  }
  if (property === "background") {
    return [
      ["background-color", colorIn(value)],
      ["background-image", value],
    ];
  }
  if (property === "mask") return [["mask-image", value]];
  if (property === "-webkit-text-stroke") {
    const width = value.split(" ").find((word) => pixels(word) !== undefined || /^(?:thin|medium|thick)$/.test(word));
    const color = value.replace(width ?? "", "").trim();
    return [
      ["-webkit-text-stroke-width", width ?? "0"],
      ...(color === "" ? [] : [["-webkit-text-stroke-color", color] as [string, string]]),
    ];
  }
  if (property === "container") {
    const [names = "", type = "normal"] = value.split("/").map((part) => part.trim());
    return [
      ["container-name", names],
      ["container-type", type],
    ];
  }
  if (property === "margin" || property === "padding" || property === "inset") {
    const prefix = property === "inset" ? "" : `${property}-`;
    const [top = "", right = top, bottom = top, left = right, ...more] = value.split(" ");
    const all = [top, right, bottom, left];
    if (more.length > 0 || !all.every((one) => LENGTH.test(one))) return [];
    return SIDES.map((side, index) => [prefix + side, all[index] as string]);
  }
  const both = BOTH_SIDES.get(property);
  if (both !== undefined) {
    const [start = "", end = start] = value.split(" ");
    return [start, end].every((one) => LENGTH.test(one))
      ? both.map((side, index) => [side, [start, end][index] as string])
      : [];
  }
  if (property === "text-indent") value = value.replace(/ (?:hanging|each-line)\b/g, "");
  const isValid = COLORS.has(property)
    ? INHERITED.test(value) || value === "initial" || parseColor(value) !== "invalid"
    : property === "line-height"
      ? isLineHeight(value)
      : !LENGTHS.has(property) || LENGTH.test(value);
  return isValid ? [[property, value]] : [];
}

export const GLOBAL = /^(?:inherit|initial|unset|revert(?:-layer)?)$/;
const SAMPLES: Readonly<Record<string, string>> = { font: "0 a", container: "a" };
/** The properties that one stands for. */
export function longhandNames(property: string): string[] {
  const longhands = GLOBAL.test(property) ? [] : expandToLonghands(property, SAMPLES[property] ?? "0");
  return longhands.length > 0 ? longhands.map(([name]) => name) : [property];
}

const isLineHeight = (value: string): boolean => LENGTH.test(value) || NUMBER.test(value);

/** The colour of a `background`. */
const colorIn = (value: string): string =>
  value
    .replace(/(?:url|[a-z-]*gradient|image|image-set)\((?:[^()]|\([^()]*\))*\)?/g, " ")
    .match(/[a-z-]+\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|[^\s]+/g)
    ?.find((word) => parseColor(word) !== "invalid") ?? "transparent";

/** The declarations of a style attribute that can hide text, in order. @throws OverBudget */
export const readDeclarations = (css: string, budget: Budget): Declaration[] =>
  longhandsIn(toTextDeclarations(parseCssDeclarations(tokenizeCss(css, budget)), budget), budget);

export function* toTextDeclarations(written: readonly Written[], budget: Budget): Generator<Declaration> {
  for (const { property, value, isImportant } of written) {
    if (!canPropertyHideText(property)) continue;
    budget.spend(10 * value.length);
    yield { property, value: unescapeCss(formatCssTokens(value)), isImportant };
  }
}

export const normalizeCssValue = (value: string): string => value.toLowerCase().replace(/\s+/g, " ").trim();

export function longhandsIn(given: Iterable<Declaration>, budget: Budget): Declaration[] {
  const declarations = new Map<string, Declaration>();
  for (const { property: named, value: text, isImportant } of given) {
    if (!canPropertyHideText(named)) continue;
    budget.spend(400 + 10 * text.length);
    const own = ALIASES.get(named) ?? named;
    const longhands: [string, string][] =
      isCustomProperty(own) || usesCustomProperties(text)
        ? [[own, text]]
        : expandToLonghands(own, normalizeCssValue(text));
    for (const [property, value] of longhands) {
      // The last one counts, and an important one is kept beside it.
      declarations.delete(`${property} ${isImportant}`);
      declarations.set(`${property} ${isImportant}`, { property, value, isImportant });
    }
  }
  return [...declarations.values()];
}

/**
 * Pixels of each unit of length. Only zero and very large values matter of percentages and of units of the window, whose sizes
 * are unknown.
 */
const PIXELS_OR_MORE: Readonly<Record<string, number>> = { ...PIXELS, "%": 8, vw: 8, vh: 8 };

/** A length in pixels; undefined if it is invalid. */
export function pixels(value: string | undefined): number | undefined {
  const match = /^([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))(px|pt|pc|em|rem|ex|ch|in|cm|mm|q|%|vw|vh)?$/.exec(
    value ?? "",
  );
  if (match === null) return undefined;
  const number = Number(match[1]);
  return number * (PIXELS_OR_MORE[match[2] ?? ""] ?? 1);
}
