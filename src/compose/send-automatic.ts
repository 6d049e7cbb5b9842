/**
 * Writes and sends what filing asked for (mailbox/filing/automatic-requests.ts): mail that rules forward, and replies of those who are absent
 * (rules: Forwarding, Out of office).
 *
 *   filing ─► automatic_mail ─► this job: compose ─► guardrails, sign ─► one transaction {queue, request ends, trace}
 *
 * A forwarded message is a new one from the mailbox, because what arrived is not kept byte for byte: under its author's name it
 * would fail the author's DKIM signature, and so DMARC.
 */
import { eq, sql } from "drizzle-orm";
import type { Caller, Reach } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { Job } from "../base/scheduler.ts";
import { findAbsence } from "../mailbox/filing/absences.ts";
import {
  type AutomaticMail,
  findNextAutomaticMailTime,
  finishAutomaticMail,
  listDueAutomaticMail,
  postponeAutomaticMail,
} from "../mailbox/filing/automatic-requests.ts";
import { mayForwardTo } from "../mailbox/filing/rules.ts";
import { getMessage, listReusableAttachments } from "../mailbox/reading/messages.ts";
import { renewSanitizedHtml } from "../mailbox/reading/stored-html.ts";
import { ownAddresses } from "../mailbox/state/addresses.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { isPlaceholderAddress } from "../message/address.ts";
import { formatAddress, LONGEST_SUBJECT } from "../message/compose.ts";
import { forwardSubject } from "../message/composition.ts";
import { parseReferences } from "../message/message-id.ts";
import { submitAutomatic } from "../outbound/accept.ts";
import type { SendCore } from "../outbound/send-core.ts";
import { traceAutomatic } from "../outbound/trace-log.ts";
import type { Core } from "../store/core.ts";
import { mailboxes, messageBodies, messages, threads } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";
import { compositionFile, toForwardedFile } from "./attached-files.ts";
import { createOutgoingMessage, type OutgoingMessage, toForwardedMessage } from "./outgoing.ts";
import { chooseReplyAddresses, replyHeaders } from "./reply.ts";

/** Time after which a message that a cap or the queue refused is tried again, and the age of a request that is given up. */
const RETRY_MS = 15 * 60_000;
const GIVE_UP_MS = 24 * 3_600_000;

/** No program answers these messages (RFC 3834 §5, and Microsoft's word for it). */
const markedAs = (what: "auto-generated" | "auto-replied"): [name: string, value: string][] => [
  ["Auto-Submitted", what],
  ["X-Auto-Response-Suppress", "All"],
];

const statements = prepared((db) => ({
  message: db
    .select({
      id: messages.id,
      threadId: threads.id,
      messageId: messages.messageId,
      inReplyTo: messages.inReplyTo,
      from: messages.from,
      replyTo: messages.replyTo,
      subject: messages.subject,
      receivedOn: messages.receivedOn,
      headers: messageBodies.headers,
      mailbox: {
        id: mailboxes.id,
        address: mailboxes.address,
        name: mailboxes.name,
        ownerId: mailboxes.ownerId,
        workspaceId: mailboxes.workspaceId,
      },
    })
    .from(messages)
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .innerJoin(mailboxes, eq(mailboxes.id, messages.mailboxId))
    .where(eq(messages.seq, sql.placeholder("seq")))
    .prepare(),
}));

type Arrived = NonNullable<ReturnType<ReturnType<typeof statements>["message"]["get"]>>;

/** The server reads a message for its mailbox. */
const makeMailboxReader = ({ workspaceId }: Reach["mailbox"]): Caller => ({
  userId: "",
  workspaceId,
  role: "owner",
  email: "",
  scopes: new Set(),
});

async function composeAutomaticForward(
  core: MailCore,
  arrived: Arrived,
  { recipient, passed }: AutomaticMail,
): Promise<OutgoingMessage> {
  const { id, mailbox: box, replyTo, from, subject } = arrived;
  const reader = makeMailboxReader(box);
  await renewSanitizedHtml(core, id);
  const forwarded = { ...toForwardedMessage(getMessage(core, reader, id, { html: true })), from, subject };
  const files = listReusableAttachments(core, reader, id).map((file) => compositionFile(toForwardedFile(file)));
  const own = ownAddresses(core.db, box.id);
  const answered = chooseReplyAddresses(own, { replyTo, from }).filter(({ email }) => !isPlaceholderAddress(email));
  // It answers nothing.
  const references = replyHeaders(answeredIn(arrived)).filter(([name]) => name === "References");
  return createOutgoingMessage(
    core,
    {
      mailbox: box,
      from: box.address,
      recipients: [{ email: recipient, field: "to" }],
      subject: forwardSubject(subject),
    },
    { forwarded, files },
    [
      ...(answered.length === 0 ? [] : [["Reply-To", answered.map(formatAddress).join(", ")] as const]),
      ...references,
      ...[...passed, box.address].map((address) => ["Delivered-To", address] as const),
      ...markedAs("auto-generated"),
    ],
  );
}

