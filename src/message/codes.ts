/**
 * Finds what looks like a one-time code or a sign-in link in mail, and masks it, for API keys that may not read such
 * credentials (rules: Codes).
 *
 * A number or a mixed token is a candidate by its shape. It is a code if words near it say so: the nearer and the plainer the
 * words, the more shapes count. A link is one by what its own path and query hold, and by the words beside it. Codes that were
 * found in one part of a message are masked in all of them.
 *
 * Pure and in linear time: regular expressions have bounded repetitions or begin only where a run begins, and each candidate
 * looks at a bounded number of words.
 */
import { createHtmlBudget, isHtmlTooLarge, OverBudget, readMarkup } from "./markup.ts";

export const CODE_MASK = "[code hidden]";
export const LINK_MASK = "[link hidden]";
/** Stands for what is too long, or too tangled, to be checked. */
export const UNCHECKED_MASK = "[the rest is hidden: too long to be checked for codes]";

/** Characters of one part that are checked. */
const LONGEST_CHECKED = 1_000_000;

/** A part of a message: its subject first, then texts and HTML in any order. */
export interface CodedPart {
  content: string;
  html?: boolean;
}

/**
 * Masks the parts of one message. `known`: codes found in it elsewhere. `codes`: those and the ones found here, as
 * written, and without the characters between.
 */
export function maskCodes(
  parts: readonly CodedPart[],
  known: Iterable<string> = [],
): { contents: string[]; codes: string[] } {
  const codes = new Set(known);
  let contents = parts.map(({ content, html }) => withinBounds(content, html));
  for (let pass = 0; pass < MOST_PASSES; pass++) {
    const before = contents;
    const [subject, body] = [0, 1].map((n) => aboutIn(before[n] ?? ""));
    contents = before.map((content, n) => {
      const isHtml = parts[n]?.html === true;
      const context = n === 0 ? { about: body ?? 0, isSubject: !isHtml } : { about: subject ?? 0, isSubject: false };
      return isHtml ? maskHtml(content, context, codes) : maskText(content, context, codes);
    });
    if (codes.size > 0) contents = contents.map((content) => maskKnown(content, codes));
    if (contents.every((content, n) => content === before[n])) break;
  }
  return { contents, codes: [...codes] };
}

function withinBounds(content: string, html = false): string {
  if (html) return isHtmlTooLarge(content) || content.length > LONGEST_CHECKED ? UNCHECKED_MASK : content;
  return content.length <= LONGEST_CHECKED
    ? content
    : `${content.slice(0, LONGEST_CHECKED).trimEnd()}\n${UNCHECKED_MASK}`;
}

/** True for a word or phrase of a search that would find a code or a link. Any with a digit might. */
export const mayFindCode = (text: string): boolean =>
  /\p{N}/u.test(text) || /^\s*\p{Lu}{3,8}(?:-\p{Lu}{3,8})+\s*$/u.test(text) || /:\/\//.test(text);

/** Facts from the rest of the message about the numbers in a part. */
interface Context {
  about: Strength;
  /** The part is a subject, in which a candidate needs no line of its own. */
  isSubject: boolean;
}

/** Characters at the beginning of a part that tell what the others are about. */
const LONGEST_ABOUT = 4_000;
/** Codes that one message can have, all of which are looked for in each part. */
const MOST_CODES = 200;
/** Masking moves words nearer to candidates that are left, which may become codes by it. */
const MOST_PASSES = 8;

/** Start and end in the text, in UTF-16 units. */
type Span = readonly [start: number, end: number, mask: string];

function maskText(text: string, context: Context, codes: Set<string>): string {
  const flat = flattenText(text);
  const spans = spansIn(flat.text, context);
  noteCodes(flat.text, spans, codes);
  return replaced(
    text,
    spans.map(([start, end, mask]) => [flat.at(start), flat.at(end - 1) + 1, mask]),
  );
}

function replaced(text: string, spans: readonly Span[]): string {
  let result = "";
  let at = 0;
  for (const [start, end, mask] of spans) {
    result += text.slice(at, start) + mask;
    at = end;
  }
  return result + text.slice(at);
}

/** Notes the codes at these places, to find them in other parts. */
function noteCodes(text: string, spans: readonly Span[], codes: Set<string>): void {
  for (const [start, end, mask] of spans) {
    if (mask !== CODE_MASK || codes.size >= MOST_CODES) continue;
    const written = text.slice(start, end);
    codes.add(written.replace(/\s+/g, " "));
    const joined = written.replace(/[^A-Za-z0-9]+/g, "");
    if (joined.length >= 4) codes.add(joined);
  }
}

/** A code that a snippet or a name may end in the middle of. */
const CUT_END = /([A-Za-z0-9]+)…$/;

/** Masks codes that were found elsewhere in the message, wherever they stand, also in markup. */
function maskKnown(text: string, codes: ReadonlySet<string>): string {
  const longestFirst = [...codes].sort((a, b) => b.length - a.length).map((code) => RegExp.escape(code));
  const anyCode = new RegExp(`(?<![A-Za-z0-9#&])(?:${longestFirst.join("|")})(?![A-Za-z0-9])`, "g");
  const masked = text.replace(anyCode, CODE_MASK);
  const [, cut] = CUT_END.exec(masked.slice(-80)) ?? [];
  if (cut === undefined || ![...codes].some((code) => code.startsWith(cut))) return masked;
  return `${masked.slice(0, -cut.length - 1)}${CODE_MASK}…`;
}

