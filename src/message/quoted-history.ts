/**
 * Separates the new text of a reply from the history quoted below it, in plain text and in HTML. Known libraries need a
 * native regular expression engine or a DOM, or lose replies written between quotations.
 *
 * In doubt, text counts as new. Lines marked with `>` are history only if no new text follows; a forwarded message is
 * not history; and a message without other text is kept whole. Linear time.
 */
import { isForwardSubject } from "./subject.ts";

/** Longest line that can be an attribution or a header, in characters. */
const MAX_LINE = 300;
/** Most lines over which a mailer wraps an attribution. */
const ATTRIBUTION_LINES = 3;
/** Longer texts are kept whole. */
const MAX_LINES = 20_000;
/** Lines of a header block that are examined. */
const HEADER_LINES = 8;

/**
 * The phrase in an attribution that names the author, in the languages of mailers: `On …, Ann wrote:`, `Am … schrieb
 * Ann:`.
 */
const WROTE =
  /wrote|writes|schrieb|geschrieben|écrit|escribió|ha scritto|escreveu|schreef|geschreven|skrev|kirjoitti|napisał|napsal|írta|a scris|пишет|написал|написав|пише|yazdı|έγραψε|đã viết|menulis|писал|写道|寫道|のメール|書きました|작성/iu;
