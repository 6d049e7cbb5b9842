/**
 * Detects texts that would give away a Bcc recipient (rules: Bcc). Replies and reports of other servers may name any recipient,
 * by address, by domain or by local part, in any spelling.
 *
 * Invariant: a text that might name a Bcc recipient counts as naming one.
 */
import { domainToUnicode } from "node:url";
import { type AddressParts, normalizeAddress, splitAddress, withoutTag } from "../message/address.ts";
import type { RecipientField } from "../store/schema.ts";

/** Characters of a text that are searched; a longer text counts as naming a Bcc recipient. */
const LONGEST_TEXT = 1024 * 1024;

/** RFC 1035 §2.3.4, with room for U-labels. */
const LONGEST_HOST = 300;

/**
 * Makes the detector for one message. `recipients`: all of them; `from`: the sender's domain, A-labels. Words that a Bcc
 * recipient shares with the sender or another recipient give nothing away.
 */
export function bccDetector(
  recipients: readonly { recipient: string; field: RecipientField }[],
  from: string,
): (text: string) => boolean {
  const partsOf = (field: (field: RecipientField) => boolean) =>
    recipients
      .filter((entry) => field(entry.field))
      .map(({ recipient }) => splitAddress(normalizeAddress(recipient) ?? recipient.toLowerCase()));
  const hidden = partsOf((field) => field === "bcc");
  if (hidden.length === 0) return () => false;
  const shown = partsOf((field) => field !== "bcc");

  const shownDomains = new Set([from, ...shown.map(({ domain }) => domain)].flatMap(spellings));
  const hiddenDomains = new Set(hidden.flatMap(({ domain }) => spellings(domain)));
  const shownLocals = new Set(shown.flatMap(localForms));
  const hiddenWords = [
    ...hidden.flatMap(localForms).filter((local) => local !== "" && !shownLocals.has(local)),
    ...hidden.flatMap(({ local, domain }) => spellings(domain).map((host) => `${local}@${host}`)),
  ];

  return function namesBcc(given) {
    if (given.length > LONGEST_TEXT) return true;
    // VERP, URLs and quoted-printable spell the @ of an address in other ways.
    const text = given
      .normalize("NFC")
      .toLowerCase()
      .replace(/[%=]40|=(?=[a-z0-9])/g, "@");
    if (hiddenWords.some((word) => hasWord(text, word))) return true;
    for (const [host] of text.matchAll(/[\p{L}\p{N}.-]+/gu)) {
      if (isWithin(host.slice(-LONGEST_HOST).replace(/^\.+|\.+$/g, ""), hiddenDomains, shownDomains)) return true;
    }
    return false;
  };
}

/** Finds a word with no letter or digit before or after it. */
function hasWord(text: string, word: string): boolean {
  const isPartOfWord = (character: string | undefined) => character !== undefined && /[\p{L}\p{N}]/u.test(character);
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    if (!isPartOfWord(text[at - 1]) && !isPartOfWord(text[at + word.length])) return true;
  }
  return false;
}

/** Tells whether a host belongs to one of `domains` and to none of `others` that is as close or closer. */
function isWithin(host: string, domains: ReadonlySet<string>, others: ReadonlySet<string>): boolean {
  for (let rest = host; rest !== ""; rest = rest.includes(".") ? rest.slice(rest.indexOf(".") + 1) : "") {
    if (others.has(rest)) return false;
    if (domains.has(rest)) return true;
  }
  return false;
}

/** Spells a domain in A-labels and in U-labels (RFC 5890 §2.3.2.1). */
const spellings = (domain: string): string[] => [domain, domainToUnicode(domain) || domain];

/** Spells a local part: as it is, without its tag, and without its quotes. */
const localForms = ({ local }: AddressParts): string[] => [local, withoutTag(local), local.replace(/^"|"$/g, "")];
