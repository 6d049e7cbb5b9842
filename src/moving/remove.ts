/**
 * Removes a workspace that this server does not serve: one that has left, or one of which an import was given up. In short
 * transactions, so that a running server goes on; a removal that was cut short must be asked for again.
 */
import { AppError } from "../base/errors.ts";
import { deleteMailboxMailPortion } from "../mailbox/changing/removal.ts";
import type { Core } from "../store/core.ts";
import type { NotAPromise, Tx } from "../store/store.ts";
import { createPacing } from "../transfer/import-mail.ts";
import { getWorkspaceRow } from "./export-workspace.ts";
import { deletePortionSql } from "./rows.ts";
import { MOVED } from "./tables.ts";

const DELETED_AT_ONCE = 200;

/** @throws AppError conflict for a workspace that is served; errors of the store */
export async function removeWorkspace(core: Core, workspaceId: string): Promise<void> {
  const { store } = core;
  const { moving, name } = getWorkspaceRow(store.db, workspaceId);
  if (moving === null) {
    throw new AppError("conflict", `this server serves ${name}: only a workspace that has left can be removed`);
  }
  const sqlite = store.db.$client;
  const pacing = createPacing(core);
  const paced = <T>(work: (tx: Tx) => NotAPromise<T>): Promise<T> =>
    pacing.run(DELETED_AT_ONCE, (begun) =>
      store.transact((tx) => {
        begun();
        return work(tx);
      }),
    );
  const mailboxes = sqlite.prepare<{ id: string }, [string]>("SELECT id FROM mailboxes WHERE workspace_id = ?");
  for (const { id } of mailboxes.all(workspaceId))
    while (await paced((tx) => deleteMailboxMailPortion(tx, id, DELETED_AT_ONCE)));
  for (const { name: table, stage } of MOVED.toReversed()) {
    if (stage === "mail") continue;
    const statement = sqlite.prepare<unknown, [string]>(deletePortionSql(sqlite, table));
    while ((await paced(() => statement.run(workspaceId).changes)) > 0);
  }
  await paced(() => void sqlite.prepare("DELETE FROM workspaces WHERE id = ?").run(workspaceId));
}
