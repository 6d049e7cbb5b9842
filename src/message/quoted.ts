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
const DATE_OR_TIME = /\d[:.h]\d\d|\d{4}/;
/** With an address beside it, a program wrote it. */
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

export interface NewText {
  text: string;
  /** Characters of history left out; 0 when the text is whole. */
  leftOut: number;
}

/** The new part of a message's text, where a history can be told from it. `subject`: of the message. */
export function newTextOf(text: string, subject: string): NewText {
  const whole = { text, leftOut: 0 };
  if (isForward(subject) || !HAS_HISTORY.test(text)) return whole;
  const lines = linesOf(text);
  const history = lines.starts.length > MAX_LINES ? undefined : startOfHistory(lines);
  if (history === undefined) return whole;
  const kept = text.slice(0, lines.starts[history]).trimEnd();
  if (kept === "" || !someOf(lines, history, (line) => line !== "" && !isQuoted(line))) return whole;
  return { text: kept, leftOut: text.length - kept.length };
}

/** Whether the last line of a text says who wrote what follows, and when. */
export function endsInAttribution(text: string): boolean {
  const lines = linesOf(text.trimEnd());
  return attributionBefore(lines, lines.starts.length - 1) !== undefined;
}

/** Whether a text begins with the headers of an older message, as Outlook puts them above what it quotes. */
export function beginsWithHeaders(text: string): boolean {
  return startsHeaders(linesOf(text.trimStart()), 0);
}

/** The lines of a text. What they say is taken out when it is asked for: of most it never is. */
interface Lines {
  text: string;
  /** Where they start; of MAX_LINES and one more at most. */
  starts: number[];
  /** What was asked for. */
  taken: string[];
}

function linesOf(text: string): Lines {
  const starts = [0];
  for (let end = text.indexOf("\n"); end >= 0 && starts.length <= MAX_LINES; end = text.indexOf("\n", end + 1)) {
    starts.push(end + 1);
  }
  return { text, starts, taken: [] };
}

/** What a line says, trimmed and cut: enough to tell what it is. Empty where there is none. */
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

/** Whether it holds for any of the first `count` lines. */
function someOf(lines: Lines, count: number, holds: (line: string) => boolean): boolean {
  for (let index = 0; index < count; index++) if (holds(lineAt(lines, index))) return true;
  return false;
}

/** What a line that starts a history has, up to its last character. */
const MAY_START_HISTORY = /[:：]|(?:^|\n)[^\S\n]*[-_*]/g;
/** The same, or the mark of a history that nothing announces. */
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

/** Index of the first line of the history at the end. */
function startOfHistory(lines: Lines): number | undefined {
  const found = startOfUnmarked(lines) ?? { start: startOfMarked(lines), told: lines.starts.length - 1 };
  // What is forwarded is no history. Looked for last: in most mail there is nothing to be left out.
  const isForwarded = (line: string) => line !== "" && !isQuoted(line) && FORWARDED.test(line);
  return found.start === undefined || someOf(lines, found.told + 1, isForwarded) ? undefined : found.start;
}

/** A history that its first lines tell, up to the one at `told`. */
function startOfUnmarked(lines: Lines): { start: number; told: number } | undefined {
  let index = nextCandidate(lines, 0);
  for (; index !== undefined; index = nextCandidate(lines, index + 1)) {
    const line = lineAt(lines, index);
    if (isQuoted(line)) continue;
    if (SEPARATOR.test(line) || startsHeaders(lines, index)) return { start: index, told: index };
    const attribution = attributionBefore(lines, index);
    // Quoted without marks, by a program: nobody writes date and address into a sentence.
    if (attribution?.isStrong && !isQuoted(lineAt(lines, nextFull(lines, index + 1) ?? index))) {
      return { start: attribution.start, told: index };
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

/** A block of headers as Outlook writes it, or the rule above it. */
function startsHeaders(lines: Lines, index: number): boolean {
  let first = index;
  if (RULE.test(lineAt(lines, index))) first = nextFull(lines, index + 1) ?? index;
  if (!FROM.test(lineAt(lines, first))) return false;
  // Amid other headers it is the header of a message that is shown whole, as in a bounce.
  if (OTHER_HEADER.test(lineAt(lines, index - 1))) return false;
  let others = 0;
  for (let below = 1; below <= HEADER_LINES; below++) if (OTHER_HEADER.test(lineAt(lines, first + below))) others++;
  return others >= 2;
}

function nextFull(lines: Lines, from: number): number | undefined {
  for (let index = from; index < lines.starts.length; index++) if (lineAt(lines, index) !== "") return index;
  return undefined;
}

/** Where the marked lines at the very end begin, with the attribution above them. */
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
