/**
 * Looks through messages of a folder for what a search asks for: the least that may decide first. Text is found in any case, in what
 * the mailbox stores of a message. A reader does it, but for what has to be composed.
 *
 * Invariant: what is looked through at once is bounded, and so is the time that a reader takes for an inquiry.
 */
import { type Static, t } from "../../base/json-schema.ts";
import { letOthersRun } from "../../base/pause.ts";
import { isAscii } from "../../message/characters.ts";
import { decodeWords, readHeaders } from "../../message/headers.ts";
import { isStoredField } from "../../message/parse.ts";
import { toThreadSeq } from "../../search/document-number.ts";
import type { Folder } from "../../store/schema.ts";
import type { Asker, Inquiry, MailReader, Readers } from "../state/readers.ts";
import {
  type DatesRow,
  type EnvelopeRow,
  findFlagged,
  findLabelledThreads,
  findLongMessages,
  findUnread,
  readMessageBodies,
  readMessageDates,
  readMessageEnvelopes,
  readMessageHeaders as readStoredHeaders,
} from "./folder-search.ts";
import type { Octets } from "./octets.ts";

const DAY_MS = 86_400_000;
/** Largest difference of a time zone from UTC. */
const ZONES_MS = 15 * 3_600_000;
/** Messages that are looked at at once. */
const PORTION = 500;
/** Characters that are read for an inquiry, for so many texts, with so many for each message: half a second, and once more at most. */
const MOST_OF_AN_INQUIRY = 20_000_000;
const CHARACTERS_OF_A_MESSAGE = 200;
/** Characters of texts that are read without a pause, and looked through for so many texts: some 10 ms. */
const MOST_AT_ONCE = 500_000;
const TEXTS_AT_ONCE = 8;

/** Messages whose headers are composed without a pause. */
const COMPOSED_AT_ONCE = 20;

/** Parts of a message that a search looks at, in this order. */
const STAGES = ["dates", "size", "envelope", "headers", "composed", "body"] as const;
type Stage = (typeof STAGES)[number];

const ENVELOPE = ["subject", "from", "to", "cc", "bcc"] as const;
type Field = (typeof ENVELOPE)[number];

const folded = (text: string): string => (isAscii(text) ? text : text.normalize("NFKC")).toLowerCase();

/** A text that a search looks for. */
class Wanted {
  /** Folded. */
  readonly text: string;
  /** A part of it that JSON has as it is, and that stands within one name, address or value. */
  readonly core: string;

