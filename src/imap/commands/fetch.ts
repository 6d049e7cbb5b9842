/** FETCH and UID FETCH (RFC 9051 §6.4.5, with BINARY of RFC 3516 and CHANGEDSINCE of RFC 7162). */
import { AppError } from "../../base/errors.ts";
import { letOthersRun } from "../../base/pause.ts";
import { changeMessages } from "../../mailbox/changing/message-changes.ts";
import type { KnownOctets } from "../../mailbox/imap/octets.ts";
import {
  type FlagState,
  type ImapState,
  listMessageIds,
  listThreadIds,
  type Numbered,
} from "../../mailbox/imap/uids.ts";
import {
  type Content,
  type Decoded,
  decodeNumberedPart,
  findMessageSection,
  formatBodyStructure,
  formatImapEnvelope,
  type Section,
  selectHeaderFields,
  splitOctets,
} from "../../message/imap-data.ts";
import {
  type FetchItem,
  formatImapDateTime,
  formatSequenceSet,
  isInSequenceSet,
  Malformed,
  type Parser,
  type SequenceSet,
} from "../grammar.ts";
import type { Keywords } from "../keywords.ts";
import { type ImapSession, Refused, toImapRefusal } from "../session.ts";
import {
  findSequenceNumber,
  isSetBeyondView,
  listRowFlags,
  listRowStates,
  listRowsInSequenceSet,
  listUidGaps,
  type View,
} from "../view.ts";

const FLAGS: FetchItem = { item: "FLAGS" };
const UID: FetchItem = { item: "UID" };
const MODSEQ: FetchItem = { item: "MODSEQ" };

/** Messages whose states are read at once, and told without a pause: some 2 ms. */
const PORTION = 500;
/** Messages whose envelopes and structures are read at once, since hostile ones have 128 kB of them. */
const PORTION_OF_TOLD = 100;
/** Octets of a reply that are in memory before they are written. */
const MOST_WAITING = 64 * 1024;
/** Most messages whose octets are read at once, and bytes beyond the first: some 2 ms. */
const MOST_AHEAD = 32;
const AHEAD_BYTES = 128 * 1024;

export async function runImapFetch(session: ImapSession, parser: Parser, byUid: boolean): Promise<string> {
  parser.space();
  const set = parser.sequenceSet();
  parser.space();
  const items = parser.fetchItems();
  let since: number | undefined;
  let tellsVanished = false;
  if (parser.take(" ")) {
    parser.list(() => {
      if (parser.take("CHANGEDSINCE ")) since = parser.number();
      else {
        parser.expect("VANISHED");
        tellsVanished = true;
      }
    });
  }
  parser.end();
  const view = session.selected();
  if (!byUid && isSetBeyondView(view, set)) throw new Malformed("no such message");
  if (tellsVanished) {
    if (!byUid || since === undefined || !session.enabled.has("QRESYNC"))
      throw new Malformed("VANISHED needs UID, CHANGEDSINCE and QRESYNC");
    await tellVanished(session, view, set, since);
  }
  const lacks = ({ item }: FetchItem): boolean => !items.some((one) => one.item === item);
  if (byUid && lacks(UID)) items.unshift(UID);
  if (since !== undefined || !lacks(MODSEQ)) {
    await session.enableCondstore();
    if (lacks(MODSEQ)) items.push(MODSEQ);
  }
  // Of messages that it marks as seen, a FETCH tells that (RFC 7162 §3.2.4).
  const dynamic = session.enabled.has("CONDSTORE") ? [FLAGS, UID, MODSEQ] : [FLAGS];
  const itemsOfSeen = [...items, ...dynamic.filter(lacks)];
  const rows = listRowsInSequenceSet(view, set, byUid).filter(({ modseq }) => since === undefined || modseq > since);
  const marksSeen = items.some((one) => one.item === "SECTION" && !one.peek) && !view.readOnly;
  const wantsThreads = !lacks({ item: "THREADID" });
  const wantsTold = !lacks({ item: "ENVELOPE" }) || !lacks({ item: "BODYSTRUCTURE" });
  const wantsKnown = wantsTold || !lacks({ item: "RFC822.SIZE" });
  const atOnce = wantsTold ? PORTION_OF_TOLD : PORTION;
  // The client knows them by that: also those that are gone (RFC 2180 §4.1), of which nothing is read.
  const isOfUids = items.every(({ item }) => item === "UID");
  const isOfFlags = items.every(({ item }) => item === "FLAGS" || item === "UID" || item === "MODSEQ");
  const reply = new Reply(session);
  let failed: AppError | undefined;
  let isOneGone = false;
  const keywords = session.keywordsIn(view.folder.mailboxId);
  for (let next = 0; next < rows.length; next += atOnce) {
    const portion = rows.slice(next, next + atOnce);
    await reply.takeTurn();
    if (isOfUids) {
      for (const { uid } of portion) reply.add(`* ${findSequenceNumber(view, uid)} FETCH (UID ${uid})\r\n`);
      await reply.flushLarge();
      continue;
    }
    if (isOfFlags) {
      const states = listRowFlags(view, portion);
      if (states.length < portion.length) isOneGone = true;
      // The journal keeps few of them.
      session.reads.note(session.caller("fetch"), next > 0 ? [] : listMessageIds(session.core.db, states));
      for (const state of states) {
        const answers = items.map(({ item }) => formatFlagItem(item as FlagItem, view, state, keywords));
        reply.add(`* ${findSequenceNumber(view, state.uid)} FETCH (${answers.join(" ")})\r\n`);
      }
      await reply.flushLarge();
      continue;
    }
    const seen = marksSeen ? await markSeen(session, view, portion) : undefined;
    const caller = session.caller("fetch");
    const { userId } = caller;
    const seqs = wantsKnown ? portion.map(({ seq }) => seq) : [];
    // First, since it may make octets, with which a message may get another UID.
    const known = await session.octets.known(seqs, userId, wantsTold ? "all" : "sizes");
    const states = listRowStates(view, portion);
    // Gone since: the client is told after the command.
    if (states.length < portion.length) isOneGone = true;
    const threadIds = wantsThreads ? listThreadIds(session.core.db, states) : undefined;
    session.reads.note(
      caller,
      states.map(({ id }) => id),
    );
    const messages = states.map((state): FetchedMessage => {
      const octets = known.get(state.seq);
      const wanted = seen?.has(state.uid) ? itemsOfSeen : items;
      return {
        ...{ session, userId, view, state, keywords, items: wanted, known: octets },
        needs: neededOctets(wanted, octets),
        sequence: findSequenceNumber(view, state.uid) as number,
        threadId: threadIds?.get(state.threadSeq),
      };
    });
    let ahead: Ahead | undefined;
    for (const [i, fetched] of messages.entries()) {
      try {
        if (fetched.needs === "nothing") reply.add(formatAnswer(fetched));
        else {
          if (!ahead || i >= ahead.end) ahead = await readAhead(messages, i, reply);
          if (!(await readAndTell(fetched, ahead, reply))) isOneGone = true;
        }
        await reply.flushLarge();
      } catch (error) {
        // It cannot be composed. The client gets the others.
        if (!(error instanceof AppError)) throw error;
        failed = error;
      }
    }
  }
  await reply.flush();
  if (failed) throw toImapRefusal(failed);
  return `${isOneGone ? "[EXPUNGEISSUED] " : ""}FETCH completed`;
}

