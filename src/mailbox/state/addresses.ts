/**
 * Routes mail to an address (rules: Addresses, Postmaster and abuse): to a mailbox or alias, else to the address
 * without its tag, else for postmaster and abuse to the workspace's owner, else to the domain's catch-all. Addresses
 * compare without case, domains as A-labels.
 *
 * Several workspaces may claim a domain until one of them verifies it (rules: Domain owner). Invariant: mail from other
 * servers to a domain never reaches a workspace that merely claims it, so nobody can read other people's mail by
 * claiming their domain.
 *
 * A mailbox that has expired takes no mail (rules: Mailbox expiry): its addresses are unknown, and no other mailbox's
 * catch-all gets their mail. Only postmaster@ and abuse@ then go to the workspace's owner (RFC 5321 §4.5.1).
 */
import { and, asc, eq, gt, isNotNull, isNull, or, sql } from "drizzle-orm";
import { normalizeAddress, splitAddress, withoutAddressTag } from "../../message/address.ts";
import { addresses, domains, mailboxes, users } from "../../store/schema.ts";
import { prepared, statement } from "../../store/statement.ts";
import type { Db } from "../../store/store.ts";
import { UNSERVED } from "../../store/unserved-workspaces.ts";

export interface MailboxRoute {
  kind: "mailbox";
  mailboxId: string;
  workspaceId: string;
  /** The row of the address's domain that belongs to the workspace. */
  domainId: string;
  /** The address without the tag. */
  receivedOn: string;
  /** postmaster@ and abuse@: exempt from quota and DMARC rejection. */
  exempt: boolean;
}

export type Route =
  | MailboxRoute
  /** The domain is local, but the address is unknown. */
  | { kind: "unknown" }
  /** Workspaces claim the domain, but none has verified it yet. */
  | { kind: "unverified"; domain: string }
  /** The workspace moves to another server. */
  | { kind: "moving" }
  | { kind: "not-local" };

const ROLE_ADDRESSES = new Set(["postmaster", "abuse"]);

const claimColumns = {
  id: domains.id,
  workspaceId: domains.workspaceId,
  moves: sql<number>`${domains.workspaceId} IN ${sql.raw(UNSERVED)}`,
};
const named = eq(domains.name, sql.placeholder("name"));
const verifiedFirst = sql`${domains.verifiedAt} IS NULL`;
const takesMail = or(isNotNull(domains.verifiedAt), eq(domains.acceptsUnverified, true));

const statements = {
  reaches: statement<unknown, [mailboxId: string, domainId: string, now: number]>(
    `SELECT 1 FROM mailboxes WHERE id = ?1 AND (expires_at IS NULL OR expires_at > ?3) AND workspace_id NOT IN ${UNSERVED} AND ?2 = (
       SELECT id FROM domains
       WHERE name = (SELECT name FROM domains WHERE id = ?2) AND (verified_at IS NOT NULL OR accepts_unverified = 1)
       ORDER BY verified_at IS NULL LIMIT 1)`,
  ),
};

const queries = prepared((db) => ({
  /**
   * The workspace that receives mail from other servers: the one that verified the domain, else the one that took it
   * before verification existed.
   */
  holder: db.select(claimColumns).from(domains).where(and(named, takesMail)).orderBy(verifiedFirst).limit(1).prepare(),
  verified: db
    .select(claimColumns)
    .from(domains)
    .where(and(named, isNotNull(domains.verifiedAt)))
    .prepare(),
  claim: db
    .select(claimColumns)
    .from(domains)
    .where(and(named, eq(domains.workspaceId, sql.placeholder("workspaceId"))))
    .prepare(),
  own: db
    .select({ address: addresses.address })
    .from(addresses)
    .where(eq(addresses.mailboxId, sql.placeholder("mailboxId")))
    .prepare(),
  anyClaim: db.select({ id: domains.id }).from(domains).where(named).limit(1).prepare(),
  address: db
    .select({ mailboxId: addresses.mailboxId, expiresAt: mailboxes.expiresAt })
    .from(addresses)
    .innerJoin(mailboxes, eq(mailboxes.id, addresses.mailboxId))
    .where(and(eq(addresses.address, sql.placeholder("address")), eq(addresses.domainId, sql.placeholder("domainId"))))
    .prepare(),
  /** The mailbox at the owner's sign-in address, else the owner's first one; none that has expired. */
  ownersMailbox: db
    .select({ mailboxId: mailboxes.id, expiresAt: mailboxes.expiresAt })
    .from(mailboxes)
    .innerJoin(users, eq(users.id, mailboxes.ownerId))
    .where(
      and(
        eq(mailboxes.workspaceId, sql.placeholder("workspaceId")),
        eq(users.role, "owner"),
        or(isNull(mailboxes.expiresAt), gt(mailboxes.expiresAt, sql.placeholder("now"))),
      ),
    )
    .orderBy(
      sql`${users.lockedAt} is null desc`,
      sql`${mailboxes.address} = ${users.email} desc`,
      asc(mailboxes.createdAt),
      asc(mailboxes.id),
    )
    .limit(1)
    .prepare(),
  firstDomain: db
    .select({ name: domains.name })
    .from(domains)
    .orderBy(sql`not ${takesMail}`, asc(domains.createdAt), asc(domains.id))
    .limit(1)
    .prepare(),
}));

/** A mailbox that has an address. */
interface Found {
  mailboxId: string;
  expiresAt: number | null;
}

/** A workspace's row of a domain. */
interface Claim {
  id: string;
  workspaceId: string;
  /** 1 if the workspace moves to another server. */
  moves: number;
}

