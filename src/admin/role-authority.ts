/**
 * Decides who may change whom (rules: Administered people): owners change everybody, admins everybody but owners, and nobody
 * themselves. A workspace keeps an owner who can sign in.
 */
import { and, eq, isNull, ne } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { type Role, users } from "../store/schema.ts";
import type { Db } from "../store/store.ts";

/**
 * Id of the person who makes a change. Without it, the operator at the command line makes it, who may do anything that
 * leaves the workspace an owner.
 */
export type By = string | undefined;

/** @throws AppError not_found */
export function requireUser(db: Db, userId: string): typeof users.$inferSelect {
  const user = db.select().from(users).where(eq(users.id, userId)).get();
  if (!user) throw new AppError("not_found", "there is no such user");
  return user;
}

/** Reads the acting person. @throws AppError forbidden unless they still administer that workspace */
function actorIn(db: Db, by: string, workspaceId: string): typeof users.$inferSelect {
  const actor = db.select().from(users).where(eq(users.id, by)).get();
  if (actor?.workspaceId !== workspaceId || actor.role === "member" || actor.lockedAt !== null) {
    throw new AppError("forbidden", "only an owner or admin of the workspace may do that");
  }
  return actor;
}

/** @throws AppError forbidden when an admin would make an owner, who may do more than the admin */
export function refuseMakingOwner(db: Db, by: By, workspaceId: string, role: Role): void {
  if (by === undefined) return;
  if (actorIn(db, by, workspaceId).role !== "owner" && role === "owner") {
    throw new AppError("forbidden", "only an owner can make somebody an owner");
  }
}

/** @throws AppError not_found; forbidden for a change to oneself, and to an owner unless an owner makes it */
export function refuseChangingUser(db: Db, by: By, userId: string): void {
  if (by === undefined) return;
  const user = requireUser(db, userId);
  const actor = actorIn(db, by, user.workspaceId);
  if (user.id === actor.id) {
    throw new AppError(
      "forbidden",
      "you cannot change your own role or password here, or lock or remove yourself: ask another admin",
    );
  }
  if (user.role === "owner" && actor.role !== "owner") {
    throw new AppError("forbidden", `${user.email} is an owner: only another owner may do that`);
  }
}

/**
 * Refuses the first password of a person, or another in place of theirs, which admins give to members and owners to
 * everybody. @throws AppError as refuseChangingUser
 */
export function refuseReplacingPassword(db: Db, by: By, userId: string): void {
  refuseChangingUser(db, by, userId);
  if (by === undefined) return;
  const { workspaceId, passwordHash, role, email } = requireUser(db, userId);
  if (passwordHash !== null && role !== "member" && actorIn(db, by, workspaceId).role !== "owner") {
    throw new AppError("forbidden", `${email} is an admin: only an owner may replace their password`);
  }
}

/** @throws AppError not_found; conflict for the last owner of a workspace who is not locked */
export function refuseLastOwner(db: Db, userId: string, action: string): void {
  const { workspaceId, role, email } = requireUser(db, userId);
  if (role !== "owner") return;
  const isOther = and(
    eq(users.workspaceId, workspaceId),
    eq(users.role, "owner"),
    ne(users.id, userId),
    isNull(users.lockedAt),
  );
  if (!db.select().from(users).where(isOther).get()) {
    throw new AppError("conflict", `${email} is the last owner of the workspace and cannot be ${action}`);
  }
}
