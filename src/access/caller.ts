/**
 * Callers and their reach, which only this file decides (rules: Acting person, Reach, Scopes). Every query about mail
 * starts from a Reach made here. Mail out of reach looks the same as mail that does not exist: both give 404.
 */
import { eq, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import {
  type Face,
  type GrantAccess,
  grants,
  mailboxes,
  type Policy,
  type Role,
  SCOPES,
  type Scope,
  users,
} from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db } from "../store/store.ts";
import { PolicyRefusal, policyAllowsMailbox } from "./policy.ts";

/** How a request with a key came, for the journal. */
export interface Origin {
  face: Face;
  /** Name of the operation; absent until it is known. */
  operation?: string;
  /** The name that an MCP client gives itself. */
  client?: string | undefined;
  /** Address of the client, as canonicalIpAddress gives it. */
  source?: string | undefined;
  /** The recipients of what is sent were counted when the key had it accepted. */
  isCounted?: true;
}

/** Plain fields that decide which mailboxes somebody reaches. */
export interface Seeker {
  userId: string;
  workspaceId: string;
  role: Role;
  /** Restrictions of the key. */
  policy?: Policy;
}

/** A person with their current role, and the scopes of their key or session. */
export interface Caller extends Seeker {
  /** Sign-in name; lower case. */
  email: string;
  /** Absent for a session of the web app. */
  keyId?: string;
  /** Address of the client, as canonicalIpAddress gives it. */
  address?: string;
  /** Takes back what it has done in part: no limit of changes stops that. */
  takesBack?: true;
  /** The key, or every key of the workspace, is paused. */
  paused?: boolean;
  /** Origin of a request with a key; absent without one. */
  origin?: Origin;
  scopes: ReadonlySet<Scope>;
}

/** rules: Mailbox fields. */
export interface Access {
  read: boolean;
  send: boolean;
  manage: boolean;
}

/** A mailbox that a caller reaches, how, and what they may do there. */
export interface Reach {
  mailbox: { id: string; address: string; name: string; ownerId: string | null; workspaceId: string };
  /** The strongest source (rules: Mailbox access). */
  source: "owner" | "admin" | "grant";
  access: Access;
}

const EVERYTHING: Access = { read: true, send: true, manage: true };
const ACCESS_OF_GRANT: Record<GrantAccess, Access> = {
  view: { read: true, send: false, manage: false },
  send: { read: true, send: true, manage: false },
  full: EVERYTHING,
};

/** Only mailboxes in the caller's own workspace; a grant does not reach beyond it. */
const statements = prepared((db) => {
  const inWorkspace = (more: ReturnType<typeof sql>) =>
    db
      .select({
        id: mailboxes.id,
        address: mailboxes.address,
        name: mailboxes.name,
        ownerId: mailboxes.ownerId,
        workspaceId: mailboxes.workspaceId,
        grant: grants.access,
      })
      .from(mailboxes)
      .leftJoin(grants, sql`${grants.mailboxId} = ${mailboxes.id} and ${grants.userId} = ${sql.placeholder("userId")}`)
      .where(sql`${mailboxes.workspaceId} = ${sql.placeholder("workspaceId")} and ${more}`)
      .orderBy(mailboxes.address)
      .prepare();
  return {
    all: inWorkspace(
      sql`(${sql.placeholder("everything")} or ${mailboxes.ownerId} = ${sql.placeholder("userId")} or ${grants.access} is not null)`,
    ),
    one: inWorkspace(sql`${mailboxes.id} = ${sql.placeholder("mailboxId")}`),
  };
});

type Row = NonNullable<ReturnType<ReturnType<typeof statements>["one"]["get"]>>;

function reachBy(caller: Seeker, { grant, ...mailbox }: Row): Reach | undefined {
  if (caller.policy && !policyAllowsMailbox(caller.policy, mailbox)) return undefined;
  if (mailbox.ownerId === caller.userId) return { mailbox, source: "owner", access: EVERYTHING };
  if (isAdmin(caller)) return { mailbox, source: "admin", access: EVERYTHING };
  return grant === null ? undefined : { mailbox, source: "grant", access: ACCESS_OF_GRANT[grant] };
}

/** The part of a caller that decides what they reach. */
export const toSeeker = ({ userId, workspaceId, role, policy }: Caller): Seeker => ({
  userId,
  workspaceId,
  role,
  ...(policy && { policy }),
});

/** Every mailbox that the caller reaches, by id, ordered by address. */
export function findReachableMailboxes(db: Db, caller: Seeker): Map<string, Reach> {
  const rows = statements(db).all.all({
    userId: caller.userId,
    workspaceId: caller.workspaceId,
    everything: isAdmin(caller) ? 1 : 0,
  });
  const reached = new Map<string, Reach>();
  for (const row of rows) {
    const reach = reachBy(caller, row);
    if (reach) reached.set(row.id, reach);
  }
  return reached;
}

