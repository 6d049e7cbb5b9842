/**
 * Notices: mail that the server itself writes to a workspace's owners and admins, or to one of its people (rules: Webhook
 * delivery states). A notice comes from postmaster@ one of the workspace's verified domains, or of the server. It goes through
 * the queue like other mail, to mailboxes here as well as to addresses elsewhere, and is signed if its domain is verified. Caps
 * and pauses do not apply to it, it does not count for them, and it has no Sent copy.
 *
 * When another workspace has verified the domain of a person's address, the notice is filed in the person's mailbox, and is
 * never sent to the address.
 *
 * Invariant: neither sending a notice nor its outcome emits an event, so no notice can lead to another.
 */
import { and, asc, eq, inArray, isNotNull, isNull } from "drizzle-orm";
import { newId, randomToken } from "../base/runtime.ts";
import { fileMessage } from "../mailbox/filing/filing.ts";
import { isDomainVerifiedElsewhere, routeWithin } from "../mailbox/state/addresses.ts";
import { splitAddress } from "../message/address.ts";
import { formatAddress } from "../message/compose.ts";
import { dateHeader } from "../message/date.ts";
import type { Core } from "../store/core.ts";
import { domains, users } from "../store/schema.ts";
import type { Db, Tx } from "../store/store.ts";
import type { ParsingCore } from "../workers/parsing-core.ts";
import { newReturnPath, signingKeys } from "./accept.ts";
import { mergeRecipients } from "./guardrails.ts";
import { addOutbound, type Recipient } from "./queue.ts";
import { suppressedAmong } from "./suppression.ts";

export interface AdminNotice {
  workspaceId: string;
  /** Recipients of the notice. Default: the owners and admins. */
  to?: { email: string; name: string } | { email: string; name: string }[];
  subject: string;
  text: string;
}

/** Tells people of a notice; for modules that take it from whoever starts them: see notifyAdmins. */
export type NotifyAdmins = (notice: AdminNotice, record: (tx: Tx) => void) => Promise<void>;

const SENDER_NAME = "Mailroom";

/**
 * Puts a notice into the queue, one message to all its recipients. `record` writes in the same transaction that they are told,
 * also when the workspace has nobody to tell. It may run twice, the first time rolled back.
 * @throws AppError server_error 503; errors of the parser
 */
export async function notifyAdmins(
  core: ParsingCore,
  { workspaceId, to, subject, text }: AdminNotice,
  record: (tx: Tx) => void,
): Promise<void> {
  const { db, store, parser, runtime, log } = core;
  const { hostname } = core.site;
  const domain = senderDomain(core, workspaceId);
  const recipients: Recipient[] = [];
  const formerMailboxes = new Set<string>();
  for (const person of recipientsAmong(db, workspaceId, to ? [to].flat() : listAdminAddresses(db, workspaceId))) {
    const former = formerMailbox(db, workspaceId, person.email);
    if (former === undefined) recipients.push(person);
    else if (former !== null) formerMailboxes.add(former);
  }
  if (recipients.length + formerMailboxes.size === 0) {
    log.error("a notice cannot be sent: the workspace has nobody to write to", { workspaceId, subject });
    await store.enqueue((tx) => record(tx));
    return;
  }
  const now = core.now();
  const from = `postmaster@${domain}`;
  const messageId = `<${randomToken(runtime, 24)}@${domain}>`;
  const composition = {
    id: randomToken(runtime, 24),
    headers: [
      ["From", formatAddress({ email: from, name: SENDER_NAME })],
      ["To", recipients.map((recipient) => formatAddress(recipient)).join(", ") || "undisclosed-recipients:;"],
      ["Subject", subject],
      ["Date", dateHeader(now)],
      ["Message-ID", messageId],
      // RFC 3834 §5: vacation programs do not answer such mail.
      ["Auto-Submitted", "auto-generated"],
    ] as const,
    text: `${text}\n\nThis message was written by the mail server ${hostname}.\n`,
  };
  const keys = signingKeys(db).all({ domain });
  const { content, message } = await parser.prepareOutbound(workspaceId, composition, { keys, signedAt: now });
  await store.enqueue((tx) => {
    for (const mailboxId of formerMailboxes) {
      fileMessage(core, tx, { mailboxId, kind: "notice", receivedOn: from, message, now: core.now() });
    }
    if (recipients.length > 0) {
      addOutbound(tx, {
        workspaceId,
        subject,
        domain,
        messageId,
        notice: true,
        id: newId(runtime, "msg"),
        mailboxId: "",
        mailbox: from,
        threadId: "",
        returnPath: newReturnPath(runtime, domain),
        acceptedAt: core.now(),
        outsideRecipients: 0,
        recipients: recipients.map((recipient) => ({ ...recipient, id: newId(runtime, "que") })),
        content,
      });
      core.wake("relay");
    }
    record(tx);
  });
}

/** Returns the oldest verified domain of the workspace; without one the host name of the server. */
function senderDomain({ db, site }: Core, workspaceId: string): string {
  const verified = db
    .select({ name: domains.name })
    .from(domains)
    .where(and(eq(domains.workspaceId, workspaceId), isNotNull(domains.verifiedAt)))
    .orderBy(asc(domains.createdAt), asc(domains.id))
    .limit(1)
    .get();
  return verified?.name ?? site.hostname.toLowerCase();
}

const listAdminAddresses = (db: Db, workspaceId: string) =>
  db
    .select({ email: users.email, name: users.name })
    .from(users)
    .where(and(eq(users.workspaceId, workspaceId), inArray(users.role, ["owner", "admin"]), isNull(users.lockedAt)))
    .orderBy(asc(users.email))
    .all();

function recipientsAmong(db: Db, workspaceId: string, people: { email: string; name: string }[]) {
  const recipients = mergeRecipients({ to: people, cc: [], bcc: [] });
  return recipients.filter(({ email }) => suppressedAmong(db, workspaceId, [email]).length === 0);
}

/**
 * Finds the person's mailbox when another workspace has verified the domain of the address; null when there is no mailbox,
 * undefined when the domain is not another's.
 */
function formerMailbox(db: Db, workspaceId: string, email: string): string | null | undefined {
  if (!isDomainVerifiedElsewhere(db, workspaceId, splitAddress(email).domain)) return undefined;
  const route = routeWithin(db, workspaceId, email);
  if (route.kind === "not-local") return undefined;
  return route.kind === "mailbox" ? route.mailboxId : null;
}
