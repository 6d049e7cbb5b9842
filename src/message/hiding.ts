/**
 * What CSS hides text with, read from declarations (stylesheet.ts, visible.ts). Generous on what counts as hidden: a
 * reader who must guess at text of 1 px or of almost the colour of its ground does not read it.
 */
import type { Budget } from "./budget.ts";

/** Declarations by property, lower case. */
export type Declarations = ReadonlyMap<string, string>;

/** What text inherits and an element below may set otherwise. */
export interface Ink {
  /** Pixels. */
  fontSize: number;
  /** `visibility` is not hidden. */
  visible: boolean;
  /** Undefined where it cannot be told, as over an image. */
  color: Color | undefined;
  ground: Color | undefined;
}

type Color = readonly [red: number, green: number, blue: number];

const WHITE: Color = [255, 255, 255];
export const DEFAULT_INK: Ink = { fontSize: 16, visible: true, color: [0, 0, 0], ground: WHITE };

/** Smallest type that is read, in pixels. */
const SMALLEST_TYPE = 2;
/** Colours that differ by no more in each channel look alike. */
const ALIKE = 16;
/** Further away than any window shows, in pixels. */
const OFF_SCREEN = 500;
const FAR_OFF_SCREEN = 3_000;

/** Less than a tenth of the size. */
const NOTHING = /^(?=[\d.])(?:0*(?:\.0\d*)?|\d(?:\.\d*)?%|\de-\d+)(?:\s|$)/;

/** A property that hides or shows text, lower case, and its value. */
export interface Declaration {
  property: string;
  /** Lower case, spaces folded. */
  value: string;
  isImportant: boolean;
}

/** What the rest of this file asks for, and visible.ts. */
const READ = new Set(
  (
    "display visibility opacity color background background-color background-image font font-size position left top right " +
    "bottom inset margin margin-left margin-top margin-right margin-bottom transform translate scale zoom clip clip-path " +
    "-webkit-clip-path -webkit-text-fill-color content-visibility mso-hide filter height width max-height max-width " +
    "overflow overflow-x overflow-y letter-spacing text-indent"
  ).split(" "),
);

/** The declarations of a style attribute or rule that tell what is hidden, in order. @throws OverBudget */
export function readDeclarations(css: string, budget: Budget): Declaration[] {
  budget.spend(20 * css.length);
  const declarations = new Map<string, Declaration>();
  for (const declaration of css.replace(/\/\*.*?(?:\*\/|$)/gs, " ").split(";")) {
    const colon = declaration.indexOf(":");
    if (colon < 0) continue;
    const property = unescapeCss(declaration.slice(0, colon)).trim().toLowerCase();
    if (!READ.has(property)) continue;
    const [value = "", mark] = unescapeCss(declaration.slice(colon + 1))
      .toLowerCase()
      .replace(/\s+/g, " ")
      .split("!", 2);
    const isImportant = mark?.trim() === "important";
    // The last one counts, and an important one beside it.
    declarations.set(`${property} ${isImportant}`, { property, value: value.trim(), isImportant });
  }
  return [...declarations.values()];
}

/** Declares into `into`, over what is there, and what is important over all else. @throws OverBudget */
export function declare(
  declarations: readonly Declaration[],
  into: Map<string, string>,
  important: Set<string>,
  budget: Budget,
): void {
  for (const { property, value, isImportant } of declarations) {
    // Several expressions will look through the value.
    budget.spend(20 + value.length);
    if (important.has(property) && !isImportant) continue;
    if (isImportant) important.add(property);
    into.set(property, value);
  }
}

/** CSS Syntax 3 §4.3.7. */
export function unescapeCss(text: string): string {
  if (!text.includes("\\")) return text;
  return text.replace(/\\([0-9a-f]{1,6})\s?|\\(.)/gi, (_, hex: string | undefined, character: string | undefined) => {
    if (hex === undefined) return character ?? "";
    const point = Number.parseInt(hex, 16);
    return point > 0 && point <= 0x10ffff ? String.fromCodePoint(point) : "";
  });
}