/** Tells which UIDs of a set vanished since (RFC 7162 §3.2.6); where that is no longer known, all that are missing. */
async function tellVanished(session: ImapSession, view: View, set: SequenceSet, since: number): Promise<void> {
  const present = view.folder.present() ?? view.folder;
  const vanished = present.vanishedSince(since) ?? listUidGaps(view);
  // What the client counts is told it as vanished now, not earlier.
  const asked = vanished.filter((uid) => isInSequenceSet(set, uid) && findSequenceNumber(view, uid) === undefined);
  if (asked.length > 0) await session.send(`* VANISHED (EARLIER) ${formatSequenceSet(asked)}`);
}

/** Marks messages as read, since the client asks for their text. Returns the UIDs of those that were not. */
async function markSeen(session: ImapSession, view: View, rows: readonly Numbered[]): Promise<ReadonlySet<number>> {
  const { core } = session;
  const caller = session.writer("fetch");
  const unread = listRowFlags(view, rows).filter(({ read }) => read === 0);
  const seqs = unread.map(({ seq }) => seq);
  if (seqs.length > 0) await core.store.enqueue((tx) => changeMessages(tx, caller, seqs, { read: true }, core.now()));
  return new Set(unread.map(({ uid }) => uid));
}

interface FetchedMessage {
  session: ImapSession;
  userId: string;
  view: View;
  state: ImapState;
  keywords: Keywords;
  sequence: number;
  items: readonly FetchItem[];
  needs: Needed;
  known: KnownOctets | undefined;
  /** Read where the client asks for it. */
  threadId: string | undefined;
}

/** Octets of a message: none, its header, or all. */
type Needed = "nothing" | "header" | "all";

/** The octets of a message that some items need. */
function neededOctets(items: readonly FetchItem[], known: KnownOctets | undefined): Needed {
  let needed: Needed = "nothing";
  for (const item of items) {
    const octets = octetsFor(item, known);
    if (octets === "all") return octets;
    if (octets === "header") needed = octets;
  }
  return needed;
}

