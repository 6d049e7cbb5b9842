/**
 * Defines words for the search, in stored mail and queries alike: text is folded into tokens separated by single
 * spaces, and a search finds a run of tokens. The two sides therefore always agree, and the index needs no knowledge of
 * language.
 *
 * Folded text consists of lower-case letters, digits, the marks that form a letter in their script, and emoji.
 * - Case and accents are ignored: NFKD without diacritics, ß = ss, ı = i, ø = o, full width = half width.
 * - Every character of a script written without spaces (Han, kana, Thai, Lao, Khmer, Myanmar, Tibetan, …) and of
 *   Hangul, whose words carry suffixes, is a token of its own: any part of a sentence is found as a run of them.
 * - Every emoji is a token. Every other visible character separates tokens; invisible ones are dropped.
 *
 * `fold` never returns private-use characters: the tokens made here from addresses, and in fts5.ts from mailboxes,
 * contain one each, so that no text can imitate them.
 */
import { domainToASCII, domainToUnicode } from "node:url";
import type { EmailAddress } from "../message/address.ts";
import { isAscii } from "../message/characters.ts";
import { findMissingPhrases } from "./missing.ts";

/** The folded text that the index stores of a message, by field. Bcc is excluded. */
export interface IndexDocument {
  subject: string;
  body: string;
  sender: string;
  /** To and Cc; then Cc again, each token marked (asCc). */
  recipients: string;
  /** Names of attachments. */
  files: string;
}

/** Longer tokens (mostly encoded data) are cut, in mail and query alike. */
export const LONGEST_TOKEN = 64;
/**
 * The rest of a longer body is not searchable, which bounds the cost of a message for the index and the writing thread.
 */
export const LONGEST_BODY = 1_048_576;
const MOST_BODY_TOKENS = 200_000;
/**
 * Occurrences of a token in a body that the index knows. A search counts and compares them, and only a phrase needs a later
 * one: 35,000 words of English, or 28,000 characters of Thai, have no token more often.
 */
export const MOST_OCCURRENCES = 2_000;
/** Bytes of a text that people write within which all of these limits are. */
export const LONGEST_SURE = 65_536;
/** Limits of other fields: characters of a subject, characters of an address or name, and how many of these. */
export const LONGEST_SUBJECT = 10_000;
export const LONGEST_ENTRY = 320;
export const MOST_ENTRIES = 1_000;
const MOST_LIST_TOKENS = 50_000;

/**
 * Diacritics, vowel points and invisible characters. Marks that are letters of their own (Indic and Thai vowels, kana
 * voicing) stay.
 */
const IGNORED =
  /[[[\p{sc=Zinh}[\p{M}&&[\p{sc=Latn}\p{sc=Grek}\p{sc=Cyrl}\p{sc=Hebr}\p{sc=Arab}\p{sc=Syrc}]]]--[\u3099\u309a]]\u0640\p{Emoji_Modifier}\p{Default_Ignorable_Code_Point}]+/gv;

/** Letters that Unicode does not decompose, with the spelling people use who cannot type them. */
const SPELLED: Readonly<Record<string, string>> = {
  ß: "ss",
  ς: "σ",
  ı: "i",
  æ: "ae",
  œ: "oe",
  ø: "o",
  đ: "d",
  ð: "d",
  ħ: "h",
  ł: "l",
  ŧ: "t",
  þ: "th",
};
const TO_SPELL = new RegExp(`[${Object.keys(SPELLED).join("")}]`, "g");

/** A token of one character: from a script without spaces, or an emoji, with the marks after it. */
const ALONE =
  /(?:[[\p{scx=Han}\p{scx=Hira}\p{scx=Kana}\p{scx=Bopo}\p{scx=Hang}\p{scx=Yiii}\p{scx=Thai}\p{scx=Laoo}\p{scx=Khmr}\p{scx=Mymr}\p{scx=Tibt}\p{scx=Lana}\p{scx=Talu}\p{scx=Tale}\p{scx=Java}\p{scx=Bali}]&&[\p{L}\p{N}]]|[[\p{Extended_Pictographic}\p{Regional_Indicator}]--[\p{L}\p{N}]])\p{M}*/gv;
const NO_TOKEN = /[^\p{L}\p{N}\p{M}\p{Extended_Pictographic}\p{Regional_Indicator}]+/gu;

