/**
 * The text of a message as its reader sees it, for a model. People are shown the HTML if there is one, so the text part
 * is used only if it says the same. Hidden text and a deviating text part therefore never reach a model.
 */
import { type Budget, createBudget } from "./budget.ts";
import { textOfHtml } from "./text.ts";
import { visibleHtml } from "./visible.ts";

export interface SeenText {
  text: string;
  /** Characters of the HTML that its reader does not see, and that are left out. */
  hidden: number;
  /** The HTML replaced the text part, which lacks its links or says what the HTML does not show. */
  fromHtml: boolean;
}

/**
 * Version of these rules and those of visible.ts, stored beside the result, so that stored text can be derived anew.
 */
export const SEEN_VERSION = 2;

/** The part of a text part's words, and their number, that the HTML may lack: line wrapping, "view in browser". */
const OTHER_WORDS = 0.1;
const FEW_WORDS = 8;
/** Longer texts are not compared with their HTML; the HTML is used. */
const MAX_COMPARED = 256 * 1024;

/** `text`: as stored. `html`: as received, if there is any. Links become `text <https://…>`. */
export function seenText(text: string, html: string | undefined, budget: Budget = createBudget()): SeenText {
  if (html === undefined) return { text, hidden: 0, fromHtml: false };
  const visible = visibleHtml(html, budget);
  const shown = textOfHtml(visible.html, budget);
  const isEmpty = shown.trim() === "";
  if (visible.hidden === 0 && (isEmpty || saysNoMore(text, shown))) return { text, hidden: 0, fromHtml: false };
  return { text: shown, hidden: visible.hidden, fromHtml: text !== shown };
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
