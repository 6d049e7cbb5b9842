/** STORE and UID STORE (RFC 9051 §6.4.6, with UNCHANGEDSINCE of RFC 7162). Keywords are labels of whole conversations. */
import { changeImapFlags, changeMessages } from "../../mailbox/changing/message-changes.ts";
import { labelThreads } from "../../mailbox/changing/threads.ts";
import { BIT_OF, listThreadIds } from "../../mailbox/imap/uids.ts";
import { formatSequenceSet, Malformed, OF_PROGRAMS, type Parser } from "../grammar.ts";
import type { Keywords } from "../keywords.ts";
import { type ImapSession, Refused, readKeywordLabel } from "../session.ts";
import { findSequenceNumber, isSetBeyondView, listRowStates, listRowsInSequenceSet } from "../view.ts";
import { PORTION } from "./expunge.ts";

const ALL_BITS = [...BIT_OF.values()].reduce((all, bit) => all | bit, 0);

interface Wanted {
  read?: boolean;
  flagged?: boolean;
  add: number;
  remove: number;
  addLabels: string[];
  removeLabels: string[];
}

/** Flags and labels that the command sets and takes away. @throws Refused, Malformed */
function wantedBy(mode: "+" | "-" | "", flags: readonly string[], keywords: Keywords): Wanted {
  const wanted: Wanted = { add: 0, remove: 0, addLabels: [], removeLabels: [] };
  const sets = mode !== "-";
  if (mode === "") Object.assign(wanted, { read: false, flagged: false, remove: ALL_BITS });
  for (const flag of flags) {
    const lower = flag.toLowerCase();
    const bit = BIT_OF.get(lower);
    if (lower === "\\seen") wanted.read = sets;
    else if (lower === "\\flagged") wanted.flagged = sets;
    else if (lower === "\\draft" || lower === "\\recent" || (bit === undefined && OF_PROGRAMS.test(flag))) continue;
    else if (bit !== undefined) wanted[sets ? "add" : "remove"] |= bit;
    else if (flag.startsWith("\\")) throw new Malformed(`unknown flag ${flag}`);
    else {
      wanted[sets ? "addLabels" : "removeLabels"].push(readKeywordLabel(keywords, flag));
    }
  }
  return wanted;
}

export async function runImapStore(session: ImapSession, parser: Parser, byUid: boolean): Promise<string> {
  parser.space();
  const set = parser.sequenceSet();
  parser.space();
  let since: number | undefined;
  if (parser.next("(")) {
    parser.expect("(UNCHANGEDSINCE ");
    since = parser.number();
    parser.expect(") ");
  }
  const mode = parser.take("+") ? "+" : parser.take("-") ? "-" : "";
  parser.expect("FLAGS");
  const silent = parser.take(".SILENT");
  parser.space();
  const flags = parser.flags();
  parser.end();
  session.writer("store");
  const view = session.selected({ toChange: true });
  const wanted = wantedBy(mode, flags, session.keywordsIn(view.folder.mailboxId));
  if (!byUid && isSetBeyondView(view, set)) throw new Malformed("no such message");
  const { read, flagged, add, remove, addLabels, removeLabels } = wanted;
  const isAll = flagged !== undefined || add !== 0 || remove !== 0 || addLabels.length > 0 || removeLabels.length > 0;
  if (isAll && !view.named.reach.access.manage)
    throw new Refused("Your share of the mailbox lets you set \\Seen alone", "NOPERM");
  if (since !== undefined) await session.enableCondstore();
  const { core } = session;
  const { folder } = view;
  const failed: number[] = [];
  const rows = listRowsInSequenceSet(view, set, byUid);
  await folder.updated();
  for (let next = 0; next < rows.length; next += PORTION) {
    const portion = rows.slice(next, next + PORTION);
    const changed = await core.store.enqueue((tx) => {
      const caller = session.writer("store");
      const now = core.now();
      folder.update(tx);
      const states = listRowStates(view, portion);
      const isStale = ({ modseq }: { modseq: number }): boolean => since !== undefined && modseq > since;
      const open = states.filter((state) => !isStale(state));
      const own = open.map(({ seq }) => seq);
      if (own.length > 0) {
        if (read !== undefined || flagged !== undefined) {
          const marks = { ...(read !== undefined && { read }), ...(flagged !== undefined && { flagged }) };
          changeMessages(tx, caller, own, marks, now);
        }
        if (add !== 0 || remove !== 0) changeImapFlags(tx, caller, folder, own, { add, remove: remove & ~add }, now);
        const labels = mode === "" && isAll ? { labels: addLabels } : { addLabels, removeLabels };
        const labelled = open.filter((state) => needsLabels(state, wanted, mode));
        labelThreads(tx, caller, [...listThreadIds(tx, labelled).values()], labels, now);
        folder.update(tx);
      }
      return { own, stale: states.filter(isStale).map(({ uid }) => uid) };
    });
    failed.push(...changed.stale);
    const keywords = session.keywordsIn(view.folder.mailboxId);
    if (silent && !session.enabled.has("CONDSTORE")) {
      for (const state of folder.flagStates(changed.own)) view.sentFlags.set(state.uid, keywords.formatFlags(state));
    } else await session.tellFlags(view, changed.own, keywords);
  }
  if (failed.length === 0) return "STORE completed";
  const numbers = byUid ? failed : failed.flatMap((uid) => findSequenceNumber(view, uid) ?? []);
  return `[MODIFIED ${formatSequenceSet(numbers.sort((a, b) => a - b))}] Some have changed since`;
}

/** Whether the labels of a message's conversation are to change. */
const needsLabels = (
  { labels }: { labels: readonly string[] },
  { addLabels, removeLabels }: Wanted,
  mode: string,
): boolean => addLabels.length > 0 || removeLabels.length > 0 || (mode === "" && labels.length > 0);
