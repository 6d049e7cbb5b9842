/**
 * Removes from the HTML of mail the text that its reader does not see, and lays out the rest as text: of no size, in the colour of its ground, outside
 * the window, not displayed. Text that is hidden from people is kept from models too, which would take it for part of
 * the message. Chooses between the text of the visible HTML and the text part for a model (seenText).
 *
 * Expects HTML as received: sanitised HTML has lost its style sheets and the declarations that hide text. HTML that is
 * too large, or costs more than the message's budget, counts as hidden; otherwise a sender could evade the check by
 * adding tags.
 */
import { createLayout, NO_TEXT } from "./layout.ts";
import { type Budget, createBudget, isTooLarge, type Reader, readMarkup } from "./markup.ts";
import {
  DEFAULT_INK,
  type Declaration,
  type Declarations,
  declare,
  hidesAll,
  type Ink,
  inkInside,
  isReadable,
  readDeclarations,
  readSheets,
  type Sheet,
  type Styled,
} from "./stylesheet.ts";

export interface VisibleHtml {
  html: string;
  /** The same, laid out as text. */
  text: string;
  /** Characters of text that were left out, without spaces and zero-width ones. */
  hidden: number;
}

interface Open extends Styled {
  ink: Ink;
  /** Everything inside is invisible, whatever its descendants declare. */
  hides: boolean;
  /** Its own declarations make its text invisible. */
  conceals: boolean;
  /** Formatting elements do not continue across its boundaries. */
  isMarker: boolean;
}

/**
 * Elements that continue past the end of an enclosing element until their own end tag (HTML §13.2.4.3, the list of
 * active formatting elements): in `<li><s>a</li>b</s>` both letters are struck out.
 */
const FORMATTING = new Set("a b big code em font i nobr s small strike strong tt u".split(" "));
/** The markers of that list: formatting does not continue into or out of these elements. */
const MARKERS = new Set(["applet", "marquee", "object", "template"]);
/** Markers only inside a table; elsewhere browsers ignore these tags. */
const CELLS = new Set(["caption", "td", "th"]);
const END_TAGS = /<\/([a-z][^\s/>]*)[^>]*/gi;

/** Elements whose content is for programs without support for them, or is shown only on request. */
const NOT_SHOWN = new Set(["video", "audio", "canvas", "datalist", "noembed", "noframes", "dialog"]);
const NOT_COUNTED = /[\s\p{DI}\u2800]+/gu;
/** Images this small are tracking pixels; their description is hidden as well. */
const SMALLEST_IMAGE = 2;

/** The HTML without its hidden text. Never throws: HTML that cannot be followed counts as hidden. */
export const visibleHtml = (html: string, budget: Budget = createBudget()): VisibleHtml =>
  followHtml(html, budget) ?? { html: "", text: "", hidden: html.replace(NOT_COUNTED, "").length };

/** The same; undefined if it cannot be followed, because it is too large or exceeds the budget. */
export function followHtml(html: string, budget: Budget): VisibleHtml | undefined {
  if (budget.visible.has(html)) return budget.visible.get(html);
  const visible = readVisible(html, budget);
  budget.visible.set(html, visible);
  return visible;
}

function readVisible(html: string, budget: Budget): VisibleHtml | undefined {
  if (isTooLarge(html)) return undefined;
  try {
    const walk = startWalk(html, budget);
    readMarkup(html, budget, walk);
    return walk.finish();
  } catch {
    return undefined;
  }
}

const NO_CLASSES: ReadonlySet<string> = new Set();
const NO_ATTRIBUTES = {};