/** Whether nothing inside the element is seen, whatever is set below. */
export function hidesAll(style: Declarations): boolean {
  const is = (property: string, pattern: RegExp) => pattern.test(style.get(property) ?? "");
  const size = (property: string) => pixels(style.get(property));
  return (
    is("display", /^none$/) ||
    is("mso-hide", /^all$/) ||
    is("content-visibility", /^hidden$/) ||
    Number.parseFloat(style.get("opacity") ?? "1") < (is("opacity", /%$/) ? 5 : 0.05) ||
    (size("max-height") ?? 9) <= 1 ||
    (size("max-width") ?? 9) <= 1 ||
    (["overflow", "overflow-x", "overflow-y"].some((property) => is(property, /hidden|clip|scroll|auto/)) &&
      ((size("height") ?? 9) <= 1 || (size("width") ?? 9) <= 1)) ||
    is("scale", NOTHING) ||
    is("zoom", NOTHING) ||
    (size("letter-spacing") ?? 0) <= -SMALLEST_TYPE * 4 ||
    (size("text-indent") ?? 0) <= -OFF_SCREEN / 2 ||
    isOffScreen(style) ||
    isClipped(style) ||
    is("filter", /opacity\(\s*0*(?:\.0+)?%?\s*\)/)
  );
}

function isOffScreen(style: Declarations): boolean {
  const edges = ["left", "top", "right", "bottom"];
  const placed = /^(?:absolute|fixed|relative)$/.test(style.get("position") ?? "");
  const margins = edges.map((edge) => pixels(style.get(`margin-${edge}`)) ?? 0);
  const shorthand = (style.get("margin") ?? "").split(/\s+/, 4).map((value) => pixels(value) ?? 0);
  if ([...margins, ...shorthand].some((margin) => margin <= -OFF_SCREEN)) return true;
  const moved = (style.get("transform") ?? "").matchAll(/translate[xy3d]*\(([^)]{0,100})\)/g);
  const translated = (style.get("translate") ?? "").split(/\s+/, 3).map((value) => pixels(value) ?? 0);
  const inset = placed ? (style.get("inset") ?? "").split(/\s+/, 4).map((value) => pixels(value) ?? 0) : [];
  const shifts = [...moved].flatMap(([, values = ""]) => values.split(",").map((value) => pixels(value.trim()) ?? 0));
  const places = placed ? edges.map((edge) => pixels(style.get(edge)) ?? 0) : [];
  return [...places, ...inset, ...shifts, ...translated].some(
    (place) => place <= -OFF_SCREEN || place >= FAR_OFF_SCREEN,
  );
}

function isClipped(style: Declarations): boolean {
  const clip = style.get("clip") ?? "";
  const path = style.get("clip-path") ?? style.get("-webkit-clip-path") ?? "";
  if (/scale[xy3d]*\(\s*(?:0*(?:\.0\d*)?|\de-\d+)%?\s*[,)]/.test(style.get("transform") ?? "")) return true;
  if (/^(?:circle|ellipse)\(\s*0(?:px|%)?[\s)]/.test(path)) return true;
  const inset = /^inset\(\s*(\d{1,3})(?:\.\d+)?%/.exec(path);
  if (inset !== null && Number(inset[1]) >= 50) return true;
  const numbers = /^rect\(([^)]{0,100})\)$/
    .exec(clip)?.[1]
    ?.split(/[\s,]+/)
    .filter((edge) => edge !== "");
  const [top, right, bottom, left] = (numbers ?? []).map((edge) => pixels(edge));
  const isThin = (from: number | undefined, to: number | undefined) =>
    from !== undefined && to !== undefined && Math.abs(to - from) <= 1;
  return isThin(top, bottom) || isThin(left, right);
}

