/**
 * Turns the results of an attempt, or a report that came later, into outcomes of recipients, and records and announces them
 * (rules: Delivery, Failure, Bcc).
 *
 *   accepted             deliveredAt and message.delivered; a notice if the mail app asked for one (RFC 3461), and the server
 *                        that accepted does not send it
 *   deferred             the next attempt, on the schedule of smtp.retrySeconds; after its end, as refused
 *   refused              a notice in the sender's conversation, unless the mail app wanted none, and message.bounced; when
 *                        the address is at fault, it is suppressed
 *
 * Invariants: one transaction records everything. No event and no notice names a Bcc recipient. When a notice cannot be made or
 * filed, the rest is recorded all the same. For mail that the server itself wrote (notices.ts) only the queue keeps the
 * outcome, without event, notice or suppression. Mail that it wrote for a mailbox (compose/send-automatic.ts) has no events.
 */
import { eq, sql } from "drizzle-orm";
import type { Log } from "../base/log.ts";
import { newId, randomToken } from "../base/runtime.ts";
import { toIsoTime } from "../base/time.ts";
import { emitEvent } from "../events/outbox.ts";
import { fileMessage } from "../mailbox/filing/filing.ts";
import { type PreparedMessage, prepareMessage } from "../mailbox/filing/prepare.ts";
import { markDelivered } from "../mailbox/reading/messages.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import type { EmailAddress } from "../message/address.ts";
import { composeNotice, foldHeaderField, formatAddress, type NoticeRecipient } from "../message/compose.ts";
import { dateHeader } from "../message/date.ts";
import type { DeliveryResult } from "../smtp/delivery-result.ts";
import { decodeXtext, isDsnWanted } from "../smtp/dsn.ts";
import type { Core } from "../store/core.ts";
import { messageBodies, messages, threads } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, Tx } from "../store/store.ts";
import { bccDetector } from "./bcc.ts";
import type { Claim } from "./claims.ts";
import { forgetKnownRecipient, noteKnownRecipients } from "./known-recipients.ts";
import {
  findOutboundContent,
  listQueueEntries,
  type OutboundMessage,
  type QueueEntry,
  setEntriesDelivered,
  setEntryBounced,
  setEntryDeferred,
} from "./queue.ts";
import { suppress } from "./suppression.ts";

/** A failure that a report names: the message did not reach this recipient, although a server had accepted it. */
export interface LateFailure {
  entry: QueueEntry;
  hard: boolean;
  /** The words of the report, on one line. */
  reply: string;
  /** RFC 3463. */
  status?: string | undefined;
}

/** RFC 3463 X.4.7: it took too long. */
const EXPIRED = "4.4.7";
const NO_STATUS = "5.0.0";
/** RFC 3463 X.0.0. */
const SUCCESS = "2.0.0";
/** A larger message is returned as its header (RFC 3461 §4.3). */
const MOST_RETURNED_BYTES = 64 * 1024;

/** A recipient that the message failed to reach, for good. */
interface Failure {
  entry: QueueEntry;
  /** The address is at fault, and will be suppressed. */
  hard: boolean;
  /** The reason on one line, for people: the server's reply, without words that may not be shown. */
  detail: string;
  /** RFC 3463. */
  status: string;
  /** The host that refused. */
  remote?: string | undefined;
  /** A sentence about the attempts. */
  tried: string;
}

/** The outcome of an entry. `reply` is kept with it. */
type EntryOutcome =
  | { kind: "delivered"; entry: QueueEntry; reply: string; host: string | undefined; reports: boolean }
  | { kind: "deferred"; entry: QueueEntry; reply: string; dueAt: number }
  | { kind: "bounced"; entry: QueueEntry; reply: string; failure: Failure };
type Delivered = Extract<EntryOutcome, { kind: "delivered" }>;
type Bounced = Extract<EntryOutcome, { kind: "bounced" }>;

const statements = prepared((db) => ({
  /** The Sent copy, while it is there. */
  sentCopy: db
    .select({ mailboxId: messages.mailboxId, threadId: threads.id, headers: messageBodies.headers })
    .from(messages)
    .innerJoin(threads, eq(threads.seq, messages.threadSeq))
    .innerJoin(messageBodies, eq(messageBodies.messageSeq, messages.seq))
    .where(eq(messages.id, sql.placeholder("id")))
    .prepare(),
  thread: db
    .select({ mailboxId: threads.mailboxId })
    .from(threads)
    .where(eq(threads.id, sql.placeholder("id")))
    .prepare(),
}));

