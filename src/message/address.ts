/**
 * Reads the address lists of a header (RFC 5322 §3.4, obsolete forms included) and brings each address into the one
 * spelling that lookups compare.
 *
 * Reading a list never throws and is linear in its length; an entry without an address yields none.
 *
 * Invariant: an address that was read has no character that readers do not see, and its domain is the one that they see
 * (UTS #46). The address that is stored, shown, classified, searched and replied to is therefore one and the same.
 */
import { domainToASCII, domainToUnicode } from "node:url";
import { toVisibleLine } from "./characters.ts";
import { cleanText } from "./charset.ts";
import { decodeWords } from "./headers.ts";
import type { EmailAddress } from "./message-schemas.ts";

export type { EmailAddress };

/** The two sides of the last `@`. */
export interface AddressParts {
  local: string;
  domain: string;
}

/** Limits on the addresses read from one list and the words read of one entry. The header itself keeps them all. */
const MAX_ADDRESSES = 2_000;
const MAX_WORDS = 200;
const MAX_WORD_LENGTH = 2_000;

/** The state of one list entry while it is read. */
interface PartialEntry {
  /** Atoms, quoted strings and encoded words outside angle brackets, and comments among them, in order. */
  phrase: { text: string; quoted: boolean; isComment?: boolean }[];
  /** True once an unquoted word has an `@`. */
  hasAt: boolean;
  /** True while white space follows the last word. */
  spaced: boolean;
  comments: string[];
  angle: string | undefined;
  /** Words that stand before the angle brackets. */
  wordsBeforeAngle: number;
  /** Addresses in front of a comma that is missing. */
  earlier: ReadAddress[];
  /** The entry breaks the grammar: two or unclosed angle brackets, an open comment or quote. */
  malformed: boolean;
}

/** The text between two commas of a list. */
interface AddressEntry {
  /** The text of the entry as the sender wrote it. */
  source: string;
  /** Empty for an entry without an address; several where commas are missing. */
  addresses: EmailAddress[];
  /**
   * The addr-spec as written, if the entry is exactly one mailbox (RFC 5322 §3.4) that was read without dropping,
   * joining or guessing anything.
   */
  exact: string | undefined;
  /** One of its addresses is written so that it looks like another one: see readDisplayedDomain, looksAlike. */
  disguised: boolean;
}

/**
 * The addresses of a list, in order. A group gives its members, encoded words are decoded, and a comment serves as the
 * name if there is no other. An entry without an `@` is left out.
 */
export function parseAddressList(text: string): EmailAddress[] {
  const found: EmailAddress[] = [];
  for (const { addresses } of readAddressEntries(text)) {
    found.push(...addresses);
    if (found.length >= MAX_ADDRESSES) break;
  }
  return found;
}

/** The entries of a list that are not empty, in order, including those without an address. */
export function* readAddressEntries(text: string): Generator<AddressEntry> {
  let entry = newEntry();
  let start = 0;
  let i = 0;
  while (i < text.length) {
    const character = text[i] as string;
    if (character === "," || character === ";") {
      if (text.slice(start, i).trim() !== "") yield toAddressEntry(entry, text.slice(start, i));
      entry = newEntry();
      start = ++i;
    } else if (character === ":" && !entry.hasAt) {
      // The name of a group (RFC 5322 §3.4): its members follow.
      entry = newEntry();
      start = ++i;
    } else if (character === "(") {
      const end = endOfComment(text, i);
      const closed = end <= text.length;
      addComment(entry, text.slice(i + 1, closed ? end - 1 : end).replace(/\\(.)/gsu, "$1"));
      entry.malformed ||= !closed;
      i = end;
    } else if (character === "<") {
      const { content, end } = angleAt(text, i);
      entry.malformed ||= entry.angle !== undefined || text[end - 1] !== ">";
      if (entry.angle?.includes("@") && content.includes("@")) endAtMissingComma(entry);
      if (entry.angle === undefined || !entry.angle.includes("@")) {
        entry.angle = content;
        entry.wordsBeforeAngle = entry.phrase.length;
      }
      i = end;
    } else if (character === '"') {
      const { content, end } = quotedAt(text, i);
      entry.malformed ||= end > text.length;
      addWord(entry, content, true);
      i = end;
    } else if (/\s/.test(character)) {
      entry.spaced = true;
      i++;
    } else {
      const end = endOfAtom(text, i);
      addWord(entry, text.slice(i, end), false);
      i = end;
    }
  }
  if (text.slice(start).trim() !== "") yield toAddressEntry(entry, text.slice(start));
}