const NOT_ASCII = /[^\0-\x7f]+/g;
/** A run of separators other than a single space, which can stay and is the usual case. */
const NO_ASCII_TOKEN = /(?! [^\0-/:-@[-`{-\x7f])[\0-/:-@[-`{-\x7f]+/g;
const TOO_LONG = new RegExp(`[^ ]{${LONGEST_TOKEN + 1},}`, "g");

/** Folds a run of characters beyond ASCII. ASCII beside it neither composes with the result nor affects it. */
function foldRun(run: string): string {
  return run
    .normalize("NFKD")
    .replace(IGNORED, "")
    .toLowerCase()
    .replace(TO_SPELL, (letter) => SPELLED[letter] ?? letter)
    .normalize("NFC")
    .replace(NO_TOKEN, " ")
    .replace(ALONE, " $& ");
}

/** Cuts a long token between characters. */
const cut = (token: string): string => token.slice(0, LONGEST_TOKEN).replace(/[\ud800-\udbff]$/, "");

/** The tokens of a text, separated by single spaces; empty for none. Idempotent. */
export function foldText(text: string): string {
  return text.replace(NOT_ASCII, foldRun).toLowerCase().replace(NO_ASCII_TOKEN, " ").replace(TOO_LONG, cut).trim();
}

/** The tokens that begin within a text, wherever it is a part of another; the last may go on there. */
export const tokensWithin = (text: string): string[] => foldText(`x${text}`).split(" ").slice(1);

/** The token of a text that is nothing but a part of one, wherever it is. */
export const partOfToken = (text: string): string | undefined =>
  text.length > LONGEST_TOKEN || foldText(`x${text}x`).includes(" ") ? undefined : foldText(text);

/** True for a token that is one in any text: no other begins with it, but for marks. */
export const isStandaloneToken = (token: string): boolean => foldText(`${token}x`).includes(" ");

/** UTF-16 units folded without yielding: two milliseconds of Latin, ten of Chinese. */
const PIECE = 32_768;

/**
 * True if a text can be split here without changing its tokens: before white space, or before a character that is its
 * own token.
 */
function isSeam(unit: number): boolean {
  return unit === 0x20 || unit === 0x0a || (unit >= 0x4e00 && unit <= 0x9fff);
}

/** Folds as `fold` does, awaiting `turn` after each piece of a long text. */
export async function foldTextInTurns(text: string, turn: () => Promise<void>, piece = PIECE): Promise<string> {
  const folded: string[] = [];
  for (let from = 0; from < text.length; ) {
    let to = from + piece;
    while (to < text.length && !isSeam(text.charCodeAt(to))) to++;
    const tokens = foldText(text.slice(from, to));
    if (tokens !== "") folded.push(tokens);
    if (to < text.length) await turn();
    from = to;
  }
  return folded.join(" ");
}

/**
 * A token that no query contains, through which no phrase matches: between two names, for a token too many, and before what
 * the HTML has beside the text.
 */
const BARRIER = "\ue000";

const OF_CC = "\ue101";
/** Marks a token of Cc among the recipients'. */
export const asCc = (token: string): string => OF_CC + token;
export const isOfCc = (token: string): boolean => token.startsWith(OF_CC);

/** U+E000 plus an ASCII code replaces a character of an address that would otherwise separate tokens. */
const asTokenCharacter = (character: string): string => String.fromCharCode(0xe000 + character.charCodeAt(0));

export function domainForms(domain: string): { ascii: string; unicode: string } {
  const ascii = domainToASCII(domain) || domain.toLowerCase();
  return { ascii, unicode: domainToUnicode(ascii) || ascii };
}

/**
 * A complete address (local part, `@`, a domain with a dot; in angle brackets or not) as one token, which distinguishes
 * ann@example.com from mary.ann@example.com.au. Undefined for any other text, including one with a replacement
 * character (readDisplayedDomain): without that character it would be another person's address.
 */
export function foldAddress(text: string): string | undefined {
  if (text.length > LONGEST_ENTRY) return undefined;
  const match = /^<?([^\s<>"\ufffd]+)@([^\s<>"@\ufffd]+\.[^\s<>"@\ufffd]+)>?$/.exec(text.trim());
  if (match?.[1] === undefined || match[2] === undefined) return undefined;
  const address = `${match[1]}@${domainForms(match[2]).ascii}`.replace(NOT_ASCII, foldRun).toLowerCase();
  return address.replaceAll(" ", "").replace(/[\0-/:-@[-`{-\x7f]/g, asTokenCharacter);
}

/**
 * Addresses as the index stores them: for each the display name, the parts of local part and domain as people see them,
 * and the whole address.
 */
export function foldAddresses(addresses: readonly EmailAddress[]): string {
  const tokens: string[] = [];
  for (const { email: full, name } of addresses.slice(0, MOST_ENTRIES)) {
    const email = full.slice(0, LONGEST_ENTRY);
    const at = email.lastIndexOf("@");
    const { ascii, unicode } = domainForms(email.slice(at + 1));
    tokens.push(
      foldText(name?.slice(0, LONGEST_ENTRY) ?? ""),
      foldText(`${email.slice(0, Math.max(at, 0))} ${unicode}`),
    );
    if (ascii !== unicode) tokens.push(foldText(ascii));
    tokens.push(foldAddress(full) ?? BARRIER);
  }
  return tokens.filter((token) => token !== "").join(" ");
}

/** The characters that an index document has in all. */
export const countDocumentCharacters = (document: IndexDocument): number =>
  Object.values(document).reduce((sum: number, field: string) => sum + field.length, 0);

/** Cuts folded text after `tokens` tokens. */
function firstTokens(folded: string, tokens: number): string {
  if (folded.length < tokens * 2) return folded;
  let end = -1;
  for (let i = 0; i < tokens; i++) {
    end = folded.indexOf(" ", end + 1);
    if (end < 0) return folded;
  }
  return folded.slice(0, end);
}

/** Replaces tokens that occur too often, which leaves the others in their places. */
function withoutExcess(folded: string): string {
  if (firstTokens(folded, MOST_OCCURRENCES) === folded) return folded;
  const occurrences = new Map<string, number>();
  const tokens = folded.split(" ");
  for (const [at, token] of tokens.entries()) {
    const count = (occurrences.get(token) ?? 0) + 1;
    occurrences.set(token, count);
    if (count > MOST_OCCURRENCES) tokens[at] = BARRIER;
  }
  return tokens.join(" ");
}

/** The searchable content of a message. */
interface Foldable {
  subject: string;
  text: string;
  /** The visible text of its HTML, if that differs. */
  seen?: string | undefined;
  from: readonly EmailAddress[];
  to: readonly EmailAddress[];
  cc: readonly EmailAddress[];
  filenames: readonly string[];
}

/** The recipients, and those of Cc again. */
function foldRecipients({ to, cc }: Pick<Foldable, "to" | "cc">): string {
  const all = firstTokens(foldAddresses([...to, ...cc]), MOST_LIST_TOKENS);
  if (cc.length === 0) return all;
  return `${all} ${firstTokens(foldAddresses(cc), MOST_LIST_TOKENS).split(" ").map(asCc).join(" ")}`;
}

/** Joins the folded text with the words that only the folded visible text of the HTML has. */
function joinFoldedBody(text: string, seen: string): string {
  const own = firstTokens(text, MOST_BODY_TOKENS);
  const all = [own, ...findMissingPhrases(own, seen)].filter((run) => run !== "").join(` ${BARRIER} `);
  return withoutExcess(firstTokens(all, MOST_BODY_TOKENS));
}

/** The index document of a message. CPU-bound and pure, so it is made where the message is parsed. */
export function foldDocument(message: Foldable): IndexDocument {
  return {
    subject: foldText(message.subject.slice(0, LONGEST_SUBJECT)),
    body: joinFoldedBody(
      foldText(message.text.slice(0, LONGEST_BODY)),
      foldText(message.seen?.slice(0, LONGEST_BODY) ?? ""),
    ),
    sender: foldAddresses(message.from),
    recipients: foldRecipients(message),
    files: firstTokens(
      message.filenames
        .slice(0, MOST_ENTRIES)
        .map((name) => foldText(name.slice(0, LONGEST_ENTRY)))
        .join(` ${BARRIER} `),
      MOST_LIST_TOKENS,
    ),
  };
}

/** Makes the index document of a message with pauses: the longest text takes up to a quarter of a second. */
export async function foldDocumentInTurns(message: Foldable, turn: () => Promise<void>): Promise<IndexDocument> {
  const text = await foldTextInTurns(message.text.slice(0, LONGEST_BODY), turn);
  const seen = await foldTextInTurns(message.seen?.slice(0, LONGEST_BODY) ?? "", turn);
  return { ...foldDocument({ ...message, text: "", seen: "" }), body: joinFoldedBody(text, seen) };
}

/*
 * Folding that remembers the position of each token in the text, so that matches can be shown there.
 *
 * Invariant: the tokens are those of `fold`, in its order; no position lies within a surrogate pair, or between a
 * letter and its marks.
 */

/** A token, and the UTF-16 units that produced it: from `start` up to `end`. */
export interface TokenPosition {
  token: string;
  start: number;
  end: number;
}

/**
 * A character with everything that composes with it or is drawn on it: marks, jamo, and the vowels AM of Thai and Lao,
 * which begin with a mark.
 */
const CLUSTER =
  /[\s\S][\p{M}\p{Default_Ignorable_Code_Point}\p{Emoji_Modifier}\u0e33\u0eb3\uff9e\uff9f\u1160-\u11ff\uffa0-\uffdc]*/gu;

/** Characters that always fold to themselves as separate tokens: most of Chinese, Japanese and Korean. */
const OWN_TOKEN = /^[\u4e00-\u9fff\uac00-\ud7a3\u3041-\u3096\u30a1-\u30fa]$/;

const spaced = (folded: string): string => folded.replace(/ +/g, " ");

const foldCluster = (cluster: string): string => (OWN_TOKEN.test(cluster) ? ` ${cluster} ` : foldRun(cluster));

/** Splits a run beyond ASCII into clusters; keeps it whole if the clusters fold differently together. */
function splitIntoClusters(run: string): string[] {
  const pieces = run.match(CLUSTER) ?? [];
  return spaced(pieces.map(foldCluster).join("")) === spaced(foldRun(run)) ? pieces : [run];
}

export const isAsciiLetterOrDigit = (unit: number): boolean =>
  (unit >= 0x61 && unit <= 0x7a) || (unit >= 0x41 && unit <= 0x5a) || (unit >= 0x30 && unit <= 0x39);

/** The runs of letters and digits of an ASCII text, in lower case. */
function asciiTokens(lower: string, base: number): TokenPosition[] {
  const tokens: TokenPosition[] = [];
  let start = -1;
  for (let at = 0; at <= lower.length; at++) {
    // NaN after the end.
    if (isAsciiLetterOrDigit(lower.charCodeAt(at))) {
      if (start < 0) start = at;
    } else if (start >= 0) {
      const token = lower.slice(start, at);
      tokens.push({ token: at - start > LONGEST_TOKEN ? cut(token) : token, start: base + start, end: base + at });
      start = -1;
    }
  }
  return tokens;
}

/**
 * The tokens of a text with their positions, offset by `base`. Beyond ASCII it costs several times as much as `fold`,
 * so it is for short pieces.
 */
export function foldWithOffsets(text: string, base = 0): TokenPosition[] {
  if (isAscii(text)) return asciiTokens(text.toLowerCase(), base);
  const tokens: TokenPosition[] = [];
  let letters = "";
  let start = 0;
  let end = 0;
  const close = (): void => {
    if (letters !== "") {
      const token = letters.length > LONGEST_TOKEN ? cut(letters) : letters;
      tokens.push({ token, start: base + start, end: base + end });
    }
    letters = "";
  };
  const append = (more: string, from: number, to: number): void => {
    if (letters === "") start = from;
    letters += more;
    end = to;
  };
  const appendPiece = (piece: string, at: number): void => {
    if (OWN_TOKEN.test(piece)) {
      close();
      append(piece, at, at + piece.length);
      close();
      return;
    }
    const folded = foldRun(piece);
    // A piece that folds to nothing belongs to the letter it follows.
    if (folded === "" && letters !== "") end = at + piece.length;
    for (const [index, part] of folded.split(" ").entries()) {
      if (index > 0) close();
      if (part !== "") append(part, at, at + piece.length);
    }
  };
  for (let at = 0; at < text.length; ) {
    const from = at;
    if (text.charCodeAt(at) > 0x7f) {
      while (text.charCodeAt(at) > 0x7f) at++;
      let position = from;
      for (const piece of splitIntoClusters(text.slice(from, at))) {
        appendPiece(piece, position);
        position += piece.length;
      }
      continue;
    }
    while (isAsciiLetterOrDigit(text.charCodeAt(at))) at++;
    if (at > from) append(text.slice(from, at).toLowerCase(), from, at);
    else {
      close();
      at++;
    }
  }
  close();
  return tokens;
}
