/**
 * EXPUNGE and UID EXPUNGE (RFC 9051 §6.4.3, §6.4.9). A message marked as deleted in Trash or Junk is deleted for good, which
 * only people may do; elsewhere it moves to Trash. In the mailbox of a label its conversation loses the label.
 */
import { changeMessages, expungeMessages, fileMessagesUnderLabel } from "../../mailbox/changing/message-changes.ts";
import { labelThreads } from "../../mailbox/changing/threads.ts";
import { IMAP_FLAGS, type ImapState, listThreadIds } from "../../mailbox/imap/uids.ts";
import type { Parser } from "../grammar.ts";
import { type ImapSession, Refused } from "../session.ts";
import { findSequenceNumber, listRowsInSequenceSet, type View } from "../view.ts";

/** Messages of one transaction. */
export const PORTION = 100;

export async function runImapExpunge(session: ImapSession, parser: Parser, byUid: boolean): Promise<string> {
  session.writer("expunge");
  const view = session.selected({ toChange: true });
  let only: Set<number> | undefined;
  if (byUid) {
    parser.space();
    only = new Set(listRowsInSequenceSet(view, parser.sequenceSet(), true).map(({ uid }) => uid));
  }
  parser.end();
  if (isExpungeForbidden(session, view)) {
    throw new Refused(
      "A key deletes nothing for good: a person does, in the web app or with an app password",
      "NOPERM",
    );
  }
  const removed = await expungeDeleted(session, view, only);
  return removed ? `${await session.tellRemoved(view)} EXPUNGE completed` : "EXPUNGE completed";
}

const deletesForGood = ({ folder }: View): boolean => folder.folder === "trash" || folder.folder === "spam";

/** Whether who signed in can remove nothing from there: a key, where it would be for good. */
export const isExpungeForbidden = (session: ImapSession, view: View): boolean =>
  session.present().keyId !== undefined && deletesForGood(view);

/** `only`: UIDs. Returns whether there were any. */
export async function expungeDeleted(session: ImapSession, view: View, only?: ReadonlySet<number>): Promise<boolean> {
  const { core } = session;
  const folder = view.folder.present() ?? view.folder;
  const { label } = folder;
  // The client marked none that it was not told of.
  const marked = folder
    .markedDeleted()
    .filter(({ uid }) => findSequenceNumber(view, uid) !== undefined && (only?.has(uid) ?? true));
  for (let next = 0; next < marked.length; next += PORTION) {
    const seqs = marked.slice(next, next + PORTION).map(({ seq }) => seq);
    await core.store.enqueue((tx) => {
      const now = core.now();
      const caller = session.writer("expunge");
      const still = folder.states(seqs).filter(({ flags }) => flags & IMAP_FLAGS.deleted);
      if (still.length === 0) return;
      const listStateSeqs = (some: readonly ImapState[]): number[] => some.map(({ seq }) => seq);
      if (label !== undefined)
        labelThreads(tx, caller, [...listThreadIds(tx, still).values()], { removeLabels: [label] }, now);
      else if (deletesForGood(view)) expungeMessages(tx, caller, listStateSeqs(still), now);
      else {
        // An app that copied it to a label, and deletes it here, moves it there.
        const { moved = [], deleted = [] } = Object.groupBy(still, ({ uid }) =>
          session.wasCopied(folder, uid) ? "moved" : "deleted",
        );
        fileMessagesUnderLabel(tx, caller, listStateSeqs(moved), { leaves: true }, now);
        changeMessages(tx, caller, listStateSeqs(deleted), { folder: "trash" }, now);
      }
    });
  }
  return marked.length > 0;
}
