/**
 * Tells which names of hosts belong together: those below the same registrable name of the Public Suffix List, whose part for
 * private registries counts (two sites of a hoster are strangers). The only user of tldts. For people alone: DMARC asks the
 * DNS (authentication/dmarc.ts).
 */
import { domainToASCII, domainToUnicode } from "node:url";
import { getDomain, parse } from "tldts";

/** Longest name of a host, as written, that is looked at. */
const LONGEST_HOST = 1_000;

/** A host as names are compared: A-labels, lower case, without a dot at the end. Undefined for what cannot be one. */
export function readHost(written: string): string | undefined {
  if (written.length > LONGEST_HOST) return undefined;
  return domainToASCII(written.replace(/\.$/, "")) || undefined;
}

/** The registrable name of a host, as readHost gives it; the host itself where there is none, as of an address. */
export const registrableDomain = (host: string): string => getDomain(host, { allowPrivateDomains: true }) ?? host;

/** Endings of files that are top-level domains, too. */
const OF_FILES: ReadonlySet<string> = new Set("ai app cc md mov pl ps py rs sh so zip".split(" "));

/** Top-level domains that are reserved for examples (RFC 6761). */
const RESERVED: ReadonlySet<string> = new Set(["example", "test"]);

/** True if a word alone is meant as the name of a host: it ends in a top-level domain that exists, and not as files do. */
export function isHostName(host: string): boolean {
  const { isIcann, domain, publicSuffix } = parse(host);
  const top = publicSuffix?.split(".").at(-1) ?? "";
  return domain !== null && (isIcann === true ? !OF_FILES.has(top) : RESERVED.has(top));
}

const LATIN = /\p{Script=Latin}/u;
const OTHER_ALPHABET = /[\p{Script=Cyrillic}\p{Script=Greek}\p{Script=Armenian}\p{Script=Cherokee}\p{Script=Coptic}]/u;
/** Cyrillic letters that Latin ones look like (UTS #39). */
const ALL_LIKE_LATIN = /^[аеорсухіјѕһԁԛԝӏѵгкмнтв\d-]+$/u;
/** True for a label of letters that look Latin alone. */
const looksLatin = (label: string): boolean => ALL_LIKE_LATIN.test(label) && /[^\d-]/.test(label);

/** True for a host of which a label mixes Latin letters with those of another alphabet, or has such as look Latin alone. */
export function mayBeLookalikeHost(host: string): boolean {
  if (!host.includes("xn--")) return false;
  const labels = domainToUnicode(host).split(".");
  const isAsciiTop = /^[a-z]+$/.test(labels.at(-1) ?? "");
  return labels.some((label) => (LATIN.test(label) && OTHER_ALPHABET.test(label)) || (isAsciiTop && looksLatin(label)));
}
