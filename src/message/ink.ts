/**
 * Decides whether text is readable in the ink that declarations give it. Text of 1 px, or of nearly the colour of its ground,
 * counts as hidden, because it is not legible. Text whose ink cannot be determined counts as hidden, too.
 */
import { BLACK, type Color, parseColor } from "./color.ts";
import { type Filter, parseColorFilter } from "./colour-filter.ts";
import { type Declarations, INHERITED, NUMBER, pixels } from "./declarations.ts";
import { computeBackground, type Ground, isTextColorIndistinct, PLACES, WHITE_GROUND } from "./ground.ts";
import {
  clipsOverflow,
  FAR_OFF_SCREEN,
  givenStyleValue,
  hasNegativeZIndex,
  hasTableDisplay,
  isCssPositioned,
  MOVING,
  NOTHING,
  readOpacity,
  SMALLEST_TYPE,
  type Standing,
  visibleExtent,
} from "./hiding.ts";
import type { Budget } from "./markup.ts";

/** The properties that text inherits and that an inner element may override. Lengths are in pixels. */
export interface Ink {
  fontSize: number;
  lineHeight: readonly [number, "px" | "em"];
  indent: number;
  /** `white-space` lets no line wrap. */
  isUnbroken: boolean;
  /** `visibility` is not hidden. */
  visible: boolean;
  /** Before filters. Undefined if it cannot be determined. */
  color: Color | undefined;
  /** Fills letters in the place of their colour; "color" for that. */
  fill: Color | "color" | undefined;
  /** Colours of outlines and shadows of the letters. */
  marks: readonly Color[];
  /** The ground as the reader sees it. Undefined if it cannot be determined. */
  ground: Ground | undefined;
  /** Shines through letters of transparent colour. */
  paint: Ground | undefined;
  filter: Filter;
  /** Something in the innermost stacking context has a ground of its own. */
  isGrounded: boolean;
  isStroked: boolean;
  /** The product of the opacities of the elements around the text. */
  opacity: number;
  /** How far the elements around it move its first line, at least. */
  left: number;
  top: number;
  /** The innermost box that cuts off what does not fit. */
  clip: Clip | undefined;
}

interface Clip {
  outer: Clip | undefined;
  /** Clips around it. */
  depth: number;
  width: number;
  height: number;
  /** The box is as high as its content, whose lines have no height of their own. */
  isFlat: boolean;
  /** Place of its content. */
  left: number;
  top: number;
  /** Lines of text that are shown of it, and those so far. */
  mostRows: number;
  rows: number;
  /** The last line of the layout that counts as one. */
  lastRow: number;
  /** Lines of the layout before its content. */
  line: number;
  /**
   * Room in pixels that its content takes so far, at least: `down` beside the lines of the layout, `along` on the last of
   * these.
   */
  down: number;
  along: number;
  /** The last line of the layout, and the pixels that it takes where it wraps. */
  lastLine: number;
  wrapped: number;
}

export const DEFAULT_INK: Ink = {
  fontSize: 16,
  lineHeight: [1.2, "em"],
  indent: 0,
  isUnbroken: false,
  visible: true,
  color: BLACK,
  fill: "color",
  marks: [],
  ground: WHITE_GROUND,
  paint: undefined,
  filter: (color) => color,
  isGrounded: false,
  isStroked: false,
  opacity: 1,
  left: 0,
  top: 0,
  clip: undefined,
};

/** A box that scrolls, and is higher than this, shows its reader that there is more. */
const SCROLLABLE = 40;
/** Widths of a character in type of 1 px, and of a line where no width is set: few characters and lines, rather than too many. */
const CHARACTER = 0.35;
const LINE = 800;

