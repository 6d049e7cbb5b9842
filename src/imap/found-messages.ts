/**
 * Finds the messages of the selected mailbox that a search asks for. Numbers, flags, ids and the words of the search index decide
 * about most without a look. Readers look through those that are still open, and this process does it last, where messages have to be composed.
 */
import type { Caller } from "../access/caller.ts";
import { letOthersRun } from "../base/pause.ts";
import { createThreadTest, findMessageNumber } from "../mailbox/imap/folder-search.ts";
import {
  askForMessages,
  askToLookThrough,
  createMarks,
  decideByMarks,
  type FoundSet,
  hasMark,
  lookThrough,
  type Marks,
  type MessageKey,
  type MessageSearch,
  type MessageSet,
  setMark,
} from "../mailbox/imap/message-search.ts";
import { BIT_OF, type Numbered } from "../mailbox/imap/uids.ts";
import { isInSequenceSet, OF_PROGRAMS, SAVED, type SearchKey } from "./grammar.ts";
import type { ImapSession } from "./session.ts";
import { listPresentRows, type View } from "./view.ts";

/** Messages that a reader looks through at once, and that this process does. */
const MOST_AT_ONCE = { reader: 20_000, here: 500 };
/** Messages that are decided without a pause. */
const PORTION = 5_000;

export type Found = Numbered & { sequence: number };

type Rows = readonly (Numbered | undefined)[];

/** Marks by the rows of a view, of what gives the view other rows once it changes: a dozen kilobytes of 100,000 messages. */
const markCache = new WeakMap<Rows, Map<string, Marks>>();

function markCacheFor(rows: Rows): Map<string, Marks> {
  const marks = markCache.get(rows) ?? new Map<string, Marks>();
  markCache.set(rows, marks);
  return marks;
}

const never: MessageKey = { key: "not", of: { key: "all" } };
const not = (key: MessageKey): MessageKey => ({ key: "not", of: key });

/** Finds out what the keys of a search ask of this session and of the index. Marks are by the index of a row. */
class Resolution {
  readonly marks: Marks[] = [];
  /** Places in `marks`, of what several keys of the search ask for. */
  readonly #made = new Map<string, number>();

  constructor(
    readonly session: ImapSession,
    readonly caller: Caller,
    readonly view: View,
    readonly rows: Rows,
  ) {}

  async resolve(key: SearchKey): Promise<MessageKey> {
    const { view } = this;
    const { core } = this.session;
    switch (key.key) {
      case "and":
      case "or": {
        const of: MessageKey[] = [];
        for (const one of key.of) of.push(await this.resolve(one));
        return { key: key.key, of };
      }
      case "not":
        return not(await this.resolve(key.of));
      case "flag": {
        const has = await this.#flag(key.flag);
        return key.set ? has : not(has);
      }
      case "numbers": {
        const { set, uid: byUid } = key;
        if (set === SAVED) return this.#marked(({ uid }) => view.saved.has(uid));
        const last = byUid ? view.rows.at(-1)?.uid : view.rows.length;
        const hasLast = set.at(-1)?.[1] === Number.POSITIVE_INFINITY;
        return this.#marked(({ uid }, sequence) => {
          const number = byUid ? uid : sequence;
          return isInSequenceSet(set, number) || (hasLast && number === last);
        });
      }
      case "modseq":
        return this.#marked(({ modseq }) => modseq >= key.modseq);
      case "id": {
        if (key.of === "THREADID") {
          const isThreadMessage = createThreadTest(core, key.id);
          return this.#marked(({ seq }) => isThreadMessage(seq));
        }
        const named = findMessageNumber(core, key.id);
        return this.#marked(({ seq }) => seq === named);
      }
      case "text": {
        const { field, text } = key;
        if (field === "body") return this.#body(text);
        if (field !== "text") return { key: "envelope", field, text };
        return { key: "or", of: [await this.#body(text), { key: "anywhere", text }] };
      }
      default:
        return key;
    }
  }

