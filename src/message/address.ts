/**
 * Addresses: the address lists of a header (RFC 5322 §3.4, obsolete forms included), and the one spelling of an address
 * that lookups compare.
 *
 * Reading a list never throws and is linear in its length; what holds no address yields none.
 */
import { domainToASCII } from "node:url";
import { angleAt, endOfAtom, endOfComment, quotedAt } from "./address-scan.ts";
import { cleanText } from "./charset.ts";
import { decodeWords } from "./encoded-word.ts";

/** An address with the display name it came with (spec: EmailAddress). */
export interface EmailAddress {
  email: string;
  name?: string;
}

/** The two sides of the last `@`. */
export interface AddressParts {
  local: string;
  domain: string;
}

/** Most addresses read from one list, and words read of one entry; the header itself keeps them all. */
const MAX_ADDRESSES = 2_000;
const MAX_WORDS = 200;
const MAX_WORD_LENGTH = 2_000;

/** What is known of a mailbox of a list before its end is reached. */
interface Draft {
  /** Atoms, quoted strings and encoded words outside angle brackets, in order. */
  phrase: { text: string; quoted: boolean }[];
  /** An unquoted word of it has an `@`. */
  hasAt: boolean;
  /** White space came since the last word. */
  spaced: boolean;
  comments: string[];
  angle: string | undefined;
  /** Something of it was read as it was hardly meant: brackets twice or unclosed, an open comment or quote. */
  malformed: boolean;
}

/** What stands between two commas of a list. */
interface AddressEntry {
  /** As written. */
  source: string;
  /** None where it holds no address; several where commas are missing. */
  addresses: EmailAddress[];
  /**
   * The one addr-spec that it is, as written, when it is nothing but a mailbox (RFC 5322 §3.4): with nothing dropped,
   * joined or guessed.
   */
  exact: string | undefined;
}

/**
 * The addresses of a list, in order. Groups give their members, encoded words are decoded, a comment serves as the name
 * where there is no other. An entry without an `@` is left out.
 */
export function parseAddressList(text: string): EmailAddress[] {
  const found: EmailAddress[] = [];
  for (const { addresses } of readAddressEntries(text)) {
    found.push(...addresses);
    if (found.length >= MAX_ADDRESSES) break;
  }
  return found;
}

/** The entries of a list that are not empty, in order: for who must know what stands where no address was read. */
export function* readAddressEntries(text: string): Generator<AddressEntry> {
  let draft = newDraft();
  let start = 0;
  let i = 0;
  while (i < text.length) {
    const character = text[i] as string;
    if (character === "," || character === ";") {
      if (text.slice(start, i).trim() !== "") yield entryOf(draft, text.slice(start, i));
      draft = newDraft();
      start = ++i;
    } else if (character === ":" && !draft.hasAt) {
      // The name of a group (RFC 5322 §3.4): its members follow.
      draft = newDraft();
      start = ++i;
    } else if (character === "(") {
      const end = endOfComment(text, i);
      const closed = end <= text.length;
      draft.comments.push(text.slice(i + 1, closed ? end - 1 : end));
      draft.malformed ||= !closed;
      draft.spaced = true;
      i = end;
    } else if (character === "<") {
      const { content, end } = angleAt(text, i);
      draft.malformed ||= draft.angle !== undefined || text[end - 1] !== ">";
      if (draft.angle === undefined || !draft.angle.includes("@")) draft.angle = content;
      i = end;
    } else if (character === '"') {
      const { content, end } = quotedAt(text, i);
      draft.malformed ||= end > text.length;
      addWord(draft, content, true);
      i = end;
    } else if (/\s/.test(character)) {
      draft.spaced = true;
      i++;
    } else {
      const end = endOfAtom(text, i);
      addWord(draft, text.slice(i, end), false);
      i = end;
    }
  }
  if (text.slice(start).trim() !== "") yield entryOf(draft, text.slice(start));
}

function entryOf(draft: Draft, source: string): AddressEntry {
  return { source, addresses: addressesOf(draft), exact: draft.malformed ? undefined : exactAddressOf(draft) };
}

