/** FETCH and UID FETCH (RFC 9051 §6.4.5, with CHANGEDSINCE of RFC 7162). */
import { letOthersRun } from "../../base/pause.ts";
import type { ImapState, Numbered } from "../../mailbox/uids.ts";
import { dateTimeOf, type FetchItem, isIn, Malformed, type Parser, type SequenceSet, setOf } from "../grammar.ts";
import { contentOf, envelopeOf, sectionOf, structureOf } from "../message.ts";
import { flagsOf, type Session } from "../session.ts";
import { gapsIn, isBeyond, rowsIn, sequenceOf, type View } from "../view.ts";

/** Messages whose states are read at once. */
const PORTION = 200;

export async function fetch(session: Session, parser: Parser, byUid: boolean): Promise<string> {
  parser.space();
  const set = parser.sequenceSet();
  parser.space();
  const items = parser.fetchItems();
  let since: number | undefined;
  let tellsVanished = false;
  if (parser.take(" (CHANGEDSINCE ")) {
    since = parser.number();
    tellsVanished = parser.take(" VANISHED");
    parser.expect(")");
  }
  parser.end();
  const view = session.selected();
  session.caller("fetch");
  if (!byUid && isBeyond(view, set)) throw new Malformed("no such message");
  if (tellsVanished) {
    if (!byUid || !session.enabled.has("QRESYNC")) throw new Malformed("VANISHED needs UID and QRESYNC");
    await tellVanished(session, view, set, since ?? 0);
  }
  const has = (name: FetchItem["item"]): boolean => items.some(({ item }) => item === name);
  if (byUid && !has("UID")) items.unshift({ item: "UID" });
  if (since !== undefined || has("MODSEQ")) {
    session.enabled.add("CONDSTORE");
    if (!has("MODSEQ")) items.push({ item: "MODSEQ" });
  }
  const rows = rowsIn(view, set, byUid).filter(({ modseq }) => since === undefined || modseq > since);
  const marksSeen = items.some((one) => one.item === "SECTION" && !one.peek) && !view.readOnly;
  for (let next = 0; next < rows.length; next += PORTION) {
    const portion = rows.slice(next, next + PORTION);
    if (marksSeen) await markSeen(session, view, portion);
    const states = new Map(
      session.parts.mailbox.uids
        .states(
          view.folder.id,
          portion.map(({ seq }) => seq),
        )
        .map((state) => [state.uid, state]),
    );
    const sizes = session.parts.mailbox.octets.frozenSizes(
      [...states.values()].map(({ seq }) => seq),
      session.caller("fetch").userId,
    );
    session.parts.reads.note(
      session.caller("fetch"),
      [...states.values()].map(({ id }) => id),
    );
    for (const { uid } of portion) {
      const state = states.get(uid);
      // Gone since: the client is told after the command.
      if (state) await tell(session, view, state, items, sizes.get(state.seq));
      await letOthersRun();
    }
  }
  return "FETCH completed";
}

/** Those of a set that vanished since (RFC 7162 §3.2.6); all that are missing where that is no longer known. */
async function tellVanished(session: Session, view: View, set: SequenceSet, since: number): Promise<void> {
  const { uids } = session.parts.mailbox;
  const { mailboxId, folder } = view.folder;
  const present = uids.present(mailboxId, folder) ?? view.folder;
  const vanished = uids.vanishedSince(present, since) ?? gapsIn(view);
  const asked = vanished.filter((uid) => isIn(set, uid));
  if (asked.length > 0) await session.send(`* VANISHED (EARLIER) ${setOf(asked)}`);
}

/** Marks messages as read, since the client asks for their text. */
async function markSeen(session: Session, view: View, rows: readonly Numbered[]): Promise<void> {
  const { store, mailbox } = session.parts;
  const caller = session.caller("fetch");
  if (!caller.scopes.has("write")) return;
  const unread = mailbox.uids
    .states(
      view.folder.id,
      rows.map(({ seq }) => seq),
    )
    .filter(({ read }) => read === 0)
    .map(({ seq }) => seq);
  if (unread.length > 0) await store.enqueue((tx) => mailbox.changeMessages(tx, caller, unread, { read: true }));
}

/** Items that need the octets of a message. */
const NEEDS_OCTETS = new Set<FetchItem["item"]>(["ENVELOPE", "BODY", "BODYSTRUCTURE", "SECTION", "BINARY.SIZE"]);

async function tell(
  session: Session,
  view: View,
  state: ImapState,
  items: readonly FetchItem[],
  size: number | undefined,
): Promise<void> {
  const { octets } = session.parts.mailbox;
  const needs = items.some(({ item }) => NEEDS_OCTETS.has(item) || (item === "RFC822.SIZE" && size === undefined));
  const bytes = needs ? await octets.read(state.seq, session.caller("fetch").userId) : undefined;
  const sequence = sequenceOf(view, state.uid);
  if ((needs && !bytes) || sequence === undefined) return;
  const whole = Buffer.from(bytes ?? []);
  const content = contentOf(whole);
  const parts: (string | Buffer)[] = [`* ${sequence} FETCH (`];
  for (const [index, one] of items.entries()) {
    if (index > 0) parts.push(" ");
    switch (one.item) {
      case "FLAGS": {
        const flags = flagsOf(state);
        view.told.set(state.uid, flags);
        parts.push(`FLAGS ${flags}`);
        break;
      }
      case "UID":
        parts.push(`UID ${state.uid}`);
        break;
      case "MODSEQ":
        parts.push(`MODSEQ (${state.modseq})`);
        break;
      case "INTERNALDATE":
        parts.push(`INTERNALDATE ${dateTimeOf(state.filedAt)}`);
        break;
      case "RFC822.SIZE":
        parts.push(`RFC822.SIZE ${size ?? whole.length}`);
        break;
      case "EMAILID":
        parts.push(`EMAILID (${state.id})`);
        break;
      case "THREADID":
        parts.push(`THREADID (${state.threadId})`);
        break;
      case "ENVELOPE":
        parts.push(`ENVELOPE ${envelopeOf(content)}`);
        break;
      case "BODY":
      case "BODYSTRUCTURE":
        parts.push(`${one.item} ${structureOf(content, one.item === "BODYSTRUCTURE")}`);
        break;
      case "SECTION": {
        const section = one.binary ? undefined : sectionOf(content, one.section);
        const [offset, count] = one.partial ?? [0, Number.MAX_SAFE_INTEGER];
        parts.push(`${one.name}${one.partial ? `<${offset}>` : ""} `);
        const told = section?.subarray(offset, offset + count);
        if (told) parts.push(`{${told.length}}\r\n`, told);
        else parts.push("NIL");
        break;
      }
      default:
        throw new Malformed("BINARY is not offered");
    }
  }
  parts.push(")\r\n");
  await session.wire.write(
    Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part, "latin1") : part))),
  );
}
