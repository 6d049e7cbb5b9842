/**
 * Finds the messages of the selected mailbox that a search asks for. Numbers, flags, ids and the words of the search index
 * decide about most without a look; what they leave open is looked at, the least that may decide first. Text is found in any
 * case, in what the mailbox stores of a message.
 */
import { letOthersRun } from "../base/pause.ts";
import {
  createLabelTest,
  createThreadTest,
  type DatesRow,
  type EnvelopeRow,
  findFlagged,
  findLongMessages,
  findMessageNumber,
  findUnread,
  readMessageBodies,
  readMessageDates,
  readMessageEnvelopes,
  readMessageHeaders as readStoredHeaders,
} from "../mailbox/imap/folder-search.ts";
import { BIT_OF, type Numbered } from "../mailbox/imap/uids.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { isAscii } from "../message/characters.ts";
import { decodeWords, readHeaders } from "../message/headers.ts";
import { isStoredField } from "../message/parse.ts";
import { isInSequenceSet, OF_PROGRAMS, SAVED, type SearchKey } from "./grammar.ts";
import type { Keywords } from "./keywords.ts";
import type { ImapSession } from "./session.ts";
import { listPresentRows, type View } from "./view.ts";

const DAY_MS = 86_400_000;
/** Largest difference of a time zone from UTC. */
const ZONES_MS = 15 * 3_600_000;
/** Messages that are looked at at once. */
const PORTION = 500;
/** Characters of texts that are read without a pause, and looked through for so many texts: some 10 ms. */
const MOST_AT_ONCE = 500_000;
const TEXTS_AT_ONCE = 8;

/** Messages whose headers are composed without a pause. */
const COMPOSED_AT_ONCE = 20;

