/**
 * Records for taking back the changes of a key: for each field of a conversation that a key changed, the value before, and who
 * changed or confirmed it afterwards (rules: Undo). The only writer of key_changes; mailbox/changing/undo.ts reads it.
 *
 *   open ──► settled: somebody else changed or confirmed the field ──► open, when another key's change is taken back
 *     └────► undone
 *
 * Invariant: of the open changes of a field, the earliest has the value to which undo returns. All are of one key, because the
 * change of another settles those before it.
 */
import { and, asc, desc, eq, gte, sql } from "drizzle-orm";
import type { Caller } from "../access/caller.ts";
import { type ChangedField, keyChanges, type Settler } from "../store/schema.ts";
import { prepared, statement } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";

/** A field of a conversation that somebody set. */
export interface Touch {
  field: ChangedField;
  /** See keyChanges.labelKey. */
  labelKey?: string;
  /** The value before; undefined if it was confirmed, not changed. */
  before?: unknown;
}

/** A change of a key. */
export type KeyChange = typeof keyChanges.$inferSelect;

/** A conversation. */
interface Conversation {
  seq: number;
  id: string;
  mailboxId: string;
}

const statements = {
  settle: statement<
    unknown,
    [by: Settler, seq: number | null, thread: number, field: ChangedField, label: string | null, but: string]
  >(
    `UPDATE key_changes SET settled_by = ?, settled_seq = ?
     WHERE thread_seq = ? AND field = ? AND label_key IS ? AND settled_by IS NULL AND key_id <> ?`,
  ),
  settleLabels: statement<unknown, [by: Settler, thread: number, but: string]>(
    `UPDATE key_changes SET settled_by = ?
     WHERE thread_seq = ? AND field = 'label' AND settled_by IS NULL AND key_id <> ?`,
  ),
  settleLabelIn: statement<unknown, [by: Settler, mailbox: string, label: string, but: string, limit: number]>(
    `UPDATE key_changes SET settled_by = ?1 WHERE seq IN
       (SELECT seq FROM key_changes WHERE mailbox_id = ?2 AND label_key = ?3 AND field = 'label' AND settled_by IS NULL
          AND key_id <> ?4 LIMIT ?5)`,
  ),
  reopen: statement<unknown, [seqs: string]>(
    `UPDATE key_changes SET settled_by = NULL, settled_seq = NULL
     WHERE settled_seq IN (SELECT value FROM json_each(?))`,
  ),
  undo: statement<unknown, [seqs: string]>(
    `UPDATE key_changes SET settled_by = 'undone', settled_seq = NULL
     WHERE seq IN (SELECT value FROM json_each(?))`,
  ),
  forgetOld: statement<unknown, [before: number, limit: number]>(
    "DELETE FROM key_changes WHERE seq IN (SELECT seq FROM key_changes WHERE at < ? ORDER BY at LIMIT ?)",
  ),
  forgetMailbox: statement<unknown, [mailbox: string, limit: number]>(
    "DELETE FROM key_changes WHERE seq IN (SELECT seq FROM key_changes WHERE mailbox_id = ? LIMIT ?)",
  ),
  forgetKey: statement<unknown, [workspace: string, key: string, limit: number]>(
    "DELETE FROM key_changes WHERE seq IN (SELECT seq FROM key_changes WHERE workspace_id = ? AND key_id = ? LIMIT ?)",
  ),
};

const queries = prepared((db) => {
  const ofKey = and(
    eq(keyChanges.workspaceId, sql.placeholder("workspaceId")),
    eq(keyChanges.keyId, sql.placeholder("keyId")),
    gte(keyChanges.at, sql.placeholder("since")),
  );
  return {
    put: db
      .insert(keyChanges)
      .values({
        at: sql.placeholder("at"),
        workspaceId: sql.placeholder("workspaceId"),
        keyId: sql.placeholder("keyId"),
        mailboxId: sql.placeholder("mailboxId"),
        threadSeq: sql.placeholder("threadSeq"),
        threadId: sql.placeholder("threadId"),
        field: sql.placeholder("field"),
        labelKey: sql.placeholder("labelKey"),
        before: sql.placeholder("before"),
      })
      .returning({ seq: keyChanges.seq })
      .prepare(),
    latest: db
      .select()
      .from(keyChanges)
      .where(
        and(ofKey, sql`(${keyChanges.at}, ${keyChanges.seq}) < (${sql.placeholder("at")}, ${sql.placeholder("seq")})`),
      )
      .orderBy(desc(keyChanges.at), desc(keyChanges.seq))
      .limit(sql.placeholder("limit"))
      .prepare(),
    ofThread: db
      .select()
      .from(keyChanges)
      // The plus keeps the planner from the index of the key, which may have very many changes.
      .where(
        sql`${keyChanges.threadSeq} = ${sql.placeholder("threadSeq")} AND +${keyChanges.keyId} = ${sql.placeholder("keyId")}
          AND +${keyChanges.workspaceId} = ${sql.placeholder("workspaceId")} AND +${keyChanges.at} >= ${sql.placeholder("since")}`,
      )
      .orderBy(asc(keyChanges.seq))
      .prepare(),
  };
});

