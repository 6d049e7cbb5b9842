/**
 * Makes the HTML of mail safe to show (rules: HTML served). The only user of sanitize-html, which leaves CSS to style.ts and
 * scope.ts.
 *
 * Everything is an allow list. The result runs nothing, submits nothing, frames nothing, covers nothing of the page around it,
 * and loads only the remote images of img elements, which the reader's app blocks until asked. Names and ids are removed too,
 * so that mail cannot pose as parts of the page (DOM clobbering). Hidden text stays hidden.
 */
import sanitize from "sanitize-html";
import { legacyColor, parseColor } from "./color.ts";
import { parseCssDeclarations, tokenizeCss } from "./css.ts";
import { textOfHtml } from "./layout.ts";
import { type Budget, createHtmlBudget, payForHtmlParsing } from "./markup.ts";
import { type Scope, scopeStyleSheets } from "./scope.ts";
import { findHidingDeclarations, type Hiding, NOTHING_HIDES, sanitizeDeclarations } from "./stylesheet.ts";
import { htmlOfText } from "./text.ts";

/**
 * Version of this policy, stored beside its output, so that stored HTML can be sanitised again under a stricter one.
 */
export const SANITIZER_VERSION = 6;

/** Characters shown as text: escaping may lengthen them fivefold, and the message's text has all of them. */
const MAX_SHOWN = 1_000_000;
/** Elements nested deeper lose their tags and keep their text. */
export const MAX_DEPTH = 200;

const TAGS = (
  "address article aside footer header h1 h2 h3 h4 h5 h6 hgroup main nav section blockquote dd div dl dt figcaption " +
  "figure hr li menu ol p pre ul a abbr acronym b bdi bdo big br center cite code data del dfn em font i ins kbd mark q " +
  "rp rt ruby s samp small span strike strong sub sup time tt u var wbr caption col colgroup table tbody td tfoot th " +
  "thead tr img details summary nobr"
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
  open: ANY_TEXT,
};
const COLOR_ATTRIBUTES = new Set(["bgcolor", "color", "bordercolor"]);

const OPTIONS: sanitize.IOptions = {
  allowedTags: TAGS,
  allowedAttributes: {
    "*": [...Object.keys(ATTRIBUTES), ...COLOR_ATTRIBUTES, "style", "hidden", "class", "id", "background"],
    a: ["href", "target", "rel"],
    img: ["src"],
  },
  nonTextTags: DROPPED_WITH_CONTENT,
  allowedSchemes: ["http", "https", "mailto", "tel"],
  allowedSchemesByTag: { img: ["http", "https", "cid", "data"] },
  allowProtocolRelative: false,
  // safeStyle reads them: sanitize-html would run a whole CSS parser for each attribute.
  parseStyleAttributes: false,
  nestingLimit: MAX_DEPTH,
};

/** Tags before a body that opens the document. */
const OF_HEAD = new Set("html head base link meta script style title".split(" "));
export const isHtmlHeadTag = (tag: string): boolean => OF_HEAD.has(tag);

/** Elements without content, whose tags are dropped. */
const VOID = new Set("area base basefont bgsound embed frame input keygen link meta param source track".split(" "));
const BLOCKS = new Set("body dialog dir fieldset form html legend marquee optgroup search".split(" "));
const DROPPED = new Set([...DROPPED_WITH_CONTENT, ...VOID, "head"]);
const SERVED = new Set(TAGS);

/** The element that is served in the place of one that hides, shows or colours its content; undefined for none. */
function findServedElement(tag: string): string | undefined {
  if (SERVED.has(tag)) return tag;
  if (DROPPED.has(tag)) return undefined;
  return BLOCKS.has(tag) ? "div" : "span";
}

/** State of sanitising one HTML: how it is served, and for whom. */
interface Serving {
  scope: Scope | undefined;
  hiding: Hiding;
  isSent: boolean;
  budget: Budget;
  hasBody: boolean;
  /** The colour of links that the body's tag says; "" for none. */
  link: string;
}

function safeTags(serving: Serving): sanitize.IOptions["transformTags"] {
  const { budget, scope } = serving;
  let isHead = true;
  return {
    "*": (tag, attributes) => {
      budget.spend(100);
      const isBody = tag === "body" && isHead;
      isHead &&= isHtmlHeadTag(tag);
      const attribs = safeAttributes(tag, attributes, budget, serving);
      const classes = [isBody ? scope?.body : "", scope?.servedClassNames(tag, attributes)];
      if (serving.isSent) {
        const { id = "" } = attributes;
        classes.push(SENT_NAMES.test(attributes.class ?? "") ? attributes.class : "");
        if (SENT_NAMES.test(id)) attribs.id = id;
      }
      const names = classes.filter(Boolean).join(" ");
      if (names !== "") attribs.class = names;
      if (tag === "a" && attribs.href !== undefined && serving.link !== "" && scope === undefined) {
        attribs.style = [`color:${serving.link}`, attribs.style ?? []].flat().join(";");
      }
      if (isBody) {
        if (isColor(attributes.link ?? "")) serving.link = legacyColor(attributes.link ?? "");
        serving.hasBody = true;
        // What lies behind other elements lies before the ground of the page.
        if (serving.hiding.properties.has("z-index"))
          attribs.style = [attribs.style ?? [], "isolation:isolate"].flat().join(";");
        return { tagName: "div", attribs };
      }
      // Other tags leave no element, unless it looks like something, or a selector may count it.
      const isSeen =
        ["style", "class", "id", "hidden"].some((name) => name in attribs) || (scope !== undefined && tag !== "html");
      return { tagName: (isSeen && findServedElement(tag)) || tag, attribs };
    },
  };
}
const SENT_NAMES = /^[\w\s:.-]{1,500}$/;