const BEGINS_ATTRIBUTION =
  /^(?:on|am|le|el|il|em|op|den|på|w dniu|dnia|dne|ne|în|a|la|pada|vào|[\d<"])(?=[\s\d]|$)|^(?:在|于)/iu;
const DATE_OR_TIME = /\d[:.h]\d\d|\d{4}/;
/** True for an attribution that a program wrote, because it has an address and a date. */
const isStrong = (attribution: string): boolean => attribution.includes("@") && DATE_OR_TIME.test(attribution);

const SEPARATOR =
  /^[-_*\s]{2,}(?:original message|original appointment|ursprüngliche nachricht|originalnachricht|message d'origine|message original|mensaje original|mensagem original|messaggio originale|oorspronkelijk bericht|ursprungligt meddelande|oprindelig meddelelse|opprinnelig melding|alkuperäinen viesti|wiadomość oryginalna|původní zpráva|исходное сообщение|orijinal mesaj|原始邮件|原始郵件|元のメッセージ|원본 메시지)[-_*\s]{2,}$/iu;
const FORWARDED =
  /^[-_*\s]*(?:begin )?(?:forwarded message|weitergeleitete nachricht|message (?:transféré|réexpédié)|mensaje reenviado|mensagem encaminhada|messaggio inoltrato|doorgestuurd bericht|vidarebefordrat|пересылаемое сообщение|转发的邮件|轉寄郵件)\b.{0,10}$/iu;
const RULE = /^_{10,}\s*$/;

const FROM =
  /^\*?(?:from|von|de|da|van|från|fra|lähettäjä|od|от|від|kimden|expéditeur|发件人|寄件者|差出人|보낸 사람)\s?\*?\s?[:：]/iu;
const OTHER_HEADER =
  /^\*?(?:sent|date|to|cc|subject|gesendet|datum|an|betreff|envoyé|à|objet|enviado(?: el| em)?|fecha|para|asunto|assunto|data|inviato|a|oggetto|verzonden|aan|onderwerp|skickat|till|ämne|sendt|til|emne|lähetetty|vastaanottaja|aihe|wysłano|do|temat|odesláno|komu|předmět|отправлено|дата|кому|тема|gönderme|kime|konu|发送时间|日期|收件人|主题|抄送|寄件日期|收件者|主旨|送信日時|宛先|件名|보낸 날짜|받는 사람|제목)\s?\*?\s?[:：]/iu;

interface NewText {
  text: string;
  /** Characters of history left out; 0 if the text is whole. */
  leftOut: number;
}

/** The new part of a message's text, if its history can be recognised. `subject` is the message's. */
export function extractNewText(text: string, subject: string): NewText {
  const whole = { text, leftOut: 0 };
  if (isForwardSubject(subject) || !HAS_HISTORY.test(text)) return whole;
  const lines = indexLines(text);
  const history = lines.starts.length > MAX_LINES ? undefined : startOfHistory(lines);
  if (history === undefined) return whole;
  const ownText = text.slice(0, lines.starts[history]).trimEnd();
  if (ownText === "" || !hasMatchingLine(lines, history, (line) => line !== "" && !isQuoted(line))) return whole;
  return { text: ownText, leftOut: text.length - ownText.length };
}

/** True if the last line of a text says who wrote the following, and when. */
function endsInAttribution(text: string): boolean {
  const lines = indexLines(text.trimEnd());
  return attributionBefore(lines, lines.starts.length - 1) !== undefined;
}

/** True if a text begins with the headers of an older message, as Outlook writes them above its quotation. */
function beginsWithHeaders(text: string): boolean {
  return startsHeaders(indexLines(text.trimStart()), 0);
}

/** The lines of a text. Each is extracted on demand, because most never are. */
interface Lines {
  text: string;
  /** Offsets of their beginnings, MAX_LINES + 1 at most. */
  starts: number[];
  /** Lines extracted so far. */
  taken: string[];
}

function indexLines(text: string): Lines {
  const starts = [0];
  for (let end = text.indexOf("\n"); end >= 0 && starts.length <= MAX_LINES; end = text.indexOf("\n", end + 1)) {
    starts.push(end + 1);
  }
  return { text, starts, taken: [] };
}

/** A line, trimmed and cut to the length that identifies it. Empty if there is none. */
function lineAt({ text, starts, taken }: Lines, index: number): string {
  const start = starts[index];
  if (start === undefined) return "";
  const known = taken[index];
  if (known !== undefined) return known;
  const end = text.indexOf("\n", start);
  const to = end < 0 ? text.length : end;
  const line = to - start > MAX_LINE ? text.slice(start, start + MAX_LINE).trimStart() : text.slice(start, to).trim();
  taken[index] = line;
  return line;
}

/** True if any of the first `count` lines passes. */
function hasMatchingLine(lines: Lines, count: number, holds: (line: string) => boolean): boolean {
  for (let index = 0; index < count; index++) if (holds(lineAt(lines, index))) return true;
  return false;
}

/** Matches every line that can start a history, up to its last character. */
const MAY_START_HISTORY = /[:：]|(?:^|\n)[^\S\n]*[-_*]/g;
/** Matches text that may hold a history, including one that has only the mark of quoted lines. */
const HAS_HISTORY = /[:：]|(?:^|\n)[^\S\n]*[-_*>]/;

/** The first line from `from` on that may start a history. */
function nextCandidate({ text, starts }: Lines, from: number): number | undefined {
  const start = starts[from];
  if (start === undefined) return undefined;
  MAY_START_HISTORY.lastIndex = Math.max(0, start - 1);
  if (!MAY_START_HISTORY.test(text)) return undefined;
  const end = MAY_START_HISTORY.lastIndex;
  let index = from;
  while ((starts[index + 1] ?? end) < end) index++;
  return index;
}

const isQuoted = (line: string): boolean => line.startsWith(">");

/** Index of the first line of the trailing history. */
function startOfHistory(lines: Lines): number | undefined {
  const found = startOfUnmarked(lines) ?? { start: startOfMarked(lines), announced: lines.starts.length - 1 };
  // A forwarded message is not history. Checked last, because most mail has no history at all.
  const isForwarded = (line: string) => line !== "" && !isQuoted(line) && FORWARDED.test(line);
  return found.start === undefined || hasMatchingLine(lines, found.announced + 1, isForwarded)
    ? undefined
    : found.start;
}

/** A history that its first lines announce; `announced` is the last of these. */
function startOfUnmarked(lines: Lines): { start: number; announced: number } | undefined {
  let index = nextCandidate(lines, 0);
  for (; index !== undefined; index = nextCandidate(lines, index + 1)) {
    const line = lineAt(lines, index);
    if (isQuoted(line)) continue;
    if (SEPARATOR.test(line) || startsHeaders(lines, index)) return { start: index, announced: index };
    const attribution = attributionBefore(lines, index);
    // A program wrote it, above a history without marks: people write no date with an address into a sentence.
    if (attribution?.isStrong && !isQuoted(lineAt(lines, nextFull(lines, index + 1) ?? index))) {
      return { start: attribution.start, announced: index };
    }
  }
  return undefined;
}

/** The attribution that ends with the line, if one does. */
function attributionBefore(lines: Lines, end: number): { start: number; isStrong: boolean } | undefined {
  if (!/[:：]$/.test(lineAt(lines, end))) return undefined;
  let joined = "";
  let found: { start: number; isStrong: boolean } | undefined;
  for (let start = end; start > end - ATTRIBUTION_LINES && start >= 0; start--) {
    const line = lineAt(lines, start);
    if (line === "" || line.length >= MAX_LINE || isQuoted(line)) break;
    joined = `${line} ${joined}`;
    if (!WROTE.test(joined)) continue;
    if (found === undefined || BEGINS_ATTRIBUTION.test(line)) found = { start, isStrong: isStrong(joined) };
  }
  return found;
}

/** True if a block of headers as Outlook writes it, or the ruled line above it, begins here. */
function startsHeaders(lines: Lines, index: number): boolean {
  let first = index;
  if (RULE.test(lineAt(lines, index))) first = nextFull(lines, index + 1) ?? index;
  if (!FROM.test(lineAt(lines, first))) return false;
  // Below another header, it belongs to a message that is shown whole, as in a bounce.
  if (OTHER_HEADER.test(lineAt(lines, index - 1))) return false;
  let others = 0;
  for (let below = 1; below <= HEADER_LINES; below++) if (OTHER_HEADER.test(lineAt(lines, first + below))) others++;
  return others >= 2;
}

function nextFull(lines: Lines, from: number): number | undefined {
  for (let index = from; index < lines.starts.length; index++) if (lineAt(lines, index) !== "") return index;
  return undefined;
}

/** The first of the marked lines at the very end, or the attribution above them. */
function startOfMarked(lines: Lines): number | undefined {
  let first: number | undefined;
  for (let index = lines.starts.length - 1; index >= 0; index--) {
    const line = lineAt(lines, index);
    if (line === "") continue;
    if (!isQuoted(line)) break;
    first = index;
  }
  if (first === undefined) return undefined;
  let above = first - 1;
  while (above >= 0 && lineAt(lines, above) === "") above--;
  return attributionBefore(lines, above)?.start ?? first;
}

/*
 * The history in HTML. A block quotation counts as history if an attribution or a mailer's margin line marks it and
 * nothing follows it; Outlook's quotation begins with the headers of the older message. A quotation without new text
 * before it is not history.
 */

/** Numbers of elements in document order, from 0. */
export interface History {
  /** The element with which the history begins. */
  first: number;
  /** The parent, with which it ends; undefined if it ends with the document. */
  parent: number | undefined;
}

interface Block {
  index: number;
  tag: string;
  style: string;
  parent: Block | undefined;
  /** A ruled line directly precedes it. */
  followsRule: boolean;
  /** Offsets of its text in the document's text. */
  start: number;
  end: number;
}

/** Elements without content, and so without an end tag. */
const VOID = new Set(["br", "col", "hr", "img", "wbr"]);
/** Elements between which <details> may stand. */
const PARTS = new Set(["div", "blockquote", "section", "article", "main", "center"]);
const LINES = new Set([...PARTS, "br", "hr", "p", "tr", "li", "h1", "h2", "h3", "h4", "h5", "h6"]);

const LINE_ABOVE = /(?:^|;)\s*border-top:[^;]*solid/i;
const LINE_AT_SIDE = /(?:^|;)\s*border-left:[^;]*solid/i;
/** Characters of text searched for an attribution or the headers of a message. */
const LOOKED_AT = 1_000;
/** Stands for an image in the text. */
const OBJECT = "\ufffc";

/** The history in sanitised HTML; undefined if there is none. */
export function findQuotedHistory(html: string): History | undefined {
  const { text, blocks } = readBlocks(html);
  const begin = text.search(/\S/);
  const end = text.trimEnd().length;
  const first = begin < 0 ? undefined : blocks.find((block) => block.start > begin && isHistory(block, text, end));
  return first && outermost(first, text);
}

function isHistory({ tag, style, followsRule, start, end }: Block, text: string, textEnd: number): boolean {
  const within = text.slice(start, Math.min(end, start + LOOKED_AT)).trimStart();
  if (tag === "div") return (followsRule || LINE_ABOVE.test(style)) && beginsWithHeaders(within);
  if (tag !== "blockquote" || end < textEnd) return false;
  const before = text.slice(Math.max(0, start - LOOKED_AT), start);
  // Apple's mailers write the attribution into the quotation.
  const firstLines = within.slice(0, within.search(/[:：]\n/) + 1);
  return LINE_AT_SIDE.test(style) || endsInAttribution(before) || endsInAttribution(firstLines);
}

/** The outermost ancestor that has no other text before the block: its margins and lines belong to the history. */
function outermost(block: Block, text: string): History {
  let outer = block;
  for (let above = outer.parent; above && PARTS.has(above.tag); above = above.parent) {
    if (text.slice(above.start, block.start).trim() !== "") break;
    outer = above;
  }
  return { first: outer.index, parent: outer.parent?.index };
}

function readBlocks(html: string): { text: string; blocks: Block[] } {
  const pieces: string[] = [];
  let length = 0;
  let followsRule = false;
  const add = (piece: string) => {
    pieces.push(piece);
    length += piece.length;
    if (piece.trim() !== "") followsRule = false;
  };
  const blocks: Block[] = [];
  let count = 0;
  let inner: Block | undefined;
  new HTMLRewriter()
    .on("*", {
      element(element) {
        const tag = element.tagName;
        const index = count++;
        if (LINES.has(tag)) add("\n");
        if (tag === "img") add(OBJECT);
        if (tag === "hr") followsRule = true;
        if (VOID.has(tag)) return;
        const style = element.getAttribute("style") ?? "";
        const block: Block = { index, tag, style, parent: inner, followsRule, start: length, end: length };
        if (PARTS.has(tag)) blocks.push(block);
        inner = block;
        element.onEndTag(() => {
          block.end = length;
          inner = block.parent;
          if (LINES.has(tag)) add("\n");
        });
      },
    })
    .onDocument({
      text(chunk) {
        if (inner?.tag === "style") return;
        add(chunk.text.replaceAll(/\s+/g, " "));
      },
    })
    .transform(html);
  return { text: pieces.join(""), blocks };
}
