/**
 * MOVE (RFC 6851) and COPY (RFC 9051 §6.4.7). A mailbox has a message once, in one folder, so both commands move a message
 * within its mailbox. Into the mailbox of a label, both add the label, and MOVE from a folder also archives. MOVE out of the
 * mailbox of a label removes the label. Into another mailbox, messages are filed by the rules of import, and MOVE removes the
 * originals in the same transaction. A command that is refused beforehand changes nothing. A COPY that fails later is taken
 * back; after a MOVE that fails, the client is told which messages moved.
 */

import type { Caller } from "../../access/caller.ts";
import { letOthersRun } from "../../base/pause.ts";
import { requireKeyLimitLeft } from "../../journal/limits.ts";
import {
  changeMessages,
  chooseFolderUnderLabel,
  fileMessagesUnderLabel,
  requireMovable,
} from "../../mailbox/changing/message-changes.ts";
import { labelThreads } from "../../mailbox/changing/threads.ts";
import { carryMessage, type FiledInto, fileToCarry, undoImapFiling } from "../../mailbox/imap/carrying.ts";
import { type ImapFolder, type ImapState, listThreadIds, type Numbered } from "../../mailbox/imap/uids.ts";
import { labelKey, patchedLabels } from "../../mailbox/state/labels.ts";
import { hasStorageForMessage } from "../../mailbox/state/mailboxes.ts";
import type { Folder } from "../../store/schema.ts";
import { formatSequenceSet, Malformed, type Parser } from "../grammar.ts";
import { findImapMailboxByName, type Named } from "../mailbox-names.ts";
import { type ImapSession, Refused } from "../session.ts";
import { isSetBeyondView, listRowStates, listRowsInSequenceSet, type View } from "../view.ts";
import { PORTION } from "./expunge.ts";

/** Messages that are prepared at once; each is in memory. */
const CARRIED_AT_ONCE = 4;

/** A message before, and its UID afterwards. */
interface Pair {
  from: ImapState;
  to: number;
  /** The folder that it is in then. */
  folder: Folder;
  /** Result of filing the message in another mailbox; undefined within its own. */
  filed?: FiledInto | undefined;
}

export const runImapMove = (session: ImapSession, parser: Parser, byUid: boolean): Promise<string> =>
  transfer(session, parser, byUid, true);

export const runImapCopy = (session: ImapSession, parser: Parser, byUid: boolean): Promise<string> =>
  transfer(session, parser, byUid, false);

const chooseOperation = (moves: boolean): string => (moves ? "move" : "copy");

async function transfer(session: ImapSession, parser: Parser, byUid: boolean, moves: boolean): Promise<string> {
  parser.space();
  const set = parser.sequenceSet();
  parser.space();
  const name = session.nameIn(parser.astring());
  parser.end();
  const caller = session.writer(chooseOperation(moves));
  const view = session.selected({ toChange: moves });
  if (!byUid && isSetBeyondView(view, set)) throw new Malformed("no such message");
  const { core, folders } = session;
  const target = findImapMailboxByName(core.db, caller, name);
  if (!target) throw new Refused("No such mailbox", "TRYCREATE");
  const isWithin = target.reach.mailbox.id === view.folder.mailboxId;
  const leaves = moves || isWithin;
  if (isWithin && view.readOnly) throw new Refused("The mailbox is open to read only", "READ-ONLY");
  if (!target.reach.access.manage) throw new Refused("Your share of the mailbox lets you file nothing in it", "NOPERM");
  const rows = listRowsInSequenceSet(view, set, byUid);
  await view.folder.updated();
  const opened = await folders.opened(target.reach.mailbox.id, target.folder, target.label);
  // An app that copies, and then deletes what it copied, would lose it.
  if (opened.objectId === view.folder.objectId) throw new Refused("It is in that mailbox already", "CANNOT");
  const archives = !isWithin || (moves && view.folder.folder !== undefined);
  const to: Target = {
    ...target,
    opened,
    chooseTargetFolder: (state) => target.folder ?? chooseFolderUnderLabel(state, archives),
  };
  await requireTransferable(session, caller, view, rows, to, leaves ? "manage" : "read");
  const done: Pair[] = [];
  try {
    if (isWithin) await moveWithin(session, view, rows, to, moves, done);
    else await carry(session, view, rows, to, moves, done);
  } catch (error) {
    if (!moves) await restore(session, { ...caller, takesBack: true }, to, done);
    if (done.length > 0) await session.send(`* OK ${copyUid(opened, done)} Moved`);
    throw error;
  }
  if (done.length === 0) return moves ? "MOVE completed" : "COPY completed";
  // RFC 9051 §7.1: of MOVE, before EXPUNGE.
  if (!moves) {
    if (isWithin && target.label !== undefined) for (const { from } of done) session.noteCopied(view.folder, from.uid);
    return `${copyUid(opened, done)} COPY completed`;
  }
  await session.send(`* OK ${copyUid(opened, done)} Moved`);
  return `${await session.tellRemoved(view)} MOVE completed`;
}