  constructor(text: string) {
    this.text = folded(text);
    const parts = this.text.split(/[\s\p{Cc}"\\<>:,]+/u);
    this.core = parts.reduce((longest, part) => (part.length > longest.length ? part : longest));
  }
}

/** How an encoded word begins (RFC 2047). */
const ENCODED = "=?";

/** JSON, which is read only if it may have what is looked for; that takes a fraction of the time. */
class Written<T> {
  readonly #json: string;
  #folded: string | undefined;
  #value: T | undefined;

  constructor(
    json: string,
    readonly read: (json: string) => T,
  ) {
    this.#json = json;
  }

  get value(): T {
    this.#value ??= this.read(this.#json);
    return this.#value;
  }

  mayHave({ core }: Wanted): boolean {
    this.#folded ??= folded(this.#json);
    return this.#folded.includes(core) || this.#folded.includes(ENCODED);
  }
}

interface Header {
  /** Name of the field in lower case. */
  name: string;
  /** Folded. */
  value: string;
}

const makeFoldedHeader = (name: string, value: string): Header => ({
  name: name.toLowerCase(),
  value: folded(decodeWords(value)),
});

const headersIn = (json: string): Header[] =>
  (JSON.parse(json) as [string, string][]).map(([name, value]) => makeFoldedHeader(name, value));

const peopleIn = (json: string): string =>
  folded(
    ([JSON.parse(json)].flat() as { email?: string; name?: string }[])
      .map(({ email = "", name = "" }) => `${name} <${email}>`)
      .join(", "),
  );

/** Subject and people of a message, made once for all keys of a search. */
class Envelope {
  readonly #row: EnvelopeRow;
  #subject: string | undefined;
  readonly #people: Partial<Record<Field, Written<string>>> = {};

  constructor(row: EnvelopeRow) {
    this.#row = row;
  }

  get hasBcc(): boolean {
    return this.#row.bcc !== "[]";
  }

  has(field: Field, wanted: Wanted): boolean {
    if (field === "subject") {
      this.#subject ??= folded(this.#row.subject);
      return this.#subject.includes(wanted.text);
    }
    const people = this.#people[field] ?? new Written(this.#row[field], peopleIn);
    this.#people[field] = people;
    return people.mayHave(wanted) && people.value.includes(wanted.text);
  }
}

/** A message, and what has been looked at of it, by stage. */
class Looked implements Partial<Record<Stage, unknown>> {
  dates: DatesRow | undefined;
  size: number | undefined;
  envelope: Envelope | undefined;
  headers: Written<Header[]> | undefined;
  /** The header as it is served. */
  composed: readonly Header[] | undefined;
  /** Folded. */
  body: string | undefined;
  isFound: boolean | undefined;

  /** Nothing is left to look at. */
  isDone = false;

  constructor(
    readonly seq: number,
    readonly index: number,
  ) {}
}

/** Undefined if what has been looked at does not decide. */
type Matcher = (message: Looked) => boolean | undefined;

const not =
  (matches: Matcher): Matcher =>
  (message) => {
    const is = matches(message);
    return is === undefined ? undefined : !is;
  };

/** `decisive`: what one of them says decides for all. */
const together =
  (matchers: readonly Matcher[], decisive: boolean): Matcher =>
  (message) => {
    let is: boolean | undefined = !decisive;
    for (const matches of matchers) {
      const one = matches(message);
      if (one === decisive) return decisive;
      if (one === undefined) is = undefined;
    }
    return is;
  };

/** Messages of a list, a bit each by their index. */
export type Marks = Uint32Array<ArrayBuffer>;

export const createMarks = (count: number): Marks => new Uint32Array((count >>> 5) + 1);
export const setMark = (marks: Marks, index: number): void => {
  marks[index >>> 5] = (marks[index >>> 5] ?? 0) | (1 << (index & 31));
};
export const hasMark = (marks: Marks | undefined, index: number): boolean =>
  ((marks?.[index >>> 5] ?? 0) & (1 << (index & 31))) !== 0;

/** A key of a search whose sets of messages are known, each by the place of its marks. */
export type MessageKey =
  | { key: "all" | "draft" }
  | { key: "marks"; at: number }
  | { key: "envelope"; field: Field; text: string }
  /** In the envelope or in any field of the header. */
  | { key: "anywhere"; text: string }
  /** `index`: what the search index knows; without it, each message is looked at. */
  | { key: "body"; text: string; index?: { known: number; long: number; isWord: boolean } }
  | { key: "header"; name: string; text: string }
  | { key: "date"; of: "internal" | "sent"; relation: "before" | "on" | "since"; day: number }
  | { key: "within"; seconds: number; younger: boolean }
  | { key: "size"; relation: "larger" | "smaller"; bytes: number }
  | { key: "not"; of: MessageKey }
  | { key: "or" | "and"; of: readonly MessageKey[] };

/** Makes the matcher of a key, and tells what it may have to look at. */
class Plan {
  readonly stages = new Set<Stage>();
  /** Number of the texts that are looked for. */
  texts = 0;

  constructor(
    readonly marks: readonly Marks[],
    readonly now: number,
  ) {}

  buildMatcher(key: MessageKey): Matcher {
    const { marks, now } = this;
    switch (key.key) {
      case "all":
        return () => true;
      case "marks": {
        const these = marks[key.at];
        return ({ index }) => hasMark(these, index);
      }
      case "draft":
        this.stages.add("dates");
        return ({ dates }) => dates && dates.isDraft === 1;
      case "and":
        return this.#together(key.of, false);
      case "or":
        return this.#together(key.of, true);
      case "not":
        return not(this.buildMatcher(key.of));
      case "within": {
        this.stages.add("dates");
        // In seconds; what is just that old is of both (RFC 5032 §2).
        const target = Math.floor(now / 1_000) - key.seconds;
        const holds = (at: number): boolean => (key.younger ? at >= target : at <= target);
        return ({ dates }) => dates && holds(Math.floor(dates.filedAt / 1_000));
      }
      case "size":
        this.stages.add("size");
        return ({ size }) =>
          size === undefined ? undefined : key.relation === "larger" ? size > key.bytes : size < key.bytes;
      case "date":
        return this.#date(key);
      case "header":
        this.texts++;
        return this.#header(key.name.toLowerCase(), new Wanted(key.text));
      case "envelope": {
        this.texts++;
        this.stages.add("envelope");
        const wanted = new Wanted(key.text);
        return ({ envelope }) => envelope?.has(key.field, wanted);
      }
      case "anywhere":
        this.texts++;
        return this.#anywhere(new Wanted(key.text));
      case "body":
        this.texts++;
        return this.#body(key);
    }
  }

  #together(keys: readonly MessageKey[], decisive: boolean): Matcher {
    const matchers = keys.map((key) => this.buildMatcher(key));
    const [only, ...others] = matchers;
    return only && others.length === 0 ? only : together(matchers, decisive);
  }

  #date({ of, relation, day }: Extract<MessageKey, { key: "date" }>): Matcher {
    this.stages.add("dates");
    const holds = (at: number): boolean =>
      relation === "before" ? at < day : at >= day && (relation === "since" || at < day + DAY_MS);
    if (of === "internal") return ({ dates }) => dates && holds(dates.filedAt);
    this.stages.add("headers");
    return (message) => {
      if (!message.dates) return undefined;
      const { date } = message.dates;
      const [least, most] = [holds(date - ZONES_MS), holds(date + ZONES_MS)];
      if (least === most && holds(date) === least) return least;
      // The day is that of the sender's clock (RFC 9051 §6.4.4).
      const { headers } = message;
      return headers && holds(date + readZoneOffset(headers.value.find(({ name }) => name === "date")?.value));
    };
  }

