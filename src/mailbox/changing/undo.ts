/**
 * Takes back what an API key did to conversations since a time (rules: Undo): conversation by conversation, field by field, in
 * portions that leave the event loop to others. Lessons that the key taught the spam filter are taken back first, newest first,
 * because lessons about one sender build on each other.
 *
 * Invariants: each portion is whole, and a second run does what a first one left. A dry run reports what a run would.
 */
import { isDeepStrictEqual } from "node:util";
import { eq, sql } from "drizzle-orm";
import { type Caller, findReach } from "../../access/caller.ts";
import { letOthersRun } from "../../base/pause.ts";
import { addJournalDecision } from "../../journal/entries.ts";
import {
  type KeyChange,
  listEarlierKeyChanges,
  listThreadKeyChanges,
  markKeyChangesUndone,
  NEWEST,
  type Position,
  type Wanted,
} from "../../journal/key-changes.ts";
import type { Core } from "../../store/core.ts";
import { type ChangedField, type Face, type Settler, threads } from "../../store/schema.ts";
import { prepared } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import { computeRestoredLabels, labelKey, listThreadLabels, type PlacedLabel } from "../state/labels.ts";
import {
  type AppliedChange,
  type KeptFields,
  readUndoableFields,
  restoreThreadFields,
  undoTrainingByMove,
} from "./change.ts";

/** Why a field was left: who changed or confirmed it, or `deleted`, `out_of_reach`, `too_many_labels`. */
export type LeftReason = Exclude<Settler, "undone"> | "deleted" | "out_of_reach" | "too_many_labels";

/** A field of a conversation. */
interface Field {
  threadId: string;
  field: ChangedField;
  /** Key of the label (labelKey), if the field is a label. */
  label?: string;
}

export interface Undone {
  /** Number of conversations of which something was taken back. */
  threads: number;
  /** Number of fields that were taken back. */
  changes: number;
  /** The first ones. */
  fields: Field[];
  /** Number of fields that were left, and the first ones. */
  leftChanges: number;
  left: (Field & { reason: LeftReason })[];
}

/** The person, or the operator, who takes back, and how. */
export interface Undoing {
  /** Returns the person as they are by now; absent for the operator. @throws AppError */
  person?(db: Db): Caller;
  face: Face;
  /** True: the run only reports what would be taken back. */
  dryRun: boolean;
}

/** Changes read at once. */
const PAGE = 500;
/** Messages and conversations that one transaction looks at, and messages that it unteaches; each some 10 ms. */
const MOST_MESSAGES = 150;
const MOST_TAUGHT = 8;
/** Number of messages that a conversation itself counts for in a portion, besides its own messages. */
const THREAD_COST = 4;
/** Fields that the result lists. */
const MOST_LISTED = 1_000;

const bySeq = prepared((db) =>
  db
    .select()
    .from(threads)
    .where(eq(threads.seq, sql.placeholder("seq")))
    .prepare(),
);

/** Collects a result, with at most `most` fields of each kind. A transaction may run twice, so it collects into its own. */
function createTally(most = Number.POSITIVE_INFINITY) {
  const touched = new Set<string>();
  const tally: Undone = { threads: 0, changes: 0, fields: [], leftChanges: 0, left: [] };
  return {
    tally,
    takenBack(field: Field): void {
      touched.add(field.threadId);
      tally.threads = touched.size;
      tally.changes++;
      if (tally.fields.length < most) tally.fields.push(field);
    },
    left(field: Field, reason: LeftReason): void {
      tally.leftChanges++;
      if (tally.left.length < most) tally.left.push({ ...field, reason });
    },
  };
}
type Tally = ReturnType<typeof createTally>;

const changedField = ({ threadId, field, labelKey: label }: KeyChange): Field => ({
  threadId,
  field,
  ...(field === "label" && label !== null && { label }),
});

/** Runs `work` on each of `given` in portions of at most `budget`, in transactions unless it is a dry run. */
async function inPortions<T>(
  { db, store }: Core,
  given: readonly T[],
  { estimateCost, budget, dryRun }: { estimateCost(one: T): number; budget: number; dryRun: boolean },
  tally: Tally,
  work: (tx: Tx, one: T, tally: Tally) => void,
  after: (tx: Tx, tally: Tally) => void,
): Promise<void> {
  for (let next = 0; next < given.length; ) {
    const from = next;
    const portion = (tx: Tx): Tally => {
      const own = createTally();
      next = from;
      for (let cost = 0; next < given.length; next++) {
        const one = given[next] as T;
        cost += estimateCost(one);
        if (cost > budget && next > from) break;
        work(tx, one, own);
      }
      if (!dryRun) after(tx, own);
      return own;
    };
    // A dry run writes nothing.
    const { tally: done } = dryRun ? portion(db as Tx) : await store.enqueue(portion);
    for (const field of done.fields) tally.takenBack(field);
    for (const { reason, ...field } of done.left) tally.left(field, reason);
    await letOthersRun();
  }
}

/** Takes back what a move taught. */
function untrain(tx: Tx, change: KeyChange, person: Caller | undefined, dryRun: boolean, tally: Tally): void {
  if (change.settledBy === "undone") return;
  const field = changedField(change);
  const reason = change.settledBy ?? (mayManage(tx, change, person) ? undefined : "out_of_reach");
  if (reason !== undefined) {
    tally.left(field, reason);
    return;
  }
  tally.takenBack(field);
  if (dryRun) return;
  undoTrainingByMove(tx, change.mailboxId, change.before as Taught);
  markKeyChangesUndone(tx, [change.seq]);
}