/** A length in pixels; undefined for what is none, or depends on the window. */
function pixels(value: string | undefined): number | undefined {
  const match = /^([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))(px|pt|pc|em|rem|ex|ch|in|cm|mm|%|vw|vh)?$/.exec(
    value ?? "",
  );
  if (match === null) return undefined;
  const number = Number(match[1]);
  // A hundred per cent of nothing known: only zero and far away say something.
  const factor = { pt: 4 / 3, pc: 16, em: 16, rem: 16, ex: 8, ch: 8, in: 96, cm: 37.8, mm: 3.78, "%": 8, vw: 8, vh: 8 };
  return number * (factor[(match[2] ?? "") as keyof typeof factor] ?? 1);
}

/** The ink inside an element with these declarations. */
export function inkInside(outer: Ink, style: Declarations): Ink {
  if (style.size === 0) return outer;
  const visibility = style.get("visibility");
  const ground = groundOf(style);
  return {
    fontSize: fontSizeOf(style, outer.fontSize),
    visible: visibility === undefined || visibility === "inherit" ? outer.visible : visibility === "visible",
    color: colorOf(style.get("-webkit-text-fill-color") ?? style.get("color"), outer),
    ground: ground === "inherited" ? outer.ground : ground,
  };
}

/** Whether text in this ink is seen. */
export function isReadable({ fontSize, visible, color, ground }: Ink): boolean {
  if (!visible || fontSize < SMALLEST_TYPE) return false;
  return color === undefined || ground === undefined || !areAlike(color, ground);
}

const areAlike = (one: Color, other: Color): boolean =>
  one.every((channel, index) => Math.abs(channel - (other[index] as number)) <= ALIKE);

const TYPE_SIZES: Record<string, number> = { "xx-small": 9, "x-small": 10, small: 13, medium: 16, large: 18 };

function fontSizeOf(style: Declarations, outer: number): number {
  // font: italic bold 0/0 Arial
  const shorthand = /(?:^|\s)([\d.]{1,10}(?:px|pt|em|rem|ex|%)?)\s*(?:\/|\s|$)/.exec(style.get("font") ?? "")?.[1];
  const value = style.get("font-size") ?? shorthand;
  if (value === undefined) return outer;
  const relative = /^([\d.]{1,10})(em|%)$/.exec(value);
  if (relative !== null) return (outer * Number(relative[1])) / (relative[2] === "%" ? 100 : 1);
  return TYPE_SIZES[value] ?? pixels(value) ?? (value === "inherit" ? outer : 16);
}

function colorOf(value: string | undefined, outer: Ink): Color | undefined {
  if (value === undefined || value === "inherit") return outer.color;
  const color = parseColor(value);
  // Text that lets through what is behind it.
  return color === "transparent" ? (outer.ground ?? WHITE) : color;
}

function groundOf(style: Declarations): Color | undefined | "inherited" {
  const background = style.get("background") ?? "";
  const image = style.get("background-image") ?? background;
  if (/url\(|gradient\(/.test(image)) return undefined;
  const value =
    style.get("background-color") ?? /#[0-9a-f]{3,8}|[a-z]{3,4}\([^)]{0,60}\)|[a-z]{3,25}/.exec(background)?.[0];
  if (value === undefined || /^(?:inherit|initial|unset|none)$/.test(value)) return "inherited";
  const color = parseColor(value);
  return color === "transparent" ? "inherited" : color;
}

/** What they are where nobody has chosen dark colours, as mail is tested. */
const OF_THE_SYSTEM: Record<string, Color> = { canvas: WHITE, window: WHITE, field: WHITE };

/** Colour of a value in lower case; undefined for one that cannot be told without the rest of the page. */
function parseColor(value: string): Color | "transparent" | undefined {
  if (Object.hasOwn(OF_THE_SYSTEM, value)) return OF_THE_SYSTEM[value];
  // Attributes may leave out the number sign (HTML §2.3.6).
  const color = Bun.color(/^[0-9a-f]{3,8}$/.test(value) ? `#${value}` : value, "[rgba]");
  if (!Array.isArray(color)) return undefined;
  const [red, green, blue, alpha] = color;
  return alpha < 16 ? "transparent" : [red, green, blue];
}
