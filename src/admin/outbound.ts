/** Administers outbound mail: the recipients that are not settled, and the suppressed addresses. */
import { eq } from "drizzle-orm";
import type { Caller } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import { newId } from "../base/runtime.ts";
import {
  listUnsettled,
  type QueuePosition,
  type Unsettled,
  type UnsettledView,
  unsettledFor,
} from "../outbound/progress.ts";
import { cancelEntry, releaseHeldEntries as releaseEntries, retryEntry } from "../outbound/queue.ts";
import {
  listSuppressions as listOf,
  suppress as putSuppression,
  unsuppress as removeSuppression,
  type Suppression,
} from "../outbound/suppression.ts";
import type { Core } from "../store/core.ts";
import type { RowPage } from "../store/cursor.ts";
import { outboundMessages, queueEntries } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import { readTypedAddress, readTypedReason } from "./typed-names.ts";

export type { Suppression, Unsettled, UnsettledView };

export interface NewSuppression {
  workspaceId: string;
  address: string;
  /** For people, one line. */
  reason: string;
}

/** Returns the workspace of a recipient, even a settled one; undefined when there is no such recipient. */
function findRecipientWorkspaceId(db: Db, id: string): string | undefined {
  return db
    .select({ workspaceId: outboundMessages.workspaceId })
    .from(queueEntries)
    .innerJoin(outboundMessages, eq(outboundMessages.seq, queueEntries.messageSeq))
    .where(eq(queueEntries.id, id))
    .get()?.workspaceId;
}

/** @throws AppError not_found when the entry is of another workspace. */
function requireIn(tx: Tx, id: string, workspaceId: string | undefined): void {
  if (workspaceId === undefined || findRecipientWorkspaceId(tx, id) === workspaceId) return;
  throw new AppError("not_found", `there is no queue entry ${id}`);
}

/**
 * Lists, for the operator, the waiting and held recipients of one workspace or of all; reads rows as they are
 * consumed.
 */
export function listQueue({ store }: Core, workspaceId?: string): Iterable<Unsettled> {
  return listUnsettled(store.db, workspaceId);
}

/** Lists those of the caller's workspace; hides the Bcc recipients of mail that others sent (rules: Bcc). */
export function listQueueFor({ store }: Core, caller: Caller, after?: QueuePosition): Iterable<UnsettledView> {
  return unsettledFor(store.db, caller, after);
}

/** Finds a recipient of any workspace, even a settled one. @throws AppError not_found */
export function getQueueEntry({ store }: Core, id: string): { id: string; workspaceId: string } {
  const workspaceId = findRecipientWorkspaceId(store.db, id);
  if (workspaceId === undefined) throw new AppError("not_found", `There is no queue entry ${id}`);
  return { id, workspaceId };
}

/**
 * Makes a recipient due now, even a held one; `workspaceId`: only of that workspace.
 * @throws AppError not_found, conflict
 */
export function retryQueueEntry({ runtime, wake }: Core, tx: Tx, id: string, workspaceId?: string): void {
  requireIn(tx, id, workspaceId);
  retryEntry(tx, id, runtime.now());
  wake("end-rests");
}

/**
 * Gives a recipient up without a bounce; `workspaceId`: only of that workspace.
 * @throws AppError not_found, conflict
 */
export function cancelQueueEntry({ runtime }: Core, tx: Tx, id: string, workspaceId?: string): void {
  requireIn(tx, id, workspaceId);
  cancelEntry(tx, id, runtime.now());
}

/** Releases the held recipients of one workspace or of all; returns how many. */
export function releaseHeld({ wake, runtime }: Core, tx: Tx, workspaceId?: string): number {
  wake("end-rests");
  return releaseEntries(tx, runtime.now(), workspaceId);
}

/** Lists the suppressions of one workspace or of all, oldest first. */
export function listSuppressions({ store }: Core, workspaceId?: string, page?: RowPage): Suppression[] {
  return listOf(store.db, workspaceId, page);
}

/** Suppresses an address; an existing suppression keeps its reason. @throws AppError bad_request */
export function suppress({ runtime }: Core, tx: Tx, { workspaceId, address, reason }: NewSuppression): Suppression {
  return putSuppression(tx, {
    id: newId(runtime, "sup"),
    workspaceId,
    address: readTypedAddress(address),
    reason: readTypedReason(reason),
    now: runtime.now(),
  });
}

/** Removes a suppression by its id. @throws AppError not_found */
export function unsuppress(tx: Tx, workspaceId: string, id: string): void {
  removeSuppression(tx, workspaceId, id);
}
