/**
 * Decides whether declarations hide all that is inside of their element. If that cannot be determined, the content counts as
 * hidden.
 */

import { parseColorFilter } from "./colour-filter.ts";
import { type Declarations, GLOBAL, pixels, SIDES } from "./declarations.ts";
import { mayCssMaskHideAll } from "./ground.ts";

/** Smallest readable type, in pixels. */
export const SMALLEST_TYPE = 2;
/** Distances beyond any window, in pixels. */
const OFF_SCREEN = 500;
export const FAR_OFF_SCREEN = 2_000;

/** Less than a tenth of the size. */
export const NOTHING = /^(?=[\d.])(?:0*(?:\.0\d*)?|\d(?:\.\d*)?%|\de-\d+)(?:\s|$)/;

/** Properties each of which alone moves an element out of sight, or makes it flat. */
export const MOVING = ["transform", "translate", "scale", "rotate"];

/** Properties that, with `position`, put an element out of sight. */
export const PLACING = [...SIDES, "clip"];
export const isPlacedOutOfSight = (property: string, value: string | undefined): boolean =>
  property === "clip" ? isCutOff(value) : isFar(value);

export const hasNegativeZIndex = (style: Declarations): boolean => /^-[1-9]/.test(style.get("z-index") ?? "");

function isFar(value: string | undefined): boolean {
  const place = pixels(value) ?? 0;
  return place <= -OFF_SCREEN || place >= FAR_OFF_SCREEN;
}

/** How an element stands in the page. */
export interface Standing {
  /** The element has no box of its own, whose size or place could hide it. */
  isInline?: boolean;
  /** Its ground is that of the whole page. */
  isPage?: boolean;
}

/** Sizes of what is inside of these do not hide it: they grow. */
export const hasTableDisplay = (style: Declarations): boolean => /^table(?!-caption)/.test(style.get("display") ?? "");

/** True if everything inside the element is invisible, whatever its descendants declare. */
export function hidesAll(style: Declarations, { isInline = false }: Standing = {}): boolean {
  const is = (property: string, pattern: RegExp) => pattern.test(style.get(property) ?? "");
  const size = (property: string) => pixels(style.get(property));
  if (is("display", /^(?:none|table-column(?:-group)?)$/)) return true;
  if (is("display", /^contents$/)) return false;
  const filter = parseColorFilter(givenStyleValue(style, "filter"));
  return (
    readOpacity(style) * (filter === "hidden" ? 0 : filter.opacity) < 0.05 ||
    isMaskedOut(style) ||
    is("-webkit-text-security", /^(?:disc|circle|square)$/) ||
    is("zoom", NOTHING) ||
    (size("letter-spacing") ?? 0) <= -SMALLEST_TYPE * 4 ||
    isStruckOut(style.get("text-decoration") ?? "") ||
    isOffScreen(style) ||
    isClipped(style) ||
    (!isInline &&
      (is("content-visibility", /^hidden$/) ||
        (clipsOverflow(style) &&
          !hasTableDisplay(style) &&
          Math.min(visibleExtent(style, "height"), visibleExtent(style, "width")) <= 1) ||
        (size("text-indent") ?? 0) <= -OFF_SCREEN / 2 ||
        // All of its one line lies behind its end.
        (clipsOverflow(style) && is("text-indent", /^\d{3,}(?:\.\d*)?%$/) && is("white-space", /^(?:nowrap|pre)$/)) ||
        MOVING.some((property) => isTransformedOutOfSight(property, style.get(property)))))
  );
}

/** The value of a property that is none by default; "" for none. */
export function givenStyleValue(style: Declarations, property: string): string {
  const value = style.get(property) ?? "";
  return value === "none" || GLOBAL.test(value) ? "" : value;
}

export function readOpacity(style: Declarations): number {
  const value = style.get("opacity") ?? "1";
  const opacity = Number.parseFloat(value) / (value.endsWith("%") ? 100 : 1);
  return opacity >= 0 ? Math.min(opacity, 1) : opacity < 0 ? 0 : 1;
}

function isMaskedOut(style: Declarations): boolean {
  const mask = givenStyleValue(style, "mask-image");
  if (mask === "" || mask === "0") return false;
  const isPlain = ["mask-composite", "mask-mode"].every((property) =>
    /^(?:add|source-over|match-source|alpha)?$/.test(givenStyleValue(style, property)),
  );
  return !isPlain || mayCssMaskHideAll(mask);
}

/** The height or width in which something of a box is seen; infinity where it grows. */
export function visibleExtent(style: Declarations, side: "height" | "width"): number {
  const sizes = [style.get(side), style.get(`max-${side}`)].map((value) => pixels(value) ?? Number.POSITIVE_INFINITY);
  // A box of this kind is as high as if it were empty.
  if (side === "height" && /\bsize\b(?<!inline-size)|strict/.test(style.get("contain") ?? "") && !style.has(side))
    sizes.push(0);
  const least = pixels(style.get(`min-${side}`)) ?? 0;
  const padding = pixels(style.get(side === "height" ? "padding-bottom" : "padding-right")) ?? 0;
  return Math.max(Math.min(...sizes), least) + padding;
}

/** Parts of a full turn, of each unit. */
const TURNS: Readonly<Record<string, number>> = { deg: 360, grad: 400, rad: 2 * Math.PI, turn: 1 };

