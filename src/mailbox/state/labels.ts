/**
 * Labels of conversations: compared without case, stored as first written, in the order they were added. The only
 * writer of thread_labels and label_colours. A label that is renamed or removed takes its colour and its mailbox of mail apps with
 * it.
 */
import { and, asc, eq, inArray, sql } from "drizzle-orm";
import { type Caller, findReachableMailboxes, outOfReachError, requireAccess } from "../../access/caller.ts";
import { reloadCaller } from "../../access/credentials.ts";
import { AppError } from "../../base/errors.ts";
import { letOthersRun } from "../../base/pause.ts";
import { addJournalEntry } from "../../journal/entries.ts";
import { noteFieldsSetInThread, settleMailboxLabelChanges, type Touch } from "../../journal/key-changes.ts";
import type { Core, Reader } from "../../store/core.ts";
import {
  imapLabels,
  type LabelColour,
  labelColours,
  mailboxLabels,
  threadLabels,
  threads,
} from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { reachedMailbox } from "./mailboxes.ts";

/** Most labels that addLabels may accumulate on a conversation; a request's own limit is fixed (rules: Labels). */
export const MOST_LABELS = 100;

/**
 * The form in which labels that differ only by case are equal. Upper case comes first, because it merges letters that
 * lower case keeps apart (ß, ς).
 */
export const labelKey = (label: string): string => label.trim().normalize("NFC").toUpperCase().toLowerCase();

/** Conversations looked at in one transaction, all of them in mailboxes of anybody. */
const PORTION = 200;
/** Conversations looked at in one read without a change; a read takes some ms. */
const LOOKED_AT = 1_000;

const statements = {
  placed: statement<PlacedLabel & { key: string }, [threadSeq: number]>(
    "SELECT label_key AS key, label, position FROM thread_labels WHERE thread_seq = ?",
  ),
  remove: statement<unknown, [threadSeq: number, key: string]>(
    "DELETE FROM thread_labels WHERE thread_seq = ? AND label_key = ?",
  ),
  add: statement<unknown, [threadSeq: number, key: string, label: string, position: number]>(
    "INSERT INTO thread_labels (thread_seq, label_key, label, position) VALUES (?, ?, ?, ?)",
  ),
  // A bare column beside max() has the value of the row with the maximum: the spelling that most conversations have.
  across: statement<LabelInReach, [mailboxIds: string, after: string, limit: number]>(
    `SELECT label_key AS key, label, sum(threads) AS threads, max(threads) FROM mailbox_labels
     WHERE mailbox_id IN (SELECT value FROM json_each(?1)) AND label_key > ?2
     GROUP BY label_key ORDER BY label_key LIMIT ?3`,
  ),
  labelledHere: statement<{ seq: number; here: number }, [mailboxId: string, key: string, after: number]>(
    `SELECT thread_seq AS seq, mailbox_id = ?1 AS here FROM thread_labels CROSS JOIN threads ON threads.seq = thread_seq
     WHERE label_key = ?2 AND thread_seq > ?3 ORDER BY thread_seq LIMIT ${LOOKED_AT}`,
  ),
  hasAny: statement<{ has: 1 }, [mailboxId: string]>(
    "SELECT 1 AS has FROM mailbox_labels WHERE mailbox_id = ? LIMIT 1",
  ),
  spell: statement<unknown, [label: string, key: string, mailboxIds: string]>(
    `UPDATE mailbox_labels SET label = ?1
     WHERE label_key = ?2 AND mailbox_id IN (SELECT value FROM json_each(?3)) AND label <> ?1`,
  ),
};

const queries = prepared((db) => ({
  ofThreads: db
    .select({ threadSeq: threadLabels.threadSeq, label: threadLabels.label })
    .from(threadLabels)
    .where(inArray(threadLabels.threadSeq, sql`(select value from json_each(${sql.placeholder("seqs")}))`))
    .orderBy(asc(threadLabels.threadSeq), asc(threadLabels.position))
    .prepare(),
  threadsWith: db
    .select({ seq: threadLabels.threadSeq })
    .from(threadLabels)
    .where(eq(threadLabels.labelKey, sql.placeholder("key")))
    .orderBy(asc(threadLabels.threadSeq))
    .prepare(),
  inUse: db
    .select({ label: mailboxLabels.label, threads: mailboxLabels.threads, colour: labelColours.colour })
    .from(mailboxLabels)
    .leftJoin(
      labelColours,
      and(eq(labelColours.mailboxId, mailboxLabels.mailboxId), eq(labelColours.labelKey, mailboxLabels.labelKey)),
    )
    .where(eq(mailboxLabels.mailboxId, sql.placeholder("mailboxId")))
    .orderBy(asc(mailboxLabels.labelKey))
    .limit(sql.placeholder("limit"))
    .prepare(),
  mailboxesWith: db
    .select({ id: mailboxLabels.mailboxId })
    .from(mailboxLabels)
    .where(
      and(
        inArray(mailboxLabels.mailboxId, sql`(select value from json_each(${sql.placeholder("mailboxIds")}))`),
        eq(mailboxLabels.labelKey, sql.placeholder("key")),
      ),
    )
    .prepare(),
  labelledAfter: db
    .select({ seq: threadLabels.threadSeq, id: threads.id, mailboxId: threads.mailboxId })
    .from(threadLabels)
    .innerJoin(threads, eq(threads.seq, threadLabels.threadSeq))
    .where(
      and(
        eq(threadLabels.labelKey, sql.placeholder("key")),
        sql`${threadLabels.threadSeq} > ${sql.placeholder("after")}`,
      ),
    )
    .orderBy(asc(threadLabels.threadSeq))
    .limit(PORTION)
    .prepare(),
}));

