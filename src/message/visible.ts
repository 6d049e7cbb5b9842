/**
 * Removes from the HTML of mail the text that its reader does not see (of no size, in the colour of its ground, outside the
 * window, not displayed), and lays out the rest as text. Text that is hidden from people is kept from models too, which would
 * take it for part of the message. Chooses between the text of the visible HTML and the text part for a model (visibleTextForModel).
 *
 * There are two readers: one sees the HTML as received, the other as the app shows it (sanitize.ts), each with its style
 * sheets. Text that either does not see is hidden.
 *
 * Expects HTML as received: sanitised HTML has lost the images behind text, and what positions it. HTML that is too large, or
 * costs more than the message's budget, counts as hidden; otherwise a sender could evade the check by adding tags.
 */

import { type Customs, cascadeCssDeclarations, type Matched, NO_CUSTOMS } from "./cascade.ts";
import { legacyColor } from "./color.ts";
import { type Declaration, type Declarations, readDeclarations } from "./declarations.ts";
import { hidesAll } from "./hiding.ts";
import {
  computeTextAppearance,
  DEFAULT_INK,
  estimateElementHeight,
  type Ink,
  isBehindBackground,
  isTextReadable,
  placeTextInBoxes,
  widthInside,
} from "./ink.ts";
import { createTextLayout, NO_TEXT } from "./layout.ts";
import { type Budget, createHtmlBudget, isHtmlTooLarge, type Reader, readMarkup } from "./markup.ts";
import type { Styled } from "./match.ts";
import { DROPPED_WITH_CONTENT, isHtmlHeadTag, MAX_DEPTH, sanitizeAttributes } from "./sanitize.ts";
import { findHidingDeclarations, type Hiding, readHidingStyleSheets, type Sheet } from "./stylesheet.ts";

export interface VisibleHtml {
  html: string;
  /** The text of `html`. */
  text: string;
  /** Characters of text that were left out, without spaces and zero-width ones. */
  hidden: number;
}

/** Inks for both readers: of the HTML as received, and as shown. */
type Inks = readonly [received: Ink, shown: Ink];

