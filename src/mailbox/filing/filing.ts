/**
 * Files a prepared message into a mailbox, with its conversation, index, usage and event, in one transaction (rules:
 * Arrival, Same message, Folders, Spam). prepare.ts has read the message's bytes before.
 */
import { newId } from "../../base/runtime.ts";
import { toIsoTime } from "../../base/time.ts";
import { emitEvent } from "../../events/outbox.ts";
import { type EmailAddress, NO_SENDER } from "../../message/address.ts";
import { countDocumentCharacters } from "../../search/fold.ts";
import type { AuthVerdicts } from "../../store/schema.ts";
import type { Db, Tx } from "../../store/store.ts";
import { classifyReceivedMessage, recordClassification } from "../junk/classification.ts";
import { trainAnsweredAsWanted } from "../junk/training.ts";
import { writeLabels } from "../state/labels.ts";
import type { MailCore } from "../state/mail-core.ts";
import { requestAutomaticMail } from "./automatic-requests.ts";
import {
  acknowledgeDuplicate,
  findCopyByMessageId,
  mailboxToFileInto,
  type NewDraft,
  writeFiledMessage,
} from "./filing-rows.ts";
import type { PreparedMessage } from "./prepare.ts";
import { folderByRules, judgeByRules, markByRules } from "./rules.ts";
import {
  type FilingKind,
  findThreadToContinue,
  initialThreadState,
  nextThreadState,
  type ThreadRow,
  threadToJoin,
  type UnfiledMessage,
} from "./threading.ts";

export interface Filing {
  mailboxId: string;
  /** The mailbox address or alias at which it arrived, without a tag; for outgoing mail, the sender's address. */
  receivedOn: string;
  message: PreparedMessage;
  /** Epoch ms. */
  now: number;
  /** Default: received. */
  kind?: FilingKind;
  /**
   * The conversation to join in spite of the headers. If it does not exist, is full or is a draft, the headers decide.
   */
  threadId?: string;
  /** Replaces the Bcc in the message. */
  bcc?: readonly EmailAddress[];
  /** The arrival itself marks it as spam, as a DMARC failure does. Filing adds what the mailbox has learned. */
  spam?: boolean;
  auth?: AuthVerdicts;
  /** Return path of mail that arrived, empty for a bounce. Without one, nothing is forwarded or answered. */
  reversePath?: string;
  /** The domain whose signature covers both fields of RFC 8058. */
  listSigner?: string | undefined;
  /** The user who sent it or wrote the draft, and therefore sees all of its Bcc. */
  sentBy?: string;
  /** Properties of a draft; absent for other messages. */
  draft?: NewDraft;
  /** The draft is a held message, which nobody may change. */
  held?: boolean;
  /** Ids that a held message keeps when it is sent. */
  ids?: { message: string; thread: string };
}

export interface Filed {
  /** messages.seq */
  seq: number;
  /** Message.id, the `emailId` of events. */
  messageId: string;
  threadId: string;
  /** The mailbox had it already: nothing was filed or announced. */
  duplicate: boolean;
}

/**
 * Characters of the copies of one message that are indexed in the transaction that files them, except that one copy
 * always is: a quarter of a second at worst.
 */
const INDEXED_AT_ONCE = 1_000_000;

/** The label on reports between mail systems. */
const REPORT_LABEL = "Reports";

/**
 * Files copies of one message. Those of a long one are searchable soon after the commit, and not with it; with
 * `indexLater`, all of them.
 */
export function fileCopies(core: MailCore, tx: Tx, filings: readonly Filing[], { indexLater = false } = {}): Filed[] {
  let indexed = 0;
  return filings.map((filing) => {
    const characters = countDocumentCharacters(filing.message.index);
    const isLater = indexLater || (indexed > 0 && indexed + characters > INDEXED_AT_ONCE);
    const filed = fileMessage(core, tx, filing, { indexLater: isLater });
    if (!filed.duplicate && !isLater) indexed += characters;
    return filed;
  });
}

