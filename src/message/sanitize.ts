/**
 * Makes the HTML of mail safe to show (rules: HTML served). The only user of sanitize-html, which leaves CSS to this
 * file.
 *
 * Everything is an allow list. The result runs nothing, submits nothing, frames nothing, covers nothing of the page
 * around it, and loads only the remote images of img elements, which the reader's app blocks until asked. Names and ids
 * are removed too, so that mail cannot pose as parts of the page (DOM clobbering).
 */
import sanitize from "sanitize-html";
import { textOfHtml } from "./layout.ts";
import { type Budget, createBudget, payForReading } from "./markup.ts";
import { legacyColor } from "./stylesheet.ts";
import { htmlOfText } from "./text.ts";

/**
 * Version of this policy, stored beside its output, so that stored HTML can be sanitised again under a stricter one.
 */
export const SANITIZER_VERSION = 3;

/** Characters shown as text: escaping may lengthen them fivefold, and the message's text has all of them. */
const MAX_SHOWN = 1_000_000;
/** Elements nested deeper lose their tags and keep their text. */
export const MAX_DEPTH = 200;

const TAGS = (
  "address article aside footer header h1 h2 h3 h4 h5 h6 hgroup main nav section blockquote dd div dl dt figcaption " +
  "figure hr li menu ol p pre ul a abbr acronym b bdi bdo big br center cite code data del dfn em font i ins kbd mark q " +
  "rp rt ruby s samp small span strike strong sub sup time tt u var wbr caption col colgroup table tbody td tfoot th " +
  "thead tr img"
).split(" ");

/** Elements whose content readers do not see, or that one parser reads as text and another as markup. */
export const DROPPED_WITH_CONTENT = (
  "script style title textarea option optgroup select datalist xmp noscript noembed noframes iframe plaintext template " +
  "svg math object embed applet audio video canvas frameset"
).split(" ");

