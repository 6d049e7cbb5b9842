/** SEARCH and UID SEARCH (RFC 9051 §6.4.4, with ESEARCH). Text is found in any case, in what the mailbox stores of a message. */
import { letOthersRun } from "../../base/pause.ts";
import type { ImapState, SearchedRow } from "../../mailbox/uids.ts";
import { isIn, Malformed, type Parser, SAVED, type SearchKey, setOf } from "../grammar.ts";
import type { Keywords } from "../keywords.ts";
import { flagNamesOf, Refused, type Session } from "../session.ts";
import { statesOf, type View } from "../view.ts";

const DAY_MS = 86_400_000;
/** Messages read at once. */
const PORTION = 200;
/** Octets of messages whose text is looked through without a pause: some 10 ms. */
const MOST_AT_ONCE = 500_000;

const RETURNS = ["MIN", "MAX", "ALL", "COUNT", "SAVE"] as const;

export async function search(session: Session, parser: Parser, byUid: boolean, tag: string): Promise<string> {
  let returns: string[] | undefined;
  if (parser.take(" RETURN ")) {
    returns = parser.list(() => parser.atom().toUpperCase(), { empty: true });
    const unknown = returns.find((one) => !RETURNS.some((known) => known === one));
    if (unknown !== undefined) throw new Malformed(`unknown result ${unknown}`);
    if (returns.length === 0) returns = ["ALL"];
  }
  const saves = returns?.includes("SAVE") === true;
  parser.space();
  if (parser.take("CHARSET ")) {
    if (session.enabled.has("UTF8=ACCEPT")) throw new Malformed("all is UTF-8");
    if (!/^(?:utf-8|us-ascii)$/i.test(parser.astring())) {
      if (saves && session.view) session.view.saved = new Set();
      throw new Refused("Only UTF-8", "BADCHARSET (UTF-8)");
    }
    parser.space();
  }
  const key = parser.searchKeys();
  const view = session.selected();
  const caller = session.caller("search");
  session.parts.reads.note(caller, []);
  // Of a search that is refused, nothing is saved.
  const found = await matching(session, view, key, caller.userId).catch((error) => {
    if (saves) view.saved = new Set();
    throw error;
  });
  if (saves) view.saved = new Set(resultsOf(found, returns ?? []).map(({ uid }) => uid));
  if (saves && returns?.length === 1) return "SEARCH completed";
  if (session.isRev2) returns ??= ["ALL"];
  const numbers = found.map(({ uid, sequence }) => (byUid ? uid : sequence));
  const tellsModseq = asksModseq(key) && found.length > 0;
  if (asksModseq(key)) await session.enableCondstore();
  if (!returns) {
    const modseq = tellsModseq ? ` (MODSEQ ${highest(found)})` : "";
    await session.send(`* SEARCH${numbers.map((number) => ` ${number}`).join("")}${modseq}`);
  } else {
    const results = [
      ...(returns.includes("MIN") && numbers.length > 0 ? [`MIN ${numbers[0]}`] : []),
      ...(returns.includes("MAX") && numbers.length > 0 ? [`MAX ${numbers.at(-1)}`] : []),
      ...(returns.includes("ALL") && numbers.length > 0 ? [`ALL ${setOf(numbers)}`] : []),
      ...(returns.includes("COUNT") ? [`COUNT ${numbers.length}`] : []),
      ...(tellsModseq ? [`MODSEQ ${highest(resultsOf(found, returns))}`] : []),
    ];
    await session.send(["* ESEARCH", `(TAG "${tag}")`, ...(byUid ? ["UID"] : []), ...results].join(" "));
  }
  return "SEARCH completed";
}

/** The messages that a result is of: of MIN and MAX alone, these (RFC 9051 §6.4.4.3, RFC 7162 §3.1.10). */
function resultsOf<T>(found: readonly T[], returns: readonly string[]): readonly T[] {
  const [min, max] = [returns.includes("MIN"), returns.includes("MAX")];
  if (returns.includes("ALL") || returns.includes("COUNT") || (!min && !max)) return found;
  return [...(min ? found.slice(0, 1) : []), ...(max ? found.slice(-1) : [])];
}

