/**
 * Derives text from mail for people and for search: from HTML, as a snippet, as the key of a subject. The only user of
 * html-to-text. All work is bounded: HTML too large or too deep for the converter is stripped of its tags.
 */
import { compile, type Formatter } from "html-to-text";
import { cleanText } from "./charset.ts";
import { type Budget, countTags, createBudget, OverBudget, payForReading } from "./markup.ts";

/** Largest HTML that is laid out as text, in characters; larger HTML is stripped of its tags. */
const MAX_HTML = 2 * 1024 * 1024;
/** Deepest nesting that is laid out, since the converter recurses; mail that people write stays below. */
const MAX_DEPTH = 500;
/** Deepest nesting of quotations and lists: the converter rewrites their contents at each level. */
const MAX_NESTING = 50;
const NESTING = /<(?:blockquote|[uo]l)\b/gi;

/** Quotations and lists around the current element. */
let nesting = 0;

/** An html-to-text formatter that stops at elements nested too deep. */
const nested =
  (format: "blockquote" | "unorderedList" | "orderedList"): Formatter =>
  (element, walk, builder, options) => {
    if (nesting === MAX_NESTING) throw new OverBudget("quotations or lists too deep inside each other");
    nesting++;
    builder.options.formatters[format](element, walk, builder, options);
    nesting--;
  };

const convert = compile({
  wordwrap: false,
  // The whole document, because broken mail has text outside its body element.
  baseElements: { selectors: [] },
  limits: { maxInputLength: MAX_HTML, maxDepth: 4 * MAX_DEPTH, ellipsis: "" },
  formatters: {
    alternative: (element, _walk, builder) => builder.addInline(element.attribs?.alt ?? ""),
    quotation: nested("blockquote"),
    list: nested("unorderedList"),
    numberedList: nested("orderedList"),
  },
  selectors: [
    { selector: "a", options: { hideLinkHrefIfSameAsText: true, linkBrackets: ["<", ">"] } },
    { selector: "img", format: "alternative" },
    { selector: "blockquote", format: "quotation" },
    { selector: "ul", format: "list" },
    { selector: "ol", format: "numberedList" },
    { selector: "tr", format: "block", options: { leadingLineBreaks: 1, trailingLineBreaks: 1 } },
    { selector: "td", format: "inlineSurround", options: { suffix: " " } },
    { selector: "th", format: "inlineSurround", options: { suffix: " " } },
    ...["h1", "h2", "h3", "h4", "h5", "h6"].map((selector) => ({ selector, options: { uppercase: false } })),
    ...["title", "script", "style", "noscript", "template", "svg", "math", "select", "object", "iframe"].map(
      (selector) => ({ selector, format: "skip" }),
    ),
  ],
});

/**
 * Plain text of an HTML body. Links keep their targets as `text <https://…>`, lines end in \n. HTML beyond the budget
 * is stripped of its tags, in linear time.
 */
export function textOfHtml(html: string, budget: Budget = createBudget()): string {
  const text = budget.texts.get(html) ?? layOut(html, budget);
  budget.texts.set(html, text);
  return text;
}

function layOut(html: string, budget: Budget): string {
  if (html.length > MAX_HTML || isDeep(html)) return stripTags(html);
  try {
    payForReading(html, budget);
    const steps = stepsOfLayout(html);
    // Half of the remaining budget is reserved for showing the HTML, which may still be possible.
    if (!budget.affords(2 * steps)) return stripTags(html);
    budget.spend(steps);
    nesting = 0;
    return cleanText(convert(html));
  } catch {
    return stripTags(html);
  }
}

/** Steps for the layout, without those for reading. */
function stepsOfLayout(html: string): number {
  const tags = countTags(html);
  const nesting = Math.min(html.match(NESTING)?.length ?? 0, MAX_NESTING);
  const lines = nesting === 0 ? 0 : html.split("\n").length + tags;
  // At each end tag, the converter's older parser may search everything that was opened before; and each open quotation
  // and list rewrites its content.
  return tags ** 2 / 27 + nesting * (html.length / 10 + 10 * lines);
}

