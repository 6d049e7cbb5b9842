/** The journal of a key as people see it (rules: Journal). */
import type { Caller } from "../access/caller.ts";
import { type Face, JOURNAL_KINDS, type JournalKind } from "../store/schema.ts";
import { statement } from "../store/statement.ts";
import type { Db } from "../store/store.ts";
import { NEWEST, type Position, type Wanted } from "./key-changes.ts";

export interface JournalEntry extends Position {
  kind: JournalKind;
  userId: string | null;
  operation: string;
  face: Face | null;
  client: string | null;
  source: string | null;
  ids: string[];
  outcome: string;
  reads: number | null;
  changes: number;
  recipients: number;
  sent: number;
}

/** Messages that a key had sent. */
export interface SentByKey {
  messages: number;
  recipients: number;
  /** The latest ones. */
  latest: (Position & { ids: string[]; recipients: number })[];
}

/** Entries that one look goes through, whatever it finds: some 10 ms. */
const MOST_LOOKED_AT = 5_000;
const MOST_SENT = 200;

const KIND = `CASE WHEN reads IS NOT NULL THEN 'read' WHEN outcome NOT IN ('ok', 'held') THEN 'refused'
  WHEN recipients > 0 OR sent > 0 THEN 'sent' ELSE 'changed' END`;

type Row = Omit<JournalEntry, "ids"> & { ids: string };
type Look = [workspaceId: string, keyId: string, since: number, at: number, seq: number];

const behind = `FROM journal_entries WHERE workspace_id = ?1 AND key_id = ?2 AND at >= ?3 AND (at, seq) < (?4, ?5)
  ORDER BY at DESC, seq DESC`;

const statements = {
  page: statement<Row, [...Look, kinds: string, limit: number, outcome: string | null]>(
    `SELECT * FROM (SELECT seq, at, user_id AS userId, operation, face, client, source, ids, outcome, reads, changes,
         recipients, sent, ${KIND} AS kind ${behind} LIMIT ${MOST_LOOKED_AT})
     WHERE kind IN (SELECT value FROM json_each(?6)) AND outcome = coalesce(?8, outcome) LIMIT ?7`,
  ),
  endOfLook: statement<Position, Look>(`SELECT at, seq ${behind} LIMIT 1 OFFSET ${MOST_LOOKED_AT - 1}`),
  counts: statement<{ messages: number; recipients: number }, [keyId: string, since: number]>(
    `SELECT count(*) AS messages, coalesce(sum(sent), 0) AS recipients FROM journal_entries
     WHERE key_id = ? AND at >= ? AND sent > 0`,
  ),
  sent: statement<Position & { ids: string; recipients: number }, [keyId: string, since: number]>(
    `SELECT at, seq, ids, sent AS recipients FROM journal_entries
     WHERE key_id = ? AND at >= ? AND sent > 0 ORDER BY at DESC, seq DESC LIMIT ${MOST_SENT}`,
  ),
  findKeyWorkspace: statement<{ workspaceId: string; userId: string | null }, [keyId: string]>(
    `SELECT workspace_id AS workspaceId, user_id AS userId FROM workspaces
     CROSS JOIN journal_entries ON workspace_id = workspaces.id AND key_id = ? AND operation NOT IN ('undo', 'approve') LIMIT 1`,
  ),
};

/** A key whose journal is asked for. */
export interface JournalSubject {
  workspaceId: string;
  keyId: string;
  /** The person for whom it acts; null if that is no longer known. */
  userId: string | null;
}

/** True for the key's person, and for owners and admins of its workspace. */
export const maySeeJournal = (
  { workspaceId, userId, role }: Pick<Caller, "workspaceId" | "userId" | "role">,
  key: Pick<JournalSubject, "workspaceId" | "userId">,
): boolean => workspaceId === key.workspaceId && (userId === key.userId || role !== "member");

/** Which entries; all kinds and outcomes unless some are named. */
export interface JournalPage {
  behind?: Position | undefined;
  kinds?: readonly JournalKind[] | undefined;
  outcome?: string | null | undefined;
  limit: number;
}

/** A page of entries, newest first; `next` is where the next page begins. A page may be short and still have one. */
export function listJournal(
  db: Db,
  { workspaceId, keyId, since }: Wanted,
  { behind = NEWEST, kinds = JOURNAL_KINDS, outcome = null, limit }: JournalPage,
): { entries: JournalEntry[]; next?: Position | undefined } {
  const look: Look = [workspaceId, keyId, since, behind.at, behind.seq];
  const rows = statements.page(db).all(...look, JSON.stringify(kinds), limit, outcome);
  const entries = rows.map((row) => ({ ...row, ids: JSON.parse(row.ids) as string[] }));
  const last = entries.at(-1);
  const next =
    entries.length === limit && last ? { at: last.at, seq: last.seq } : statements.endOfLook(db).get(...look);
  return { entries, ...(next && { next }) };
}

/** Counts the messages and recipients that a key had sent since a time, with the latest messages. */
export function countSentByKey(db: Db, { keyId, since }: Wanted): SentByKey {
  const counts = statements.counts(db).get(keyId, since) as Omit<SentByKey, "latest">;
  const latest = statements.sent(db).all(keyId, since);
  return { ...counts, latest: latest.map(({ ids, ...one }) => ({ ...one, ids: JSON.parse(ids) })) };
}

/** Workspace and person of a key that is gone, as its entries have them. */
export const findJournalSubject = (db: Db, keyId: string): JournalSubject | undefined => {
  const known = statements.findKeyWorkspace(db).get(keyId);
  return known ? { ...known, keyId } : undefined;
};