const asksModseq = (key: SearchKey): boolean =>
  key.key === "modseq" ||
  (key.key === "not" ? asksModseq(key.of) : (key.key === "or" || key.key === "and") && key.of.some(asksModseq));

const highest = (found: readonly Found[]): number => found.reduce((most, { modseq }) => Math.max(most, modseq), 0);

type TextField = Extract<SearchKey, { key: "text" }>["field"];

/** A message that is looked at. What several keys ask of it is made once. */
class Candidate {
  #flags: ReadonlySet<string> | undefined;
  readonly #texts = new Map<TextField, readonly string[]>();
  #headers: readonly (readonly [name: string, value: string])[] | undefined;
  text: SearchedRow | undefined;
  size: number | undefined;

  constructor(
    readonly state: ImapState,
    readonly sequence: number,
    readonly keywords: Keywords,
  ) {}

  /** `flag`: in lower case. */
  hasFlag(flag: string): boolean {
    this.#flags ??= new Set(flagNamesOf(this.state, this.keywords).map((one) => one.toLowerCase()));
    return this.#flags.has(flag);
  }

  /** Folded. */
  texts(field: TextField, userId: string): readonly string[] {
    const known = this.#texts.get(field);
    if (known) return known;
    const texts = this.text ? textOf(this.text, field, userId).map(folded) : [];
    this.#texts.set(field, texts);
    return texts;
  }

  /** Names in lower case, and folded values. */
  headers(): readonly (readonly [name: string, value: string])[] {
    this.#headers ??= (this.text ? (JSON.parse(this.text.headers) as [string, string][]) : []).map(([name, value]) => [
      name.toLowerCase(),
      folded(value),
    ]);
    return this.#headers;
  }
}

/** True if a key asks for more than the state of a message. */
const needsText = (key: SearchKey): boolean => {
  switch (key.key) {
    case "text":
    case "header":
      return true;
    case "date":
      return key.of === "sent";
    case "not":
      return needsText(key.of);
    case "or":
    case "and":
      return key.of.some(needsText);
    default:
      return false;
  }
};

const needsSize = (key: SearchKey): boolean =>
  key.key === "size" ||
  (key.key === "not" ? needsSize(key.of) : (key.key === "or" || key.key === "and") && key.of.some(needsSize));

interface Found {
  uid: number;
  sequence: number;
  modseq: number;
}

/** What needs no more than the state of a message is asked first; texts are read of what is left, some at once. */
async function matching(session: Session, view: View, key: SearchKey, userId: string): Promise<Found[]> {
  const { uids, octets } = session.parts.mailbox;
  const now = session.parts.runtime.now();
  const keys = key.key === "and" ? key.of : [key];
  const isCostly = (one: SearchKey): boolean => needsText(one) || needsSize(one);
  const matcher = (of: SearchKey[]) => matcherOf(view, { key: "and", of }, userId, now);
  const [isCandidate, matches] = [matcher(keys.filter((one) => !isCostly(one))), matcher(keys.filter(isCostly))];
  const [withText, withSize, isOpen] = [needsText(key), needsSize(key), keys.some(isCostly)];
  const keywords = session.keywordsIn(view.folder.mailboxId);
  const found: Found[] = [];
  for (let next = 0; next < view.rows.length; next += PORTION) {
    const portion = view.rows.slice(next, next + PORTION);
    // A share may end meanwhile.
    session.selected();
    const states = new Map(statesOf(uids, view, portion).map((state) => [state.uid, state]));
    const candidates = portion
      .flatMap(({ uid }, i): Candidate[] => {
        const state = states.get(uid);
        return state ? [new Candidate(state, next + i + 1, keywords)] : [];
      })
      .filter(isCandidate);
    for (const some of isOpen ? bySize(candidates) : [candidates]) {
      const texts = new Map(
        withText ? uids.texts(some.map(({ state }) => state.seq)).map((row) => [row.seq, row]) : [],
      );
      for (const candidate of some) {
        const { seq, uid, modseq } = candidate.state;
        candidate.text = texts.get(seq);
        if (withSize) candidate.size = await octets.sizeOf(seq, userId);
        if (matches(candidate)) found.push({ uid, sequence: candidate.sequence, modseq });
      }
      await letOthersRun();
    }
  }
  return found;
}

