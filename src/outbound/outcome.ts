/**
 * Turns results of an attempt, or a report that came later, into outcomes of recipients, and records and announces them
 * (rules: Delivery, Failure, Bcc).
 *
 *   accepted             deliveredAt and message.delivered
 *   deferred             the next attempt, on the schedule of smtp.retrySeconds; after its end, as refused
 *   refused              a notice in the sender's conversation and message.bounced; when the address is at fault, it is
 *                        suppressed
 *
 * Invariants: all of it happens in one transaction. A Bcc recipient is named by no event and no notice. A notice that
 * cannot be made or filed does not keep the rest from being recorded. Of what the server itself wrote (notices.ts) the
 * queue alone keeps the outcome: no event, no notice and no suppression comes of it.
 */
import { eq, sql } from "drizzle-orm";
import type { Log } from "../base/log.ts";
import { newId, type Runtime, randomToken } from "../base/runtime.ts";
import { emit } from "../events/outbox.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { type PreparedMessage, prepareMessage } from "../mailbox/prepare.ts";
import type { EmailAddress } from "../message/address.ts";
import type { DeliveryResult } from "../smtp/delivery-result.ts";
import { messageBodies, messages, threads } from "../store/schema.ts";
import type { Options } from "../store/settings.ts";
import { prepared } from "../store/statement.ts";
import type { Store, Tx } from "../store/store.ts";
import { bccDetector } from "./bcc.ts";
import { composeBounce, durationOf, type Failure } from "./bounce.ts";
import type { Claim } from "./claims.ts";
import { entriesOf } from "./outbound.ts";
import { type OutboundMessage, type QueueEntry, setBounced, setDeferred, setDelivered } from "./queue.ts";
import { suppress } from "./suppression.ts";

/** A report says that the message did not reach this recipient, although a server had accepted it. */
export interface LateFailure {
  entry: QueueEntry;
  hard: boolean;
  /** The words of the report, on one line. */
  reply: string;
  /** RFC 3463. */
  status?: string | undefined;
}

export interface Outcomes {
  /**
   * Prepares the notice, if there is to be one. `results`: one an entry, in order. Resolves with a function that records
   * everything in a transaction; it may run twice, the first time rolled back. Does not reject when no notice can be made.
   */
  resolve(claim: Claim, results: readonly DeliveryResult[]): Promise<(tx: Tx) => void>;
  /** The same for failures in a report. Recipients that have bounced meanwhile are not announced again. */
  bounceLater(message: OutboundMessage, failures: readonly LateFailure[]): Promise<(tx: Tx) => void>;
}

export interface OutcomeParts {
  store: Pick<Store, "db" | "blobs">;
  mailbox: Pick<Mailbox, "file" | "markDelivered">;
  options: Pick<Options, "get">;
  runtime: Pick<Runtime, "now" | "randomBytes">;
  /** Ours. */
  hostname: string;
  log: Log;
}

/** RFC 3463 X.4.7: it took too long. */
const EXPIRED = "4.4.7";
const NO_STATUS = "5.0.0";

/** The outcome of an entry. `reply` is kept with it. */
type EntryOutcome =
  | { kind: "delivered"; entry: QueueEntry; reply: string; host: string | undefined }
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
}));

