/**
 * Limits of a policy on what a key sends and changes (rules: Policies), counted from the journal. The acts of keys that a key
 * made count for that key, too, so that it gets no more by making keys.
 */
import type { Caller } from "../access/caller.ts";
import { PolicyRefusal } from "../access/policy.ts";
import type { Policy } from "../store/schema.ts";
import { statement } from "../store/statement.ts";
import type { Db } from "../store/store.ts";

/** The amount used of a limit. */
export interface Used {
  count: number;
  /** When the earliest of it happened, epoch ms; null if there is none. */
  earliest: number | null;
}

type Limit = "changesPerHour" | "recipientsPerDay";

const HOUR_MS = 3_600_000;
const LIMITS: Record<Limit, { column: string; windowMs: number; what: string }> = {
  changesPerHour: { column: "changes", windowMs: HOUR_MS, what: "changes an hour" },
  recipientsPerDay: { column: "recipients", windowMs: 24 * HOUR_MS, what: "recipients a day" },
};

const used = ({ column }: { column: string }) =>
  statement<Used, [keyId: string, since: number]>(
    `WITH RECURSIVE family(id) AS (
       SELECT ?1 UNION SELECT k.id FROM api_keys k JOIN family ON k.made_by = family.id)
     SELECT coalesce(sum(${column}), 0) AS count, min(at) AS earliest
     FROM family CROSS JOIN journal_entries ON key_id = family.id WHERE at > ?2 AND ${column} > 0`,
  );

const statements = {
  changesPerHour: used(LIMITS.changesPerHour),
  recipientsPerDay: used(LIMITS.recipientsPerDay),
  line: statement<{ id: string; policy: string }, [keyId: string]>(
    `WITH RECURSIVE line(id, policy, made_by) AS (
       SELECT id, policy, made_by FROM api_keys WHERE id = ?1
       UNION SELECT k.id, k.policy, k.made_by FROM api_keys k JOIN line ON k.id = line.made_by)
     SELECT id, policy FROM line WHERE policy <> '{}'`,
  ),
};

/** The amount of a limit that a key, and the keys that it made, used in the limit's window up to `now` (epoch ms). */
export const getKeyLimitUse = (db: Db, keyId: string, limit: Limit, now: number): Used =>
  statements[limit](db).get(keyId, now - LIMITS[limit].windowMs) as Used;

/**
 * Checks that `count` more are within the limits of a caller's key, and of the keys that made it.
 * @throws PolicyRefusal rate_limited, with the seconds until some of it is over
 */
export function requireKeyLimitLeft(db: Db, { keyId }: Caller, limit: Limit, count: number, now: number): void {
  // A key without a policy may have been made by one that got a policy since.
  if (keyId === undefined || count === 0) return;
  for (const { id, policy: json } of statements.line(db).all(keyId)) {
    const most = (JSON.parse(json) as Policy)[limit];
    if (most === undefined) continue;
    const { windowMs, what } = LIMITS[limit];
    const { count: used, earliest } = getKeyLimitUse(db, id, limit, now);
    if (used + count <= most) continue;
    const wait = Math.max(1, Math.ceil(((earliest ?? now) + windowMs - now) / 1_000));
    throw new PolicyRefusal(
      "rate_limited",
      `The policy of this API key allows ${most} ${what}, of which ${used} are used: nothing was done. Wait ${wait} seconds`,
      { retryAfter: wait },
    );
  }
}