/** A label, and the number of conversations in the mailbox that have it. */
export interface LabelInUse {
  label: string;
  threads: number;
}

/** A label of several mailboxes together. `key`: from `labelKey`. */
export interface LabelInReach extends LabelInUse {
  key: string;
}

/** The labels of each given conversation that has any. */
export function listThreadLabels(db: Db, threadSeqs: readonly number[]): Map<number, string[]> {
  const rows = queries(db).ofThreads.all({ seqs: JSON.stringify(threadSeqs) });
  const byThread = Map.groupBy(rows, ({ threadSeq }) => threadSeq);
  return new Map([...byThread].map(([seq, labelled]) => [seq, labelled.map(({ label }) => label)]));
}

/** Whether any conversation of a mailbox has a label. */
export const hasLabels = (db: Db, mailboxId: string): boolean => statements.hasAny(db).get(mailboxId) !== null;

export interface LabelPatch {
  labels?: readonly string[] | undefined;
  addLabels?: readonly string[] | undefined;
  removeLabels?: readonly string[] | undefined;
}

/** @throws AppError bad_request for a label that is empty or only spaces */
export function requireNonEmptyLabels({ labels = [], addLabels = [] }: LabelPatch): void {
  if ([...labels, ...addLabels].some((label) => labelKey(label) === "")) {
    throw new AppError("bad_request", "a label needs at least one character that is not a space");
  }
}

/** The labels after a patch, which replaces, then adds, then removes. @throws AppError unprocessable */
export function patchedLabels(labels: readonly string[], patch: LabelPatch): string[] {
  const byKey = new Map<string, string>();
  for (const label of [...(patch.labels ?? labels), ...(patch.addLabels ?? [])]) {
    const key = labelKey(label);
    if (!byKey.has(key)) byKey.set(key, label.trim());
  }
  for (const label of patch.removeLabels ?? []) byKey.delete(labelKey(label));
  if (byKey.size > MOST_LABELS) {
    throw new AppError("unprocessable", `a conversation takes ${MOST_LABELS} labels at most: remove some first`);
  }
  return [...byKey.values()];
}

/** A label of a conversation before a change, and its place among the others. */
export interface PlacedLabel {
  label: string;
  position: number;
}

/** Lists the labels that a change set, with the value before of each; null for a label that was added. */
export function labelTouches(before: readonly string[], after: readonly string[]): Touch[] {
  const present = new Map(
    before.map((label, position): [string, PlacedLabel] => [labelKey(label), { label, position }]),
  );
  const next = new Map(after.map((label) => [labelKey(label), label]));
  return [...new Set([...present.keys(), ...next.keys()])].flatMap((key) => {
    const old = present.get(key);
    return old?.label === next.get(key) ? [] : { field: "label", labelKey: key, before: old ?? null };
  });
}

/**
 * The labels with some put back to what they were, by key; null for those that were not there. Labels that no longer fit are
 * left out.
 */
export function computeRestoredLabels(
  present: readonly string[],
  before: ReadonlyMap<string, PlacedLabel | null>,
): string[] {
  const labels = present.filter((label) => !before.has(labelKey(label)));
  const missing = [...before.values()].filter((placed) => placed !== null);
  for (const { label, position } of missing.sort((a, b) => a.position - b.position)) {
    if (labels.length < MOST_LABELS) labels.splice(position, 0, label);
  }
  return labels;
}

