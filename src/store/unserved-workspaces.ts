/**
 * Workspaces that this server has, but does not serve: one that has left for another server, and one of which an import is
 * under way (moving/). Nothing is taken for them, and nothing of theirs is done or sent.
 */
import { unavailable } from "../base/errors.ts";
import { perDatabase } from "./statement.ts";
import type { Db } from "./store.ts";

/** SQL: the ids of workspaces that are not served; most often none. */
export const UNSERVED = "(SELECT id FROM workspaces WHERE moving IS NOT NULL)";
/** SQL: the ids of their mailboxes. */
export const UNSERVED_MAILBOXES = `(SELECT id FROM mailboxes WHERE workspace_id IN ${UNSERVED})`;

const unserved = perDatabase(({ $client }) =>
  $client.prepare<unknown, [id: string]>("SELECT 1 FROM workspaces WHERE id = ? AND moving IS NOT NULL"),
);

/** False for a workspace that moves to or from another server. */
export const isWorkspaceServed = (db: Db, workspaceId: string): boolean => unserved(db).get(workspaceId) === null;

/** @throws AppError server_error 503 for a workspace that is not served */
export function requireWorkspaceServed(db: Db, workspaceId: string): void {
  if (!isWorkspaceServed(db, workspaceId))
    throw unavailable("This workspace is moving to another server; try again later");
}
