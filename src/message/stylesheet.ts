/**
 * Finds the declarations of an element in the style sheets of a mail, and decides if declarations hide its text
 * (visible.ts). Reads the rules whose selectors combine types, classes, ids and attributes as descendants, and skips
 * other rules. The message's budget pays for each comparison: a sheet that exceeds it is an attempt to evade the check.
 */
import type { Budget } from "./markup.ts";

/** The properties of an element that selectors use. */
export interface Styled {
  name: string;
  attributes: Readonly<Record<string, string>>;
  classes: ReadonlySet<string>;
}

interface Compound {
  name: string | undefined;
  id: string | undefined;
  classes: string[];
  attributes: { name: string; operator: string; value: string }[];
}

interface Rule {
  /** Outermost first; the last is the element itself. */
  compounds: Compound[];
  block: Block;
}

/** The declarations of one or several rules, parsed at the first match. */
interface Block {
  css: string;
  declarations?: readonly Declaration[];
}

const MATTERS =
  /display|visibility|opacity|font|color|background|position|transform|indent|clip|height|width|overflow|mso-hide|margin|filter/i;
/** A property name with an escape may be any property. */
const mayMatter = (css: string): boolean => MATTERS.test(css) || css.includes("\\");

/** A medium other than the window in which mail is read. A limit larger than any window excludes nothing. */
const ELSEWHERE = /print|max-(?:device-)?(?:width|height)(?!\s*:\s*(?:[2-9]\d{3}|\d{5}))|prefers-color-scheme|speech/i;
/** True if every medium in the list of an at-rule is another one. */
const isElsewhere = (prelude: string): boolean =>
  prelude.split(",").every((medium) => ELSEWHERE.test(medium) && !/\bnot\b/i.test(medium));

/** Adds the sheets' declarations for the last element of a path, which begins with the outermost. @throws OverBudget */
export type Sheet = (path: readonly Styled[], into: Map<string, string>, important: Set<string>) => void;

/** Reads the sheets of a mail; undefined if no rule in them could hide something. @throws OverBudget */
export function readSheets(html: string, budget: Budget): Sheet | undefined {
  const rules: Rule[] = [];
  for (const sheet of sheetsOf(html)) readRules(sheet, rules, budget);
  if (rules.length === 0) return undefined;
  const byKey = new Map<string, number[]>();
  for (const [index, { compounds }] of rules.entries()) {
    const key = keyOf(compounds.at(-1) as Compound);
    const indexes = byKey.get(key) ?? [];
    byKey.set(key, indexes);
    indexes.push(index);
  }
  return (path, into, important) => {
    const element = path.at(-1) as Styled;
    const lists: (readonly number[] | undefined)[] = [byKey.get("*"), byKey.get(element.name)];
    lists.push(byKey.get(`#${element.attributes.id ?? ""}`));
    for (const name of element.classes) lists.push(byKey.get(`.${name}`));
    const found = lists.filter((list) => list !== undefined);
    budget.spend(10 * lists.length);
    // In the order of the sheets.
    for (const index of found.length > 1 ? sorted(found, budget) : (found[0] ?? [])) {
      const { compounds, block } = rules[index] as Rule;
      if (!matches(compounds, path, budget)) continue;
      block.declarations ??= readDeclarations(block.css, budget);
      declare(block.declarations, into, important, budget);
    }
  };
}

function sorted(lists: readonly (readonly number[])[], budget: Budget): number[] {
  const all = lists.flat();
  budget.spend(50 * all.length);
  return all.sort((one, other) => one - other);
}

const keyOf = ({ id, classes, name }: Compound): string =>
  id !== undefined ? `#${id}` : classes[0] !== undefined ? `.${classes[0]}` : (name ?? "*");

/** Contents of the style elements. Those inside comments target a single program and are skipped. Linear time. */
function sheetsOf(html: string): string[] {
  const sheets: string[] = [];
  const start = /<!--|<style(?=[\s>/])/gi;
  for (let match = start.exec(html); match !== null; match = start.exec(html)) {
    const isComment = match[0] === "<!--";
    const open = isComment ? match.index : html.indexOf(">", match.index);
    const end = isComment ? /-->/g : /<\/style/gi;
    end.lastIndex = open < 0 ? html.length : open;
    const close = end.exec(html);
    if (!isComment && open >= 0) sheets.push(html.slice(open + 1, close?.index ?? html.length));
    if (close === null) break;
    start.lastIndex = close.index + 1;
  }
  return sheets;
}

