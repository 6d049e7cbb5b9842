/**
 * Reports that come back about mail we sent: delivery status notifications and feedback reports (rules: Reports).
 *
 *   a report ─► the outbound message: by its return path, else by the Message-ID of what is returned
 *            ─► the recipients it names ─► failed: as bounced later (outcome.ts)   complained: told, and suppressed
 *
 * Invariants: a report counts once, and only for recipients of that message for whom another server accepted it. It counts only
 * if it came to the message's own return path, or is authenticated as from the recipient's domain or the host that accepted the
 * message, since many people know a Message-ID. Any other report changes nothing and is filed like other mail. A report that
 * may name a Bcc recipient is not filed.
 */
import { newId } from "../base/runtime.ts";
import { emitEvent } from "../events/outbox.ts";
import type { PreparedMessage } from "../mailbox/filing/prepare.ts";
import { localDomain } from "../mailbox/state/addresses.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { normalizeAddress } from "../message/address.ts";
import { unpackText } from "../message/reading.ts";
import { type DeliveryReport, type FeedbackReport, MOST_REPORTED } from "../message/report.ts";
import { bccDetector } from "../outbound/bcc.ts";
import { concludeLateBounces, type LateFailure, messageEventFields } from "../outbound/outcome.ts";
import {
  findOutboundByReversePath,
  listOutboundByMessageId,
  listQueueEntries,
  type OutboundMessage,
  type QueueEntry,
  type Returned,
  setEntryComplained,
} from "../outbound/queue.ts";
import { suppress } from "../outbound/suppression.ts";
import { isHardFailure } from "../smtp/delivery-result.ts";
import { Refusal } from "../smtp/refusal.ts";
import type { Core } from "../store/core.ts";
import type { Db, Tx } from "../store/store.ts";

interface ReportEnvelope {
  /** Empty for mail that asks for no automatic answer (RFC 5321 §4.5.5). */
  reversePath: string;
  /** Messages that have a recipient of the mail for their reverse-path. */
  returned: readonly Returned[];
  /** The organisations that sent it: see Authentication. */
  organizations: readonly string[];
}

export interface Finding {
  /** The mail may be about a message that we sent. */
  isAboutSent: boolean;
  /** Records the report, in the transaction that files the mail; may run twice, the first time rolled back. */
  recordReport(tx: Tx): void;
  /** Tells whether the mail itself is filed into a mailbox that it reaches, by a return path or by an address. */
  isFiled(mailboxId: string, byReturnPath: boolean): boolean;
}

type Effect = Omit<Finding, "isAboutSent">;

/** Most messages with one Message-ID, the newest, that a report is matched with: mail apps may send the same id again. */
const MOST_CANDIDATES = 20;

/** `not-spam` (RFC 6430) and `auth-failure` (RFC 6591), a signature that does not verify. */
const NO_COMPLAINTS: ReadonlySet<string> = new Set(["not-spam", "auth-failure"]);

/** A message that a mail may be about. */
interface Subject {
  message: OutboundMessage;
  entries: QueueEntry[];
  /** The recipients that the report names, in its order; undefined for a name that is no recipient of the message. */
  named: (QueueEntry | undefined)[];
  /** The entries of `named`, but undefined also where the report is not believed for that recipient. */
  believed: (QueueEntry | undefined)[];
}

/** Finds the message with this reverse-path. */
export function findSentByReturnPath(db: Db, recipient: string): Returned | undefined {
  const address = normalizeAddress(recipient);
  return address === undefined ? undefined : findOutboundByReversePath(db, address);
}

/**
 * Finds the sent message that a mail from outside is about; undefined for mail that is no report and is not addressed to a
 * return path. Changes nothing yet. @throws Refusal tooEarly while a recipient on which it would count is being attempted
 */