export function createOutcomes({ store, mailbox, options, runtime, hostname, log }: OutcomeParts): Outcomes {
  /** The Bcc detector of a message; its recipients are read at the first use. */
  function namesBccOf(message: OutboundMessage): (words: string) => boolean {
    let namesBcc: ((words: string) => boolean) | undefined;
    return (words) => {
      namesBcc ??= bccDetector(entriesOf(store.db, message.seq), message.domain);
      return namesBcc(words);
    };
  }

  async function resolve({ message, entries }: Claim, results: readonly DeliveryResult[]): Promise<(tx: Tx) => void> {
    const now = runtime.now();
    const terms = { now, retrySeconds: options.get("smtp.retrySeconds"), namesBcc: namesBccOf(message) };
    const outcomes = entries.map((entry, i) => {
      const result = results[i];
      if (result === undefined) throw new Error(`no result for queue entry ${entry.id}`);
      return outcomeOf(message, entry, result, terms);
    });
    const bounced = outcomes.filter((outcome) => outcome.kind === "bounced");
    const notice = await prepareNotice(message, bounced, now);
    return (tx) => {
      recordDelivered(
        tx,
        message,
        outcomes.filter((outcome) => outcome.kind === "delivered"),
        now,
      );
      for (const outcome of outcomes)
        if (outcome.kind === "deferred") setDeferred(tx, outcome.entry, outcome.dueAt, outcome.reply);
      recordBounced(tx, message, bounced, notice, now);
    };
  }

  async function bounceLater(message: OutboundMessage, failures: readonly LateFailure[]): Promise<(tx: Tx) => void> {
    const now = runtime.now();
    const namesBcc = namesBccOf(message);
    const bounced = failures.map(({ entry, hard, reply, status = NO_STATUS }): Bounced => {
      const tried = "A server had accepted the message; that it failed was reported later.";
      const detail = namesBcc(reply) ? withheld(status) : reply;
      return { kind: "bounced", entry, reply, failure: { entry, hard, detail, status, tried } };
    });
    const notice = await prepareNotice(message, bounced, now);
    return (tx) => {
      const state = new Map(entriesOf(tx, message.seq).map((entry) => [entry.seq, entry.state]));
      const fresh = bounced.filter(({ entry }) => state.get(entry.seq) === "delivered");
      recordBounced(tx, message, fresh, notice, now);
    };
  }

  /** @param delivered accepted by one server */
  function recordDelivered(tx: Tx, message: OutboundMessage, delivered: readonly Delivered[], now: number): void {
    const byReply = Map.groupBy(delivered, ({ reply }) => reply);
    for (const [reply, outcomes] of byReply) {
      setDelivered(
        tx,
        outcomes.map(({ entry }) => entry),
        now,
        reply,
        outcomes[0]?.host,
      );
    }
    const to = delivered.filter(({ entry }) => entry.field !== "bcc").map(({ entry }) => addressOf(entry));
    if (to.length === 0 || message.notice) return;
    mailbox.markDelivered(tx, message.id, now);
    const { workspaceId, subject } = message;
    const data = { ...namesOf(message), to, subject, deliveredAt: new Date(now).toISOString() };
    emit(tx, { id: newId(runtime, "evt"), workspaceId, event: "message.delivered", data, now });
  }

  function recordBounced(
    tx: Tx,
    message: OutboundMessage,
    bounced: readonly Bounced[],
    notice: PreparedMessage | undefined,
    now: number,
  ): void {
    const { workspaceId } = message;
    for (const { entry, reply, failure } of bounced) {
      const { hard, detail } = failure;
      setBounced(tx, entry, now, reply);
      if (message.notice) continue;
      if (entry.field !== "bcc") {
        const data = { ...namesOf(message), recipient: entry.recipient, hard, detail };
        emit(tx, { id: newId(runtime, "evt"), workspaceId, event: "message.bounced", data, now });
      }
      if (hard) {
        const suppression = { workspaceId, address: entry.recipient, reason: "hard bounce", now };
        suppress(tx, { id: newId(runtime, "sup"), ...suppression });
      }
    }
    if (bounced.length > 0 && notice !== undefined) fileNotice(tx, message, notice, now);
  }

  /** Undefined when nothing bounced, or the conversation is gone. */
  async function prepareNotice(
    message: OutboundMessage,
    bounced: readonly Bounced[],
    now: number,
  ): Promise<PreparedMessage | undefined> {
    if (bounced.length === 0) return undefined;
    if (message.notice) {
      log.error("a notice of the server did not arrive", { subject: message.subject, recipients: bounced.length });
      return undefined;
    }
    const failures = bounced.map(({ failure }) => failure);
    try {
      const sent = statements(store.db).sentCopy.get({ id: message.id });
      if (sent === undefined) {
        logUntold(message);
        return undefined;
      }
      const id = randomToken(runtime, 24);
      const bytes = composeBounce({ id, message, failures, headers: sent.headers, hostname, now });
      return await prepareMessage(bytes, store.blobs);
    } catch (error) {
      log.error("bounce notice cannot be made", { emailId: message.id, error });
      return undefined;
    }
  }

  function fileNotice(tx: Tx, message: OutboundMessage, notice: PreparedMessage, now: number): void {
    const sent = statements(tx).sentCopy.get({ id: message.id });
    if (sent === undefined) {
      logUntold(message);
    } else {
      const { mailboxId, threadId } = sent;
      mailbox.file(tx, { mailboxId, threadId, kind: "notice", receivedOn: message.mailbox, message: notice, now });
    }
  }

  function logUntold(message: OutboundMessage): void {
    log.warn("no bounce notice: the conversation is gone", { emailId: message.id, mailboxId: message.mailboxId });
  }

  return { resolve, bounceLater };
}

function outcomeOf(
  message: OutboundMessage,
  entry: QueueEntry,
  { kind, reply, hard, code, status, remote }: DeliveryResult,
  {
    now,
    retrySeconds,
    namesBcc,
  }: { now: number; retrySeconds: readonly number[]; namesBcc: (words: string) => boolean },
): EntryOutcome {
  if (kind === "accepted") return { kind: "delivered", entry, reply, host: remote };
  // entry.attempts is without this one.
  const wait = kind === "deferred" ? retrySeconds[entry.attempts] : undefined;
  if (wait !== undefined) return { kind: "deferred", entry, reply, dueAt: now + Math.round(wait * 1_000) };

  const attempts = entry.attempts + 1;
  const duration = durationOf(now - message.acceptedAt);
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

/** Shown in place of a text that is withheld: its codes. */
const withheld = (...codes: (string | number | undefined)[]): string =>
  [...codes.filter((code) => code !== undefined), "(text not shown)"].join(" ");

const addressOf = ({ recipient, name }: QueueEntry): EmailAddress =>
  name === null ? { email: recipient } : { email: recipient, name };

/** What names a message in its events. */
export const namesOf = ({ id, threadId, messageId, mailbox }: OutboundMessage) => ({
  emailId: id,
  threadId,
  messageId,
  mailbox,
});
