/**
 * Detects texts that would give away a Bcc recipient (rules: Bcc). Replies and reports of other servers may name any recipient,
 * by address, by domain or by local part, in any spelling.
 *
 * Invariants: a text that might name a Bcc recipient counts as naming one. Whether it does makes no difference to the work,
 * since those who write texts full of guesses measure the time until the reply.
 */
import { domainToUnicode } from "node:url";
import { type AddressParts, normalizeAddress, splitAddress, withoutAddressTag } from "../message/address.ts";
import type { RecipientField } from "../store/schema.ts";

/** Characters of a text that are searched, in a few milliseconds; a longer text counts as naming a Bcc recipient. */
const LONGEST_TEXT = 64 * 1024;

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
  const splitRecipientAddresses = (field: (field: RecipientField) => boolean) =>
    recipients
      .filter((entry) => field(entry.field))
      .map(({ recipient }) => splitAddress(normalizeAddress(recipient) ?? recipient.toLowerCase()));
  const hidden = splitRecipientAddresses((field) => field === "bcc");
  if (hidden.length === 0) return () => false;
  const shown = splitRecipientAddresses((field) => field !== "bcc");

  const shownDomains = new Set([from, ...shown.map(({ domain }) => domain)].flatMap(spellings));
  const hiddenDomains = new Set(hidden.flatMap(({ domain }) => spellings(domain)));
  const shownLocals = new Set(shown.flatMap(localForms));
  const hiddenWords = new Set([
    ...hidden.flatMap(localForms).filter((local) => local !== "" && !shownLocals.has(local)),
    ...hidden.flatMap(({ local, domain }) => spellings(domain).map((host) => `${local}@${host}`)),
  ]);

  return function namesBcc(given) {
    if (given.length > LONGEST_TEXT) return true;
    // VERP, URLs and quoted-printable spell the @ of an address in other ways.
    const text = given
      .normalize("NFC")
      .toLowerCase()
      .replace(/[%=]40|=(?=[a-z0-9])/g, "@");
    let named = 0;
    for (const word of hiddenWords) named += countWord(text, word);
    for (const [host] of text.matchAll(/[\p{L}\p{N}.-]+/gu)) {
      const bare = host.slice(-LONGEST_HOST).replace(/^\.+|\.+$/g, "");
      if (isWithin(bare, hiddenDomains, shownDomains)) named++;
    }
    return named > 0;
  };
}

/** Why a message was not sent when it was due, for all who read it. `from`: the address that it comes from. */
export function hideBccInRefusal(
  text: string,
  recipients: readonly { email: string; field: RecipientField }[],
  from: string,
): string {
  const entries = recipients.map(({ email, field }) => ({ recipient: email, field }));
  const namesBcc = bccDetector(entries, splitAddress(from).domain);
  return namesBcc(text) ? "It was refused when it was due: send it again to see why" : text;
}

/** Counts a word where no letter or digit stands before or after it. */
function countWord(text: string, word: string): number {
  const isPartOfWord = (character: string | undefined) => character !== undefined && /[\p{L}\p{N}]/u.test(character);
  let count = 0;
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    if (!isPartOfWord(text[at - 1]) && !isPartOfWord(text[at + word.length])) count++;
  }
  return count;
}

/** Tells whether a host belongs to one of `domains` and to none of `others` that is as close or closer. */
function isWithin(host: string, domains: ReadonlySet<string>, others: ReadonlySet<string>): boolean {
  let isIt = false;
  let rest = "";
  // From the top down: the closest one decides.
  for (const label of host.split(".").reverse()) {
    rest = rest === "" ? label : `${label}.${rest}`;
    if (others.has(rest)) isIt = false;
    else if (domains.has(rest)) isIt = true;
  }
  return isIt;
}

/** Spells a domain in A-labels and in U-labels (RFC 5890 §2.3.2.1). */
const spellings = (domain: string): string[] => [domain, domainToUnicode(domain) || domain];

/** Spells a local part: as it is, without its tag, and without its quotes. */
const localForms = ({ local }: AddressParts): string[] => [
  local,
  withoutAddressTag(local),
  local.replace(/^"|"$/g, ""),
];