export async function considerReport(
  core: MailCore,
  mail: PreparedMessage,
  envelope: ReportEnvelope,
): Promise<Finding | undefined> {
  const { db } = core;
  const { report } = mail;
  const { returned } = envelope;
  if (report === undefined && returned.length === 0) return undefined;
  const reported = report?.recipients.slice(0, MOST_REPORTED).map(listReportedAddresses) ?? [];
  const isBelieved = (entry: QueueEntry) =>
    returned.some(({ domain = entry.domain }) => domain === entry.domain) || isFrom(envelope.organizations, entry);
  const subjects = findReportedMessages(db, returned, report).map((message): Subject => {
    const entries = listQueueEntries(db, message.seq);
    const named = namedAmong(entries, report, reported);
    return {
      message,
      entries,
      named,
      believed: named.map((entry) => (entry && isBelieved(entry) ? entry : undefined)),
    };
  });
  const isBeingSent = ({ message, entries }: Subject) =>
    entries.some((entry) => entry.leased && isBelieved(entry) && !isLocal(db, message, entry));
  // The report of a server that bounces at once may arrive before its reply is recorded, and must count. Whom the report
  // names does not matter: whoever names people in turn would learn who is a Bcc recipient.
  if (report !== undefined && subjects.some(isBeingSent)) throw new Refusal("tooEarly");
  const words = joinMessageText(mail);
  // Of each, whatever the others give: the time must not tell.
  const isShown = !subjects.map((subject) => mayNameBcc(subject, mail, words, envelope)).includes(true);
  const withNamed = (is: (entry: QueueEntry) => boolean) =>
    subjects.find(({ message, believed }) =>
      believed.some((entry) => entry && wasSent(db, message, entry) && is(entry)),
    );
  // Messages may share a Message-ID: one without a report so far goes first.
  const subject =
    withNamed(({ state, complainedAt }) => state === "delivered" && complainedAt === null) ?? withNamed(() => true);
  const isAboutSent = subjects.length > 0;
  if (report !== undefined && subject !== undefined) {
    const effect = report.kind === "delivery" ? await bounces(core, subject, report) : complaint(core, subject, report);
    return { ...effect, isAboutSent, isFiled: (...to) => isShown && effect.isFiled(...to) };
  }
  return { isAboutSent, recordReport() {}, isFiled: () => isShown };
}

function findReportedMessages(
  db: Db,
  returned: readonly Returned[],
  report: PreparedMessage["report"],
): OutboundMessage[] {
  if (returned.length > 0) return [...new Map(returned.map(({ message }) => [message.seq, message])).values()];
  const known = report?.envelopeFrom === undefined ? undefined : findSentByReturnPath(db, report.envelopeFrom);
  if (known !== undefined) return [known.message];
  return report?.messageId === undefined ? [] : listOutboundByMessageId(db, report.messageId).slice(-MOST_CANDIDATES);
}

/** Finds the recipients that a report names among those of the message, in its order. `reported`: their spellings. */
function namedAmong(
  entries: QueueEntry[],
  report: PreparedMessage["report"],
  reported: readonly (readonly string[])[],
): Subject["named"] {
  if (report?.kind === "feedback" && report.recipients.length === 0) {
    // The provider does not say who complained (RFC 5965 §3.2). With one recipient that is clear.
    return entries.length === 1 ? entries : [undefined];
  }
  const byAddress = new Map(entries.map((entry) => [normalizeAddress(entry.recipient) ?? entry.recipient, entry]));
  const names = report?.kind === "delivery" ? report.recipients : [];
  return reported.map((spellings, i) => {
    // The notice names nobody. Of several recipients, any may be meant.
    if (names[i]?.assumed && entries.length > 1) return undefined;
    const known = spellings.find((spelling) => byAddress.has(spelling));
    return known === undefined ? undefined : byAddress.get(known);
  });
}

/** Tells whether mail of the message's workspace to the recipient stays on this server. */
const isLocal = (db: Db, { workspaceId }: OutboundMessage, { domain }: QueueEntry): boolean =>
  localDomain(db, workspaceId, domain) !== undefined;

/**
 * Tells whether another server has accepted the message for the recipient, even if it bounced later. Reports from outside never
 * count for mail delivered here.
 */
const wasSent = (db: Db, message: OutboundMessage, entry: QueueEntry): boolean =>
  (entry.state === "delivered" || entry.state === "bounced") && !isLocal(db, message, entry);

