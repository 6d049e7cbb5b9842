/**
 * Finds the declarations of an element in the style sheets of a mail, and decides if declarations hide its text
 * (visible.ts). Declarations that browsers ignore must not undo those that hide, so colours, lengths and shorthands are
 * checked. Reads the rules whose selectors combine types, classes, ids and attributes as descendants, and skips other
 * rules. The message's budget pays for each comparison: a sheet that exceeds it is an attempt to evade the check.
 */
import { BLACK, type Color, parseColor } from "./color.ts";
import { declarationsIn, textOf, tokensOf, unescapeCss, type Written } from "./css.ts";
import { type Ground, groundInside, isAlike, PLACES, WHITE_GROUND } from "./ground.ts";
import type { Budget } from "./markup.ts";
import type { AttributeTest, Selector, Simple } from "./selector.ts";
import { rulesOf, type StyleRule } from "./sheets.ts";
import { PIXELS, served } from "./style.ts";

/** The properties of an element that selectors use. */
export interface Styled {
  name: string;
  attributes: Readonly<Record<string, string>>;
  classes: ReadonlySet<string>;
}

/** The tests of one element, as far as they can be made on a path. */
interface Tests {
  name: string | undefined;
  id: string | undefined;
  classes: string[];
  attributes: AttributeTest[];
}

interface Rule {
  /** Outermost first; the last is the element itself. */
  path: Tests[];
  block: Block;
}

/** The declarations of a rule, parsed at the first match: as received, and as served. */
interface Block {
  rule: StyleRule;
  declarations?: readonly [received: readonly Declaration[], shown: readonly Declaration[]];
}

/** Collects declarations by property. */
export interface Cascade {
  declared: Map<string, string>;
  important: Set<string>;
}
export const newCascade = (): Cascade => ({ declared: new Map(), important: new Set() });

/**
 * Adds the sheets' declarations for the last element of a path, which begins with the outermost: as received, and as served.
 * @throws OverBudget
 */
export type Sheet = (path: readonly Styled[], received: Cascade, shown: Cascade) => void;

/** Reads the sheets of a mail; undefined if no rule in them could hide something. @throws OverBudget */
export function readSheets(html: string, budget: Budget): Sheet | undefined {
  const rules: Rule[] = [];
  for (const rule of rulesOf(html, budget)) {
    if (rule.isElsewhere || !rule.declarations.some(({ property }) => isRead(property))) continue;
    const block: Block = { rule };
    for (const selector of rule.selectors) {
      const path = testsOf(selector);
      if (path !== undefined) rules.push({ path, block });
    }
  }
  if (rules.length === 0) return undefined;
  const byKey = new Map<string, number[]>();
  for (const [index, { path }] of rules.entries()) {
    const key = keyOf(path.at(-1) as Tests);
    const indexes = byKey.get(key) ?? [];
    byKey.set(key, indexes);
    indexes.push(index);
  }
  return (path, received, shown) => {
    const element = path.at(-1) as Styled;
    const lists: (readonly number[] | undefined)[] = [byKey.get("*"), byKey.get(element.name)];
    lists.push(byKey.get(`#${element.attributes.id ?? ""}`));
    for (const name of element.classes) lists.push(byKey.get(`.${name}`));
    const found = lists.filter((list) => list !== undefined);
    budget.spend(10 * lists.length);
    // In the order of the sheets.
    for (const index of found.length > 1 ? sorted(found, budget) : (found[0] ?? [])) {
      const { path: tests, block } = rules[index] as Rule;
      if (!matches(tests, path, budget)) continue;
      block.declarations ??= declarationsOf(block.rule, budget);
      declare(block.declarations[0], received, budget);
      declare(block.declarations[1], shown, budget);
    }
  };
}

function declarationsOf({ declarations, around }: StyleRule, budget: Budget): NonNullable<Block["declarations"]> {
  const received = longhandsIn(asText(declarations, budget), budget);
  return [
    received,
    around === undefined
      ? []
      : longhandsIn(serve(declarations, received, budget, { ofRule: true, isSent: false }), budget),
  ];
}

function sorted(lists: readonly (readonly number[])[], budget: Budget): number[] {
  const all = lists.flat();
  budget.spend(50 * all.length);
  return all.sort((one, other) => one - other);
}