/** The ink inside an element with these declarations. */
export function computeTextAppearance(
  outer: Ink,
  style: Declarations,
  { isInline = false, isPage = false }: Standing = {},
): Ink {
  if (style.size === 0) return outer;
  const hasBox = style.get("display") !== "contents";
  const length = (property: string) => pixels(style.get(property)) ?? 0;
  const visibility = style.get("visibility");
  const fontSize = computeFontSize(style.get("font-size"), outer.fontSize);
  const lineHeight = computeLineHeight(style.get("line-height"), fontSize, outer.lineHeight);
  const indent = style.get("text-indent");
  const space = style.get("white-space");
  const left = outer.left + length("margin-left") + length("padding-left");
  const top = outer.top + length("margin-top") + length("padding-top");
  const own = hasBox ? parseColorFilter(givenStyleValue(style, "filter")) : "hidden";
  const filter: Filter =
    own === "hidden" || givenStyleValue(style, "filter") === ""
      ? outer.filter
      : (color) => outer.filter(own.filter(color));
  const color = computeTextColor(style.get("color"), outer.color);
  const fill = computeTextFill(style.get("-webkit-text-fill-color"), outer.fill);
  const isStroked = hasTextStroke(style.get("-webkit-text-stroke-width"), outer.isStroked);
  const opacity = hasBox ? readOpacity(style) * (own === "hidden" ? 1 : own.opacity) : 1;
  return {
    fontSize,
    lineHeight,
    indent: indent === undefined ? outer.indent : (pixels(indent) ?? outer.indent),
    isUnbroken: space === undefined ? outer.isUnbroken : /^(?:nowrap|pre)$/.test(space),
    visible:
      visibility === undefined || /^(?:inherit|unset)$/.test(visibility)
        ? outer.visible
        : /^(?:visible|initial|revert)$/.test(visibility),
    color,
    fill,
    marks: listTextMarks(style, isStroked, color, outer.marks),
    isStroked,
    filter,
    ...(hasBox
      ? computeGround(style, outer, filter, isPage)
      : { ground: outer.ground, paint: outer.paint, isGrounded: outer.isGrounded }),
    opacity: outer.opacity * opacity,
    left,
    top,
    clip: (hasBox && !isInline ? computeClip(style, left, top, outer.clip) : undefined) ?? outer.clip,
  };
}

function computeTextFill(value: string | undefined, outer: Ink["fill"]): Ink["fill"] {
  if (value === undefined || /^(?:inherit|unset)$/.test(value)) return outer;
  return /^(?:initial|revert|currentcolor)$/.test(value) ? "color" : knownColor(value);
}

const hasTextStroke = (width: string | undefined, outer: boolean): boolean =>
  width === undefined ? outer : /^(?:thin|medium|thick)$/.test(width) || (pixels(width) ?? 0) >= 0.5;

/** The colours of outlines and sharp shadows. */
function listTextMarks(
  style: Declarations,
  isStroked: boolean,
  color: Color | undefined,
  outer: readonly Color[],
): readonly Color[] {
  const shadow = style.get("text-shadow");
  const stroke = style.get("-webkit-text-stroke-color");
  if (shadow === undefined && stroke === undefined && !style.has("-webkit-text-stroke-width")) return outer;
  const colors = [
    isStroked ? (stroke === undefined || stroke === "currentcolor" ? color : knownColor(stroke)) : undefined,
  ];
  for (const one of shadow?.split(/,(?![^(]*\))/) ?? []) {
    const words = one.match(/[a-z-]+\([^()]*\)|\S+/g) ?? [];
    const [across = 0, down = 0, blur = 0] = words.flatMap((word) => pixels(word) ?? []);
    const named = words.find((word) => pixels(word) === undefined && word !== "none");
    if (named === "none" || words.length < 2 || blur > 2 || Math.abs(across) > 40 || Math.abs(down) > 40) continue;
    colors.push(named === undefined ? color : knownColor(named));
  }
  return colors.filter((one) => one !== undefined);
}

/** True if the element is painted as one picture, which lies on the grounds around it. */
const isPicture = (style: Declarations): boolean =>
  readOpacity(style) < 1 ||
  [...MOVING, "filter", "mask-image", "clip-path"].some((property) => givenStyleValue(style, property) !== "") ||
  style.get("isolation") === "isolate" ||
  /^(?:fixed|sticky)$/.test(style.get("position") ?? "") ||
  (isCssPositioned(style) && /^[+-]?\d/.test(style.get("z-index") ?? "")) ||
  !/^(?:normal)?$/.test(givenStyleValue(style, "mix-blend-mode")) ||
  /transform|opacity|filter/.test(style.get("will-change") ?? "") ||
  /paint|layout|strict|content/.test(style.get("contain") ?? "") ||
  /size/.test(style.get("container-type") ?? "");

