/**
 * Mailboxes: those that a caller reaches (rules: List of mailboxes), the one that a `mailbox=` parameter names, and
 * their usage.
 */
import { and, eq, inArray, ne, sql } from "drizzle-orm";
import { type Caller, findReachableMailboxes, outOfReachError, type Reach, type Seeker } from "../../access/caller.ts";
import { normalizeAddress } from "../../message/address.ts";
import type { Core, Reader } from "../../store/core.ts";
import { addresses, domains, mailboxes, mailboxUsage, workspaces, workspaceUsage } from "../../store/schema.ts";
import { perDatabase, prepared, statement } from "../../store/statement.ts";
import type { Db, Tx } from "../../store/store.ts";
import type { MailboxRoute } from "./addresses.ts";
import type { MailboxView } from "./views.ts";

/** Another workspace has verified the domain of the address. */
const isLost = sql`exists (select 1 from ${domains} own join ${domains} held on held.name = own.name
  where own.id = ${addresses.domainId} and held.id <> own.id and held.verified_at is not null)`;

const statements = {
  workspace: statement<{ workspace: string }, [id: string]>(
    `SELECT workspace_id AS workspace FROM users WHERE id = ?1
     UNION ALL SELECT workspace_id FROM mailboxes WHERE id = ?1`,
  ),
  // `unread = 1` is literal, because SQLite uses the partial index of unread conversations only then.
  unread: statement<{ unread: number }, [string]>(
    "SELECT count(*) AS unread FROM threads WHERE mailbox_id = ? AND folder = 'inbox' AND unread = 1 AND snoozed_until IS NULL",
  ),
};

const queries = prepared((db) => ({
  aliases: db
    .select({ mailboxId: addresses.mailboxId, address: addresses.address })
    .from(addresses)
    .where(
      and(
        inArray(addresses.mailboxId, sql`(select value from json_each(${sql.placeholder("mailboxIds")}))`),
        eq(addresses.kind, "alias"),
        sql`not ${isLost}`,
      ),
    )
    .orderBy(addresses.address)
    .prepare(),
  // Without catch-alls: nobody sends from one.
  mailboxOfAddress: db
    .select({ mailboxId: addresses.mailboxId, kind: addresses.kind })
    .from(addresses)
    .innerJoin(mailboxes, eq(mailboxes.id, addresses.mailboxId))
    .where(
      and(
        eq(addresses.address, sql.placeholder("address")),
        ne(addresses.kind, "catch-all"),
        eq(mailboxes.workspaceId, sql.placeholder("workspaceId")),
      ),
    )
    .prepare(),
  usage: db
    .select({
      bytes: mailboxUsage.bytes,
      quota: mailboxes.quotaBytes,
      most: workspaces.mostBytes,
      ofAll: workspaceUsage.bytes,
    })
    .from(mailboxes)
    .innerJoin(workspaces, eq(workspaces.id, mailboxes.workspaceId))
    .leftJoin(mailboxUsage, eq(mailboxUsage.mailboxId, mailboxes.id))
    .leftJoin(workspaceUsage, eq(workspaceUsage.workspaceId, mailboxes.workspaceId))
    .where(eq(mailboxes.id, sql.placeholder("mailboxId")))
    .prepare(),
  addUsage: db
    .insert(mailboxUsage)
    .values({ mailboxId: sql.placeholder("mailboxId"), bytes: sql.placeholder("bytes") })
    .onConflictDoUpdate({ target: mailboxUsage.mailboxId, set: { bytes: sql`${mailboxUsage.bytes} + excluded.bytes` } })
    .prepare(),
}));

/** Ordered by address. */
export function listMailboxes({ db }: Reader, caller: Caller): MailboxView[] {
  const reached = findReachableMailboxes(db, caller);
  const aliasesOf = Map.groupBy(
    queries(db).aliases.all({ mailboxIds: JSON.stringify([...reached.keys()]) }),
    ({ mailboxId }) => mailboxId,
  );
  return [...reached.values()].map(({ mailbox, source, access }) => ({
    id: mailbox.id,
    address: mailbox.address,
    displayName: mailbox.name,
    aliases: (aliasesOf.get(mailbox.id) ?? []).map(({ address }) => address),
    source,
    access: { ...access },
    unread: statements.unread(db).get(mailbox.id)?.unread ?? 0,
  }));
}