type BccDetector = ReturnType<typeof bccDetector>;

/** Makes the Bcc detector of a message; it reads the message's recipients at the first use. */
function createLazyBccDetector(db: Db, message: OutboundMessage): BccDetector {
  let namesBcc: BccDetector | undefined;
  return (words) => {
    namesBcc ??= bccDetector(listQueueEntries(db, message.seq), message.domain);
    return namesBcc(words);
  };
}

/**
 * Concludes the outcomes of an attempt, and prepares the notice to the sender when recipients failed. `results`: one for each
 * entry, in order. Resolves with a function that records everything in a transaction; it may run twice, the first time rolled
 * back. Does not reject when no notice can be made.
 */
export async function concludeAttempt(
  core: MailCore,
  { message, entries }: Claim,
  results: readonly DeliveryResult[],
): Promise<(tx: Tx) => void> {
  const now = core.now();
  const retrySeconds = core.options.get("smtp.retrySeconds");
  const terms = { now, retrySeconds, namesBcc: createLazyBccDetector(core.db, message) };
  const outcomes = entries.map((entry, i) => {
    const result = results[i];
    if (result === undefined) throw new Error(`no result for queue entry ${entry.id}`);
    return decideEntryOutcome(message, entry, result, terms);
  });
  const delivered = outcomes.filter((outcome) => outcome.kind === "delivered");
  const deferred = outcomes.filter((outcome) => outcome.kind === "deferred");
  const bounced = outcomes.filter((outcome) => outcome.kind === "bounced");
  const notices = await Promise.all([
    prepareNotice(core, message, successNotice(core, message, delivered, terms.namesBcc), now),
    prepareNotice(core, message, failureNotice(core, message, bounced, terms.namesBcc), now),
  ]);
  return (tx) => {
    recordDelivered(core, tx, message, delivered, now);
    for (const { entry, dueAt, reply } of deferred) setEntryDeferred(tx, entry, dueAt, reply);
    recordBounced(core, tx, message, bounced, now);
    for (const notice of notices) if (notice !== undefined) fileNotice(core, tx, message, notice, now);
  };
}

/** Does the same for failures that a report names. Recipients that have bounced meanwhile are not announced again. */
export async function concludeLateBounces(
  core: MailCore,
  message: OutboundMessage,
  failures: readonly LateFailure[],
): Promise<(tx: Tx) => void> {
  const now = core.now();
  const namesBcc = createLazyBccDetector(core.db, message);
  const bounced = failures.map(({ entry, hard, reply, status = NO_STATUS }): Bounced => {
    const tried = "A server had accepted the message; that it failed was reported later.";
    const detail = namesBcc(reply) ? withheld(status) : reply;
    return { kind: "bounced", entry, reply, failure: { entry, hard, detail, status, tried } };
  });
  const notice = await prepareNotice(core, message, failureNotice(core, message, bounced, namesBcc), now);
  return (tx) => {
    const state = new Map(listQueueEntries(tx, message.seq).map((entry) => [entry.seq, entry.state]));
    const fresh = bounced.filter(({ entry }) => state.get(entry.seq) === "delivered");
    recordBounced(core, tx, message, fresh, now);
    for (const { entry } of fresh) forgetKnownRecipient(tx, message.mailboxId, entry.recipient);
    if (fresh.length > 0 && notice !== undefined) fileNotice(core, tx, message, notice, now);
  };
}

/** Records recipients that one server accepted. */
function recordDelivered(
  { runtime }: Core,
  tx: Tx,
  message: OutboundMessage,
  delivered: readonly Delivered[],
  now: number,
): void {
  const byReply = Map.groupBy(delivered, ({ reply }) => reply);
  for (const [reply, outcomes] of byReply) {
    const entries = outcomes.map(({ entry }) => entry);
    setEntriesDelivered(tx, entries, now, reply, outcomes[0]?.host);
  }
  const to = delivered.filter(({ entry }) => entry.field !== "bcc").map(({ entry }) => queueEntryAddress(entry));
  if (to.length === 0 || message.notice || message.automatic !== null) return;
  markDelivered(tx, message.id, now);
  noteKnownRecipients(
    tx,
    message.mailboxId,
    to.map(({ email }) => email),
  );
  const { workspaceId, subject } = message;
  const data = { ...messageEventFields(message), to, subject, deliveredAt: toIsoTime(now) };
  emitEvent(tx, { id: newId(runtime, "evt"), workspaceId, event: "message.delivered", data, now });
}