/** No key has this id. */
const NO_KEY = "";

const chooseSettler = (caller: Caller): Settler => (caller.keyId === undefined ? "person" : "key");

/**
 * Notes that the caller set fields of a conversation: keeps what takes a key's changes back, and settles the changes that
 * other keys made to these fields before. `now`: epoch ms.
 */
export function noteFieldsSetInThread(
  tx: Tx,
  caller: Caller,
  { seq: threadSeq, id: threadId, mailboxId }: Conversation,
  touches: readonly Touch[],
  now: number,
): void {
  const { keyId, workspaceId } = caller;
  for (const { field, labelKey = null, before } of touches) {
    const made =
      keyId !== undefined && before !== undefined
        ? queries(tx).put.get({ at: now, workspaceId, keyId, mailboxId, threadSeq, threadId, field, labelKey, before })
        : undefined;
    statements.settle(tx).run(chooseSettler(caller), made?.seq ?? null, threadSeq, field, labelKey, keyId ?? NO_KEY);
  }
}

/** Settles the changes of all labels of a conversation, since the caller said which it is to have. */
export const settleThreadLabelChanges = (tx: Tx, caller: Caller, threadSeq: number): void =>
  void statements.settleLabels(tx).run(chooseSettler(caller), threadSeq, caller.keyId ?? NO_KEY);

/** Settles the changes of a field that nobody set, but `by` changed. */
export const settleKeyChanges = (
  tx: Tx,
  threadSeq: number,
  field: ChangedField,
  by: Settler,
  labelKey?: string,
): void => void statements.settle(tx).run(by, null, threadSeq, field, labelKey ?? null, NO_KEY);

/**
 * Settles changes of a label in a mailbox, since the caller renames or removes it everywhere; at most `limit`. Returns their
 * number.
 */
export const settleMailboxLabelChanges = (
  tx: Tx,
  caller: Caller,
  mailboxId: string,
  labelKey: string,
  limit: number,
): number =>
  statements.settleLabelIn(tx).run(chooseSettler(caller), mailboxId, labelKey, caller.keyId ?? NO_KEY, limit).changes;

/** Marks changes as undone, and opens those of other keys that they had settled. */
export function markKeyChangesUndone(tx: Tx, seqs: readonly number[]): void {
  const list = JSON.stringify(seqs);
  statements.reopen(tx).run(list);
  statements.undo(tx).run(list);
}

/** A key, even one that is gone, and the time (epoch ms) since which its changes are wanted. */
export interface Wanted {
  workspaceId: string;
  keyId: string;
  since: number;
}

/** A position among changes, newest first. */
export type Position = Pick<KeyChange, "at" | "seq">;

/** Before the newest change. */
export const NEWEST: Position = { at: Number.MAX_SAFE_INTEGER, seq: Number.MAX_SAFE_INTEGER };

/** Changes behind a position, newest first. */
export const listEarlierKeyChanges = (db: Db, wanted: Wanted, { at, seq }: Position, limit: number): KeyChange[] =>
  queries(db).latest.all({ ...wanted, at, seq, limit });

/** Changes of one conversation, oldest first. */
export const listThreadKeyChanges = (db: Db, wanted: Wanted, threadSeq: number): KeyChange[] =>
  queries(db).ofThread.all({ ...wanted, threadSeq });

/** Deletes changes from before a time (epoch ms), at most `limit`; returns their number. */
export const forgetKeyChangesBefore = (tx: Tx, before: number, limit: number): number =>
  statements.forgetOld(tx).run(before, limit).changes;

/** Deletes changes in a mailbox, at most `limit`; returns their number. */
export const forgetMailboxKeyChanges = (tx: Tx, mailboxId: string, limit: number): number =>
  statements.forgetMailbox(tx).run(mailboxId, limit).changes;

/** Deletes changes of a key, at most `limit`; returns their number. */
export const forgetKeyChanges = (tx: Tx, workspaceId: string, keyId: string, limit: number): number =>
  statements.forgetKey(tx).run(workspaceId, keyId, limit).changes;
