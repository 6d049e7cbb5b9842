/** Derives short texts from mail: a snippet, the key of a subject; and makes HTML of text. All work is bounded. */
/** A text as HTML has it between its tags. */
export const escapeHtml = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** HTML that shows a plain text; empty for white space alone. */
export function htmlOfText(text: string): string {
  if (text.trim() === "") return "";
  return `<div style="white-space:pre-wrap">${escapeHtml(text)}</div>`;
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
export function makeSnippet(text: string): string {
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
    if (oneLineBeginning(own.join(" ")).length > SNIPPET_LENGTH) break;
    enough = 2 * length;
  }
  return shorten(oneLineBeginning(own.join(" "))) || shorten(oneLineBeginning(lines.join(" ")));
}

/** The beginning of `oneLine(text)`, as much as a snippet needs, without scanning all of a long text. */
function oneLineBeginning(text: string): string {
  for (let length = 2 * SNIPPET_LENGTH; length < text.length; length *= 2) {
    // A cut link or ruled line would no longer be recognised as one.
    const whole = text.slice(0, length).replace(/<[^<>\s]*$/, "");
    const line = oneLine(whole.replace(/(?<![-_=*~])[-_=*~]+$/, ""));
    if (line.length > SNIPPET_LENGTH) return line;
  }
  return oneLine(text);
}

const SPACE = /[\s\p{Cc}\u2800]/u;
/** Characters that are not seen. The joiners between two others shape those, in Persian and in emoji. */
const UNSEEN = /[[\p{Cf}\p{Default_Ignorable_Code_Point}]--[\u200c\u200d\ufe0f\u{e0020}-\u{e007f}]]+/gv;
const MOST_JOINERS = 2;

/** The text on one line, without link targets, ruled lines and characters that are not seen, which are noise in a list. */
function oneLine(text: string): string {
  return text
    .replace(/<(?:https?|mailto):[^<>\s]*>/gi, " ")
    .replace(/[-_=*~]{4,}/g, " ")
    .replace(UNSEEN, "")
    .replace(/[\s\p{Cc}\u2800\u200c\u200d]+/gu, (run, at: number, whole: string) => {
      const isBetween = at > 0 && at + run.length < whole.length;
      return isBetween && run.length <= MOST_JOINERS && !SPACE.test(run) ? run : " ";
    })
    .trim();
}

function shorten(text: string): string {
  if (text.length <= SNIPPET_LENGTH) return text.toWellFormed();
  const cut = text.slice(0, SNIPPET_LENGTH - 1);
  const space = cut.lastIndexOf(" ");
  const end = space > SNIPPET_LENGTH / 2 ? space : cut.length;
  const shortened = cut.slice(0, end).replace(/[\ud800-\udbff]$/, "");
  return `${shortened}…`.toWellFormed();
}

/** `text` without trailing line breaks. */
export function trimLineBreaks(text: string): string {
  let end = text.length;
  while (end > 0 && text[end - 1] === "\n") end--;
  return text.slice(0, end);
}
