/**
 * The feed of changed conversations in commit order, for any cause and process: arriving mail, moves, labels, read
 * state, drafts, decisions about held messages, delivery outcomes, deletions. Triggers write it (0033_changes.sql,
 * 0040_hold_changes.sql); this file adds the times, and
 * removes old changes.
 *
 * Open pages and counts follow all changes by number. Programs follow those in their reach by cursor: a conversation
 * that comes into reach is upserted for them, and one that leaves it is gone, though nothing in it changed.
 *
 * Invariants: a program that passes each cursor on learns of every change in its reach; no look reads more than
 * MOST_LOOKED_AT rows, whoever made them.
 */
import { gt, max, sql } from "drizzle-orm";
import { type Caller, findReachableMailboxes } from "../../access/caller.ts";
import { policyAllowsMailbox } from "../../access/policy.ts";
import { AppError } from "../../base/errors.ts";
import { dateTimeSchema, type Static, stringEnum, t } from "../../base/json-schema.ts";
import type { Job } from "../../base/scheduler.ts";
import { toIsoTime } from "../../base/time.ts";
import type { Core, Reader } from "../../store/core.ts";
import { CHANGE_KINDS, type ChangeKind, mailboxes, threadChanges } from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import type { ThreadRow } from "../filing/threading.ts";
import { reachedMailbox } from "../state/mailboxes.ts";

/** A row of the feed: a conversation that changed, or a person whose reach changed. Its number grows with every change. */
export type ChangeRow = typeof threadChanges.$inferSelect;

/** A conversation that was changed or deleted, or came into reach or left it. */
const ChangeView = t.Object(
  {
    threadId: t.String(),
    mailboxId: t.String(),
    kind: stringEnum(CHANGE_KINDS, {
      description: "upserted: it is new, or something about it changed. gone: it was deleted, or is out of reach",
    }),
    at: dateTimeSchema(),
  },
  { $id: "Change" },
);

export const ChangesView = t.Object({
  changes: t.Array(ChangeView),
  next: t.String({ description: "Cursor after these changes" }),
  more: t.Boolean({ description: "There is more to read now, even where changes is empty" }),
});
export type ChangesView = Static<typeof ChangesView>;

/** Changes that open pages and counts go through. One that is further behind must read everything again. */
const MOST_BEHIND = 20_000;
/** Rows that one look reads, of the feed or of conversations: some 5 ms. */
const MOST_LOOKED_AT = 10_000;
/** Changes in one answer. */
const LARGEST_PAGE = 500;
const DAY_MS = 86_400_000;
const KEPT_DAYS = 30;
const KEPT_MS = KEPT_DAYS * DAY_MS;
/** Changes removed in one transaction, and the time between two looks for old ones. */
const PORTION = 1_000;
const LOOK_MS = 3_600_000;

const statements = {
  // The rows without a time are the last ones.
  stamp: statement<unknown, [now: number]>(
    `UPDATE thread_changes SET at = ?1 WHERE at IS NULL AND seq > coalesce(
       (SELECT seq FROM thread_changes WHERE at IS NOT NULL ORDER BY seq DESC LIMIT 1), 0)`,
  ),
  forget: statement<unknown, [through: number, before: number]>(
    `DELETE FROM thread_changes WHERE at < ?2 AND seq IN
       (SELECT seq FROM thread_changes WHERE seq <= ?1 ORDER BY seq LIMIT ${PORTION})`,
  ),
  endOfLook: statement<{ seq: number }, [after: number]>(
    `SELECT seq FROM thread_changes WHERE seq > ? ORDER BY seq LIMIT 1 OFFSET ${MOST_LOOKED_AT - 1}`,
  ),
  theirs: statement<
    { seq: number; threadId: string; mailboxId: string; kind: ChangeKind; at: number | null; through: number | null },
    [after: number, through: number, mailboxIds: string, userId: string]
  >(
    `SELECT seq, thread_id AS threadId, mailbox_id AS mailboxId, kind, at, through FROM thread_changes
     WHERE seq > ?1 AND seq <= ?2 AND iif(user_id IS NULL, mailbox_id IN (SELECT value FROM json_each(?3)), user_id = ?4)
     ORDER BY seq LIMIT ${LARGEST_PAGE + 1}`,
  ),
  /** Conversations that were there at a change of reach; for one that left reach, also those that were deleted. */
  there: statement<
    { seq: number; threadId: string; mailboxId: string },
    [after: number, through: number, mailboxIds: string, kind: ChangeKind]
  >(
    `SELECT seq, id AS threadId, mailbox_id AS mailboxId FROM threads
     WHERE seq > ?1 AND seq <= ?2 AND mailbox_id IN (SELECT value FROM json_each(?3))
     UNION ALL
     SELECT thread_seq, thread_id, mailbox_id FROM thread_changes
     WHERE thread_seq > ?1 AND thread_seq <= ?2 AND kind = 'gone' AND mailbox_id IN (SELECT value FROM json_each(?3)) AND ?4 = 'gone'
     ORDER BY 1 LIMIT ${LARGEST_PAGE + 1}`,
  ),
};