/** The code with the UIDs before and after; both sets are in the order of the pairs (RFC 4315 §3). */
const copyUid = ({ uidValidity }: ImapFolder, done: readonly Pair[]): string =>
  `[COPYUID ${uidValidity} ${formatSequenceSet(done.map(({ from }) => from.uid))} ${formatSequenceSet(done.map(({ to }) => to))}]`;

/** The mailbox that messages go to. */
interface Target extends Named {
  opened: ImapFolder;
  /** The folder that a message is in then. */
  chooseTargetFolder(state: ImapState): Folder;
}

/** Nothing is done in part that can be refused as a whole. @throws AppError, Refused */
async function requireTransferable(
  session: ImapSession,
  caller: Caller,
  view: View,
  rows: readonly Numbered[],
  { reach, label, chooseTargetFolder }: Target,
  needed: "read" | "manage",
): Promise<void> {
  const { core } = session;
  const isOther = reach.mailbox.id !== view.folder.mailboxId;
  let bytes = 0;
  /** Conversations that move within the mailbox, as the journal counts them; another may have what comes already. */
  let changes = 0;
  for (let next = 0; next < rows.length; next += PORTION) {
    const there = listRowStates(view, rows.slice(next, next + PORTION));
    bytes += there.reduce((sum, { size }) => sum + size, 0);
    if (label !== undefined) for (const { labels } of there) patchedLabels(labels, { addLabels: [label] });
    // What a label alone is given to stays where it is.
    const moved = there.filter((state) => isOther || label === undefined || chooseTargetFolder(state) !== state.folder);
    for (const [folder, some] of Map.groupBy(moved, chooseTargetFolder)) {
      requireMovable(
        core.db,
        caller,
        some.map(({ seq }) => seq),
        folder,
        needed,
      );
      if (!isOther) changes += new Set(some.flatMap((one) => (one.folder === folder ? [] : one.threadSeq))).size;
    }
    await letOthersRun();
  }
  requireKeyLimitLeft(core.db, caller, "changesPerHour", changes, core.now());
  if (isOther && !hasStorageForMessage(core, { mailboxId: reach.mailbox.id, exempt: false }, bytes)) {
    throw new Refused("The mailbox is full", "OVERQUOTA");
  }
}

/** The mailbox as it is now: a label may end between two portions, and its messages stay then. @throws Refused */
function requirePresent({ folder }: View): ImapFolder {
  const present = folder.present();
  if (!present) throw new Refused("The label is gone", "NONEXISTENT");
  return present;
}