/** The person's own mailbox among those: the one at their address, else the first that they own or reach. */
export function chooseOwnMailbox(caller: Caller, reached: readonly Reach[]): Reach | undefined {
  return (
    reached.find(({ mailbox }) => mailbox.address === caller.email) ??
    reached.find(({ source }) => source === "owner") ??
    reached[0]
  );
}

/** True if the caller's key is restricted to some mailboxes. */
export const isLimitedToMailboxes = ({ policy }: Pick<Seeker, "policy">): boolean => policy?.mailboxes !== undefined;

/** True if the caller's key reads no one-time codes and no links that sign in (rules: Codes). */
export const isKeyDeniedSignInCodes = ({ policy }: Pick<Caller, "policy">): boolean => policy?.codes === false;

/** How the caller reaches a mailbox; undefined if it does not exist or is out of reach. */
export function findReach(db: Db, caller: Caller, mailboxId: string): Reach | undefined {
  const row = statements(db).one.get({ userId: caller.userId, workspaceId: caller.workspaceId, mailboxId });
  return row && reachBy(caller, row);
}

/** The refusal of an object that does not exist or is out of reach: both look alike (rules: Reach). */
export function outOfReachError(what: "mailbox" | "thread" | "message" | "attachment" | "label"): AppError {
  return new AppError("not_found", `There is no such ${what}, or this key does not reach it`);
}

/** How the caller reaches a mailbox. @throws AppError not_found if it does not exist or is out of reach */
export function requireReach(db: Db, caller: Caller, mailboxId: string): Reach {
  const reach = findReach(db, caller, mailboxId);
  if (!reach) throw outOfReachError("mailbox");
  return reach;
}

const REFUSAL: Record<keyof Access, string> = {
  read: "You may not read this mailbox",
  send: "You may not send from this mailbox: it is shared with you for viewing only",
  manage: "You may not change this mailbox or its mail: only its owner, an admin or someone with full access may",
};

/** @throws AppError forbidden if the caller sees the mailbox but lacks this access to it (rules: Reach) */
export function requireAccess(reach: Reach, access: keyof Access): void {
  if (!reach.access[access]) throw new AppError("forbidden", REFUSAL[access]);
}

const isAdmin = ({ role }: Seeker): boolean => role === "owner" || role === "admin";

/** @throws AppError forbidden unless the caller is owner or admin of their workspace */
export function requireAdmin(caller: Caller): void {
  if (!isAdmin(caller)) throw new AppError("forbidden", "Only an owner or admin of the workspace may do that");
}

/** @throws AppError missing_scope if the key lacks the scope, or all of several (rules: Scopes) */
export function requireScope(caller: Caller, scope: Scope | readonly Scope[]): void {
  const scopes = [scope].flat();
  if (scopes.some((name) => caller.scopes.has(name))) return;
  throw new AppError(
    "missing_scope",
    `This API key lacks the scope "${scopes.join('" or "')}": create one that has it`,
  );
}

/** Ways in which a policy restricts what a key reads or sends. */
const RESTRICTS = {
  mailboxes: ({ mailboxes }: Policy) => mailboxes !== undefined,
  recipients: ({ recipients }: Policy) => recipients !== undefined,
  send: ({ send }: Policy) => send === "hold",
  codes: ({ codes }: Policy) => codes === false,
};
export type Restriction = keyof typeof RESTRICTS;

/** @throws PolicyRefusal forbidden for a key whose policy restricts it in one of these ways, so that it could get past it */
export function requireUnrestrictedKey(
  { policy = {} }: Pick<Caller, "policy">,
  restrictions: readonly Restriction[] = Object.keys(RESTRICTS) as Restriction[],
): void {
  if (!restrictions.some((name) => RESTRICTS[name](policy))) return;
  throw new PolicyRefusal(
    "forbidden",
    "The policy of this API key does not allow requests that concern the whole workspace",
  );
}

/** The columns of a person that make a Caller. */
export const PERSON = { userId: users.id, workspaceId: users.workspaceId, role: users.role, email: users.email };

const personById = prepared((db) =>
  db
    .select(PERSON)
    .from(users)
    .where(eq(users.id, sql.placeholder("id")))
    .prepare(),
);

/** A person in their current state, for work that they requested earlier; undefined once they left. */
export function findPersonAsCaller(db: Db, userId: string): Caller | undefined {
  const person = personById(db).get({ id: userId });
  return person && { ...person, scopes: new Set(SCOPES) };
}

const selectUserLock = prepared((db) =>
  db
    .select({ lockedAt: users.lockedAt })
    .from(users)
    .where(eq(users.id, sql.placeholder("id")))
    .prepare(),
);

/** True for a person who is kept out (rules: Lock). */
export const isPersonLocked = (db: Db, userId: string): boolean =>
  (selectUserLock(db).get({ id: userId })?.lockedAt ?? null) !== null;