/** The domain of senders who gave none: it cannot exist (RFC 6761 §6.4). */
const NO_DOMAIN = "unknown.invalid";

/** Shown for mail that names no sender at all. */
export const NOBODY: EmailAddress = { email: `unknown@${NO_DOMAIN}` };

/** Whether an address stands for a sender who gave none: strangers to each other share it. */
export const isAnonymous = (email: string): boolean => email.toLowerCase().endsWith(`@${NO_DOMAIN}`);

/**
 * The first address of a From header. One without an `@`, such as `MAILER-DAEMON`, is given a domain that cannot exist,
 * and a mere name an address there. Undefined when the header says nothing.
 */
export function parseSender(text: string): EmailAddress | undefined {
  const first = parseAddressList(text)[0];
  if (first !== undefined) return first;
  const [, before = "", angle = ""] = /^([^<]*)<?([^<>]*)/.exec(text.slice(0, MAX_WORD_LENGTH)) ?? [];
  const name = cleanName(decodeWords(before.replace(/["()]/g, " ")));
  const local = normalizeLocal(angle.trim()) ?? normalizeLocal(name.split(" ", 1)[0] ?? "");
  const isLocalOnly = angle === "" && !name.includes(" ");
  if (name === "" && local === undefined) return undefined;
  if (angle !== "" || isLocalOnly) return named(`${local ?? "unknown"}@${NO_DOMAIN}`, isLocalOnly ? "" : name);
  return named(NOBODY.email, name);
}

/**
 * A bare addr-spec in the spelling that lookups use: lower case, the local part composed (NFC, RFC 6532 §3.1) and
 * unquoted where it can be, the domain in A-labels. Undefined when it is no address (RFC 5321 §4.1.2, lengths of §4.5.3.1; RFC 6531 for the local part).
 */
export function normalizeAddress(text: string): string | undefined {
  const { local, domain } = splitAddress(text.trim());
  const name = normalizeLocal(local.normalize("NFC"));
  const host = normalizeDomain(domain);
  return name === undefined || host === undefined ? undefined : `${name}@${host}`;
}

/**
 * A bare addr-spec as it stands in RCPT TO: the local part as written, for only its own server may fold it (RFC 5321
 * §2.4), unquoted where it can be; the domain in A-labels. Undefined for what normalizeAddress refuses.
 */
export function envelopeAddress(text: string): string | undefined {
  const normalized = normalizeAddress(text);
  const local = unquoteLocal(splitAddress(text.trim()).local);
  return normalized === undefined || local === undefined ? undefined : `${local}@${splitAddress(normalized).domain}`;
}

/** Whether an address names its host by number, as `user@[192.0.2.1]` (RFC 5321 §4.1.3). */
export const isAddressLiteral = (address: string): boolean => address.endsWith("]");

/** Local part and domain of an address; both as written, `domain` empty when there is no `@`. */
export function splitAddress(address: string): AddressParts {
  const at = address.lastIndexOf("@");
  return at < 0 ? { local: address, domain: "" } : { local: address.slice(0, at), domain: address.slice(at + 1) };
}

/** `user+tag` -> `user` (contract: Arrival). */
export function withoutTag(local: string): string {
  const plus = local.indexOf("+");
  return plus > 0 ? local.slice(0, plus) : local;
}

const ATEXT = /^[^\s\p{Cc}()<>[\]:;@\\,."]+(?:\.[^\s\p{Cc}()<>[\]:;@\\,."]+)*$/u;
/** What a number ends is an IPv4 address, and no name (RFC 1123 §2.1). */
const HOST =
  /^(?=.{1,255}$)(?!(?:.*\.)?\d+$)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?)*$/;
const ADDRESS_LITERAL = /^\[[0-9a-f.:]{2,45}\]$|^\[ipv6:[0-9a-f.:]{2,45}\]$/;

const normalizeLocal = (local: string): string | undefined => unquoteLocal(local)?.toLowerCase();

/** A local part without quotes or escapes that it can do without; undefined when it is none. */
function unquoteLocal(local: string): string | undefined {
  if (local.length === 0 || Buffer.byteLength(local) > 64 || !local.isWellFormed()) return undefined;
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

function newDraft(): Draft {
  return { phrase: [], hasAt: false, spaced: false, comments: [], angle: undefined, malformed: false };
}

function addWord(draft: Draft, text: string, quoted: boolean): void {
  if (!quoted && text.includes("@")) draft.hasAt = true;
  const last = draft.phrase.at(-1);
  if (draft.phrase.length >= MAX_WORDS || (last?.text.length ?? 0) > MAX_WORD_LENGTH) return;
  if (last !== undefined && !draft.spaced && draft.angle === undefined) {
    // Adjacent without space, as in "john smith"@example.com: one word.
    if (!quoted || last.text.endsWith(".")) {
      last.text = last.quoted && /^[.@]/.test(text) ? quotedString(last.text) + text : last.text + text;
      last.quoted = false;
      return;
    }
  }
  draft.phrase.push({ text, quoted });
  draft.spaced = false;
}

/** RFC 5322 §3.2.4. What may not stand in one stays, for whoever reads the address to refuse. */
const quotedString = (content: string): string => `"${content.replace(/["\\]/g, "\\$&")}"`;

/** The address an entry of the list turned out to be; several where the commas are missing. */
function addressesOf(draft: Draft): EmailAddress[] {
  const comment = cleanName(decodeWords(draft.comments.at(-1) ?? ""));
  if (draft.angle !== undefined) {
    const email = cleanAddress(draft.angle);
    if (email !== undefined) return [named(email, nameOf(draft.phrase) || comment)];
  }
  // Without angle brackets: the word with the @ is the address, `a @ b . c` (RFC 5322 §4.4) included.
  const words = rejoined(draft.phrase);
  const isAddress = (word: Draft["phrase"][number]) => !word.quoted && word.text.includes("@");
  const emails = words.filter(isAddress).flatMap((word) => cleanAddress(word.text) ?? []);
  const name = nameOf(words.filter((word) => !isAddress(word))) || comment;
  return emails.map((email) => named(email, emails.length === 1 ? name : ""));
}

/** See AddressEntry.exact. */
function exactAddressOf({ phrase, hasAt, angle }: Draft): string | undefined {
  const [word, ...more] = phrase;
  if (angle === undefined) return word === undefined || word.quoted || more.length > 0 ? undefined : word.text;
  // An address for a name is common, `a@x.example <a@x.example>`; another one is a comma forgotten.
  const isItself = word?.text.toLowerCase() === angle.trim().toLowerCase() && more.length === 0;
  return hasAt && !isItself ? undefined : angle.trim();
}

function rejoined(words: Draft["phrase"]): Draft["phrase"] {
  const joined: Draft["phrase"] = [];
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

/** Quoted words are decoded too: RFC 2047 §5 forbids encoded words there, and mailers write them all the same. */
function nameOf(words: Draft["phrase"]): string {
  return cleanName(decodeWords(words.map((word) => word.text).join(" ")));
}

function cleanName(name: string): string {
  return cleanText(name)
    .replace(/[\s\p{Cc}]+/gu, " ")
    .trim()
    .slice(0, 500)
    .toWellFormed();
}

/** An addr-spec without source route (RFC 5322 §4.4), white space and control characters. */
function cleanAddress(raw: string): string | undefined {
  if (raw.length > MAX_WORD_LENGTH) return undefined;
  const route = raw.trimStart().startsWith("@") ? raw.indexOf(":") : -1;
  const address = withoutComments(cleanText(raw.slice(route + 1)))
    .replace(/^\s*mailto:([^?]*).*$/is, "$1")
    .replace(/^\s*("(?:[^"\\\p{Cc}]|\\[^\p{Cc}])*")?|[\s\p{Cc}<>]+/gu, "$1");
  const { local, domain } = splitAddress(address.startsWith('"') ? address : address.replace(/[,;]+$/, ""));
  return local === "" || domain === "" || address.length > 998 ? undefined : `${local}@${domain}`;
}

function withoutComments(text: string): string {
  let kept = "";
  let position = 0;
  while (position < text.length) {
    const open = text.indexOf("(", position);
    if (open < 0) break;
    kept += text.slice(position, open);
    position = endOfComment(text, open);
  }
  return kept + text.slice(position);
}