async function moveWithin(
  session: ImapSession,
  view: View,
  rows: readonly Numbered[],
  { folder, label, opened }: Target,
  moves: boolean,
  done: Pair[],
): Promise<void> {
  const { core } = session;
  for (let next = 0; next < rows.length; next += PORTION) {
    const portion = rows.slice(next, next + PORTION);
    const moved = await core.store.enqueue((tx) => {
      const caller = session.writer(chooseOperation(moves));
      const now = core.now();
      const { label: source } = requirePresent(view);
      const states = listRowStates(view, portion);
      const seqs = states.map(({ seq }) => seq);
      if (label !== undefined)
        fileMessagesUnderLabel(tx, caller, seqs, { label, leaves: moves && source === undefined }, now);
      if (folder !== undefined) changeMessages(tx, caller, seqs, { folder }, now);
      // In Trash and Junk it is under no label, and the others of its conversation keep theirs.
      if (moves && source !== undefined && folder !== "trash" && folder !== "spam") {
        labelThreads(tx, caller, [...listThreadIds(tx, states).values()], { removeLabels: [source] }, now);
      }
      opened.update(tx, seqs);
      const there = new Map(opened.states(seqs).map((state) => [state.seq, state]));
      return states.flatMap((from) => {
        const to = there.get(from.seq);
        return to ? [{ from, to: to.uid, folder: to.folder }] : [];
      });
    });
    done.push(...moved);
  }
}

async function carry(
  session: ImapSession,
  view: View,
  rows: readonly Numbered[],
  { reach, label, opened, chooseTargetFolder }: Target,
  moves: boolean,
  done: Pair[],
): Promise<void> {
  const { core } = session;
  const { id: mailboxId, address } = reach.mailbox;
  for (let next = 0; next < rows.length; next += CARRIED_AT_ONCE) {
    const portion = listRowStates(view, rows.slice(next, next + CARRIED_AT_ONCE));
    const prepared = await Promise.all(
      portion.map(async (state) => {
        const bytes = await fileToCarry(core, state.seq, state.folder);
        return bytes && { from: state, message: await core.parser.prepareTransferred(bytes) };
      }),
    );
    const carried = await core.store.enqueue((tx) => {
      const caller = session.writer(chooseOperation(moves));
      requirePresent(view);
      return prepared.flatMap((one) => {
        // Gone since, or written anew.
        if (!one || view.folder.uidIn(one.from.seq) !== one.from.uid) return [];
        const { from, message } = one;
        const to = { mailboxId, address, folder: chooseTargetFolder(from), label };
        const filed = carryMessage(core, tx, caller, { seq: from.seq, from: from.folder, message, to, moves });
        opened.update(tx);
        const [there] = filed ? opened.states([filed.seq]) : [];
        return there ? [{ from, to: there.uid, folder: there.folder, filed }] : [];
      });
    });
    done.push(...carried);
  }
}

/** Takes back what a COPY did, but for what changed since, and for all once that fails. Takes it from `done`. */
async function restore(session: ImapSession, caller: Caller, { label, opened }: Target, done: Pair[]): Promise<void> {
  const { core } = session;
  const had = ({ labels }: ImapState): boolean => labels.some((one) => labelKey(one) === labelKey(label ?? ""));
  try {
    while (done.length > 0) {
      const portion = done.slice(-PORTION);
      await core.store.enqueue((tx) => {
        const now = core.now();
        opened.update(tx);
        const seqs = portion.map(({ from, filed }) => filed?.seq ?? from.seq);
        const present = new Map(opened.states(seqs).map(({ uid, folder }) => [uid, folder]));
        const still = portion.filter(({ to, folder }) => present.get(to) === folder);
        const moved = still.flatMap(({ from, folder, filed }) => (filed || from.folder === folder ? [] : [from]));
        for (const [folder, some] of Map.groupBy(moved, (state) => state.folder)) {
          changeMessages(
            tx,
            caller,
            some.map(({ seq }) => seq),
            { folder },
            now,
          );
        }
        if (label !== undefined) {
          const given = portion.filter(({ from, to, filed }) => !filed && present.has(to) && !had(from));
          const ids = listThreadIds(
            tx,
            given.map(({ from }) => from),
          );
          labelThreads(tx, caller, [...ids.values()], { removeLabels: [label] }, now);
        }
        for (const { filed } of still) if (filed) undoImapFiling(tx, caller, filed, now);
      });
      done.length -= portion.length;
    }
  } catch (error) {
    core.log.error("a COPY that failed could not be taken back", { trace: session.trace, error });
  }
}
