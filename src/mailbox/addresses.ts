/**
 * Where mail to an address goes (contract: Arrival): a mailbox or alias, then the same without its tag, then for
 * postmaster and abuse the workspace's owner, then the domain's catch-all. Addresses compare without case, domains as
 * A-labels.
 */
import { and, asc, eq, sql } from "drizzle-orm";
import { normalizeAddress, splitAddress, withoutTag } from "../message/address.ts";
import { prepared } from "../store/prepared.ts";
import { addresses, domains, mailboxes, users } from "../store/schema.ts";
import type { Db } from "../store/store.ts";

export type Route =
  | {
      kind: "mailbox";
      mailboxId: string;
      workspaceId: string;
      /** Without the tag. */
      receivedOn: string;
      /** postmaster@ and abuse@: exempt from quota and DMARC rejection. */
      exempt: boolean;
    }
  /** One of our domains, and nobody there. */
  | { kind: "unknown" }
  | { kind: "not-local" };

const ROLE_ADDRESSES = new Set(["postmaster", "abuse"]);

const statements = prepared((db) => ({
  domain: db
    .select({ workspaceId: domains.workspaceId, verifiedAt: domains.verifiedAt })
    .from(domains)
    .where(eq(domains.name, sql.placeholder("name")))
    .prepare(),
  address: db
    .select({ mailboxId: addresses.mailboxId })
    .from(addresses)
    .where(eq(addresses.address, sql.placeholder("address")))
    .prepare(),
  /** The owner's own mailbox: the one at the address they sign in with, else their first. */
  ownersMailbox: db
    .select({ mailboxId: mailboxes.id })
    .from(mailboxes)
    .innerJoin(users, eq(users.id, mailboxes.ownerId))
    .where(and(eq(mailboxes.workspaceId, sql.placeholder("workspaceId")), eq(users.role, "owner")))
    .orderBy(sql`${mailboxes.address} = ${users.email} desc`, asc(mailboxes.createdAt), asc(mailboxes.id))
    .limit(1)
    .prepare(),
  firstDomain: db
    .select({ name: domains.name })
    .from(domains)
    .orderBy(asc(domains.createdAt), asc(domains.id))
    .limit(1)
    .prepare(),
}));

/** `address` as in RCPT TO, without the angle brackets; `postmaster` may stand alone (RFC 5321 §4.5.1). */
export function routeOf(db: Db, address: string): Route {
  const normalized = normalizeAddress(/^postmaster$/i.test(address) ? `postmaster@${oldestDomain(db)}` : address);
  if (normalized === undefined) return { kind: "not-local" };
  const { local, domain } = splitAddress(normalized);
  const workspaceId = statements(db).domain.get({ name: domain })?.workspaceId;
  if (workspaceId === undefined) return { kind: "not-local" };

  const untagged = withoutTag(local);
  const exempt = ROLE_ADDRESSES.has(untagged);
  const to = (receivedOn: string, found: { mailboxId: string } | undefined): Route | undefined =>
    found && { kind: "mailbox", mailboxId: found.mailboxId, workspaceId, receivedOn, exempt };
  const at = (name: string) => statements(db).address.get({ address: `${name}@${domain}` });

  const base = `${untagged}@${domain}`;
  return (
    to(normalized, at(local)) ??
    (untagged === local ? undefined : to(base, at(untagged))) ??
    (exempt ? to(base, statements(db).ownersMailbox.get({ workspaceId })) : undefined) ??
    to(base, at("*")) ?? { kind: "unknown" }
  );
}

export interface LocalDomain {
  workspaceId: string;
  verified: boolean;
}

/** The domain of that name (A-labels, in any case), if it is one of ours. */
export function localDomain(db: Db, name: string): LocalDomain | undefined {
  const domain = statements(db).domain.get({ name: name.toLowerCase() });
  return domain && { workspaceId: domain.workspaceId, verified: domain.verifiedAt !== null };
}

/** The domain that stands for the server where an address names none; "" before there is one. */
const oldestDomain = (db: Db): string => statements(db).firstDomain.get()?.name ?? "";

/** Whether an address of a message is one of `own` (lower case, A-labels), written with a tag or without. */
export function isAmong(own: ReadonlySet<string>, email: string): boolean {
  const address = normalizeAddress(email);
  if (address === undefined) return false;
  const { local, domain } = splitAddress(address);
  return own.has(address) || own.has(`${withoutTag(local)}@${domain}`);
}