/*
 * Flat text: what the finders read, with plain digits and spaces, and without invisible characters.
 */

interface Flat {
  text: string;
  /** The offset in the original of a character here. */
  at(offset: number): number;
}

const INVISIBLE = /\u034f|[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]/;
const UNUSUAL = /[^\0-\x7f]/;

/** A character in the form in which the finders know it; empty for an invisible one. */
function plain(character: string): string {
  if (character < "\x80") return character;
  if (INVISIBLE.test(character)) return "";
  if (/[\u00a0\u2000-\u200a\u202f\u205f\u3000]/.test(character)) return " ";
  if (/[\u2010-\u2012]/.test(character)) return "-";
  // Full width forms, and digits of other scripts, whose values follow each other from a multiple of ten on, or six.
  const code = character.charCodeAt(0);
  if (code >= 0xff01 && code <= 0xff5e && /[\p{L}\p{N}]/u.test(character)) return String.fromCharCode(code - 0xfee0);
  for (const zero of [0x660, 0x6f0, 0x966, 0x9e6, 0xe50]) {
    if (code >= zero && code < zero + 10) return String(code - zero);
  }
  return character;
}

function flattenText(text: string): Flat {
  if (!UNUSUAL.test(text)) return { text, at: (offset) => offset };
  const offsets = new Uint32Array(text.length);
  let flat = "";
  for (let i = 0; i < text.length; i++) {
    const character = plain(text[i] as string);
    if (character === "") continue;
    offsets[flat.length] = i;
    flat += character;
  }
  return { text: flat, at: (offset) => offsets[offset] ?? text.length };
}

/*
 * Words that say what a number beside them is.
 */

/** 3: a phrase that only codes have; 2: a word for codes that has other meanings; 1: what people do with codes. */
type Strength = 0 | 1 | 2 | 3;

interface Word {
  start: number;
  end: number;
  strength: Strength;
  /** Its code was found, so another number behind it is probably none. */
  spent: boolean;
}

const LETTER = "\\p{Script=Latin}\\p{Script=Cyrillic}\\p{Script=Greek}\\p{M}";
/** A word does not begin in the middle of another one, in scripts with spaces. */
const BEGIN = `(?<![${LETTER}])`;
const END = `(?![${LETTER}])`;

const KINDS_OF_CODE =
  "verification|verify|verifying|security|log-?in|sign-?in|authentication|authenticator|authorization|access|confirmation|confirm|activation|one[- ]?time|single[- ]use|temporary|recovery|backup|reset|pairing|device|2fa|two[- ](?:factor|step)|mfa|sms|unlock|personal|secret|registration|validation|\\d-?digit|(?:four|five|six|seven|eight)[- ]digit";
const GERMAN_KINDS =
  "bestätigungs|verifizierungs|sicherheits|anmelde|login|zugangs|zugriffs|aktivierungs|einmal|freischalt|prüf|wiederherstellungs|registrierungs|authentifizierungs";
const DUTCH_AND_NORDIC_KINDS =
  "verificatie|beveiligings|inlog|toegangs|bevestigings|verifierings|verifikations|säkerhets|engångs|inloggnings|bekræftelses|sikkerheds|sikkerhets|engangs|verifiserings|bekreftelses|vahvistus|kerta|turva|kirjautumis";

const STRONG = [
  `(?:${KINDS_OF_CODE})[ -](?:pass|pin[ -])?(?:codes?|pins?|passwords?|keys?)`,
  "otps?|totp|passcodes?|one[- ]time[- ]passwords?|[ms]?tans?",
  "(?:your|this|following|(?:use|enter|type|input)(?: the| that)?) codes?",
  "codes? (?:is|below|above|expires?|will expire|to (?:sign|log|verify|confirm|continue|finish|complete|access|reset))",
  `(?:${GERMAN_KINDS})-?(?:codes?|passw(?:ort|örter)|kennwort|pin|nummer|schlüssel)`,
  "(?:ihr|dein|diesen|diesem|folgenden|den|der) codes?|code (?:lautet|ein(?:geben)?)",
  "codes? (?:de |d['’])?(?:vérification|sécurité|confirmation|connexion|validation|accès|activation|authentification)",
  "(?:votre|ton|ce) code|code (?:à usage unique|temporaire|secret|unique)|mot de passe (?:temporaire|à usage unique)",
  "códigos?|codigos?|codic[ei]|contraseña (?:temporal|de un solo uso)|senha temporária",
  `(?:${DUTCH_AND_NORDIC_KINDS})[- ]?(?:codes?|koder?n?|koodi\\w{0,4}|wachtwoord)|(?:je|uw|eenmalige) code|(?:din|tu|twój|twoj) kode?n?`,
  "kod(?:u|em)? (?:weryfikac|potwierdz|jednoraz|bezpiecz|dostęp|autoryz|aktywac|logowan)\\p{L}{1,12}",
  "(?:ověřovací|jednorázový|bezpečnostní|overovací|megerősítő|ellenőrző|biztonsági|belépési|egyszer használatos) kód\\p{L}{0,4}",
  "cod(?:ul)? (?:de )?(?:verificare|confirmare|securitate|acces)",
  "(?:doğrulama|onay|güvenlik|giriş|tek kullanımlık) (?:kodu|şifre)\\p{L}{0,6}",
  "код(?:а|у|ом|е)?|пароль|κωδικ(?:ός|ό|ού)|kode (?:verifikasi|otp|keamanan|konfirmasi)|mã (?:xác|otp|bảo)\\p{L}{0,4}",
].join("|");
/** In scripts without spaces or with suffixes, words are not bounded. */
const STRONG_ANYWHERE =
  "验证码|驗證碼|校验码|校驗碼|动态码|確認碼|确认码|安全码|安全碼|授权码|激活码|登录码|一次性密码|認證碼|認証コード|確認コード|検証コード|認証番号|確認番号|コード|ワンタイムパスワード|暗証番号|인증번호|인증 ?코드|확인 ?코드|보안 ?코드|코드|일회용|رمز|كود|קוד|รหัส|कोड|ओटीपी";
