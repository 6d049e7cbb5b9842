/**
 * Workspaces and the people in them, with their mailboxes. A workspace that has an owner always keeps one. Removing a
 * person removes their keys and shares, and leaves their mailboxes without an owner.
 *
 * Functions that write take the transaction, so that a caller can join several changes into one.
 */
import { and, asc, eq, gt, isNotNull, ne, type SQL, sql } from "drizzle-orm";
import { type AccessChange, addAccessNotice } from "../access/access-notices.ts";
import { revokeAppPasswords } from "../access/app-passwords.ts";
import { hashPassword as hashOf, revokePersonKeys } from "../access/credentials.ts";
import {
  addPasswordLink,
  endPasswordLink,
  findPasswordLink,
  type PasswordLink,
  passwordLink,
  requestPasswordLink,
} from "../access/password-links.ts";
import { createRateLimit } from "../access/rate.ts";
import { removeSecondFactor } from "../access/second-factor.ts";
import { endSessions } from "../access/sessions.ts";
import { AppError } from "../base/errors.ts";
import { newId } from "../base/runtime.ts";
import { isDomainVerifiedElsewhere } from "../mailbox/state/addresses.ts";
import { envelopeAddress, isAddressLiteral, splitAddress } from "../message/address.ts";
import { suppressedAmong } from "../outbound/suppression.ts";
import type { Core } from "../store/core.ts";
import type { RowPage } from "../store/cursor.ts";
import type { Role } from "../store/schema.ts";
import * as schema from "../store/schema.ts";
import { perDatabase } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { addMailbox, type MailboxEntry } from "./mailbox-admin.ts";
import {
  type By,
  refuseChangingUser,
  refuseLastOwner,
  refuseMakingOwner,
  refuseReplacingPassword,
  requireUser,
} from "./role-authority.ts";
import { quoteTypedText, readDisplayName, readTypedAddress } from "./typed-names.ts";
import type { Workspace } from "./workspace-admin.ts";

export { readImportedHash } from "../access/imported-hash.ts";
export { GRANT_ACCESS, ROLES } from "../store/schema.ts";
export type { MailboxEntry, Workspace };

/** Characters of a new password. People with a shorter one from before this rule sign in and are asked to change it. */
const SHORTEST_PASSWORD = 10;
/** Bytes. */
const LONGEST_PASSWORD = 1024;

const isShort = (password: string): boolean => [...password].length < SHORTEST_PASSWORD;

const doneBy = (by: By) => (by === undefined ? "operator" : "admin");

/** How many of a person's credentials a change has ended. */
export interface Ended {
  appPasswords: number;
  keys: number;
}

export interface UserEntry {
  id: string;
  workspaceId: string;
  /** Sign-in name. */
  email: string;
  name: string;
  role: Role;
  /** False for a person without a password, or who is locked. */
  canSignIn: boolean;
  locked: boolean;
  /** Until when their link to choose a password works, epoch ms; null without one. */
  invitedUntil: number | null;
  /** True when signing in takes more than the password. */
  secondFactor: boolean;
  createdAt: number;
}

export interface NewUser {
  workspaceId: string;
  email: string;
  name: string;
  role: Role;
  /** From hashNewPassword here. */
  passwordHash?: string | undefined;
  /** True gives them a mailbox at that address, which must be in a domain of the workspace. */
  ownMailbox: boolean;
}

/** Hashes with argon2id: takes some 50 ms, so callers do it before the transaction. @throws AppError bad_request */
export async function hashNewPassword(password: string): Promise<string> {
  if (isShort(password)) {
    throw new AppError("bad_request", `give a password of at least ${SHORTEST_PASSWORD} characters`);
  }
  if (Buffer.byteLength(password) > LONGEST_PASSWORD) {
    throw new AppError("bad_request", `give a password of at most ${LONGEST_PASSWORD} bytes`);
  }
  return hashOf(password);
}

/** One refusal for every link that does not work, so that it tells nothing of anybody. */
const linkRefusal = (): AppError =>
  new AppError("forbidden", "This link no longer works: ask an owner or admin for another one");

