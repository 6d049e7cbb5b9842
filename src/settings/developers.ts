/** API keys as administration sees them (spec: Authentication 2). The keys themselves are access/credentials.ts's. */
import {
  createKey as createCredential,
  type KeyRecord,
  listKeys as listOf,
  revokeKey as revoke,
} from "../access/credentials.ts";
import { AppError } from "../errors.ts";
import type { Runtime } from "../runtime.ts";
import type { Scope } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import { nameOf } from "./names.ts";

export { SCOPES } from "../store/schema.ts";
export type { KeyRecord };

export interface NewKey {
  userId: string;
  name: string;
  scopes: readonly Scope[];
}

export type Developers = ReturnType<typeof createDevelopers>;

export function createDevelopers({ store, runtime }: { store: Store; runtime: Pick<Runtime, "now" | "randomBytes"> }) {
  return {
    /** `key` is seen here and never again. */
    createKey(tx: Tx, { userId, name, scopes }: NewKey): { id: string; key: string } {
      return createCredential(tx, runtime, { userId, name: nameOf("the key", name), scopes });
    },
    /** Newest first, revoked ones too. */
    listKeys(workspaceId: string): KeyRecord[] {
      return listOf(store.db, workspaceId);
    },
    /** `workspaceId`: only a key of that workspace. @throws AppError not_found when there is no live key of that id. */
    revokeKey(tx: Tx, id: string, workspaceId?: string): void {
      const known = workspaceId === undefined || listOf(tx, workspaceId).some((key) => key.id === id);
      if (!known || !revoke(tx, id, runtime.now())) {
        throw new AppError("not_found", `there is no key ${id}, or it was revoked before`);
      }
    },
  };
}