/** HTML that shows a plain text; empty for white space alone. */
export function htmlOfText(text: string): string {
  if (text.trim() === "") return "";
  const escaped = text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
  return `<div style="white-space:pre-wrap">${escaped}</div>`;
}

/** True if elements nest too deep for the converter. */
function isDeep(html: string): boolean {
  let depth = 0;
  for (const [, slash, name = ""] of html.matchAll(/<(\/?)([a-z][a-z0-9]*)/gi)) {
    if (VOID.has(name.toLowerCase())) continue;
    depth = slash === "/" ? Math.max(0, depth - 1) : depth + 1;
    if (depth > MAX_DEPTH) return true;
  }
  return false;
}

const VOID = new Set("area base br col embed hr img input link meta param source track wbr p li td tr".split(" "));

const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };
const LINE_ENDING_TAG = /^<(?:br|\/p|\/div|\/tr|\/li|\/h[1-6])\b/i;
const UNSEEN_TAG = /^<(script|style|title)\b/i;

/** The characters between the tags. Linear time. */
function stripTags(html: string): string {
  let text = "";
  let position = 0;
  while (position < html.length) {
    const open = html.indexOf("<", position);
    const close = open < 0 ? -1 : html.indexOf(">", open);
    if (close < 0) break;
    text += html.slice(position, open);
    const tag = html.slice(open, open + 10);
    const unseen = UNSEEN_TAG.exec(tag)?.[1];
    if (LINE_ENDING_TAG.test(tag)) text += "\n";
    position = close + 1;
    if (unseen !== undefined) {
      const end = html.slice(position).search(new RegExp(`</${unseen}`, "i"));
      position = end < 0 ? html.length : position + end;
    }
  }
  return cleanText(decodeEntities(text + html.slice(position)))
    .replace(/[ \t\r\f]+/g, " ")
    .replace(/ ?\n[ \n]*/g, "\n")
    .trim();
}

function decodeEntities(text: string): string {
  return text.replace(/&(#\d{1,7}|#x[0-9a-f]{1,6}|amp|lt|gt|quot|apos|nbsp);/gi, (entity, name: string) => {
    if (!name.startsWith("#")) return ENTITIES[name.toLowerCase()] ?? entity;
    const point = /^#x/i.test(name) ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
    return point > 0 && point <= 0x10ffff ? String.fromCodePoint(point) : entity;
  });
}

const SNIPPET_LENGTH = 200;
/** The part of a text that can affect its snippet. */
const SNIPPET_SOURCE = 8_000;

