/**
 * Finds a query in a message and makes snippets to show. It reads the stored text with its own folding, whichever
 * engine found the message. Excluded words are never marked.
 *
 * Invariants: ranges lie within their snippet, ascend and do not overlap; the text in a range, folded, is what the
 * query asks for, as far as the snippet reaches. `Work` bounds the cost of hostile mail.
 */
import { type Static, stringEnum, t } from "../base/json-schema.ts";
import type { EmailAddress } from "../message/address.ts";
import { toVisibleText } from "../message/characters.ts";
import {
  domainForms,
  foldAddress,
  foldAddresses,
  LONGEST_BODY,
  LONGEST_ENTRY,
  LONGEST_SUBJECT,
  MOST_ENTRIES,
  type TokenPosition,
} from "./fold.ts";
import {
  findOccurrence,
  isRunAt,
  prepareSearchableText,
  prepareSought,
  type Readable,
  type Sought,
  toCharacterBoundary,
  type Work,
} from "./occurrences.ts";
import { isOfPeople, type Query, type TextField } from "./query.ts";

/** Fields of a message that highlights cover; Bcc is never one. */
const HIGHLIGHT_FIELDS = ["subject", "text", "from", "to", "cc", "attachment"] as const;
type HighlightField = (typeof HIGHLIGHT_FIELDS)[number];

/** Start and end in UTF-16 units of the snippet. */
type Range = [start: number, end: number];

/** An ellipsis marks a cut at either end. */
export const LONGEST_SNIPPET = 160;

export const Highlight = t.Object({
  field: stringEnum(HIGHLIGHT_FIELDS),
  snippet: t.String({
    description: `A piece of that field on one line, at most ${LONGEST_SNIPPET} UTF-16 code units; an ellipsis stands where it was cut`,
  }),
  ranges: t.Array(t.Unsafe<Range>(t.Array(t.Integer({ minimum: 0 }), { minItems: 2, maxItems: 2 })), {
    description:
      "What was found in the snippet: pairs of start (inclusive) and end (exclusive) in UTF-16 code units, ascending, not overlapping",
  }),
});
export type Highlight = Static<typeof Highlight>;

/** The searched fields of a stored message. */
export interface SearchedMessage {
  subject: string;
  text: string;
  /** The visible text of its HTML, if that differs. */
  seen?: string | undefined;
  from: EmailAddress;
  to: readonly EmailAddress[];
  cc: readonly EmailAddress[];
  filenames: readonly string[];
}

const LONGEST_CUT = LONGEST_SNIPPET - 2;
/** Units shown before the match. */
const LEAD = 40;
/** Most highlights of one message. */
const MOST = 3;

const FIELDS_OF: Readonly<Record<TextField, readonly HighlightField[]>> = {
  any: HIGHLIGHT_FIELDS,
  subject: ["subject"],
  sender: ["from"],
  recipients: ["to", "cc"],
  cc: ["cc"],
  files: ["attachment"],
};

/** Fixed cost of an address, in folded units. */
const COST_OF_AN_ENTRY = 50;

/** A condition of the query, and the fields it applies to. */
interface Wanted extends Sought {
  fields: readonly HighlightField[];
  /** The token of a complete address; then only this counts as a match. */
  address: string | undefined;
}

/** A highlight, and the conditions that it shows. */
interface Fragment extends Highlight {
  shows: ReadonlySet<Wanted>;
}

/**
 * Undefined if the query has nothing to show: only operators or exclusions. `found`: words that an engine found in
 * place of some of the query's.
 */
export function createHighlighter(
  { message: conditions }: Query,
  found: readonly string[] = [],
): ((message: SearchedMessage, work: Work) => Highlight[]) | undefined {
  const texts = conditions.filter((condition) => condition.kind === "text").filter(({ negated }) => !negated);
  if (texts.length === 0) return undefined;
  const wanted = [
    ...found.map((word): Wanted => ({ ...prepareSought(word), fields: FIELDS_OF.any, address: undefined })),
    ...texts.map(({ field, text }): Wanted => {
      const address = isOfPeople(field) ? foldAddress(text) : undefined;
      return { ...prepareSought(text), fields: FIELDS_OF[field], address };
    }),
  ];
  return (message, work) => highlightMessage(message, wanted, work);
}