  #header(name: string, wanted: Wanted): Matcher {
    if (name === "bcc") {
      this.stages.add("envelope");
      return ({ envelope }) => envelope?.hasBcc && envelope.has("bcc", wanted);
    }
    const isIn = (fields: readonly Header[]): boolean =>
      fields.some((field) => field.name === name && field.value.includes(wanted.text));
    if (!isStoredField(name)) {
      this.stages.add("composed");
      return ({ composed }) => composed && isIn(composed);
    }
    this.stages.add("headers");
    return ({ headers }) => headers?.mayHave(wanted) && isIn(headers.value);
  }

  #anywhere(wanted: Wanted): Matcher {
    this.stages.add("envelope");
    this.stages.add("headers");
    const inEnvelope: Matcher = ({ envelope }) => envelope && ENVELOPE.some((one) => envelope.has(one, wanted));
    const inHeader: Matcher = ({ headers }) =>
      headers?.mayHave(wanted) && headers.value.some(({ name, value }) => `${name}: ${value}`.includes(wanted.text));
    return together([inEnvelope, inHeader], true);
  }

  /** Looks at messages that the index does not know whole, and at those that may have a text that is longer than a word. */
  #body({ text, index }: Extract<MessageKey, { key: "body" }>): Matcher {
    const wanted = new Wanted(text);
    if (wanted.text === "") return () => true;
    this.stages.add("body");
    const isInBody: Matcher = ({ body }) => body?.includes(wanted.text);
    if (!index) return isInBody;
    const [known, long] = [this.marks[index.known], this.marks[index.long]];
    return (message) => {
      if (hasMark(known, message.index)) return index.isWord || isInBody(message);
      return hasMark(long, message.index) ? isInBody(message) : false;
    };
  }
}

/** The zone of a Date field, ms. */
function readZoneOffset(date = ""): number {
  const [, sign, hours, minutes] = /([+-])(\d\d)(\d\d)(?:\s*\([^()]*\))?\s*$/.exec(date) ?? [];
  return (sign === "-" ? -1 : 1) * (Number(hours ?? 0) * 60 + Number(minutes ?? 0)) * 60_000;
}

/** How messages are looked at. `octets`: without them, what has to be composed stays open. */
interface Looking {
  reader: MailReader;
  octets: Pick<Octets, "known" | "findMessageSize" | "header"> | undefined;
  /** Person who sees them. */
  userId: string;
  /** Characters that are read at once. */
  characters: number;
}