const queries = prepared((db) => ({
  latest: db
    .select({ seq: max(threadChanges.seq) })
    .from(threadChanges)
    .prepare(),
  since: db
    .select()
    .from(threadChanges)
    .where(gt(threadChanges.seq, sql.placeholder("seq")))
    .orderBy(threadChanges.seq)
    .limit(sql.placeholder("limit"))
    .prepare(),
  mailboxesOf: db
    .select({ id: mailboxes.id, address: mailboxes.address })
    .from(mailboxes)
    .where(sql`${mailboxes.workspaceId} = ${sql.placeholder("workspaceId")}`)
    .prepare(),
  mailbox: db
    .select({ id: mailboxes.id, address: mailboxes.address })
    .from(mailboxes)
    .where(sql`${mailboxes.id} = ${sql.placeholder("mailboxId")}`)
    .prepare(),
}));

/** The number of the latest change; 0 before the first. */
export const latestChange = (db: Db): number => queries(db).latest.get()?.seq ?? 0;

/**
 * The changes in all mailboxes after the change `seq`, oldest first, at most `limit`; undefined if the feed no longer
 * reaches back that far.
 */
export function changesSince(db: Db, seq: number, limit: number): ChangeRow[] | undefined {
  const behind = latestChange(db) - seq;
  if (behind === 0) return [];
  return behind > MOST_BEHIND ? undefined : queries(db).since.all({ seq, limit });
}

/** Adds a change of messages that leaves their conversation's row as it is. */
export const noteThreadChange = (tx: Tx, { seq, id, mailboxId }: Pick<ThreadRow, "seq" | "id" | "mailboxId">): void =>
  void tx.insert(threadChanges).values({ threadSeq: seq, threadId: id, mailboxId, kind: "upserted" }).run();

/** Adds the times of changes, at the end of every transaction of this process. */
export const stampThreadChanges = ({ store, now }: Core): void =>
  store.inEveryCommit((tx) => void statements.stamp(tx).run(now()));

/** Removes old changes. */
export const forgetThreadChanges = ({ store }: Core): Job => ({
  name: "forget-changes",
  deletes: true,
  async runDue(now) {
    const through = latestChange(store.db) - MOST_BEHIND;
    while ((await store.enqueue((tx) => statements.forget(tx).run(through, now - KEPT_MS).changes)) > 0);
    return now + LOOK_MS;
  },
});

/** A position in the feed, as a cursor holds it. */
interface FeedPosition {
  /** The last row that was read whole. */
  seq: number;
  /** Time of the position, epoch ms. */
  at: number;
  /** Position within the next row, if that is about reach: the last conversation (threads.seq) that was read. */
  within: number;
}

const CURSOR = /^1\.(?<seq>\d{1,15})\.(?<at>\d{1,15})\.(?<within>\d{1,15})$/;

const encode = ({ seq, at, within }: FeedPosition): string =>
  Buffer.from(`1.${seq}.${at}.${within}`).toString("base64url");

