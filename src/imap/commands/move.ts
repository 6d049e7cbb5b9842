/**
 * MOVE (RFC 6851) and COPY (RFC 9051 §6.4.7). A mailbox has a message once, in one folder: within it, both move. Into another
 * mailbox messages are filed by the rules of import, and with MOVE they leave their own in the same transaction. What is
 * refused beforehand changes nothing. A COPY that fails later takes back what it did; of a MOVE, the client is told what it
 * moved.
 */

import type { Caller } from "../../access/caller.ts";
import { letOthersRun } from "../../base/pause.ts";
import type { FiledInto } from "../../mailbox/carrying.ts";
import type { Numbered } from "../../mailbox/uids.ts";
import { Malformed, type Parser, setOf } from "../grammar.ts";
import { type Named, named } from "../names.ts";
import { Refused, type Session } from "../session.ts";
import { isBeyond, rowsIn, statesOf, type View } from "../view.ts";
import { PORTION } from "./expunge.ts";

/** Messages that are prepared at once; each is in memory. */
const CARRIED_AT_ONCE = 4;

/** UIDs of a message (messages.seq) before and after. */
interface Pair {
  seq: number;
  from: number;
  to: number;
  /** What was filed in another mailbox. */
  filed?: FiledInto;
}

export const move = (session: Session, parser: Parser, byUid: boolean): Promise<string> =>
  transfer(session, parser, byUid, true);

export const copy = (session: Session, parser: Parser, byUid: boolean): Promise<string> =>
  transfer(session, parser, byUid, false);

async function transfer(session: Session, parser: Parser, byUid: boolean, moves: boolean): Promise<string> {
  parser.space();
  const set = parser.sequenceSet();
  parser.space();
  const name = parser.astring();
  parser.end();
  const caller = session.writer(moves ? "move" : "copy");
  const view = session.selected({ toChange: moves });
  if (!byUid && isBeyond(view, set)) throw new Malformed("no such message");
  const { store, mailbox } = session.parts;
  const target = named(store.db, caller, name);
  if (!target) throw new Refused("No such mailbox", "TRYCREATE");
  const isWithin = target.reach.mailbox.id === view.folder.mailboxId;
  const leaves = moves || isWithin;
  if (isWithin && view.readOnly) throw new Refused("The mailbox is open to read only", "READ-ONLY");
  if (!target.reach.access.manage) throw new Refused("Your share of the mailbox lets you file nothing in it", "NOPERM");
  const rows = rowsIn(view, set, byUid);
  // An app that copies, and then deletes what it copied, would lose it.
  if (isWithin && target.folder === view.folder.folder) throw new Refused("It is in that mailbox already", "CANNOT");
  await requireTransferable(session, caller, view, rows, target, leaves ? "manage" : "read");
  const { uidValidity } = await mailbox.uids.opened(target.reach.mailbox.id, target.folder);
  const done: Pair[] = [];
  try {
    if (isWithin) await moveWithin(session, caller, view, rows, target, done);
    else await carry(session, caller, view, rows, target, moves, done);
  } catch (error) {
    if (!moves) await restore(session, caller, view, target, done);
    if (done.length > 0) await session.send(`* OK ${copyUid(uidValidity, done)} Moved`);
    throw error;
  }
  if (done.length === 0) return moves ? "MOVE completed" : "COPY completed";
  // RFC 9051 §7.1: of MOVE, before EXPUNGE.
  if (!moves) return `${copyUid(uidValidity, done)} COPY completed`;
  await session.send(`* OK ${copyUid(uidValidity, done)} Moved`);
  return `${await session.tellRemoved(view)} MOVE completed`;
}

/** Both sets are in the order of the pairs (RFC 4315 §3). */
const copyUid = (uidValidity: number, done: readonly Pair[]): string =>
  `[COPYUID ${uidValidity} ${setOf(done.map(({ from }) => from))} ${setOf(done.map(({ to }) => to))}]`;

