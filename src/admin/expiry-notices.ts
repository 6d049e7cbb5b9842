/**
 * Tells people by mail that a mailbox ends to which an API key gave an end: its owner a day before, or once it has ended at once
 * (rules: Mailbox expiry). That they are told, and the record of it, commit together.
 */
import { and, asc, eq, isNotNull, isNull, lte, sql } from "drizzle-orm";
import { type Job, workOnEach } from "../base/scheduler.ts";
import type { Core } from "../store/core.ts";
import { apiKeys, mailboxes, users } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { UNSERVED } from "../store/unserved-workspaces.ts";

const CHECK_MS = 60_000;
const DAY_MS = 86_400_000;
const MOST_AT_ONCE = 100;

/** Job: `notify` mails one person of a workspace, or else its owners and admins; `record` runs in the same transaction, possibly twice. */
export function tellMailboxExpiries(
  { db }: Core,
  notify: (
    notice: { workspaceId: string; to?: { email: string; name: string }; subject: string; text: string },
    record: (tx: Tx) => void,
  ) => Promise<void>,
): Job {
  const due = (now: number) =>
    db
      .select({
        id: mailboxes.id,
        workspaceId: mailboxes.workspaceId,
        address: mailboxes.address,
        expiresAt: sql<number>`${mailboxes.expiresAt}`,
        key: apiKeys.name,
        owner: { email: users.email, name: users.name },
      })
      .from(mailboxes)
      .leftJoin(apiKeys, eq(apiKeys.id, mailboxes.endedBy))
      .leftJoin(users, and(eq(users.id, mailboxes.ownerId), isNull(users.lockedAt)))
      .where(
        and(
          isNotNull(mailboxes.endedBy),
          isNull(mailboxes.endNotifiedAt),
          lte(mailboxes.expiresAt, now + DAY_MS),
          sql`${mailboxes.workspaceId} NOT IN ${sql.raw(UNSERVED)}`,
        ),
      )
      .orderBy(asc(mailboxes.expiresAt))
      .limit(MOST_AT_ONCE)
      .all();
  return {
    name: "expiry-notices",
    async runDue(now) {
      await workOnEach(due(now), ({ id, workspaceId, address, expiresAt, key, owner }) => {
        const hasEnded = expiresAt <= now;
        // Mail to a mailbox that has ended would reach nobody.
        const to = owner !== null && !(hasEnded && owner.email === address) ? { to: owner } : {};
        return notify({ workspaceId, ...to, ...writeExpiryNotice(address, expiresAt, key, hasEnded) }, (tx) =>
          tx.update(mailboxes).set({ endNotifiedAt: now }).where(eq(mailboxes.id, id)).run(),
        );
      });
      return now + CHECK_MS;
    },
  };
}

function writeExpiryNotice(address: string, expiresAt: number, key: string | null, hasEnded: boolean) {
  const by = key === null ? "An API key that is gone" : `The API key “${key}”`;
  const when = new Date(expiresAt).toUTCString();
  return {
    subject: hasEnded ? `The mailbox ${address} has ended` : `The mailbox ${address} ends within a day`,
    text: [
      `${by} ended the mailbox ${address}: ${hasEnded ? "since" : "from"} ${when} it takes no mail and sends none. Its mail can be read for 30 days more, and is then deleted.`,
      "An owner or admin keeps the mailbox by taking its end away: PATCH /api/admin/v1/mailboxes/{id} with expiresAt null.",
    ].join("\n\n"),
  };
}
