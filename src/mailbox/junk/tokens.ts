/**
 * Derives the tokens of a message for the junk filter: words of subject and text as search folds them, and traits of
 * its header, links, HTML and attachments. A trait is a token with its kind before a colon, which no word contains.
 *
 * Pure and bounded: at most MOST_TOKENS from a limited beginning of any message. The same stored message always gives
 * the same tokens, because unlearning derives them again.
 */
import { type EmailAddress, isPlaceholderAddress, splitAddress } from "../../message/address.ts";
import { foldText } from "../../search/fold.ts";
import type { AuthVerdicts } from "../../store/schema.ts";
import type { Sender } from "./senders.ts";

/** The properties of a message that are used, whether prepared or read back from the store. */
export interface JunkSource {
  /** Header fields as stored: without trace, authentication and Content-* fields. */
  headers: readonly (readonly [name: string, value: string])[];
  from?: EmailAddress | undefined;
  replyTo: readonly EmailAddress[];
  messageId?: string | undefined;
  subject: string;
  text: string;
  attachments: readonly { filename: string; contentType: string }[];
  /** The folded text, if it is already available. */
  folded?: string | undefined;
  /** Bytes as received. */
  size: number;
  /** Returns the HTML as received. Called only for a message small enough. */
  html(): string | undefined;
}

/** Tokens of one message, without those of listSenderJunkTokens. */
const MOST_TOKENS = 160;
/** Limits on traits and subject words: they come first, and leave room for the text. */
const MOST_TRAITS = 50;
const MOST_SUBJECT_WORDS = 20;
const MOST_HOSTS = 30;
export const MOST_FILES = 20;
/** Limits in characters. */
const LONGEST_SUBJECT = 1_000;
const LONGEST_AUTHORITY = 300;
export const LONGEST_TEXT = 16_384;
const LONGEST_HTML = 32_768;
const LONGEST_VALUE = 200;
/** Largest message whose HTML is used, in bytes: learning decompresses it. */
const LARGEST_WITH_HTML = 1_048_576;
/** Longest word, in characters; longer ones are mostly encoded data. */
const LONGEST_WORD = 24;

/** Header fields whose presence is a trait. The list is closed, since invented fields would fill the table. */
const TELLING = new Set([
  "auto-submitted",
  "comments",
  "disposition-notification-to",
  "errors-to",
  "feedback-id",
  "in-reply-to",
  "list-id",
  "list-post",
  "list-unsubscribe",
  "list-unsubscribe-post",
  "organization",
  "references",
  "return-receipt-to",
  "sender",
  "x-originating-ip",
]);
/** Fields whose first words are traits. */
const DESCRIBED = new Set(["importance", "list-id", "precedence", "user-agent", "x-mailer", "x-priority"]);
/** Fields that honest mail programs always write. */
const EXPECTED = ["date", "from", "message-id", "subject", "to"];