function recordBounced(
  { runtime }: Core,
  tx: Tx,
  message: OutboundMessage,
  bounced: readonly Bounced[],
  now: number,
): void {
  const { workspaceId } = message;
  for (const { entry, reply, failure } of bounced) {
    const { hard, detail } = failure;
    setEntryBounced(tx, entry, now, reply);
    if (message.notice) continue;
    if (entry.field !== "bcc" && message.automatic === null) {
      const data = { ...messageEventFields(message), recipient: entry.recipient, hard, detail };
      emitEvent(tx, { id: newId(runtime, "evt"), workspaceId, event: "message.bounced", data, now });
    }
    if (hard) {
      const suppression = { workspaceId, address: entry.recipient, reason: "hard bounce", now };
      suppress(tx, { id: newId(runtime, "sup"), ...suppression });
    }
  }
}

/** A notice to the sender of a message. */
interface Notice {
  /** Goes before the subject of the message. */
  title: string;
  /** The text for people. */
  text: string;
  recipients: NoticeRecipient[];
  /** The message, to return it whole. */
  original?: Uint8Array;
}

/** Returns undefined when nobody has to be told of a failure. */
function failureNotice(
  { db, site: { hostname }, log }: Core,
  message: OutboundMessage,
  bounced: readonly Bounced[],
  namesBcc: BccDetector,
): Notice | undefined {
  if (message.notice && bounced.length > 0) {
    log.error("a notice of the server did not arrive", { subject: message.subject, recipients: bounced.length });
    return undefined;
  }
  // Nobody waits for a reply that nobody wrote.
  if (message.automatic === "absence") return undefined;
  const failures = bounced.filter(({ entry }) => isDsnWanted(entry, "FAILURE")).map(({ failure }) => failure);
  if (failures.length === 0) return undefined;
  const content = message.ret === "FULL" ? findOutboundContent(db, message.seq) : undefined;
  const original = content && "bytes" in content ? content.bytes : undefined;
  return {
    title: "Not delivered",
    text: writeFailureText(message, failures, hostname),
    recipients: failures.map((failure) => ({
      ...toNoticeRecipient(failure),
      ...pickOriginalRecipient(failure.entry, namesBcc),
    })),
    ...(original && original.byteLength <= MOST_RETURNED_BYTES && { original }),
  };
}

/** Returns undefined when nobody has to be told of a success, or other servers tell it. */
function successNotice(
  { site: { hostname } }: Core,
  message: OutboundMessage,
  delivered: readonly Delivered[],
  namesBcc: BccDetector,
): Notice | undefined {
  const notified = delivered.filter(({ entry, reports }) => isDsnWanted(entry, "SUCCESS") && !reports);
  if (notified.length === 0) return undefined;
  const isShown = ({ entry }: Delivered) => entry.field !== "bcc";
  const hidden = notified.filter((outcome) => !isShown(outcome)).length;
  return {
    title: "Delivered",
    text: [
      `${sentOn(message)} has arrived for:`,
      ...notified.filter(isShown).map(({ entry: { recipient, name }, host }) => {
        const where = host === undefined ? "in the mailbox, on this server" : "at a server that tells no more";
        return `${formatName(recipient, name)}\n    ${where}`;
      }),
      ...(hidden === 0 ? [] : [bccRecipients(hidden)]),
      `This notice was written by the mail server ${hostname}.`,
    ].join("\n\n"),
    recipients: notified.map((outcome) => {
      const { entry, host } = outcome;
      const status = { action: host === undefined ? "delivered" : "relayed", status: SUCCESS } as const;
      if (!isShown(outcome)) return status;
      const remoteMta = host === undefined || namesBcc(host) ? {} : { remoteMta: host };
      return { recipient: entry.recipient, ...status, ...remoteMta, ...pickOriginalRecipient(entry, namesBcc) };
    }),
  };
}

