/**
 * Lays out the HTML of mail as plain text: blocks on lines of their own, `> ` before quotations, ` * ` and numbers before
 * the items of lists, `text <https://…>` for links, the description of images. Linear, within the message's budget.
 */
import { cleanText } from "./charset.ts";
import { type Budget, createHtmlBudget, readMarkup } from "./markup.ts";

/** Elements without text for readers. */
export const NO_TEXT: ReadonlySet<string> = new Set(
  "script style title template noscript select iframe object svg math".split(" "),
);

/** Line breaks before and after an element, at least: two leave an empty line. */
const BREAKS = new Map<string, [before: number, after: number]>([
  ...(
    "address article aside caption center dd details div dl dt fieldset figcaption figure footer form header hgroup legend " +
    "li main nav section summary tr"
  )
    .split(" ")
    .map((name): [string, [number, number]] => [name, [1, 1]]),
  ...["p", "pre", "blockquote", "ul", "ol", "table", "hr", "h4", "h5", "h6"].map((name): [string, [number, number]] => [
    name,
    [2, 2],
  ]),
  ...["h1", "h2", "h3"].map((name): [string, [number, number]] => [name, [3, 2]]),
]);

/** Quotations and items inside each other whose lines have a prefix; text deeper than that has no further one. */
const MOST_PREFIXES = 50;
const RULE = "-".repeat(40);
const SPACES = /[ \t\r\n\f]+/g;

/** A quotation or the item of a list: what precedes its lines. */
interface Prefix {
  first: string;
  rest: string;
  isItem: boolean;
  /** `first` is written. */
  begun: boolean;
}

interface List {
  /** Number of the next item; undefined for a list without numbers. */
  number: number | undefined;
  type: string | undefined;
}

/** Collects the text of HTML from its tags and texts, in order. */
export interface Layout {
  open(name: string, attributes: Readonly<Record<string, string>>): void;
  close(name: string): void;
  /** Decoded characters. @throws OverBudget */
  text(text: string): void;
  /** Line breaks before the next text, as far as tags have told. */
  readonly lines: number;
  /** The text so far; lines end in \n. */
  finish(): string;
}

export function createTextLayout(budget: Budget): Layout {
  let written = "";
  /** The current line has text. */
  let isBegun = false;
  /** White space was read since the last word. */
  let isSpaced = false;
  let lines = 0;
  /** Line breaks due before the next text, at least. */
  let breaks = 0;
  let textless = 0;
  let preformatted = 0;
  const prefixes: Prefix[] = [];
  /** Prefixes of the empty lines before the next text: of the elements around that text and the last. */
  let shared = 0;
  const lists: List[] = [];
  /** The open link; an inner one would end it (HTML §13.2.6.4.7). */
  let link: { href: string; text: string } | undefined;

  /** Ends a line. Empty ones before all text are counted, and not written. */
  function newLine(): void {
    budget.spend(10 + 4 * shared);
    lines++;
    if (written === "") return;
    if (!isBegun)
      written += prefixes
        .slice(0, shared)
        .reduce((line, { rest }) => line + rest, "")
        .trimEnd();
    written += "\n";
    isBegun = false;
  }

  /** The lines end before or after an element. A list in an item adds no empty line. */
  function breakLines(name: string, side: 0 | 1): void {
    const isInnerList = (name === "ul" || name === "ol") && prefixes.at(-1)?.isItem === true;
    breaks = Math.max(breaks, isInnerList ? 1 : (BREAKS.get(name)?.[side] ?? 0));
  }

  function endLines(): void {
    if (written !== "") for (; breaks > 0; breaks--) newLine();
    breaks = 0;
  }

  function write(text: string): void {
    endLines();
    if (isBegun) {
      if (isSpaced) written += " ";
    } else {
      budget.spend(10 * prefixes.length);
      for (const prefix of prefixes) {
        written += prefix.begun ? prefix.rest : prefix.first;
        prefix.begun = true;
      }
    }
    written += text;
    isBegun = true;
    isSpaced = false;
    shared = prefixes.length;
  }

  function words(text: string): void {
    // A space of no width, where a line may break, is not seen.
    const spaced = text.replaceAll("\u200b", "").replace(SPACES, " ");
    const start = spaced.startsWith(" ") ? 1 : 0;
    const end = spaced.endsWith(" ") ? spaced.length - 1 : spaced.length;
    if (start > 0) isSpaced = true;
    if (end <= start) return;
    const run = spaced.slice(start, end);
    // No more than tells whether it is the target.
    if (link && link.text.length <= link.href.length) link.text += run.replaceAll(" ", "");
    write(run);
    isSpaced = end < spaced.length;
  }

  function literally(text: string): void {
    for (const [index, line] of text.split("\n").entries()) {
      if (index > 0) {
        endLines();
        newLine();
      }
      if (line !== "") write(line);
    }
  }

  function enter(first: string, rest: string, isItem: boolean): void {
    const isShown = prefixes.length < MOST_PREFIXES;
    prefixes.push({ first: isShown ? first : "", rest: isShown ? rest : "", isItem, begun: false });
  }

  function leave(): void {
    prefixes.pop();
    shared = Math.min(shared, prefixes.length);
  }

  function enterItem(): void {
    const list = lists.at(-1);
    const number = list?.number === undefined ? "*" : `${numeral(list.number++, list.type)}.`;
    // The items of an inner list stand below the text of the outer one's.
    const marker = prefixes.at(-1)?.isItem ? `${number} ` : ` ${number} `;
    enter(marker, " ".repeat(marker.length), true);
  }

  function closeLink(): void {
    const { href, text } = link ?? { href: "", text: "" };
    link = undefined;
    if (href === "" || href === text) return;
    const wasSpaced = isSpaced;
    isSpaced ||= text !== "";
    write(text === "" ? href : `<${href}>`);
    isSpaced = wasSpaced || text === "";
  }

  return {
    open(name, attributes) {
      if (NO_TEXT.has(name)) textless++;
      if (textless > 0) return;
      breakLines(name, 0);
      if (name === "br") {
        endLines();
        newLine();
      } else if (name === "hr") write(RULE);
      else if (name === "img") words(attributes.alt ?? "");
      else if (name === "a") link = { href: readLinkTarget(attributes), text: "" };
      else if (name === "pre") preformatted++;
      else if (name === "blockquote") enter("> ", "> ", false);
      else if (name === "li") enterItem();
      else if (name === "ul") lists.push({ number: undefined, type: undefined });
      else if (name === "ol") lists.push({ number: Math.trunc(Number(attributes.start)) || 1, type: attributes.type });
    },
    close(name) {
      if (NO_TEXT.has(name)) textless--;
      else if (textless === 0) {
        if (name === "a") closeLink();
        else if (name === "pre") preformatted--;
        else if (name === "blockquote" || name === "li") leave();
        else if (name === "ul" || name === "ol") lists.pop();
        else if (name === "td" || name === "th") isSpaced = true;
        breakLines(name, 1);
      }
    },
    text(text) {
      if (textless > 0) return;
      if (preformatted > 0) literally(text);
      else words(text);
    },
    get lines() {
      return written === "" ? lines : lines + breaks;
    },
    finish: () => cleanText(written),
  };
}