/** Looks at the first of the messages, at least one, of so many characters, and returns them. Of what is gone there is nothing to see. */
async function lookAt(
  stage: Stage,
  messages: readonly Looked[],
  { reader, octets, userId, characters }: Looking,
): Promise<readonly Looked[]> {
  const seqs = messages.map(({ seq }) => seq);
  /** Rows come in the order of the messages. Returns how many messages they are of, with those that are gone. */
  function each<T extends { seq: number }>(rows: readonly T[], set: (message: Looked, row: T) => void): number {
    let at = 0;
    for (const row of rows) {
      while (at < seqs.length && seqs[at] !== row.seq) at++;
      set(messages[at++] as Looked, row);
    }
    return at;
  }
  /** The first of the messages, at least one. */
  const first = (count: number): readonly Looked[] => messages.slice(0, Math.max(1, count));
  switch (stage) {
    case "dates":
      each(readMessageDates(reader, seqs), (message, row) => {
        message.dates = row;
      });
      return messages;
    case "size": {
      if (!octets) return messages;
      const known = await octets.known(seqs, userId, "sizes");
      for (const message of messages) {
        const { seq } = message;
        message.size = known.get(seq)?.size ?? (await octets.findMessageSize(seq, userId)) ?? 0;
      }
      return messages;
    }
    case "envelope":
      return first(
        each(readMessageEnvelopes(reader, seqs, userId, characters), (message, row) => {
          message.envelope = new Envelope(row);
        }),
      );
    case "headers":
      return first(
        each(readStoredHeaders(reader, seqs, characters), (message, { headers }) => {
          message.headers = new Written(headers, headersIn);
        }),
      );
    case "composed": {
      if (!octets) return messages;
      const some = first(COMPOSED_AT_ONCE);
      for (const message of some) {
        const header = await octets.header(message.seq, userId);
        message.composed = header && readHeaders(header).fields.map(({ name, value }) => makeFoldedHeader(name, value));
      }
      return some;
    }
    case "body":
      return first(
        each(readMessageBodies(reader, seqs, characters), (message, { text }) => {
          message.body = folded(text);
        }),
      );
  }
}

/** Messages to look through, by messages.seq, with marks by their index. */
export interface MessageSearch {
  key: MessageKey;
  marks: readonly Marks[];
  seqs: readonly number[] | Float64Array;
  userId: string;
}

/** Marks of messages after a look through them, by their index. */
export interface SearchOutcome {
  found: Marks;
  /** Whatever decides has to be composed. */
  open: Marks;
  /** Too many characters were read before: they were not looked through. */
  rest: Marks;
}

/** Makes the function that tells whether a message is found, by its index; undefined unless its marks decide that alone. */
export function decideByMarks({
  key,
  marks,
}: Pick<MessageSearch, "key" | "marks">): (index: number) => boolean | undefined {
  const matches = new Plan(marks, 0).buildMatcher(key);
  return (index) => matches(new Looked(0, index));
}

/** Looks through messages until all are decided or so many characters were read; the first of them always. */
export async function lookThrough(
  reader: MailReader,
  { key, marks, seqs, userId }: MessageSearch,
  { octets, most = Number.POSITIVE_INFINITY }: { octets?: Looking["octets"]; most?: number } = {},
): Promise<SearchOutcome> {
  const plan = new Plan(marks, reader.now());
  const matches = plan.buildMatcher(key);
  const stages = STAGES.filter((stage) => plan.stages.has(stage));
  const load = Math.max(1, plan.texts / TEXTS_AT_ONCE);
  const looking: Looking = { reader, octets, userId, characters: MOST_AT_ONCE / load };
  const [found, open, rest] = [createMarks(seqs.length), createMarks(seqs.length), createMarks(seqs.length)];
  let left = most / load;

  const decide = (some: readonly Looked[]): void => {
    for (const message of some) message.isFound = matches(message);
  };

  /** Looks at those of the messages that are open, some at once through all stages, so that little is in memory. */
  async function evaluate(some: readonly Looked[], [stage, ...later]: readonly Stage[]): Promise<void> {
    let undecided = some.filter(({ isFound }) => isFound === undefined);
    if (stage === undefined) for (const message of undecided) message.isDone = true;
    while (stage !== undefined && undecided.length > 0) {
      const looked = await lookAt(stage, undecided, looking);
      for (const { body } of looked) left -= CHARACTERS_OF_A_MESSAGE + (body?.length ?? 0);
      decide(looked);
      await evaluate(looked, later);
      for (const message of looked) message[stage] = undefined;
      undecided = undecided.slice(looked.length);
      if (left <= 0) return;
      await letOthersRun();
    }
  }

  for (let next = 0; next < seqs.length; next += PORTION) {
    const indexes = Array.from({ length: Math.min(PORTION, seqs.length - next) }, (_, i) => next + i);
    const portion = indexes.map((index) => new Looked(seqs[index] as number, index));
    if (left > 0) {
      decide(portion);
      await evaluate(portion, stages);
    }
    for (const { index, isFound, isDone } of portion) {
      if (isFound) setMark(found, index);
      else if (isFound === undefined) setMark(isDone ? open : rest, index);
    }
    await letOthersRun();
  }
  return { found, open, rest };
}

