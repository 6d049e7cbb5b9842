/**
 * EXPUNGE and UID EXPUNGE (RFC 9051 §6.4.3, §6.4.9). What is marked as deleted in Trash or Junk is deleted for good; elsewhere it
 * moves to Trash.
 */
import { IMAP_FLAGS } from "../../mailbox/uids.ts";
import type { Parser } from "../grammar.ts";
import type { Session } from "../session.ts";
import { rowsIn, sequenceOf, type View } from "../view.ts";

/** Messages of one transaction. */
export const PORTION = 100;

export async function expunge(session: Session, parser: Parser, byUid: boolean): Promise<string> {
  session.writer("expunge");
  const view = session.selected({ toChange: true });
  let only: Set<number> | undefined;
  if (byUid) {
    parser.space();
    only = new Set(rowsIn(view, parser.sequenceSet(), true).map(({ uid }) => uid));
  }
  parser.end();
  const removed = await expungeDeleted(session, view, only);
  return removed ? `${await session.tellRemoved(view)} EXPUNGE completed` : "EXPUNGE completed";
}

/** `only`: UIDs. Returns whether there were any. */
export async function expungeDeleted(session: Session, view: View, only?: ReadonlySet<number>): Promise<boolean> {
  const caller = session.writer("expunge");
  const { store, mailbox } = session.parts;
  const { folder, id } = view.folder;
  const isForGood = folder === "trash" || folder === "spam";
  // The client marked none that it was not told of.
  const marked = mailbox.uids
    .markedDeleted(id)
    .filter(({ uid }) => sequenceOf(view, uid) !== undefined && (only?.has(uid) ?? true));
  for (let next = 0; next < marked.length; next += PORTION) {
    const seqs = marked.slice(next, next + PORTION).map(({ seq }) => seq);
    await store.enqueue((tx) => {
      const still = mailbox.uids.states(id, seqs).filter(({ flags }) => flags & IMAP_FLAGS.deleted);
      if (still.length === 0) return;
      const deleted = still.map(({ seq }) => seq);
      if (isForGood) mailbox.expungeMessages(tx, caller, deleted);
      else mailbox.changeMessages(tx, caller, deleted, { folder: "trash" });
    });
  }
  return marked.length > 0;
}
