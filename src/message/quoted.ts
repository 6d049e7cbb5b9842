/**
 * The new text of a reply, apart from the history quoted below it. No library for it is both kept up and small: the
 * known ones want a native regular expression engine or a DOM, and lose answers written between quotations.
 *
 * Rather too much than too little is kept: what is marked with `>` is history only if nothing but history follows; a
 * forwarded message is no history; and a message that has nothing else is kept whole. Linear time.
 */
import { isForward } from "./text.ts";

/** Longest line that can be an attribution or a header, in characters. */
const MAX_LINE = 300;
/** Lines over which a mailer wraps an attribution. */
const ATTRIBUTION_LINES = 3;
/** More lines are no letter; they are kept as they are. */
const MAX_LINES = 20_000;
/** Lines of a header block that is looked at. */
const HEADER_LINES = 8;

/** What an attribution says of its author, in the languages of mailers: `On …, Ann wrote:`, `Am … schrieb Ann:`. */
const WROTE =
  /wrote|writes|schrieb|geschrieben|écrit|escribió|ha scritto|escreveu|schreef|geschreven|skrev|kirjoitti|napisał|napsal|írta|a scris|пишет|написал|написав|пише|yazdı|έγραψε|đã viết|menulis|писал|写道|寫道|のメール|書きました|작성/iu;