function highlightMessage(message: SearchedMessage, wanted: readonly Wanted[], work: Work): Highlight[] {
  const of = (field: HighlightField) => wanted.filter(({ fields }) => fields.includes(field));
  const short = [
    ...findValueFragments("subject", [message.subject.slice(0, LONGEST_SUBJECT)], of("subject"), work),
    ...(["from", "to", "cc"] as const).flatMap((field) =>
      addressFragments(field, field === "from" ? [message.from] : message[field], of(field), work),
    ),
    ...findValueFragments(
      "attachment",
      message.filenames.slice(0, MOST_ENTRIES).map((name) => name.slice(0, LONGEST_ENTRY)),
      of("attachment"),
      work,
    ),
  ];
  const seen = new Set(short.flatMap(({ shows }) => [...shows]));
  const long = textFragments(message.text.slice(0, LONGEST_BODY), of("text"), seen, work);
  const left = of("text").filter((one) => !long.some(({ shows }) => shows.has(one)));
  const inHtml = message.seen ? textFragments(message.seen.slice(0, LONGEST_BODY), left, seen, work) : [];
  return chosen([...short, ...long, ...inHtml]);
}

/** Up to MOST fragments in field order, preferring those that show a further condition. */
function chosen(fragments: readonly Fragment[]): Highlight[] {
  const inOrder = fragments.toSorted((a, b) => highlightOrder(a) - highlightOrder(b));
  const formatNamedAddress = new Set<Wanted>();
  const telling = inOrder.filter(({ shows }) => {
    const tells = [...shows].some((one) => !formatNamedAddress.has(one));
    for (const one of shows) formatNamedAddress.add(one);
    return tells;
  });
  const chosen = new Set([...new Set([...telling, ...inOrder])].slice(0, MOST));
  return inOrder.filter((fragment) => chosen.has(fragment)).map(({ shows: _, ...highlight }) => highlight);
}

const highlightOrder = ({ field }: Highlight): number => HIGHLIGHT_FIELDS.indexOf(field);

/** For each condition the first value that matches. */
function findValueFragments(
  field: HighlightField,
  values: readonly string[],
  wanted: readonly Wanted[],
  work: Work,
): Fragment[] {
  return gather(values, wanted, work, (value, left) => {
    const read = prepareSearchableText(value);
    return firstDefined(left, (one) => fragmentIn(field, read, one, wanted, work, true));
  });
}

/** Fragments of the items that show a further condition, up to MOST. */
function gather<T>(
  items: readonly T[],
  wanted: readonly Wanted[],
  work: Work,
  findFragment: (item: T, left: readonly Wanted[]) => Fragment | undefined,
): Fragment[] {
  const fragments: Fragment[] = [];
  let left = wanted;
  for (const item of items) {
    if (left.length === 0 || fragments.length === MOST || work.left <= 0) break;
    const fragment = findFragment(item, left);
    if (!fragment) continue;
    fragments.push(fragment);
    left = left.filter((one) => !fragment.shows.has(one));
  }
  return fragments;
}

/** The first defined result for any item. */
function firstDefined<T, R>(items: readonly T[], give: (item: T) => R | undefined): R | undefined {
  for (const item of items) {
    const given = give(item);
    if (given !== undefined) return given;
  }
  return undefined;
}

/**
 * Fragments of the body, one for each condition not shown yet. Conditions `seen` in another field are searched only
 * cheaply.
 */
function textFragments(text: string, wanted: readonly Wanted[], seen: ReadonlySet<Wanted>, work: Work): Fragment[] {
  if (wanted.length === 0) return [];
  const read = prepareSearchableText(text);
  return gather(wanted, wanted, work, (one, left) =>
    left.includes(one) ? fragmentIn("text", read, one, wanted, work, !seen.has(one)) : undefined,
  );
}

