/**
 * Labels of conversations: compared without case, stored as first written, in the order they were added. The only
 * writer of thread_labels.
 */
import { asc, eq, inArray, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { mailboxLabels, threadLabels } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";

/** Most labels that addLabels may accumulate on a conversation; a request's own limit is fixed (rules: Labels). */
const MOST_LABELS = 100;

/**
 * The form in which labels that differ only by case are equal. Upper case comes first, because it merges letters that
 * lower case keeps apart (ß, ς).
 */
export const labelKey = (label: string): string => label.trim().normalize("NFC").toUpperCase().toLowerCase();

const statements = prepared((db) => ({
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
  removeAll: db.$client.prepare<unknown, [threadSeq: number]>("DELETE FROM thread_labels WHERE thread_seq = ?"),
  add: db.$client.prepare<unknown, [threadSeq: number, key: string, label: string, position: number]>(
    "INSERT INTO thread_labels (thread_seq, label_key, label, position) VALUES (?, ?, ?, ?)",
  ),
  inUse: db
    .select({ label: mailboxLabels.label, threads: mailboxLabels.threads })
    .from(mailboxLabels)
    .where(eq(mailboxLabels.mailboxId, sql.placeholder("mailboxId")))
    .orderBy(asc(mailboxLabels.labelKey))
    .limit(sql.placeholder("limit"))
    .prepare(),
}));

/** A label, and the number of conversations in the mailbox that have it. */
export interface LabelInUse {
  label: string;
  threads: number;
}

/** The labels of each given conversation that has any. */
export function labelsOf(db: Db, threadSeqs: readonly number[]): Map<number, string[]> {
  const rows = statements(db).ofThreads.all({ seqs: JSON.stringify(threadSeqs) });
  const byThread = Map.groupBy(rows, ({ threadSeq }) => threadSeq);
  return new Map([...byThread].map(([seq, labelled]) => [seq, labelled.map(({ label }) => label)]));
}

export interface LabelPatch {
  labels?: readonly string[] | undefined;
  addLabels?: readonly string[] | undefined;
  removeLabels?: readonly string[] | undefined;
}

/** @throws AppError bad_request for a label that is empty or only spaces */
export function requireLabels({ labels = [], addLabels = [] }: LabelPatch): void {
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

/** Adds labels to a conversation, up to the limit. */
export function addLabels(tx: Tx, threadSeq: number, added: readonly string[]): void {
  const present = labelsOf(tx, [threadSeq]).get(threadSeq) ?? [];
  const known = new Set(present.map(labelKey));
  const byKey = new Map(added.map((label) => [labelKey(label), label]));
  const further = [...byKey].flatMap(([key, label]) => (key === "" || known.has(key) ? [] : [label]));
  if (further.length > 0) writeLabels(tx, threadSeq, [...present, ...further].slice(0, MOST_LABELS));
}

/** Replaces the labels of a conversation, in the given order. */
export function writeLabels(tx: Tx, threadSeq: number, labels: readonly string[]): void {
  const { removeAll, add } = statements(tx);
  removeAll.run(threadSeq);
  for (const [position, label] of labels.entries()) add.run(threadSeq, labelKey(label), label, position);
}

/** The first `limit` labels used in a mailbox, by name. */
export const labelsInUse = (db: Db, mailboxId: string, limit: number): LabelInUse[] =>
  statements(db).inUse.all({ mailboxId, limit });

/** The conversations with a label in all mailboxes, ascending. The caller checks access. */
export function threadsLabelled(db: Db, label: string): number[] {
  return statements(db)
    .threadsWith.all({ key: labelKey(label) })
    .map(({ seq }) => seq);
}