interface Open extends Styled {
  parent: Open | undefined;
  inks: Inks;
  /** Inks of text before the table that the element is a part of; undefined outside of tables, and in cells. */
  before: Inks | undefined;
  /** Its own declarations, for each reader. */
  styles: readonly [Declarations, Declarations];
  customsShown: Customs;
  /** The last one inside of it so far. */
  last: Open | undefined;
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
/**
 * Tables and their parts, by depth. Browsers ignore parts outside of tables, end others of the same depth at one, and put in
 * front of a table what is inside of it, but in no cell (HTML §13.2.6.4.9).
 */
const TABLES = new Map<string | undefined, number>([
  ["table", 1],
  ...["caption", "colgroup", "tbody", "tfoot", "thead"].map((name) => [name, 2] as const),
  ...["col", "tr"].map((name) => [name, 3] as const),
  ...["td", "th"].map((name) => [name, 4] as const),
]);
const isPart = (name?: string): boolean => (TABLES.get(name) ?? 1) > 1;
const END_TAGS = /<\/([a-z][^\s/>]*)[^>]*/gi;

/** Elements whose content is for programs without support for them, is shown only on request, or is not shown by the app. */
const NOT_SHOWN = new Set(["dialog", "rp", ...DROPPED_WITH_CONTENT.filter((name) => !NO_TEXT.has(name))]);
/** Elements that have a look of their own. */
const HINTED = new Set("a body font mark nobr small sub sup".split(" "));
const COLORED_GROUNDS = new Set("body table thead tbody tfoot tr td th".split(" "));
const NOT_COUNTED = /[\s\p{DI}\u2800]+/gu;
/** Images this small are tracking pixels; their description is hidden as well. */
const SMALLEST_IMAGE = 2;

/** The HTML without its hidden text. Never throws: HTML that cannot be followed counts as hidden. */
export const visibleHtml = (html: string, budget: Budget = createHtmlBudget()): VisibleHtml =>
  findVisibleHtml(html, budget) ?? { html: "", text: "", hidden: html.replace(NOT_COUNTED, "").length };

/**
 * Returns the HTML without its hidden text; undefined if it cannot be followed, because it is too large or exceeds the budget.
 */
export function findVisibleHtml(html: string, budget: Budget): VisibleHtml | undefined {
  if (budget.visible.has(html)) return budget.visible.get(html);
  const visible = readVisible(html, budget);
  budget.visible.set(html, visible);
  return visible;
}

function readVisible(html: string, budget: Budget): VisibleHtml | undefined {
  if (isHtmlTooLarge(html)) return undefined;
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
const NO_STYLES: Open["styles"] = [new Map(), new Map()];
const DEFAULT_INKS: Inks = [DEFAULT_INK, DEFAULT_INK];
/** Width in pixels of the part of a window that shows mail. */
const WINDOW = 800;

function startWalk(html: string, budget: Budget): Reader & { finish(): VisibleHtml } {
  const sheet = readHidingStyleSheets(html, budget);
  const looks = createLooks(sheet, findHidingDeclarations(html, budget), budget);
  const layout = createTextLayout(budget);
  const path: Open[] = [];
  const remaining: string[] = [];
  let copied = 0;
  let hidden = 0;
  /** Number of open elements that hide their content. */
  let hiding = 0;
  let hiddenFrom = 0;
  /** Number of open elements whose content is no text, and does not count as hidden. */
  let textless = 0;
  let tables = 0;
  /** No tag so far but those of a head. */
  let isHead = true;
  /** The elements that every document has, of those so far. */
  const entered = new Set<string>();
  /** Number of hiding elements, by name, that continue past an end tag of another element, for each open marker. */
  const continuing: Map<string, number>[] = [new Map()];
  /** The last element that is in no other one. */
  let last: Open | undefined;
  /** Offset up to which the parser has reported everything, except end tags without an open element. */
  let reported = 0;

  function leaveOut(from: number, to: number): void {
    if (to <= copied) return;
    if (from > copied) remaining.push(html.slice(copied, from));
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

  /** The inks around text inside the last element of the path. */
  function inksOfText(): Inks {
    const { inks = DEFAULT_INKS, before } = path.at(-1) ?? {};
    return before ?? inks;
  }

  /** The inks around an element inside the last element of the path, and those in front of its table. */
  function inksAround(name: string): Pick<Open, "inks" | "before"> {
    const depth = TABLES.get(name);
    if (depth === undefined || tables === 0) return { inks: inksOfText(), before: undefined };
    if (depth === 1) return { inks: inksOfText(), before: inksOfText() };
    const at = path.findLastIndex((element) => (TABLES.get(element.name) ?? depth) < depth);
    budget.spend(20 * (path.length - at));
    let [received, shown] = path[at]?.inks ?? DEFAULT_INKS;
    // Formatting goes on in the part.
    for (const { name, styles } of path.slice(at + 1)) {
      if (FORMATTING.has(name))
        [received, shown] = [computeTextAppearance(received, styles[0]), computeTextAppearance(shown, styles[1])];
    }
    return { inks: [received, shown], before: CELLS.has(name) ? undefined : path[at]?.before };
  }

  const isConcealed = (): boolean => isContinued() || !inksOfText().every(isTextReadable);

  /** An element that comes next inside of the last one of the path. */
  function createOpenElement(name: string, attributes: Record<string, string>, isMarker: boolean): Open {
    const parent = path.at(-1);
    const previous = parent === undefined ? last : parent.last;
    const element: Open = {
      name,
      attributes,
      // The cost of its attributes covers splitting the class names.
      classes: sheet === undefined ? NO_CLASSES : splitClassNames(attributes.class),
      parent,
      // Nobody asks without a sheet.
      previous: sheet === undefined ? undefined : previous,
      // Every document has a head before its body.
      place: name === "body" ? 2 : (previous?.place ?? 0) + 1,
      style: NO_STYLES[0],
      styles: NO_STYLES,
      customs: parent?.customs ?? NO_CUSTOMS,
      customsShown: parent?.customsShown ?? NO_CUSTOMS,
      width: parent?.width ?? WINDOW,
      last: undefined,
      ...inksAround(name),
      hides: false,
      conceals: false,
      isMarker,
    };
    if (parent === undefined) last = element;
    else parent.last = element;
    return element;
  }

  /** Finds what the declarations of the last element of the path do to it. `from`: where its tag begins. */
  function look(element: Open, from: number): void {
    const { name, attributes, inks: outer, parent } = element;
    const both = looks(path, tables, isHead);
    const [received, shown] = both;
    const isPage = name === "html" || name === "body";
    const standing = ([0, 1] as const).map((n) => ({
      isPage,
      isInline: isInline(name, both[n].style, parent?.styles[n]),
    }));
    element.inks = [
      computeTextAppearance(outer[0], received.style, standing[0]),
      computeTextAppearance(outer[1], shown.style, standing[1]),
    ];
    element.styles = [received.style, shown.style];
    element.style = received.style;
    [element.customs, element.customsShown] = [received.customs, shown.customs];
    element.width = widthInside(received.style, attributes.width, element.width);
    const isSmall = () => isTiny(attributes, received.style) || isTiny(attributes, shown.style);
    const isHidden = both.some(
      ({ style }, n) => hidesAll(style, standing[n]) || isBehindBackground(style, outer[n] as Ink),
    );
    if (isHidden || hidesItself(name, attributes) || (name === "img" && isSmall())) {
      element.hides = true;
      if (hiding++ === 0) hiddenFrom = from;
      if (name === "img") hidden += (attributes.alt ?? "").replace(NOT_COUNTED, "").length;
    }
    element.conceals =
      element.hides || (received.style.size + shown.style.size > 0 && !element.inks.every(isTextReadable));
  }

  /**
   * Every document has these elements, and sheets may choose them, whether their tags are written or not. `name`: of the tag that
   * comes next; undefined for text.
   */
  function enter(name: string | undefined, from: number): void {
    if (sheet === undefined || entered.size === 2) return;
    const isInBody = name === undefined || !(isHtmlHeadTag(name) || name === "body");
    for (const [around, isDue] of [
      ["html", name !== "html"],
      ["body", isInBody],
    ] as const) {
      if (!isDue || name === around || entered.has(around)) continue;
      entered.add(around);
      const element = createOpenElement(around, NO_ATTRIBUTES, false);
      path.push(element);
      look(element, from);
    }
    if (name === "html" || name === "body") entered.add(name);
  }

  /** True if the boxes around the text have room for it. */
  function isInside(text: string): boolean {
    const [received, shown] = inksOfText();
    const isRoom = placeTextInBoxes(received, text, layout.lines, budget);
    return placeTextInBoxes(shown, text, layout.lines, budget) && isRoom;
  }

  return {
    pass,
    open(name: string, attributes: Record<string, string>, from: number, to: number): void {
      pass(from, to);
      enter(name, from);
      if (NO_TEXT.has(name)) textless++;
      if (name === "table") tables++;
      const isMarker = MARKERS.has(name) || (tables > 0 && CELLS.has(name));
      if (isMarker) continuing.push(new Map());
      // A new one ends those before it (HTML §13.2.6.4.7).
      if (name === "a" || name === "nobr") continuing.at(-1)?.delete(name);
      const element = createOpenElement(name, attributes, isMarker);
      const { inks: outer } = element;
      path.push(element);
      if (sheet !== undefined || !isPlain(attributes) || HINTED.has(name) || NOT_SHOWN.has(name)) look(element, from);
      isHead &&= isHtmlHeadTag(name);
      if (hiding > 0) return;
      // The target of a link would appear in place of its text, and so would the description of an image.
      const isLeftOut = (name === "img" && isContinued()) || (name === "a" && isConcealed());
      if (isLeftOut) leaveOut(from, to);
      layout.open(name, isLeftOut ? NO_ATTRIBUTES : attributes);
      for (const [index, { clip }] of element.inks.entries()) {
        if (clip !== undefined && clip !== outer[index]?.clip) clip.line = clip.lastLine = layout.lines;
      }
    },
    text(text: string, from: number, to: number): void {
      pass(from, to);
      if (textless === 0 && /\S/.test(text)) enter(undefined, from);
      const isSeen = hiding === 0 && !isConcealed() && isInside(text);
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
      if (hiding === 0 && element !== undefined) {
        const [received, shown] = inksOfText();
        if (received.clip) received.clip.down += estimateElementHeight(element.styles[0], element.attributes.height);
        if (shown.clip) shown.clip.down += estimateElementHeight(element.styles[1], element.attributes.height);
      }
      // A tag that implicitly closes the element stays, unless it is a void element's own tag.
      if (element?.hides && --hiding === 0) leaveOut(hiddenFrom, isImplied && from !== hiddenFrom ? from : to);
      if (isImplied && element?.conceals && FORMATTING.has(name)) {
        const here = continuing.at(-1);
        here?.set(name, (here.get(name) ?? 0) + 1);
      }
    },
    finish(): VisibleHtml {
      // Of a body whose tag is not written.
      if (hiding > 0) leaveOut(hiddenFrom, html.length);
      return { html: copied === 0 ? html : remaining.join("") + html.slice(copied), text: layout.finish(), hidden };
    },
  };
}

const splitClassNames = (names = ""): ReadonlySet<string> => new Set(names.split(/\s+/).filter((name) => name !== ""));

/** The declarations of an element, and its custom properties. */
interface Look {
  style: Declarations;
  customs: Customs;
}

/** Elements that have boxes of their own by default; of others, only the text inside is seen. */
const BOXES = new Set(
  (
    "address article aside blockquote body button caption center dd details dialog dir div dl dt fieldset figcaption figure footer form " +
    "h1 h2 h3 h4 h5 h6 header hgroup hr html img input legend li listing main marquee menu nav ol optgroup option p plaintext pre search " +
    "section select summary table tbody td textarea tfoot th thead tr ul xmp"
  ).split(" "),
);

/** True if an element has no box whose size or place could hide what is in it. */
function isInline(name: string, style: Declarations, parent: Declarations | undefined): boolean {
  const display = style.get("display") ?? (BOXES.has(name) ? "block" : "inline");
  if (!/^(?:inline|initial|unset|contents|ruby|inherit|revert)$/.test(display)) return false;
  const isTaken =
    /^(?:absolute|fixed)$/.test(style.get("position") ?? "") || /^(?:left|right)$/.test(style.get("float") ?? "");
  return !isTaken && !/flex|grid/.test(parent?.get("display") ?? "");
}

/** The attributes that give an element a look without a style sheet, but for a link's `href`. */
const LOOK_ATTRIBUTES = ["style", "color", "bgcolor", "nowrap", "text"] as const;

type Looks = (path: readonly Open[], tables: number, isHead: boolean) => readonly [received: Look, shown: Look];
const NO_LOOK: Look = { style: new Map(), customs: NO_CUSTOMS };
const NOTHING_MATCHES: readonly Matched[] = [];

/**
 * Returns the looks of the last element of a path, which is in so many tables; `isHead`: no tag but those of a head comes before
 * it. Equal style attributes are parsed once.
 */
function createLooks(sheet: Sheet | undefined, hiding: Hiding, budget: Budget): Looks {
  const read = new Map<string, readonly Declaration[]>();
  const looks = new Map<string, readonly [Look, Look]>();

  const declarationsIn = (css: string): readonly Declaration[] => {
    const declarations = read.get(css) ?? readDeclarations(css, budget);
    read.set(css, declarations);
    return declarations;
  };

  /** The colour of links. */
  let link = "blue";
  function computeLook(
    { name, attributes }: Pick<Styled, "name" | "attributes">,
    matched: readonly Matched[],
    reading: 0 | 1,
    outer: Customs,
  ): Look {
    const own = attributes.style === undefined ? [] : declarationsIn(attributes.style);
    const declared = cascadeCssDeclarations(matched, own, reading, outer, budget);
    const style = new Map(listPresentationalHints(name, attributes, link));
    for (const [property, value] of declared.style) style.set(property, value);
    budget.spend(1_000);
    return { style, customs: declared.customs };
  }

  return (path, tables, isHead) => {
    const element = path.at(-1) as Open;
    const { name, attributes } = element;
    const { customs = NO_CUSTOMS, customsShown = NO_CUSTOMS } = path.at(-2) ?? {};
    if (tables === 0 && isPart(name))
      return [
        { ...NO_LOOK, customs },
        { ...NO_LOOK, customs: customsShown },
      ];
    if (name === "body" && attributes.link !== undefined) link = legacyColor(attributes.link);
    const isDropped = path.length > MAX_DEPTH || (name === "body" && !isHead);
    const given = LOOK_ATTRIBUTES.map((attribute) => attributes[attribute]);
    const isAlone = sheet === undefined && customs.size + customsShown.size === 0;
    const key = isAlone ? [name, isDropped, attributes.href === undefined, ...given].join("\0") : "";
    const known = looks.get(key);
    if (known !== undefined) return known;
    const shown = isDropped ? undefined : sanitizeAttributes(name, attributes, budget, hiding);
    const matched = sheet?.(element) ?? NOTHING_MATCHES;
    const received = computeLook(element, matched, 0, customs);
    const isAlike =
      isAlone &&
      LOOK_ATTRIBUTES.every((attribute, n) => shown?.[attribute] === given[n]) &&
      "href" in (shown ?? {}) === "href" in attributes;
    const both = [
      received,
      shown === undefined
        ? { ...NO_LOOK, customs: customsShown }
        : isAlike
          ? received
          : computeLook({ name, attributes: shown }, matched, 1, customsShown),
    ] as const;
    if (key !== "") looks.set(key, both);
    return both;
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
  attributes.hidden === undefined &&
  attributes.popover === undefined &&
  attributes.nowrap === undefined &&
  attributes.width === undefined &&
  attributes.height === undefined;

/** Declarations from elements and presentational attributes, which any CSS declaration overrides (HTML §15.3). */
function listPresentationalHints(
  name: string,
  { color, bgcolor, text, href, nowrap }: Readonly<Record<string, string>>,
  link: string,
): [string, string][] {
  const hints: [string, string][] = [];
  if (name === "a" && href !== undefined) hints.push(["color", link]);
  if (name === "font" && color !== undefined) hints.push(["color", legacyColor(color)]);
  if (name === "body" && text !== undefined) hints.push(["color", legacyColor(text)]);
  if (COLORED_GROUNDS.has(name) && bgcolor !== undefined) hints.push(["background-color", legacyColor(bgcolor)]);
  if (TABLES.has(name)) hints.push(["display", "table"]);
  if (name === "mark") hints.push(["color", "black"], ["background-color", "yellow"]);
  if (name === "small" || name === "sub" || name === "sup") hints.push(["font-size", "smaller"]);
  if (name === "nobr" || nowrap !== undefined) hints.push(["white-space", "nowrap"]);
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
 * is used only if it says the same in the same order. Hidden text and a deviating text part therefore never reach a model.
 */

export interface SeenText {
  text: string;
  /** Characters of the HTML that its reader does not see, and that are left out. */
  hidden: number;
  /** The text comes from the HTML, because the text part says something else, or in another order. */
  fromHtml: boolean;
}

/** Version of the rules in this file, stored beside the result, so that stored text can be derived anew. */
export const SEEN_VERSION = 6;

/** Longer texts are not compared with their HTML; the HTML is used. */
const MAX_COMPARED = 256 * 1024;

/**
 * The text for a model. `text`: as stored; `html`: as received, if there is any. Links become `text <https://…>`. A text part
 * beside HTML that shows no text counts as hidden.
 */
export function visibleTextForModel(
  text: string,
  html: string | undefined,
  budget: Budget = createHtmlBudget(),
): SeenText {
  // People are shown the text beside empty HTML.
  if (html === undefined || html.trim() === "") return { text, hidden: 0, fromHtml: false };
  const { text: shown, hidden } = visibleHtml(html, budget);
  if (hidden === 0 && saysTheSame(text, shown)) return { text, hidden: 0, fromHtml: false };
  const unseen = shown.trim() === "" && hidden === 0 ? text.replace(NOT_COUNTED, "").length : 0;
  return { text: shown, hidden: hidden + unseen, fromHtml: text !== shown };
}

/** True if the texts have the same characters in the same order, but for spaces, marks and capitals. */
const saysTheSame = (text: string, shown: string): boolean =>
  text.length <= MAX_COMPARED && shown.length <= MAX_COMPARED && foldForComparison(text) === foldForComparison(shown);

/** Programs mark quotations, emphasis and lists in different ways. */
const foldForComparison = (text: string): string => text.toLowerCase().replace(/[\s!-/:-@[-`{-~\u2022\u200b]+/g, "");