function readRules(sheet: string, rules: Rule[], budget: Budget): void {
  budget.spend(sheet.length);
  const css = sheet.replace(/<!--|-->/g, " ").replace(/\/\*.*?(?:\*\/|$)/gs, " ");
  /** For each open at-rule: true if it applies elsewhere. Then the number of those that do. */
  const open: boolean[] = [];
  let elsewhere = 0;
  let position = 0;
  const next = /[{};]/g;
  for (let mark = next.exec(css); mark !== null; mark = next.exec(css)) {
    const prelude = css.slice(position, mark.index).trim();
    position = mark.index + 1;
    if (mark[0] === "}" && open.pop()) elsewhere--;
    if (mark[0] !== "{") continue;
    if (prelude.startsWith("@")) {
      const isOther = !/^@(?:media|supports|layer|container)/i.test(prelude) || isElsewhere(prelude);
      open.push(isOther);
      if (isOther) elsewhere++;
      continue;
    }
    const close = css.indexOf("}", position);
    const block: Block = { css: css.slice(position, close < 0 ? css.length : close) };
    position = close < 0 ? css.length : close + 1;
    next.lastIndex = position;
    if (elsewhere > 0 || !mayMatter(block.css)) continue;
    const list = prelude.replace(IS_ONE, "$1").replace(TAKEN_AS_MET, MET);
    for (const selector of list.split(",")) {
      budget.spend(300 + 4 * selector.length);
      const compounds = parseSelector(selector.trim());
      if (compounds !== undefined) rules.push({ compounds, block });
    }
  }
}