export type Found = Numbered & { sequence: number };

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

  constructor(
    readonly row: Numbered,
    readonly sequence: number,
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

/** Bits by sequence number − 1. */
type Marks = Uint32Array<ArrayBuffer>;

const isMarked = (marks: Marks, { sequence }: Looked): boolean =>
  ((marks[(sequence - 1) >>> 5] ?? 0) & (1 << ((sequence - 1) & 31))) !== 0;

/** Marks by the rows of a view, of what gives the view other rows once it changes: a dozen kilobytes of 100,000 messages. */
const markCache = new WeakMap<readonly unknown[], Map<string, Marks>>();

function markCacheFor(rows: readonly unknown[]): Map<string, Marks> {
  const marks = markCache.get(rows) ?? new Map<string, Marks>();
  markCache.set(rows, marks);
  return marks;
}

/** Makes the matcher of a key, and tells what it may have to look at. */
class Plan {
  readonly stages = new Set<Stage>();
  /** Number of the texts that are looked for. */
  texts = 0;
  readonly #made = new Map<string, Marks>();

  constructor(
    readonly core: MailCore,
    readonly keywords: Keywords,
    readonly view: View,
    readonly rows: readonly (Numbered | undefined)[],
    readonly now: number,
  ) {}

  async buildSearchMatcher(key: SearchKey): Promise<Matcher> {
    const { core, view, now } = this;
    switch (key.key) {
      case "all":
        return () => true;
      case "and":
        return this.#together(key.of, false);
      case "or":
        return this.#together(key.of, true);
      case "not":
        return not(await this.buildSearchMatcher(key.of));
      case "flag": {
        const has = await this.#flag(key.flag);
        return key.set ? has : not(has);
      }
      case "numbers": {
        const { set, uid: byUid } = key;
        if (set === SAVED) return ({ row }) => view.saved.has(row.uid);
        const last = byUid ? view.rows.at(-1)?.uid : view.rows.length;
        const hasLast = set.at(-1)?.[1] === Number.POSITIVE_INFINITY;
        return ({ row, sequence }) => {
          const number = byUid ? row.uid : sequence;
          return isInSequenceSet(set, number) || (hasLast && number === last);
        };
      }
      case "modseq":
        return ({ row }) => row.modseq >= key.modseq;
      case "id": {
        if (key.of === "THREADID") {
          const isThreadMessage = createThreadTest(core, key.id);
          return ({ row }) => isThreadMessage(row.seq);
        }
        const named = findMessageNumber(core, key.id);
        return ({ row }) => row.seq === named;
      }
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
      case "text":
        this.texts++;
        return this.#text(key);
    }
  }

  async #together(keys: readonly SearchKey[], decisive: boolean): Promise<Matcher> {
    const matchers: Matcher[] = [];
    for (const key of keys) matchers.push(await this.buildSearchMatcher(key));
    const [only, ...others] = matchers;
    return only && others.length === 0 ? only : together(matchers, decisive);
  }

  /** A bit for each row: a search may ask for many sets. */
  async #marksOf(has: (seq: number) => boolean): Promise<Marks> {
    const marks = new Uint32Array((this.rows.length >>> 5) + 1);
    for (let i = 0; i < this.rows.length; i++) {
      const row = this.rows[i];
      if (row && has(row.seq)) marks[i >>> 5] = (marks[i >>> 5] ?? 0) | (1 << (i & 31));
    }
    await letOthersRun();
    return marks;
  }

  /** Makes the marks of a name once, for all keys of the search that ask for them. */
  async #once(name: string, make: () => Promise<Marks>, made = this.#made): Promise<Marks> {
    const marks = made.get(name) ?? (await make());
    made.set(name, marks);
    return marks;
  }

  async #flag(flag: string): Promise<Matcher> {
    const { core } = this;
    const { mailboxId } = this.view.folder;
    const name = flag.toLowerCase();
    const bit = BIT_OF.get(name);
    if (name === "\\draft") {
      this.stages.add("dates");
      return ({ dates }) => dates && dates.isDraft === 1;
    }
    if (OF_PROGRAMS.test(flag) && bit === undefined) return () => false;
    if (name !== "\\seen" && name !== "\\flagged" && bit === undefined) {
      const labelled = await this.#once(`label ${name}`, async () =>
        this.#marksOf(await createLabelTest(core, mailboxId, this.keywords.label(flag))),
      );
      return (message) => isMarked(labelled, message);
    }
    const isSeen = name === "\\seen";
    const read = isSeen ? findUnread : findFlagged;
    const mark = async (): Promise<Marks> => {
      const seqs = bit === undefined ? await read(core, mailboxId) : new Set(this.view.folder.flagged(bit));
      return this.#marksOf((seq) => seqs.has(seq) !== isSeen);
    };
    const marks = await this.#once(name, mark, markCacheFor(this.rows));
    return (message) => isMarked(marks, message);
  }

  #date({ of, relation, day }: Extract<SearchKey, { key: "date" }>): Matcher {
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

  async #text({ field, text }: Extract<SearchKey, { key: "text" }>): Promise<Matcher> {
    const wanted = new Wanted(text);
    if (field === "body") return this.#body(text, wanted);
    this.stages.add("envelope");
    if (field !== "text") return ({ envelope }) => envelope?.has(field, wanted);
    this.stages.add("headers");
    const inEnvelope: Matcher = ({ envelope }) => envelope && ENVELOPE.some((one) => envelope.has(one, wanted));
    const inHeader: Matcher = ({ headers }) =>
      headers?.mayHave(wanted) && headers.value.some(({ name, value }) => `${name}: ${value}`.includes(wanted.text));
    return together([await this.#body(text, wanted), inEnvelope, inHeader], true);
  }

  /**
   * The index decides where it knows the text: of a word, by what begins with it (RFC 9051 allows whole words); of a longer
   * text, by telling which messages may have it. Messages that it does not know whole are looked at, and so are all for a
   * part of words that none begins with.
   */
  async #body(text: string, wanted: Wanted): Promise<Matcher> {
    const { core } = this;
    const { folder } = this.view;
    if (wanted.text === "") return () => true;
    this.stages.add("body");
    const isInBody: Matcher = ({ body }) => body?.includes(wanted.text);
    const answer = core.engine.inBodies(text, folder.mailboxId);
    if (!answer) return isInBody;
    const messages = new Set(answer.messages);
    const known = await this.#marksOf((seq) => messages.has(seq));
    if (answer.isWord && known.every((bits) => bits === 0)) return isInBody;
    const markLong = (): Promise<Marks> => {
      const seqs = findLongMessages(core, folder);
      return this.#marksOf((seq) => seqs.has(seq));
    };
    const long = await this.#once("long", markLong, markCacheFor(this.rows));
    return (message) => {
      if (isMarked(known, message)) return answer.isWord || isInBody(message);
      return isMarked(long, message) ? isInBody(message) : false;
    };
  }
}