const HOUR_MS = 3_600_000;
/** Links that are mailed in an hour: enough to add the people of a company at once. */
const MOST_MAILED = { person: 10, workspace: 500 };

const UNDO_SECONDS: readonly number[] = [0, 5, 10, 20, 30];

const perHour = (most: number) =>
  createRateLimit(
    () => most,
    () => 0,
    undefined,
    HOUR_MS,
  );
/** Limits on links that are mailed, for each database. */
const mailLimits = perDatabase(() => ({
  person: perHour(MOST_MAILED.person),
  workspace: perHour(MOST_MAILED.workspace),
}));

/**
 * Refuses a sign-in address that is taken or not the workspace's to give. An address is one person's on the whole
 * server, so beside other workspaces an admin adds people at verified domains only: elsewhere, whether an address is
 * free would tell who is in the other workspaces.
 * @throws AppError conflict, unprocessable
 */
function refuseAddress(tx: Tx, by: By, workspaceId: string, email: string): void {
  const holder = tx.select().from(schema.users).where(eq(schema.users.email, email)).get();
  if (holder?.workspaceId === workspaceId) throw new AppError("conflict", `there is a user ${email} already`);
  const { domain } = splitAddress(email);
  if (isDomainVerifiedElsewhere(tx, workspaceId, domain)) {
    throw new AppError("unprocessable", `${domain} was verified by another workspace of this server`);
  }
  const { name, verifiedAt, workspaceId: claimant } = schema.domains;
  const isOwn = and(eq(name, domain), eq(claimant, workspaceId), isNotNull(verifiedAt));
  const isShared = tx.select().from(schema.workspaces).where(ne(schema.workspaces.id, workspaceId)).get();
  if (by !== undefined && isShared && !tx.select().from(schema.domains).where(isOwn).get()) {
    throw new AppError(
      "unprocessable",
      `${domain} is not a verified domain of this workspace: verify it first, or have the operator of the server add the person`,
    );
  }
  if (!holder) return;
  // From before the workspace verified its domain.
  throw new AppError(
    "conflict",
    by === undefined
      ? `there is a user ${email} already, in another workspace`
      : `${email} is not free: ask the operator of the server`,
  );
}

/**
 * Adds a person. Returns `mailboxId` if `ownMailbox` asked for a mailbox.
 * @throws AppError bad_request, forbidden, and what refuseAddress and addMailbox refuse.
 */
export function addUser(core: Core, tx: Tx, user: NewUser, by?: By): { userId: string; mailboxId?: string } {
  refuseMakingOwner(tx, by, user.workspaceId, user.role);
  const email = readTypedAddress(user.email);
  const name = readDisplayName("the user", user.name);
  refuseAddress(tx, by, user.workspaceId, email);
  const userId = newId(core.runtime, "usr");
  tx.insert(schema.users)
    .values({
      id: userId,
      workspaceId: user.workspaceId,
      email,
      name,
      role: user.role,
      passwordHash: user.passwordHash ?? null,
      createdAt: core.runtime.now(),
    })
    .run();
  if (!user.ownMailbox) return { userId };
  const { workspaceId } = user;
  return { userId, mailboxId: addMailbox(core, tx, { workspaceId, address: email, name, ownerId: userId }) };
}

/** Lists the people of one workspace, or of all: by address, or the oldest first in pages. */
export function listUsers(core: Core, workspaceId?: string, page?: RowPage): UserEntry[] {
  return read(core, workspaceId === undefined ? undefined : eq(schema.users.workspaceId, workspaceId), page);
}