/** The target of a link as shown; "" for none, and for a place in the same document. */
function readLinkTarget({ href = "" }: Readonly<Record<string, string>>): string {
  const target = href
    .replace(/[\t\r\n]+/g, "")
    .trim()
    .replaceAll(" ", "%20");
  return target.startsWith("#") ? "" : target.replace(/^mailto:/, "");
}

/** The number of an item in a list of that type (HTML §4.4.5): letters, else digits. */
function numeral(number: number, type: string | undefined): string {
  const isLetter = (type === "a" || type === "A") && number >= 1 && number <= 26;
  return isLetter ? String.fromCharCode(type.charCodeAt(0) + number - 1) : String(number);
}

/** Plain text of an HTML body, hidden text included. HTML beyond the budget is stripped of its tags, in linear time. */
export function textOfHtml(html: string, budget: Budget = createHtmlBudget()): string {
  try {
    const layout = createTextLayout(budget);
    readMarkup(html, budget, { ...layout, pass() {} });
    return layout.finish();
  } catch {
    return stripTags(html);
  }
}

const ENTITIES: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', apos: "'", nbsp: " " };
const LINE_ENDING_TAG = /^<(?:br|\/p|\/div|\/tr|\/li|\/h[1-6])\b/i;
const UNSEEN_TAG = /^<(script|style|title)\b/i;

/** Characters that are cleaned at once: the engine takes many times their memory for it. */
const CLEANED_AT_ONCE = 64 * 1024;

/** The characters between the tags. Linear time, and a few times the memory of the text. */
export function stripTags(html: string): string {
  const cleaned: string[] = [];
  let text = "";
  /** Cleans what is there. One space or line break at its end stays, since more may follow. */
  function clean(): void {
    const clear = cleanText(decodeEntities(text))
      .replace(/[ \t\r\f]+/g, " ")
      .replace(/ ?\n[ \n]*/g, "\n");
    const end = clear.length - (/[ \n]$/.test(clear) ? 1 : 0);
    cleaned.push(clear.slice(0, end));
    text = clear.slice(end);
  }
  let position = 0;
  while (position < html.length) {
    const open = html.indexOf("<", position);
    const close = open < 0 ? -1 : html.indexOf(">", open);
    if (close < 0) break;
    text += html.slice(position, open);
    const tag = html.slice(open, open + 10);
    const unseen = UNSEEN_TAG.exec(tag)?.[1];
    if (LINE_ENDING_TAG.test(tag)) text += "\n";
    if (text.length > CLEANED_AT_ONCE) clean();
    position = close + 1;
    if (unseen !== undefined) {
      const end = html.slice(position).search(new RegExp(`</${unseen}`, "i"));
      position = end < 0 ? html.length : position + end;
    }
  }
  text += html.slice(position);
  clean();
  return cleaned.join("").trim();
}

function decodeEntities(text: string): string {
  return text.replace(/&(#\d{1,7}|#x[0-9a-f]{1,6}|amp|lt|gt|quot|apos|nbsp);/gi, (entity, name: string) => {
    if (!name.startsWith("#")) return ENTITIES[name.toLowerCase()] ?? entity;
    const point = /^#x/i.test(name) ? Number.parseInt(name.slice(2), 16) : Number(name.slice(1));
    return point > 0 && point <= 0x10ffff ? String.fromCodePoint(point) : entity;
  });
}
