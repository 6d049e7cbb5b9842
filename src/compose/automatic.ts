/**
 * Writes and sends what filing asked for (mailbox/automatic.ts): mail that rules forward, and replies of those who are absent
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
import type { Log } from "../base/log.ts";
import type { Meters } from "../base/metrics.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Job } from "../base/scheduler.ts";
import { absenceOf } from "../mailbox/absences.ts";
import { ownAddresses } from "../mailbox/addresses.ts";
import { type AutomaticMail, dueMail, nextMailDue, postponeMail, settleMail } from "../mailbox/automatic.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { mayForwardTo } from "../mailbox/rules.ts";
import { isAnonymous } from "../message/address.ts";
import { formatAddress, LONGEST_SUBJECT } from "../message/compose.ts";
import { forwardSubject } from "../message/composition.ts";
import { referencesOf } from "../message/identity.ts";
import { type SubmitParts, submitAutomatic } from "../outbound/accept.ts";
import { traceAutomatic } from "../outbound/trace-log.ts";
import { mailboxes, messageBodies, messages, threads } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Store, Tx } from "../store/store.ts";
import { compositionFile } from "./drafts.ts";
import { forwardedFrom, type Outgoing, outgoing } from "./outgoing.ts";
import { answerTo, replyHeaders } from "./reply.ts";

/** What a cap or the queue refuses is tried again after so long, for so long. */
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

export function createAutomatic(
  parts: SubmitParts & {
    mailbox: Mailbox;
    runtime: Pick<Runtime, "now" | "randomBytes">;
    log: Log;
    meters?: Pick<Meters, "countAutomatic"> | undefined;
    store: Pick<Store, "onCommit">;
    /** Called when a message was queued. */
    onQueued(): void;
    wake(job: string): void;
  },
) {
  const { store, mailbox, options, runtime, log, meters } = parts;

  /** The server reads a message for its mailbox. */
  const readerOf = ({ workspaceId }: Reach["mailbox"]): Caller => ({
    userId: "",
    workspaceId,
    role: "owner",
    email: "",
    scopes: new Set(),
  });

  async function forwardOf(arrived: Arrived, { recipient, passed }: AutomaticMail): Promise<Outgoing> {
    const { id, mailbox: box, replyTo, from, subject } = arrived;
    const reader = readerOf(box);
    await mailbox.renewHtml(id);
    const forwarded = { ...forwardedFrom(mailbox.getMessage(reader, id, { html: true })), from, subject };
    const files = mailbox.filesOf(reader, id).map(compositionFile);
    const own = ownAddresses(store.db, box.id);
    const answered = answerTo(own, { replyTo, from }).filter(({ email }) => !isAnonymous(email));
    // It answers nothing.
    const references = replyHeaders(answeredIn(arrived)).filter(([name]) => name === "References");
    return outgoing(
      runtime,
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

  /** Undefined once nobody is absent. */
  function absenceReplyOf(arrived: Arrived, { recipient }: AutomaticMail): Outgoing | undefined {
    const { mailbox: box, receivedOn, subject } = arrived;
    const absence = absenceOf(store.db, box.id);
    if (!absence) return undefined;
    const own = ownAddresses(store.db, box.id);
    const from = receivedOn !== null && own.has(receivedOn) ? receivedOn : box.address;
    return outgoing(
      runtime,
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

  const messageOf = async (arrived: Arrived, request: AutomaticMail): Promise<Outgoing | undefined> => {
    if (request.kind === "absence") return absenceReplyOf(arrived, request);
    const { workspaceId } = arrived.mailbox;
    return mayForwardTo(store.db, options, workspaceId, request.recipient) ? forwardOf(arrived, request) : undefined;
  };

  /** Ends a request, or puts it off. */
  async function send(request: AutomaticMail): Promise<void> {
    const { seq, messageSeq, kind, recipient, askedAt } = request;
    const arrived = statements(store.db).message.get({ seq: messageSeq });
    if (!arrived) return;
    /** False if the message is gone by now. */
    const end = (tx: Tx, outcome: "accepted" | "refused", reply: string): boolean => {
      if (!settleMail(tx, seq)) return false;
      const key = arrived.messageId ?? arrived.id;
      traceAutomatic(tx, key, { at: runtime.now(), emailId: arrived.id, automatic: kind, recipient, outcome, reply });
      return true;
    };
    const refuse = async (reason: string): Promise<void> => {
      await store.enqueue((tx) => void end(tx, "refused", reason));
      meters?.countAutomatic(kind, "refused");
      log.info("automatic mail was not sent", { kind, emailId: arrived.id, reason });
    };
    try {
      const message = await messageOf(arrived, request);
      if (!message) return await refuse("It is no longer wanted, or no longer allowed");
      await submitAutomatic(parts, { ...message, threadId: arrived.threadId, automatic: kind }, (tx) => {
        if (!end(tx, "accepted", `Queued as ${message.messageId}`))
          throw new AppError("conflict", "The message is gone");
      });
      parts.onQueued();
      meters?.countAutomatic(kind, "accepted");
    } catch (error) {
      if (!(error instanceof AppError)) throw error;
      const isForNow = ["rate_limited", "upstream_failed", "server_error"].includes(error.code);
      if (!isForNow || runtime.now() - askedAt >= GIVE_UP_MS) return await refuse(`${error.code}: ${error.message}`);
      await store.enqueue((tx) => postponeMail(tx, seq, runtime.now() + RETRY_MS));
    }
  }

  const job: Job = {
    name: "send-automatic-mail",
    async runDue(now) {
      let failure: unknown;
      for (let due = dueMail(store.db, now); due.length > 0; due = dueMail(store.db, now)) {
        for (const request of due) {
          try {
            await send(request);
          } catch (error) {
            // One that fails does not delay the others.
            failure ??= error;
            await store.enqueue((tx) => postponeMail(tx, request.seq, runtime.now() + RETRY_MS));
          }
        }
      }
      // The scheduler logs it, and tries again.
      if (failure !== undefined) throw failure;
      return nextMailDue(store.db);
    },
  };
  store.onCommit(() => {
    const dueAt = nextMailDue(store.db);
    if (dueAt !== null && dueAt <= runtime.now()) parts.wake(job.name);
  });
  return { job };
}

/** What a reply refers to. */
function answeredIn({ messageId, inReplyTo, headers }: Arrived): Parameters<typeof replyHeaders>[0] {
  const named = headers.flatMap(([name, value]) => (name.toLowerCase() === "references" ? value : []));
  return {
    ...(messageId !== null && { messageId }),
    ...(inReplyTo !== null && { inReplyTo }),
    references: referencesOf(named.join(" ")),
  };
}