const PLAIN =
  "codes?|pins?|kode?n?|kód|cod|koodi|passwords?|passwort|kennwort|mot de passe|contraseña|senha|wachtwoord|lösenord|hasło|şifre|tokens?";
const WEAK =
  "verif\\p{L}{1,10}|vérifi\\p{L}{1,6}|confirm\\p{L}{0,8}|authenti\\p{L}{1,10}|sign(?:ing)?[ -]?in|log(?:ging)?[ -]?in|activat\\p{L}{1,5}|security|expires?|expir\\p{L}{1,6}|valid for|(?:do not|don['’]t|never) share|anmeld\\p{L}{1,8}|einloggen|bestätig\\p{L}{1,8}|gültig|connexion|connecter|iniciar sesión|acced\\p{L}{1,6}|accesso|inlogg\\p{L}{0,8}|logga in|logg inn|log ind|zaloguj|přihlá\\p{L}{1,8}|подтвер\\p{L}{1,12}|вход|войти|giriş|đăng nhập";
const WEAK_ANYWHERE = "登录|登入|登錄|ログイン|サインイン|로그인|验证|驗證|認証|인증";

const WORDS = new RegExp(
  `\\[(?:code|link) hidden\\]|${BEGIN}(?:(?<strong>${STRONG})|(?<plain>${PLAIN})|(?<weak>${WEAK}))${END}|(?<strongAnywhere>${STRONG_ANYWHERE})|(?<weakAnywhere>${WEAK_ANYWHERE})`,
  "giu",
);

/** Words that, right before a word for codes, give it another meaning. */
const OTHER_CODE =
  /(?:zip|post\p{L}{0,3}|country|area|source|error|status|exit|bar|dress|tax|sort|response|http|smtp|reply|colou?r|machine|byte|qr|promo\p{L}{0,9}|discount|coupon|voucher|gutschein|rabatt|language|currency|airport|swift|bic|branch|open|morse|hex|product|item|model|tracking|order|booking|reference|return|diagnostic|(?:respond|repl|fail|exit|return)(?:ed|ied) with)[ -]?$/iu;
const OTHER_USE =
  /^(?:[ -](?:of|review|base|blocks?|style|paths?|quality|coverage|freeze|generat\p{L}{1,5}|snippets?|changes?|owners?|points?|pages?|postal\p{L}?|fuente|fonte|source|civil|pénal)\b|\p{L})/iu;
/** Short words that mean codes only in capitals. */
const ONLY_IN_CAPITALS = /^(?:pins?|[ms]?tans?|cod)$/;

const HAS_CODE = /^[^\n]{0,40}\[code hidden\]/;

/** The words in a text, from `from` to `to`. */
function wordsIn(text: string, from = 0, to = text.length): Word[] {
  const words: Word[] = [];
  for (const { 0: written, index, groups = {} } of text.slice(from, to).matchAll(WORDS)) {
    const start = from + index;
    const end = start + written.length;
    let strength: Strength = 0;
    if (groups.strong ?? groups.strongAnywhere) strength = 3;
    else if (groups.plain) strength = 2;
    else if (groups.weak ?? groups.weakAnywhere) strength = 1;
    if (strength === 0 || ONLY_IN_CAPITALS.test(written)) continue;
    if (strength > 1 && OTHER_CODE.test(text.slice(Math.max(0, start - 20), start))) continue;
    if (strength > 1 && !groups.strongAnywhere && OTHER_USE.test(text.slice(end, end + 16))) continue;
    words.push({ start, end, strength, spent: HAS_CODE.test(text.slice(end, end + 60)) });
  }
  return words;
}

/** The words near candidates, which is where a long text is read. */
function wordsNear(text: string, candidates: readonly Candidate[]): Word[] {
  const words: Word[] = [];
  let [from, to] = [0, 0];
  for (const { start, end } of candidates) {
    if (start - FAR_WITH_WORD > to) {
      for (const word of wordsIn(text, from, to)) words.push(word);
      from = start - FAR_WITH_WORD;
    }
    to = end + FAR_WITH_WORD;
  }
  for (const word of wordsIn(text, from, to)) words.push(word);
  return words;
}

