/**
 * Accepts messages for sending, from the API and from mail apps alike (rules: Sending pipeline).
 *
 *   guardrails ─► parser: compose, sign, parse ─► one transaction {guardrails again, Sent copy, queue, event, response}
 *                                                   or, by the policy of the key: {guardrails, held copy, event, response}
 *
 * Invariant: a message is accepted whole, in one transaction that has committed, or refused, and then nothing of it is stored.
 */
import { and, asc, desc, eq, isNotNull, sql } from "drizzle-orm";
import type { Caller, Reach } from "../access/caller.ts";
import type { SigningKey } from "../authentication/dkim.ts";
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import { newId, newTimedToken, type Runtime } from "../base/runtime.ts";
import { emitEvent } from "../events/outbox.ts";
import { addJournalEntry } from "../journal/entries.ts";
import { putHold } from "../mailbox/changing/holds.ts";
import { fileMessage } from "../mailbox/filing/filing.ts";
import type { PreparedMessage } from "../mailbox/filing/prepare.ts";
import { dropAppended } from "../mailbox/imap/carrying.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { readMailboxUsage } from "../mailbox/state/mailboxes.ts";
import { type EmailAddress, splitAddress } from "../message/address.ts";
import { formatAddress, headerField } from "../message/compose.ts";
import { type Composition, isComposition } from "../message/composition.ts";
import { listReplyRedirects } from "../message/redirection.ts";
import type { MessageDsn } from "../smtp/dsn.ts";
import { dkimKeys, domains } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";
import { type OutboundContent, type PreparedOutbound, type TopText, UnparseableError } from "../workers/jobs.ts";
import {
  countOutsideRecipients,
  type GuardedMessage,
  requireMailboxSpace,
  requireSendingAllowed,
} from "./guardrails.ts";
import { type HoldReason, judgeOutgoingMessage } from "./judgement.ts";
import { addOutbound, countUnsettledRecipients, type OutboundMessage, type Recipient } from "./queue.ts";
import type { SendCore } from "./send-core.ts";

/** A message to send. The caller has the right to send from `from`; resolveSender has checked that. */
export interface Submission {
  caller: Caller;
  mailbox: Reach["mailbox"];
  /** Address of the From header; normalized. */
  from: string;
  /** Recipients, at least one, each address once. */
  recipients: readonly Recipient[];
  /** Header value with its angle brackets. */
  messageId: string;
  /** The conversation that it belongs to, if known. */
  threadId?: string | undefined;
  /** Addresses that the message names (see Judged), as far as they are known before it is composed. */
  named?: readonly string[];
  /** Least size of the message in bytes, known before it is composed. */
  bytes?: number;
  /** Notifications that the mail app asks for. */
  dsn?: MessageDsn;
  /** The message was judged when it was scheduled. If its key may not do something of it any more, it waits for a person. */
  isDue?: boolean | undefined;
  /** The message is to be sent at this time, epoch ms, and waits for a person until it is approved. */
  heldUntil?: number | undefined;
  /**
   * Makes the message, without Bcc, once the guardrails have passed it. A composition is composed by a parser, and its size is
   * checked against smtp.maxMessageBytes; bytes have lines ended by CRLF.
   */
  compose(): Promise<Composition | Uint8Array>;
}

/** A message that was accepted. */
export interface Sent {
  messageId: string;
  /** Id of the Sent copy. */
  emailId: string;
  threadId: string;
  mailboxId: string;
  from: string;
  /** The message waits for a person. */
  held?: true;
  /** A held message is not sent before, epoch ms. */
  sendAt?: number;
}

/** 85 random bits: nobody guesses a return path, so a report that comes to it is about its message. */
const RETURN_PATH_LENGTH = 26;

/** Makes a unique return path for a message from `domain`. Each destination gets one of its own: see reversePathTo. */
export const newReturnPath = (runtime: Pick<Runtime, "now" | "randomBytes">, domain: string): string =>
  `bounce+${newTimedToken(runtime, RETURN_PATH_LENGTH)}.@${domain}`;