  /** A bit for each row: a search may ask for many sets. */
  async #mark(has: (row: Numbered, sequence: number) => boolean): Promise<Marks> {
    const marks = createMarks(this.rows.length);
    for (const [i, row] of this.rows.entries()) if (row && has(row, i + 1)) setMark(marks, i);
    await letOthersRun();
    return marks;
  }

  async #marked(has: (row: Numbered, sequence: number) => boolean): Promise<MessageKey> {
    return { key: "marks", at: this.marks.push(await this.#mark(has)) - 1 };
  }

  /** Makes the marks of a name once, for all keys of the search, and where they are kept, of later ones, that ask for them. */
  async #once(name: string, make: () => Promise<Marks>, kept = new Map<string, Marks>()): Promise<number> {
    const had = this.#made.get(name);
    if (had !== undefined) return had;
    const marks = kept.get(name) ?? (await make());
    kept.set(name, marks);
    const at = this.marks.push(marks) - 1;
    this.#made.set(name, at);
    return at;
  }

  /** Undefined if the index cannot tell. */
  async #ask(set: MessageSet): Promise<FoundSet | undefined> {
    return askForMessages(this.session.core, this.caller, this.view.folder.mailboxId, set);
  }

  /** Marks the messages of a set that is always known. */
  async #markSet(set: MessageSet, isIn = true): Promise<Marks> {
    const found = await this.#ask(set);
    return this.#mark(({ seq }) => found?.has(seq) === isIn);
  }

  async #flag(flag: string): Promise<MessageKey> {
    const name = flag.toLowerCase();
    const bit = BIT_OF.get(name);
    if (name === "\\draft") return { key: "draft" };
    if (OF_PROGRAMS.test(flag) && bit === undefined) return never;
    const { folder } = this.view;
    if (bit !== undefined) {
      const mark = () => {
        const seqs = new Set(folder.flagged(bit));
        return this.#mark(({ seq }) => seqs.has(seq));
      };
      return { key: "marks", at: await this.#once(name, mark, markCacheFor(this.rows)) };
    }
    if (name === "\\seen" || name === "\\flagged") {
      const mark = () =>
        name === "\\seen" ? this.#markSet({ of: "unread" }, false) : this.#markSet({ of: "flagged" });
      return { key: "marks", at: await this.#once(name, mark, markCacheFor(this.rows)) };
    }
    const label = this.session.keywordsIn(folder.mailboxId).label(flag);
    return { key: "marks", at: await this.#once(`label ${name}`, () => this.#markSet({ of: "labelled", label })) };
  }

  /**
   * The index decides where it knows the text: of a word, by what begins with it (RFC 9051 allows whole words); of a longer
   * text, by telling which messages may have it. All messages are looked at for a part of words that none begins with.
   */
  async #body(text: string): Promise<MessageKey> {
    const found = text === "" ? undefined : await this.#ask({ of: "saying", text });
    if (!found) return { key: "body", text };
    const marks = await this.#mark(({ seq }) => found.has(seq));
    if (found.isWord && marks.every((bits) => bits === 0)) return { key: "body", text };
    const known = this.marks.push(marks) - 1;
    const { folder } = this.view.folder;
    const markLong = () => this.#markSet({ of: "long", ...(folder && { folder }) });
    const long = await this.#once("long", markLong, markCacheFor(this.rows));
    return { key: "body", text, index: { known, long, isWord: found.isWord } };
  }
}

/** The messages of the selected mailbox that a search finds, by number. @throws Refused, Ended, AppError server_error 503 */
export async function findMessagesBySearchKey(
  session: ImapSession,
  searched: SearchKey,
  caller: Caller,
): Promise<Found[]> {
  const { core, octets } = session;
  const { userId } = caller;
  const view = session.selected();
  await view.folder.updated();
  const rows = listPresentRows(view);
  const resolution = new Resolution(session, caller, view, rows);
  const key = await resolution.resolve(searched);
  const { marks } = resolution;
  const found = createMarks(rows.length);
  let undecided: number[] = [];
  const decide = decideByMarks({ key, marks });
  for (let next = 0; next < rows.length; next += PORTION) {
    for (let index = next; index < Math.min(next + PORTION, rows.length); index++) {
      const is = rows[index] && decide(index);
      if (is) setMark(found, index);
      else if (rows[index] && is === undefined) undecided.push(index);
    }
    await letOthersRun();
  }

  /** Looks through the first of these; returns those that are left open, and those that remain to be looked through. */
  async function look(
    indexes: readonly number[],
    most: number,
    through: (search: MessageSearch) => ReturnType<typeof lookThrough>,
  ): Promise<{ open: number[]; rest: number[] }> {
    // A share may end meanwhile.
    session.selected();
    const some = indexes.slice(0, most);
    const search: MessageSearch = {
      ...{ key, userId, seqs: some.map((index) => (rows[index] as Numbered).seq) },
      marks: marks.map((all) => pick(all, some)),
    };
    const outcome = await through(search);
    for (const [i, index] of some.entries()) if (hasMark(outcome.found, i)) setMark(found, index);
    const { open, rest } = outcome;
    return {
      open: some.filter((_, i) => hasMark(open, i)),
      rest: [...some.filter((_, i) => hasMark(rest, i)), ...indexes.slice(most)],
    };
  }

  const composed: number[] = [];
  while (undecided.length > 0) {
    const { open, rest } = await look(undecided, MOST_AT_ONCE.reader, (search) =>
      askToLookThrough(core, caller, search),
    );
    composed.push(...open);
    undecided = rest;
  }
  for (let left = composed; left.length > 0; ) {
    left = (await look(left, MOST_AT_ONCE.here, (search) => lookThrough(core, search, { octets }))).rest;
  }
  return rows.flatMap((row, i) => (row && hasMark(found, i) ? [{ ...row, sequence: i + 1 }] : []));
}

/** The marks of some, in their order. */
function pick(marks: Marks, indexes: readonly number[]): Marks {
  const picked = createMarks(indexes.length);
  for (const [i, index] of indexes.entries()) if (hasMark(marks, index)) setMark(picked, i);
  return picked;
}