/** Files a message, unless the mailbox has it. With `indexLater`, it is searchable soon after the commit. */
export function fileMessage(core: MailCore, tx: Tx, filing: Filing, { indexLater = false } = {}): Filed {
  const { options, runtime } = core;
  const { mailboxId, receivedOn, message, now, bcc, auth, listSigner, sentBy, draft, held, ids } = filing;
  const mailbox = mailboxToFileInto(tx, mailboxId);
  const { workspaceId } = mailbox;
  const kind = filing.kind ?? "received";
  const same = kind === "received" ? findReceived(tx, filing) : undefined;
  if (same) return acknowledgeDuplicate(tx, same);

  const from = message.from ?? NO_SENDER;
  const date = message.date !== undefined && message.date <= now ? message.date : now;
  const classification =
    kind === "received"
      ? classifyReceivedMessage(
          tx,
          mailboxId,
          { from, auth, spam: filing.spam, junkTokens: message.junkTokens },
          options,
        )
      : {};
  const spam = classification.filedFor !== undefined;
  let joined = kind === "draft" ? undefined : threadFor(tx, filing, { mailboxId, receivedOn, message, date, spam });
  const addition = { message: { ...message, from }, kind, date } as const;
  // A report that joins a conversation is filed as ordinary mail: label and read state belong to the conversation.
  const isReport = kind === "received" && message.aggregateReport !== undefined && !joined && !spam;
  let state = joined
    ? nextThreadState(tx, joined, addition)
    : { ...initialThreadState(addition, spam), ...(isReport && { unread: false }) };
  const ruled =
    kind === "received" && state.folder !== "spam"
      ? judgeByRules(tx, { mailboxId, message, date, joined, state, now })
      : undefined;
  if (ruled?.folder === "trash" && joined && joined.folder !== "trash") {
    // What others wrote stays where it is.
    joined = undefined;
    state = initialThreadState(addition, spam);
  }
  if (ruled) state = { ...state, folder: folderByRules(ruled, joined, state.folder) };
  const read = kind === "sent" || kind === "draft" || isReport;
  const times = { date, filedAt: now };
  const facts = {
    mailboxId,
    workspaceId,
    receivedOn,
    kind,
    ...times,
    read,
    bcc,
    auth,
    listSigner,
    sentBy,
    draft,
    held,
    ids,
    indexLater,
  };
  const { seq, threadSeq, messageId, threadId } = writeFiledMessage(
    core,
    tx,
    message,
    { joined, state, starred: false },
    facts,
  );
  if (isReport) writeLabels(tx, threadSeq, [REPORT_LABEL]);
  if (ruled) markByRules(tx, threadSeq, ruled);
  recordClassification(tx, seq, classification);
  if (kind === "received" && state.folder !== "spam" && filing.reversePath !== undefined) {
    const { reversePath } = filing;
    requestAutomaticMail(tx, options, { mailboxId, workspaceId, seq, message, reversePath, auth, ruled, now });
  }
  if (kind === "sent" && joined && joined.folder !== "spam") trainAnsweredAsWanted(tx, joined, message, now);
  if (kind === "received") {
    emitEvent(tx, {
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
        receivedAt: toIsoTime(now),
      },
    });
  }
  return { seq, messageId, threadId, duplicate: false };
}

/** Finds an earlier copy of a received message. A message without a Message-ID counts as new. */
const findReceived = (db: Db, { mailboxId, message }: Pick<Filing, "mailboxId" | "message">) =>
  findCopyByMessageId(db, {
    mailboxId,
    messageId: message.messageId,
    fingerprint: message.fingerprint,
    kind: "received",
  });

/**
 * True if the mailbox has received the message before, so that filing it would change nothing (rules: Arrival, Same
 * message).
 */
export const isMessageAlreadyReceived = (db: Db, mailboxId: string, message: PreparedMessage): boolean =>
  findReceived(db, { mailboxId, message })?.byKey === false;

const threadFor = (tx: Tx, { threadId }: Filing, unfiled: UnfiledMessage): ThreadRow | undefined =>
  (threadId === undefined ? undefined : threadToJoin(tx, unfiled.mailboxId, threadId)) ??
  findThreadToContinue(tx, unfiled);
