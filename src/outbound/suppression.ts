/**
 * The suppression list of a workspace, to which it may not write: addresses that bounced for good, recipients who complained, and what the operator
 * added (rules: Hard failure). The only writer of `suppressions`.
 *
 * Addresses are kept and asked for in the spelling of normalizeAddress, and compare whole: `user+tag@` is an address of
 * its own, which one that bounced says nothing about.
 */
import { and, asc, eq, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { normalizeAddress } from "../message/address.ts";
import type { RowPosition } from "../store/cursor.ts";
import { suppressions } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";

export type Suppression = typeof suppressions.$inferSelect;

const statements = prepared((db) => ({
  insert: db
    .insert(suppressions)
    .values({
      id: sql.placeholder("id"),
      workspaceId: sql.placeholder("workspaceId"),
      address: sql.placeholder("address"),
      reason: sql.placeholder("reason"),
      createdAt: sql.placeholder("createdAt"),
    })
    .onConflictDoNothing()
    .prepare(),
  find: db
    .select()
    .from(suppressions)
    .where(
      and(
        eq(suppressions.workspaceId, sql.placeholder("workspaceId")),
        eq(suppressions.address, sql.placeholder("address")),
      ),
    )
    .prepare(),
}));

/** @throws AppError unprocessable naming what is no address */
function normalized(address: string): string {
  const spelling = normalizeAddress(address);
  if (spelling === undefined) throw new AppError("unprocessable", `${address} is not an email address`);
  return spelling;
}

/**
 * From now on the workspace may not write to the address. Of an address that is there already, id, reason and time stay.
 * `id`: a new `sup_` id; `now`: epoch ms. Returns the entry that stands. @throws AppError unprocessable for what is no address
 */
export function suppress(
  tx: Tx,
  { address, now, ...row }: { id: string; workspaceId: string; address: string; reason: string; now: number },
): Suppression {
  const spelling = normalized(address);
  statements(tx).insert.run({ ...row, address: spelling, createdAt: now });
  const { workspaceId } = row;
  return statements(tx).find.get({ workspaceId, address: spelling }) as Suppression;
}

/** Those of the addresses that the workspace may not write to, as they were given and in their order. */
export function suppressedAmong(db: Db, workspaceId: string, addresses: readonly string[]): string[] {
  return addresses.filter((given) => {
    const address = normalizeAddress(given);
    return address !== undefined && statements(db).find.get({ workspaceId, address }) !== undefined;
  });
}

/** Which suppressions to list: `after` the one at that time (epoch ms) and address; at most `limit`, or all. */
export interface SuppressionPage {
  after?: RowPosition | undefined;
  limit?: number;
}

/** Of one workspace or of all, the oldest first, then by address. */
export function listSuppressions(
  db: Db,
  workspaceId?: string,
  { after, limit = -1 }: SuppressionPage = {},
): Suppression[] {
  const { createdAt, address } = suppressions;
  return db
    .select()
    .from(suppressions)
    .where(
      and(
        workspaceId === undefined ? undefined : eq(suppressions.workspaceId, workspaceId),
        after && sql`(${createdAt}, ${address}) > (${after.at}, ${after.id})`,
      ),
    )
    .orderBy(asc(createdAt), asc(address))
    .limit(limit)
    .all();
}

/** The workspace may write to the address of that entry again. @throws AppError not_found */
export function unsuppressById(tx: Tx, workspaceId: string, id: string): void {
  const removed = tx
    .delete(suppressions)
    .where(and(eq(suppressions.id, id), eq(suppressions.workspaceId, workspaceId)))
    .returning({ id: suppressions.id })
    .all();
  if (removed.length === 0) throw new AppError("not_found", `there is no suppression ${id}`);
}

/**
 * The workspace, or every one when none is named, may write to the address again.
 * @throws AppError unprocessable for what is no address, not_found for one that is not suppressed
 */
export function unsuppress(tx: Tx, workspaceId: string | undefined, address: string): void {
  const removed = tx
    .delete(suppressions)
    .where(
      and(
        eq(suppressions.address, normalized(address)),
        workspaceId === undefined ? undefined : eq(suppressions.workspaceId, workspaceId),
      ),
    )
    .returning({ id: suppressions.id })
    .all();
  if (removed.length === 0) throw new AppError("not_found", `${address} is not suppressed`);
}
