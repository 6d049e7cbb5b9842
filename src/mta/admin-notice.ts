/**
 * Mail that the server itself writes to a workspace's owners and admins, from postmaster@ one of its domains (contract:
 * Webhook delivery states). It leaves by the queue as all mail does, signed, so it reaches a mailbox here as well as an
 * address elsewhere; but it asks no cap and no pause, takes no part in what they count, and has no Sent copy.
 *
 * Invariant: it fires no event on its way out, and what becomes of it none either, so no notice can lead to another.
 */
import { and, asc, desc, eq, inArray, isNotNull } from "drizzle-orm";
import type { Log } from "../log.ts";
import { dateHeader, formatAddress } from "../message/compose.ts";
import { newId, type Runtime, randomToken } from "../runtime.ts";
import { domains, users } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import type { ParserPool } from "./parser-pool.ts";
import { addOutbound } from "./queue.ts";
import { recipientsOf } from "./recipient.ts";
import { newReturnPath, signingKeys } from "./submit.ts";
import { suppressedAmong } from "./suppression.ts";

export interface AdminNotice {
  workspaceId: string;
  subject: string;
  text: string;
}

/**
 * Puts a notice into the queue, one message to all of them; `record` writes in the same transaction that they are told,
 * also when there is nobody to tell. May run twice, the first time rolled back.
 * @throws AppError server_error 503; what the parser says
 */
export type NotifyAdmins = (notice: AdminNotice, record: (tx: Tx) => void) => Promise<void>;

export interface AdminNoticeParts {
  store: Pick<Store, "db" | "enqueue">;
  parser: Pick<ParserPool, "prepareOutbound">;
  runtime: Pick<Runtime, "now" | "randomBytes">;
  /** Ours. */
  hostname: string;
  log: Log;
}

const SENDER_NAME = "Mailroom";

export function createAdminNotices({ store, parser, runtime, hostname, log }: AdminNoticeParts): NotifyAdmins {
  /** Of the workspace: one that is verified, if there is one, and of those the oldest. */
  function domainOf(workspaceId: string): string | undefined {
    return store.db
      .select({ name: domains.name })
      .from(domains)
      .where(eq(domains.workspaceId, workspaceId))
      .orderBy(desc(isNotNull(domains.verifiedAt)), asc(domains.createdAt), asc(domains.id))
      .limit(1)
      .get()?.name;
  }

  function adminsOf(workspaceId: string) {
    const admins = store.db
      .select({ email: users.email, name: users.name })
      .from(users)
      .where(and(eq(users.workspaceId, workspaceId), inArray(users.role, ["owner", "admin"])))
      .orderBy(asc(users.email))
      .all();
    const recipients = recipientsOf({ to: admins, cc: [], bcc: [] });
    const suppressed = new Set(
      suppressedAmong(
        store.db,
        workspaceId,
        recipients.map(({ email }) => email),
      ),
    );
    return recipients.filter(({ email }) => !suppressed.has(email));
  }

  return async function notifyAdmins({ workspaceId, subject, text }, record) {
    const domain = domainOf(workspaceId);
    const recipients = adminsOf(workspaceId);
    if (domain === undefined || recipients.length === 0) {
      log.error("the admins cannot be told: the workspace has no domain or nobody to write to", {
        workspaceId,
        subject,
      });
      await store.enqueue((tx) => record(tx));
      return;
    }
    const now = runtime.now();
    const from = `postmaster@${domain}`;
    const messageId = `<${randomToken(runtime, 24)}@${domain}>`;
    const letter = {
      id: randomToken(runtime, 24),
      headers: [
        ["From", formatAddress({ email: from, name: SENDER_NAME })],
        ["To", recipients.map((recipient) => formatAddress(recipient)).join(", ")],
        ["Subject", subject],
        ["Date", dateHeader(now)],
        ["Message-ID", messageId],
        // RFC 3834 §5: nobody's vacation message answers it.
        ["Auto-Submitted", "auto-generated"],
      ] as const,
      text: `${text}\n\nThis message was written by the mail server ${hostname}.\n`,
    };
    const keys = signingKeys(store.db).all({ domain });
    const { content } = await parser.prepareOutbound(letter, { keys, signedAt: now });
    await store.enqueue((tx) => {
      addOutbound(tx, {
        ...{ workspaceId, subject, domain, messageId, notice: true },
        ...{ id: newId(runtime, "msg"), mailboxId: "", mailbox: from, threadId: "" },
        returnPath: newReturnPath(runtime, domain),
        acceptedAt: runtime.now(),
        outsideRecipients: 0,
        recipients: recipients.map((recipient) => ({ ...recipient, id: newId(runtime, "que") })),
        content: { bytes: content },
      });
      record(tx);
    });
  };
}