const keyOf = ({ id, classes, name }: Tests): string =>
  id !== undefined ? `#${id}` : classes[0] !== undefined ? `.${classes[0]}` : (name ?? "*");

/**
 * What a path must have for a selector. Conditions on an element's position or negation count as met, because otherwise they would
 * evade the check. Undefined if it depends on siblings, or on what the reader does.
 */
function testsOf(selector: Selector): Tests[] | undefined {
  const path: Tests[] = [];
  for (const { combinator, simples } of selector) {
    if (combinator === "+" || combinator === "~") return undefined;
    // Elements that every document has, whether their tags are written or not.
    if (simples !== selector.at(-1)?.simples && simples.length === 1 && isAround(simples[0] as Simple)) continue;
    const tests: Tests = { name: undefined, id: undefined, classes: [], attributes: [] };
    if (!simples.every((simple) => addTest(simple, tests))) return undefined;
    path.push(tests);
  }
  return path;
}

const isAround = (simple: Simple): boolean =>
  (simple.kind === "type" && (simple.name === "html" || simple.name === "body")) ||
  (simple.kind === "state" && simple.name === "root");

function addTest(simple: Simple, tests: Tests): boolean {
  switch (simple.kind) {
    case "type":
      tests.name = simple.name;
      return true;
    case "id":
      tests.id = simple.name;
      return true;
    case "class":
      tests.classes.push(simple.name);
      return true;
    case "attribute":
      tests.attributes.push(simple.test);
      return true;
    case "state":
      return !/^(?:hover|active|focus.*|visited|empty)$/.test(simple.name);
    case "logic": {
      const [only, ...others] = simple.selectors;
      if ((simple.name === "is" || simple.name === "where") && only?.length === 1 && others.length === 0) {
        return only[0]?.simples.every((one) => addTest(one, tests)) ?? true;
      }
      return true;
    }
    default:
      return true;
  }
}

/** The last tests are those of the element, and the others fit some of its ancestors in order. */
function matches(tests: readonly Tests[], path: readonly Styled[], budget: Budget): boolean {
  let at = path.length - 1;
  if (!fits(tests.at(-1) as Tests, path[at] as Styled, budget)) return false;
  for (let index = tests.length - 2; index >= 0; index--) {
    do at--;
    while (at >= 0 && !fits(tests[index] as Tests, path[at] as Styled, budget));
    if (at < 0) return false;
  }
  return true;
}