/** The zone of a Date field, ms. */
function readZoneOffset(date = ""): number {
  const [, sign, hours, minutes] = /([+-])(\d\d)(\d\d)(?:\s*\([^()]*\))?\s*$/.exec(date) ?? [];
  return (sign === "-" ? -1 : 1) * (Number(hours ?? 0) * 60 + Number(minutes ?? 0)) * 60_000;
}

/** Looks at the first of the messages, at least one, of so many characters, and returns them. Of what is gone there is nothing to see. */
async function lookAt(
  stage: Stage,
  messages: readonly Looked[],
  { core, octets }: ImapSession,
  userId: string,
  characters: number,
): Promise<readonly Looked[]> {
  const seqs = messages.map(({ row }) => row.seq);
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
      each(readMessageDates(core, seqs), (message, row) => {
        message.dates = row;
      });
      return messages;
    case "size": {
      const known = await octets.known(seqs, userId);
      for (const message of messages) {
        const { seq } = message.row;
        message.size = known.get(seq)?.size ?? (await octets.findMessageSize(seq, userId)) ?? 0;
      }
      return messages;
    }
    case "envelope":
      return first(
        each(readMessageEnvelopes(core, seqs, userId, characters), (message, row) => {
          message.envelope = new Envelope(row);
        }),
      );
    case "headers":
      return first(
        each(readStoredHeaders(core, seqs, characters), (message, { headers }) => {
          message.headers = new Written(headers, headersIn);
        }),
      );
    case "composed": {
      const some = first(COMPOSED_AT_ONCE);
      for (const message of some) {
        const header = await octets.header(message.row.seq, userId);
        message.composed = header && readHeaders(header).fields.map(({ name, value }) => makeFoldedHeader(name, value));
      }
      return some;
    }
    case "body":
      return first(
        each(readMessageBodies(core, seqs, characters), (message, { text }) => {
          message.body = folded(text);
        }),
      );
  }
}

/** The messages of the selected mailbox that a search finds, by number. `userId`: who sees them. @throws Refused, Ended */
export async function findMessagesBySearchKey(session: ImapSession, key: SearchKey, userId: string): Promise<Found[]> {
  const { core } = session;
  const view = session.selected();
  await view.folder.updated();
  const rows = listPresentRows(view);
  const plan = new Plan(core, session.keywordsIn(view.folder.mailboxId), view, rows, core.now());
  const matches = await plan.buildSearchMatcher(key);
  const stages = STAGES.filter((stage) => plan.stages.has(stage));
  const characters = MOST_AT_ONCE / Math.max(1, plan.texts / TEXTS_AT_ONCE);
  const found: Found[] = [];

  const decide = (some: readonly Looked[]): void => {
    for (const message of some) message.isFound = matches(message);
  };

  /** Looks at those of the messages that are open, some at once through all stages, so that little is in memory. */
  async function evaluate(some: readonly Looked[], [stage, ...later]: readonly Stage[]): Promise<void> {
    let open = stage === undefined ? [] : some.filter(({ isFound }) => isFound === undefined);
    while (stage !== undefined && open.length > 0) {
      // A share may end meanwhile.
      session.selected();
      const looked = await lookAt(stage, open, session, userId, characters);
      decide(looked);
      await evaluate(looked, later);
      for (const message of looked) message[stage] = undefined;
      open = open.slice(looked.length);
      await letOthersRun();
    }
  }

  for (let next = 0; next < rows.length; next += PORTION) {
    const portion = rows.slice(next, next + PORTION).flatMap((row, i) => (row ? [new Looked(row, next + i + 1)] : []));
    decide(portion);
    await evaluate(portion, stages);
    for (const { row, sequence, isFound } of portion) if (isFound) found.push({ ...row, sequence });
    await letOthersRun();
  }
  return found;
}