function startWalk(html: string, budget: Budget): Reader & { finish(): VisibleHtml } {
  const sheet = readSheets(html, budget);
  const looks = createLooks(sheet, budget);
  const layout = createLayout(budget);
  const path: Open[] = [];
  const kept: string[] = [];
  let copied = 0;
  let hidden = 0;
  /** Number of open elements that hide their content. */
  let hiding = 0;
  let hiddenFrom = 0;
  /** Number of open elements whose content is no text, and does not count as hidden. */
  let textless = 0;
  let tables = 0;
  /** For each open marker: how many hiding elements, by name, continue past an end tag of another element. */
  const continuing: Map<string, number>[] = [new Map()];
  /** Offset up to which the parser has reported everything, except end tags without an open element. */
  let reported = 0;

  function leaveOut(from: number, to: number): void {
    if (to <= copied) return;
    if (from > copied) kept.push(html.slice(copied, from));
    copied = to;
  }

  function end(name: string): void {
    const here = continuing.at(-1);
    const left = (here?.get(name) ?? 0) - 1;
    if (left > 0) here?.set(name, left);
    else here?.delete(name);
  }

  function pass(from: number, to: number): void {
    if (from > reported && isContinued()) {
      for (const [, name = ""] of html.slice(reported, from).matchAll(END_TAGS)) end(name.toLowerCase());
    }
    reported = Math.max(reported, to);
  }

  const isContinued = (): boolean => continuing.at(-1)?.size !== 0;
  const isConcealed = (): boolean => isContinued() || !isReadable(path.at(-1)?.ink ?? DEFAULT_INK);

  /** Finds what the declarations of the last element of the path do to it. `from`: where its tag begins. */
  function look(element: Open, from: number): void {
    const { name, attributes, ink: outer } = element;
    const { style, hides } = looks(path);
    element.ink = inkInside(outer, style);
    if (hides || hidesItself(name, attributes) || (name === "img" && isTiny(attributes, style))) {
      element.hides = true;
      if (hiding++ === 0) hiddenFrom = from;
      if (name === "img") hidden += (attributes.alt ?? "").replace(NOT_COUNTED, "").length;
    }
    element.conceals = element.hides || (style.size > 0 && !isReadable(element.ink));
  }

  return {
    pass,
    open(name: string, attributes: Record<string, string>, from: number, to: number): void {
      pass(from, to);
      if (NO_TEXT.has(name)) textless++;
      if (name === "table") tables++;
      const isMarker = MARKERS.has(name) || (tables > 0 && CELLS.has(name));
      if (isMarker) continuing.push(new Map());
      // A new one ends those before it (HTML §13.2.6.4.7).
      if (name === "a" || name === "nobr") continuing.at(-1)?.delete(name);
      // The cost of its attributes covers splitting the class names.
      const classes = sheet === undefined ? NO_CLASSES : classesOf(attributes.class);
      const outer = path.at(-1)?.ink ?? DEFAULT_INK;
      const element: Open = { name, attributes, classes, ink: outer, hides: false, conceals: false, isMarker };
      path.push(element);
      if (sheet !== undefined || !isPlain(attributes) || name === "a" || NOT_SHOWN.has(name)) look(element, from);
      if (hiding > 0) return;
      // The target of a link would appear in place of its text, and so would the description of an image.
      const isLeftOut = (name === "img" && isContinued()) || (name === "a" && isConcealed());
      if (isLeftOut) leaveOut(from, to);
      layout.open(name, isLeftOut ? NO_ATTRIBUTES : attributes);
    },
    text(text: string, from: number, to: number): void {
      pass(from, to);
      const isSeen = hiding === 0 && !isConcealed();
      const characters = isSeen || textless > 0 ? 0 : text.replace(NOT_COUNTED, "").length;
      hidden += characters;
      if (hiding > 0) return;
      // Spaces stay, because they separate the words around them.
      if (characters > 0) leaveOut(from, to);
      else layout.text(text);
    },
    close(name: string, isImplied: boolean, from: number, to: number): void {
      pass(from, to);
      if (NO_TEXT.has(name)) textless--;
      if (name === "table") tables--;
      const element = path.pop();
      if (element?.isMarker) continuing.pop();
      if (hiding === 0) layout.close(name);
      // A tag that implicitly closes the element stays, unless it is a void element's own tag.
      if (element?.hides && --hiding === 0) leaveOut(hiddenFrom, isImplied && from !== hiddenFrom ? from : to);
      if (isImplied && element?.conceals && FORMATTING.has(name)) {
        const here = continuing.at(-1);
        here?.set(name, (here.get(name) ?? 0) + 1);
      }
    },
    finish: (): VisibleHtml => ({
      html: copied === 0 ? html : kept.join("") + html.slice(copied),
      text: layout.finish(),
      hidden,
    }),
  };
}

const classesOf = (names = ""): ReadonlySet<string> => new Set(names.split(/\s+/).filter((name) => name !== ""));

/** The declarations of an element, and whether they hide it. */
interface Look {
  style: Declarations;
  hides: boolean;
}

/** Returns the look of the last element of a path. Equal style attributes are parsed once. */
function createLooks(sheet: Sheet | undefined, budget: Budget): (path: readonly Styled[]) => Look {
  const read = new Map<string, readonly Declaration[]>();
  const looks = new Map<string, Look>();

  const declarationsIn = (css: string): readonly Declaration[] => {
    const declarations = read.get(css) ?? readDeclarations(css, budget);
    read.set(css, declarations);
    return declarations;
  };

  function lookOf(path: readonly Styled[]): Look {
    const { name, attributes } = path.at(-1) as Styled;
    const style = new Map(hintsOf(name, attributes));
    const declared = new Map<string, string>();
    const important = new Set<string>();
    sheet?.(path, declared, important);
    if (attributes.style !== undefined) declare(declarationsIn(attributes.style), declared, important, budget);
    for (const [property, value] of declared) style.set(property, value);
    budget.spend(100);
    return { style, hides: hidesAll(style) };
  }

  return (path) => {
    const { name, attributes } = path.at(-1) as Styled;
    const { style = "", color, bgcolor, background } = attributes;
    const hasHints = name === "body" || color !== undefined || bgcolor !== undefined || background !== undefined;
    if (sheet !== undefined || hasHints) return lookOf(path);
    const key = name === "a" && attributes.href !== undefined ? `a ${style}` : style;
    const look = looks.get(key) ?? lookOf(path);
    looks.set(key, look);
    return look;
  };
}

