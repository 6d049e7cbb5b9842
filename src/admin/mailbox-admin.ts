/**
 * Mailboxes with their addresses, aliases, catch-alls, shares, quotas, expiry and pauses. An address belongs to one
 * mailbox of a workspace that claims its domain; the workspace that has verified the domain gets the mail
 * (mailbox/state/addresses.ts).
 *
 * Functions that write take the transaction, so that a caller can join several changes into one.
 */
import { and, asc, count, eq, getTableColumns, inArray, type SQL, sql } from "drizzle-orm";
import { AppError } from "../base/errors.ts";
import { newId } from "../base/runtime.ts";
import { isDomainVerifiedElsewhere } from "../mailbox/state/addresses.ts";
import { splitAddress, withoutAddressTag } from "../message/address.ts";
import type { Core } from "../store/core.ts";
import type { RowPage } from "../store/cursor.ts";
import type { GrantAccess } from "../store/schema.ts";
import * as schema from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { readDisplayName, readTypedAddress, readTypedDomain, readTypedReason } from "./typed-names.ts";

/** Mailboxes whose addresses and shares are looked up by id; beyond it, all are read. */
const MOST_BY_ID = 500;

/** A mailbox as administration sees it. */
export interface MailboxEntry {
  id: string;
  workspaceId: string;
  address: string;
  name: string;
  ownerId: string | null;
  /** Address of the owner; null for a mailbox without one. */
  owner: string | null;
  aliases: string[];
  /** Catch-all addresses, as `*@domain`. */
  catchAlls: string[];
  /** `user`: the address they sign in with. */
  grants: { user: string; userId: string; access: GrantAccess }[];
  /** Bytes; null: the setting storage.mailboxBytes applies. */
  quotaBytes: number | null;
  usedBytes: number;
  /** Why sending from it is paused; null when it is not. */
  pausedReason: string | null;
  /** When it stops taking and sending mail, epoch ms; null: never. Its mail stays readable for 30 days more. */
  expiresAt: number | null;
  /** Its removal has begun: it has no address, and its mail is being deleted. */
  removing: boolean;
  /** Another workspace has verified the domain of its address: its mail can only be read. */
  lost: boolean;
  createdAt: number;
}

export interface NewMailbox {
  workspaceId: string;
  address: string;
  name: string;
  ownerId?: string | undefined;
  /** When the mailbox expires, as for setExpiry. */
  expiresAt?: number | null | undefined;
  /** Id of the API key that set the expiry. */
  endedBy?: string | undefined;
}

/** Reads an address of a mailbox. It must have no tag, since mail to `user+tag@` reaches `user@` (rules: Addresses). */
function receivingAddress(text: string): string {
  const address = readTypedAddress(text);
  const { local } = splitAddress(address);
  if (withoutAddressTag(local) !== local) {
    throw new AppError(
      "bad_request",
      `${address} has a tag: mail to it reaches the address without what follows the +`,
    );
  }
  if (local === "*") throw new AppError("bad_request", `${address} is a catch-all: it can only be an alias`);
  return address;
}

/** Reads an alias; `*@domain` is a catch-all. */
function parseAlias(text: string): { alias: string; kind: "alias" | "catch-all" } {
  const catchAll = /^\*@(.+)$/.exec(text.trim());
  return catchAll
    ? { alias: `*@${readTypedDomain(catchAll[1] as string)}`, kind: "catch-all" }
    : { alias: receivingAddress(text), kind: "alias" };
}

/** Finds a domain that the workspace may use, and returns its id. @throws AppError unprocessable */
function domainIn(tx: Tx, workspaceId: string, name: string): string {
  const own = and(eq(schema.domains.name, name), eq(schema.domains.workspaceId, workspaceId));
  const domain = tx.select().from(schema.domains).where(own).get();
  if (!domain) throw new AppError("unprocessable", `${name} is not a domain of this workspace: add it first`);
  if (isDomainVerifiedElsewhere(tx, workspaceId, name)) {
    throw new AppError("unprocessable", `${name} was verified by another workspace of this server`);
  }
  return domain.id;
}