/** Reads the DKIM keys of a verified domain. Mail from a domain that is only claimed is not signed. */
export const signingKeys = prepared((db) =>
  db
    .select({
      domain: domains.name,
      selector: dkimKeys.selector,
      algorithm: dkimKeys.algorithm,
      privateKey: dkimKeys.privateKey,
    })
    .from(dkimKeys)
    .innerJoin(domains, eq(domains.id, dkimKeys.domainId))
    .where(and(eq(domains.name, sql.placeholder("domain")), isNotNull(domains.verifiedAt)))
    // RSA goes on top, since every verifier supports it.
    .orderBy(desc(dkimKeys.algorithm), asc(dkimKeys.selector))
    .prepare(),
);

/**
 * Checks, before a message is composed, that the queue would accept it now; `bytes`: its size. A draft that is sent later is
 * checked too, so that the caller learns of a refusal at once. Resolves with the reason if it would wait for a person.
 * @throws AppError as submitMessage
 */
export async function requireAcceptableForSending(
  core: SendCore,
  submission: Pick<Submission, "caller" | "mailbox" | "from" | "recipients" | "threadId" | "named" | "isDue">,
  bytes: number,
): Promise<HoldReason | undefined> {
  const { db } = core;
  const { caller, mailbox, isDue } = submission;
  const now = core.now();
  const held = judgeOutgoingMessage(db, caller, submission, { now, isDue });
  requireSendingAllowed(core, db, toGuardedMessage(submission), now, { isHeld: held !== undefined });
  if (held === undefined) await requireQueueTakesMail(core, submission);
  requireMailboxSpace(readMailboxUsage(core, mailbox.id), bytes, mailbox.address);
  return held;
}

/** Checks that the queue has room, and that the smarthost takes mail. @throws AppError upstream_failed */
export async function requireQueueTakesMail(
  { db, now, transport, log, largestQueue }: SendCore,
  { recipients }: Pick<Submission, "recipients">,
): Promise<void> {
  if (countUnsettledRecipients(db, now()) + recipients.length > largestQueue) {
    log.error("the outbound queue is full", { recipients: largestQueue });
    throw new AppError("upstream_failed", "The outbound queue is full, so nothing was sent; try again later");
  }
  const refusal = await transport.refusal();
  if (refusal !== undefined) {
    log.error("the smarthost refuses us", { refusal });
    throw new AppError(
      "upstream_failed",
      "The outgoing mail server refuses this server's credentials, so nothing was sent; an admin has to correct them",
    );
  }
}

const toGuardedMessage = ({
  mailbox,
  from,
  recipients,
}: Pick<Submission, "mailbox" | "from" | "recipients">): GuardedMessage => ({
  mailboxId: mailbox.id,
  workspaceId: mailbox.workspaceId,
  from,
  recipients,
});

/**
 * Accepts a message for delivery; resolves once that is durable. `record` writes the caller's response in the accepting
 * transaction; it may run twice, the first time rolled back.
 * @throws AppError unprocessable, locked, rate_limited, upstream_failed, insufficient_storage, payload_too_large;
 * server_error 503. Then nothing was stored.
 */
export async function submitMessage(
  core: SendCore,
  submission: Submission,
  record?: (tx: Tx, sent: Sent) => void,
): Promise<Sent> {
  const { store, log } = core;
  const { caller, mailbox, recipients, threadId, isDue, heldUntil } = submission;
  await requireAcceptableForSending(core, submission, submission.bytes || 1);
  const { message, content } = await store.preparing(() => prepare(core, submission));
  const named = [...[...message.to, ...message.cc].map(({ email }) => email), ...listReplyRedirects(message.headers)];

  const sent = await store.enqueue((tx) => {
    const now = core.now();
    const reason =
      judgeOutgoingMessage(tx, caller, { ...submission, named }, { now, isDue }) ??
      (heldUntil === undefined ? undefined : "It waited for approval when it was scheduled");
    requireSendingAllowed(core, tx, toGuardedMessage(submission), now, { isHeld: reason !== undefined });
    requireMailboxSpace(readMailboxUsage(core, mailbox.id), message.size, mailbox.address);
    const { userId: sentBy, keyId } = caller;
    const copies = { mailboxId: mailbox.id, messageId: message.messageId, sentBy, byKey: keyId !== undefined, now };
    dropAppended(tx, copies);
    const accepted =
      reason === undefined
        ? fileAndQueueMessage(core, tx, { ...submission, sentBy: caller.userId, message, content, now }).sent
        : hold(core, tx, submission, { message, content, reason, now });
    const ids = [accepted.emailId, accepted.threadId];
    const count = recipients.length;
    addJournalEntry(
      tx,
      caller,
      { ids, recipients: count, ...(accepted.held ? { outcome: "held" } : { sent: count }) },
      now,
    );
    record?.(tx, accepted);
    return accepted;
  });
  log.info(sent.held ? "message held for approval" : "message accepted for sending", {
    emailId: sent.emailId,
    recipients: recipients.length,
    size: message.size,
    ...(sent.held && { keyId: caller.keyId, threadId }),
  });
  return sent;
}