const hidesItself = (name: string, attributes: Record<string, string>): boolean =>
  Object.hasOwn(attributes, "hidden") ||
  Object.hasOwn(attributes, "popover") ||
  (NOT_SHOWN.has(name) && !(name === "dialog" && Object.hasOwn(attributes, "open")));

const isPlain = (attributes: Record<string, string>): boolean =>
  attributes.style === undefined &&
  attributes.color === undefined &&
  attributes.bgcolor === undefined &&
  attributes.background === undefined &&
  attributes.text === undefined &&
  attributes.hidden === undefined &&
  attributes.popover === undefined &&
  attributes.width === undefined;

/** Declarations from presentational attributes, which any CSS declaration overrides (HTML §15.3). */
function hintsOf(name: string, { color, bgcolor, background, text, href }: Record<string, string>): [string, string][] {
  const hints: [string, string][] = [];
  if (name === "a" && href !== undefined) hints.push(["color", "blue"]);
  if (color !== undefined) hints.push(["color", color.toLowerCase().trim()]);
  if (name === "body" && text !== undefined) hints.push(["color", text.toLowerCase().trim()]);
  if (bgcolor !== undefined) hints.push(["background-color", bgcolor.toLowerCase().trim()]);
  if (background !== undefined) hints.push(["background-image", "url()"]);
  return hints;
}

function isTiny(attributes: Record<string, string>, style: ReadonlyMap<string, string>): boolean {
  return (["width", "height"] as const).some((side) => {
    const size = Number.parseFloat(style.get(side) ?? attributes[side] ?? "");
    return size <= SMALLEST_IMAGE && !/%\s*$/.test(style.get(side) ?? attributes[side] ?? "");
  });
}

/*
 * The text of a message as its reader sees it, for a model. People are shown the HTML if there is one, so the text part
 * is used only if it says the same. Hidden text and a deviating text part therefore never reach a model.
 */

export interface SeenText {
  text: string;
  /** Characters of the HTML that its reader does not see, and that are left out. */
  hidden: number;
  /** The text comes from the HTML, because the text part lacks its links or says what the HTML does not show. */
  fromHtml: boolean;
}

/** Version of the rules in this file, stored beside the result, so that stored text can be derived anew. */
export const SEEN_VERSION = 2;

/**
 * Words of the text part that the HTML may lack, such as "view in browser": a share of them, or fewer than this number.
 */
const OTHER_WORDS = 0.1;
const FEW_WORDS = 8;
/** Longer texts are not compared with their HTML; the HTML is used. */
const MAX_COMPARED = 256 * 1024;

/** The text for a model. `text`: as stored; `html`: as received, if there is any. Links become `text <https://…>`. */
export function seenText(text: string, html: string | undefined, budget: Budget = createBudget()): SeenText {
  if (html === undefined) return { text, hidden: 0, fromHtml: false };
  const { text: shown, hidden } = visibleHtml(html, budget);
  const isEmpty = shown.trim() === "";
  if (hidden === 0 && (isEmpty || saysNoMore(text, shown))) return { text, hidden: 0, fromHtml: false };
  return { text: shown, hidden, fromHtml: text !== shown };
}

/** True if `text` has the links of `shown` and, with few exceptions, only its words. */
function saysNoMore(text: string, shown: string): boolean {
  if (text === shown) return true;
  if (text.length > MAX_COMPARED || shown.length > MAX_COMPARED) return false;
  const links = linksIn(text);
  for (const link of linksIn(shown)) if (!links.has(link)) return false;
  const seen = wordsIn(shown);
  const words = wordsIn(text);
  let others = 0;
  for (const word of words) if (!seen.has(word)) others++;
  return others < FEW_WORDS || others <= words.size * OTHER_WORDS;
}

const linksIn = (text: string): Set<string> =>
  new Set(
    Array.from(text.matchAll(/https?:\/\/[^\s<>"]+/gi), ([link]) =>
      link.replace(/(?<![/.,;:!?)\]])[/.,;:!?)\]]+$/, ""),
    ),
  );

const wordsIn = (text: string): Set<string> =>
  new Set(Array.from(text.toLowerCase().matchAll(/[\p{L}\p{N}]+/gu), ([word]) => word));