/** A line that begins the quoted history of a reply. */
const HISTORY =
  /^(?:-{2,}\s*(?:original message|forwarded message|ursprüngliche nachricht|message d'origine|mensaje original)|_{10,}|(?:on|am|le|el|il|den|op) .{5,120}(?:wrote|schrieb|écrit|escribió|ha scritto|skrev|schreef)\s?.{0,40}:?$|.{0,80}(?:wrote|写道)\s?[:：]$)/iu;

/**
 * The beginning of a text on one line, at most 200 characters. Quoted history is used only if there is no other text.
 */
export function snippetOf(text: string): string {
  const lines = text.slice(0, SNIPPET_SOURCE).split(/\r?\n/);
  const own: string[] = [];
  let length = 0;
  /** The length from which it is worth checking whether the snippet is complete. */
  let enough = 2 * SNIPPET_LENGTH;
  for (const line of lines) {
    const trimmed = line.trim();
    const isHistory = HISTORY.test(trimmed.slice(0, 300));
    if (isHistory && length > 0) break;
    if (isHistory || trimmed.startsWith(">")) continue;
    own.push(trimmed);
    length += trimmed.length;
    if (length < enough) continue;
    if (beginningOf(own.join(" ")).length > SNIPPET_LENGTH) break;
    enough = 2 * length;
  }
  return shorten(beginningOf(own.join(" "))) || shorten(beginningOf(lines.join(" ")));
}

/** The beginning of `oneLine(text)`, as much as a snippet needs, without scanning all of a long text. */
function beginningOf(text: string): string {
  for (let length = 2 * SNIPPET_LENGTH; length < text.length; length *= 2) {
    // A cut link or ruled line would no longer be recognised as one.
    const whole = text.slice(0, length).replace(/<[^<>\s]*$/, "");
    const line = oneLine(whole.replace(/(?<![-_=*~])[-_=*~]+$/, ""));
    if (line.length > SNIPPET_LENGTH) return line;
  }
  return oneLine(text);
}

/** The text on one line, without link targets and ruled lines, which are noise in a list. */
function oneLine(text: string): string {
  return text
    .replace(/<(?:https?|mailto):[^<>\s]*>/gi, " ")
    .replace(/[-_=*~]{4,}/g, " ")
    .replace(/(?:[\s\p{Cc}\p{Cf}\u2800]|\u034f)+/gu, " ")
    .trim();
}

function shorten(text: string): string {
  if (text.length <= SNIPPET_LENGTH) return text.toWellFormed();
  const cut = text.slice(0, SNIPPET_LENGTH - 1);
  const space = cut.lastIndexOf(" ");
  const end = space > SNIPPET_LENGTH / 2 ? space : cut.length;
  const kept = cut.slice(0, end).replace(/[\ud800-\udbff]$/, "");
  return `${kept}…`.toWellFormed();
}

/** Reply prefixes of mailers in their languages; a count may follow: `Re[2]:`. */
const REPLY =
  "re|aw|antw|antwort|sv|vs|vast|odp|res|rif|ref|ynt|ηaπ|απ|回复|回覆|答复|答覆|返信|답장|회신|תשובה|رد|ответ|відп|bls|r";
/** Forward prefixes. */
const FORWARD = "fwd?|wg|vl|vb|rv|enc|tr|trs|doorst|vidb|pd|ilt|i|转发|轉寄|轉發|転送|전달|הועבר|пересл|fs";
const REPLY_PREFIX = new RegExp(`^(?:${REPLY})\\s*(?:[[(]\\d{1,4}[\\])]|\\^\\d{1,4}|\\d{1,3})?\\s*[:：]\\s*`, "iu");
const FORWARD_PREFIX = new RegExp(`^(?:${FORWARD})\\s*(?:[[(]\\d{1,4}[\\])])?\\s*[:：]\\s*`, "iu");
/** The tag of a mailing list. One with a digit is more likely a ticket number, which distinguishes subjects. */
const LIST_TAG = /^\[[^\]\d]{1,60}\]\s*/u;

/**
 * A subject without reply and forward prefixes and list tags, with case and spaces folded; and whether it had a reply
 * prefix.
 */
export function subjectKeyOf(subject: string): { key: string; isReply: boolean } {
  let rest = subject.slice(0, 1_000).normalize("NFKC").replace(/\s+/gu, " ").trim();
  let isReply = false;
  for (;;) {
    const reply = REPLY_PREFIX.exec(rest);
    const match = reply ?? FORWARD_PREFIX.exec(rest) ?? LIST_TAG.exec(rest);
    if (reply !== null) isReply = true;
    const shorter = match === null ? rest : rest.slice(match[0].length);
    if (match === null || (shorter === "" && reply === null)) break;
    rest = shorter;
  }
  return { key: rest.replace(/\s*\(fwd\)$/i, "").toLowerCase(), isReply };
}

/** True if a subject begins with a forward prefix. */
export const isForward = (subject: string): boolean => FORWARD_PREFIX.test(subject.trimStart().slice(0, 100));

/** `text` without trailing line breaks. */
export function trimLineBreaks(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === "\n") end--;
  return text.slice(0, end);
}