/* Inquiries. Numbers and marks go as bytes. */

const packNumbers = (numbers: Iterable<number>): Uint8Array => new Uint8Array(Float64Array.from(numbers).buffer);
const unpackNumbers = (bytes: Uint8Array): Float64Array => new Float64Array(bytes.slice().buffer);
const packMarks = (marks: Marks): Uint8Array => new Uint8Array(marks.buffer);
const unpackMarks = (bytes: Uint8Array): Marks => new Uint32Array(bytes.slice().buffer);

interface PackedSearch extends Pick<MessageSearch, "key" | "userId"> {
  marks: readonly Uint8Array[];
  seqs: Uint8Array;
}

const PackedOutcome = t.Object({ found: t.Uint8Array(), open: t.Uint8Array(), rest: t.Uint8Array() });

const messageSearch: Inquiry<PackedSearch, Static<typeof PackedOutcome>> = {
  name: "messageSearch",
  answer: PackedOutcome,
  async read(reader, { key, marks, seqs, userId }) {
    const search = { key, marks: marks.map(unpackMarks), seqs: unpackNumbers(seqs), userId };
    const { found, open, rest } = await lookThrough(reader, search, { most: MOST_OF_AN_INQUIRY });
    return { found: packMarks(found), open: packMarks(open), rest: packMarks(rest) };
  },
};

/** Has a reader look through messages, as far as an inquiry may. @throws as Readers.ask */
export async function askToLookThrough(
  { readers }: { readers: Readers },
  asker: Asker,
  { marks, seqs, ...search }: MessageSearch,
): Promise<SearchOutcome> {
  const packed = { ...search, marks: marks.map(packMarks), seqs: packNumbers(seqs) };
  const { found, open, rest } = await readers.ask(asker, messageSearch, packed);
  return { found: unpackMarks(found), open: unpackMarks(open), rest: unpackMarks(rest) };
}

/** Messages of a mailbox that have something in common. */
export type MessageSet =
  | { of: "unread" | "flagged" }
  /** Conversations (threads.seq). */
  | { of: "labelled"; label: string }
  /** Longer than the search index surely knows them. */
  | { of: "long"; folder?: Folder }
  /** Those that the search index finds. */
  | { of: "saying"; text: string };

/** `seqs`: packed; null if the index cannot tell. `isWord`: see InBodies. */
const PackedSet = t.Object({ seqs: t.Union([t.Uint8Array(), t.Null()]), isWord: t.Boolean() });

const messageSet: Inquiry<{ mailboxId: string; set: MessageSet }, Static<typeof PackedSet>> = {
  name: "messageSet",
  answer: PackedSet,
  async read(reader, { mailboxId, set }) {
    const plain = async (seqs: Iterable<number> | Promise<Iterable<number>>) => ({
      seqs: packNumbers(await seqs),
      isWord: false,
    });
    switch (set.of) {
      case "unread":
        return plain(findUnread(reader, mailboxId));
      case "flagged":
        return plain(findFlagged(reader, mailboxId));
      case "labelled":
        return plain(findLabelledThreads(reader, mailboxId, set.label));
      case "long":
        return plain(findLongMessages(reader, mailboxId, set.folder));
      case "saying": {
        const answer = reader.engine.inBodies(set.text, mailboxId);
        return { seqs: answer ? packNumbers(answer.messages) : null, isWord: answer?.isWord === true };
      }
    }
  },
};

/** A set of messages: whether it is empty, and whether it has the message (messages.seq). `isWord`: see InBodies. */
export interface FoundSet {
  isEmpty: boolean;
  isWord: boolean;
  has(seq: number): boolean;
}

/** Has a reader find messages of a mailbox; undefined if the search index cannot tell. @throws as Readers.ask */
export async function askForMessages(
  { readers }: { readers: Readers },
  asker: Asker,
  mailboxId: string,
  set: MessageSet,
): Promise<FoundSet | undefined> {
  const { seqs, isWord } = await readers.ask(asker, messageSet, { mailboxId, set });
  if (seqs === null) return undefined;
  const found = new Set(unpackNumbers(seqs));
  const has = set.of === "labelled" ? (seq: number) => found.has(toThreadSeq(seq)) : (seq: number) => found.has(seq);
  return { isEmpty: found.size === 0, isWord, has };
}

/** The inquiries of this file, for readers. */
export const MESSAGE_INQUIRIES = [messageSearch, messageSet];