/** A message that is accepted, with its bytes. */
export interface AcceptedMessage extends Pick<Submission, "mailbox" | "from" | "recipients" | "messageId" | "dsn"> {
  threadId?: string | undefined;
  /** The user who sends it. */
  sentBy: string;
  message: PreparedMessage;
  content: OutboundContent;
  /** Epoch ms. */
  now: number;
  /** Ids that a held message keeps when it is sent. */
  ids?: { message: string; thread: string };
}

/** Files the Sent copy, puts the message into the queue and announces it. `seq`: messages.seq of the copy. */
export function fileAndQueueMessage(
  core: MailCore,
  tx: Tx,
  { mailbox, from, recipients, messageId, dsn, threadId, sentBy, message, content, now, ids }: AcceptedMessage,
): { sent: Sent; seq: number } {
  const { runtime } = core;
  const { domain } = splitAddress(from);
  const filed = fileMessage(core, tx, {
    kind: "sent",
    mailboxId: mailbox.id,
    receivedOn: from,
    message,
    now,
    sentBy,
    bcc: listBccAddresses(recipients),
    ...(threadId !== undefined && { threadId }),
    ...(ids && { ids }),
  });
  const sent: Sent = { messageId, emailId: filed.messageId, threadId: filed.threadId, mailboxId: mailbox.id, from };
  addOutbound(tx, {
    id: sent.emailId,
    workspaceId: mailbox.workspaceId,
    mailboxId: mailbox.id,
    mailbox: mailbox.address,
    threadId: sent.threadId,
    messageId,
    subject: message.subject,
    domain,
    returnPath: newReturnPath(runtime, domain),
    acceptedAt: now,
    outsideRecipients: countOutsideRecipients(tx, toGuardedMessage({ mailbox, from, recipients })),
    recipients: recipients.map((recipient) => ({ ...recipient, id: newId(runtime, "que") })),
    content,
    ...dsn,
  });
  core.wake("relay");
  emitEvent(tx, {
    id: newId(runtime, "evt"),
    workspaceId: mailbox.workspaceId,
    event: "message.outbound",
    now,
    data: {
      emailId: sent.emailId,
      threadId: sent.threadId,
      messageId,
      mailbox: mailbox.address,
      from: message.from ?? { email: from },
      to: message.to,
      subject: message.subject,
    },
  });
  return { sent, seq: filed.seq };
}

/** Keeps a message of a key until a person decides. */
function hold(
  core: MailCore,
  tx: Tx,
  { caller, mailbox, from, recipients, messageId, dsn = {}, threadId, heldUntil }: Submission,
  {
    message,
    content,
    reason,
    now,
  }: { message: PreparedMessage; content: OutboundContent; reason: string; now: number },
): Sent {
  const { userId, keyId } = caller;
  if (keyId === undefined) throw new Error("a message without a key was held");
  const filed = fileMessage(core, tx, {
    kind: "draft",
    held: true,
    mailboxId: mailbox.id,
    receivedOn: from,
    message,
    now,
    sentBy: userId,
    bcc: listBccAddresses(recipients),
  });
  const emailId = filed.messageId;
  putHold(tx, {
    seq: filed.seq,
    emailId,
    mailboxId: mailbox.id,
    keyId,
    userId,
    reason,
    since: now,
    sendAt: heldUntil ?? null,
    answers: threadId ?? null,
    recipients: [...recipients],
    dsn,
    content,
  });
  const hold = { emailId, threadId: threadId ?? filed.threadId, mailboxId: mailbox.id };
  emitEvent(tx, {
    id: newId(core.runtime, "evt"),
    workspaceId: mailbox.workspaceId,
    event: "message.held",
    now,
    data: { ...hold, mailbox: mailbox.address, keyId, reason },
  });
  return { ...hold, messageId, from, held: true, ...(heldUntil !== undefined && { sendAt: heldUntil }) };
}