function computeGround(
  style: Declarations,
  outer: Ink,
  filter: Filter,
  isPage: boolean,
): Pick<Ink, "ground" | "paint" | "isGrounded"> {
  const color = style.get("background-color");
  const image = style.get("background-image");
  const inside = computeBackground(
    outer.ground,
    color,
    image,
    PLACES.map((place) => style.get(place) ?? ""),
    filter,
  );
  const isClip = style.get("background-clip") === "text" || /(?:^|\s)text(?:\s|$)/.test(image ?? "");
  const isOwn = (color !== undefined && color !== "transparent") || (image?.includes("gradient(") ?? false);
  if (isClip) return { ground: outer.ground, paint: inside, isGrounded: outer.isGrounded && !isPicture(style) };
  const isGrounded = !isPicture(style) && (outer.isGrounded || (isOwn && !isPage && inside !== outer.ground));
  return { ground: inside, paint: isOwn ? undefined : outer.paint, isGrounded };
}

/** True if an element lies behind a ground that is around it. `outer`: the ink there. */
export const isBehindBackground = (style: Declarations, outer: Ink): boolean =>
  outer.isGrounded && isCssPositioned(style) && hasNegativeZIndex(style);

/** True if text in this ink is readable. */
export function isTextReadable(ink: Ink): boolean {
  const { fontSize, visible, color, fill, marks, ground, paint, filter, opacity, left, indent } = ink;
  if (!visible || fontSize < SMALLEST_TYPE || left + indent >= FAR_OFF_SCREEN || ground === undefined) return false;
  const isSeen = (one: Color): boolean => !isTextColorIndistinct(filter(one), ground, opacity);
  const letters = fill === "color" ? color : fill;
  if ((letters !== undefined && isSeen(letters)) || marks.some(isSeen)) return true;
  return (
    paint !== undefined &&
    letters !== undefined &&
    letters[3] < 0.5 &&
    paint.some((one) => !isTextColorIndistinct(one, ground, opacity))
  );
}

/**
 * True if the text is not cut off by the boxes that it is in, as far as can be told without laying it out. Takes its room.
 * `line`: of the layout. @throws OverBudget
 */
export function placeTextInBoxes(ink: Ink, text: string, line: number, budget: Budget): boolean {
  if (ink.clip === undefined) return true;
  budget.spend(500 * (ink.clip.depth + 1) + text.length);
  const length = CHARACTER * ink.fontSize * text.replace(/[ \t\r\n\f]+/g, " ").length;
  let fits = true;
  for (let clip: Clip | undefined = ink.clip; clip; clip = clip.outer)
    fits = takeRoomIn(clip, ink, length, line) && fits;
  return fits;
}

function takeRoomIn(
  clip: Clip,
  { fontSize, lineHeight, indent, left, top, isUnbroken }: Ink,
  length: number,
  line: number,
): boolean {
  if (line !== clip.lastLine) {
    clip.down += clip.wrapped;
    Object.assign(clip, { lastLine: line, along: 0, wrapped: 0 });
  }
  if (line !== clip.lastRow) clip.rows++;
  clip.lastRow = line;
  clip.along += length;
  if (clip.isFlat && lineHeight[0] < 0.1) return false;
  const start = indent + left - clip.left;
  if (start >= clip.width || (isUnbroken && start + clip.along > clip.width)) return false;
  const height = lineHeight[0] * (lineHeight[1] === "em" ? fontSize : 1);
  const wrapped = isUnbroken ? 0 : Math.floor(clip.along / Math.min(clip.width, LINE));
  if (!isUnbroken) clip.wrapped = wrapped * height;
  if (clip.rows + wrapped > clip.mostRows) return false;
  // The middle of its last line.
  return clip.down + clip.wrapped + top - clip.top + (line - clip.line + 0.5) * height <= clip.height;
}

/** The height that an element takes, at least. `attribute`: its height in HTML. */
export function estimateElementHeight(style: Declarations, attribute = ""): number {
  const around = ["margin-top", "padding-top", "padding-bottom", "margin-bottom"];
  const own = pixels(style.get("height")) ?? (/^\d{1,4}(?:px)?$/.test(attribute) ? Number.parseFloat(attribute) : 0);
  return around.reduce((sum, property) => sum + Math.max(pixels(style.get(property)) ?? 0, 0), own);
}

