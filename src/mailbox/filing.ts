/**
 * Filing: a prepared message becomes part of a mailbox, with its conversation, index, usage and event, in one
 * transaction (rules: Arrival, Same message, Folders, Spam). Nothing here reads the bytes of the message: that was
 * prepare.ts.
 */

import { newId, type Runtime } from "../base/runtime.ts";
import { emit } from "../events/outbox.ts";
import { type EmailAddress, NOBODY } from "../message/address.ts";
import type { SearchEngine } from "../search/engine.ts";
import type { AuthVerdicts } from "../store/schema.ts";
import type { Options } from "../store/settings.ts";
import type { Db, Tx } from "../store/store.ts";
import { createWriting, findSame, mailboxToFileInto, type NewDraft } from "./filing-rows.ts";
import { judge } from "./judgement.ts";
import { recordJudgement, teachAnswered } from "./junk/training.ts";
import { writeLabels } from "./labels.ts";
import type { PreparedMessage } from "./prepare.ts";
import {
  type Arrival,
  continued,
  type FilingKind,
  findThread,
  started,
  type ThreadRow,
  threadToJoin,
} from "./threading.ts";

export interface Filing {
  mailboxId: string;
  /** The mailbox address or alias it arrived on, without a tag; of what we wrote, the address it is from. */
  receivedOn: string;
  message: PreparedMessage;
  /** Epoch ms. */
  now: number;
  /** Default: received. */
  kind?: FilingKind;
  /**
   * The conversation to join, whatever the headers say. One that is not there, is full or is a draft is not joined, but
   * looked for as ever.
   */
  threadId?: string;
  /** Instead of the Bcc that stands in the message. */
  bcc?: readonly EmailAddress[];
  /** Judged spam for a reason of the arrival, such as DMARC; what the mailbox has learned is known here. */
  spam?: boolean;
  auth?: AuthVerdicts;
  /** The user who sent it, or wrote the draft: who sees all of its Bcc. */
  sentBy?: string;
  /** Of a draft. */
  draft?: NewDraft;
}

export interface Filed {
  /** Message.id, the `emailId` of events. */
  messageId: string;
  threadId: string;
  /** It was there already: nothing was filed or announced. */
  duplicate: boolean;
}

/** Of a conversation that is a report between mail systems. */
const REPORT_LABEL = "Reports";

export function createFiling({
  engine,
  options,
  runtime,
}: {
  engine: Pick<SearchEngine, "add">;
  options: Pick<Options, "get">;
  runtime: Pick<Runtime, "now" | "randomBytes">;
}): (tx: Tx, filing: Filing) => Filed {
  const write = createWriting({ engine, runtime });
  return function file(tx, filing) {
    const { mailboxId, receivedOn, message, now, bcc, auth, sentBy, draft } = filing;
    const mailbox = mailboxToFileInto(tx, mailboxId);
    const { workspaceId } = mailbox;
    const kind = filing.kind ?? "received";
    const same = kind === "received" ? findReceived(tx, filing) : undefined;
    if (same) return { ...same, duplicate: true };

    const from = message.from ?? NOBODY;
    const date = message.date !== undefined && message.date <= now ? message.date : now;
    const judgement = kind === "received" ? judge(tx, filing, from, options) : {};
    const spam = judgement.filedFor !== undefined;
    const joined = kind === "draft" ? undefined : threadFor(tx, filing, { mailboxId, receivedOn, message, date, spam });
    const addition = { message: { ...message, from }, kind, date } as const;
    // A report answers nothing: one that does is read as any mail is.
    const isReport = kind === "received" && message.aggregateReport !== undefined && !joined && !spam;
    const state = joined
      ? continued(tx, joined, addition)
      : { ...started(addition, spam), ...(isReport && { unread: false }) };
    const read = kind === "sent" || kind === "draft" || isReport;
    const facts = { mailboxId, workspaceId, receivedOn, kind, date, filedAt: now, read, bcc, auth, sentBy, draft };
    const { seq, threadSeq, messageId, threadId } = write(tx, message, { joined, state, starred: false }, facts);
    if (isReport) writeLabels(tx, threadSeq, [REPORT_LABEL]);
    recordJudgement(tx, seq, judgement);
    if (kind === "sent" && joined && joined.folder !== "spam") teachAnswered(tx, joined, message, now);
    if (kind === "received") {
      emit(tx, {
        id: newId(runtime, "evt"),
        workspaceId,
        event: "message.inbound",
        now,
        data: {
          emailId: messageId,
          threadId,
          mailboxId,
          mailbox: mailbox.address,
          messageId: message.messageId ?? "",
          inReplyTo: message.inReplyTo ?? null,
          from,
          to: message.to,
          cc: message.cc,
          subject: message.subject,
          snippet: message.snippet,
          hasAttachments: message.attachments.length > 0,
          attachmentCount: message.attachments.length,
          isSpam: state.folder === "spam",
          receivedAt: new Date(now).toISOString(),
        },
      });
    }
    return { messageId, threadId, duplicate: false };
  };
}

/** The same message received before. One without a Message-ID is never taken for another. */
const findReceived = (db: Db, { mailboxId, message }: Pick<Filing, "mailboxId" | "message">) =>
  findSame(db, { mailboxId, messageId: message.messageId, fingerprint: message.fingerprint, kind: "received" });

/**
 * Whether the mailbox has received the message before: filing it would change nothing (rules: Arrival, Same message).
 */
export const holds = (db: Db, mailboxId: string, message: PreparedMessage): boolean =>
  findReceived(db, { mailboxId, message }) !== undefined;

const threadFor = (tx: Tx, { threadId }: Filing, arrival: Arrival): ThreadRow | undefined =>
  (threadId === undefined ? undefined : threadToJoin(tx, arrival.mailboxId, threadId)) ?? findThread(tx, arrival);