/** Messages in portions of so many octets, or of one. */
function bySize(candidates: readonly Candidate[]): Candidate[][] {
  const portions: Candidate[][] = [];
  let octets = MOST_AT_ONCE;
  for (const candidate of candidates) {
    octets += candidate.state.size;
    if (octets > MOST_AT_ONCE) {
      portions.push([]);
      octets = candidate.state.size;
    }
    portions.at(-1)?.push(candidate);
  }
  return portions;
}

const folded = (text: string): string => text.normalize("NFKC").toLowerCase();

const people = (json: string): string =>
  ([JSON.parse(json)].flat() as { email?: string; name?: string }[])
    .map(({ email = "", name = "" }) => `${name} <${email}>`)
    .join(", ");

function matcherOf(view: View, key: SearchKey, userId: string, now: number): (candidate: Candidate) => boolean {
  switch (key.key) {
    case "all":
      return () => true;
    case "and": {
      const all = key.of.map((one) => matcherOf(view, one, userId, now));
      return (candidate) => all.every((matches) => matches(candidate));
    }
    case "or": {
      const any = key.of.map((one) => matcherOf(view, one, userId, now));
      return (candidate) => any.some((matches) => matches(candidate));
    }
    case "not": {
      const matches = matcherOf(view, key.of, userId, now);
      return (candidate) => !matches(candidate);
    }
    case "flag": {
      const wanted = key.flag.toLowerCase();
      return (candidate) => candidate.hasFlag(wanted) === key.set;
    }
    case "numbers": {
      const { set, uid: byUid } = key;
      if (set === SAVED) return ({ state }) => view.saved.has(state.uid);
      const last = byUid ? view.rows.at(-1)?.uid : view.rows.length;
      const hasLast = set.at(-1)?.[1] === Number.POSITIVE_INFINITY;
      return ({ state, sequence }) => {
        const number = byUid ? state.uid : sequence;
        return isIn(set, number) || (hasLast && number === last);
      };
    }
    case "modseq":
      return ({ state }) => state.modseq >= key.modseq;
    case "id":
      return ({ state }) => (key.of === "EMAILID" ? state.id : state.threadId) === key.id;
    case "within":
      return ({ state }) => state.filedAt >= now - key.seconds * 1_000 === key.younger;
    case "size":
      return ({ size = 0 }) => (key.relation === "larger" ? size > key.bytes : size < key.bytes);
    case "date": {
      const { relation, day } = key;
      return ({ state, text }) => {
        const at = key.of === "internal" ? state.filedAt : (text?.date ?? 0);
        if (relation === "before") return at < day;
        return at >= day && (relation === "since" || at < day + DAY_MS);
      };
    }
    case "header": {
      const [name, wanted] = [key.name.toLowerCase(), folded(key.text)];
      return (candidate) => candidate.headers().some(([field, value]) => field === name && value.includes(wanted));
    }
    case "text": {
      const wanted = folded(key.text);
      return (candidate) => candidate.texts(key.field, userId).some((text) => text.includes(wanted));
    }
  }
}

function textOf(row: SearchedRow, field: TextField, userId: string): string[] {
  const bcc = row.sentBy === userId ? row.bcc : "[]";
  switch (field) {
    case "from":
      return [people(row.from)];
    case "to":
      return [people(row.to)];
    case "cc":
      return [people(row.cc)];
    case "bcc":
      return [people(bcc)];
    case "subject":
      return [row.subject];
    case "body":
      return [row.text];
    case "text":
      return [
        row.text,
        row.subject,
        ...[row.from, row.to, row.cc, bcc].map(people),
        ...(JSON.parse(row.headers) as [string, string][]).map((header) => header.join(": ")),
      ];
  }
}
