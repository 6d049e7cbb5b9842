/**
 * Tells people by mail that messages of API keys wait for them: within a minute of the first one, then at most once an
 * hour and mailbox (rules: Held for approval). That they are told, and the record of it, commit together.
 */
import { and, asc, eq, inArray, isNull, or, sql } from "drizzle-orm";
import { type Job, workOnEach } from "../base/scheduler.ts";
import { countUnnotifiedHolds, listMailboxesWithWaitingHolds, markHoldNotified } from "../mailbox/changing/holds.ts";
import { grants, mailboxes, users } from "../store/schema.ts";
import type { Db } from "../store/store.ts";
import type { ParsingCore } from "../workers/parsing-core.ts";
import { notifyAdmins } from "./notices.ts";

const CHECK_MS = 20_000;
const HOUR_MS = 3_600_000;

/** The job that tells people. */
export const holdNotices = (core: ParsingCore): Job => ({
  name: "hold-notices",
  async runDue(now) {
    const { db, site } = core;
    await workOnEach(listMailboxesWithWaitingHolds(db), async (mailboxId) => {
      const { notifiedAt, count, newest } = countUnnotifiedHolds(db, mailboxId, now);
      if (count === 0 || (notifiedAt !== undefined && now - notifiedAt < HOUR_MS)) return;
      const mailbox = db.select().from(mailboxes).where(eq(mailboxes.id, mailboxId)).get();
      if (!mailbox) return;
      const { workspaceId, address } = mailbox;
      const to = listMailboxSenders(db, mailboxId);
      const notice = {
        workspaceId,
        ...(to.length > 0 && { to }),
        ...writeHoldNotice(address, count, `${site.baseUrl}/approve`),
      };
      await notifyAdmins(core, notice, (tx) => markHoldNotified(tx, newest, now));
    });
    return now + CHECK_MS;
  },
});

/** Whose mailbox it is, and with whom it is shared for sending. The owners and admins may approve as well. */
const listMailboxSenders = (db: Db, mailboxId: string): { email: string; name: string }[] =>
  db
    .selectDistinct({ email: users.email, name: users.name })
    .from(users)
    .leftJoin(grants, and(eq(grants.userId, users.id), eq(grants.mailboxId, mailboxId)))
    .where(
      and(
        isNull(users.lockedAt),
        or(
          inArray(grants.access, ["send", "full"]),
          sql`${users.id} = (select ${mailboxes.ownerId} from ${mailboxes} where ${mailboxes.id} = ${mailboxId})`,
        ),
      ),
    )
    .orderBy(asc(users.email))
    .all();

/** `page`: URL of the page where people decide. */
function writeHoldNotice(address: string, count: number, page: string): { subject: string; text: string } {
  const what = count === 1 ? "A message" : `${count} messages`;
  const wait = count === 1 ? "waits" : "wait";
  return {
    subject: `${what} from ${address} ${wait} for approval`,
    text: [
      `${what} of an API key ${wait} to be sent from ${address}. Nothing is sent until somebody approves it.`,
      `Read and decide: ${page}`,
      "You are told at most once an hour.",
    ].join("\n\n"),
  };
}
