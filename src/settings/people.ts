/**
 * Workspaces and the people in them, with their mailboxes. A workspace that has an owner always keeps one; a person who
 * leaves takes their keys and shares along, and leaves their mailboxes behind without an owner.
 *
 * What writes takes the transaction, so that a caller can join several changes into one.
 */
import { and, asc, eq, ne } from "drizzle-orm";
import { hashPassword as hashOf } from "../access/credentials.ts";
import { endSessions } from "../access/sessions.ts";
import { AppError } from "../errors.ts";
import { newId } from "../runtime.ts";
import type { Role } from "../store/schema.ts";
import * as schema from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { createMailboxes, type MailboxEntry, type MailboxesParts } from "./mailboxes.ts";
import { addressOf, nameOf, reasonOf } from "./names.ts";

export { GRANT_ACCESS, ROLES } from "../store/schema.ts";
export type { MailboxEntry };

const LONGEST_PASSWORD = 1024;

export interface Workspace {
  id: string;
  name: string;
  /** Why nothing may be sent from it; null while it may. */
  pausedReason: string | null;
  createdAt: number;
}

export interface UserEntry {
  id: string;
  workspaceId: string;
  /** Sign-in name. */
  email: string;
  name: string;
  role: Role;
  /** False for a person who has no password and so cannot sign in. */
  canSignIn: boolean;
  createdAt: number;
}

export interface NewUser {
  workspaceId: string;
  email: string;
  name: string;
  role: Role;
  /** From hashPassword here. */
  passwordHash?: string | undefined;
  /** Whether they get a mailbox of their own at that address, whose domain is then the workspace's. */
  ownMailbox: boolean;
}

/** argon2id; some 50 ms, so before the transaction. @throws AppError bad_request for what cannot be a password. */
export async function hashPassword(password: string): Promise<string> {
  if (password === "" || Buffer.byteLength(password) > LONGEST_PASSWORD) {
    throw new AppError("bad_request", `give a password of 1 to ${LONGEST_PASSWORD} bytes`);
  }
  return hashOf(password);
}

export type People = ReturnType<typeof createPeople>;

export function createPeople(parts: MailboxesParts) {
  const { store, runtime } = parts;
  const mailboxes = createMailboxes(parts);

  /** @throws AppError conflict when there is one of that name, in whatever case. */
  function addWorkspace(tx: Tx, text: string): Workspace {
    const name = nameOf("the workspace", text);
    if (listWorkspaces().some((known) => known.name.toLowerCase() === name.toLowerCase())) {
      throw new AppError("conflict", `there is a workspace ${name} already`);
    }
    const workspace = { id: newId(runtime, "wsp"), name, pausedReason: null, createdAt: runtime.now() };
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

  /** As pauseMailbox, for all its mailboxes. @throws AppError bad_request, not_found */
  function pauseWorkspace(tx: Tx, workspaceId: string, reason: string): void {
    setPaused(tx, workspaceId, reasonOf(reason));
  }

  /** Mailboxes that are paused themselves stay so. @throws AppError not_found */
  function resumeWorkspace(tx: Tx, workspaceId: string): void {
    setPaused(tx, workspaceId, null);
  }

  function setPaused(tx: Tx, workspaceId: string, pausedReason: string | null): void {
    const [changed] = tx
      .update(schema.workspaces)
      .set({ pausedReason })
      .where(eq(schema.workspaces.id, workspaceId))
      .returning()
      .all();
    if (!changed) throw new AppError("not_found", "there is no such workspace");
  }

  /**
   * `mailboxId` is that of their own mailbox, if they were to get one.
   * @throws AppError bad_request, conflict for an address that is taken, and what addMailbox refuses.
   */
  function addUser(tx: Tx, user: NewUser): { userId: string; mailboxId?: string } {
    const email = addressOf(user.email);
    const name = nameOf("the user", user.name);
    if (tx.select().from(schema.users).where(eq(schema.users.email, email)).get()) {
      throw new AppError("conflict", `there is a user ${email} already`);
    }
    const userId = newId(runtime, "usr");
    tx.insert(schema.users)
      .values({
        id: userId,
        workspaceId: user.workspaceId,
        email,
        name,
        role: user.role,
        passwordHash: user.passwordHash ?? null,
        createdAt: runtime.now(),
      })
      .run();
    if (!user.ownMailbox) return { userId };
    const { workspaceId } = user;
    return { userId, mailboxId: mailboxes.addMailbox(tx, { workspaceId, address: email, name, ownerId: userId }) };
  }

  /** By address; of one workspace, or of all. */
  function listUsers(workspaceId?: string): UserEntry[] {
    return store.db
      .select()
      .from(schema.users)
      .where(workspaceId === undefined ? undefined : eq(schema.users.workspaceId, workspaceId))
      .orderBy(asc(schema.users.email))
      .all()
      .map(({ passwordHash, ...user }) => ({ ...user, canSignIn: passwordHash !== null }));
  }

  /** @throws AppError not_found */
  function userAt(text: string, workspaceId?: string): UserEntry {
    const email = addressOf(text);
    const user = listUsers(workspaceId).find((known) => known.email === email);
    if (!user) throw new AppError("not_found", `there is no user ${email}`);
    return user;
  }

  /** @throws AppError not_found, conflict when the workspace would be left without an owner. */
  function refuseLastOwner(tx: Tx, userId: string, deed: string): void {
    const user = tx.select().from(schema.users).where(eq(schema.users.id, userId)).get();
    if (!user) throw new AppError("not_found", "there is no such user");
    if (user.role !== "owner") return;
    const other = tx
      .select()
      .from(schema.users)
      .where(
        and(
          eq(schema.users.workspaceId, user.workspaceId),
          eq(schema.users.role, "owner"),
          ne(schema.users.id, user.id),
        ),
      )
      .get();
    if (!other) {
      throw new AppError("conflict", `${user.email} is the last owner of the workspace and cannot be ${deed}`);
    }
  }

  /** @throws AppError not_found, conflict for the last owner of the workspace. */
  function setRole(tx: Tx, userId: string, role: Role): void {
    if (role !== "owner") refuseLastOwner(tx, userId, `made ${role}`);
    tx.update(schema.users).set({ role }).where(eq(schema.users.id, userId)).run();
  }

  /** The name a person is shown by; their mailboxes keep theirs. @throws AppError bad_request */
  function setName(tx: Tx, userId: string, text: string): void {
    tx.update(schema.users)
      .set({ name: nameOf("the user", text) })
      .where(eq(schema.users.id, userId))
      .run();
  }

  /** `passwordHash`: from hashPassword here. Ends the sessions that the former one began, but for the one they keep. */
  function setPassword(tx: Tx, userId: string, passwordHash: string, keepSession?: string): void {
    endSessions(tx, userId, keepSession);
    tx.update(schema.users).set({ passwordHash }).where(eq(schema.users.id, userId)).run();
  }

  /** Keys and grants go with the person, by foreign key; their mailboxes stay, without an owner. @throws AppError as setRole */
  function removeUser(tx: Tx, userId: string): void {
    refuseLastOwner(tx, userId, "removed");
    tx.delete(schema.users).where(eq(schema.users.id, userId)).run();
  }

  return {
    addWorkspace,
    listWorkspaces,
    workspaceNamed,
    pauseWorkspace,
    resumeWorkspace,
    addUser,
    listUsers,
    userAt,
    setRole,
    setName,
    setPassword,
    removeUser,
    ...mailboxes,
  };
}