/** Nothing is done in part that can be refused as a whole. @throws AppError, Refused */
async function requireTransferable(
  session: Session,
  caller: Caller,
  view: View,
  rows: readonly Numbered[],
  { reach, folder }: Named,
  needed: "read" | "manage",
): Promise<void> {
  const { mailbox } = session.parts;
  let bytes = 0;
  for (let next = 0; next < rows.length; next += PORTION) {
    const there = statesOf(mailbox.uids, view, rows.slice(next, next + PORTION));
    bytes += there.reduce((sum, { size }) => sum + size, 0);
    mailbox.requireMovable(
      caller,
      there.map(({ seq }) => seq),
      folder,
      needed,
    );
    await letOthersRun();
  }
  const isOther = reach.mailbox.id !== view.folder.mailboxId;
  if (isOther && !mailbox.hasRoom({ mailboxId: reach.mailbox.id, exempt: false }, bytes)) {
    throw new Refused("The mailbox is full", "OVERQUOTA");
  }
}

async function moveWithin(
  session: Session,
  caller: Caller,
  view: View,
  rows: readonly Numbered[],
  { folder }: Named,
  done: Pair[],
): Promise<void> {
  const { store, mailbox } = session.parts;
  for (let next = 0; next < rows.length; next += PORTION) {
    const portion = rows.slice(next, next + PORTION);
    const moved = await store.enqueue((tx) => {
      const states = statesOf(mailbox.uids, view, portion);
      mailbox.changeMessages(
        tx,
        caller,
        states.map(({ seq }) => seq),
        { folder },
      );
      return states.map(({ uid, seq }) => ({ seq, from: uid, to: mailbox.uids.uidOf(seq)?.uid ?? uid }));
    });
    done.push(...moved);
  }
}

async function carry(
  session: Session,
  caller: Caller,
  view: View,
  rows: readonly Numbered[],
  { folder, reach }: Named,
  moves: boolean,
  done: Pair[],
): Promise<void> {
  const { store, mailbox, parser } = session.parts;
  const { folder: from } = view.folder;
  const to = { mailboxId: reach.mailbox.id, address: reach.mailbox.address, folder };
  for (let next = 0; next < rows.length; next += CARRIED_AT_ONCE) {
    const portion = rows.slice(next, next + CARRIED_AT_ONCE);
    const prepared = await Promise.all(
      portion.map(async ({ seq, uid }) => {
        const bytes = await mailbox.fileToCarry(seq, from);
        return bytes && { seq, uid, message: await parser.prepareKept(bytes) };
      }),
    );
    const carried = await store.enqueue((tx) =>
      prepared.flatMap((one) => {
        // Gone since, or written anew.
        if (!one || mailbox.uids.uidOf(one.seq)?.uid !== one.uid) return [];
        const filed = mailbox.carryMessage(tx, caller, { seq: one.seq, from, message: one.message, to, moves });
        const numbered = filed && mailbox.uids.uidOf(filed.seq);
        return numbered ? [{ seq: filed.seq, from: one.uid, to: numbered.uid, filed }] : [];
      }),
    );
    done.push(...carried);
  }
}

/** Takes back what a COPY did, but for what changed since, and for all once that fails. Takes it from `done`. */
async function restore(
  session: Session,
  caller: Caller,
  { folder: source }: View,
  { folder }: Named,
  done: Pair[],
): Promise<void> {
  const { store, mailbox } = session.parts;
  try {
    while (done.length > 0) {
      const portion = done.slice(-PORTION);
      await store.enqueue((tx) => {
        const still = portion.filter(({ seq, to }) => {
          const present = mailbox.uids.uidOf(seq);
          return present?.folder === folder && present.uid === to;
        });
        const within = still.filter(({ filed }) => !filed).map(({ seq }) => seq);
        if (within.length > 0) mailbox.changeMessages(tx, caller, within, { folder: source.folder });
        for (const { filed } of still) if (filed) mailbox.takeBack(tx, caller, filed);
      });
      done.length -= portion.length;
    }
  } catch (error) {
    session.parts.log.error("a COPY that failed could not be taken back", { trace: session.trace, error });
  }
}