/** The position in `value` where `one` is first found, with all matches beside it. */
function fragmentIn(
  field: HighlightField,
  value: Readable,
  one: Wanted,
  all: readonly Wanted[],
  work: Work,
  thorough: boolean,
): Fragment | undefined {
  const occurrence = findOccurrence(one, value, work, thorough);
  if (!occurrence) return undefined;
  const { text } = value;
  const { tokens, at } = occurrence;
  const cut = windowAround(text, tokens, tokens[at]?.start ?? 0);
  const shows = new Set<Wanted>();
  const ranges: Range[] = [];
  for (const other of all) {
    for (const range of findTokenRanges(tokens, other)) {
      if (range[0] >= cut.end || range[0] < cut.start) continue;
      ranges.push([range[0], Math.min(range[1], cut.end)]);
      shows.add(other);
    }
  }
  return { field, ...cutHighlightSnippet(text, cut, ranges), shows };
}

/** The distinct ranges in which a run of tokens matches. */
function findTokenRanges(tokens: readonly TokenPosition[], { tokens: sought, address }: Wanted): Range[] {
  const ranges: Range[] = [];
  // An address matches only as a whole.
  if (address !== undefined) return ranges;
  for (let at = 0; at + sought.length <= tokens.length; at++) {
    if (!isRunAt(tokens, at, sought)) continue;
    const [first, last] = [tokens[at], tokens[at + sought.length - 1]];
    if (first && last) ranges.push([first.start, last.end]);
    at += sought.length - 1;
  }
  return ranges;
}

/** The part of a text around `start`, the beginning of a token, that a snippet shows; cut between tokens. */
function windowAround(text: string, tokens: readonly TokenPosition[], start: number): { start: number; end: number } {
  if (text.length <= LONGEST_SNIPPET) return { start: 0, end: text.length };
  const first = start <= LEAD ? 0 : (tokens.find((token) => token.start >= start - LEAD)?.start ?? start);
  if (text.length - first <= LONGEST_CUT) return { start: first, end: text.length };
  const last = tokens.findLast(({ end }) => end > start && end <= first + LONGEST_CUT);
  return { start: first, end: last?.end ?? toCharacterBoundary(text, first + LONGEST_CUT) };
}

/** Invisible characters that separate tokens; toVisibleText removes the other invisible ones. */
const UNSEEN_BREAK = /[\p{Cc}\ufff9-\ufffb\p{Noncharacter_Code_Point}]/gu;

const onOneLine = (text: string): string =>
  toVisibleText(text.replace(UNSEEN_BREAK, " ")).replace(/[\s\u2800]+/gu, " ");

/** The piece of a text on one line, with the ranges moved to match. */
function cutHighlightSnippet(text: string, { start, end }: { start: number; end: number }, found: readonly Range[]) {
  const ranges: Range[] = [];
  let snippet = start > 0 ? "…" : "";
  let at = start;
  for (const [from, to] of joined(found)) {
    const before = onOneLine(text.slice(at, from));
    snippet += snippet === "" ? before.trimStart() : before;
    const begin = snippet.length;
    snippet += onOneLine(text.slice(from, to));
    ranges.push([begin, snippet.length]);
    at = to;
  }
  snippet = (snippet + onOneLine(text.slice(at, end))).trimEnd();
  return { snippet: end < text.length ? `${snippet}…` : snippet, ranges };
}

/** Ascending, with overlapping or adjacent ranges merged. */
function joined(ranges: readonly Range[]): Range[] {
  const result: Range[] = [];
  for (const [start, end] of ranges.toSorted((a, b) => a[0] - b[0])) {
    const last = result.at(-1);
    if (last && start <= last[1]) last[1] = Math.max(last[1], end);
    else result.push([start, end]);
  }
  return result;
}

/** Addresses are shown as `Name <local@domain>`, with the domain in the form that matched. */
function addressFragments(
  field: "from" | "to" | "cc",
  addresses: readonly EmailAddress[],
  wanted: readonly Wanted[],
  work: Work,
): Fragment[] {
  if (wanted.length === 0) return [];
  return gather(addresses.slice(0, MOST_ENTRIES), wanted, work, (address, left) => {
    work.left -= COST_OF_AN_ENTRY + address.email.length + (address.name?.length ?? 0);
    if (lacks(address, left)) return undefined;
    const entry = prepareAddressEntry(address);
    return firstDefined(left, (one) => addressFragment(field, entry, one, wanted, work));
  });
}

