/**
 * The suppression list of a workspace: addresses that it may not write to, because they bounced for good, their owners
 * complained, or the operator added them (rules: Hard failure). The only writer of `suppressions`.
 *
 * Addresses are kept and looked up in the spelling of normalizeAddress, and compared as a whole: `user+tag@` is another address
 * than `user@`.
 */
import { and, asc, eq, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { normalizeAddress } from "../message/address.ts";
import type { RowPage } from "../store/cursor.ts";
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

/** @throws AppError unprocessable, naming a text that is not an address */
function normalized(address: string): string {
  const spelling = normalizeAddress(address);
  if (spelling === undefined) throw new AppError("unprocessable", `${address} is not an email address`);
  return spelling;
}

/**
 * Adds an address to the list, and returns its entry. An entry that exists keeps its id, reason and time. `id`: a new `sup_`
 * id; `now`: epoch ms. @throws AppError unprocessable for a text that is not an address
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

/** Returns the addresses that the workspace may not write to, as they were given and in their order. */
export function suppressedAmong(db: Db, workspaceId: string, addresses: readonly string[]): string[] {
  return addresses.filter((given) => {
    const address = normalizeAddress(given);
    return address !== undefined && statements(db).find.get({ workspaceId, address }) !== undefined;
  });
}

/** Lists the suppressions of one workspace, or of all: the oldest first, then by address, which is their position's id. */
export function listSuppressions(db: Db, workspaceId?: string, { after, limit = -1 }: RowPage = {}): Suppression[] {
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

/** Removes the entry with that id from the workspace's list. @throws AppError not_found */
export function unsuppress(tx: Tx, workspaceId: string, id: string): void {
  const removed = tx
    .delete(suppressions)
    .where(and(eq(suppressions.id, id), eq(suppressions.workspaceId, workspaceId)))
    .returning({ id: suppressions.id })
    .all();
  if (removed.length === 0) throw new AppError("not_found", `There is no suppression ${id}`);
}
