/** SELECT and EXAMINE (RFC 9051 §6.3.2), CLOSE and UNSELECT. */

import { FLAG_BITS } from "../../mailbox/imap/uids.ts";
import { listLabels } from "../../mailbox/state/labels.ts";
import { formatSequenceSet, isInSequenceSet, Malformed, type Parser, type SequenceSet } from "../grammar.ts";
import { findImapMailboxByName, hasMailboxesBelow } from "../mailbox-names.ts";
import { type ImapSession, Refused } from "../session.ts";
import { findSequenceNumber, listUidGaps, openImapView, type View } from "../view.ts";
import { expungeDeleted, isExpungeForbidden } from "./expunge.ts";
import { formatListResponse } from "./list.ts";

const FLAGS = ["\\Seen", "\\Flagged", "\\Draft", ...FLAG_BITS.map(([name]) => name)];
/** Labels of a mailbox that are told at once; others are told with the messages that have them. */
const MOST_KEYWORDS = 200;

export async function runImapSelect(session: ImapSession, parser: Parser, examines: boolean): Promise<string> {
  parser.space();
  const name = session.nameIn(parser.astring());
  const asked = parser.take(" ") ? parameters(session, parser) : undefined;
  parser.end();
  // Whatever comes of it, nothing is selected any more.
  const hadOne = session.view !== undefined;
  session.view = undefined;
  // RFC 9051 §7.1, RFC 7162 §3.2.11.
  if (hadOne) await session.send("* OK [CLOSED] The one before");
  if (asked) await session.enableCondstore();
  const { core, folders } = session;
  const caller = session.caller("select");
  const readOnly = examines || !caller.scopes.has("write");
  const found = findImapMailboxByName(core.db, caller, name);
  if (!found) throw new Refused("No such mailbox", "NONEXISTENT");
  const opened = await folders.opened(found.reach.mailbox.id, found.folder, found.label);
  const view = openImapView(folders, found, opened, readOnly);
  const { folder } = view;
  const { mailbox: box, access } = found.reach;
  const keywords = session.keywordsIn(box.id);
  const labels = listLabels(core, caller, box.id, MOST_KEYWORDS);
  const flags = [...FLAGS, ...labels.map(({ label }) => keywords.of(label))];
  const permanentFlags = access.manage ? [...flags.filter((flag) => flag !== "\\Draft"), "\\*"] : ["\\Seen"];
  const firstUnseen = session.isRev2 ? undefined : findSequenceNumber(view, folder.firstUnseen(view.rows.length) ?? 0);
  const lines = [
    `* FLAGS (${flags.join(" ")})`,
    `* ${view.rows.length} EXISTS`,
    ...(session.isRev2 ? [formatListResponse(session, found, hasMailboxesBelow(core.db, found))] : ["* 0 RECENT"]),
    ...(firstUnseen === undefined ? [] : [`* OK [UNSEEN ${firstUnseen}] The first that is not seen`]),
    `* OK [PERMANENTFLAGS (${readOnly ? "" : permanentFlags.join(" ")})] Flags that are kept`,
    `* OK [UIDVALIDITY ${folder.uidValidity}] UIDs are valid`,
    `* OK [UIDNEXT ${folder.uidNext}] The next UID`,
    `* OK [HIGHESTMODSEQ ${folder.modseq}] The latest change`,
    `* OK [MAILBOXID (${folder.objectId})] Its id`,
  ];
  await session.send(lines.join("\r\n"));
  session.view = view;
  const known = asked?.known;
  if (known?.uidValidity === folder.uidValidity) await resync(session, view, known);
  return `[${readOnly ? "READ-ONLY" : "READ-WRITE"}] It is open`;
}

/** The state of a mailbox that the client says it knows (RFC 7162 §3.2.5). */
interface Known {
  uidValidity: number;
  modseq: number;
  /** UIDs that the client knows; undefined for all. */
  uids?: SequenceSet;
}

/** CONDSTORE and QRESYNC. */
function parameters(session: ImapSession, parser: Parser): { known: Known | undefined } {
  let known: Known | undefined;
  parser.list(() => {
    const name = parser.atom().toUpperCase();
    if (name === "CONDSTORE") return;
    if (name !== "QRESYNC") throw new Malformed("unknown parameter");
    if (!session.enabled.has("QRESYNC")) throw new Malformed("QRESYNC is not enabled");
    parser.expect(" (");
    const uidValidity = parser.number();
    parser.space();
    known = { uidValidity, modseq: parser.number() };
    if (parser.take(" ") && !parser.next("(")) {
      known.uids = parser.sequenceSet();
      parser.take(" ");
    }
    // Pairs of sequence numbers and UIDs make the answer shorter for servers that forget what vanished.
    if (parser.next("(")) parser.list(() => parser.sequenceSet());
    parser.expect(")");
  });
  return { known };
}

/** Tells what vanished and what changed since the client was here. */
async function resync(session: ImapSession, view: View, { modseq, uids: known }: Known): Promise<void> {
  const isKnown = (uid: number): boolean => !known || isInSequenceSet(known, uid);
  // What has just been counted is told as vanished now, not earlier.
  const vanished = (view.folder.vanishedSince(modseq) ?? listUidGaps(view)).filter(
    (uid) => isKnown(uid) && findSequenceNumber(view, uid) === undefined,
  );
  if (vanished.length > 0) await session.send(`* VANISHED (EARLIER) ${formatSequenceSet(vanished)}`);
  const changed = view.folder.changedSince(modseq).filter(({ uid }) => isKnown(uid));
  const seqs = changed.map(({ seq }) => seq);
  await session.tellFlags(view, seqs, session.keywordsIn(view.folder.mailboxId));
}

export async function runImapClose(session: ImapSession, parser: Parser, expunges: boolean): Promise<string> {
  parser.end();
  const view = session.selected();
  const removes = expunges && !view.readOnly && view.named.reach.access.manage;
  if (removes && !isExpungeForbidden(session, view)) await expungeDeleted(session, view);
  session.view = undefined;
  return "Closed";
}