/** Ends an address such as the first of `Ann <a@x.example> Bob <b@y.example>`: the words behind it name the next one. */
function endAtMissingComma(entry: PartialEntry): void {
  const phrase = entry.phrase.splice(0, entry.wordsBeforeAngle);
  if (entry.earlier.length < MAX_ADDRESSES) entry.earlier.push(...readEntryAddresses({ ...entry, phrase }));
  entry.angle = undefined;
  entry.comments = [];
}

function toAddressEntry(entry: PartialEntry, source: string): AddressEntry {
  const all = [...entry.earlier, ...readEntryAddresses(entry)];
  // An address that is written twice in a row is one.
  const read = all.filter(({ email }, index) => email !== all[index - 1]?.email);
  return {
    source,
    addresses: read.map(({ email, name }) => named(email, name)),
    exact: entry.malformed ? undefined : findExactAddress(entry),
    disguised: read.some(({ disguised }) => disguised),
  };
}

/** The domain given to senders without one. It cannot exist (RFC 6761 §6.4). */
const NO_DOMAIN = "unknown.invalid";

/** The sender of mail that names none. */
export const NO_SENDER: EmailAddress = { email: `unknown@${NO_DOMAIN}` };

/** True if an address stands for a sender without one. Unrelated senders share it. */
export const isPlaceholderAddress = (email: string): boolean => email.toLowerCase().endsWith(`@${NO_DOMAIN}`);

/**
 * The first address of a From header. One without an `@`, such as `MAILER-DAEMON`, gets a domain that cannot exist, and
 * a bare name gets an address there. Undefined for an empty header.
 */
export function parseSender(text: string): EmailAddress | undefined {
  const sender = readSender(text);
  return sender && withoutFalseName(sender);
}