function refuseTaken(tx: Tx, address: string, domainId: string): void {
  const taken = tx
    .select({ mailbox: schema.mailboxes.address })
    .from(schema.addresses)
    .innerJoin(schema.mailboxes, eq(schema.mailboxes.id, schema.addresses.mailboxId))
    .where(and(eq(schema.addresses.address, address), eq(schema.addresses.domainId, domainId)))
    .get();
  if (!taken) return;
  const holder = taken.mailbox === address ? "is a mailbox already" : `leads to ${taken.mailbox} already`;
  throw new AppError("conflict", `${address} ${holder}`);
}

/** @throws AppError unprocessable for a workspace that has as many mailboxes as it may */
function requireFewer(tx: Tx, workspaceId: string): void {
  const { workspaces, mailboxes } = schema;
  const { most = null } =
    tx.select({ most: workspaces.mostMailboxes }).from(workspaces).where(eq(workspaces.id, workspaceId)).get() ?? {};
  if (most === null) return;
  const own = tx.select({ count: count() }).from(mailboxes).where(eq(mailboxes.workspaceId, workspaceId)).get();
  if ((own?.count ?? 0) < most) return;
  throw new AppError(
    "unprocessable",
    `the workspace may have ${most} mailboxes, and has them already: remove one, or have the operator of the server raise the limit`,
  );
}

function requireMember(tx: Tx, workspaceId: string, userId: string): void {
  const user = tx.select().from(schema.users).where(eq(schema.users.id, userId)).get();
  if (user?.workspaceId !== workspaceId) {
    throw new AppError("unprocessable", "that user is not in the workspace of the mailbox");
  }
}

export function getMailboxRow(tx: Tx, id: string) {
  const mailbox = tx.select().from(schema.mailboxes).where(eq(schema.mailboxes.id, id)).get();
  if (!mailbox) throw new AppError("not_found", "there is no such mailbox");
  return mailbox;
}

/**
 * Finds a mailbox that is not being removed. With a new address, a removal under way would delete mail that has just
 * arrived; with a new owner, it might never end. `what`: the change, for the refusal. @throws AppError not_found, conflict
 */
function standingMailbox(tx: Tx, id: string, what: string) {
  const mailbox = getMailboxRow(tx, id);
  if (!tx.select().from(schema.addresses).where(eq(schema.addresses.mailboxId, id)).limit(1).get()) {
    throw new AppError("conflict", `${mailbox.address} is being removed: it is too late to change ${what}`);
  }
  return mailbox;
}

/**
 * Adds a mailbox and returns its id. Without `ownerId` it has no owner.
 * @throws AppError bad_request, conflict for an address that is taken, unprocessable for a domain or an owner of
 * another workspace.
 */
export function addMailbox(
  core: Core,
  tx: Tx,
  { workspaceId, address: text, name, ownerId, expiresAt = null, endedBy }: NewMailbox,
): string {
  const address = receivingAddress(text);
  const domainId = domainIn(tx, workspaceId, splitAddress(address).domain);
  refuseTaken(tx, address, domainId);
  requireFewer(tx, workspaceId);
  // A mailbox that is being removed has no address any more, but still exists; see removals.ts.
  const former = and(eq(schema.mailboxes.address, address), eq(schema.mailboxes.workspaceId, workspaceId));
  if (tx.select().from(schema.mailboxes).where(former).get()) {
    throw new AppError("conflict", `the former mailbox ${address} is still being removed: remove it once more`);
  }
  if (ownerId !== undefined) requireMember(tx, workspaceId, ownerId);
  const id = newId(core.runtime, "mbx");
  const createdAt = core.runtime.now();
  requireAhead(core, expiresAt);
  tx.insert(schema.mailboxes)
    .values({
      id,
      workspaceId,
      address,
      name: readDisplayName("the mailbox", name),
      ownerId: ownerId ?? null,
      ...makeEndColumns(core, expiresAt, endedBy),
      createdAt,
    })
    .run();
  tx.insert(schema.addresses).values({ address, mailboxId: id, domainId, kind: "primary", createdAt }).run();
  return id;
}