/** Adds labels to a conversation, up to the limit; returns those that it did not have. */
export function addLabels(tx: Tx, threadSeq: number, added: readonly string[]): string[] {
  const present = listThreadLabels(tx, [threadSeq]).get(threadSeq) ?? [];
  const known = new Set(present.map(labelKey));
  const byKey = new Map(added.map((label) => [labelKey(label), label]));
  const missing = [...byKey].flatMap(([key, label]) => (key === "" || known.has(key) ? [] : [label]));
  const further = missing.slice(0, Math.max(0, MOST_LABELS - present.length));
  if (further.length > 0) writeLabels(tx, threadSeq, [...present, ...further]);
  return further;
}

/**
 * Replaces the labels of a conversation, in the given order. Rows that may stay do: each that comes or goes touches every message
 * of the conversation. Positions ascend, with gaps.
 */
export function writeLabels(tx: Tx, threadSeq: number, labels: readonly string[]): void {
  const present = new Map(
    statements
      .placed(tx)
      .all(threadSeq)
      .map((row) => [row.key, row]),
  );
  const missing: [key: string, label: string, position: number][] = [];
  let last = -1;
  for (const label of labels) {
    const key = labelKey(label);
    const row = present.get(key);
    const stays = row?.label === label && row.position > last;
    last = stays ? row.position : last + 1;
    if (stays) present.delete(key);
    else missing.push([key, label, last]);
  }
  for (const key of present.keys()) statements.remove(tx).run(threadSeq, key);
  for (const one of missing) statements.add(tx).run(threadSeq, ...one);
}

/**
 * The first `limit` labels used in a mailbox (id or address), by name, with their colours there. @throws AppError not_found
 * (mailbox)
 */
export const listLabels = (
  { db }: Reader,
  caller: Caller,
  mailbox: string,
  limit: number,
): (LabelInUse & { colour: LabelColour | null })[] =>
  queries(db).inUse.all({ mailboxId: reachedMailbox(db, caller, mailbox), limit });

/** Gives a label a colour in a mailbox (id or address); null takes it away. @throws AppError not_found, forbidden */
export function setLabelColour(
  tx: Tx,
  caller: Caller,
  { mailbox, label, colour }: { mailbox: string; label: string; colour: LabelColour | null },
): void {
  const mailboxId = reachedMailbox(tx, caller, mailbox);
  const key = labelKey(label);
  manageable(tx, caller, key, mailboxId);
  colourLabel(tx, mailboxId, key, colour);
}

function colourLabel(tx: Tx, mailboxId: string, key: string, colour: LabelColour | null): void {
  tx.delete(labelColours)
    .where(and(eq(labelColours.mailboxId, mailboxId), eq(labelColours.labelKey, key)))
    .run();
  if (colour !== null) tx.insert(labelColours).values({ mailboxId, labelKey: key, colour }).run();
}

/** Takes a label's colour away with it, or gives it to the label's new name if that has none. */
function moveColours(tx: Tx, mailboxIds: Iterable<string>, key: string, to: string | undefined): void {
  for (const mailboxId of mailboxIds) {
    const ofKey = (one: string) => and(eq(labelColours.mailboxId, mailboxId), eq(labelColours.labelKey, one));
    const colour = tx.select().from(labelColours).where(ofKey(key)).get()?.colour;
    if (colour === undefined || to === key) continue;
    colourLabel(tx, mailboxId, key, null);
    if (to !== undefined && !tx.select().from(labelColours).where(ofKey(to)).get())
      colourLabel(tx, mailboxId, to, colour);
  }
}

/**
 * Ends the mailbox that mail apps see of a label, or gives it to the label's new name if that has none; it is then to be filled
 * with the mail that had the new name already.
 */
export function moveLabelFolder(tx: Tx, mailboxId: string, key: string, to: string | undefined): void {
  const ofKey = (one: string) => and(eq(imapLabels.mailboxId, mailboxId), eq(imapLabels.labelKey, one));
  const next = to === undefined ? null : labelKey(to);
  const isTaken = next !== null && next !== key && tx.select().from(imapLabels).where(ofKey(next)).get() !== undefined;
  tx.update(imapLabels)
    .set(isTaken ? { labelKey: null } : { labelKey: next, ...(to !== undefined && { label: to, filled: false }) })
    .where(ofKey(key))
    .run();
}

/** A page of labels: those after the one with this key. */
export interface LabelPage {
  after?: string | undefined;
  limit: number;
}

/** The labels of all mailboxes in reach, by name. */
export const labelsInReach = ({ db }: Reader, caller: Caller, { after = "", limit }: LabelPage): LabelInReach[] =>
  statements.across(db).all(JSON.stringify([...findReachableMailboxes(db, caller).keys()]), after, limit);