/** The width of an element, roughly. `attribute`: as HTML has it; `outer`: of the element around. */
export function widthInside(style: Declarations, attribute: string | undefined, outer: number): number {
  const of = (value: string | undefined): number | undefined =>
    value?.endsWith("%") ? (Number.parseFloat(value) / 100) * outer : pixels(value);
  const own =
    of(style.get("width")) ??
    (/^\d{1,4}(?:px|%)?$/.test(attribute ?? "")
      ? of(/\D$/.test(attribute ?? "") ? attribute : `${attribute}px`)
      : undefined);
  return Math.max(
    Math.min(own ?? outer, of(style.get("max-width")) ?? Number.POSITIVE_INFINITY),
    of(style.get("min-width")) ?? 0,
  );
}

const EMPTY = { line: 0, down: 0, along: 0, lastLine: 0, wrapped: 0, rows: 0, lastRow: -1 };

/** A box with a height or width beyond which nothing is shown, or with so many lines. Those of tables grow. */
function computeClip(style: Declarations, left: number, top: number, outer: Clip | undefined): Clip | undefined {
  if (!clipsOverflow(style) || hasTableDisplay(style)) return undefined;
  const limitedExtent = (side: "height" | "width") =>
    [style.get(side), style.get(`max-${side}`)].every((value) => value?.endsWith("%") || pixels(value) === undefined)
      ? Number.POSITIVE_INFINITY
      : visibleExtent(style, side);
  const [width, height] = [limitedExtent("width"), limitedExtent("height")];
  const isClamped = /^-webkit-(?:inline-)?box$/.test(style.get("display") ?? "");
  const mostRows = (isClamped && Number(style.get("-webkit-line-clamp"))) || Number.POSITIVE_INFINITY;
  const isHidden = /hidden|clip/.test(`${style.get("overflow")} ${style.get("overflow-x")} ${style.get("overflow-y")}`);
  if (!isHidden && Math.min(width, height) > SCROLLABLE) return undefined;
  // Its lines make it no higher.
  const isFlat = NOTHING.test(style.get("line-height") ?? "") && height === Number.POSITIVE_INFINITY;
  if (Math.min(width, height, mostRows) === Number.POSITIVE_INFINITY && !isFlat) return undefined;
  const depth = outer === undefined ? 0 : outer.depth + 1;
  return { outer, depth, width, height, mostRows, isFlat, left, top, ...EMPTY };
}

const TYPE_SIZES: Record<string, number> = { "xx-small": 9, "x-small": 10, small: 13, medium: 16, large: 18 };
/** Units and words relative to the size around. */
const RELATIVE: Record<string, number> = { em: 1, "%": 0.01, ex: 0.5, ch: 0.5, smaller: 5 / 6, larger: 1.2 };

function computeFontSize(value: string | undefined, outer: number): number {
  if (value === undefined || INHERITED.test(value)) return outer;
  const [, number = "1", unit = ""] = /^([\d.]{1,10})?(em|%|ex|ch|smaller|larger)$/.exec(value) ?? [];
  const factor = RELATIVE[unit];
  return factor === undefined ? (TYPE_SIZES[value] ?? pixels(value) ?? 16) : outer * Number(number) * factor;
}

function computeLineHeight(value: string | undefined, fontSize: number, outer: Ink["lineHeight"]): Ink["lineHeight"] {
  if (value === undefined || INHERITED.test(value)) return outer;
  if (NUMBER.test(value)) return [Number(value), "em"];
  const [, number, unit] = /^([\d.]+)(%|em)$/.exec(value) ?? [];
  if (number !== undefined) return [(Number(number) / (unit === "%" ? 100 : 1)) * fontSize, "px"];
  const length = pixels(value);
  return length === undefined ? DEFAULT_INK.lineHeight : [length, "px"];
}

function computeTextColor(value: string | undefined, outer: Color | undefined): Color | undefined {
  if (value === undefined || INHERITED.test(value)) return outer;
  return value === "initial" ? BLACK : knownColor(value);
}

function knownColor(value: string): Color | undefined {
  const color = parseColor(value);
  return color === "invalid" ? undefined : color;
}