/** A time (epoch ms) at which no mailbox has expired, to look up addresses of expired mailboxes, too. */
export const BEFORE_ANY_EXPIRY = 0;

/** True if a mailbox has expired at `now` (epoch ms): it then takes no mail and sends none. */
export const hasMailboxExpired = ({ expiresAt }: { expiresAt: number | null }, now: number): boolean =>
  expiresAt !== null && expiresAt <= now;

/**
 * Routes mail from other servers that arrives at `now` (epoch ms). `address` as in RCPT TO, without the angle brackets;
 * `postmaster` may stand alone (RFC 5321 §4.5.1).
 */
export function routeIncomingMail(db: Db, address: string, now: number): Route {
  const whole = /^postmaster$/i.test(address) ? `postmaster@${oldestDomain(db)}` : address;
  return routeVia(db, whole, now, (name) => {
    const holder = queries(db).holder.get({ name });
    if (holder) return holder.moves ? { kind: "moving" } : holder;
    return queries(db).anyClaim.get({ name }) && { kind: "unverified", domain: name };
  });
}

/**
 * True if a route that `routeIncomingMail` gave earlier still stands at `now` (epoch ms): its mailbox exists and has not expired,
 * and its workspace is still the one to which mail from other servers to the domain goes.
 */
export const isRouteStillValid = (db: Db, { mailboxId, domainId }: MailboxRoute, now: number): boolean =>
  statements.reaches(db).get(mailboxId, domainId, now) !== null;

/**
 * Routes mail of a workspace at `now` (epoch ms): to the workspace that verified the domain, else to the sender's own
 * claim.
 */
export function routeMailFromWorkspace(db: Db, workspaceId: string, address: string, now: number): Route {
  return routeVia(db, address, now, (name) => {
    const domain = localDomain(db, workspaceId, name);
    return domain?.moves ? { kind: "moving" } : domain;
  });
}

/**
 * Routes within one workspace, including expired mailboxes and addresses in a domain that another workspace has taken
 * over.
 */
export function routeWithin(db: Db, workspaceId: string, address: string): Route {
  return routeVia(db, address, BEFORE_ANY_EXPIRY, (name) => queries(db).claim.get({ name, workspaceId }));
}

/**
 * The domain of that name (A-labels, in any case) to which mail of the workspace is delivered locally, if there is one. Mail
 * to another workspace that has left goes where its domain leads by now.
 */
export function localDomain(db: Db, workspaceId: string, domain: string): Claim | undefined {
  const name = domain.toLowerCase();
  const claim = queries(db).verified.get({ name }) ?? queries(db).claim.get({ name, workspaceId });
  return claim?.moves && claim.workspaceId !== workspaceId ? undefined : claim;
}

/** True if the domain (A-labels) was verified by another workspace. */
export function isDomainVerifiedElsewhere(db: Db, workspaceId: string, domain: string): boolean {
  const verified = queries(db).verified.get({ name: domain });
  return verified !== undefined && verified.workspaceId !== workspaceId;
}

/** True if the domain (A-labels) was verified by the workspace. */
export const isDomainVerifiedByWorkspace = (db: Db, workspaceId: string, domain: string): boolean =>
  queries(db).verified.get({ name: domain })?.workspaceId === workspaceId;

function routeVia(
  db: Db,
  address: string,
  now: number,
  findDomainClaim: (name: string) => Claim | Route | undefined,
): Route {
  const normalized = normalizeAddress(address);
  if (normalized === undefined) return { kind: "not-local" };
  const { local, domain } = splitAddress(normalized);
  const claim = findDomainClaim(domain);
  if (claim === undefined) return { kind: "not-local" };
  if ("kind" in claim) return claim;
  const { id: domainId, workspaceId } = claim;

  const untagged = withoutAddressTag(local);
  const exempt = ROLE_ADDRESSES.has(untagged);
  const to = (receivedOn: string, found: Found | undefined): Route | undefined => {
    if (!found) return undefined;
    if (!hasMailboxExpired(found, now))
      return { kind: "mailbox", mailboxId: found.mailboxId, workspaceId, domainId, receivedOn, exempt };
    return exempt ? undefined : { kind: "unknown" };
  };
  const at = (name: string) => queries(db).address.get({ address: `${name}@${domain}`, domainId });

  const base = `${untagged}@${domain}`;
  const exact = at(local);
  const holder = exact ?? (untagged === local ? undefined : at(untagged));
  return (
    to(exact ? normalized : base, holder) ??
    (exempt ? to(base, queries(db).ownersMailbox.get({ workspaceId, now })) : undefined) ??
    (holder ? undefined : to(base, at("*"))) ?? { kind: "unknown" }
  );
}

/** The domain used when an address names none; "" if there is no domain yet. */
const oldestDomain = (db: Db): string => queries(db).firstDomain.get()?.name ?? "";

/** The addresses of a mailbox; a catch-all as `*@domain`. */
export const ownAddresses = (db: Db, mailboxId: string): Set<string> =>
  new Set(
    queries(db)
      .own.all({ mailboxId })
      .map(({ address }) => address),
  );

/** True if an address in a message is one of `own` (lower case, A-labels), with or without a tag. */
export function isOwnAddress(own: ReadonlySet<string>, email: string): boolean {
  const address = normalizeAddress(email);
  if (address === undefined) return false;
  const { local, domain } = splitAddress(address);
  return own.has(address) || own.has(`${withoutAddressTag(local)}@${domain}`);
}