/**
 * Adds an alias, or with `*@domain` a catch-all, which takes what no other address does. Returns it as stored.
 * @throws AppError not_found, conflict for one that is taken and once the mailbox's removal has begun, unprocessable
 * for a domain of another workspace.
 */
export function addAlias({ runtime }: Core, tx: Tx, mailboxId: string, text: string): string {
  const mailbox = standingMailbox(tx, mailboxId, "its addresses");
  const { alias, kind } = parseAlias(text);
  const domainId = domainIn(tx, mailbox.workspaceId, splitAddress(alias).domain);
  refuseTaken(tx, alias, domainId);
  tx.insert(schema.addresses).values({ address: alias, mailboxId, domainId, kind, createdAt: runtime.now() }).run();
  return alias;
}

/** Removes an alias. @throws AppError not_found, conflict for the address of the mailbox itself */
export function removeAlias(tx: Tx, mailboxId: string, text: string): void {
  const mailbox = getMailboxRow(tx, mailboxId);
  const { alias } = parseAlias(text);
  if (alias === mailbox.address) {
    throw new AppError("conflict", `${alias} is the address of the mailbox itself, not an alias`);
  }
  const removed = tx
    .delete(schema.addresses)
    .where(and(eq(schema.addresses.address, alias), eq(schema.addresses.mailboxId, mailboxId)))
    .returning()
    .all();
  if (removed.length === 0) throw new AppError("not_found", `${alias} is not an alias of ${mailbox.address}`);
}

/**
 * Shares the mailbox with a user of its workspace, or changes their access.
 * @throws AppError not_found, unprocessable
 */
export function grantMailboxAccess(tx: Tx, mailboxId: string, userId: string, access: GrantAccess): void {
  requireMember(tx, getMailboxRow(tx, mailboxId).workspaceId, userId);
  tx.insert(schema.grants)
    .values({ mailboxId, userId, access })
    .onConflictDoUpdate({ target: [schema.grants.mailboxId, schema.grants.userId], set: { access } })
    .run();
}

/** Ends a share. @throws AppError not_found when the mailbox is not shared with them */
export function revokeMailboxAccess(tx: Tx, mailboxId: string, userId: string): void {
  const revoked = tx
    .delete(schema.grants)
    .where(and(eq(schema.grants.mailboxId, mailboxId), eq(schema.grants.userId, userId)))
    .returning()
    .all();
  if (revoked.length === 0) throw new AppError("not_found", "the mailbox is not shared with that user");
}

/** Changes the name that mail from it carries. @throws AppError bad_request, not_found */
export function renameMailbox(tx: Tx, mailboxId: string, text: string): void {
  getMailboxRow(tx, mailboxId);
  tx.update(schema.mailboxes)
    .set({ name: readDisplayName("the mailbox", text) })
    .where(eq(schema.mailboxes.id, mailboxId))
    .run();
}

/**
 * Changes the owner; null: none.
 * @throws AppError not_found, conflict once its removal has begun, unprocessable for somebody of another workspace
 */
export function assignMailbox(tx: Tx, mailboxId: string, ownerId: string | null): void {
  const { workspaceId } = standingMailbox(tx, mailboxId, "its owner");
  if (ownerId !== null) requireMember(tx, workspaceId, ownerId);
  tx.update(schema.mailboxes).set({ ownerId }).where(eq(schema.mailboxes.id, mailboxId)).run();
}