function fits(tests: Tests, { name, attributes, classes }: Styled, budget: Budget): boolean {
  budget.spend(10);
  if (tests.name !== undefined && tests.name !== name) return false;
  if (tests.id !== undefined && tests.id !== attributes.id) return false;
  for (const one of tests.classes) {
    budget.spend(5);
    if (!classes.has(one)) return false;
  }
  for (const one of tests.attributes) if (!hasAttribute(attributes, one, budget)) return false;
  return true;
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

/*
 * Decides whether declarations hide text. Text of 1 px, or of nearly the colour of its ground, counts as hidden,
 * because it is not legible. What cannot be determined counts as hidden, too.
 */

/** Declarations by property, lower case. */
export type Declarations = ReadonlyMap<string, string>;

/** The properties that text inherits and that an inner element may override. Lengths are in pixels. */
export interface Ink {
  fontSize: number;
  lineHeight: readonly [number, "px" | "em"];
  indent: number;
  /** `white-space` lets no line wrap. */
  isUnbroken: boolean;
  /** `visibility` is not hidden. */
  visible: boolean;
  /** Undefined if it cannot be determined. */
  color: Color | undefined;
  /** Undefined if it cannot be determined. */
  ground: Ground | undefined;
  /** Of the elements around it, multiplied. */
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
  /** Of its content. */
  left: number;
  top: number;
  /** Lines of the layout before its content. */
  line: number;
  /** What its content takes so far, at least, in pixels: downwards beside the lines of the layout, and along the last of these. */
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
  ground: WHITE_GROUND,
  opacity: 1,
  left: 0,
  top: 0,
  clip: undefined,
};

/** Smallest readable type, in pixels. */
const SMALLEST_TYPE = 2;
/** Distances beyond any window, in pixels. */
const OFF_SCREEN = 500;
const FAR_OFF_SCREEN = 2_000;
/** A box that scrolls, and is higher than this, shows its reader that there is more. */
const SCROLLABLE = 40;
/** Widths of a character in type of 1 px, and of a line where no width is set: few characters and lines, rather than too many. */
const CHARACTER = 0.35;
const LINE = 800;

/** Less than a tenth of the size. */
const NOTHING = /^(?=[\d.])(?:0*(?:\.0\d*)?|\d(?:\.\d*)?%|\de-\d+)(?:\s|$)/;

/** A property in lower case, and its value. */
export interface Declaration {
  property: string;
  value: string;
  isImportant: boolean;
}

const SIDES = ["top", "right", "bottom", "left"];
const COLORS = new Set(["color", "background-color", "-webkit-text-fill-color"]);
const LENGTHS = new Set([
  ..."font-size line-height height width max-height max-width letter-spacing text-indent".split(" "),
  ...SIDES.flatMap((side) => [side, `margin-${side}`, `padding-${side}`]),
]);
/** The properties that the rest of this file and visible.ts use. */
const READ = new Set([
  ...COLORS,
  ...LENGTHS,
  ...PLACES,
  ...(
    "display visibility opacity background background-image font position inset margin padding transform translate scale zoom clip clip-path " +
    "content-visibility filter overflow overflow-x overflow-y white-space text-decoration"
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
  ...["", "max-"].flatMap((most) => [
    [`${most}inline-size`, `${most}width`] as const,
    [`${most}block-size`, `${most}height`] as const,
  ]),
  ["-webkit-transform", "transform"],
  ["-ms-transform", "transform"],
  ["-webkit-filter", "filter"],
  ["-webkit-clip-path", "clip-path"],
  ["-webkit-background-clip", "background-clip"],
]);

const isRead = (property: string): boolean => READ.has(ALIASES.get(property) ?? property) || BOTH_SIDES.has(property);

const MAX_VALUE = 500;
const LENGTH =
  /^(?:[+-]?0|[+-]?(?:\d+\.?\d*|\.\d+)(?:px|pt|pc|em|rem|ex|ch|in|cm|mm|q|%|v[a-z]{1,3})|auto|none|normal|(?:x{1,3}-)?(?:small|large)|medium|smaller|larger|inherit|initial|unset|revert(?:-layer)?|(?:min|max|fit)-content|.*\(.*)$/;
const NUMBER = /^(?:\d+\.?\d*|\.\d+)$/;
const FAMILY = String.raw`(?:"[^"]*"|'[^']*'|-?[a-z_][\w-]*(?: -?[a-z_][\w-]*)*)`;
/** font: italic bold 0/0 Arial, sans-serif */
const FONT = new RegExp(
  String.raw`^(?:(?:normal|italic|oblique|bold|bolder|lighter|small-caps|[1-9]00) )*([a-z\d.%-]+)(?: ?/ ?([a-z\d.%-]+))? ${FAMILY}(?: ?, ?${FAMILY})*$`,
);

/** The declarations that a valid one stands for; none for one that browsers ignore. `value`: lower case, spaces folded. */
function longhandsOf(property: string, value: string): [property: string, value: string][] {
  // Longer than what the app keeps, and not worth a search.
  if (value.length > MAX_VALUE) {
    const image: [string, string][] = value.includes("gradient(") ? [["background-image", "gradient("]] : [];
    if (property === "background") return [["background-color", "transparent"], ...image];
    return property === "background-image" ? image : [];
  }
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

const isLineHeight = (value: string): boolean => LENGTH.test(value) || NUMBER.test(value);

/** The colour of a `background`. */
const colorIn = (value: string): string =>
  value
    .replace(/(?:url|[a-z-]*gradient|image|image-set)\((?:[^()]|\([^()]*\))*\)?/g, " ")
    .match(/[a-z-]+\([^()]*\)|[^\s]+/g)
    ?.find((word) => parseColor(word) !== "invalid") ?? "transparent";

/** The declarations of a style attribute that can hide text, in order. @throws OverBudget */
export const readDeclarations = (css: string, budget: Budget): Declaration[] =>
  longhandsIn(asText([...declarationsIn(tokensOf(css, budget))], budget), budget);

function* asText(written: readonly Written[], budget: Budget): Generator<Declaration> {
  for (const { property, value, isImportant } of written) {
    if (!isRead(property)) continue;
    budget.spend(10 * value.length);
    yield { property, value: unescapeCss(textOf(value)), isImportant };
  }
}

function longhandsIn(given: Iterable<Declaration>, budget: Budget): Declaration[] {
  const declarations = new Map<string, Declaration>();
  for (const { property: named, value: text, isImportant } of given) {
    if (!isRead(named)) continue;
    budget.spend(400 + 10 * text.length);
    for (const [property, value] of longhandsOf(
      ALIASES.get(named) ?? named,
      text.toLowerCase().replace(/\s+/g, " ").trim(),
    )) {
      // The last one counts, and an important one is kept beside it.
      declarations.set(`${property} ${isImportant}`, { property, value, isImportant });
    }
  }
  return [...declarations.values()];
}

/** Adds declarations: later ones override, important ones override all others. @throws OverBudget */
export function declare(declarations: readonly Declaration[], { declared, important }: Cascade, budget: Budget): void {
  for (const { property, value, isImportant } of declarations) {
    // Several regular expressions will scan the value.
    budget.spend(20 + value.length);
    if (important.has(property) && !isImportant) continue;
    if (isImportant) important.add(property);
    declared.set(property, value);
  }
}

/**
 * Declarations as they are served (style.ts), separated by semicolons. What hides an element, and is not served, is replaced by
 * `display:none`. `ofRule`: other rules may position the element. `isSent`: the mail leaves. @throws OverBudget
 */
export function servedStyle(
  written: readonly Written[],
  budget: Budget,
  { ofRule = false, isSent = false } = {},
): string {
  const received = longhandsIn(asText(written, budget), budget);
  return serve(written, received, budget, { ofRule, isSent })
    .map(({ property, value, isImportant }) => `${property}:${value}${isImportant ? "!important" : ""}`)
    .join(";");
}

/** `received`: what can hide of these declarations. */
function serve(
  written: readonly Written[],
  received: readonly Declaration[],
  budget: Budget,
  { ofRule, isSent }: { ofRule: boolean; isSent: boolean },
): Declaration[] {
  const kept: Declaration[] = [];
  let isWhole = true;
  for (const { property, value, isImportant } of written) {
    budget.spend(100 + 20 * value.length);
    const declarations = served(property, value, isSent);
    isWhole &&= declarations.length > 0;
    for (const [property, value] of declarations) kept.push({ property, value, isImportant });
  }
  if (isWhole || !hides(received, ofRule, budget) || hides(longhandsIn(kept, budget), false, budget)) return kept;
  return [...kept, { property: "display", value: "none", isImportant: true }];
}

function hides(declarations: readonly Declaration[], isPlaced: boolean, budget: Budget): boolean {
  const cascade = newCascade();
  declare(declarations, cascade, budget);
  if (isPlaced && !cascade.declared.has("position")) cascade.declared.set("position", "absolute");
  return hidesAll(cascade.declared);
}

/** True if everything inside the element is invisible, whatever its descendants declare. */
export function hidesAll(style: Declarations): boolean {
  const is = (property: string, pattern: RegExp) => pattern.test(style.get(property) ?? "");
  const size = (property: string) => pixels(style.get(property));
  return (
    is("display", /^(?:none|table-column(?:-group)?)$/) ||
    is("content-visibility", /^hidden$/) ||
    Number.parseFloat(style.get("opacity") ?? "1") < (is("opacity", /%$/) ? 5 : 0.05) ||
    (size("max-height") ?? 9) <= 1 ||
    (size("max-width") ?? 9) <= 1 ||
    (isCut(style) && ((size("height") ?? 9) <= 1 || (size("width") ?? 9) <= 1)) ||
    is("scale", NOTHING) ||
    is("zoom", NOTHING) ||
    (size("letter-spacing") ?? 0) <= -SMALLEST_TYPE * 4 ||
    (size("text-indent") ?? 0) <= -OFF_SCREEN / 2 ||
    isStruckOut(style.get("text-decoration") ?? "") ||
    isOffScreen(style) ||
    isClipped(style) ||
    is("filter", /opacity\(\s*0*(?:\.0+)?%?\s*\)/)
  );
}

const isCut = (style: Declarations): boolean =>
  ["overflow", "overflow-x", "overflow-y"].some((property) =>
    /hidden|clip|scroll|auto/.test(style.get(property) ?? ""),
  );

/** By a line as thick as the text is high. */
const isStruckOut = (decoration: string): boolean =>
  decoration.includes("line-through") && decoration.split(" ").some((part) => (pixels(part) ?? 0) >= SMALLEST_TYPE * 3);

function isOffScreen(style: Declarations): boolean {
  const placed = /^(?:absolute|fixed|relative)$/.test(style.get("position") ?? "");
  if (SIDES.some((side) => (pixels(style.get(`margin-${side}`)) ?? 0) <= -OFF_SCREEN)) return true;
  const moved = (style.get("transform") ?? "").matchAll(/translate[xy3d]*\(([^)]{0,100})\)/g);
  const translated = (style.get("translate") ?? "").split(/\s+/, 3).map((value) => pixels(value) ?? 0);
  const shifts = [...moved].flatMap(([, values = ""]) => values.split(",").map((value) => pixels(value.trim()) ?? 0));
  const places = placed ? SIDES.map((side) => pixels(style.get(side)) ?? 0) : [];
  return [...places, ...shifts, ...translated].some((place) => place <= -OFF_SCREEN || place >= FAR_OFF_SCREEN);
}

function isClipped(style: Declarations): boolean {
  const clip = style.get("clip") ?? "";
  const path = style.get("clip-path") ?? "";
  if (/rotate[xy]\(\s*-?(?:90deg|100grad|0?\.25turn)/.test(style.get("transform") ?? "")) return true;
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

/** Of percentages and of the window, whose sizes are unknown, only zero and very large values matter. */
const PIXELS_OR_MORE: Readonly<Record<string, number>> = { ...PIXELS, "%": 8, vw: 8, vh: 8 };

/** A length in pixels; undefined if it is invalid. */
function pixels(value: string | undefined): number | undefined {
  const match = /^([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))(px|pt|pc|em|rem|ex|ch|in|cm|mm|q|%|vw|vh)?$/.exec(
    value ?? "",
  );
  if (match === null) return undefined;
  const number = Number(match[1]);
  return number * (PIXELS_OR_MORE[match[2] ?? ""] ?? 1);
}

/** The ink inside an element with these declarations. */
export function inkInside(outer: Ink, style: Declarations): Ink {
  if (style.size === 0) return outer;
  const length = (property: string) => pixels(style.get(property)) ?? 0;
  const visibility = style.get("visibility");
  const fontSize = fontSizeOf(style.get("font-size"), outer.fontSize);
  const indent = style.get("text-indent");
  const space = style.get("white-space");
  const opacity = Number.parseFloat(style.get("opacity") ?? "1") / (style.get("opacity")?.endsWith("%") ? 100 : 1);
  const left = outer.left + length("margin-left") + length("padding-left");
  const top = outer.top + length("margin-top") + length("padding-top");
  return {
    fontSize,
    lineHeight: lineHeightOf(style.get("line-height"), fontSize, outer.lineHeight),
    indent: indent === undefined ? outer.indent : (pixels(indent) ?? outer.indent),
    isUnbroken: space === undefined ? outer.isUnbroken : /^(?:nowrap|pre)$/.test(space),
    visible: visibility === undefined || visibility === "inherit" ? outer.visible : visibility === "visible",
    color: colorOf(style.get("-webkit-text-fill-color") ?? style.get("color"), outer.color),
    ground: groundInside(
      outer.ground,
      style.get("background-color"),
      style.get("background-image"),
      PLACES.map((place) => style.get(place) ?? ""),
    ),
    opacity: outer.opacity * (opacity >= 0 ? Math.min(opacity, 1) : 1),
    left,
    top,
    clip: clipOf(style, left, top, outer.clip) ?? outer.clip,
  };
}

/** True if text in this ink is readable. */
export function isReadable({ fontSize, visible, color, ground, opacity, left, indent }: Ink): boolean {
  if (!visible || fontSize < SMALLEST_TYPE || left + indent >= FAR_OFF_SCREEN) return false;
  return color !== undefined && ground !== undefined && !isAlike(color, ground, opacity);
}

/**
 * True if the text is not cut off by the boxes that it is in, as far as can be told without laying it out. Takes its room.
 * `line`: of the layout. @throws OverBudget
 */
export function takeRoom(ink: Ink, text: string, line: number, budget: Budget): boolean {
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
  clip.along += length;
  const start = indent + left - clip.left;
  if (start >= clip.width || (isUnbroken && start + clip.along > clip.width)) return false;
  const height = lineHeight[0] * (lineHeight[1] === "em" ? fontSize : 1);
  if (!isUnbroken) clip.wrapped = Math.floor(clip.along / Math.min(clip.width, LINE)) * height;
  // The middle of its last line.
  return clip.down + clip.wrapped + top - clip.top + (line - clip.line + 0.5) * height <= clip.height;
}

/** The height that an element takes, at least. `attribute`: its height in HTML. */
export function heightOf(style: Declarations, attribute = ""): number {
  const around = ["margin-top", "padding-top", "padding-bottom", "margin-bottom"];
  const own = pixels(style.get("height")) ?? (/^\d{1,4}(?:px)?$/.test(attribute) ? Number.parseFloat(attribute) : 0);
  return around.reduce((sum, property) => sum + Math.max(pixels(style.get(property)) ?? 0, 0), own);
}

const EMPTY = { line: 0, down: 0, along: 0, lastLine: 0, wrapped: 0 };

/** A box with a height or width beyond which nothing is shown. Those of tables grow. */
function clipOf(style: Declarations, left: number, top: number, outer: Clip | undefined): Clip | undefined {
  if (!isCut(style) || style.get("display")?.startsWith("table")) return undefined;
  const sizeOf = (side: string) =>
    Math.min(
      ...[style.get(side), style.get(`max-${side}`)].map(
        (value) => (value?.endsWith("%") ? undefined : pixels(value)) ?? Number.POSITIVE_INFINITY,
      ),
    );
  const [width, height] = [sizeOf("width"), sizeOf("height")];
  const isHidden = /hidden|clip/.test(`${style.get("overflow")} ${style.get("overflow-x")} ${style.get("overflow-y")}`);
  if (!isHidden && Math.min(width, height) > SCROLLABLE) return undefined;
  if (width === Number.POSITIVE_INFINITY && height === Number.POSITIVE_INFINITY) return undefined;
  return { outer, depth: outer === undefined ? 0 : outer.depth + 1, width, height, left, top, ...EMPTY };
}

const TYPE_SIZES: Record<string, number> = { "xx-small": 9, "x-small": 10, small: 13, medium: 16, large: 18 };
/** Units and words relative to the size around. */
const RELATIVE: Record<string, number> = { em: 1, "%": 0.01, ex: 0.5, ch: 0.5, smaller: 5 / 6, larger: 1.2 };

function fontSizeOf(value: string | undefined, outer: number): number {
  if (value === undefined || INHERITED.test(value)) return outer;
  const [, number = "1", unit = ""] = /^([\d.]{1,10})?(em|%|ex|ch|smaller|larger)$/.exec(value) ?? [];
  const factor = RELATIVE[unit];
  return factor === undefined ? (TYPE_SIZES[value] ?? pixels(value) ?? 16) : outer * Number(number) * factor;
}

function lineHeightOf(value: string | undefined, fontSize: number, outer: Ink["lineHeight"]): Ink["lineHeight"] {
  if (value === undefined || INHERITED.test(value)) return outer;
  if (NUMBER.test(value)) return [Number(value), "em"];
  const [, number, unit] = /^([\d.]+)(%|em)$/.exec(value) ?? [];
  if (number !== undefined) return [(Number(number) / (unit === "%" ? 100 : 1)) * fontSize, "px"];
  const length = pixels(value);
  return length === undefined ? DEFAULT_INK.lineHeight : [length, "px"];
}

const INHERITED = /^(?:inherit|unset|currentcolor|revert(?:-layer)?)$/;

function colorOf(value: string | undefined, outer: Color | undefined): Color | undefined {
  if (value === undefined || INHERITED.test(value)) return outer;
  return value === "initial" ? BLACK : knownColor(value);
}

function knownColor(value: string): Color | undefined {
  const color = parseColor(value);
  return color === "invalid" ? undefined : color;
}
