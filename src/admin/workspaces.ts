/**
 * Workspaces: their names, and whether anything may be sent from them. The first one is the operator's: its admins have
 * the settings of the server, and what concerns other workspaces.
 */
import { asc, eq } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { newId, type Runtime } from "../base/runtime.ts";
import * as schema from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import { nameOf, reasonOf } from "./names.ts";

export interface Workspace {
  id: string;
  name: string;
  /** Why nothing may be sent from it; null while it may. */
  pausedReason: string | null;
  createdAt: number;
}

export interface WorkspacesParts {
  store: Store;
  runtime: Pick<Runtime, "now" | "randomBytes">;
}

export function createWorkspaces({ store, runtime }: WorkspacesParts) {
  /** Its name as it is stored. @throws AppError bad_request, conflict when another has it, in whatever case. */
  function freeName(text: string, holder?: string): string {
    const name = nameOf("the workspace", text);
    const taken = listWorkspaces().find((known) => known.name.toLowerCase() === name.toLowerCase());
    if (taken && taken.id !== holder) throw new AppError("conflict", `there is a workspace ${name} already`);
    return name;
  }

  /** @throws AppError as freeName */
  function addWorkspace(tx: Tx, text: string): Workspace {
    const workspace = {
      ...{ id: newId(runtime, "wsp"), name: freeName(text) },
      ...{ pausedReason: null, createdAt: runtime.now() },
    };
    tx.insert(schema.workspaces).values(workspace).run();
    return workspace;
  }

  /** Oldest first, then by name. */
  function listWorkspaces(): Workspace[] {
    return store.db
      .select()
      .from(schema.workspaces)
      .orderBy(asc(schema.workspaces.createdAt), asc(schema.workspaces.name))
      .all();
  }

  /** @throws AppError not_found */
  function workspaceNamed(name: string): Workspace {
    const workspace = listWorkspaces().find((known) => known.name.toLowerCase() === name.trim().toLowerCase());
    if (!workspace) throw new AppError("not_found", `there is no workspace ${name}`);
    return workspace;
  }

  /** @throws AppError not_found */
  function workspaceOf(id: string): Workspace {
    const workspace = listWorkspaces().find((known) => known.id === id);
    if (!workspace) throw new AppError("not_found", "there is no such workspace");
    return workspace;
  }

  /** @throws AppError as freeName, not_found */
  function renameWorkspace(tx: Tx, workspaceId: string, text: string): void {
    change(tx, workspaceId, { name: freeName(text, workspaceId) });
  }

  /**
   * Nothing more is accepted for sending from its mailboxes (rules: Pause); what was goes out. @throws AppError
   * bad_request, not_found
   */
  function pauseWorkspace(tx: Tx, workspaceId: string, reason: string): void {
    change(tx, workspaceId, { pausedReason: reasonOf(reason) });
  }

  /** Mailboxes that are paused themselves stay so. @throws AppError not_found */
  function resumeWorkspace(tx: Tx, workspaceId: string): void {
    change(tx, workspaceId, { pausedReason: null });
  }

  function change(tx: Tx, workspaceId: string, values: Partial<Pick<Workspace, "name" | "pausedReason">>): void {
    const [changed] = tx
      .update(schema.workspaces)
      .set(values)
      .where(eq(schema.workspaces.id, workspaceId))
      .returning()
      .all();
    if (!changed) throw new AppError("not_found", "there is no such workspace");
  }

  const isOperator = (workspaceId: string): boolean => listWorkspaces()[0]?.id === workspaceId;

  /**
   * The settings of the server are for all its workspaces, so the first one's admins have them.
   * @throws AppError forbidden for any other workspace.
   */
  function requireOperator(workspaceId: string): void {
    if (isOperator(workspaceId)) return;
    throw new AppError(
      "forbidden",
      "these settings hold for every workspace: the first workspace's admins change them",
    );
  }

  return {
    addWorkspace,
    listWorkspaces,
    workspaceNamed,
    workspaceOf,
    renameWorkspace,
    pauseWorkspace,
    resumeWorkspace,
    isOperator,
    requireOperator,
  };
}
