/**
 * Reports that come back about mail we sent: delivery status notifications and feedback reports (contract: Sending).
 *
 *   a report ─► the outbound message: by its return path, else by the Message-ID of what is returned
 *            ─► the recipients it names ─► failed: as bounced later (outcome.ts)   complained: told, and suppressed
 *
 * Invariants: a report counts only for recipients of that message whom another server has accepted it for, and once; any
 * other changes nothing and is mail like any other. None is shown to anybody when it may name a Bcc recipient.
 */
import { emit } from "../events/outbox.ts";
import type { PreparedMessage } from "../mailbox/prepare.ts";
import { normalizeAddress } from "../message/address.ts";
import type { DeliveryReport, FeedbackReport } from "../message/report.ts";
import { newId, type Runtime } from "../runtime.ts";
import type { Db, Tx } from "../store/store.ts";
import { bccDetector } from "./bcc.ts";
import type { LocalDelivery } from "./local.ts";
import { entriesOf, findByMessageId, findByReturnPath } from "./outbound.ts";
import { type LateFailure, namesOf, type Outcomes } from "./outcome.ts";
import { type OutboundMessage, type QueueEntry, setComplained } from "./queue.ts";
import { suppress } from "./suppression.ts";
import { isHard } from "./verdict.ts";

export interface Feedback {
  /** The message that has the address for its return path. Asks the database only about what looks like one. */
  sentWith(recipient: string): OutboundMessage | undefined;
  /**
   * What mail from outside says of mail we sent; undefined for mail that is no report and is not addressed to a return
   * path. Changes nothing yet.
   */
  consider(mail: PreparedMessage, envelope: ReportEnvelope): Promise<Finding | undefined>;
}

interface ReportEnvelope {
  /** Empty for what nobody is to answer automatically (RFC 5321 §4.5.5). */
  reversePath: string;
  /** As in RCPT TO. */
  recipients: readonly string[];
}

export interface Finding {
  /** Records what the report tells, in the transaction that takes the mail in; may run twice, the first time rolled back. */
  record(tx: Tx): void;
  /** Whether the mail itself is filed into a mailbox it reaches, by a return path or by an address. */
  isFiled(mailboxId: string, byReturnPath: boolean): boolean;
}

export interface FeedbackParts {
  db: Db;
  outcomes: Pick<Outcomes, "bounceLater">;
  local: Pick<LocalDelivery, "isLocal">;
  runtime: Pick<Runtime, "now" | "randomBytes">;
}

const RETURN_PATH = /^bounce\+[0-9a-z]+@/i;
/** Messages looked at that went out with one Message-ID, the newest; mail apps send the same one again. */
const MOST_CANDIDATES = 20;

/** Somebody says that it is no spam (RFC 6430); a program, that a signature does not hold (RFC 6591). */
const NO_COMPLAINTS: ReadonlySet<string> = new Set(["not-spam", "auth-failure"]);

/** A message that a mail is about, and the recipients that the mail names. */
interface Subject {
  message: OutboundMessage;
  entries: QueueEntry[];
  named: QueueEntry[];
  /** The mail names nobody else. */
  onlyThem: boolean;
}