/** The workspace of a person or mailbox, by its id. */
export const findOwnerWorkspaceId = (db: Db, owner: string): string | undefined =>
  statements.workspace(db).get(owner)?.workspace;

/** The workspace's mailbox that has the normalised address as its own or an alias, even if the domain is lost. */
export const findMailboxByAddress = (db: Db, workspaceId: string, address: string) =>
  queries(db).mailboxOfAddress.get({ address, workspaceId });

/**
 * The id of the mailbox that `mailbox` (id, address or alias address) names in the caller's workspace, or the given
 * text for an unknown address. Does not check access.
 */
export function resolveMailboxId(db: Db, { workspaceId }: Pick<Seeker, "workspaceId">, mailbox: string): string {
  const address = normalizeAddress(mailbox);
  if (address === undefined) return mailbox;
  return findMailboxByAddress(db, workspaceId, address)?.mailboxId ?? mailbox;
}

/**
 * The mailboxes to list: the one with that id, or all that the caller reaches.
 * @throws AppError not_found for an unknown one or one out of reach
 */
export function mailboxesInReach(db: Db, caller: Seeker, mailboxId: string | undefined): Map<string, Reach> {
  const reached = findReachableMailboxes(db, caller);
  if (mailboxId === undefined) return reached;
  const reach = reached.get(mailboxId);
  if (!reach) throw outOfReachError("mailbox");
  return new Map([[mailboxId, reach]]);
}

/** The id of the mailbox that `mailbox` (id, address or alias address) names. @throws AppError not_found, also out of reach */
export function reachedMailbox(db: Db, caller: Seeker, mailbox: string): string {
  const id = resolveMailboxId(db, caller, mailbox);
  mailboxesInReach(db, caller, id);
  return id;
}

/** The used bytes of a mailbox, counted in messages as received, and how many it may have. */
export interface Usage {
  bytes: number;
  quotaBytes: number;
  /** Bytes that its workspace may still have; undefined for one without a limit. */
  workspaceRoom?: number;
}

/** The mailbox's own quota, else the setting storage.mailboxBytes; less where its workspace may have no more. */
export function readMailboxUsage({ db, options }: Core, mailboxId: string): Usage {
  const { bytes, quota, most, ofAll } = queries(db).usage.get({ mailboxId }) ?? {};
  const used = bytes ?? 0;
  const own = quota ?? options.get("storage.mailboxBytes");
  if (most == null) return { bytes: used, quotaBytes: own };
  const workspaceRoom = Math.max(0, most - (ofAll ?? 0));
  return { bytes: used, quotaBytes: Math.min(own, used + workspaceRoom), workspaceRoom };
}

/** When the mailboxes of a database were last logged as full, epoch ms. */
const loggedFull = perDatabase(() => new Map<string, number>());
const ONE_LINE_IN_MS = 60_000;

/**
 * True if a mailbox takes an arriving message of `size` bytes: within its quota, or at an address that is exempt from it while
 * the disk and the workspace have room. Strangers know those addresses, and must not be able to fill the disk.
 */
export function hasStorageForMessage(
  core: Core,
  { mailboxId, exempt }: Pick<MailboxRoute, "mailboxId" | "exempt">,
  size: number,
): boolean {
  const { bytes, quotaBytes, workspaceRoom = Number.POSITIVE_INFINITY } = readMailboxUsage(core, mailboxId);
  const hasIt = bytes + size <= quotaBytes || (exempt && size <= workspaceRoom && !core.store.isDiskLow());
  if (!hasIt) logFull(core, mailboxId, { size, bytes, quotaBytes });
  return hasIt;
}

/** Logs that a mailbox had no room, once a minute at most: senders come again and again. */
function logFull(
  { db, now, log }: Core,
  mailboxId: string,
  facts: { size: number; bytes: number; quotaBytes: number },
): void {
  // The absolute difference, since the clock may have been set back.
  if (Math.abs(now() - (loggedFull(db).get(mailboxId) ?? 0)) < ONE_LINE_IN_MS) return;
  loggedFull(db).set(mailboxId, now());
  const row = db.select({ address: mailboxes.address }).from(mailboxes).where(eq(mailboxes.id, mailboxId)).get();
  log.warn("the mailbox is full: a message was refused", { mailbox: row?.address, ...facts });
}

/** `bytes` is negative for removed mail. */
export function addMailboxUsage(tx: Tx, mailboxId: string, bytes: number): void {
  queries(tx).addUsage.run({ mailboxId, bytes });
}