/** Sets the quota; null: the setting storage.mailboxBytes applies. @throws AppError bad_request, not_found */
export function setQuota(tx: Tx, mailboxId: string, bytes: number | null): void {
  if (bytes !== null && !(Number.isSafeInteger(bytes) && bytes >= 0)) {
    throw new AppError("bad_request", "give the quota as a whole number of bytes");
  }
  getMailboxRow(tx, mailboxId);
  tx.update(schema.mailboxes).set({ quotaBytes: bytes }).where(eq(schema.mailboxes.id, mailboxId)).run();
}

/** The columns of an end. */
const makeEndColumns = (
  { runtime }: Core,
  expiresAt: number | null,
  keyId: string | undefined,
): Partial<typeof schema.mailboxes.$inferInsert> => {
  const byKey = expiresAt !== null && keyId !== undefined;
  return { expiresAt, endedBy: byKey ? keyId : null, endedAt: byKey ? runtime.now() : null, endNotifiedAt: null };
};

/** Refuses a past time, which could remove the mailbox at once. @throws AppError bad_request */
function requireAhead({ runtime }: Core, expiresAt: number | null): void {
  if (expiresAt === null || (Number.isSafeInteger(expiresAt) && expiresAt > runtime.now())) return;
  throw new AppError("bad_request", "a mailbox expires at a time to come: give a later one, or none");
}

/**
 * Sets when the mailbox stops taking and sending mail (epoch ms, in the future); the server removes it 30 days later.
 * Null: it never expires. `keyId`: the key that sets it. @throws AppError bad_request, not_found; conflict once its removal
 * has begun
 */
export function setExpiry(core: Core, tx: Tx, mailboxId: string, expiresAt: number | null, keyId?: string): void {
  getMailboxRow(tx, mailboxId);
  requireAhead(core, expiresAt);
  standingMailbox(tx, mailboxId, "when it expires");
  tx.update(schema.mailboxes)
    .set(makeEndColumns(core, expiresAt, keyId))
    .where(eq(schema.mailboxes.id, mailboxId))
    .run();
}

/**
 * Lets the mailbox expire now for a key, unless it has: the server removes it 30 days later, and setExpiry brings it back until
 * then. @throws AppError not_found; conflict once its removal has begun
 */
export function expireMailbox(core: Core, tx: Tx, mailboxId: string, keyId: string): void {
  const { expiresAt } = standingMailbox(tx, mailboxId, "when it expires");
  const now = core.runtime.now();
  if (expiresAt !== null && expiresAt <= now) return;
  tx.update(schema.mailboxes)
    .set(makeEndColumns(core, now, keyId))
    .where(eq(schema.mailboxes.id, mailboxId))
    .run();
}

/**
 * Pauses sending from it: new mail is refused (rules: Pause), and accepted mail still goes out.
 * @throws AppError bad_request, not_found
 */
export function pauseMailbox(tx: Tx, mailboxId: string, reason: string): void {
  setPaused(tx, mailboxId, readTypedReason(reason));
}

/** Ends a pause, if there is one. @throws AppError not_found */
export function resumeMailbox(tx: Tx, mailboxId: string): void {
  setPaused(tx, mailboxId, null);
}

function setPaused(tx: Tx, mailboxId: string, pausedReason: string | null): void {
  getMailboxRow(tx, mailboxId);
  tx.update(schema.mailboxes).set({ pausedReason }).where(eq(schema.mailboxes.id, mailboxId)).run();
}

/** Lists the mailboxes of one workspace, or of all: by address, or the oldest first in pages. */
export function listMailboxes(core: Core, workspaceId?: string, page?: RowPage): MailboxEntry[] {
  return read(core, workspaceId === undefined ? undefined : eq(schema.mailboxes.workspaceId, workspaceId), page);
}