async function bounces(core: MailCore, { message, named, believed }: Subject, report: DeliveryReport): Promise<Effect> {
  const failures = new Map<number, LateFailure>();
  for (const [i, entry] of believed.entries()) {
    const reported = report.recipients[i];
    if (reported?.action !== "failed" || entry === undefined) continue;
    if (!wasSent(core.db, message, entry)) continue;
    const { status, code, diagnostic, bareAtRcpt, assumed = false } = reported;
    const reply = diagnostic ?? [code, status, "delivery failed"].filter((part) => part !== undefined).join(" ");
    const hard = !assumed && isHardFailure(bareAtRcpt ? { command: "rcpt", code } : { code, status });
    failures.set(entry.seq, { entry, hard, reply, status });
  }
  const fresh = [...failures.values()].filter(({ entry }) => entry.state === "delivered");
  const recordReport = fresh.length === 0 ? () => {} : await concludeLateBounces(core, message, fresh);
  // Our notice replaces the report, unless the report also names recipients for whom it is not believed.
  const isNotified = (mailboxId: string, byReturnPath: boolean) => byReturnPath || mailboxId === message.mailboxId;
  const saysMore = failures.size === 0 || named.some((entry, i) => entry !== believed[i]);
  return { recordReport, isFiled: (...to) => saysMore || !isNotified(...to) };
}

function complaint({ db, runtime }: Core, { message, believed }: Subject, { type }: FeedbackReport): Effect {
  if (NO_COMPLAINTS.has(type)) return { recordReport() {}, isFiled: () => true };
  const complainers = new Set(believed.map((entry) => entry && wasSent(db, message, entry) && entry.seq));

  function recordReport(tx: Tx): void {
    const now = runtime.now();
    const { workspaceId, seq: messageSeq } = message;
    for (const entry of listQueueEntries(tx, messageSeq)) {
      if (!complainers.has(entry.seq) || entry.complainedAt !== null || entry.state !== "delivered") continue;
      setEntryComplained(tx, entry, now);
      if (entry.field !== "bcc" && !message.notice && message.automatic === null) {
        const data = { ...messageEventFields(message), recipient: entry.recipient };
        emitEvent(tx, { id: newId(runtime, "evt"), workspaceId, event: "message.complaint", data, now });
      }
      const suppression = { workspaceId, address: entry.recipient, reason: "complaint", now };
      suppress(tx, { id: newId(runtime, "sup"), ...suppression });
    }
  }
  // A report to an address is filed: its owner wants to read such reports.
  return { recordReport, isFiled: (_mailboxId, byReturnPath) => !byReturnPath };
}

/**
 * Tells whether one of the organisations is that of the recipient's domain, or of the host that accepted the message for it.
 */
const isFrom = (organizations: readonly string[], { domain, acceptedBy }: QueueEntry): boolean =>
  organizations.some((organization) =>
    [domain, acceptedBy].some((host) => host === organization || host?.endsWith(`.${organization}`)),
  );

/**
 * Lists the addresses of a recipient: as the sender wrote it, and as the server that reports the failure calls it. Normalized.
 */
function listReportedAddresses(reported: string | { recipient: string; original?: string }): string[] {
  const { recipient, original } = typeof reported === "string" ? { recipient: reported } : reported;
  return [original, recipient].flatMap((address) => (address === undefined ? [] : (normalizeAddress(address) ?? [])));
}

/**
 * Tells whether filing the mail might show a Bcc recipient to a reader (rules: Bcc). A report might, unless it is only about
 * other recipients: it may name the addresses to which a Bcc recipient forwards. Other mail might when it is a bounce that we
 * cannot read. Mail that a recipient writes is filed: recipients may tell about themselves.
 */
function mayNameBcc(
  { message, entries, named }: Subject,
  mail: PreparedMessage,
  words: string,
  envelope: ReportEnvelope,
): boolean {
  if (!entries.some(({ field }) => field === "bcc")) return false;
  const says = bccDetector(entries, message.domain)(words) || mail.problem !== undefined;
  if (mail.report !== undefined) {
    const isOfOthers = named.every((entry) => entry?.field === "to" || entry?.field === "cc");
    return says || !isOfOthers || mail.report.recipients.length > named.length;
  }
  const from = mail.from && normalizeAddress(mail.from.email);
  const isTheirs = entries.map(({ recipient }) => normalizeAddress(recipient) === from).includes(true);
  return says && envelope.reversePath === "" && !isTheirs;
}

const joinMessageText = ({ subject, headers, text, attachments, report, ...body }: PreparedMessage): string =>
  [
    subject,
    ...headers.flat(),
    text,
    body.html ? unpackText(body.html, body.htmlBytes) : "",
    ...attachments.map(({ filename }) => filename),
    JSON.stringify(report ?? {}),
  ].join("\n");