/** Composes the reply of a mailbox whose owner is absent; undefined once that is over. */
function composeAbsenceReply(core: Core, arrived: Arrived, { recipient }: AutomaticMail): OutgoingMessage | undefined {
  const { mailbox: box, receivedOn, subject } = arrived;
  const absence = findAbsence(core.db, box.id);
  if (!absence) return undefined;
  const own = ownAddresses(core.db, box.id);
  const from = receivedOn !== null && own.has(receivedOn) ? receivedOn : box.address;
  return createOutgoingMessage(
    core,
    {
      mailbox: box,
      from,
      recipients: [{ email: recipient, field: "to" }],
      subject: absence.subject ?? `Auto: ${subject}`.slice(0, LONGEST_SUBJECT).toWellFormed().trimEnd(),
    },
    { text: absence.text },
    [...replyHeaders(answeredIn(arrived)), ...markedAs("auto-replied")],
  );
}

const composeAutomaticMessage = async (
  core: MailCore,
  arrived: Arrived,
  request: AutomaticMail,
): Promise<OutgoingMessage | undefined> => {
  if (request.kind === "absence") return composeAbsenceReply(core, arrived, request);
  const { workspaceId } = arrived.mailbox;
  return mayForwardTo(core.db, core.options, workspaceId, request.recipient)
    ? composeAutomaticForward(core, arrived, request)
    : undefined;
};

/** Ends a request, or puts it off. */
async function send(core: SendCore, request: AutomaticMail): Promise<void> {
  const { db, store, now, meters, log } = core;
  const { seq, messageSeq, kind, recipient, askedAt } = request;
  const arrived = statements(db).message.get({ seq: messageSeq });
  if (!arrived) return;
  /** False if the message is gone by now. */
  const end = (tx: Tx, outcome: "accepted" | "refused", reply: string): boolean => {
    if (!finishAutomaticMail(tx, seq)) return false;
    const key = arrived.messageId ?? arrived.id;
    traceAutomatic(tx, key, { at: now(), emailId: arrived.id, automatic: kind, recipient, outcome, reply });
    return true;
  };
  const refuse = async (reason: string): Promise<void> => {
    await store.enqueue((tx) => void end(tx, "refused", reason));
    meters.countAutomatic(kind, "refused");
    log.info("automatic mail was not sent", { kind, emailId: arrived.id, reason });
  };
  try {
    const message = await composeAutomaticMessage(core, arrived, request);
    if (!message) return await refuse("It is no longer wanted, or no longer allowed");
    await submitAutomatic(core, { ...message, threadId: arrived.threadId, automatic: kind }, (tx) => {
      if (!end(tx, "accepted", `Queued as ${message.messageId}`)) throw new AppError("conflict", "The message is gone");
    });
    meters.countAutomatic(kind, "accepted");
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const isForNow = ["rate_limited", "upstream_failed", "server_error"].includes(error.code);
    if (!isForNow || now() - askedAt >= GIVE_UP_MS) return await refuse(`${error.code}: ${error.message}`);
    await store.enqueue((tx) => postponeAutomaticMail(tx, seq, now() + RETRY_MS));
  }
}

/** The job that sends what filing asked for, woken by the commit in which mail is due. */
export function sendAutomaticMail(core: SendCore): Job {
  const { db, store, now } = core;
  const name = "send-automatic-mail";
  store.onCommit(() => {
    const dueAt = findNextAutomaticMailTime(db);
    if (dueAt !== null && dueAt <= now()) core.wake(name);
  });
  return {
    name,
    async runDue(from) {
      let failure: unknown;
      for (let due = listDueAutomaticMail(db, from); due.length > 0; due = listDueAutomaticMail(db, from)) {
        for (const request of due) {
          try {
            await send(core, request);
          } catch (error) {
            // One that fails does not delay the others.
            failure ??= error;
            await store.enqueue((tx) => postponeAutomaticMail(tx, request.seq, now() + RETRY_MS));
          }
        }
      }
      // The scheduler logs it, and tries again.
      if (failure !== undefined) throw failure;
      return findNextAutomaticMailTime(db);
    },
  };
}

/** The identifiers of the message that a reply answers, in the shape that replyHeaders takes. */
function answeredIn({ messageId, inReplyTo, headers }: Arrived): Parameters<typeof replyHeaders>[0] {
  const named = headers.flatMap(([name, value]) => (name.toLowerCase() === "references" ? value : []));
  return {
    ...(messageId !== null && { messageId }),
    ...(inReplyTo !== null && { inReplyTo }),
    references: parseReferences(named.join(" ")),
  };
}
