/**
 * Makes the HTML of mail safe to show (rules: HTML served). The only user of sanitize-html; style.ts decides about CSS.
 *
 * Everything is an allow list. The result runs nothing, submits nothing, frames nothing, covers nothing of the page
 * around it, and loads only the remote images of img elements, which the reader's app blocks until asked. Names and ids
 * are removed too, so that mail cannot pose as parts of the page (DOM clobbering).
 */
import sanitize from "sanitize-html";
import { type Budget, createBudget } from "./budget.ts";
import { payForReading } from "./markup.ts";
import { isColor, safeStyle } from "./style.ts";
import { htmlOfText, textOfHtml } from "./text.ts";

/**
 * Version of this policy, stored beside its output, so that stored HTML can be sanitised again under a stricter one.
 */
export const SANITIZER_VERSION = 1;

/** Characters shown as text: escaping may lengthen them fivefold, and the message's text has all of them. */
const MAX_SHOWN = 1_000_000;
/** Elements nested deeper lose their tags and keep their text. */
const MAX_DEPTH = 200;

const TAGS = (
  "address article aside footer header h1 h2 h3 h4 h5 h6 hgroup main nav section blockquote dd div dl dt figcaption " +
  "figure hr li menu ol p pre ul a abbr acronym b bdi bdo big br center cite code data del dfn em font i ins kbd mark q " +
  "rp rt ruby s samp small span strike strong sub sup time tt u var wbr caption col colgroup table tbody td tfoot th " +
  "thead tr img"
).split(" ");

/** Elements whose content readers do not see, or that one parser reads as text and another as markup. */
const DROPPED_WITH_CONTENT = (
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
  // style.ts checks styles: sanitize-html would run a whole CSS parser for each attribute.
  parseStyleAttributes: false,
  nestingLimit: MAX_DEPTH,
};

const safeTags = (budget: Budget): sanitize.IOptions["transformTags"] => ({
  "*": (tagName, attributes) => {
    budget.spend(100);
    return {
      tagName: tagName === "body" ? "div" : tagName,
      attribs: safeAttributes(tagName, attributes, budget),
    };
  },
});

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