/** Strength with which the beginning of a text, or of HTML, says that numbers elsewhere in the message are codes. */
function aboutIn(content: string): Strength {
  const text = content
    .slice(0, LONGEST_ABOUT)
    .replace(LINK, " ")
    .replace(/<style[\s\S]*?<\/style>|<[^>]*>/gi, " ");
  return Math.max(0, ...wordsIn(flattenText(text).text).map(({ strength }) => strength)) as Strength;
}

/*
 * Codes.
 */

/**
 * Shape of a candidate. `digits`: 4 to 10; `year`: a number that is rather a year; `grouped`: digits in groups; `capitals`:
 * digits and capitals; `mixed`: digits and letters; `letters`: capitals alone.
 */
type Shape = "digits" | "year" | "grouped" | "capitals" | "mixed" | "letters";

interface Candidate {
  start: number;
  end: number;
  shape: Shape;
  /** Number of its letters and digits. */
  length: number;
}

/** Runs of letters and digits, and of these joined by hyphens: each begins where nothing of the kind stands before. */
const TOKEN = /(?<![A-Za-z0-9_-])[A-Za-z0-9]+(?:-[A-Za-z0-9]+)*/g;
const SPACED =
  /(?<![A-Za-z0-9_-])(?:\d{3} \d{3}(?: \d{3})?|\d{4} \d{4}|\d{3} \d{4}|\d{4} \d{3}|\d{2}(?: \d{2}){2,3}|[A-Z0-9](?:[ \t\r\n]{1,8}[A-Z0-9]){3,11})(?![A-Za-z0-9_-])/g;
const LONGEST_CODE = 40;

function findCodeShape(token: string): Shape | undefined {
  if (token.length < 4 || token.length > LONGEST_CODE) return undefined;
  if (/^\d+$/.test(token)) return token.length > 10 ? undefined : /^(?:19|20)\d\d$/.test(token) ? "year" : "digits";
  if (/^(?:\d{3}-\d{3}(?:-\d{3})?|\d{4}-\d{4}|\d{3}-\d{4}|\d{4}-\d{3}|\d(?:-\d){3,9})$/.test(token)) {
    return /^(?:19|20)\d\d-(?:19|20)\d\d$/.test(token) ? undefined : "grouped";
  }
  // Other numbers with hyphens are dates and telephone numbers.
  if (!/[A-Za-z]/.test(token)) return undefined;
  if (/\d/.test(token)) {
    // Ordinals, sizes, times and versions.
    if (/^\d+(?:st|nd|rd|th|am|pm|[a-z]{1,3})$|^v\d+$/i.test(token) && !/^\d{4,}[A-Z]$/.test(token)) return undefined;
    return /^[A-Z0-9-]+$/.test(token) ? "capitals" : "mixed";
  }
  return /^[A-Z]{3,8}(?:-[A-Z]{3,8}){1,3}$|^[A-Z]{5,10}$|^[a-z]{3,8}(?:-[a-z]{3,8}){2,4}$/.test(token)
    ? "letters"
    : undefined;
}

function candidatesIn(text: string): Candidate[] {
  const found: Candidate[] = [];
  for (const { 0: written, index: start } of text.matchAll(SPACED)) {
    const single = /^\S\s/.test(written) && /\s\S$/.test(written);
    if (single && !/\d/.test(written)) continue;
    if (single ? false : isPartOfNumber(text, start, start + written.length)) continue;
    const length = written.replace(/\s+/g, "").length;
    found.push({ start, end: start + written.length, shape: "grouped", length });
  }
  let next = 0;
  const spaced = found.length;
  for (const { 0: token, index: start } of text.matchAll(TOKEN)) {
    const shape = findCodeShape(token);
    if (shape === undefined) continue;
    const end = start + token.length;
    while (next < spaced && (found[next] as Candidate).end <= start) next++;
    const other = next < spaced ? found[next] : undefined;
    if (other && other.start < end) continue;
    if (new RegExp(`^[${LETTER}_]`, "u").test(text.slice(end, end + 1))) continue;
    if (new RegExp(`[${LETTER}]$`, "u").test(text.slice(Math.max(0, start - 1), start))) continue;
    if (isInLargerThing(text, start, end)) continue;
    found.push({ start, end, shape, length: token.replaceAll("-", "").length });
  }
  return found.sort((a, b) => a.start - b.start);
}

/** True for digits that go on, before or behind. */
const isPartOfNumber = (text: string, start: number, end: number): boolean =>
  /[\d)][ .,/+-]$/.test(text.slice(Math.max(0, start - 2), start)) || /^[ .,/-]\d/.test(text.slice(end, end + 2));

const UNIT =
  /^ ?(?:€|\$|£|¥|₹|%|°|元|円|원|(?:usd|eur|gbp|chf|jpy|inr|kr|zł|px|pt|kb|mb|gb|tb|km|kg|mm|cm|ml|mhz|ghz|kwh|bytes?|bits?|points?|items?|users?|people|members|euros?|dollars?|hours?|years?|days?|lines?|words|views|miles|meters?)\b)/i;