const BEGINS_ATTRIBUTION =
  /^(?:on|am|le|el|il|em|op|den|på|w dniu|dnia|dne|ne|în|a|la|pada|vào|[\d<"])(?=[\s\d]|$)|^(?:在|于)/iu;
/** A date or a time, and an address: a program wrote it. */
const STRONG = /(?:\d[:.h]\d\d|\d{4}).*@|@.*(?:\d[:.h]\d\d|\d{4})/;

const SEPARATOR =
  /^[-_*\s]{2,}(?:original message|original appointment|ursprüngliche nachricht|originalnachricht|message d'origine|message original|mensaje original|mensagem original|messaggio originale|oorspronkelijk bericht|ursprungligt meddelande|oprindelig meddelelse|opprinnelig melding|alkuperäinen viesti|wiadomość oryginalna|původní zpráva|исходное сообщение|orijinal mesaj|原始邮件|原始郵件|元のメッセージ|원본 메시지)[-_*\s]{2,}$/iu;
const FORWARDED =
  /^[-_*\s]*(?:begin )?(?:forwarded message|weitergeleitete nachricht|message (?:transféré|réexpédié)|mensaje reenviado|mensagem encaminhada|messaggio inoltrato|doorgestuurd bericht|vidarebefordrat|пересылаемое сообщение|转发的邮件|轉寄郵件)\b.{0,10}$/iu;
const RULE = /^_{10,}\s*$/;

const FROM =
  /^\*?(?:from|von|de|da|van|från|fra|lähettäjä|od|от|від|kimden|expéditeur|发件人|寄件者|差出人|보낸 사람)\s?\*?\s?[:：]/iu;
const OTHER_HEADER =
  /^\*?(?:sent|date|to|cc|subject|gesendet|datum|an|betreff|envoyé|à|objet|enviado(?: el| em)?|fecha|para|asunto|assunto|data|inviato|a|oggetto|verzonden|aan|onderwerp|skickat|till|ämne|sendt|til|emne|lähetetty|vastaanottaja|aihe|wysłano|do|temat|odesláno|komu|předmět|отправлено|дата|кому|тема|gönderme|kime|konu|发送时间|日期|收件人|主题|抄送|寄件日期|收件者|主旨|送信日時|宛先|件名|보낸 날짜|받는 사람|제목)\s?\*?\s?[:：]/iu;

export interface NewText {
  text: string;
  /** Characters of history left out; 0 when the text is whole. */
  leftOut: number;
}

/** The new part of a message's text, where a history can be told from it. `subject`: of the message. */
export function newTextOf(text: string, subject: string): NewText {
  const whole = { text, leftOut: 0 };
  if (isForward(subject)) return whole;
  const lines = linesOf(text);
  const history = lines.length > MAX_LINES ? undefined : startOfHistory(lines);
  if (history === undefined) return whole;
  const end = lines[history]?.start ?? text.length;
  const kept = text.slice(0, end).trimEnd();
  if (kept === "" || lines.slice(0, history).every(({ text: line }) => line === "" || isQuoted(line))) return whole;
  return { text: kept, leftOut: text.length - kept.length };
}

/** Whether the last line of a text says who wrote what follows, and when. */
export function endsInAttribution(text: string): boolean {
  const lines = linesOf(text.trimEnd());
  return attributionBefore(lines, lines.length - 1) !== undefined;
}

/** Whether a text begins with the headers of an older message, as Outlook puts them above what it quotes. */
export function beginsWithHeaders(text: string): boolean {
  return startsHeaders(linesOf(text.trimStart()), 0);
}

interface Line {
  start: number;
  /** Trimmed and cut: enough to tell what it is. */
  text: string;
}

function linesOf(text: string): Line[] {
  const lines: Line[] = [];
  for (let start = 0; start <= text.length && lines.length <= MAX_LINES; ) {
    const end = text.indexOf("\n", start);
    const to = end < 0 ? text.length : end;
    lines.push({
      start,
      text: to - start > MAX_LINE ? text.slice(start, start + MAX_LINE).trimStart() : text.slice(start, to).trim(),
    });
    start = to + 1;
  }
  return lines;
}

/** Without any of these at its place no line starts a history. */
const MAY_START_HISTORY = /[:：]|^[-_*]/;

const isQuoted = (line: string): boolean => line.startsWith(">");

/** Index of the first line of the history at the end. */
function startOfHistory(lines: readonly Line[]): number | undefined {
  const found = startOfUnmarked(lines) ?? { start: startOfMarked(lines), told: lines.length - 1 };
  // What is forwarded is no history. Looked for last: in most mail there is nothing to be left out.
  const isForwarded = ({ text }: Line) => text !== "" && !isQuoted(text) && FORWARDED.test(text);
  return found.start === undefined || lines.slice(0, found.told + 1).some(isForwarded) ? undefined : found.start;
}

/** A history that its first lines tell, up to the one at `told`. */
function startOfUnmarked(lines: readonly Line[]): { start: number; told: number } | undefined {
  for (const [index, { text }] of lines.entries()) {
    if (isQuoted(text) || !MAY_START_HISTORY.test(text)) continue;
    if (SEPARATOR.test(text) || startsHeaders(lines, index)) return { start: index, told: index };
    const attribution = attributionBefore(lines, index);
    // Quoted without marks, by a program: nobody writes date and address into a sentence.
    if (attribution?.isStrong && !isQuoted(lines[nextFull(lines, index + 1) ?? index]?.text ?? "")) {
      return { start: attribution.start, told: index };
    }
  }
  return undefined;
}

/** The attribution that ends with the line, if one does. */
function attributionBefore(lines: readonly Line[], end: number): { start: number; isStrong: boolean } | undefined {
  if (!/[:：]$/.test(lines[end]?.text ?? "")) return undefined;
  let joined = "";
  let found: { start: number; isStrong: boolean } | undefined;
  for (let start = end; start > end - ATTRIBUTION_LINES && start >= 0; start--) {
    const line = lines[start]?.text ?? "";
    if (line === "" || line.length >= MAX_LINE || isQuoted(line)) break;
    joined = `${line} ${joined}`;
    if (!WROTE.test(joined)) continue;
    if (found === undefined || BEGINS_ATTRIBUTION.test(line)) found = { start, isStrong: STRONG.test(joined) };
  }
  return found;
}

/** A block of headers as Outlook writes it, or the rule above it. */
function startsHeaders(lines: readonly Line[], index: number): boolean {
  let first = index;
  if (RULE.test(lines[index]?.text ?? "")) first = nextFull(lines, index + 1) ?? index;
  if (!FROM.test(lines[first]?.text ?? "")) return false;
  // Amid other headers it is the header of a message that is shown whole, as in a bounce.
  if (OTHER_HEADER.test(lines[index - 1]?.text ?? "")) return false;
  const block = lines.slice(first + 1, first + 1 + HEADER_LINES);
  return block.filter(({ text }) => OTHER_HEADER.test(text)).length >= 2;
}

function nextFull(lines: readonly Line[], from: number): number | undefined {
  for (let index = from; index < lines.length; index++) if (lines[index]?.text !== "") return index;
  return undefined;
}

/** Where the marked lines at the very end begin, with the attribution above them. */
function startOfMarked(lines: readonly Line[]): number | undefined {
  let first: number | undefined;
  for (let index = lines.length - 1; index >= 0; index--) {
    const { text } = lines[index] as Line;
    if (text === "") continue;
    if (!isQuoted(text)) break;
    first = index;
  }
  if (first === undefined) return undefined;
  let above = first - 1;
  while (above >= 0 && lines[above]?.text === "") above--;
  return attributionBefore(lines, above)?.start ?? first;
}