function octetsFor(item: FetchItem, known: KnownOctets | undefined): Needed {
  switch (item.item) {
    case "RFC822.SIZE":
      return known ? "nothing" : "all";
    case "BODYSTRUCTURE":
      return known && known.structure !== null ? "nothing" : "all";
    case "ENVELOPE":
      return known && known.envelope !== null ? "nothing" : "header";
    case "SECTION":
      return !item.binary && item.section.part.length === 0 && item.section.text?.startsWith("HEADER")
        ? "header"
        : "all";
    case "BODY":
    case "BINARY.SIZE":
      return "all";
    default:
      return "nothing";
  }
}

/** Small messages that were read together, by messages.seq. `end`: index of the first that was not looked at. */
interface Ahead {
  end: number;
  contents: ReadonlyMap<number, Content>;
  headers: ReadonlyMap<number, Buffer>;
}

/** Lets others run, and reads what some messages need, from one on. @throws Ended */
async function readAhead(all: readonly FetchedMessage[], first: number, reply: Reply): Promise<Ahead> {
  await reply.takeTurn();
  const seqs: Record<Needed, number[]> = { nothing: [], header: [], all: [] };
  let [end, bytes] = [first, 0];
  for (; end < all.length && end < first + MOST_AHEAD && bytes < AHEAD_BYTES; end++) {
    const { needs, state } = all[end] as FetchedMessage;
    // A draft may be written anew meanwhile.
    if (!state.draft) seqs[needs].push(state.seq);
    if (needs !== "nothing") bytes += state.size;
  }
  const { octets } = reply.session;
  const { userId } = all[first] as FetchedMessage;
  const headers = octets.readHeaders(seqs.header, userId);
  return { end, contents: await octets.readSmall(seqs.all, userId), headers };
}

/** Tells of a message whose octets are needed for it. False if it is gone, or was written or made anew meanwhile. */
async function readAndTell(fetched: FetchedMessage, ahead: Ahead, reply: Reply): Promise<boolean> {
  const { session, view, state, userId, needs } = fetched;
  const { octets } = session;
  const isPresent = (): boolean => view.folder.uidIn(state.seq) === state.uid;
  const tellWith = (content: Content): Promise<void> =>
    write(fetched, reply, () => content.bytes.toString("latin1", 0, content.root.bodyStart), content);
  const tellHeader = (header: Buffer): Promise<void> => write(fetched, reply, () => header.toString("latin1"));
  const content = ahead.contents.get(state.seq);
  const header = ahead.headers.get(state.seq);
  if (content) await tellWith(content);
  else if (header) await tellHeader(header);
  else if (needs === "all") {
    const told = await octets.withContent(state.seq, userId, async (content) => {
      if (!isPresent()) return false;
      await tellWith(content);
      return true;
    });
    return told ?? false;
  } else {
    const read = await octets.header(state.seq, userId);
    if (!read || !isPresent()) return false;
    await tellHeader(read);
  }
  return true;
}

/** `header`, `content`: as far as the items need them. */
async function write(fetched: FetchedMessage, reply: Reply, header: () => string, content?: Content): Promise<void> {
  const { items } = fetched;
  for (const { part } of items.flatMap(binaryIn)) decodedPart(content as Content, part);
  reply.add(`* ${fetched.sequence} FETCH (`);
  for (const [index, item] of items.entries()) {
    if (index > 0) reply.add(" ");
    if (item.item === "SECTION") await section(reply, item, header, content);
    else if (item.item === "BINARY.SIZE") {
      const decoded = decodedPart(content as Content, item.part);
      const { size } = decoded ? await measure(decoded) : { size: 0 };
      reply.add(`BINARY.SIZE[${item.part.join(".")}] ${size}`);
    } else reply.add(answerTo(fetched, item, header, content));
  }
  reply.add(")\r\n");
}

/** Items that the flags of a message tell. */
type FlagItem = "FLAGS" | "UID" | "MODSEQ";

function formatFlagItem(item: FlagItem, view: View, state: FlagState, keywords: Keywords): string {
  if (item === "UID") return `UID ${state.uid}`;
  if (item === "MODSEQ") return `MODSEQ (${state.modseq})`;
  const flags = keywords.formatFlags(state);
  view.sentFlags.set(state.uid, flags);
  return `FLAGS ${flags}`;
}

/** An item whose answer is short. */
type ShortItem = Exclude<FetchItem, { item: "SECTION" | "BINARY.SIZE" }>;

/** The answer to items that need no octets. */
const formatAnswer = (fetched: FetchedMessage): string =>
  `* ${fetched.sequence} FETCH (${fetched.items.map((item) => answerTo(fetched, item as ShortItem)).join(" ")})\r\n`;