function read({ store }: Core, where: SQL | undefined, page?: RowPage): MailboxEntry[] {
  const { id, address, createdAt } = schema.mailboxes;
  const after = page?.after && sql`(${createdAt}, ${id}) > (${page.after.at}, ${page.after.id})`;
  // Who set its end is for notices and undo.
  const { endedBy: _, endedAt: __, endNotifiedAt: ___, ...mailbox } = getTableColumns(schema.mailboxes);
  const rows = store.db
    .select({ mailbox, owner: schema.users.email, usedBytes: schema.mailboxUsage.bytes })
    .from(schema.mailboxes)
    .leftJoin(schema.users, eq(schema.users.id, schema.mailboxes.ownerId))
    .leftJoin(schema.mailboxUsage, eq(schema.mailboxUsage.mailboxId, id))
    .where(and(where, after))
    .orderBy(...(page ? [asc(createdAt), asc(id)] : [asc(address)]))
    .limit(page?.limit ?? -1)
    .all();
  const few = rows.length <= MOST_BY_ID ? rows.map(({ mailbox }) => mailbox.id) : undefined;
  const addresses = Map.groupBy(
    store.db
      .select()
      .from(schema.addresses)
      .where(few && inArray(schema.addresses.mailboxId, few))
      .orderBy(asc(schema.addresses.address))
      .all(),
    (row) => row.mailboxId,
  );
  const grants = Map.groupBy(
    store.db
      .select({
        mailboxId: schema.grants.mailboxId,
        user: schema.users.email,
        userId: schema.users.id,
        access: schema.grants.access,
      })
      .from(schema.grants)
      .innerJoin(schema.users, eq(schema.users.id, schema.grants.userId))
      .where(few && inArray(schema.grants.mailboxId, few))
      .orderBy(asc(schema.users.email))
      .all(),
    (row) => row.mailboxId,
  );
  const listAddressesByKind = (id: string, kind: "primary" | "alias" | "catch-all"): string[] =>
    (addresses.get(id) ?? []).filter((row) => row.kind === kind).map((row) => row.address);
  return rows.map(({ mailbox, owner, usedBytes }) => ({
    ...mailbox,
    owner,
    aliases: listAddressesByKind(mailbox.id, "alias"),
    catchAlls: listAddressesByKind(mailbox.id, "catch-all"),
    grants: (grants.get(mailbox.id) ?? []).map(({ mailboxId: _, ...grant }) => grant),
    usedBytes: usedBytes ?? 0,
    removing: listAddressesByKind(mailbox.id, "primary").length === 0,
    lost: isDomainVerifiedElsewhere(store.db, mailbox.workspaceId, splitAddress(mailbox.address).domain),
  }));
}

/**
 * Finds a mailbox by its address; aliases do not count. Without a workspace, one whose domain is not lost comes
 * first.
 * @throws AppError not_found; conflict when several remain
 */
export function getMailboxByAddress(core: Core, text: string, workspaceId?: string): MailboxEntry {
  const address = readTypedAddress(text);
  const mailboxes = listMailboxes(core, workspaceId);
  const [mailbox, other] = mailboxes
    .filter((entry) => entry.address === address)
    .sort((a, b) => Number(a.lost) - Number(b.lost));
  if (mailbox && other && mailbox.lost === other.lost) {
    throw new AppError("conflict", `several workspaces have a mailbox ${address}: name the workspace`);
  }
  if (mailbox) return mailbox;
  const behind = mailboxes.find((entry) => entry.aliases.includes(address));
  throw new AppError(
    "not_found",
    behind ? `${address} is an alias: name its mailbox, ${behind.address}` : `there is no mailbox ${address}`,
  );
}

/** Finds a mailbox of a workspace by its id. @throws AppError not_found */
export function getMailboxById(core: Core, workspaceId: string, id: string): MailboxEntry {
  const [mailbox] = read(core, and(eq(schema.mailboxes.workspaceId, workspaceId), eq(schema.mailboxes.id, id)));
  if (!mailbox) throw new AppError("not_found", "there is no such mailbox");
  return mailbox;
}