/** True if a `transform`, `translate`, `scale` or `rotate` makes its element flat, or moves it out of sight. */
export function isTransformedOutOfSight(property: string, value = ""): boolean {
  const calls =
    property === "transform"
      ? [...value.matchAll(/([a-z\d]+)\(([^)]{0,200})\)/g)].map(([, name = "", text = ""]) => ({
          name,
          values: text.split(",").map((one) => one.trim()),
        }))
      : [{ name: property, values: value.split(" ") }];
  return calls.some(({ name, values }) => {
    if (name.startsWith("translate")) return values.some((one) => isFar(one));
    if (name === "scale" || name.startsWith("scale")) return values.slice(0, 2).some((one) => NOTHING.test(one));
    if (name === "matrix") {
      const [a = 1, b = 0, c = 0, d = 1, x = 0, y = 0] = values.map(Number);
      return Math.abs(a * d - b * c) < 0.01 || isFar(`${x}px`) || isFar(`${y}px`);
    }
    if (!/^(?:rotate[xy]?|skew[xy]?)$/.test(name) || (name === "rotate" && !/^[xy]$/.test(values[0] ?? "")))
      return false;
    const [, angle = "0", unit = "deg"] = /(-?[\d.]{1,10})(deg|grad|rad|turn)?$/.exec(values.at(-1) ?? "") ?? [];
    return Math.abs(Math.cos((Number(angle) / (TURNS[unit] as number)) * 2 * Math.PI)) < 0.1;
  });
}

export const clipsOverflow = (style: Declarations): boolean =>
  /paint|content|strict/.test(style.get("contain") ?? "") ||
  ["overflow", "overflow-x", "overflow-y"].some((property) =>
    /hidden|clip|scroll|auto/.test(style.get(property) ?? ""),
  );

/** True if a line as thick as the text is high strikes the text out. */
const isStruckOut = (decoration: string): boolean =>
  decoration.includes("line-through") && decoration.split(" ").some((part) => (pixels(part) ?? 0) >= SMALLEST_TYPE * 3);

function isOffScreen(style: Declarations): boolean {
  if (SIDES.some((side) => (pixels(style.get(`margin-${side}`)) ?? 0) <= -OFF_SCREEN)) return true;
  // What sticks stays in its box.
  return isCssPositioned(style) && style.get("position") !== "sticky" && SIDES.some((side) => isFar(style.get(side)));
}

export const isCssPositioned = (style: Declarations): boolean =>
  /^(?:absolute|fixed|relative|sticky)$/.test(style.get("position") ?? "");
/** Out of the flow. */
const isTakenOut = (style: Declarations): boolean => /^(?:absolute|fixed)$/.test(style.get("position") ?? "");

function isClipped(style: Declarations): boolean {
  if (isNoShape(givenStyleValue(style, "clip-path"))) return true;
  return isTakenOut(style) && isCutOff(style.get("clip"));
}

/** True if a `clip` leaves nothing. */
function isCutOff(clip = ""): boolean {
  const numbers = /^rect\(([^)]{0,100})\)$/
    .exec(clip)?.[1]
    ?.split(/[\s,]+/)
    .filter((edge) => edge !== "");
  const [top, right, bottom, left] = (numbers ?? []).map((edge) => pixels(edge));
  const isThin = (from: number | undefined, to: number | undefined) =>
    from !== undefined && to !== undefined && to - from <= 1;
  return isThin(top, bottom) || isThin(left, right);
}

/** True if a `clip-path` leaves nothing, or that cannot be told. */
function isNoShape(path: string): boolean {
  if (path === "" || /^[a-z]+-box$/.test(path)) return false;
  const [, name, text = ""] = /^([a-z]+)\(([^()]{0,400})\)/.exec(path) ?? [];
  const values = text
    .replace(/\b(?:round|at|evenodd|nonzero)\b.*/, (rest) =>
      /^(?:evenodd|nonzero)/.test(rest) ? rest.replace(/^\w+,?/, "") : "",
    )
    .trim();
  const edges = values.split(/[\s,]+/);
  switch (name) {
    case "circle":
    case "ellipse":
      return edges.some((edge) => (pixels(edge) ?? 9) <= 1);
    case "inset": {
      const [top = "0", right = top, bottom = top, left = right] = edges;
      const covers = (one: string, other: string) =>
        [one, other].every((edge) => edge.endsWith("%"))
          ? Number.parseFloat(one) + Number.parseFloat(other) >= 99
          : [one, other].some((edge) => Number.parseFloat(edge) >= 100 && edge.endsWith("%")) ||
            (pixels(one) ?? 0) + (pixels(other) ?? 0) >= FAR_OFF_SCREEN;
      return covers(top, bottom) || covers(left, right);
    }
    case "rect": {
      const [top = 0, right = 9_999, bottom = 9_999, left = 0] = edges.map((edge) => pixels(edge));
      return right - left <= 1 || bottom - top <= 1 || left >= FAR_OFF_SCREEN || top >= FAR_OFF_SCREEN;
    }
    case "xywh": {
      const [x = 0, y = 0, width = 9, height = 9] = edges.map((edge) => pixels(edge));
      return (
        width <= 1 || height <= 1 || x >= FAR_OFF_SCREEN || y >= FAR_OFF_SCREEN || x + width <= 0 || y + height <= 0
      );
    }
    case "polygon": {
      const points = values.split(",").map((point) =>
        point
          .trim()
          .split(" ")
          .map((one) => pixels(one)),
      );
      return [0, 1].some((axis) => {
        const offsets = points.map((point) => point[axis] ?? 0);
        return (
          Math.max(...offsets) - Math.min(...offsets) <= 1 ||
          Math.max(...offsets) <= 0 ||
          Math.min(...offsets) >= FAR_OFF_SCREEN
        );
      });
    }
    default:
      return true;
  }
}
