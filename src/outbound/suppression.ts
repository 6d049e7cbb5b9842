/**
 * Whom a workspace may not write to: addresses that bounced for good, recipients who complained, and what the operator
 * added (rules: Hard failure). The only writer of `suppressions`.
 *
 * Addresses are kept and asked for in the spelling of normalizeAddress, and compare whole: `user+tag@` is an address of
 * its own, which one that bounced says nothing about.
 */
import { and, asc, eq, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { normalizeAddress } from "../message/address.ts";
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
    .select({ address: suppressions.address })
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
 * `id`: a new `sup_` id; `now`: epoch ms. @throws AppError unprocessable for what is no address
 */
export function suppress(
  tx: Tx,
  { address, now, ...row }: { id: string; workspaceId: string; address: string; reason: string; now: number },
): void {
  statements(tx).insert.run({ ...row, address: normalized(address), createdAt: now });
}

/** Those of the addresses that the workspace may not write to, as they were given and in their order. */
export function suppressedAmong(db: Db, workspaceId: string, addresses: readonly string[]): string[] {
  return addresses.filter((given) => {
    const address = normalizeAddress(given);
    return address !== undefined && statements(db).find.get({ workspaceId, address }) !== undefined;
  });
}

/** Of one workspace or of all, the oldest first, then by address. */
export function listSuppressions(db: Db, workspaceId?: string): Suppression[] {
  return db
    .select()
    .from(suppressions)
    .where(workspaceId === undefined ? undefined : eq(suppressions.workspaceId, workspaceId))
    .orderBy(asc(suppressions.createdAt), asc(suppressions.address))
    .all();
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
