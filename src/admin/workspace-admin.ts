/**
 * Workspaces: their names and pauses. The first one is the operator's: its admins change the settings of the server,
 * and administer what concerns other workspaces.
 */
import { asc, count, eq } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { newId } from "../base/runtime.ts";
import type { Core } from "../store/core.ts";
import * as schema from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { readDisplayName, readTypedReason } from "./typed-names.ts";

export interface Workspace {
  id: string;
  name: string;
  /** Why sending from it is paused; null when it is not. */
  pausedReason: string | null;
  createdAt: number;
  /** Why the workspace is not served here: it has left (`out`), or an import of it is under way (`in`). Null: it is served. */
  moving: (typeof schema.MOVING)[number] | null;
  /** How many mailboxes and bytes it may have; null: as many as it likes. */
  mostMailboxes: number | null;
  mostBytes: number | null;
}

export interface WorkspaceUse {
  mailboxes: number;
  /** Bytes of all mail of the workspace. */
  usedBytes: number;
}

/** Reads a name that no workspace except `holder` has, ignoring case. @throws AppError bad_request, conflict */
function freeName(core: Core, text: string, holder?: string): string {
  const name = readDisplayName("the workspace", text);
  const taken = listWorkspaces(core).find((known) => known.name.toLowerCase() === name.toLowerCase());
  if (taken && taken.id !== holder) throw new AppError("conflict", `there is a workspace ${name} already`);
  return name;
}

/** @throws AppError as freeName */
export function addWorkspace(core: Core, tx: Tx, text: string): Workspace {
  const last = listWorkspaces(core).at(-1)?.createdAt ?? 0;
  const workspace = {
    id: newId(core.runtime, "wsp"),
    name: freeName(core, text),
    pausedReason: null,
    moving: null,
    mostMailboxes: null,
    mostBytes: null,
    // The first is the operator's, also if the clock was ahead when it was added.
    createdAt: Math.max(core.runtime.now(), last + 1),
  };
  tx.insert(schema.workspaces).values(workspace).run();
  return workspace;
}

/** Lists all workspaces, oldest first, then by name. */
export function listWorkspaces({ store }: Core): Workspace[] {
  return store.db
    .select()
    .from(schema.workspaces)
    .orderBy(asc(schema.workspaces.createdAt), asc(schema.workspaces.name))
    .all();
}

/** @throws AppError not_found */
export function getWorkspaceByName(core: Core, name: string): Workspace {
  const workspace = listWorkspaces(core).find((known) => known.name.toLowerCase() === name.trim().toLowerCase());
  if (!workspace) throw new AppError("not_found", `there is no workspace ${name}`);
  return workspace;
}

/** @throws AppError not_found */
export function getWorkspaceById(core: Core, id: string): Workspace {
  const workspace = listWorkspaces(core).find((known) => known.id === id);
  if (!workspace) throw new AppError("not_found", "there is no such workspace");
  return workspace;
}

/** @throws AppError as freeName, not_found */
export function renameWorkspace(core: Core, tx: Tx, workspaceId: string, text: string): void {
  change(tx, workspaceId, { name: freeName(core, text, workspaceId) });
}

/**
 * Pauses sending from its mailboxes: new mail is refused (rules: Pause), and accepted mail still goes out.
 * @throws AppError bad_request, not_found
 */
export function pauseWorkspace(tx: Tx, workspaceId: string, reason: string): void {
  change(tx, workspaceId, { pausedReason: readTypedReason(reason) });
}

/** Ends the pause of the workspace; mailboxes with a pause of their own keep it. @throws AppError not_found */
export function resumeWorkspace(tx: Tx, workspaceId: string): void {
  change(tx, workspaceId, { pausedReason: null });
}

/**
 * Limits the mailboxes and bytes of a workspace; what it has already stays. Null: as many as it likes.
 * @throws AppError not_found
 */
export const setWorkspaceLimits = (
  tx: Tx,
  workspaceId: string,
  limits: Partial<Pick<Workspace, "mostMailboxes" | "mostBytes">>,
): void => change(tx, workspaceId, limits);

export function getWorkspaceUse({ store }: Core, workspaceId: string): WorkspaceUse {
  const { workspaceUsage, mailboxes } = schema;
  const { db } = store;
  const own = eq(mailboxes.workspaceId, workspaceId);
  const usage = db.select().from(workspaceUsage).where(eq(workspaceUsage.workspaceId, workspaceId)).get();
  return {
    mailboxes: db.select({ count: count() }).from(mailboxes).where(own).get()?.count ?? 0,
    usedBytes: usage?.bytes ?? 0,
  };
}

function change(tx: Tx, workspaceId: string, values: Partial<Omit<Workspace, "id" | "createdAt" | "moving">>): void {
  const [changed] = tx
    .update(schema.workspaces)
    .set(values)
    .where(eq(schema.workspaces.id, workspaceId))
    .returning()
    .all();
  if (!changed) throw new AppError("not_found", "there is no such workspace");
}

export const isOperatorWorkspace = (core: Core, workspaceId: string): boolean =>
  listWorkspaces(core)[0]?.id === workspaceId;

/**
 * Settings of the server apply to all workspaces, so only the first one's admins change them.
 * @throws AppError forbidden for any other workspace
 */
export function requireOperatorWorkspace(core: Core, workspaceId: string): void {
  if (isOperatorWorkspace(core, workspaceId)) return;
  throw new AppError(
    "forbidden",
    "these settings apply to every workspace: only owners and admins of the first workspace may change them",
  );
}
