/**
 * HTML of mail made safe to show (contract: HTML served). The only user of sanitize-html; style.ts decides about CSS.
 *
 * Everything is an allow list. What remains runs nothing, submits nothing, frames nothing, covers nothing of the page
 * around it, and loads nothing but the remote images of img elements, which the reader's app blocks until asked.
 * Names and ids go too, so that mail cannot pose as parts of the page (DOM clobbering).
 */
import sanitize from "sanitize-html";
import { isColor, safeStyle } from "./style.ts";
import { htmlOfText, textOfHtml } from "./text.ts";

/** Version of this policy: stored beside its output, so that a stricter one can be applied to what is there. */
export const SANITIZER_VERSION = 1;

/** What is larger or has more tags is shown as text: the parser's work could grow with the square of it. */
const MAX_LENGTH = 4 * 1024 * 1024;
const MAX_TAGS = 100_000;
const MAX_OPEN_TAGS = 2_000;
/** Characters of it that are shown then: escaped they may be five times as long, and the message's text has them all. */
const MAX_SHOWN = 1_000_000;
/** Elements deeper than this lose their tags, not their text. */
const MAX_DEPTH = 200;

const TAGS = (
  "address article aside footer header h1 h2 h3 h4 h5 h6 hgroup main nav section blockquote dd div dl dt figcaption " +
  "figure hr li menu ol p pre ul a abbr acronym b bdi bdo big br center cite code data del dfn em font i ins kbd mark q " +
  "rp rt ruby s samp small span strike strong sub sup time tt u var wbr caption col colgroup table tbody td tfoot th " +
  "thead tr img"
).split(" ");

/** Elements whose content is no text for the reader, or is text to one parser and markup to another. */
const DROPPED_WITH_CONTENT = (
  "script style title textarea option optgroup select datalist xmp noscript noembed noframes iframe plaintext template " +
  "svg math object embed applet audio video canvas frameset"
).split(" ");

const VOID = /^(?:area|base|br|col|embed|hr|img|input|link|meta|param|source|track|wbr|)$/i;
const DIMENSION = /^\d{1,4}(?:\.\d{1,3})?(?:%|px)?$/;
const SMALL_NUMBER = /^-?\d{1,4}$/;
const WORD = /^[a-z]{1,20}$/i;
const LANGUAGE = /^[a-z0-9-]{1,35}$/i;
const FACE = /^[\p{L}\p{N}\s,._'"-]{1,200}$/u;
const ANY_TEXT = /^/;

/** Attributes of every element, and those that have a meaning only on some; each with what its value may be. */
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
  // style.ts has done it: sanitize-html would run a whole CSS parser for each attribute.
  parseStyleAttributes: false,
  nestingLimit: MAX_DEPTH,
  transformTags: {
    "*": (tagName, attributes) => ({
      tagName: tagName === "body" ? "div" : tagName,
      attribs: safeAttributes(tagName, attributes),
    }),
  },
};

/** HTML that is safe to show beside other content. Bounded time; never throws. */
export function sanitizeHtml(html: string): string {
  if (isShownAsText(html)) return shownAsText(html);
  try {
    return sanitize(html.replaceAll("\u0000", ""), OPTIONS);
  } catch {
    return shownAsText(html);
  }
}

/** Whether HTML is beyond what is shown as such. */
export function isShownAsText(html: string): boolean {
  return html.length > MAX_LENGTH || hasTooManyTags(html);
}

function shownAsText(html: string): string {
  const text = textOfHtml(html);
  return htmlOfText(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN).toWellFormed()}…` : text);
}

function hasTooManyTags(html: string): boolean {
  let tags = 0;
  let open = 0;
  for (const [, slash, name = ""] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)?/gi)) {
    if (!VOID.test(name)) open = slash === "/" ? Math.max(0, open - 1) : open + 1;
    if (++tags > MAX_TAGS || open > MAX_OPEN_TAGS) return true;
  }
  return false;
}

function safeAttributes(tag: string, attributes: Record<string, string>): Record<string, string> {
  const safe: Record<string, string> = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "style") {
      const style = safeStyle(value);
      if (style !== "") safe.style = style;
    } else if (COLOR_ATTRIBUTES.has(name)) {
      if (isColor(value)) safe[name] = value.trim();
    } else if (Object.hasOwn(ATTRIBUTES, name) && ATTRIBUTES[name]?.test(value)) {
      safe[name] = value;
    }
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

/** Browsers drop these from URLs before they read the scheme. */
function trimUrl(url: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: exactly those browsers ignore
  const bare = url.replace(/^[\u0000-\u0020]+|[\t\n\r]+/g, "").trim();
  return bare.startsWith("//") ? `https:${bare}` : bare;
}

/** Only absolute links: a relative one would lead into the app that shows the mail. */
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