function readSender(text: string): EmailAddress | undefined {
  const [first, second] = readAddressEntries(text).take(2);
  const { email, name: rest } = second?.addresses[0] ?? {};
  // The name has a comma that nobody quoted: `Doe, Ann <a@x.example>`.
  if (email !== undefined && rest !== undefined && first?.addresses.length === 0 && WORDS.test(first.source))
    return named(email, cleanName(`${decodeWords(first.source.trim())}, ${rest}`));
  const known = parseAddressList(text)[0];
  if (known !== undefined) return known;
  const [, before = "", angle = ""] = /^([^<]*)<?([^<>]*)/.exec(text.slice(0, MAX_WORD_LENGTH)) ?? [];
  const name = cleanName(decodeWords(before.replace(/["()]/g, " ")));
  const local = [angle.trim(), name.split(" ", 1)[0] ?? ""]
    .map((text) => (AT.test(text) ? undefined : normalizeLocal(text)))
    .find((found) => found !== undefined);
  const isLocalOnly = angle === "" && !name.includes(" ");
  if (name === "" && local === undefined) return undefined;
  if (angle !== "" || isLocalOnly) return named(`${local ?? "unknown"}@${NO_DOMAIN}`, isLocalOnly ? "" : name);
  return named(NO_SENDER.email, name);
}

/** An entry of nothing but words. */
const WORDS = /^[^"<>()[\]:@\\]{1,100}$/u;

/** The sign between local part and domain, and characters that look like it. */
const AT = /[@\ufe6b\uff20]/;
const ADDRESS_IN_NAME =
  /[^\s"'<>()[\],;:@\ufe6b\uff20]+\s?[@\ufe6b\uff20]\s?[\p{L}\p{M}\p{N}_-]+(?:[.\u2024\u3002\ufe52\uff0e\uff61][\p{L}\p{M}\p{N}_-]+)+/gu;

/** The address without a name that contains another one, which a reader would take for the sender. */
export function withoutFalseName(address: EmailAddress): EmailAddress {
  const { email, name = "" } = address;
  if (!AT.test(name)) return address;
  const own = email.toLowerCase();
  return (name.slice(0, MAX_WORD_LENGTH).match(ADDRESS_IN_NAME) ?? []).every((text) => text.toLowerCase() === own)
    ? address
    : { email };
}

/** The addresses in the From fields of a message. */
export interface Authors {
  emails: string[];
  /** One of the addresses is written so that it looks like another: see readDisplayedDomain, looksAlike. */
  disguised: boolean;
}

/** Every address in the given lists. */
export function authorsIn(lists: readonly string[]): Authors {
  const authors: Authors = { emails: [], disguised: false };
  for (const list of lists) {
    for (const { addresses, disguised } of readAddressEntries(list)) {
      if (authors.emails.length >= MAX_ADDRESSES) return authors;
      authors.emails.push(...addresses.map(({ email }) => email));
      authors.disguised ||= disguised;
    }
  }
  return authors;
}

/**
 * A bare addr-spec in the spelling that lookups use: lower case, the local part composed (NFC, RFC 6532 §3.1) and
 * unquoted where possible, the domain in A-labels. Undefined for text that is not an address (RFC 5321 §4.1.2, lengths
 * of §4.5.3.1; RFC 6531 for the local part).
 */
export function normalizeAddress(text: string): string | undefined {
  const { local, domain } = splitAddress(text.trim());
  const name = normalizeLocal(local.normalize("NFC"));
  const host = normalizeDomain(domain);
  return name === undefined || host === undefined ? undefined : `${name}@${host}`;
}

/**
 * A bare addr-spec for RCPT TO: the local part as written, because only its own server may fold it (RFC 5321 §2.4),
 * unquoted where possible; the domain in A-labels. Undefined for text that normalizeAddress refuses.
 */
export function envelopeAddress(text: string): string | undefined {
  const normalized = normalizeAddress(text);
  const local = unquoteLocal(splitAddress(text.trim()).local);
  return normalized === undefined || local === undefined ? undefined : `${local}@${splitAddress(normalized).domain}`;
}

/** True if an address names its host by number, as `user@[192.0.2.1]` (RFC 5321 §4.1.3). */
export const isAddressLiteral = (address: string): boolean => address.endsWith("]");

/** Local part and domain of an address, both as written. `domain` is empty if there is no `@`. */
export function splitAddress(address: string): AddressParts {
  const at = address.lastIndexOf("@");
  return at < 0 ? { local: address, domain: "" } : { local: address.slice(0, at), domain: address.slice(at + 1) };
}

/** `user+tag` -> `user` (rules: Addresses). */
export function withoutAddressTag(local: string): string {
  const plus = local.indexOf("+");
  return plus > 0 ? local.slice(0, plus) : local;
}

/** Characters that show nothing or only a space. Those in ASCII are handled where they occur. */
const UNSEEN = /[\p{Default_Ignorable_Code_Point}\ufff9-\ufffb]|(?![\t-\r ])\s/gu;
/** Replaces characters that cannot be shown. No address contains it. */
const REPLACEMENT = "\ufffd";
/** Trailing label separators (UTS #46 §2.3). The lookbehind starts one attempt per run, so matching stays linear. */
const TRAILING_DOTS = /(?<![.\u3002\uff0e\uff61])[.\u3002\uff0e\uff61]+$/;

/**
 * The domain that readers see where `written` stands in a header, without a trailing dot: ASCII as written, anything
 * else as UTS #46 maps it, in U-labels. If it maps only without its unseen characters, they are removed; if it does not
 * map at all, every character outside ASCII becomes a replacement character, and the result is not a valid domain.
 *
 * `disguised`: the result differs from the written name by more than case and composition (see alike), or has an
 * A-label that no U-label encodes to (RFC 5890 §2.3.2.1).
 */
export function readDisplayedDomain(written: string): { domain: string; disguised: boolean } {
  const domain = written.replace(TRAILING_DOTS, "");
  // biome-ignore lint/suspicious/noControlCharactersInRegex: all of ASCII
  if (/^[\u0000-\u007f]*$/.test(written)) {
    return { domain, disguised: /xn--/i.test(domain) && normalizeDomain(domain) === undefined };
  }
  const ascii = normalizeDomain(domain) ?? normalizeDomain(domain.replace(UNSEEN, ""));
  if (ascii === undefined) return { domain: domain.replace(/[^ -~]/gu, REPLACEMENT), disguised: true };
  const mapped = domainToUnicode(ascii);
  return { domain: mapped, disguised: alike(mapped) !== alike(written).replace(/(?<!\.)\.+$/, "") };
}

/** Thai and Lao am and Armenian yew, which people type as one letter and UTS #46 maps to two. */
const TYPED_AS_ONE = /[\u0e33\u0eb3\u0587]/g;
const A_LABEL = /(?<=^|\.)xn--[a-z\d-]+/g;

/**
 * The form in which two spellings of a domain are equal if readers take them for the same. Both sides are converted,
 * because UTS #46 maps Cherokee to capitals.
 */
function alike(domain: string): string {
  // Letter by letter: in a whole string, the small form of a capital sigma depends on its neighbours; in a domain it
  // does not.
  const lower = Array.from(domain, (character) => character.toLowerCase()).join("");
  const labels = lower.replace(A_LABEL, (label) => domainToUnicode(label) || label);
  return labels.replace(TYPED_AS_ONE, (letter) => letter.normalize("NFKC")).normalize("NFC");
}

const ATEXT = /^[^\s\p{Cc}()<>[\]:;@\\,."]+(?:\.[^\s\p{Cc}()<>[\]:;@\\,."]+)*$/u;
/** A name that ends in a number is an IPv4 address (RFC 1123 §2.1). */
const HOST =
  /^(?=.{1,255}$)(?!(?:.*\.)?\d+$)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*$/;
const ADDRESS_LITERAL = /^\[[0-9a-f.:]{2,45}\]$|^\[ipv6:[0-9a-f.:]{2,45}\]$/;

const normalizeLocal = (local: string): string | undefined => unquoteLocal(local)?.toLowerCase();

/** A local part without unnecessary quotes and escapes; undefined for an invalid one. */
function unquoteLocal(local: string): string | undefined {
  if (local.length === 0 || Buffer.byteLength(local) > 64 || !local.isWellFormed()) return undefined;
  if (local.includes(REPLACEMENT) || local.search(UNSEEN) >= 0) return undefined;
  if (ATEXT.test(local)) return local;
  if (!/^"(?:[^"\\\p{Cc}]|\\[\u0020-\u007e])*"$/u.test(local)) return undefined;
  const content = local.slice(1, -1).replace(/\\(.)/gu, "$1");
  return ATEXT.test(content) ? content : quotedString(content);
}

function normalizeDomain(domain: string): string | undefined {
  const lower = domain.toLowerCase();
  if (ADDRESS_LITERAL.test(lower)) return lower;
  if (lower.length > 255 || /[\s%/?#:@\\[\]<>^|]/.test(lower)) return undefined;
  const ascii = HOST.test(lower) && !lower.includes("xn--") ? lower : domainToASCII(lower);
  return HOST.test(ascii) ? ascii : undefined;
}

/** The name, in A-labels and lower case, of a domain that mail can be hosted for; undefined for any other text. */
export function normalizeMailDomain(text: string): string | undefined {
  const domain = normalizeDomain(text) ?? "";
  // A DNS name with at least two labels: no address literal, top-level name or number.
  return /^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/.test(domain)
    ? domain
    : undefined;
}

function newEntry(): PartialEntry {
  return {
    phrase: [],
    hasAt: false,
    spaced: false,
    comments: [],
    angle: undefined,
    wordsBeforeAngle: 0,
    earlier: [],
    malformed: false,
  };
}

function addWord(entry: PartialEntry, text: string, quoted: boolean): void {
  if (!quoted && text.includes("@")) entry.hasAt = true;
  const last = entry.phrase.at(-1);
  if (entry.phrase.length >= MAX_WORDS || (last?.text.length ?? 0) > MAX_WORD_LENGTH) return;
  if (last !== undefined && !entry.spaced && entry.angle === undefined) {
    // Without white space between them, as in "john smith"@example.com, they are one word.
    if (!quoted || last.text.endsWith(".")) {
      last.text = last.quoted && /^[.@]/.test(text) ? quotedString(last.text) + text : last.text + text;
      last.quoted = false;
      return;
    }
  }
  entry.phrase.push({ text, quoted });
  entry.spaced = false;
}

/** In front of angle brackets, as in `Ann (Sales) <a@x.example>`, people read a comment as a part of the name. */
function addComment(entry: PartialEntry, comment: string): void {
  entry.comments.push(comment);
  const { phrase, hasAt, angle } = entry;
  const isInName = phrase.length > 0 && phrase.length < MAX_WORDS && !hasAt && angle === undefined;
  if (isInName && !AT.test(decodeWords(comment))) phrase.push({ text: `(${comment})`, quoted: true, isComment: true });
  entry.spaced = true;
}

/** RFC 5322 §3.2.4. Invalid characters stay; the address check refuses them. */
const quotedString = (content: string): string => `"${content.replace(/["\\]/g, "\\$&")}"`;

/** An address as it was read; `name` is empty if there is none. */
interface ReadAddress {
  email: string;
  name: string;
  disguised: boolean;
}

/** The addresses of an entry: none, one, or several where commas are missing. */
function readEntryAddresses(entry: PartialEntry): ReadAddress[] {
  const comment = cleanName(decodeWords(entry.comments.at(-1)?.replace(/^"(.*)"$/su, "$1") ?? ""));
  if (entry.angle !== undefined) {
    const read = cleanAddress(entry.angle);
    if (read !== undefined) return [{ ...read, name: readPhraseName(entry.phrase) || comment }];
  }
  // Without angle brackets, the word with the @ is the address, including `a @ b . c` (RFC 5322 §4.4).
  const words = rejoined(entry.phrase.filter(({ isComment }) => !isComment));
  const isAddress = (word: PartialEntry["phrase"][number]) => !word.quoted && word.text.includes("@");
  const read = words.filter(isAddress).flatMap((word) => cleanAddress(word.text) ?? []);
  const name = readPhraseName(words.filter((word) => !isAddress(word))) || comment;
  return read.map((address) => ({ ...address, name: read.length === 1 ? name : "" }));
}

/** See AddressEntry.exact. */
function findExactAddress({ phrase, hasAt, angle }: PartialEntry): string | undefined {
  const [word, ...more] = phrase;
  if (angle === undefined) return word === undefined || word.quoted || more.length > 0 ? undefined : word.text;
  // An address as its own name, `a@x.example <a@x.example>`, is common; a different one means a missing comma.
  const isItself = word?.text.toLowerCase() === angle.trim().toLowerCase() && more.length === 0;
  return hasAt && !isItself ? undefined : angle.trim();
}

function rejoined(words: PartialEntry["phrase"]): PartialEntry["phrase"] {
  const joined: PartialEntry["phrase"] = [];
  for (const word of words) {
    const last = joined.at(-1);
    const binds =
      last !== undefined &&
      !last.quoted &&
      !word.quoted &&
      (/^[@.]/.test(word.text) || last.text.endsWith("@") || (last.text.endsWith(".") && last.text.includes("@")));
    if (binds) last.text += word.text;
    else joined.push({ ...word });
  }
  return joined;
}

function named(email: string, name: string): EmailAddress {
  return name === "" || name === email ? { email } : { email, name };
}

/** Decodes quoted words too: RFC 2047 §5 forbids encoded words there, but mailers write them. */
function readPhraseName(words: PartialEntry["phrase"]): string {
  return cleanName(decodeWords(words.map((word) => word.text).join(" ")));
}

function cleanName(name: string): string {
  const shown = toVisibleLine(cleanText(name).replace(/[\s\p{Cc}]+/gu, " "));
  return shown.length <= 500 ? shown : shown.slice(0, 500).trimEnd().toWellFormed();
}

/**
 * An addr-spec without source route (RFC 5322 §4.4), white space and control characters. Unseen characters become
 * visible.
 */
function cleanAddress(raw: string): Omit<ReadAddress, "name"> | undefined {
  if (raw.length > MAX_WORD_LENGTH) return undefined;
  const route = raw.trimStart().startsWith("@") ? raw.indexOf(":") : -1;
  const address = withoutComments(cleanText(raw.slice(route + 1)))
    .replace(/^\s*mailto:([^?]*).*$/is, "$1")
    .replace(/^\s*("(?:[^"\\\p{Cc}]|\\[^\p{Cc}])*")?|[ \p{Cc}<>]+/gu, "$1")
    .trimEnd()
    .replace(/^(["'])([^"']*@[^"'@]*)\1$/, "$2");
  const written = splitAddress(address.startsWith('"') ? address : address.replace(/(?<![,;])[,;]+$/, ""));
  if (address.length > 998) return undefined;
  const local = written.local.replace(UNSEEN, REPLACEMENT);
  const { domain, disguised } = readDisplayedDomain(written.domain);
  if (local === "" || domain === "") return undefined;
  const email = `${local}@${domain}`;
  return { email, disguised: disguised || (!USUAL.test(email) && looksAlike(local, domain)) };
}

/** A shortcut: most addresses. */
const USUAL = /^[\w.+=-]+@[\w.-]+$/;

/** Dots may stand anywhere: some providers had such addresses. */
const PLAIN_LOCAL = /^[^\s\p{Cc}()<>[\]:;@\\,"]+$/u;
const PLAIN_DOMAIN = /^[\p{L}\p{M}\p{N}._-]+$/u;

/**
 * True for an address that others may read as another one: the local part contains what looks like an address, or local
 * part or domain has a character that separates addresses (RFC 5322 §3.2.3).
 */
function looksAlike(local: string, domain: string): boolean {
  const isQuoted = /^".*"$/s.test(local);
  if (AT.test(local) || !(isQuoted || PLAIN_LOCAL.test(local))) return true;
  return !PLAIN_DOMAIN.test(domain) && normalizeDomain(domain) === undefined;
}

/** Parentheses in a quoted string are no comment. */
function withoutComments(text: string): string {
  if (!text.includes("(")) return text;
  let cleaned = "";
  for (let i = 0; i < text.length; ) {
    const quotedEnd = text[i] === '"' ? quotedAt(text, i).end : Number.POSITIVE_INFINITY;
    if (text[i] === "(") {
      i = endOfComment(text, i);
    } else {
      const end = quotedEnd <= text.length ? quotedEnd : i + 1;
      cleaned += text.slice(i, end);
      i = end;
    }
  }
  return cleaned;
}

/*
 * Scanners for the pieces of an address list (RFC 5322 §3.2): each returns the end of the comment, quoted string,
 * angle-addr or atom at an offset. An unclosed one ends with the text.
 */

/** Returns the offset after the closing parenthesis, or one past the end of the text for an open comment. */
function endOfComment(text: string, start: number): number {
  let depth = 0;
  for (let i = start; i < text.length; i++) {
    const character = text[i];
    if (character === "\\") i++;
    else if (character === "(") depth++;
    else if (character === ")" && --depth === 0) return i + 1;
  }
  return text.length + 1;
}

/** The content of a quoted string without its escapes. `end` is one past the end of the text for an open one. */
function quotedAt(text: string, start: number): { content: string; end: number } {
  let content = "";
  let i = start + 1;
  for (; i < text.length && text[i] !== '"'; i++) {
    if (text[i] === "\\" && i + 1 < text.length) i++;
    content += text[i];
  }
  return { content, end: i + 1 };
}

/** The content of `<…>`; a quoted local part may hold a `>`. An unclosed one ends at the comma. */
function angleAt(text: string, start: number): { content: string; end: number } {
  let comma = -1;
  for (let i = start + 1; i < text.length; i++) {
    const character = text[i];
    if (character === '"' && text[i - 1] === "<") i = Math.max(i, quotedAt(text, i).end - 1);
    else if (character === ">") return { content: text.slice(start + 1, i), end: i + 1 };
    else if (character === "<") return { content: text.slice(start + 1, i), end: i };
    else if (character === "," && comma < 0 && !text.slice(start + 1, start + 3).includes("@")) comma = i;
  }
  const end = comma < 0 ? text.length : comma;
  return { content: text.slice(start + 1, end), end };
}

/** The end of a run of characters that contains no list delimiter; at least one character long. */
function endOfAtom(text: string, start: number): number {
  // A careless mailer leaves commas and brackets in an encoded word unencoded.
  if (text.startsWith("=?", start)) {
    const match = /^=\?[^?\s]{1,60}\?[bq]\?[^?]{0,1000}\?=/i.exec(text.slice(start, start + 1_100));
    if (match !== null) return start + match[0].length;
  }
  let i = start;
  while (i < text.length && !/[\s,;:<>("]/.test(text[i] as string)) {
    if (text[i] === "[") {
      // A domain literal holds colons (IPv6).
      const close = text.slice(i, i + 60).indexOf("]");
      if (close > 0) i += close;
    }
    i++;
  }
  return Math.max(i, start + 1);
}