function read({ store, runtime }: Core, where: SQL | undefined, page?: RowPage): UserEntry[] {
  const { id, email, createdAt } = schema.users;
  const after = page?.after && sql`(${createdAt}, ${id}) > (${page.after.at}, ${page.after.id})`;
  return store.db
    .select({
      user: schema.users,
      since: schema.secondFactors.createdAt,
      invitedUntil: schema.passwordLinks.expiresAt,
    })
    .from(schema.users)
    .leftJoin(
      schema.passwordLinks,
      and(eq(schema.passwordLinks.userId, id), gt(schema.passwordLinks.expiresAt, runtime.now())),
    )
    .leftJoin(schema.secondFactors, eq(schema.secondFactors.userId, id))
    .where(and(where, after))
    .orderBy(...(page ? [asc(createdAt), asc(id)] : [asc(email)]))
    .limit(page?.limit ?? -1)
    .all()
    .map(
      ({
        user: { passwordHash, lockedAt, undoSeconds: _, shortPassword: __, labelFolders: ___, ...user },
        ...more
      }) => ({
        ...user,
        canSignIn: passwordHash !== null && lockedAt === null,
        locked: lockedAt !== null,
        secondFactor: more.since !== null,
        invitedUntil: more.invitedUntil,
      }),
    );
}

/** Returns for how many seconds a person can undo sending in the app. */
export function undoSeconds({ store }: Core, userId: string): number {
  return store.db.select().from(schema.users).where(eq(schema.users.id, userId)).get()?.undoSeconds ?? 0;
}

/** @throws AppError bad_request unless `seconds` is one of UNDO_SECONDS */
export function setUndoSeconds(tx: Tx, userId: string, seconds: number): void {
  if (!UNDO_SECONDS.includes(seconds)) {
    throw new AppError("bad_request", `sending can be undone for ${UNDO_SECONDS.join(", ")} seconds; 0 turns that off`);
  }
  tx.update(schema.users).set({ undoSeconds: seconds }).where(eq(schema.users.id, userId)).run();
}

/** Whether a person's mail apps see labels as mailboxes, too. */
export const setLabelFolders = (tx: Tx, userId: string, labelFolders: boolean): void =>
  void tx.update(schema.users).set({ labelFolders }).where(eq(schema.users.id, userId)).run();

/** Finds a person by address. @throws AppError not_found */
export function getUserByAddress(core: Core, text: string, workspaceId?: string): UserEntry {
  const email = readTypedAddress(text);
  const of = workspaceId === undefined ? undefined : eq(schema.users.workspaceId, workspaceId);
  const [user] = read(core, and(of, eq(schema.users.email, email)));
  if (!user) throw new AppError("not_found", `there is no user ${email}${of ? " in the workspace" : ""}`);
  return user;
}

/** Finds a person of a workspace by id. @throws AppError not_found */
export function getUserById(core: Core, workspaceId: string, id: string): UserEntry {
  const [user] = read(core, and(eq(schema.users.workspaceId, workspaceId), eq(schema.users.id, id)));
  if (!user) throw new AppError("not_found", `there is no user ${quoteTypedText(id)} in the workspace`);
  return user;
}

/** Changes a role. @throws AppError not_found, conflict for the last owner of the workspace, forbidden */
export function setRole(tx: Tx, userId: string, role: Role, by?: By): void {
  refuseChangingUser(tx, by, userId);
  refuseMakingOwner(tx, by, requireUser(tx, userId).workspaceId, role);
  if (role !== "owner") refuseLastOwner(tx, userId, `made ${role}`);
  tx.update(schema.users).set({ role }).where(eq(schema.users.id, userId)).run();
}

/** Changes a person's display name; their mailboxes keep theirs. @throws AppError bad_request */
export function setName(tx: Tx, userId: string, text: string): void {
  tx.update(schema.users)
    .set({ name: readDisplayName("the user", text) })
    .where(eq(schema.users.id, userId))
    .run();
}

/** Renames another person. @throws AppError bad_request, and as setRole */
export function renameUser(tx: Tx, userId: string, text: string, by?: By): void {
  refuseChangingUser(tx, by, userId);
  setName(tx, userId, text);
}