/** `header`, `content`: as far as the item needs them. */
function answerTo(
  { view, state, keywords, known, threadId }: FetchedMessage,
  item: ShortItem,
  header: () => string = () => "",
  content?: Content,
): string {
  switch (item.item) {
    case "FLAGS":
    case "UID":
    case "MODSEQ":
      return formatFlagItem(item.item, view, state, keywords);
    case "INTERNALDATE":
      return `INTERNALDATE ${formatImapDateTime(state.filedAt)}`;
    case "EMAILID":
      return `EMAILID (${state.id})`;
    case "THREADID":
      return `THREADID (${threadId})`;
    case "RFC822.SIZE":
      return `RFC822.SIZE ${known?.size ?? content?.bytes.length}`;
    case "ENVELOPE":
      return `ENVELOPE ${known?.envelope ?? formatImapEnvelope(header())}`;
    case "BODYSTRUCTURE":
      return `BODYSTRUCTURE ${known?.structure ?? formatBodyStructure(content as Content, true)}`;
    case "BODY":
      return `BODY ${formatBodyStructure(content as Content, false)}`;
  }
}

/** The part that an item wants decoded. */
const binaryIn = (item: FetchItem): { part: readonly number[] }[] =>
  item.item === "BINARY.SIZE" ? [item] : item.item === "SECTION" && item.binary ? [item.section] : [];

/** @throws Refused for an encoding that is not known */
function decodedPart(content: Content, part: readonly number[]): Decoded | undefined {
  const decoded = decodeNumberedPart(content, part);
  if (decoded === "unknown") throw new Refused("The part has an unknown encoding", "UNKNOWN-CTE");
  return decoded;
}

/** Octets of a decoded part, and whether NUL is among them. */
async function measure(decoded: Decoded): Promise<{ size: number; hasNul: boolean }> {
  let [size, hasNul] = [0, false];
  for (const piece of decoded.pieces()) {
    size += piece.length;
    hasNul ||= piece.includes(0);
    await letOthersRun();
  }
  return { size, hasNul };
}

async function section(
  reply: Reply,
  { name, section, partial, binary }: Extract<FetchItem, { item: "SECTION" }>,
  header: () => string,
  content: Content | undefined,
): Promise<void> {
  const [offset, count] = partial ?? [0, Number.MAX_SAFE_INTEGER];
  reply.add(`${name}${partial ? `<${offset}>` : ""} `);
  if (binary) {
    const decoded = decodedPart(content as Content, section.part);
    const { size, hasNul } = decoded ? await measure(decoded) : { size: 0, hasNul: false };
    if (!decoded) reply.add("NIL");
    else await reply.literal(`${hasNul ? "~" : ""}`, decoded.pieces(), size, [offset, count]);
    return;
  }
  const octets = content ? findMessageSection(content, section) : headerSection(header(), section);
  if (octets) await reply.literal("", splitOctets(octets), octets.length, [offset, count]);
  else reply.add("NIL");
}

const headerSection = (header: string, { text, fields = [] }: Section): Buffer =>
  text === "HEADER.FIELDS" || text === "HEADER.FIELDS.NOT"
    ? selectHeaderFields(header, text, fields)
    : Buffer.from(header, "latin1");

/** A reply on its way to the client, which sets the pace: little of it is in memory. */
class Reply {
  readonly session: ImapSession;
  #waiting: Buffer[] = [];
  /** Text behind the octets that wait, latin1. */
  #text = "";
  #length = 0;

  constructor(session: ImapSession) {
    this.session = session;
  }

  /** Lets others run. A share may end meanwhile. @throws Ended */
  async takeTurn(): Promise<void> {
    await letOthersRun();
    this.session.selected();
  }

  add(part: string | Buffer): void {
    this.#length += part.length;
    if (typeof part === "string") {
      this.#text += part;
      return;
    }
    this.#endText();
    this.#waiting.push(part);
  }

  #endText(): void {
    if (this.#text !== "") this.#waiting.push(Buffer.from(this.#text, "latin1"));
    this.#text = "";
  }

  /** A range of octets that come in pieces, `size` in all. `mark`: ~ for a literal with NUL. */
  async literal(
    mark: string,
    pieces: Iterable<Buffer>,
    size: number,
    [offset, count]: readonly [number, number],
  ): Promise<void> {
    const end = Math.min(size, offset + count);
    this.add(`${mark}{${Math.max(0, end - offset)}}\r\n`);
    let at = 0;
    for (const piece of pieces) {
      if (at >= end) break;
      this.add(piece.subarray(Math.max(0, offset - at), Math.max(0, end - at)));
      at += piece.length;
      await this.flushLarge();
    }
  }

  async flushLarge(): Promise<void> {
    if (this.#length >= MOST_WAITING) await this.flush();
  }

  async flush(): Promise<void> {
    if (this.#length === 0) return;
    this.#endText();
    const octets = this.#waiting.length === 1 ? (this.#waiting[0] as Buffer) : Buffer.concat(this.#waiting);
    this.#waiting = [];
    this.#length = 0;
    await this.session.wire.write(octets);
    await this.takeTurn();
  }
}
