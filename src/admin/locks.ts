/**
 * Locks a person out, and lets them in again (rules: Lock). The transaction of the lock ends for good every way by which the
 * person, or a program of theirs, reaches mail: sessions, app passwords, API keys and grants, the link to choose a password,
 * and the rules that forward mail of their mailboxes. An open connection that looks then finds nothing. Letting the person in
 * again restores none of these.
 */
import { eq } from "drizzle-orm";
import { listAppPasswords, revokeAppPasswords } from "../access/app-passwords.ts";
import { listApiKeys, revokePersonKeys } from "../access/credentials.ts";
import { endPasswordLink } from "../access/password-links.ts";
import { endSessions, listSessions } from "../access/sessions.ts";
import { forgetForwardRequests } from "../mailbox/filing/automatic-requests.ts";
import { listForwardAddresses, putRules, readMailboxRules } from "../mailbox/filing/rules.ts";
import { cancelMailboxForwards } from "../outbound/queue.ts";
import { mailboxes, type Rule, users } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";
import { type By, refuseChangingUser, refuseLastOwner, requireUser } from "./role-authority.ts";

/** Everything that a lock ended. */
export interface Locked {
  sessions: { id: string; userAgent: string }[];
  appPasswords: { id: string; name: string }[];
  keys: { id: string; name: string }[];
  /** Programs that the person let in; the id is that of the grant's key. */
  grants: { id: string; name: string }[];
  /** Rules that forwarded mail of their mailboxes. */
  forwarding: { mailboxId: string; mailbox: string; match: string; to: string[] }[];
}

/**
 * Locks a person at `now`, epoch ms. For one who is locked already, it ends what they have by now.
 * @throws AppError conflict for the last owner of the workspace, whoever asks; not_found, forbidden as refuseChangingUser
 */
export function lockUser(tx: Tx, userId: string, now: number, by?: By): Locked {
  refuseLastOwner(tx, userId, "locked");
  refuseChangingUser(tx, by, userId);
  const { workspaceId, lockedAt } = requireUser(tx, userId);
  const live = listApiKeys(tx, workspaceId).filter((key) => key.userId === userId && key.revokedAt === null);
  const named = ({ id, name }: { id: string; name: string }) => ({ id, name });
  const locked = {
    sessions: listSessions(tx, userId, now).map(({ id, userAgent }) => ({ id, userAgent })),
    appPasswords: listAppPasswords(tx, userId).map(named),
    keys: live.filter(({ client }) => client === null).map(named),
    grants: live.filter(({ client }) => client !== null).map(named),
    forwarding: stopForwarding(tx, userId, now),
  };
  tx.update(users)
    .set({ lockedAt: lockedAt ?? now })
    .where(eq(users.id, userId))
    .run();
  endPasswordLink(tx, userId);
  endSessions(tx, userId, now);
  revokeAppPasswords(tx, userId);
  revokePersonKeys(tx, userId, now);
  return locked;
}

/** Lets a person sign in again. @throws AppError not_found, forbidden as refuseChangingUser */
export function unlockUser(tx: Tx, userId: string, by?: By): void {
  refuseChangingUser(tx, by, userId);
  tx.update(users).set({ lockedAt: null }).where(eq(users.id, userId)).run();
}

/** Turns off the rules that forward mail of a person's mailboxes, and gives up what they forwarded and was not delivered yet. */
function stopForwarding(tx: Tx, userId: string, now: number): Locked["forwarding"] {
  const owned = tx.select().from(mailboxes).where(eq(mailboxes.ownerId, userId)).all();
  return owned.flatMap(({ id, address }) => {
    const rules = readMailboxRules(tx, id);
    const stopped = rules.filter((rule) => rule.enabled && listForwardAddresses([rule]).length > 0);
    const enabled = (rule: Rule) => rule.enabled && !stopped.includes(rule);
    if (stopped.length > 0)
      putRules(
        tx,
        id,
        rules.map((rule) => ({ ...rule, enabled: enabled(rule) })),
      );
    forgetForwardRequests(tx, id);
    cancelMailboxForwards(tx, id, now);
    return stopped.map((rule) => ({
      mailboxId: id,
      mailbox: address,
      match: rule.match,
      to: listForwardAddresses([rule]),
    }));
  });
}