/** @throws AppError bad_request */
function decode(db: Db, cursor: string, now: number): FeedPosition {
  const text = Buffer.from(cursor, "base64url");
  const groups = CURSOR.exec(text.toString("latin1"))?.groups;
  if (!groups || text.toString("base64url") !== cursor) {
    throw new AppError("bad_request", "after is not valid: pass the next of an earlier answer as it is");
  }
  const [seq, at, within] = [Number(groups.seq), Number(groups.at), Number(groups.within)];
  // A restored database may have fewer changes than the cursor has seen.
  if (now - at <= KEPT_MS && seq <= latestChange(db)) return { seq, at, within };
  throw new AppError(
    "bad_request",
    `after is no longer known, since changes are kept for ${KEPT_DAYS} days: list everything again, and begin anew without after`,
  );
}

/** The mailboxes, of those that the policy leaves, that a change of the person's reach was about. `reached`: those in reach now. */
function concerned(
  db: Db,
  { workspaceId, policy = {} }: Caller,
  { kind, mailboxId }: { kind: ChangeKind; mailboxId: string | null },
  reached: ReadonlySet<string>,
): string[] {
  const all =
    mailboxId === null
      ? queries(db).mailboxesOf.all({ workspaceId })
      : // One that is gone has no address any more.
        [queries(db).mailbox.get({ mailboxId }) ?? { id: mailboxId, address: "" }];
  return all
    .filter((mailbox) => policyAllowsMailbox(policy, mailbox) && reached.has(mailbox.id) === (kind === "upserted"))
    .map(({ id }) => id);
}

/**
 * The changes in the caller's reach after a cursor, oldest first; without a cursor none, and the present cursor.
 * `mailbox` (id or address): only those in it.
 * @throws AppError bad_request for a cursor that is damaged or too old, not_found (mailbox)
 */
export function readChanges(
  reader: Reader,
  caller: Caller,
  { after, mailbox }: { after?: string | undefined; mailbox?: string | undefined },
): ChangesView {
  const { db } = reader;
  const now = reader.now();
  const mailboxId = mailbox === undefined ? undefined : reachedMailbox(db, caller, mailbox);
  const latest = latestChange(db);
  if (after === undefined) return { changes: [], next: encode({ seq: latest, at: now, within: 0 }), more: false };
  const position = decode(db, after, now);
  const reached = new Set(findReachableMailboxes(db, caller).keys());
  const isWanted = (id: string): boolean => mailboxId === undefined || id === mailboxId;
  const changes: ChangesView["changes"] = [];
  const end = statements.endOfLook(db).get(position.seq)?.seq ?? latest;
  const wanted = JSON.stringify([...reached].filter(isWanted));
  const rows = statements.theirs(db).all(position.seq, end, wanted, caller.userId);
  const answer = (next: FeedPosition, more: boolean): ChangesView => ({ changes, next: encode(next), more });

  for (const { seq, threadId, kind, at: stamped, through, ...row } of rows) {
    if (changes.length >= LARGEST_PAGE) return answer(position, true);
    const at = stamped ?? now;
    const time = toIsoTime(at);
    if (through === null) changes.push({ threadId, mailboxId: row.mailboxId, kind, at: time });
    else {
      const ids = concerned(db, caller, { kind, mailboxId: row.mailboxId }, reached).filter(isWanted);
      if (ids.length > 0) {
        const last = Math.min(through, position.within + MOST_LOOKED_AT);
        const there = statements.there(db).all(position.within, last, JSON.stringify(ids), kind);
        const page = there.slice(0, LARGEST_PAGE - changes.length);
        changes.push(...page.map(({ seq: _, ...thread }) => ({ ...thread, kind, at: time })));
        const within = page.length < there.length ? (page.at(-1)?.seq ?? position.within) : last;
        // One such row an answer, since each may take as long as a whole look.
        return answer(within < through ? { ...position, within } : { seq, at, within: 0 }, true);
      }
    }
    Object.assign(position, { seq, at, within: 0 });
  }
  const isEnd = end === latest;
  return answer({ seq: end, at: isEnd ? now : position.at, within: 0 }, !isEnd);
}