/** True for a piece of a number, an amount, an address, a path, a colour or a telephone number. */
function isInLargerThing(text: string, start: number, end: number): boolean {
  const before = text.slice(Math.max(0, start - 24), start);
  const behind = text.slice(end, end + 12);
  return (
    /(?:[\d][.,:/'’]|[A-Za-z0-9][./@\\&?%]|[#$€£¥₹@&%\\/+~]|[$€£¥₹] |\b(?:usd|eur|gbp|chf|rs\.?) )$/i.test(before) ||
    /^(?:[.,:/'’]\d|[@=\\/~]|\.(?!(?:txt|pdf|html?|eml|png|jpe?g|csv|docx?|zip)\b)[A-Za-z])/.test(behind) ||
    UNIT.test(behind) ||
    // Telephone numbers.
    /(?:\+|\(|\b0)\d[\d ()./-]{0,16}[ )./-]$/.test(before) ||
    /\b(?:tel|phone|telefon|fax|mobile|mobil|call|dial)\b[.: ]{0,3}$/i.test(before)
  );
}

/**
 * Words and signs that stand before numbers that are no codes: names of other numbers, and the signs of copyright and numbers.
 */
const OTHER_NUMBER =
  /(?:\b(?:order|bestell\p{L}{0,8}|auftrag\p{L}{0,8}|commande|pedido|ordine|invoice|rechnung\p{L}{0,8}|facture|factura|fattura|tickets?|case|ref(?:erence)?|tracking|shipment|parcel|booking|reservation|buchung\p{L}{0,8}|customer|kunden?\p{L}{0,8}|account|konto\p{L}{0,8}|article|artikel\p{L}{0,8}|sku|item|isbn|issn|build|version|release|rev|commit|bug|issue|pull|port|lines?|page|room|zip|plz|postal|street|p\.?o\.? box|copyright|rfc|iso|nr|no|id|n°)|[©№])[\s.:#]{0,3}(?:(?:number|numbers|no|nr|num|id|nummer|numéro|número|code)[\s.:#]{0,3})?$/iu;

/** Between a word for codes and its code. */
const CONNECTED =
  /^(?:\s{0,3}\S{1,20}){0,3}?\s{0,3}(?:[:：=»>–—-]|\b(?:is|are|ist|sind|lautet|lauten|est|sont|es|son|sono|är|er|jest|adalah)\b|[èéは为為是은는이가])\s{0,8}["'“”„«»*_`([【「>|]{0,6}\s{0,3}$/iu;
const ADJACENT = /^\s{0,3}["'“”„«»*_`([【「（]{0,4}$/u;
const FOLLOWED =
  /^["'“”„»*_`)\]】」]{0,4}\s{0,3}(?:[:：–—,(（-]|\b(?:is|ist|est|es|är|er|jest)\b|[èéは为為是은는이가])/iu;
const ASKED_FOR =
  /\b(?:use|enter|type|input|insert|with|verwenden sie|geben sie|nutze|saisissez|utilisez|entrez|introduce|usa|utiliza|inserisci|digite|voer|gebruik|ange|använd|wpisz|użyj|введите)\s{1,2}["'“„*]{0,3}$/iu;

/** Between two codes of a list. */
const BETWEEN_CODES = /^(?:[\s|,;•*.\d)-]|\b(?:and|or|und|oder|et|ou|y|e|en|och|og|i)\b){1,12}$/i;

/** Farthest words that are looked at, in characters. */
const FAR = 300;
const FAR_WITH_WORD = FAR + 60;
/** Words looked at before and behind a candidate. */
const MOST_LOOKED_AT = 8;

interface Line {
  start: number;
  end: number;
}

/** Lines that hold more than white space. */
function listFilledLines(text: string): Line[] {
  const lines: Line[] = [];
  for (let start = 0; start <= text.length; ) {
    const found = text.indexOf("\n", start);
    const end = found < 0 ? text.length : found;
    if (text.slice(start, end).trim() !== "") lines.push({ start, end });
    start = end + 1;
  }
  return lines;
}

/** The last of ascending positions that is not after `at`; -1 for none. */
function lastUpTo<T>(items: readonly T[], at: number, itemStart: (item: T) => number): number {
  let [low, high] = [0, items.length];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (itemStart(items[middle] as T) <= at) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** True if nothing but punctuation stands beside the candidate on its lines. */
function standsAlone(text: string, { start, end }: Candidate): boolean {
  const before = /(?:^|\n)([^\n]{0,12})$/.exec(text.slice(Math.max(0, start - 13), start));
  const behind = /^([^\n]{0,12})(?:\n|$)/.exec(text.slice(end, end + 13));
  const isFirst = start <= 12 || text[start - (before?.[1]?.length ?? 0) - 1] === "\n";
  const isEmpty = (rest: string | undefined) => rest !== undefined && !/[\p{L}\p{N}]/u.test(rest);
  // Items of a list have numbers.
  return isFirst && isEmpty(before?.[1]?.replace(/^\s*\d{1,2}[.)]/, "")) && isEmpty(behind?.[1]);
}

const NUMBERS: ReadonlySet<Shape> = new Set(["digits", "grouped"]);
const CLEAR: ReadonlySet<Shape> = new Set(["digits", "grouped", "capitals"]);

function codesIn(text: string, { about, isSubject }: Context): Span[] {
  const candidates = candidatesIn(text);
  if (candidates.length === 0) return [];
  const words = wordsNear(text, candidates);
  if (words.length === 0 && about === 0) return [];
  const lines = listFilledLines(text);
  const lineAt = (at: number): number => lastUpTo(lines, at, ({ start }) => start);

  /** True if the words beside it make it a code. */
  function isCode(candidate: Candidate): boolean {
    const { start, end, shape, length } = candidate;
    const alone = standsAlone(text, candidate);
    const isOther = OTHER_NUMBER.test(text.slice(Math.max(0, start - 30), start));
    const [first, last] = [lineAt(start), lineAt(end - 1)];
    const isShort = length <= 8;
    const here = lastUpTo(words, start, (word) => word.start);
    for (let n = here; n > here - MOST_LOOKED_AT && n >= 0; n--) {
      const word = words[n] as Word;
      const gap = start - word.end;
      if (gap > FAR) break;
      // As in OTP-123456.
      if (word.strength > 1 && word.start === start && text[word.end] === "-" && word.end < end) return true;
      if (gap < 0) continue;
      const lineDistance = first - lineAt(word.start);
      if (word.strength > 1 && lineDistance <= 1 && gap <= 60) {
        const between = text.slice(word.end, start);
        if (
          (CONNECTED.test(between) && (shape !== "letters" || gap <= 20)) ||
          (ADJACENT.test(between) && (CLEAR.has(shape) || (word.strength === 3 && shape === "mixed")))
        ) {
          word.spent = true;
          return true;
        }
      }
      if (isOther || (word.spent && !alone)) continue;
      if (isNear(word.strength, shape, { alone, gap, lineDistance, isShort, length })) return true;
    }
    if (isOther) return false;
    for (let n = here + 1; n <= here + MOST_LOOKED_AT && n < words.length; n++) {
      const word = words[n] as Word;
      const gap = word.start - end;
      if (gap > FAR) break;
      if (gap < 0) continue;
      const lineDistance = lineAt(word.start) - last;
      const behind = text.slice(end, end + 12);
      if (word.strength > 1 && lineDistance === 0 && gap <= 80 && shape !== "letters" && FOLLOWED.test(behind)) {
        if (CLEAR.has(shape) || word.strength === 3) return true;
      }
      if (
        lineDistance <= 1 &&
        gap <= 80 &&
        CLEAR.has(shape) &&
        ASKED_FOR.test(text.slice(Math.max(0, start - 30), start))
      ) {
        return true;
      }
      if (isNear(word.strength, shape, { alone, gap, lineDistance, isShort, length })) return true;
    }
    return (
      (alone || (isSubject && about === 3)) &&
      isNear(about, shape, { alone: true, gap: 0, lineDistance: 1, isShort, length })
    );
  }

  const spans: Span[] = [];
  /** The code above, or beside, which the next one of a list follows. */
  let above: Candidate | undefined;
  for (const candidate of candidates) {
    const follows =
      above !== undefined &&
      above.shape === candidate.shape &&
      above.length === candidate.length &&
      BETWEEN_CODES.test(text.slice(above.end, candidate.start));
    if (!isCode(candidate) && !follows) continue;
    spans.push([candidate.start, candidate.end, CODE_MASK]);
    above = candidate;
  }
  return spans;
}

/** True if a word of that strength, so far away, makes a candidate a code. */
function isNear(
  strength: Strength,
  shape: Shape,
  at: { alone: boolean; gap: number; lineDistance: number; isShort: boolean; length: number },
): boolean {
  const { alone, gap, lineDistance, isShort, length } = at;
  const isNumber = NUMBERS.has(shape) && isShort;
  switch (strength) {
    case 3:
      if (alone) return lineDistance <= 3 && (shape !== "letters" || lineDistance <= 1);
      return CLEAR.has(shape) && ((lineDistance === 0 && gap <= 100) || (lineDistance === 1 && gap <= 80));
    case 2:
      if (alone && shape === "letters") return lineDistance <= 1 && gap <= 80;
      if (alone) return lineDistance <= 2 && gap <= 160 && (shape === "capitals" || isNumber);
      return lineDistance === 0 && gap <= 40 && isNumber;
    case 1:
      if (alone) return lineDistance <= 3 && isNumber && length >= 5;
      return lineDistance === 0 && gap <= 30 && isNumber && length === 6;
    default:
      return false;
  }
}

/*
 * Links.
 */

const LINK =
  /(?<![A-Za-z0-9+.-])[a-z][a-z0-9+.-]{1,30}:\\?\/\\?\/[^\s<>"'`]{1,4000}|(?<![\w@./-])(?:[a-z0-9-]{1,63}\.){1,6}[a-z]{2,24}\/[^\s<>"'`]{6,4000}/gi;
/** A link that was wrapped goes on in a line of its own. */
const WRAPPED = /^\r?\n[ \t>]{0,4}([A-Za-z0-9_.~%&=+/-]{8,})(?=[\s>]|$)/;
const LONG_LINE = 55;

/** Words of a path, query or host for what only the addressee should do. */
const SIGN_IN =
  /(?<![a-z])(?:sign-?in|log-?in|log-?on|auth|authenticate|authorize|authorise|oauth2?|sso|saml|magic|magiclink|magic-?link|verif\w{0,12}|confirm\w{0,10}|reset\w{0,10}|recover\w{0,3}|activat\w{1,4}|invit\w{1,6}|passw\w{1,10}|pwd|passcode|otp|unlock|one-?time|validate|register|signup|sign-up|accept|bestaetig\w{1,8}|anmeld\w{1,5}|zuruecksetzen|aktivier\w{1,4}|connexion|verific\w{1,8}|registr\w{1,8})(?![a-z])/;
/** Names of parameters, and segments of paths, before a secret. */
const CARRIER =
  /^(?:\w{0,16}[-_.]?token|t|tk|otp|oobcode|code|pin|key|api-?key|hash|sig|signature|secret|jwt|nonce|ticket|session(?:-?id)?|sid|auth|password|pwd|credential|challenge)$/;
const UNSUBSCRIBE =
  /unsub|opt-?out|list-?manage|abmeld|abbestell|d[ée]sabonn|desinscri|cancelar-suscripcion|email-?preferences|disiscri/;
/** Words in a text around a link. */
const SIGN_IN_NEAR =
  /sign(?:ing)?[ -]?in|log(?:ging)?[ -]?in|verif|vérif|confirm|authenti|reset|activat|magic|password|passwort|kennwort|mot de passe|contraseña|invit|anmeld|bestätig|zurücksetz|aktivier|connexion|connecter|iniciar sesión|accedi|inlogg|zaloguj|подтверд|войти|вход|登录|登入|ログイン|로그인|认证|認証|验证|驗證|인증/iu;
const NEAR_LINK = 120;
const FILE = /\.(?:png|jpe?g|gif|webp|svg|ico|css|js|woff2?|ttf|pdf|html?|php|aspx?)$/i;

/** True for words joined by hyphens, with small numbers: the title of a page. */
const isSlug = (piece: string): boolean =>
  piece.split(/[-_.~+ ]+/).every((word) => /^(?:[A-Za-z]{0,20}|\d{1,4})$/.test(word));

const digitsIn = (piece: string): number => piece.replace(/\D+/g, "").length;

/** True for a piece that could be a secret, given that the link is for signing in. */
const isTokenLike = (piece: string, least: number): boolean =>
  piece.length >= least && !FILE.test(piece) && !isSlug(piece) && (digitsIn(piece) >= 2 || piece.length >= 20);

/** True for a piece that is a secret in any link: long, random, in both cases. Names of files and hexadecimal ids are none. */
const isOpaque = (piece: string): boolean =>
  piece.length >= 22 &&
  /^[\w.~%+=-]+$/.test(piece) &&
  !FILE.test(piece) &&
  !isSlug(piece) &&
  /[a-z]/.test(piece) &&
  /[A-Z]/.test(piece) &&
  digitsIn(piece) >= 2;

/** True if a link signs somebody in, or confirms something for them. `near`: the text around it. */
function isCredential(link: string, near: string): boolean {
  const [, authority = "", rest = ""] =
    /^(?:[a-z][a-z0-9+.-]*:\/\/)?([^/?#]*)([\s\S]*)$/i.exec(link.replaceAll("\\/", "/")) ?? [];
  if (/:[^@]+@/.test(authority)) return true;
  // A fragment of words is a heading of the page.
  const spaced = rest.replace(/#[A-Za-z-]*$/, "").replace(/%(?:2f|3f|3d|26|3a)/gi, "/");
  const words = `${authority}${spaced}`.replace(/([a-z])([A-Z])/g, "$1-$2").toLowerCase();
  const isSignIn = SIGN_IN.test(words);
  if (!isSignIn && UNSUBSCRIBE.test(words)) return false;
  const pieces = spaced.split(/[/?#&=;:,|!]+/).filter((piece) => piece !== "" && !/^utm_/i.test(piece));
  return pieces.some((piece, n) => {
    const name = pieces[n - 1]?.toLowerCase() ?? "";
    if (CARRIER.test(name) && piece.length >= 4 && (digitsIn(piece) > 0 || piece.length >= 8) && !FILE.test(piece))
      return true;
    if (isSignIn && isTokenLike(piece, 6)) return true;
    return isOpaque(piece) || (isTokenLike(piece, 12) && SIGN_IN_NEAR.test(near));
  });
}

function linksIn(text: string): Span[] {
  const spans: Span[] = [];
  for (const { 0: written, index: start } of text.matchAll(LINK)) {
    let link = written.replace(/[).,;:!?*_\]}|\\]+$/, "");
    let end = start + link.length;
    // Wrapped by a mailer: between angle brackets, or at the end of a long line.
    for (let lines = 0; lines < 20 && end === start + written.length; lines++) {
      const isLong = end - (text.lastIndexOf("\n", end - 1) + 1) >= LONG_LINE || text[start - 1] === "<";
      const [all = "", more = ""] = (isLong && WRAPPED.exec(text.slice(end, end + 4_100))) || [];
      if (more === "" || (isSlug(more) && text[start - 1] !== "<")) break;
      link += more;
      end += all.length;
      if (end >= text.length || text[end] === ">") break;
      // The next line of the same link.
      if (text[end] !== "\n" && text[end] !== "\r") break;
    }
    const around = `${text.slice(Math.max(0, start - NEAR_LINK), start)}\n${text.slice(end, end + NEAR_LINK)}`;
    const near = around.replace(LINK, "");
    if (isCredential(link, near)) spans.push([start, end, LINK_MASK]);
  }
  return spans;
}

/** The codes and links of a text, in order. No part of a harmless link counts as a code. */
function spansIn(text: string, context: Context): Span[] {
  const links = linksIn(text);
  // Codes are found in the next pass, once the links are masked, which the text is then shorter by.
  if (links.length > 0) return withoutOverlaps(links);
  const inLinks = [...text.matchAll(LINK)].map(({ 0: written, index }): Span => [index, index + written.length, ""]);
  return codesIn(text, context).filter(([start]) => {
    const link = inLinks[lastUpTo(inLinks, start, ([from]) => from)];
    return !link || link[1] <= start;
  });
}

function withoutOverlaps(spans: readonly Span[]): Span[] {
  let last = 0;
  return spans.filter(([start, end]) => {
    if (start < last) return false;
    last = end;
    return true;
  });
}

/*
 * HTML: its text is read as people see it, each block and cell on a line of its own, and replaced in place.
 */

const INLINE =
  /^(?:a|abbr|acronym|b|bdi|bdo|big|cite|code|data|del|dfn|em|font|i|ins|kbd|label|mark|nobr|o:p|q|s|samp|small|span|strike|strong|sub|sup|time|tt|u|var|wbr)$/;
const UNSHOWN = /^(?:script|style|noscript|template)$/;
const ATTRIBUTE = /(\s[^\s=>"'/]{1,100}\s{0,4}=\s{0,4})("[^"]*"|'[^']*'|[^\s"'>]+)/g;

interface Tag {
  from: number;
  to: number;
  /** Offset in the flat text. */
  flat: number;
}

function maskHtml(html: string, context: Context, codes: Set<string>): string {
  try {
    return maskMarkup(html, context, codes);
  } catch (error) {
    if (error instanceof OverBudget) return UNCHECKED_MASK;
    throw error;
  }
}

function maskMarkup(html: string, context: Context, codes: Set<string>): string {
  const characters: string[] = [];
  /** For each character of the flat text its place in the HTML; both 0 for one that stands for a tag. */
  const [starts, ends]: [number[], number[]] = [[], []];
  const tags: Tag[] = [];
  const edits: Span[] = [];
  let unshown = 0;
  let script = 0;

  function add(character: string, start: number, end: number): void {
    const shown = plain(character);
    if (shown === "") return;
    characters.push(shown);
    starts.push(start);
    ends.push(end);
  }
  function breakLine(): void {
    if (characters.at(-1) === "\n") return;
    characters.push("\n");
    starts.push(0);
    ends.push(0);
  }
  /** Adds text that stands there as it is, or as one entity. */
  function addText(text: string, from: number, to: number): void {
    const isEntity = text.length !== to - from || html.slice(from, to) !== text;
    for (let i = 0; i < text.length; i++) {
      let shown = text[i] as string;
      if (/\s/.test(shown) && shown !== "\u00a0") {
        // Line breaks of the source are spaces to the reader, and several are one.
        if (/[ \n]/.test(characters.at(-1) ?? " ")) continue;
        shown = " ";
      }
      if (isEntity) add(shown, from, to);
      else add(shown, from + i, from + i + 1);
    }
  }
  readMarkup(html, createHtmlBudget(), {
    open(name, attributes, from, to) {
      if (UNSHOWN.test(name)) unshown++;
      if (name === "script") script = from;
      if (!INLINE.test(name)) breakLine();
      tags.push({ from, to, flat: characters.length });
      for (const attribute of ["alt", "title", "value", "aria-label", "content", "placeholder"]) {
        const value = attributes[attribute];
        if (value === undefined || !/\d/.test(value)) continue;
        const at = html.slice(from, to).indexOf(value);
        if (at < 0) continue;
        breakLine();
        addText(value, from + at, from + at + value.length);
        breakLine();
      }
    },
    close(name, _, __, to) {
      if (UNSHOWN.test(name)) unshown--;
      if (name === "script") edits.push([script, to, ""]);
      if (!INLINE.test(name)) breakLine();
    },
    text(text, from, to) {
      if (unshown === 0) addText(text, from, to);
    },
    pass(from, to) {
      if (!/^<!doctype/i.test(html.slice(from, from + 9))) edits.push([from, to, ""]);
    },
  });
  const text = characters.join("");
  const spans = spansIn(text, context);
  noteCodes(text, spans, codes);

  for (const { from, to, flat } of tags) {
    const tag = html.slice(from, to);
    if (!tag.includes("/")) continue;
    for (const { 0: all, 1: name = "", 2: quoted = "", index } of tag.matchAll(ATTRIBUTE)) {
      const value = quoted.replaceAll("&amp;", "&");
      const near = text.slice(Math.max(0, flat - 60), flat + NEAR_LINK);
      let found = false;
      for (const { 0: link } of value.matchAll(LINK)) found ||= isCredential(link, near);
      if (/^["']?\/\//.test(value)) found ||= isCredential(`x:${value.replace(/["']/g, "")}`, near);
      if (found) edits.push([from + index + name.length, from + index + all.length, `"${LINK_MASK}"`]);
    }
  }
  for (const [start, end, mask] of spans) {
    let isFirst = true;
    for (let at = start; at < end; at++) {
      if (ends[at] === 0) continue;
      const from = starts[at] as number;
      let to = ends[at] as number;
      while (at + 1 < end && starts[at + 1] === to) to = ends[++at] as number;
      edits.push([from, to, isFirst ? mask : ""]);
      isFirst = false;
    }
  }
  edits.sort((a, b) => a[0] - b[0] || b[1] - a[1]);
  return replaced(html, withoutOverlaps(edits));
}
