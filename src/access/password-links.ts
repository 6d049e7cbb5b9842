/**
 * Links by which people choose a password (rules: Invitation). The only writer of password_links. A link is stored as the
 * SHA-256 of its token, which has 256 bits.
 *
 * Invariants: a person has one link at most; a link works once, and no longer than a week. Only who asked for it is shown
 * a link, or only its mail has it: the job below makes the token of a link that is mailed, and queues the mail in the
 * transaction that stores the hash.
 */
import { and, asc, eq, gt, isNotNull, isNull, sql } from "drizzle-orm";
import { type Runtime, randomToken } from "../base/runtime.ts";
import { type Job, workOnEach } from "../base/scheduler.ts";
import type { Core } from "../store/core.ts";
import { apiKeys, passwordLinks, users, workspaces } from "../store/schema.ts";
import { statement } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { UNSERVED } from "../store/unserved-workspaces.ts";
import type { NotifyPerson } from "./access-notices.ts";
import { hashCredential } from "./credentials.ts";

const TOKEN_LENGTH = 43;
const VALID_MS = 7 * 86_400_000;
/** Interval between checks for links that are to be mailed; commits of this process wake the job. */
const CHECK_MS = 60_000;
const MOST_AT_ONCE = 100;

/** URL of a link. A browser sends nobody what follows `#`. */
export const passwordLink = (baseUrl: string, token: string): string => `${baseUrl}/password#${token}`;

interface NewLink {
  userId: string;
  /** The person who asks for it; undefined: the operator. */
  madeBy: string | undefined;
}

/** Makes a link, in place of the person's former one. `token` is returned only here. `expiresAt`: epoch ms. */
export function addPasswordLink(
  tx: Tx,
  runtime: Pick<Runtime, "now" | "randomBytes">,
  link: NewLink,
): { token: string; expiresAt: number } {
  const token = randomToken(runtime, TOKEN_LENGTH);
  return { token, expiresAt: put(tx, runtime.now(), { ...link, hash: hashCredential(token) }) };
}

/** Asks for a link that is mailed soon after, in place of the person's former one. `keyId`: the API key that asks for it. */
export function requestPasswordLink(
  tx: Tx,
  { now }: Pick<Runtime, "now">,
  link: NewLink & { keyId: string | undefined; mailTo: string },
): void {
  put(tx, now(), link);
}

function put(tx: Tx, now: number, link: Omit<typeof passwordLinks.$inferInsert, "expiresAt">): number {
  endPasswordLink(tx, link.userId);
  const expiresAt = now + VALID_MS;
  tx.insert(passwordLinks)
    .values({ ...link, expiresAt })
    .run();
  return expiresAt;
}

/** Ends the person's link, if they have one. */
export function endPasswordLink(tx: Tx, userId: string): void {
  tx.delete(passwordLinks).where(eq(passwordLinks.userId, userId)).run();
}

/** Whom a link is for, and who asked for it. */
export interface PasswordLink {
  userId: string;
  madeBy: string | null;
}

/**
 * The link of a token at `now`, epoch ms; undefined for one that is unknown, used up, ended or expired, or whose API key was
 * revoked.
 */
export function findPasswordLink(db: Db, token: string, now: number): PasswordLink | undefined {
  return db
    .select({ userId: passwordLinks.userId, madeBy: passwordLinks.madeBy })
    .from(passwordLinks)
    .leftJoin(apiKeys, and(eq(apiKeys.id, passwordLinks.keyId), isNull(apiKeys.revokedAt)))
    .where(
      and(
        eq(passwordLinks.hash, hashCredential(token)),
        gt(passwordLinks.expiresAt, now),
        sql`(${isNull(passwordLinks.keyId)} OR ${isNotNull(apiKeys.id)})`,
      ),
    )
    .get();
}

/** True if a link is to be mailed; called at every commit. */
const isAnyDue = statement<unknown, []>("SELECT 1 FROM password_links WHERE hash IS NULL LIMIT 1");

/** Job: mails the links that are to be mailed. */
export function mailPasswordLinks({ store, runtime, site: { baseUrl }, wake }: Core, notify: NotifyPerson): Job {
  const name = "password-links";
  const due = () =>
    store.db
      .select({
        userId: users.id,
        email: users.email,
        name: users.name,
        hasPassword: isNotNull(users.passwordHash),
        workspaceId: users.workspaceId,
        workspace: workspaces.name,
        mailTo: sql<string>`${passwordLinks.mailTo}`,
        expiresAt: passwordLinks.expiresAt,
      })
      .from(passwordLinks)
      .innerJoin(users, eq(users.id, passwordLinks.userId))
      .innerJoin(workspaces, eq(workspaces.id, users.workspaceId))
      .where(and(isNull(passwordLinks.hash), sql`${users.workspaceId} NOT IN ${sql.raw(UNSERVED)}`))
      .orderBy(asc(passwordLinks.expiresAt))
      .limit(MOST_AT_ONCE)
      .all();
  store.onCommit(() => {
    if (isAnyDue(store.db).get() !== null) wake(name);
  });
  return {
    name,
    async runDue(now) {
      await workOnEach(due(), ({ userId, workspaceId, mailTo, expiresAt, ...person }) => {
        const token = randomToken(runtime, TOKEN_LENGTH);
        // A link that replaced it since has another time, or is shown to somebody.
        const isIts = and(
          eq(passwordLinks.userId, userId),
          eq(passwordLinks.expiresAt, expiresAt),
          isNull(passwordLinks.hash),
        );
        const storeLinkHash = (tx: Tx) =>
          void tx
            .update(passwordLinks)
            .set({ hash: hashCredential(token) })
            .where(isIts)
            .run();
        const mail = writePasswordLinkMail(person, passwordLink(baseUrl, token), expiresAt);
        return notify({ workspaceId, to: { email: mailTo, name: person.name }, ...mail }, storeLinkHash);
      });
      return now + CHECK_MS;
    },
  };
}

function writePasswordLinkMail(
  { email, workspace, hasPassword }: { email: string; workspace: string; hasPassword: unknown },
  link: string,
  expiresAt: number,
): { subject: string; text: string } {
  const who = `An owner or admin of ${workspace}`;
  return {
    subject: hasPassword ? `Choose another password for ${email}` : `Choose a password for ${email}`,
    text: [
      hasPassword
        ? `${who} lets you choose another password for ${email} here. Two-step sign-in, if you use it, stays as it is.`
        : `${who} has made an account for you. You sign in as ${email}, with a password that you choose here:`,
      link,
      `The link works once, until ${new Date(expiresAt).toUTCString()}. Keep it to yourself: whoever opens it chooses the password.`,
    ].join("\n\n"),
  };
}