/** Sets a password, and ends the person's link to choose one, and their sessions except `keepSession`. `passwordHash`: from hashNewPassword here. */
export function setPassword(
  { runtime }: Core,
  tx: Tx,
  userId: string,
  passwordHash: string,
  keepSession?: string,
): void {
  endSessions(tx, userId, runtime.now(), keepSession);
  endPasswordLink(tx, userId);
  tx.update(schema.users).set({ passwordHash, shortPassword: false }).where(eq(schema.users.id, userId)).run();
}

/** Notes that a person, who has just signed in, has a password that is shorter than a new one may be. */
export function noteShortPassword(tx: Tx, userId: string, password: string): void {
  if (!isShort(password)) return;
  const isUnknown = and(eq(schema.users.id, userId), eq(schema.users.shortPassword, false));
  tx.update(schema.users).set({ shortPassword: true }).where(isUnknown).run();
}

/** Tells whether a person should change their password, which is shorter than a new one may be. */
export const hasShortPassword = ({ store }: Core, userId: string): boolean =>
  store.db.select().from(schema.users).where(eq(schema.users.id, userId)).get()?.shortPassword ?? false;

/**
 * Ends the chosen credentials of a person beside the password, and adds a notice that tells them about the change.
 */
function endAccess(
  { runtime }: Core,
  tx: Tx,
  userId: string,
  what: Pick<AccessChange, "change" | "doneBy" | "detail"> & { appPasswords: boolean; keys: boolean },
): Ended {
  const now = runtime.now();
  const ended = {
    appPasswords: what.appPasswords ? revokeAppPasswords(tx, userId) : 0,
    keys: what.keys ? revokePersonKeys(tx, userId, now) : 0,
  };
  addAccessNotice(tx, { userId, ...what, ...ended, createdAt: now });
  return ended;
}

/**
 * Changes a person's own password; only `session` goes on. `passwordHash`: from hashNewPassword here. `endAppsAndKeys`:
 * ends their app passwords and API keys, too.
 */
export function changePassword(
  core: Core,
  tx: Tx,
  userId: string,
  { passwordHash, session, endAppsAndKeys: all }: { passwordHash: string; session: string; endAppsAndKeys: boolean },
): void {
  setPassword(core, tx, userId, passwordHash, session);
  endAccess(core, tx, userId, { change: "password", doneBy: "self", appPasswords: all, keys: all });
}

/**
 * Replaces another person's password when it is lost or was exposed. Ends their sessions and app passwords, and their
 * API keys unless `keepKeys`. A first password ends no keys or app passwords. `passwordHash`: from hashNewPassword here.
 * @throws AppError as refuseReplacingPassword
 */
export function replacePassword(
  core: Core,
  tx: Tx,
  userId: string,
  { passwordHash, keepKeys = false }: { passwordHash: string; keepKeys?: boolean | undefined },
  by?: By,
): Ended {
  refuseReplacingPassword(tx, by, userId);
  const { passwordHash: had } = requireUser(tx, userId);
  setPassword(core, tx, userId, passwordHash);
  if (had === null) return { appPasswords: 0, keys: 0 };
  return endAccess(core, tx, userId, { change: "password", doneBy: doneBy(by), appPasswords: true, keys: !keepKeys });
}

/** @throws AppError as refuseReplacingPassword; conflict for a person who is locked */
function refuseInviting(tx: Tx, userId: string, by: By): void {
  refuseReplacingPassword(tx, by, userId);
  const { lockedAt, email } = requireUser(tx, userId);
  if (lockedAt !== null) throw new AppError("conflict", `${email} is locked: unlock them first`);
}

/**
 * Makes a link by which a person chooses a password, in place of their former one. Only this result shows it. `expiresAt`:
 * epoch ms. @throws AppError as refuseInviting
 */
export function inviteUser(
  { runtime, site }: Core,
  tx: Tx,
  userId: string,
  by?: By,
): { link: string; expiresAt: number } {
  refuseInviting(tx, userId, by);
  const { token, expiresAt } = addPasswordLink(tx, runtime, { userId, madeBy: by });
  return { link: passwordLink(site.baseUrl, token), expiresAt };
}