/**
 * Use for which HTML is made safe: to be shown beside other content; to leave in a mail; or for a model, which needs no sheets.
 */
type Audience = "reader" | "recipient" | "model";

/** Safe HTML; beyond the budget, its text. Never throws. */
export function sanitizeHtml(html: string, budget: Budget = createHtmlBudget(), audience: Audience = "reader"): string {
  try {
    const text = html.replaceAll("\u0000", "");
    payForHtmlParsing(text, budget);
    const isSent = audience === "recipient";
    const scope = audience === "model" ? undefined : scopeStyleSheets(text, { isSent, findServedElement }, budget);
    const hiding = findHidingDeclarations(text, budget);
    const serving = { scope, hiding, isSent, budget, hasBody: false, link: "" };
    const safe = sanitize(text, { ...OPTIONS, transformTags: safeTags(serving) });
    if (scope === undefined) return safe;
    if (!isSent) scope.requireCheap(safe);
    const { css, outer, body } = scope;
    const inner = body === "" || serving.hasBody ? safe : `<div class="${body}">${safe}</div>`;
    const links = serving.link === "" ? "" : `${outer && `.${outer} `}a{color:${serving.link}}`;
    return `<style>${links}${css}</style>${outer === "" ? inner : `<div class="${outer}">${inner}</div>`}`;
  } catch {
    return shownAsText(html, budget);
  }
}

function shownAsText(html: string, budget: Budget): string {
  const text = textOfHtml(html, budget);
  return htmlOfText(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN).toWellFormed()}…` : text);
}

/** The attributes of a tag as shown; undefined if only its content is shown. @throws OverBudget */
export function sanitizeAttributes(
  tag: string,
  attributes: Record<string, string>,
  budget: Budget,
  hiding: Hiding,
): Record<string, string> | undefined {
  return findServedElement(tag) === undefined ? undefined : safeAttributes(tag, attributes, budget, { hiding });
}

function safeAttributes(
  tag: string,
  attributes: Record<string, string>,
  budget: Budget,
  { hiding, isSent = false }: { hiding: Hiding; isSent?: boolean },
): Record<string, string> {
  const safe: Record<string, string> = {};
  for (const [name, value] of Object.entries(attributes)) {
    budget.spend(20 + 2 * value.length);
    if (name === "style") {
      const style = safeStyle(value, budget, isSent, hiding);
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
  if (isSent && attributes.background !== undefined) {
    const image = safeImage(attributes.background);
    if (image !== undefined) safe.background = image;
  }
  if (isHidden(tag, attributes)) safe.hidden = "hidden";
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

/** The element is not displayed, unless a declaration says otherwise. */
const isHidden = (tag: string, attributes: Readonly<Record<string, string>>): boolean =>
  attributes.hidden !== undefined ||
  attributes.popover !== undefined ||
  (tag === "dialog" && attributes.open === undefined);

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

/** The declarations of a style attribute that are served, in order; "" for none. @throws OverBudget */
export function safeStyle(
  style: string,
  budget: Budget = createHtmlBudget(),
  isSent = false,
  hiding = NOTHING_HIDES,
): string {
  const ofBudget = styles.get(budget) ?? new Map<string, string>();
  styles.set(budget, ofBudget);
  const key = `${isSent}${[...hiding.properties].join()} ${style}`;
  let safe = ofBudget.get(key);
  if (safe === undefined) {
    safe = sanitizeDeclarations(parseCssDeclarations(tokenizeCss(style, budget)), budget, { isSent, hiding });
    ofBudget.set(key, safe);
  }
  return safe;
}
/** Results by style attribute: most elements of a mail have one that another has, too. */
const styles = new WeakMap<Budget, Map<string, string>>();

/** True if a value is a colour as the HTML attributes bgcolor and color have it. */
export const isColor = (value: string): boolean =>
  /^#?[0-9a-f]{3,8}$/i.test(value.trim()) ||
  (/^[a-z]{3,25}$/i.test(value.trim()) && parseColor(value.trim().toLowerCase()) !== "invalid");