/** Every repetition is bounded, so that matching any HTML is fast. */
const HTML_TRAITS: readonly (readonly [name: string, pattern: RegExp])[] = [
  ["form", /<form\b/i],
  ["frame", /<i?frame\b/i],
  ["script", /<script\b|\bon(?:load|click|error)\s{0,9}=/i],
  [
    "hidden",
    /display\s{0,9}:\s{0,9}none|visibility\s{0,9}:\s{0,9}hidden|font-size\s{0,9}:\s{0,9}[01](?:px|pt)?\s{0,9}[;"']/i,
  ],
  ["white", /color\s{0,9}[:=]\s{0,9}["']?\s{0,9}(?:#fff(?:fff)?\b|white\b)/i],
  ["huge", /<font[^>]{0,100}\bsize\s{0,9}=\s{0,9}["']?\+?[4-9]/i],
  ["image", /<img\b[^>]{0,150}https?:/i],
  ["pixel", /<img\b[^>]{0,150}\b(?:width|height)\s{0,9}=\s{0,9}["']?[01]\b/i],
  ["data", /\bsrc\s{0,9}=\s{0,9}["']?data:/i],
  ["comment", /[a-z]<!--[^>]{0,200}-->[a-z]/i],
  ["table", /<table\b/i],
  ["style", /<style\b/i],
];

/** The tokens, separated by single spaces. */
export function extractJunkTokens(source: JunkSource): string {
  const html = source.size <= LARGEST_WITH_HTML ? source.html()?.slice(0, LONGEST_HTML) : undefined;
  const text = source.text.slice(0, LONGEST_TEXT);
  const traits = new Set<string>();
  addHeader(traits, source);
  addLinks(traits, text, html ?? "");
  for (const { filename, contentType } of source.attachments.slice(0, MOST_FILES)) {
    traits.add(`file:${contentType.slice(0, 60)}`);
    const [, extension] = /\.([a-z0-9]{1,8})$/i.exec(filename) ?? [];
    if (extension !== undefined) traits.add(`file:.${extension.toLowerCase()}`);
  }
  if (html !== undefined) {
    traits.add("html");
    for (const [name, pattern] of HTML_TRAITS) if (pattern.test(html)) traits.add(`html:${name}`);
  }
  traits.add(`length:${Math.ceil(Math.log2(text.length + 1))}`);
  const folded = source.text.length === text.length && source.folded !== undefined ? source.folded : foldText(text);
  const tokens = new Set([...traits].slice(0, MOST_TRAITS));
  for (const word of first(splitJunkWords(foldText(source.subject.slice(0, LONGEST_SUBJECT))), MOST_SUBJECT_WORDS)) {
    tokens.add(`subject:${word}`);
  }
  for (const word of chosen(splitJunkWords(folded), MOST_TOKENS - tokens.size)) tokens.add(word);
  return [...tokens].join(" ");
}

/**
 * The sender, as far as the server can verify it: tokens of a spoofed From differ from those of the real sender.
 * Derived separately, because the verdicts are unknown where the message is parsed.
 */
export function listSenderJunkTokens({ address, spoofed }: Sender, auth: AuthVerdicts | null | undefined): string[] {
  const shown = address.slice(0, LONGEST_VALUE).replaceAll(/\s/g, "");
  const kind = spoofed ? "spoofed" : "from";
  const verdicts = auth ? [`spf:${auth.spf}`, `dkim:${auth.dkim}`, `dmarc:${auth.dmarc}`] : [];
  return [`${kind}:${shown}`, `${kind}:@${splitAddress(shown).domain}`, ...verdicts];
}

function addHeader(traits: Set<string>, { headers, from, replyTo, messageId, subject }: JunkSource): void {
  const names = new Set<string>();
  for (const [written, value] of headers) {
    const name = written.toLowerCase();
    names.add(name);
    if (TELLING.has(name)) traits.add(`header:${name}`);
    if (DESCRIBED.has(name)) {
      for (const word of first(splitJunkWords(foldText(value.slice(0, LONGEST_VALUE))), 4))
        traits.add(`${name}:${word}`);
    }
  }
  for (const name of EXPECTED) if (!names.has(name)) traits.add(`without:${name}`);
  // Stored mail without a From has a stand-in sender.
  const domain =
    from === undefined || isPlaceholderAddress(from.email) ? "" : splitAddress(from.email).domain.toLowerCase();
  for (const word of first(splitJunkWords(foldText(from?.name?.slice(0, LONGEST_VALUE) ?? "")), 6))
    traits.add(`name:${word}`);
  const answered = replyTo[0] && splitAddress(replyTo[0].email).domain.toLowerCase();
  if (answered !== undefined) traits.add(answered === domain ? "reply-to:same" : `reply-to:${answered.slice(0, 100)}`);
  if (messageId !== undefined && domain !== "") {
    traits.add(messageId.toLowerCase().includes(domain) ? "message-id:same" : "message-id:other");
  }
  if (subject.length >= 8 && subject === subject.toUpperCase() && subject !== subject.toLowerCase()) {
    traits.add("subject:CAPITALS");
  }
  for (const sign of ["!", "?", "$", "%", "€"]) if (subject.includes(sign)) traits.add(`subject:${sign}`);
  if (/\s{4,}\S+$/.test(headers.find(([name]) => name.toLowerCase() === "subject")?.[1].slice(-100) ?? "")) {
    traits.add("subject:gap");
  }
}

/** Adds the hosts that text and HTML link to, and the domains above each. */
function addLinks(traits: Set<string>, text: string, html: string): void {
  const hosts = new Set<string>();
  for (const from of [text, html]) {
    for (const [, written = ""] of from.matchAll(/\bhttps?:\/\/([^\s/?#"'<>()\\]{1,253})/gi)) {
      if (hosts.size >= MOST_HOSTS) return;
      const authority = written.slice(0, LONGEST_AUTHORITY).toLowerCase();
      if (hosts.has(authority)) continue;
      hosts.add(authority);
      const host = authority.slice(authority.lastIndexOf("@") + 1);
      if (host.length < authority.length) traits.add("link:@");
      if (/:\d+$/.test(host)) traits.add("link::port");
      const labels = host.replace(/[.:]*\d*$/, (end) => (end.startsWith(":") ? "" : end)).split(".");
      if (/^\d+$/.test(labels.at(-1) ?? "")) traits.add("link:address");
      else for (const count of [2, 3]) traits.add(`link:${labels.slice(-count).join(".")}`);
    }
  }
}

/** The distinct words of folded text, in order; in a script without spaces, its characters in pairs. */
function splitJunkWords(folded: string): Set<string> {
  const words = new Set<string>();
  let before = "";
  for (const word of folded.split(" ")) {
    if (word.length > 1) {
      before = "";
      if (word.length <= LONGEST_WORD) words.add(word);
    } else if (word > "\x7f") {
      if (before !== "") words.add(before + word);
      before = word;
    } else {
      before = "";
    }
  }
  return words;
}

const first = (words: ReadonlySet<string>, most: number): string[] => [...words].slice(0, most);

/**
 * At most `most` of the words. If there are more, half are the first ones, and about half are selected by a hash that
 * is the same for every message, so that a long beginning cannot hide the rest.
 */
function chosen(words: ReadonlySet<string>, most: number): string[] {
  const all = [...words];
  if (all.length <= most) return all;
  const early = all.splice(0, most >> 1);
  const room = most - early.length;
  const below = (room / all.length) * 2 ** 32;
  return [...early, ...all.filter((word) => Bun.hash.xxHash32(word) < below).slice(0, room)];
}
