/** Outbound mail as administration sees it: who is still waiting for it, and who may not be written to. */
import { and, eq } from "drizzle-orm";
import type { Caller } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import { newId, type Runtime } from "../base/runtime.ts";
import { listUnsettled, type QueuePosition, type Unsettled } from "../outbound/outbound.ts";
import { type UnsettledView, unsettledFor } from "../outbound/progress.ts";
import { cancelEntry, releaseHeld, retryEntry } from "../outbound/queue.ts";
import {
  listSuppressions as listOf,
  suppress as putSuppression,
  unsuppressById as removeById,
  unsuppress as removeSuppression,
  type Suppression,
  type SuppressionPage,
} from "../outbound/suppression.ts";
import { outboundMessages, queueEntries } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import { addressOf, reasonOf } from "./names.ts";

export type { Suppression, Unsettled, UnsettledView };

export interface NewSuppression {
  workspaceId: string;
  address: string;
  /** For people, one line. */
  reason: string;
}

export type Outbound = ReturnType<typeof createOutbound>;

export interface OutboundParts {
  store: Store;
  runtime: Pick<Runtime, "now" | "randomBytes">;
  /** Says to the relay, if it runs in this process, that something is due. */
  sendSoon(): void;
}

export function createOutbound({ store, runtime, sendSoon }: OutboundParts) {
  let retried = false;
  // Not before: the relay reads what is committed.
  store.onCommit(() => {
    if (!retried) return;
    retried = false;
    sendSoon();
  });

  /** @throws AppError not_found when the entry is of another workspace. */
  function requireIn(tx: Tx, id: string, workspaceId: string | undefined): void {
    if (workspaceId === undefined) return;
    const found = tx
      .select({ id: queueEntries.id })
      .from(queueEntries)
      .innerJoin(outboundMessages, eq(outboundMessages.seq, queueEntries.messageSeq))
      .where(and(eq(queueEntries.id, id), eq(outboundMessages.workspaceId, workspaceId)))
      .get();
    if (!found) throw new AppError("not_found", `there is no queue entry ${id}`);
  }

  return {
    /** Recipients waiting or held, of one workspace or of all, for the operator; read as they are asked for. */
    listQueue(workspaceId?: string): Iterable<Unsettled> {
      return listUnsettled(store.db, workspaceId);
    },
    /** Those of the caller's workspace, without the Bcc recipients of what others sent (rules: Bcc). */
    listQueueFor(caller: Caller, after?: QueuePosition): Iterable<UnsettledView> {
      return unsettledFor(store.db, caller, after);
    },
    /** Attempts it again now; one that is held goes out. `workspaceId`: only of that one. @throws AppError not_found, conflict */
    retry(tx: Tx, id: string, workspaceId?: string): void {
      requireIn(tx, id, workspaceId);
      retryEntry(tx, id, runtime.now());
      retried = true;
    },
    /** Gives it up; nobody is told. `workspaceId`: only of that one. @throws AppError not_found, conflict */
    cancel(tx: Tx, id: string, workspaceId?: string): void {
      requireIn(tx, id, workspaceId);
      cancelEntry(tx, id, runtime.now());
    },
    /** Lets all go that is held, of one workspace or of all; how many. */
    releaseHeld(tx: Tx, workspaceId?: string): number {
      retried = true;
      return releaseHeld(tx, runtime.now(), workspaceId);
    },
    /** Of one workspace or of all, the oldest first. */
    listSuppressions(workspaceId?: string, page?: SuppressionPage): Suppression[] {
      return listOf(store.db, workspaceId, page);
    },
    /** One that is there stays as it is, with its reason. @throws AppError bad_request */
    suppress(tx: Tx, { workspaceId, address, reason }: NewSuppression): Suppression {
      return putSuppression(tx, {
        id: newId(runtime, "sup"),
        workspaceId,
        address: addressOf(address),
        reason: reasonOf(reason),
        now: runtime.now(),
      });
    },
    /** @throws AppError not_found when the workspace has no suppression of that id */
    unsuppressById(tx: Tx, workspaceId: string, id: string): void {
      removeById(tx, workspaceId, id);
    },
    /** @throws AppError not_found when the workspace does not suppress it, bad_request */
    unsuppress(tx: Tx, workspaceId: string, address: string): void {
      removeSuppression(tx, workspaceId, addressOf(address));
    },
  };
}