/** Addresses and names that have only one spelling, which is the one in the index. */
const PLAIN_EMAIL = /^[!-~]+@(?:[a-z0-9-]+\.)*[a-z]+$/i;
const PLAIN_NAME = /^[ -~]*$/;

/** True if a cheap test shows that an address contains no match. It does for most addresses of a page. */
function lacks({ email, name = "" }: EmailAddress, wanted: readonly Wanted[]): boolean {
  if (!PLAIN_EMAIL.test(email) || !PLAIN_NAME.test(name)) return false;
  const lower = `${name} ${email}`.toLowerCase();
  if (lower.includes("xn--")) return false;
  return wanted.every(
    ({ address, spellings }) => address === undefined && !spellings.some((one) => lower.includes(one)),
  );
}

/**
 * An address prepared for matching and display. This part is independent of the query, and costs more than the
 * matching.
 */
interface Entry {
  email: string;
  formatNamedAddress: string;
  /** The token of the whole address. */
  address: string | undefined;
  /** Shown with the domain in each of its forms. */
  forms: readonly Readable[];
  /** Text as the index stores it. */
  folded(): string;
}

function prepareAddressEntry({ email: full, name = "" }: EmailAddress): Entry {
  const email = full.slice(0, LONGEST_ENTRY);
  const formatNamedAddress = (written: string): string =>
    name === "" ? written : `${name.slice(0, LONGEST_ENTRY)} <${written}>`;
  let folded: string | undefined;
  return {
    email,
    formatNamedAddress: formatNamedAddress(email),
    address: foldAddress(full),
    forms: listAddressForms(email).map((form) => prepareSearchableText(formatNamedAddress(form))),
    folded() {
      folded ??= ` ${foldAddresses([{ email, name }])} `;
      return folded;
    },
  };
}

function addressFragment(
  field: "from" | "to" | "cc",
  { email, formatNamedAddress, address, forms, folded }: Entry,
  one: Wanted,
  all: readonly Wanted[],
  work: Work,
): Fragment | undefined {
  if (one.address !== undefined) {
    return one.address === address
      ? { field, ...wholeEntry(formatNamedAddress, email), shows: new Set([one]) }
      : undefined;
  }
  const found = firstDefined(forms, (form) => fragmentIn(field, form, one, all, work, true));
  if (found || one.tokens.length === 1) return found;
  // A phrase may span two forms of the domain, which no single spelling shows.
  if (!folded().includes(` ${one.tokens.join(" ")} `)) return undefined;
  return { field, ...wholeEntry(formatNamedAddress, formatNamedAddress), shows: new Set([one]) };
}

/** An entry with one part marked, as far as it fits. */
function wholeEntry(entry: string, part: string) {
  const start = entry.lastIndexOf(part);
  if (entry.length <= LONGEST_SNIPPET) {
    return cutHighlightSnippet(entry, { start: 0, end: entry.length }, [[start, start + part.length]]);
  }
  const first = toCharacterBoundary(entry, Math.max(0, Math.min(start - LEAD, entry.length - LONGEST_CUT)));
  const end = toCharacterBoundary(entry, Math.min(entry.length, first + LONGEST_CUT));
  return cutHighlightSnippet(entry, { start: first, end }, [[start, Math.min(start + part.length, end)]]);
}

/** The spellings of an address: as stored, and the other form of an internationalised domain. */
function listAddressForms(email: string): string[] {
  const at = email.lastIndexOf("@");
  if (!/[^\0-\x7f]|xn--/i.test(email.slice(at + 1))) return [email];
  const { ascii, unicode } = domainForms(email.slice(at + 1));
  return [...new Set([email, email.slice(0, at + 1) + unicode, email.slice(0, at + 1) + ascii])];
}