/**
 * Has such a link mailed to the address, soon after. `keyId`: the API key with which `by` asks; the link ends with it.
 * @throws AppError as refuseInviting; bad_request for no address; unprocessable for a suppressed one; rate_limited
 */
export function mailInvitation(
  { store, runtime }: Core,
  tx: Tx,
  userId: string,
  { to, by, keyId }: { to: string; by: By; keyId: string | undefined },
): void {
  refuseInviting(tx, userId, by);
  const { workspaceId } = requireUser(tx, userId);
  const address = envelopeAddress(to);
  if (address === undefined || isAddressLiteral(address)) {
    throw new AppError("bad_request", `${quoteTypedText(to)} is not an address: give one like ada@example.com`);
  }
  if (suppressedAmong(tx, workspaceId, [address]).length > 0) {
    throw new AppError("unprocessable", `${address} is on the suppression list: mail to it bounced before`);
  }
  for (const { retryAfter } of [
    mailLimits(store.db).person.take(userId, runtime.now()),
    mailLimits(store.db).workspace.take(workspaceId, runtime.now()),
  ]) {
    if (retryAfter === undefined) continue;
    throw new AppError("rate_limited", "Too many links were mailed in the last hour: try again later", {
      retryAfter,
    });
  }
  requestPasswordLink(tx, runtime, { userId, madeBy: by, keyId, mailTo: address });
}

/** Finds whom the link of a token is for. @throws AppError forbidden for a link that does not work any more */
export function getPasswordLinkUser(core: Core, db: Db, token: string): UserEntry {
  const link = findPasswordLink(db, token, core.runtime.now());
  if (!link) throw linkRefusal();
  try {
    // Who asked for the link may have lost that right, or the person may have been given another role.
    refuseReplacingPassword(db, link.madeBy ?? undefined, link.userId);
  } catch (error) {
    throw error instanceof AppError ? linkRefusal() : error;
  }
  return read(core, eq(schema.users.id, link.userId))[0] as UserEntry;
}

/**
 * Sets the password that a person chose with a link, which is used up. Ends their sessions and app passwords, and nothing for a
 * first password; the second factor stays. `passwordHash`: from hashNewPassword here.
 * @throws AppError as getPasswordLinkUser
 */
export function choosePassword(core: Core, tx: Tx, token: string, passwordHash: string): void {
  const { id: userId, canSignIn: isReset } = getPasswordLinkUser(core, tx, token);
  const { madeBy } = findPasswordLink(tx, token, core.runtime.now()) as PasswordLink;
  setPassword(core, tx, userId, passwordHash);
  if (!isReset) return;
  const by = doneBy(madeBy ?? undefined);
  endAccess(core, tx, userId, { change: "password", doneBy: by, detail: "link", appPasswords: true, keys: false });
}

/**
 * Removes the second factor of a person who lost it: the password alone then signs them in. Their sessions and app
 * passwords end, since the lost device may have them; API keys are in programs elsewhere and stay valid.
 * @throws AppError as setRole; conflict when this person has no second factor
 */
export function resetSecondFactor(core: Core, tx: Tx, userId: string, by?: By): void {
  refuseChangingUser(tx, by, userId);
  if (!removeSecondFactor(tx, userId)) throw new AppError("conflict", "this person has no second factor");
  endSessions(tx, userId, core.runtime.now());
  endAccess(core, tx, userId, { change: "second_factor", doneBy: doneBy(by), appPasswords: true, keys: false });
}

/**
 * Removes a person with their keys and grants (foreign keys); their mailboxes lose their owner.
 * @throws AppError as setRole
 */
export function removeUser(tx: Tx, userId: string, by?: By): void {
  refuseChangingUser(tx, by, userId);
  refuseLastOwner(tx, userId, "removed");
  tx.delete(schema.users).where(eq(schema.users.id, userId)).run();
}

/** @throws AppError not_found; conflict for the last owner of a workspace */
export const requireRemovableUser = (tx: Tx, userId: string) => refuseLastOwner(tx, userId, "removed");
