/**
 * MOVE (RFC 6851), within one mailbox: a message is in one folder. COPY is refused for that reason, and so is a move to
 * another mailbox.
 */
import type { Parser } from "../grammar.ts";

import { named } from "../names.ts";
import { Refused, type Session } from "../session.ts";
import { rowsIn } from "../view.ts";
import { PORTION } from "./expunge.ts";

export async function move(session: Session, parser: Parser, byUid: boolean): Promise<string> {
  parser.space();
  const set = parser.sequenceSet();
  parser.space();
  const name = parser.astring();
  parser.end();
  const view = session.selected({ toChange: true });
  const caller = session.writer("move");
  const { store, mailbox } = session.parts;
  const { uids } = mailbox;
  const target = named(store.db, caller, name);
  if (!target) throw new Refused("No such mailbox", "TRYCREATE");
  const { mailboxId } = view.folder;
  if (target.reach.mailbox.id !== mailboxId) throw new Refused("Messages stay in their mailbox", "CANNOT");
  const rows = rowsIn(view, set, byUid);
  const { uidValidity } = await uids.opened(mailboxId, target.folder);
  const moved: { from: number; to: number }[] = [];
  for (let next = 0; next < rows.length; next += PORTION) {
    const portion = rows.slice(next, next + PORTION);
    moved.push(
      ...(await store.enqueue((tx) => {
        const states = uids.states(
          view.folder.id,
          portion.map(({ seq }) => seq),
        );
        mailbox.changeMessages(
          tx,
          caller,
          states.map(({ seq }) => seq),
          { folder: target.folder },
        );
        return states.map(({ uid, seq }) => ({ from: uid, to: uids.uidOf(seq)?.uid ?? uid }));
      })),
    );
  }
  if (moved.length > 0 && target.folder !== view.folder.folder) {
    // Both in the order of the pairs (RFC 4315 §3).
    const lists = [moved.map(({ from }) => from), moved.map(({ to }) => to)].map((list) => list.join(","));
    await session.send(`* OK [COPYUID ${uidValidity} ${lists.join(" ")}] Moved`);
  }
  return "MOVE completed";
}

export async function copy(_: Session): Promise<string> {
  throw new Refused("A message is in one folder: move it", "CANNOT");
}