/** A message that the server writes for a mailbox by itself. */
export interface AutomaticMessage extends Pick<Submission, "mailbox" | "from" | "recipients" | "messageId"> {
  automatic: NonNullable<OutboundMessage["automatic"]>;
  /** The conversation of the message that it is about. */
  threadId: string;
  composition: Composition;
}

/**
 * Accepts a message that the server writes for a mailbox, without Sent copy and event. `record` writes in the accepting
 * transaction. @throws AppError as submitMessage, and what `record` throws
 */
export async function submitAutomatic(
  core: SendCore,
  { composition, ...message }: AutomaticMessage,
  record: (tx: Tx) => void,
): Promise<void> {
  const { store, runtime, log } = core;
  const { mailbox, from, recipients, messageId, automatic, threadId } = message;
  const guarded = toGuardedMessage(message);
  requireSendingAllowed(core, store.db, guarded, runtime.now());
  await requireQueueTakesMail(core, message);
  const { message: composed, content } = await store.preparing(() =>
    prepare(core, { ...message, compose: async () => composition }),
  );
  const { domain } = splitAddress(from);
  const id = newId(runtime, "msg");
  await store.enqueue((tx) => {
    const now = runtime.now();
    requireSendingAllowed(core, tx, guarded, now);
    addOutbound(tx, {
      id,
      workspaceId: mailbox.workspaceId,
      mailboxId: mailbox.id,
      mailbox: mailbox.address,
      threadId,
      messageId,
      subject: composed.subject,
      domain,
      returnPath: newReturnPath(runtime, domain),
      acceptedAt: now,
      outsideRecipients: countOutsideRecipients(tx, guarded),
      recipients: recipients.map((recipient) => ({ ...recipient, id: newId(runtime, "que") })),
      content,
      automatic,
    });
    core.wake("relay");
    record(tx);
  });
  log.info("automatic mail accepted for sending", { emailId: id, automatic, size: composed.size });
}

/** The Bcc field that the author of a message sees above it. */
export function writeBccLine(recipients: readonly Recipient[]): TopText | undefined {
  const bcc = listBccAddresses(recipients);
  if (bcc.length === 0) return undefined;
  return { lines: `${headerField("Bcc", bcc.map(formatAddress).join(", "))}\r\n`, isBcc: true };
}

const listBccAddresses = (recipients: readonly Recipient[]): EmailAddress[] =>
  recipients.filter(({ field }) => field === "bcc").map(toEmailAddress);

const toEmailAddress = ({ email, name }: EmailAddress): EmailAddress =>
  name === undefined ? { email } : { email, name };

/** @throws AppError payload_too_large, unprocessable, server_error 503 */
async function prepare(
  { db, now, parser, options, log }: SendCore,
  submission: Pick<Submission, "mailbox" | "from" | "recipients" | "compose">,
): Promise<PreparedOutbound> {
  const { domain } = splitAddress(submission.from);
  const keys: SigningKey[] = signingKeys(db).all({ domain });
  if (keys.length === 0) log.warn("message leaves unsigned: its domain has no DKIM key", { domain });
  try {
    const source = await submission.compose();
    const top = writeBccLine(submission.recipients);
    const prepared = await parser.prepareOutbound(submission.mailbox.id, source, { keys, signedAt: now() }, top);
    if (isComposition(source)) requireMessageSize(prepared.message, options.get("smtp.maxMessageBytes"));
    return prepared;
  } catch (error) {
    throw asUnparseableRefusal(error, log);
  }
}

/** @throws AppError payload_too_large */
export function requireMessageSize({ size }: Pick<PreparedMessage, "size">, most: number): void {
  if (size <= most) return;
  throw new AppError("payload_too_large", `The message is ${size} bytes; at most ${most} are allowed`);
}

/** Returns the refusal of a message that no parser can process; any other error unchanged. */
export function asUnparseableRefusal(error: unknown, log: Log): unknown {
  if (!(error instanceof UnparseableError)) return error;
  log.error("message to be sent cannot be processed", { error });
  return new AppError("unprocessable", "The message cannot be processed, so nothing was done", { cause: error });
}
