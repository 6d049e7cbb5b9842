/**
 * Reads commands (RFC 9051 §9; RFC 3501 §9 where that takes more). Pure: a command comes whole, with its literals beside
 * it, since lines.ts reads those from the connection and bounds them.
 *
 * Invariant: whatever the octets are, a command is read in linear time, or refused by `Malformed`.
 */

import { isUtf8 } from "node:buffer";
import { formatImapString as quotedOctets, type Section } from "../message/imap-data.ts";

/** A command that is not of the grammar; the reply is BAD. */
export class Malformed extends Error {
  override readonly name = "Malformed";
}

/** A command as it came: latin1, without its last CRLF. A literal stands in it as `{n}`, at that index. */
export interface Command {
  text: string;
  literals: ReadonlyMap<number, Uint8Array>;
}

/** Ranges of numbers, ascending, none within or beside another; `*` is Infinity. */
export type SequenceSet = readonly (readonly [from: number, to: number])[];

/** `$`: the messages that the last search saved (RFC 9051 §6.4.4.1). It equals no other set. */
export const SAVED: SequenceSet = [];

export type FetchItem =
  | { item: "FLAGS" | "INTERNALDATE" | "RFC822.SIZE" | "ENVELOPE" | "BODY" | "BODYSTRUCTURE" | "UID" }
  | { item: "MODSEQ" | "EMAILID" | "THREADID" }
  | {
      item: "SECTION";
      /** Name of the section in the reply, without the origin. */
      name: string;
      section: Section;
      /** Reading it marks the message as seen. */
      peek: boolean;
      partial?: readonly [offset: number, count: number];
      /** Decoded (RFC 3516). */
      binary?: true;
    }
  | { item: "BINARY.SIZE"; part: readonly number[] };

export type SearchKey =
  | { key: "all" }
  | { key: "flag"; flag: string; set: boolean }
  | { key: "text"; field: "from" | "to" | "cc" | "bcc" | "subject" | "body" | "text"; text: string }
  | { key: "header"; name: string; text: string }
  /** Days in UTC, epoch ms. */
  | { key: "date"; of: "internal" | "sent"; relation: "before" | "on" | "since"; day: number }
  | { key: "within"; seconds: number; younger: boolean }
  | { key: "size"; relation: "larger" | "smaller"; bytes: number }
  | { key: "numbers"; uid: boolean; set: SequenceSet }
  | { key: "modseq"; modseq: number }
  | { key: "id"; of: "EMAILID" | "THREADID"; id: string }
  | { key: "not"; of: SearchKey }
  | { key: "or"; of: readonly [SearchKey, SearchKey] }
  | { key: "and"; of: readonly SearchKey[] };