const DIMENSION = /^\d{1,4}(?:\.\d{1,3})?(?:%|px)?$/;
const SMALL_NUMBER = /^-?\d{1,4}$/;
const WORD = /^[a-z]{1,20}$/i;
const LANGUAGE = /^[a-z0-9-]{1,35}$/i;
const FACE = /^[\p{L}\p{N}\s,._'"-]{1,200}$/u;
const ANY_TEXT = /^/;

/** Allowed attributes, including those that mean something only on some elements, with their possible values. */
const ATTRIBUTES: Record<string, RegExp> = {
  align: WORD,
  valign: WORD,
  dir: /^(?:ltr|rtl|auto)$/i,
  lang: LANGUAGE,
  title: ANY_TEXT,
  alt: ANY_TEXT,
  width: DIMENSION,
  height: DIMENSION,
  border: DIMENSION,
  cellpadding: DIMENSION,
  cellspacing: DIMENSION,
  hspace: DIMENSION,
  vspace: DIMENSION,
  colspan: /^\d{1,3}$/,
  rowspan: /^\d{1,3}$/,
  span: /^\d{1,3}$/,
  start: SMALL_NUMBER,
  value: SMALL_NUMBER,
  size: /^[+-]?\d{1,2}$/,
  face: FACE,
  type: /^(?:[1aAiI]|disc|circle|square)$/,
  nowrap: ANY_TEXT,
  noshade: ANY_TEXT,
  reversed: ANY_TEXT,
  datetime: /^[\d\sTZ:.+-]{1,40}$/i,
  scope: WORD,
  frame: WORD,
  rules: WORD,
  clear: WORD,
};
const COLOR_ATTRIBUTES = new Set(["bgcolor", "color", "bordercolor"]);

const OPTIONS: sanitize.IOptions = {
  allowedTags: TAGS,
  allowedAttributes: {
    "*": [...Object.keys(ATTRIBUTES), ...COLOR_ATTRIBUTES, "style"],
    a: ["href", "target", "rel"],
    img: ["src"],
  },
  nonTextTags: DROPPED_WITH_CONTENT,
  allowedSchemes: ["http", "https", "mailto", "tel"],
  allowedSchemesByTag: { img: ["http", "https", "cid", "data"] },
  allowProtocolRelative: false,
  // safeStyle checks them: sanitize-html would run a whole CSS parser for each attribute.
  parseStyleAttributes: false,
  nestingLimit: MAX_DEPTH,
};

/** Tags before a body that opens the document. */
const OF_HEAD = new Set("html head base link meta script style title".split(" "));
export const isOfHead = (tag: string): boolean => OF_HEAD.has(tag);

function safeTags(budget: Budget): sanitize.IOptions["transformTags"] {
  let isHead = true;
  return {
    "*": (tag, attributes) => {
      budget.spend(100);
      const tagName = tag === "body" && isHead ? "div" : tag;
      isHead &&= isOfHead(tag);
      return { tagName, attribs: safeAttributes(tag, attributes, budget) };
    },
  };
}

/** HTML that is safe to show beside other content; beyond the budget, its text. Never throws. */
export function sanitizeHtml(html: string, budget: Budget = createBudget()): string {
  try {
    const text = html.replaceAll("\u0000", "");
    payForReading(text, budget);
    return sanitize(text, { ...OPTIONS, transformTags: safeTags(budget) });
  } catch {
    return shownAsText(html, budget);
  }
}

function shownAsText(html: string, budget: Budget): string {
  const text = textOfHtml(html, budget);
  return htmlOfText(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN).toWellFormed()}…` : text);
}

/** The attributes of a tag as shown; undefined if only its content is shown. @throws OverBudget */
export function shownAttributes(
  tag: string,
  attributes: Record<string, string>,
  budget: Budget,
): Record<string, string> | undefined {
  return tag === "body" || TAGS.includes(tag) ? safeAttributes(tag, attributes, budget) : undefined;
}

function safeAttributes(tag: string, attributes: Record<string, string>, budget: Budget): Record<string, string> {
  const safe: Record<string, string> = {};
  for (const [name, value] of Object.entries(attributes)) {
    budget.spend(20 + (name === "style" ? 20 : 2) * value.length);
    if (name === "style") {
      const style = safeStyle(value);
      if (style !== "") safe.style = style;
    } else if (COLOR_ATTRIBUTES.has(name)) {
      if (isColor(value)) safe[name] = value.trim();
    } else if (Object.hasOwn(ATTRIBUTES, name) && ATTRIBUTES[name]?.test(value)) {
      safe[name] = value;
    }
  }
  if (tag === "body") {
    // The div that stands for it has no such attributes.
    const { bgcolor = "", text = "" } = attributes;
    const colors = Object.entries({ "background-color": bgcolor, color: text })
      .filter(([, value]) => isColor(value))
      .map(([property, value]) => `${property}:${legacyColor(value)}`);
    if (colors.length > 0) safe.style = [...colors, safe.style ?? []].flat().join(";");
    delete safe.bgcolor;
  }
  if (tag === "a") {
    const href = safeLink(attributes.href ?? "");
    if (href !== undefined) Object.assign(safe, { href, target: "_blank", rel: "noopener noreferrer nofollow" });
  }
  if (tag === "img") {
    const src = safeImage(attributes.src ?? "");
    if (src !== undefined) safe.src = src;
  }
  return safe;
}

/** Removes the characters that browsers ignore in URLs before they read the scheme. */
function trimUrl(url: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: exactly those browsers ignore
  const bare = url.replace(/^[\u0000-\u0020]+|[\t\n\r]+/g, "").trim();
  return bare.startsWith("//") ? `https:${bare}` : bare;
}

/** Absolute links only: a relative one would lead into the app that shows the mail. */
function safeLink(url: string): string | undefined {
  const bare = trimUrl(url);
  return /^(?:https?:\/\/|mailto:|tel:)/i.test(bare) ? bare : undefined;
}

/** Remote and attached images, and raster images in data: URLs; SVG is markup, not an image. */
function safeImage(url: string): string | undefined {
  const bare = trimUrl(url);
  if (/^(?:https?:\/\/|cid:)/i.test(bare)) return bare;
  return /^data:image\/(?:png|gif|jpe?g|webp|bmp|avif);base64,[a-z0-9+/=\s%]*$/i.test(bare) ? bare : undefined;
}

/*
 * Inline CSS: an allow list of properties and of their values' grammar, so that a declaration cannot load, overlay or
 * escape. A declaration is kept whole or dropped whole. Values are words, colours, numbers and lengths: without url(),
 * escapes, comments or functions other than colours, nothing can hide in them.
 */

const COLOR = /^(?:#[0-9a-f]{3,8}|[a-z]{3,25}|(?:rgb|rgba|hsl|hsla)\([\d\s.,%/deg-]{1,60}\))$/i;
const WORDS = /^[a-z][a-z\s-]{0,60}$/i;
const FONT_FAMILY = /^[\p{L}\p{N}\s,._'"-]{1,300}$/u;
/** Numbers with absolute and type-relative units; none of the viewport, which would measure the reader's window. */
const LENGTH = String.raw`(?:[a-z-]{1,20}|\d{0,5}(?:\.\d{0,8})?(?:px|pt|pc|em|rem|ex|ch|cm|mm|in|%)?)`;
const LENGTHS = new RegExp(`^${LENGTH}(?:\\s+${LENGTH}){0,3}$`, "i");
/** Widths, styles and colours of borders, and the parts of font and text-decoration. */
const SHORTHAND = /^(?:[a-z0-9#.,%\s'"/_-]|(?:rgb|rgba|hsl|hsla)\([\d\s.,%/deg-]{1,60}\)){1,300}$/i;

/** Longest value that is examined, in characters. */
const MAX_VALUE = 500;
/** Largest length, in any unit; a larger one is meant to hide or cover something. */
const MAX_LENGTH = 4_000;

const DISPLAY =
  /^(?:none|block|inline|inline-block|list-item|table|inline-table|table-(?:row|cell|caption|column|row-group|header-group|footer-group|column-group))$/i;
const OVERFLOW = /^(?:hidden|auto)$/i;

const sides = (property: string) => ["top", "right", "bottom", "left"].map((side) => `${property}-${side}`);

const VALUES = new Map<string, RegExp>([
  ...[
    "color",
    "background-color",
    "border-color",
    "text-decoration-color",
    ...sides("border").map((s) => `${s}-color`),
  ].map((property) => [property, COLOR] as const),
  ...[
    "font-style",
    "font-variant",
    "text-align",
    "text-transform",
    "text-decoration-line",
    "text-decoration-style",
    "vertical-align",
    "white-space",
    "word-break",
    "word-wrap",
    "overflow-wrap",
    "hyphens",
    "direction",
    "float",
    "clear",
    "list-style-type",
    "list-style-position",
    "border-collapse",
    "table-layout",
    "caption-side",
    "empty-cells",
    "box-sizing",
    "border-style",
    "unicode-bidi",
  ].map((property) => [property, WORDS] as const),
  ...[
    "font-size",
    "font-weight",
    "line-height",
    "letter-spacing",
    "word-spacing",
    "text-indent",
    "vertical-align",
    "width",
    "min-width",
    "max-width",
    "height",
    "min-height",
    "max-height",
    "margin",
    ...sides("margin"),
    "padding",
    ...sides("padding"),
    "border-width",
    "border-radius",
    "border-spacing",
  ].map((property) => [property, LENGTHS] as const),
  ...["border", ...sides("border"), "font", "text-decoration", "outline"].map(
    (property) => [property, SHORTHAND] as const,
  ),
  ["font-family", FONT_FAMILY],
  ["display", DISPLAY],
  ["overflow", OVERFLOW],
]);

/** The safe declarations of a style attribute, in order; "" for none. */
export function safeStyle(style: string): string {
  if (style.length > 10_000) return "";
  const kept: string[] = [];
  for (const declaration of splitDeclarations(style.replace(/\/\*.*?(?:\*\/|$)/gs, " ").replace(/\s+/g, " "))) {
    const colon = declaration.indexOf(":");
    const property = declaration.slice(0, colon).trim().toLowerCase();
    const value = declaration
      .slice(colon + 1)
      .replace(/\s*!\s*important\s*$/i, "")
      .trim();
    if (colon < 0 || value === "" || value.length > MAX_VALUE) continue;
    if (property === "background") {
      const color = backgroundColor(value);
      if (color !== undefined) kept.push(`background-color:${color}`);
    } else if (isSafe(property, value)) {
      kept.push(`${property}:${value}`);
    }
  }
  return kept.join(";");
}

/** True if a value is a colour as the HTML attributes bgcolor and color have it. */
export function isColor(value: string): boolean {
  return COLOR.test(value.trim()) || /^[0-9a-f]{6}$/i.test(value.trim());
}

function isSafe(property: string, value: string): boolean {
  const grammar = VALUES.get(property);
  if (grammar === undefined || !grammar.test(value)) return false;
  return !/(?:^|[\s,(])-\s*\.?\d/.test(value) && !exceeds(value);
}

/** The digits of a colour (#333333) are no length. */
function exceeds(value: string): boolean {
  for (const [number] of value.matchAll(/(?<![#\w])\d+/g))
    if (number.length > 8 || Number(number) > MAX_LENGTH) return true;
  return false;
}

/** Keeps only the colour of the background shorthand: the rest loads or positions images. */
function backgroundColor(value: string): string | undefined {
  const withoutImages = value.replace(/(?<![a-z-])[a-z-]*\((?:[^()"']|"[^"]*"|'[^']*')*\)/gi, (call) =>
    COLOR.test(call) ? call : " ",
  );
  if (COLOR.test(withoutImages.trim())) return withoutImages.trim();
  const named = withoutImages.match(/(?:^|\s)(#[0-9a-f]{3,8}|(?:rgb|rgba|hsl|hsla)\([^()]*\))(?=\s|$)/i)?.[1];
  return named !== undefined && COLOR.test(named) ? named : undefined;
}

/** Splits at semicolons outside quotes and parentheses. */
function* splitDeclarations(style: string): Generator<string> {
  let start = 0;
  let quote = "";
  let depth = 0;
  for (let i = 0; i < style.length; i++) {
    const character = style[i] as string;
    if (quote !== "") quote = character === quote ? "" : quote;
    else if (character === '"' || character === "'") quote = character;
    else if (character === "(") depth++;
    else if (character === ")") depth = Math.max(0, depth - 1);
    else if (character === ";" && depth === 0) {
      yield style.slice(start, i);
      start = i + 1;
    }
  }
  yield style.slice(start);
}
