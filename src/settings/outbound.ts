/** Outbound mail as administration sees it: who is still waiting for it, and who may not be written to. */
import { listUnsettled, type Unsettled } from "../mta/outbound.ts";
import { cancelEntry, retryEntry } from "../mta/queue.ts";
import {
  listSuppressions as listOf,
  suppress as putSuppression,
  unsuppress as removeSuppression,
  type Suppression,
} from "../mta/suppression.ts";
import { newId, type Runtime } from "../runtime.ts";
import type { Store, Tx } from "../store/store.ts";
import { addressOf, reasonOf } from "./names.ts";

export type { Suppression, Unsettled };

export interface NewSuppression {
  workspaceId: string;
  address: string;
  /** For people, one line. */
  reason: string;
}

export type Outbound = ReturnType<typeof createOutbound>;

export function createOutbound({ store, runtime }: { store: Store; runtime: Pick<Runtime, "now" | "randomBytes"> }) {
  return {
    /** Recipients waiting or held, of one workspace or of all; read as they are asked for. */
    listQueue(workspaceId?: string): Iterable<Unsettled> {
      return listUnsettled(store.db, workspaceId);
    },
    /** Attempts it again now; one that is held goes out. @throws AppError not_found, conflict */
    retry(tx: Tx, id: string): void {
      retryEntry(tx, id, runtime.now());
    },
    /** Gives it up; nobody is told. @throws AppError not_found, conflict */
    cancel(tx: Tx, id: string): void {
      cancelEntry(tx, id, runtime.now());
    },
    /** Of one workspace or of all, the oldest first. */
    listSuppressions(workspaceId?: string): Suppression[] {
      return listOf(store.db, workspaceId);
    },
    /** One that is there stays as it is, with its reason. @throws AppError bad_request */
    suppress(tx: Tx, { workspaceId, address, reason }: NewSuppression): void {
      putSuppression(tx, {
        id: newId(runtime, "sup"),
        workspaceId,
        address: addressOf(address),
        reason: reasonOf(reason),
        now: runtime.now(),
      });
    },
    /** @throws AppError not_found when the workspace does not suppress it, bad_request */
    unsuppress(tx: Tx, workspaceId: string, address: string): void {
      removeSuppression(tx, workspaceId, addressOf(address));
    },
  };
}