/** The mailboxes with a label that the caller may relabel, all or one. @throws AppError not_found, forbidden */
function manageable(db: Db, caller: Caller, key: string, only?: string): Set<string> {
  const reached = findReachableMailboxes(db, caller);
  const ids = [...reached.keys()].filter((id) => only === undefined || id === only);
  const having = queries(db)
    .mailboxesWith.all({ mailboxIds: JSON.stringify(ids), key })
    .flatMap(({ id }) => reached.get(id) ?? []);
  const [first] = having;
  if (!first) throw outOfReachError("label");
  const managed = having.filter(({ access }) => access.manage);
  if (managed.length === 0) requireAccess(first, "manage");
  return new Set(managed.map(({ mailbox }) => mailbox.id));
}

/**
 * Puts `replacement` in the place of a label, or nothing, in every mailbox that the caller manages, or in one; returns
 * the number of conversations. In portions: one that is cut short is finished by the same request again.
 * @throws AppError bad_request, not_found, forbidden
 */
export async function replaceLabel(
  { store, now }: Core,
  caller: Caller,
  {
    label,
    replacement,
    mailboxId,
  }: { label: string; replacement?: string | undefined; mailboxId?: string | undefined },
): Promise<number> {
  const key = labelKey(label);
  if (replacement !== undefined) requireNonEmptyLabels({ labels: [replacement] });
  const replaced = replacement?.trim();
  let changed = 0;
  let next: number | undefined = 0;
  let managed = new Set<string>();
  while (next !== undefined) {
    const after: number = next;
    const portion = await store.enqueue((tx) => {
      // Checked for each portion: the key may be paused, or the caller's share of a mailbox end, meanwhile.
      const present = reloadCaller(tx, caller);
      managed = after === 0 ? manageable(tx, present, key, mailboxId) : managedBy(tx, present, mailboxId);
      const rows = queries(tx).labelledAfter.all({ key, after });
      const labelled = rows.filter(({ mailboxId }) => managed.has(mailboxId));
      const theirs = labelled.map(({ seq }) => seq);
      if (labelled.length > 0) {
        addJournalEntry(tx, caller, { ids: labelled.map(({ id }) => id), changes: labelled.length }, now());
      }
      const labelsBefore = listThreadLabels(tx, theirs);
      for (const thread of labelled) {
        const labels = labelsBefore.get(thread.seq) ?? [];
        const others = labels.flatMap((one) => (labelKey(one) === key ? (replaced ?? []) : one));
        const patched = patchedLabels([], { labels: others });
        writeLabels(tx, thread.seq, patched);
        noteFieldsSetInThread(tx, caller, thread, labelTouches(labels, patched), now());
      }
      const isLast = rows.length < PORTION;
      if (isLast && replaced !== undefined)
        statements.spell(tx).run(replaced, labelKey(replaced), JSON.stringify([...managed]));
      if (isLast) moveColours(tx, managed, key, replaced === undefined ? undefined : labelKey(replaced));
      if (isLast) for (const id of managed) moveLabelFolder(tx, id, key, replaced);
      return { changed: theirs.length, next: isLast ? undefined : rows.at(-1)?.seq };
    });
    changed += portion.changed;
    next = portion.next;
  }
  // A label that a key had removed from a conversation does not come back, either.
  while ((await store.enqueue((tx) => settleSome(tx, caller, managed, key))) > 0);
  return changed;
}

/** Settles a portion of what keys did with a label in these mailboxes; returns the number of changes. */
function settleSome(tx: Tx, caller: Caller, mailboxIds: Iterable<string>, key: string): number {
  let left = PORTION;
  for (const id of mailboxIds) if (left > 0) left -= settleMailboxLabelChanges(tx, caller, id, key, left);
  return PORTION - left;
}

const managedBy = (db: Db, caller: Caller, only?: string): Set<string> =>
  new Set(
    [...findReachableMailboxes(db, caller)].flatMap(([id, { access }]) =>
      access.manage && (only === undefined || id === only) ? id : [],
    ),
  );

/** The conversations with a label in all mailboxes, ascending. The caller checks access. */
export function threadsLabelled(db: Db, label: string): number[] {
  return queries(db)
    .threadsWith.all({ key: labelKey(label) })
    .map(({ seq }) => seq);
}

/** The conversations with a label in one mailbox, ascending, in portions between which others run. The caller checks access. */
export async function* threadsLabelledIn(db: Db, mailboxId: string, label: string): AsyncGenerator<number[]> {
  const key = labelKey(label);
  if (queries(db).mailboxesWith.all({ mailboxIds: JSON.stringify([mailboxId]), key }).length === 0) return;
  for (let after: number | undefined = 0; after !== undefined; ) {
    const page = statements.labelledHere(db).all(mailboxId, key, after);
    yield page.filter(({ here }) => here).map(({ seq }) => seq);
    after = page.length < LOOKED_AT ? undefined : page.at(-1)?.seq;
    await letOthersRun();
  }
}