/** Takes back the other fields of a conversation. */
function restore(
  tx: Tx,
  changes: readonly KeyChange[],
  person: Caller | undefined,
  dryRun: boolean,
  tally: Tally,
): void {
  const [first] = changes;
  if (!first) return;
  const thread = bySeq(tx).get({ seq: first.threadSeq });
  const reach = person && thread && findReach(tx, person, thread.mailboxId);
  const present = thread && readUndoableFields(tx, thread);
  const open: KeyChange[] = [];
  const before: Partial<KeptFields> = {};
  const labels = new Map<string, PlacedLabel | null>();
  for (const [, ofField] of Map.groupBy(changes, ({ field, labelKey: label }) => `${field} ${label}`)) {
    const last = ofField.at(-1) as KeyChange;
    const toUndo = ofField.filter(({ settledBy }) => settledBy === null);
    const [earliest] = toUndo;
    if (!earliest) {
      if (last.settledBy !== null && last.settledBy !== "undone") tally.left(changedField(last), last.settledBy);
      continue;
    }
    if (!thread || !present) {
      tally.left(changedField(earliest), "deleted");
      continue;
    }
    if (person && !(earliest.field === "unread" ? reach?.access.read : reach?.access.manage)) {
      tally.left(changedField(earliest), "out_of_reach");
      continue;
    }
    open.push(...toUndo);
    if (earliest.field === "label") labels.set(earliest.labelKey as string, earliest.before as PlacedLabel | null);
    else Object.assign(before, { [earliest.field]: earliest.before });
  }
  if (!thread || !present || open.length === 0) return;

  for (const name of Object.keys(before) as (keyof KeptFields)[]) {
    if (isChanged(name, before, present)) tally.takenBack({ threadId: thread.id, field: name });
  }
  const labelsNow = listThreadLabels(tx, [thread.seq]).get(thread.seq) ?? [];
  const labelsThen = computeRestoredLabels(labelsNow, labels);
  const unfit = new Set<string | null>();
  for (const [key, placed] of labels) {
    const field: Field = { threadId: thread.id, field: "label", label: key };
    const is = labelsNow.find((label) => labelKey(label) === key);
    const becomes = labelsThen.find((label) => labelKey(label) === key);
    if (placed !== null && becomes === undefined) {
      tally.left(field, "too_many_labels");
      unfit.add(key);
    } else if (is !== becomes) tally.takenBack(field);
  }
  if (dryRun) return;
  const { folder, unread, ...others } = before;
  restoreThreadFields(tx, thread, { ...folder, ...others, ...(labels.size > 0 && { labels: labelsThen }) }, unread);
  const undone = open.filter(({ field, labelKey: label }) => field !== "label" || !unfit.has(label));
  markKeyChangesUndone(
    tx,
    undone.map(({ seq }) => seq),
  );
}

export async function undoKeyChanges(core: Core, wanted: Wanted, { person, face, dryRun }: Undoing): Promise<Undone> {
  const { db, now } = core;
  const tally = createTally(MOST_LISTED);
  const finish = (tx: Tx, { tally: { fields } }: Tally): void => {
    const ids = [...new Set(fields.map(({ threadId }) => threadId))];
    if (ids.length > 0) addJournalDecision(tx, wanted, { operation: "undo", face, by: person?.(tx), ids }, now());
  };

  for await (const page of walkKeyChangePages(db, wanted)) {
    await inPortions(
      core,
      page.filter(({ field }) => field === "training"),
      { estimateCost: ({ before }) => Math.max(1, (before as Taught).taught.length), budget: MOST_TAUGHT, dryRun },
      tally,
      (tx, change, own) => untrain(tx, change, person?.(tx), dryRun, own),
      finish,
    );
  }
  const seen = new Set<number>();
  for await (const page of walkKeyChangePages(db, wanted)) {
    const next = new Set(page.flatMap(({ field, threadSeq }) => (field === "training" ? [] : threadSeq)));
    const estimateCost = (seq: number): number => THREAD_COST + (bySeq(db).get({ seq })?.messageCount ?? 0);
    await inPortions(
      core,
      [...next].filter((seq) => !seen.has(seq)),
      { estimateCost, budget: MOST_MESSAGES, dryRun },
      tally,
      (tx, seq, own) => {
        const changes = listThreadKeyChanges(tx, wanted, seq).filter(({ field }) => field !== "training");
        restore(tx, changes, person?.(tx), dryRun, own);
      },
      finish,
    );
    for (const seq of next) seen.add(seq);
  }
  return tally.tally;
}

type Taught = Pick<AppliedChange, "relearned" | "taught">;

/** True if a field has another value than before. Messages that came later do not count. */
function isChanged(name: keyof KeptFields, before: Partial<KeptFields>, present: KeptFields): boolean {
  if (name !== "unread" || before.unread === undefined) return !isDeepStrictEqual(before[name], present[name]);
  const { unreadSeqs, newestSeq } = before.unread;
  return !isDeepStrictEqual(new Set(unreadSeqs), new Set(present.unread.unreadSeqs.filter((seq) => seq <= newestSeq)));
}

const mayManage = (tx: Tx, { mailboxId }: KeyChange, person: Caller | undefined): boolean =>
  person === undefined || findReach(tx, person, mailboxId)?.access.manage === true;

/** Pages of changes, newest first. */
async function* walkKeyChangePages(db: Db, wanted: Wanted): AsyncGenerator<KeyChange[]> {
  for (let position: Position | undefined = NEWEST; position; ) {
    const page = listEarlierKeyChanges(db, wanted, position, PAGE);
    position = page.at(-1);
    if (page.length > 0) yield page;
    await letOthersRun();
  }
}