/** Most ranges of a set, items of a list. */
const MOST_ITEMS = 10_000;
/** Most keys of a search, each of which looks through every text; and how deep they, and parts, may be nested. */
const MOST_KEYS = 250;
/** Characters of a text that is searched for, and of all of a search. */
const LONGEST_SEARCHED = 500;
const MOST_SEARCHED = 4_000;
/** Items of a FETCH, each of which may read the whole message. */
const MOST_FETCHED = 100;
const DEEPEST = 50;

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
// biome-ignore lint/suspicious/noControlCharactersInRegex: the grammar excludes them
const ATOM = /[^\x00-\x20\x7f-\xff(){%*"\\\]]+/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the grammar excludes them
const ASTRING = /[^\x00-\x20\x7f-\xff(){%*"\\]+/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the grammar excludes them
const LIST_MAILBOX = /[^\x00-\x20\x7f-\xff(){"\\]+/y;
const QUOTED = /"((?:[^"\\\r\n]|\\["\\])*)"/y;
const LITERAL = /~?\{(\d{1,10})[+]?\}/y;
// biome-ignore lint/suspicious/noControlCharactersInRegex: the grammar excludes them
const FLAG = /\\?[^\x00-\x20\x7f-\xff(){%*"\\\]]+/y;
const NUMBER = /\d{1,16}/y;
const SET = /(?:\d{1,10}|\*)(?::(?:\d{1,10}|\*))?(?:,(?:\d{1,10}|\*)(?::(?:\d{1,10}|\*))?)*/y;
const DATE = /"?(\d{1,2})-([A-Za-z]{3})-(\d{4})"?/y;
const DATE_TIME = /"([ \d]\d)-([A-Za-z]{3})-(\d{4}) (\d{2}):(\d{2}):(\d{2}) ([+-])(\d{2})(\d{2})"/y;
const SECTION_PART = /[1-9]\d{0,8}(?:\.[1-9]\d{0,8})*/y;
const SECTION_TEXT = /HEADER\.FIELDS\.NOT|HEADER\.FIELDS|HEADER|TEXT|MIME/iy;

/** Reads the parts of a command one after the other. Each method throws Malformed. */
export class Parser {
  #at = 0;
  #depth = 0;
  #keys = 0;
  #searched = 0;
  readonly #text: string;
  readonly #literals: ReadonlyMap<number, Uint8Array>;

  constructor({ text, literals }: Command) {
    this.#text = text;
    this.#literals = literals;
  }

  #match(pattern: RegExp): RegExpExecArray | undefined {
    pattern.lastIndex = this.#at;
    const found = pattern.exec(this.#text) ?? undefined;
    if (found) this.#at = pattern.lastIndex;
    return found;
  }

  #need(pattern: RegExp, what: string): RegExpExecArray {
    const found = this.#match(pattern);
    if (!found) throw new Malformed(`expected ${what}`);
    return found;
  }

  get atEnd(): boolean {
    return this.#at >= this.#text.length;
  }

  next(character: string): boolean {
    return this.#text[this.#at] === character;
  }

  /** Takes a text if it is next, in any case. */
  take(text: string): boolean {
    if (this.#text.slice(this.#at, this.#at + text.length).toLowerCase() !== text.toLowerCase()) return false;
    this.#at += text.length;
    return true;
  }

  expect(text: string): void {
    if (!this.take(text)) throw new Malformed(`expected ${JSON.stringify(text)}`);
  }

  space(): void {
    this.expect(" ");
  }

  end(): void {
    if (!this.atEnd) throw new Malformed("unexpected text at the end");
  }

  atom(): string {
    return this.#need(ATOM, "an atom")[0];
  }

  tag(): string {
    const tag = this.#need(ASTRING, "a tag")[0];
    if (tag.includes("+")) throw new Malformed("a tag has no +");
    return tag;
  }

  /** The octets of a string. */
  octets(): Uint8Array {
    const at = this.#at;
    if (this.#match(LITERAL)) {
      const literal = this.#literals.get(at);
      if (!literal) throw new Malformed("a literal without its octets");
      return literal;
    }
    const quoteImapText = Buffer.from((this.#need(QUOTED, "a string")[1] ?? "").replace(/\\(["\\])/g, "$1"), "latin1");
    // RFC 6855 §3; a literal may be of any octets.
    if (!isUtf8(quoteImapText)) throw new Malformed("expected UTF-8");
    return quoteImapText;
  }

  string(): string {
    return Buffer.from(this.octets()).toString("utf8");
  }

  astring(): string {
    if (this.next('"') || this.next("{") || this.next("~")) {
      if (!this.next("~") || this.#text[this.#at + 1] === "{") return this.string();
    }
    return this.#need(ASTRING, "a string or an atom")[0];
  }

  /** The name of a mailbox for LIST, with `%` and `*`. */
  pattern(): string {
    return this.next('"') || this.next("{") ? this.string() : this.#need(LIST_MAILBOX, "a mailbox name")[0];
  }

  number(): number {
    const number = Number(this.#need(NUMBER, "a number")[0]);
    if (!Number.isSafeInteger(number)) throw new Malformed("a number out of range");
    return number;
  }

  sequenceSet(): SequenceSet {
    if (this.take("$")) return SAVED;
    const parts = this.#need(SET, "a set of numbers")[0].split(",");
    if (parts.length > MOST_ITEMS) throw new Malformed("too many ranges");
    const read = (text: string): number => {
      const number = text === "*" ? Number.POSITIVE_INFINITY : Number(text);
      if (number === 0 || (number > 4_294_967_295 && text !== "*")) throw new Malformed("a number out of range");
      return number;
    };
    const ranges = parts.map((part): [number, number] => {
      const [from = "", to = from] = part.split(":");
      const [a, b] = [read(from), read(to)];
      return [Math.min(a, b), Math.max(a, b)];
    });
    // Whoever walks a set walks each number once.
    const merged: [from: number, to: number][] = [];
    for (const [from, to] of ranges.sort(([a], [b]) => (a < b ? -1 : Number(a > b)))) {
      const last = merged.at(-1);
      if (last && from <= last[1] + 1) last[1] = Math.max(last[1], to);
      else merged.push([from, to]);
    }
    return merged;
  }

  /** Items in parentheses, separated by spaces. */
  list<T>(item: () => T, { empty = false } = {}): T[] {
    this.expect("(");
    const items: T[] = [];
    if (empty && this.take(")")) return items;
    for (;;) {
      if (items.push(item()) > MOST_ITEMS) throw new Malformed("too many items");
      if (this.take(")")) return items;
      this.space();
    }
  }

  flag(): string {
    return this.#need(FLAG, "a flag")[0];
  }

  /** Reads flags in parentheses, or bare as RFC 3501 allows. */
  flags(): string[] {
    if (this.next("(")) return this.list(() => this.flag(), { empty: true });
    const flags = [this.flag()];
    while (this.take(" ")) flags.push(this.flag());
    return flags;
  }

  /** Epoch ms of the day in UTC. */
  date(): number {
    const [, day, month = "", year] = this.#need(DATE, "a date");
    return toDayMs(Number(year), month, Number(day));
  }

  /** Epoch ms. */
  dateTime(): number {
    const found = this.#need(DATE_TIME, "a date and time");
    const [, day, month = "", year, hours, minutes, seconds, sign, zoneHours, zoneMinutes] = found;
    const [h, m, s, zh, zm] = [hours, minutes, seconds, zoneHours, zoneMinutes].map(Number) as [
      number,
      number,
      number,
      number,
      number,
    ];
    if (h > 23 || m > 59 || s > 60 || zh > 23 || zm > 59) throw new Malformed("a time out of range");
    const zone = (sign === "-" ? -1 : 1) * (zh * 60 + zm);
    return toDayMs(Number(year), month, Number(day)) + ((h * 60 + m - zone) * 60 + s) * 1_000;
  }

  #section(): Section {
    this.expect("[");
    const part = this.#match(SECTION_PART)?.[0].split(".").map(Number) ?? [];
    if (part.length > DEEPEST) throw new Malformed("a part too deep");
    if (part.length > 0 && !this.take(".")) {
      this.expect("]");
      return { part };
    }
    const text = this.#match(SECTION_TEXT)?.[0].toUpperCase() as Section["text"];
    if (text === undefined && part.length > 0) throw new Malformed("expected a part of a part");
    if (text === "MIME" && part.length === 0) throw new Malformed("MIME is of a part");
    const hasFields = text?.startsWith("HEADER.FIELDS") === true;
    if (hasFields) this.space();
    const fields = hasFields ? this.list(() => this.astring()) : undefined;
    this.expect("]");
    return { part, ...(text && { text }), ...(fields && { fields }) };
  }

  #partial(): readonly [number, number] | undefined {
    if (!this.take("<")) return undefined;
    const offset = this.number();
    this.expect(".");
    const count = this.number();
    if (count === 0) throw new Malformed("a partial of nothing");
    this.expect(">");
    return [offset, count];
  }

  #part(): readonly number[] {
    this.expect("[");
    const part = this.#match(SECTION_PART)?.[0].split(".").map(Number) ?? [];
    this.expect("]");
    return part;
  }

  #fetchItem(): FetchItem {
    const start = this.#at;
    if (this.take("BINARY.SIZE")) return { item: "BINARY.SIZE", part: this.#part() };
    if (this.take("BINARY")) {
      const peek = this.take(".PEEK");
      const section = { part: this.#part() };
      const name = `BINARY[${section.part.join(".")}]`;
      const partial = this.#partial();
      return { item: "SECTION", name, section, peek, binary: true, ...(partial && { partial }) };
    }
    if (this.take("RFC822.SIZE")) return { item: "RFC822.SIZE" };
    if (this.take("RFC822.HEADER"))
      return { item: "SECTION", name: "RFC822.HEADER", section: { part: [], text: "HEADER" }, peek: true };
    if (this.take("RFC822.TEXT"))
      return { item: "SECTION", name: "RFC822.TEXT", section: { part: [], text: "TEXT" }, peek: false };
    if (this.take("RFC822")) return { item: "SECTION", name: "RFC822", section: { part: [] }, peek: false };
    if (this.take("BODYSTRUCTURE")) return { item: "BODYSTRUCTURE" };
    if (this.take("BODY")) {
      const peek = this.take(".PEEK");
      if (!this.next("[")) {
        if (peek) throw new Malformed("expected a section");
        return { item: "BODY" };
      }
      const section = this.#section();
      const partial = this.#partial();
      return {
        item: "SECTION",
        name: `BODY[${formatSectionName(section)}]`,
        section,
        peek,
        ...(partial && { partial }),
      };
    }
    const name = this.atom().toUpperCase();
    for (const item of ["FLAGS", "INTERNALDATE", "ENVELOPE", "UID", "MODSEQ", "EMAILID", "THREADID"] as const) {
      if (item === name) return { item };
    }
    throw new Malformed(`unknown item at ${start}`);
  }

  fetchItems(): FetchItem[] {
    if (this.next("(")) {
      const items = this.list(() => this.#fetchItem());
      if (items.length > MOST_FETCHED) throw new Malformed("too many items");
      return [...new Map(items.map((item) => [JSON.stringify(item), item])).values()];
    }
    if (this.take("ALL"))
      return [{ item: "FLAGS" }, { item: "INTERNALDATE" }, { item: "RFC822.SIZE" }, { item: "ENVELOPE" }];
    if (this.take("FAST")) return [{ item: "FLAGS" }, { item: "INTERNALDATE" }, { item: "RFC822.SIZE" }];
    if (this.take("FULL")) {
      return [
        { item: "FLAGS" },
        { item: "INTERNALDATE" },
        { item: "RFC822.SIZE" },
        { item: "ENVELOPE" },
        { item: "BODY" },
      ];
    }
    return [this.#fetchItem()];
  }

  /** Keys separated by spaces, to the end. */
  searchKeys(): SearchKey {
    const keys = [this.searchKey()];
    while (!this.atEnd) {
      this.space();
      keys.push(this.searchKey());
    }
    return { key: "and", of: keys };
  }

  /** @throws Malformed if it, or all of a search together, is longer than can be looked for in each text */
  #searchText(): string {
    const text = this.astring();
    this.#searched += text.length;
    if (text.length > LONGEST_SEARCHED || this.#searched > MOST_SEARCHED)
      throw new Malformed("too long a text to search for");
    return text;
  }

  searchKey(): SearchKey {
    if (++this.#depth > DEEPEST) throw new Malformed("keys nested too deep");
    if (++this.#keys > MOST_KEYS) throw new Malformed("too many keys");
    try {
      return this.#searchKey();
    } finally {
      this.#depth--;
    }
  }

  #searchKey(): SearchKey {
    if (this.next("(")) return { key: "and", of: this.list(() => this.searchKey()) };
    const character = this.#text[this.#at] ?? "";
    if (/[\d*$]/.test(character)) return { key: "numbers", uid: false, set: this.sequenceSet() };
    const name = this.atom().toUpperCase();
    const given = <T>(read: () => T): T => {
      this.space();
      return read();
    };
    const date = (of: "internal" | "sent", relation: "before" | "on" | "since"): SearchKey => ({
      key: "date",
      of,
      relation,
      day: given(() => this.date()),
    });
    const flag = (flag: string, set = true): SearchKey => ({ key: "flag", flag, set });
    const text = (field: Extract<SearchKey, { key: "text" }>["field"]): SearchKey => ({
      key: "text",
      field,
      text: given(() => this.#searchText()),
    });
    switch (name) {
      case "ALL":
        return { key: "all" };
      case "ANSWERED":
      case "DELETED":
      case "DRAFT":
      case "FLAGGED":
      case "SEEN":
        return flag(`\\${name}`);
      case "UNANSWERED":
      case "UNDELETED":
      case "UNDRAFT":
      case "UNFLAGGED":
      case "UNSEEN":
        return flag(`\\${name.slice(2)}`, false);
      // No session is told of a message as the first (RFC 9051 has no \Recent).
      case "NEW":
      case "RECENT":
        return { key: "not", of: { key: "all" } };
      case "OLD":
        return { key: "all" };
      case "KEYWORD":
        return flag(given(() => this.atom()));
      case "UNKEYWORD":
        return flag(
          given(() => this.atom()),
          false,
        );
      case "FROM":
      case "TO":
      case "CC":
      case "BCC":
      case "SUBJECT":
      case "BODY":
      case "TEXT":
        return text(name.toLowerCase() as "from");
      case "HEADER": {
        const header = given(() => this.astring());
        return { key: "header", name: header, text: given(() => this.#searchText()) };
      }
      case "BEFORE":
      case "ON":
      case "SINCE":
        return date("internal", name.toLowerCase() as "on");
      case "SENTBEFORE":
      case "SENTON":
      case "SENTSINCE":
        return date("sent", name.slice(4).toLowerCase() as "on");
      case "OLDER":
      case "YOUNGER":
        return { key: "within", seconds: given(() => this.number()), younger: name === "YOUNGER" };
      case "LARGER":
      case "SMALLER":
        return { key: "size", relation: name.toLowerCase() as "larger", bytes: given(() => this.number()) };
      case "UID":
        return { key: "numbers", uid: true, set: given(() => this.sequenceSet()) };
      case "MODSEQ": {
        this.space();
        // RFC 7162 §3.1.5: the flag that it may name makes no difference here.
        if (this.next('"')) {
          this.string();
          this.space();
          this.atom();
          this.space();
        }
        return { key: "modseq", modseq: this.number() };
      }
      case "EMAILID":
      case "THREADID":
        return { key: "id", of: name, id: given(() => this.atom()) };
      case "NOT":
        return { key: "not", of: given(() => this.searchKey()) };
      case "OR": {
        const first = given(() => this.searchKey());
        return { key: "or", of: [first, given(() => this.searchKey())] };
      }
      default:
        throw new Malformed(`unknown search key ${name}`);
    }
  }
}

/** Writes an atom where the text can be one: programs look for a section by the name that they asked for. */
function formatAstring(text: string): string {
  ATOM.lastIndex = 0;
  return ATOM.exec(text)?.[0] === text ? text : quoteImapText(text);
}

const formatSectionName = ({ part, text, fields }: Section): string =>
  [...part, ...(text ? [text] : [])].join(".") + (fields ? ` (${fields.map(formatAstring).join(" ")})` : "");

function toDayMs(year: number, month: string, day: number): number {
  const index = MONTHS.indexOf(month.toLowerCase());
  const at = Date.UTC(year, index, day);
  if (index < 0 || new Date(at).getUTCDate() !== day) throw new Malformed("no such day");
  return at;
}

/* What replies are made of. */

/** A string, as latin1. */
export const quoteImapText = (text: string): string => quotedOctets(Buffer.from(text, "utf8").toString("latin1"));

/** True if a set has the number. */
export function isInSequenceSet(set: SequenceSet, number: number): boolean {
  let [low, high] = [0, set.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((set[middle] as SequenceSet[number])[1] < number) low = middle + 1;
    else high = middle;
  }
  const range = set[low];
  return range !== undefined && range[0] <= number;
}

/** The shortest set of ascending numbers. */
export function formatSequenceSet(numbers: readonly number[]): string {
  const ranges: string[] = [];
  for (let i = 0; i < numbers.length; ) {
    const from = numbers[i] as number;
    let to = from;
    while (numbers[++i] === to + 1) to++;
    ranges.push(to === from ? `${from}` : `${from}:${to}`);
  }
  return ranges.join(",");
}

/** ` 5-Jan-2026 08:00:00 +0000`, quoted. */
export function formatImapDateTime(ms: number): string {
  const date = new Date(ms);
  const month = (MONTHS[date.getUTCMonth()] as string).replace(/^./, (letter) => letter.toUpperCase());
  const day = String(date.getUTCDate()).padStart(2, " ");
  return `"${day}-${month}-${date.getUTCFullYear()} ${date.toISOString().slice(11, 19)} +0000"`;
}

/* Modified UTF-7 (RFC 3501 §5.1.3), for names of mailboxes and for labels that are no atoms. */

/** `plain`: the characters that stand for themselves. */
export const encodeUtf7 = (text: string, plain = /[ -%'-~]/): string =>
  text.replace(new RegExp(`(?:(?!${plain.source})[^])+`, "g"), (run) =>
    run === "&"
      ? "&-"
      : `&${Buffer.from(run, "utf16le").swap16().toString("base64").replace(/=+$/, "").replaceAll("/", ",")}-`,
  );

/** Leaves what is no modified UTF-7 as it is, so that names in UTF-8 are read, too. */
export const decodeUtf7 = (name: string): string =>
  name.replace(/&([A-Za-z0-9+,]*)-/g, (_, encoded: string) => {
    if (encoded === "") return "&";
    const octets = Buffer.from(encoded.replaceAll(",", "/"), "base64");
    return octets
      .subarray(0, octets.length & ~1)
      .swap16()
      .toString("utf16le");
  });

// biome-ignore lint/complexity/useRegexLiterals: a class of characters without & ( ) { % * " \ ] and space
const KEYWORD_CHARACTER = new RegExp("[!#$'+-Z[^-z|}~]");
/** Keywords of programs, which are no labels. */
export const OF_PROGRAMS = /^(?:\$.*|junk|nonjunk|notjunk|junkrecorded|receiptchecked)$/i;

/** A label as a keyword: as it is where it is an atom, and no program has that keyword for itself. */
export const labelToKeyword = (label: string): string =>
  OF_PROGRAMS.test(label)
    ? encodeUtf7(label.slice(0, 1), /(?!)/) + encodeUtf7(label.slice(1), KEYWORD_CHARACTER)
    : encodeUtf7(label, KEYWORD_CHARACTER);
export const keywordToLabel = (keyword: string): string => decodeUtf7(keyword);
