/**
 * Reduces the text of mail to the characters that a reader sees: without controls, without characters that turn the
 * direction of text, and without zero-width ones (tags, variation selectors), which can carry instructions past people
 * to models. Linear time.
 *
 * A single joiner stays between letters of scripts without case and between emoji, and so does a single VARIATION
 * SELECTOR-15 or -16 after a symbol, because there they change what is seen.
 */

/** Line breaks of every kind. */
const LINE_BREAK = /\r\n|[\r\v\f\u0085\u2028\u2029]/g;
/**
 * Characters that are ignorable by default (UAX #44), annotations, noncharacters, and controls except tab and line
 * feed.
 */
const UNSEEN = /(?:(?![\t\n])[\p{DI}\uFFF9-\uFFFB\p{Noncharacter_Code_Point}\p{Cc}])+/gu;
const BEFORE_JOINER = /(?:[\p{Lo}\p{M}\p{Extended_Pictographic}\p{Emoji_Modifier}]|\ufe0f)$/u;
const BEHIND_JOINER = /^[\p{Lo}\p{Extended_Pictographic}]/u;
const BEFORE_SELECTOR = /[\p{Extended_Pictographic}\p{So}\p{Sm}0-9#*]$/u;
/** The lookbehind starts one attempt per run, so a long run is scanned once. */
const SPACE_AT_LINE_END = /(?<![ \t\u00a0\u2800])[ \t\u00a0\u2800]+(?=\n)/g;
const EMPTY_LINES = /\n{4,}/g;

/** Printable characters of the most common scripts, all of them visible. */
const SEEN =
  " -~\\u00a1-\\u00ac\\u00ae-\\u034e\\u0350-\\u061b\\u2010-\\u2027\\u2030-\\u205e\\u20a0-\\u2121\\u3001-\\u3163\\u3165-\\u9fff\\uac00-\\ud7a3";
const ODD_IN_TEXT = new RegExp(`[^\\t\\n${SEEN}]`);
const ODD_IN_LINE = new RegExp(`[^${SEEN}]`);
/**
 * The unusual characters of ASCII: few enough that regular expressions scan many characters at once, ten times faster.
 */
const CONTROLS = "\\0-\\x08\\v-\\x1f\\x7f";
const CONTROL_IN_TEXT = new RegExp(`[${CONTROLS}]`);
const CONTROL_IN_LINE = new RegExp(`[\\t\\n${CONTROLS}]`);

export const isAscii = (text: string): boolean => Buffer.byteLength(text) === text.length;

/** True for most mail: toVisibleText returns the text, and any part of it, unchanged. */
export const isVisibleAsWritten = (text: string): boolean =>
  !(isAscii(text) ? CONTROL_IN_TEXT : ODD_IN_TEXT).test(text) &&
  !["\n\n\n\n", " \n", "\t\n"].some((odd) => text.includes(odd));

/** `text` without invisible characters; lines end in \n. */
export function toVisibleText(text: string): string {
  // A shortcut: this test costs a tenth of the rest.
  if (isVisibleAsWritten(text)) return text;
  return text
    .toWellFormed()
    .replace(LINE_BREAK, "\n")
    .replace(UNSEEN, changesWhatIsSeen)
    .replace(SPACE_AT_LINE_END, "")
    .replace(EMPTY_LINES, "\n\n\n");
}

const isPlainLine = (text: string): boolean =>
  !(isAscii(text) ? CONTROL_IN_LINE : ODD_IN_LINE).test(text) &&
  !text.includes("  ") &&
  !text.startsWith(" ") &&
  !text.endsWith(" ");

/**
 * Returns `text` without invisible characters, on one line and with spaces folded: a subject, name or header cannot start a
 * line of its own.
 */
export function toVisibleLine(text: string): string {
  if (isPlainLine(text)) return text;
  return toVisibleText(text)
    .replace(/[\s\u2800]+/gu, " ")
    .trim();
}

/** The part of a run of invisible characters that stays. */
function changesWhatIsSeen(run: string, position: number, text: string): string {
  if (run.length > 2) return "";
  const before = text.slice(Math.max(0, position - 2), position);
  const behind = text.slice(position + run.length, position + run.length + 2);
  const selector = /^[\ufe0e\ufe0f]/.test(run) && BEFORE_SELECTOR.test(before) ? run.slice(0, 1) : "";
  const joiner = run.slice(selector.length);
  const joins = (joiner === "\u200c" || joiner === "\u200d") && BEHIND_JOINER.test(behind);
  return joins && (selector === "\ufe0f" || BEFORE_JOINER.test(before)) ? run : selector;
}