/** Returns the address as the mail app gave it, unless that would name a Bcc recipient. */
function pickOriginalRecipient({ field, orcpt }: QueueEntry, namesBcc: BccDetector): { original?: string } {
  if (orcpt === null || field === "bcc") return {};
  const original = decodeXtext(orcpt);
  return namesBcc(original) ? {} : { original };
}

/** Returns undefined without a notice, and when the conversation is gone. */
async function prepareNotice(
  { db, blobs, runtime, site: { hostname }, log }: Core,
  message: OutboundMessage,
  notice: Notice | undefined,
  now: number,
): Promise<PreparedMessage | undefined> {
  if (notice === undefined) return undefined;
  try {
    const sent = findNoticeThread(db, message);
    if (sent === undefined) {
      logUntold(log, message);
      return undefined;
    }
    const id = randomToken(runtime, 24);
    const envid = message.envid === null ? undefined : decodeXtext(message.envid);
    const envelopeId = envid !== undefined && !createLazyBccDetector(db, message)(envid) ? { envelopeId: envid } : {};
    const bytes = compose({ id, message, notice, headers: sent.headers, hostname, now, ...envelopeId });
    return await prepareMessage(bytes, { write: blobs.keep });
  } catch (error) {
    log.error("a notice to the sender cannot be made", { emailId: message.id, error });
    return undefined;
  }
}

function fileNotice(core: MailCore, tx: Tx, message: OutboundMessage, notice: PreparedMessage, now: number): void {
  const sent = findNoticeThread(tx, message);
  if (sent === undefined) {
    logUntold(core.log, message);
  } else {
    const { mailboxId, threadId } = sent;
    fileMessage(core, tx, { mailboxId, threadId, kind: "notice", receivedOn: message.mailbox, message: notice, now });
  }
}

/** The conversation for notices about a message, and its header: that of the Sent copy, or of what was forwarded. */
function findNoticeThread(db: Db, { id, automatic, threadId, messageId, subject }: OutboundMessage) {
  if (automatic === null) return statements(db).sentCopy.get({ id });
  const thread = statements(db).thread.get({ id: threadId });
  const headers: [string, string][] = [
    ["Subject", subject],
    ["Message-ID", messageId],
  ];
  return thread && { ...thread, threadId, headers };
}

function logUntold(log: Log, message: OutboundMessage): void {
  log.warn("no bounce notice: the conversation is gone", { emailId: message.id, mailboxId: message.mailboxId });
}

function decideEntryOutcome(
  message: OutboundMessage,
  entry: QueueEntry,
  { kind, reply, hard, code, status, remote, reports = false }: DeliveryResult,
  { now, retrySeconds, namesBcc }: { now: number; retrySeconds: readonly number[]; namesBcc: BccDetector },
): EntryOutcome {
  if (kind === "accepted") return { kind: "delivered", entry, reply, host: remote, reports };
  // entry.attempts does not include this attempt.
  const wait = kind === "deferred" ? retrySeconds[entry.attempts] : undefined;
  if (wait !== undefined) return { kind: "deferred", entry, reply, dueAt: now + Math.round(wait * 1_000) };

  const attempts = entry.attempts + 1;
  const duration = formatDuration(now - message.acceptedAt);
  const shown = namesBcc(reply) ? withheld(code, status) : reply;
  const host = remote === undefined || namesBcc(remote) ? undefined : remote;
  if (kind === "deferred") {
    const gaveUp = `gave up after ${attempts} ${attempts === 1 ? "attempt" : "attempts"} over ${duration}; last reply: `;
    const tried = "It was put off at every attempt.";
    const failure = { entry, hard: false, detail: gaveUp + shown, status: EXPIRED, remote: host, tried };
    return { kind: "bounced", entry, reply: gaveUp + reply, failure };
  }
  const when = attempts === 1 ? "at the first attempt" : `at attempt ${attempts}, ${duration} after it was sent`;
  const tried = `${host === undefined ? "It was refused" : `${host} refused it`} ${when}.`;
  return {
    kind: "bounced",
    entry,
    reply,
    failure: { entry, hard, detail: shown, status: status ?? NO_STATUS, remote: host, tried },
  };
}

/** Makes the text that stands for a withheld reply: its codes. */
const withheld = (...codes: (string | number | undefined)[]): string =>
  [...codes.filter((code) => code !== undefined), "(text not shown)"].join(" ");

const queueEntryAddress = ({ recipient, name }: QueueEntry): EmailAddress =>
  name === null ? { email: recipient } : { email: recipient, name };