const COMBINATOR = /\s*>\s*|\s+/y;
const SIMPLE =
  /([.#]?)((?:[\w\u0080-\uffff-]|\\.)+)|(\*)|\[\s*([\w-]+)\s*(?:([~|^$*]?=)\s*(?:"([^"]*)"|'([^']*)'|([^\]\s]+))\s*(?:i\s*)?)?\]/y;

/** Conditions on an element's position or negation. They count as met, because otherwise they would evade the check. */
const TAKEN_AS_MET =
  /:(?:root|link|any-link|(?:first|last|only)-(?:child|of-type)|(?:nth-(?:last-)?(?:child|of-type)|not|is|where|has|lang)\([^()]*\))/gi;
/** Stands for one of these conditions. Their commas must go before a list of selectors is split. */
const MET = "\u0001";
const IS_ONE = /:(?:is|where)\(\s*([.#][\w-]+)\s*\)/gi;

/** Linear time: each match begins where the previous one ended. */
function parseSelector(given: string): Compound[] | undefined {
  const selector = given.replaceAll(MET, "").trim() || (given === "" ? "" : "*");
  if (selector === "") return undefined;
  const compounds: Compound[] = [];
  let position = 0;
  while (position < selector.length) {
    const compound: Compound = { name: undefined, id: undefined, classes: [], attributes: [] };
    const start = position;
    for (SIMPLE.lastIndex = position; position < selector.length; position = SIMPLE.lastIndex) {
      const match = SIMPLE.exec(selector);
      if (match === null) break;
      const [, kind, word = "", , attribute, operator = "", ...values] = match;
      if (attribute !== undefined) {
        const value = unescapeCss(values.find((one) => one !== undefined) ?? "");
        compound.attributes.push({ name: attribute.toLowerCase(), operator, value });
      } else if (kind === ".") compound.classes.push(unescapeCss(word));
      else if (kind === "#") compound.id = unescapeCss(word);
      else if (word !== "") compound.name = unescapeCss(word).toLowerCase();
    }
    if (position === start) return undefined;
    compounds.push(compound);
    if (position === selector.length) break;
    COMBINATOR.lastIndex = position;
    if (!COMBINATOR.test(selector) || COMBINATOR.lastIndex === selector.length) return undefined;
    position = COMBINATOR.lastIndex;
  }
  return compounds;
}

/** The last compound matches the element, and the others match some of its ancestors in order. */
function matches(compounds: readonly Compound[], path: readonly Styled[], budget: Budget): boolean {
  let at = path.length - 1;
  if (!fits(compounds.at(-1) as Compound, path[at] as Styled, budget)) return false;
  for (let index = compounds.length - 2; index >= 0; index--) {
    do at--;
    while (at >= 0 && !fits(compounds[index] as Compound, path[at] as Styled, budget));
    if (at < 0) return false;
  }
  return true;
}

function fits(compound: Compound, { name, attributes, classes }: Styled, budget: Budget): boolean {
  budget.spend(10);
  if (compound.name !== undefined && compound.name !== name) return false;
  if (compound.id !== undefined && compound.id !== attributes.id) return false;
  for (const one of compound.classes) {
    budget.spend(5);
    if (!classes.has(one)) return false;
  }
  for (const one of compound.attributes) if (!hasAttribute(attributes, one, budget)) return false;
  return true;
}

function hasAttribute(
  attributes: Readonly<Record<string, string>>,
  { name, operator, value }: Compound["attributes"][number],
  budget: Budget,
): boolean {
  budget.spend(10);
  if (!Object.hasOwn(attributes, name)) return false;
  const actual = attributes[name] ?? "";
  if (operator === "") return true;
  budget.spend(operator === "~=" ? 4 * actual.length : (actual.length + value.length) / 4);
  switch (operator) {
    case "~=":
      return actual.split(/\s+/).includes(value);
    case "^=":
      return actual.startsWith(value);
    case "$=":
      return actual.endsWith(value);
    case "*=":
      return actual.includes(value);
    case "|=":
      return actual === value || actual.startsWith(`${value}-`);
    default:
      return actual === value;
  }
}

/*
 * Decides whether declarations hide text. Text of 1 px, or of nearly the colour of its ground, counts as hidden,
 * because it is not legible.
 */

/** Declarations by property, lower case. */
export type Declarations = ReadonlyMap<string, string>;

/** The properties that text inherits and that an inner element may override. */
export interface Ink {
  /** Pixels. */
  fontSize: number;
  /** `visibility` is not hidden. */
  visible: boolean;
  /** Undefined if it cannot be determined, as over an image. */
  color: Color | undefined;
  ground: Color | undefined;
}

type Color = readonly [red: number, green: number, blue: number];

const WHITE: Color = [255, 255, 255];
export const DEFAULT_INK: Ink = { fontSize: 16, visible: true, color: [0, 0, 0], ground: WHITE };

/** Smallest readable type, in pixels. */
const SMALLEST_TYPE = 2;
/** Largest difference in each channel between colours that look alike. */
const ALIKE = 16;
/** Distances beyond any window, in pixels. */
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

/** The properties that the rest of this file and visible.ts use. */
const READ = new Set(
  (
    "display visibility opacity color background background-color background-image font font-size position left top right " +
    "bottom inset margin margin-left margin-top margin-right margin-bottom transform translate scale zoom clip clip-path " +
    "-webkit-clip-path -webkit-text-fill-color content-visibility mso-hide filter height width max-height max-width " +
    "overflow overflow-x overflow-y letter-spacing text-indent"
  ).split(" "),
);

/** The declarations of a style attribute or rule that can hide text, in order. @throws OverBudget */
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
    // The last one counts, and an important one is kept beside it.
    declarations.set(`${property} ${isImportant}`, { property, value: value.trim(), isImportant });
  }
  return [...declarations.values()];
}

/** Adds declarations to `into`: later ones override, important ones override all others. @throws OverBudget */
export function declare(
  declarations: readonly Declaration[],
  into: Map<string, string>,
  important: Set<string>,
  budget: Budget,
): void {
  for (const { property, value, isImportant } of declarations) {
    // Several regular expressions will scan the value.
    budget.spend(20 + value.length);
    if (important.has(property) && !isImportant) continue;
    if (isImportant) important.add(property);
    into.set(property, value);
  }
}

/** CSS Syntax 3 §4.3.7. */
function unescapeCss(text: string): string {
  if (!text.includes("\\")) return text;
  return text.replace(/\\([0-9a-f]{1,6})\s?|\\(.)/gi, (_, hex: string | undefined, character: string | undefined) => {
    if (hex === undefined) return character ?? "";
    const point = Number.parseInt(hex, 16);
    return point > 0 && point <= 0x10ffff ? String.fromCodePoint(point) : "";
  });
}

/** True if everything inside the element is invisible, whatever its descendants declare. */
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

/** A length in pixels; undefined if it is invalid or depends on the window. */
function pixels(value: string | undefined): number | undefined {
  const match = /^([+-]?(?:\d{1,9}(?:\.\d{0,9})?|\.\d{1,9}))(px|pt|pc|em|rem|ex|ch|in|cm|mm|%|vw|vh)?$/.exec(
    value ?? "",
  );
  if (match === null) return undefined;
  const number = Number(match[1]);
  // Percentages of an unknown size: only zero and very large values matter.
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

/** True if text in this ink is readable. */
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
  // Transparent text shows the ground behind it.
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

/** System colours in the light theme, which mail is designed for. */
const OF_THE_SYSTEM: Record<string, Color> = { canvas: WHITE, window: WHITE, field: WHITE };

/** The colour of a value in lower case; undefined if it depends on the rest of the page. */
function parseColor(value: string): Color | "transparent" | undefined {
  if (Object.hasOwn(OF_THE_SYSTEM, value)) return OF_THE_SYSTEM[value];
  // Attributes may leave out the number sign (HTML §2.3.6).
  const color = Bun.color(/^[0-9a-f]{3,8}$/.test(value) ? `#${value}` : value, "[rgba]");
  if (!Array.isArray(color)) return undefined;
  const [red, green, blue, alpha] = color;
  return alpha < 16 ? "transparent" : [red, green, blue];
}