export function createFeedback({ db, outcomes, local, runtime }: FeedbackParts): Feedback {
  function sentWith(recipient: string): OutboundMessage | undefined {
    if (!RETURN_PATH.test(recipient)) return undefined;
    const returnPath = normalizeAddress(recipient);
    return returnPath === undefined ? undefined : findByReturnPath(db, returnPath);
  }

  async function consider(mail: PreparedMessage, envelope: ReportEnvelope): Promise<Finding | undefined> {
    const { report } = mail;
    const returned = envelope.recipients.flatMap((recipient) => sentWith(recipient) ?? []);
    if (report === undefined && returned.length === 0) return undefined;
    const subjects = messagesOf(returned, report).map((message) => subjectOf(message, report));
    const isShown = !subjects.some((subject) => mayNameBcc(subject, mail, envelope));
    const subject = subjects.find(({ message, named }) => named.some((entry) => wasSent(message, entry)));
    if (report !== undefined && subject !== undefined) {
      const finding = report.kind === "delivery" ? await bounces(subject, report) : complaint(subject, report);
      return { ...finding, isFiled: (...to) => isShown && finding.isFiled(...to) };
    }
    return { record() {}, isFiled: () => isShown };
  }

  function messagesOf(returned: OutboundMessage[], report: PreparedMessage["report"]): OutboundMessage[] {
    if (returned.length > 0) return returned;
    const known = report?.envelopeFrom === undefined ? undefined : sentWith(report.envelopeFrom);
    if (known !== undefined) return [known];
    return report?.messageId === undefined ? [] : findByMessageId(db, report.messageId).slice(-MOST_CANDIDATES);
  }

  /** Another server has accepted it, then or before it bounced. What is delivered here nobody else can report on. */
  const wasSent = ({ workspaceId }: OutboundMessage, { state, domain }: QueueEntry): boolean =>
    (state === "delivered" || state === "bounced") && !local.isLocal(workspaceId, domain);

  function subjectOf(message: OutboundMessage, report: PreparedMessage["report"]): Subject {
    const entries = entriesOf(db, message.seq);
    if (report?.kind === "feedback" && report.recipients.length === 0) {
      // The provider does not say who complained (RFC 5965 §3.2): of one recipient that is clear.
      const isClear = entries.length === 1;
      return { message, entries, named: isClear ? entries : [], onlyThem: isClear };
    }
    const found = (report?.recipients ?? []).map((reported) => entryOf(entries, reported));
    const named = found.filter((entry) => entry !== undefined);
    return { message, entries, named, onlyThem: named.length === found.length };
  }

  async function bounces({ message, entries }: Subject, report: DeliveryReport): Promise<Finding> {
    const failures = new Map<number, LateFailure>();
    for (const reported of report.recipients) {
      const entry = entryOf(entries, reported);
      if (reported.action !== "failed" || entry === undefined || !wasSent(message, entry)) continue;
      const { status, code, diagnostic } = reported;
      const reply = diagnostic ?? [code, status, "delivery failed"].filter((part) => part !== undefined).join(" ");
      failures.set(entry.seq, { entry, hard: isHard({ code, status }), reply, status });
    }
    const fresh = [...failures.values()].filter(({ entry }) => entry.state === "delivered");
    const record = fresh.length === 0 ? () => {} : await outcomes.bounceLater(message, fresh);
    // Our notice says what the report does.
    const isTold = (mailboxId: string, byReturnPath: boolean) => byReturnPath || mailboxId === message.mailboxId;
    return { record, isFiled: (...to) => failures.size === 0 || !isTold(...to) };
  }

  function complaint({ message, named }: Subject, { type }: FeedbackReport): Finding {
    if (NO_COMPLAINTS.has(type)) return { record() {}, isFiled: () => true };
    const complainers = new Set(named.filter((entry) => wasSent(message, entry)).map(({ seq }) => seq));

    function record(tx: Tx): void {
      const now = runtime.now();
      const { workspaceId, seq: messageSeq } = message;
      for (const entry of entriesOf(tx, messageSeq)) {
        if (!complainers.has(entry.seq) || entry.complainedAt !== null || entry.state !== "delivered") continue;
        setComplained(tx, entry, now);
        if (entry.field !== "bcc") {
          const data = { ...namesOf(message), recipient: entry.recipient };
          emit(tx, { id: newId(runtime, "evt"), workspaceId, event: "message.complaint", data, now });
        }
        const reason = `complaint: reported as ${type}`;
        suppress(tx, { id: newId(runtime, "sup"), workspaceId, address: entry.recipient, reason, now });
      }
    }
    // Who has an address for such reports wants to read them.
    return { record, isFiled: (_mailboxId, byReturnPath) => !byReturnPath };
  }

  return { sentWith, consider };
}

/** The recipient that a report names, as it is known now or as it was addressed. */
function entryOf(
  entries: readonly QueueEntry[],
  reported: string | { recipient: string; original?: string },
): QueueEntry | undefined {
  const { recipient, original } = typeof reported === "string" ? { recipient: reported } : reported;
  const at = (address: string | undefined): QueueEntry | undefined => {
    const normalized = address === undefined ? undefined : normalizeAddress(address);
    return entries.find((entry) => normalized !== undefined && normalizeAddress(entry.recipient) === normalized);
  };
  return at(original) ?? at(recipient);
}

/**
 * Whether filing the mail might show a Bcc recipient to somebody (contract: Bcc). A report does unless it is about other
 * recipients alone: it may name those that a Bcc recipient's mail is forwarded to. Other mail does when it is a bounce
 * that we cannot read; what recipients themselves write is theirs to send.
 */
function mayNameBcc({ message, entries, named, onlyThem }: Subject, mail: PreparedMessage, envelope: ReportEnvelope) {
  if (!entries.some(({ field }) => field === "bcc")) return false;
  if (mail.report === undefined) {
    if (envelope.reversePath !== "") return false;
    if (mail.from !== undefined && entryOf(entries, mail.from.email) !== undefined) return false;
  } else if (!onlyThem || named.some(({ field }) => field === "bcc")) {
    return true;
  }
  return mail.problem !== undefined || bccDetector(entries, message.domain)(wordsOf(mail));
}

const wordsOf = ({ subject, headers, text, html = "", attachments, report }: PreparedMessage): string =>
  [subject, ...headers.flat(), text, html, ...attachments.map(({ filename }) => filename), JSON.stringify(report ?? {})].join(
    "\n",
  );