/** Returns the fields that identify a message in its events. */
export const messageEventFields = ({ id, threadId, messageId, mailbox }: OutboundMessage) => ({
  emailId: id,
  threadId,
  messageId,
  mailbox,
});

/**
 * Writes a notice to the sender: one delivery status notification (RFC 3464) for all recipients with the same outcome, to be
 * filed in the conversation of the message. It names a Bcc recipient only as "a Bcc recipient", without address, host or reply
 * (rules: Bcc): the app shows the sender each outcome beside its address.
 */
function compose({
  id,
  message,
  notice: { title, text, recipients, original },
  headers,
  hostname,
  now,
  envelopeId,
}: {
  /** Names the notice; cannot be guessed. */
  id: string;
  message: OutboundMessage;
  notice: Notice;
  /** Header of the message, without Bcc: [name, value] in order. */
  headers: readonly (readonly [name: string, value: string])[];
  /** Our host name. */
  hostname: string;
  /** Epoch ms. */
  now: number;
  /** The sender's name for the message. */
  envelopeId?: string;
}): Uint8Array {
  return composeNotice({
    id,
    headers: [
      ["From", formatAddress({ email: `postmaster@${message.domain}`, name: "Mail Delivery System" })],
      ["To", message.mailbox],
      ["Subject", `${title}: ${message.subject}`],
      ["Date", dateHeader(now)],
      ["Message-ID", `<${id}@${message.domain}>`],
      ["In-Reply-To", message.messageId],
      ["References", message.messageId],
      ["Auto-Submitted", "auto-replied"],
    ],
    text,
    reportingMta: hostname,
    arrivalDate: message.acceptedAt,
    ...(envelopeId !== undefined && { envelopeId }),
    recipients,
    ...(original && { original }),
    originalHeaders: headers.map(([name, value]) => `${foldHeaderField(`${name}: ${value}`)}\r\n`).join(""),
  });
}

function toNoticeRecipient({ entry, status, remote, detail }: Failure): NoticeRecipient {
  if (entry.field === "bcc") return { action: "failed", status: "5.0.0" };
  return {
    recipient: entry.recipient,
    action: "failed",
    status,
    diagnostic: detail,
    ...(remote === undefined ? {} : { remoteMta: remote }),
  };
}

/** Names a message, as the beginning of a sentence. */
function sentOn({ subject, acceptedAt }: OutboundMessage): string {
  const named = subject === "" ? "Your message" : `Your message "${subject}"`;
  const sentAt = toIsoTime(acceptedAt).slice(0, 16).replace("T", " ");
  return `${named}, sent on ${sentAt} UTC,`;
}

const bccRecipients = (count: number): string => (count === 1 ? "a Bcc recipient" : `${count} Bcc recipients`);

function writeFailureText(message: OutboundMessage, failures: readonly Failure[], hostname: string): string {
  const shown = failures.filter(({ entry }) => entry.field !== "bcc");
  const hidden = failures.length - shown.length;
  return [
    `${sentOn(message)} did not reach:`,
    ...shown.map(({ entry: { recipient, name }, detail, tried, hard }) =>
      [formatName(recipient, name), `    ${detail}`, `    ${tried} ${hard ? SUPPRESSED : NOT_TRIED_AGAIN}`].join("\n"),
    ),
    ...(hidden === 0 ? [] : [`${bccRecipients(hidden)}\n    It is not tried again.`]),
    `This notice was written by the mail server ${hostname}. The message itself is kept in this conversation.`,
  ].join("\n\n");
}

const formatName = (recipient: string, name: string | null): string =>
  name === null ? recipient : `${name} <${recipient}>`;

const SUPPRESSED =
  "The address itself is at fault, so it is now suppressed: nothing more is sent to it until an administrator takes it off the suppression list.";
const NOT_TRIED_AGAIN = "It is not tried again; you can send the message once more.";

/** Writes a duration such as `32 hours`: rounded, in the largest unit of which there are two. `ms`: milliseconds. */
function formatDuration(ms: number): string {
  const [unit, size] = UNITS.find(([, size]) => ms >= 2 * size) ?? (["second", 1_000] as const);
  const count = Math.round(ms / size);
  return `${count} ${unit}${count === 1 ? "" : "s"}`;
}

const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
] as const;
