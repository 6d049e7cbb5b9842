/**
 * Mails people about changes to their own access: a replaced password, a reset second factor, an API key that somebody made
 * for them, or mail of theirs that goes elsewhere, who did it, and what ended with it. The only writer of access_notices. The change and the due notice commit together, in any
 * process; the mail and the record that it was sent do, too. Each notice is therefore sent exactly once.
 */
import { asc, eq } from "drizzle-orm";
import { type Job, workOnEach } from "../base/scheduler.ts";
import type { Core } from "../store/core.ts";
import { accessNotices, users } from "../store/schema.ts";
import type { Tx } from "../store/store.ts";

export type AccessChange = Omit<typeof accessNotices.$inferInsert, "id">;

export function addAccessNotice(tx: Tx, change: AccessChange): void {
  tx.insert(accessNotices).values(change).run();
}

/** Interval between checks for due notices: a command beside the server may have written some. */
const CHECK_MS = 10_000;
const MOST_AT_ONCE = 100;

/** Mails one person of a workspace; `record` runs in the same transaction, possibly twice. */
export type NotifyPerson = (
  notice: { workspaceId: string; to: { email: string; name: string }; subject: string; text: string },
  deleteNotice: (tx: Tx) => void,
) => Promise<void>;

/** Job: mails the due notices. */
export function tellAccessChanges({ db, log }: Core, notify: NotifyPerson): Job {
  const due = () =>
    db
      .select({ notice: accessNotices, email: users.email, name: users.name, workspaceId: users.workspaceId })
      .from(accessNotices)
      .innerJoin(users, eq(users.id, accessNotices.userId))
      .orderBy(asc(accessNotices.id))
      .limit(MOST_AT_ONCE)
      .all();
  return {
    name: "access-notices",
    async runDue(now) {
      await workOnEach(due(), async ({ notice, email, name, workspaceId }) => {
        const { id, userId, change, doneBy, appPasswords, keys } = notice;
        const deleteNotice = (tx: Tx) => void tx.delete(accessNotices).where(eq(accessNotices.id, id)).run();
        await notify({ workspaceId, to: { email, name }, ...writeAccessNotice(notice) }, deleteNotice);
        log.info("access changed", { userId, deed: change, doneBy, appPasswords, keys });
      });
      return now + CHECK_MS;
    },
  };
}

const BY = {
  self: "by somebody who was signed in as you and gave your password",
  admin: "by an owner or admin of your workspace",
  share: "by somebody with whom the mailbox is shared in full",
  operator: "by the operator of the server",
};

const counted = (count: number, what: string): string => `${count} ${what}${count === 1 ? "" : "s"}`;

const UNEXPECTED = "If you did not expect this, tell whoever runs the server at once.";

function writeAccessNotice({
  change,
  doneBy,
  appPasswords,
  keys,
  createdAt,
  detail,
}: typeof accessNotices.$inferSelect) {
  if (change === "forwarding") {
    const { mailbox, to } = JSON.parse(detail ?? "{}") as { mailbox: string; to: string[] };
    return {
      subject: `Mail to ${mailbox} is forwarded`,
      text: [
        `Rules of the mailbox ${mailbox} were set on ${new Date(createdAt).toUTCString()}, ${BY[doneBy]}, that forward mail to ${to.join(", ")}.`,
        "Whoever reads mail there reads what these rules find. You see the rules in the settings of the app, and can take them away.",
        UNEXPECTED,
      ].join("\n\n"),
    };
  }
  if (change === "key") {
    return {
      subject: "An API key was made for you",
      text: [
        `An API key was made for you on ${new Date(createdAt).toUTCString()}, ${BY[doneBy]}.`,
        "A program that has it acts as you, within the scopes of the key: it can read what you can read, and send as you.",
        UNEXPECTED,
      ].join("\n\n"),
    };
  }
  const isPassword = change === "password";
  const done = isPassword ? "Your password was changed" : "Your two-step sign-in was reset";
  const by = detail === "link" ? `with a link that was made for you ${BY[doneBy]}` : BY[doneBy];
  const sessions = doneBy === "self" ? "every other browser" : "every browser";
  return {
    subject: done,
    text: [
      `${done} on ${new Date(createdAt).toUTCString()}, ${by}.`,
      `You were signed out in ${sessions}; ${counted(appPasswords, "app password")} and ${counted(keys, "API key")} were ended.`,
      ...(isPassword ? [] : ["Your password alone signs you in until you set two-step sign-in up again."]),
      UNEXPECTED,
    ].join("\n\n"),
  };
}
