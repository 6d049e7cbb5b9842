/**
 * Computes the ground behind text: a colour, or the gradients that are served (style.ts). Images count as not loaded, because
 * the app does not show those behind text.
 */
import { type Color, parseColor, WHITE } from "./color.ts";
import type { Filter } from "./colour-filter.ts";

/** The colours that a ground has somewhere lie between these two, in each channel; they are opaque. */
export type Ground = readonly [least: Color, most: Color];

export const WHITE_GROUND: Ground = [WHITE, WHITE];

/** Properties that decide where a gradient lies. */
export const PLACES = [
  "background-size",
  "background-position",
  "background-position-x",
  "background-position-y",
  "background-repeat",
  "background-clip",
];

/** Words with which a gradient covers all of its element. */
const COVERING =
  /^(?:auto|cover|center|top|right|bottom|left|repeat|no-repeat|scroll|border-box|padding-box|100%|none|initial)$/;
const GRADIENT = /(?<![\w-])(?:repeating-)?(?:linear|radial)-gradient\(((?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)/g;
/** Where a gradient runs (CSS Images 3 §3.1.1, §3.2.1): the forms that mail has. */
const COURSE =
  /^(?:to (?:top|bottom)(?: left| right)?|to (?:left|right)(?: top| bottom)?|-?(?:\d+|\d*\.\d+)(?:deg|turn)|(?:circle|ellipse)(?: at (?:center|top|bottom|left|right))?)$/;
/** A colour of a gradient, and where it stands. */
const STOP = /^(.*?)((?: (?:0|-?(?:\d+|\d*\.\d+)(?:%|px|em)))*)$/;

/** A colour on what lies behind it. */
function over([red, green, blue, alpha]: Color, [r, g, b]: Color): Color {
  const mixed = (front: number, back: number) => front * alpha + back * (1 - alpha);
  return [mixed(red, r), mixed(green, g), mixed(blue, b), 1];
}

function around(colors: readonly Color[]): Ground {
  const each = (pick: (...values: number[]) => number): Color => {
    const channel = (index: 0 | 1 | 2) => pick(...colors.map((color) => color[index]));
    return [channel(0), channel(1), channel(2), 1];
  };
  return [each(Math.min), each(Math.max)];
}

/** The parts between the commas that stand in no brackets. */
function splitAtCommas(text: string): string[] {
  const parts = [""];
  let depth = 0;
  for (const character of text) {
    if (character === "(") depth++;
    if (character === ")") depth--;
    if (character === "," && depth === 0) parts.push("");
    else parts[parts.length - 1] += character;
  }
  return parts;
}

/** True if a mask, the value of `mask` or `mask-image`, may leave nothing to see. An image of it is not loaded. */
export function mayCssMaskHideAll(mask: string): boolean {
  const alphas: number[] = [];
  let isKnown = true;
  const rest = mask.replace(GRADIENT, (_, gradient: string) => {
    const stops = parseGradientColors(gradient);
    if (stops === undefined) isKnown = false;
    else alphas.push(...stops.map(([, , , alpha]) => alpha));
    return " ";
  });
  const words = rest.match(/[^\s,/]+/g) ?? [];
  if (!isKnown || !words.every((word) => COVERING.test(word))) return true;
  return alphas.length > 0 && Math.max(...alphas) < 0.05;
}

/** The colours of a gradient, between which its other colours lie; undefined if it is of another form. */
function parseGradientColors(gradient: string): Color[] | undefined {
  const parts = splitAtCommas(gradient).map((part) => part.trim());
  if (COURSE.test(parts[0] as string)) parts.shift();
  const colors = parts.map((part) => parseColor(STOP.exec(part)?.[1] as string));
  return colors.length > 1 && colors.every((color): color is Color => Array.isArray(color)) ? colors : undefined;
}

/**
 * The ground inside an element. Values are lower case, spaces folded. `color`: its `background-color`. `image`: its
 * `background-image` or `background`. `places`: its values of PLACES. `filter`: what happens
 * to its colours. Undefined if it cannot be determined.
 */
export function computeBackground(
  outer: Ground | undefined,
  color: string | undefined,
  image: string | undefined,
  places: readonly string[],
  filter: Filter = (color) => color,
): Ground | undefined {
  const ground = colored(outer, color, filter);
  if (ground === undefined || !image?.includes("gradient(")) return ground;
  const layers: Color[][] = [];
  let isKnown = true;
  const rest = image.replace(GRADIENT, (_, gradient: string) => {
    const stops = parseGradientColors(gradient);
    if (stops) layers.unshift(stops.map(filter));
    else isKnown = false;
    return " ";
  });
  if (!isKnown || rest.includes("gradient(")) return undefined;
  const words = `${rest.replace(/url\([^()]*\)/g, " ")} ${places.join(" ")}`.match(/[a-z-]+\([^()]*\)|[^\s,/]+/g) ?? [];
  const covers = words.every((word) => COVERING.test(word) || parseColor(word) !== "invalid");
  return layers.reduce(
    (below, stops) =>
      around([...stops.flatMap((stop) => below.map((back) => over(stop, back))), ...(covers ? [] : below)]),
    ground,
  );
}

function colored(outer: Ground | undefined, value: string | undefined, filter: Filter): Ground | undefined {
  if (value === undefined || /^(?:initial|unset|inherit|revert(?:-layer)?)$/.test(value)) return outer;
  const parsed = parseColor(value);
  if (parsed === undefined || parsed === "invalid") return undefined;
  const color = filter(parsed);
  if (color[3] === 1) return [color, color];
  return color[3] === 0 || outer === undefined ? outer : [over(color, outer[0]), over(color, outer[1])];
}

/** Largest difference in each channel between colours that look alike: a contrast of 1.25 to 1 on white. */
const ALIKE = 24;

/** True if text of this colour is not told from its ground somewhere. Alpha and opacity make a difference smaller in proportion. */
export function isTextColorIndistinct(
  [red, green, blue, alpha]: Color,
  [least, most]: Ground,
  opacity: number,
): boolean {
  const difference = (value: number, index: 0 | 1 | 2) => Math.max(least[index] - value, value - most[index]);
  return Math.max(difference(red, 0), difference(green, 1), difference(blue, 2)) * alpha * opacity <= ALIKE;
}
