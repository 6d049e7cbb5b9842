/** Drafts on their way to being sent: opened, changed, and sent as what whoever opened them wants to say. */
import type { Caller } from "../access/caller.ts";
import { AppError } from "../errors.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { EmailAddress } from "../message/address.ts";
import { readRecipients } from "../message/recipients.ts";
import type { Db, Tx } from "../store/store.ts";
import { answerFrom } from "./answer.ts";
import { recipientsOf } from "./recipient.ts";
import { senderFor } from "./sender.ts";
import type { Outgoing, SendView } from "./sending.ts";

/** What a draft says. */
export interface DraftContent {
  from: string;
  to: EmailAddress[];
  cc: EmailAddress[];
  bcc: EmailAddress[];
  subject: string;
  text: string;
  /** Id of the conversation that it answers. */
  answers: string | null;
}

/** What it is to say. */
export interface DraftRequest {
  from: string;
  to: string | string[];
  cc?: string | string[] | undefined;
  bcc?: string | string[] | undefined;
  subject?: string | undefined;
  text: string;
}

export interface FiledDraft {
  /** Of its conversation. */
  draftId: string;
  /** As it was kept. */
  subject: string;
}

export interface Drafts {
  /** @throws AppError not_found, forbidden, conflict (no draft) */
  openDraft(caller: Caller, draftId: string): DraftContent;
  /** Puts another in its place; its id. @throws AppError the same, and payload_too_large, unprocessable */
  saveDraft(caller: Caller, draftId: string, request: DraftRequest): Promise<{ draftId: string }>;
  /** Sends it, in the conversation that it answers, and removes it. @throws AppError as Sending.send, and conflict */
  sendDraft(caller: Caller, draftId: string, request: DraftRequest): Promise<SendView>;
}

export interface DraftsParts {
  db: Db;
  mailbox: Pick<Mailbox, "replyContext" | "readDraft" | "removeDraft">;
  outgoing(
    envelope: Omit<Outgoing, "messageId" | "letter"> & { subject: string },
    content: { text: string; html: string | undefined },
    headers: [name: string, value: string][],
  ): Outgoing;
  requireBodySize(request: { text: string }): void;
  submitted(
    caller: Caller,
    message: Outgoing,
    threadId: string | undefined,
    record: (tx: Tx) => void,
  ): Promise<SendView>;
  /** Files it as a draft. `record` runs in the same transaction. */
  fileDraft(caller: Caller, message: Outgoing, record: (tx: Tx) => void): Promise<FiledDraft>;
}

export function createDrafts(parts: DraftsParts): Drafts {
  const { db, mailbox, outgoing, requireBodySize, submitted, fileDraft } = parts;

  function readRequest(
    caller: Caller,
    draftId: string,
    request: DraftRequest,
  ): { message: Outgoing; answers?: string } {
    requireBodySize(request);
    const { reach, headers, answers, text, html } = mailbox.readDraft(caller, draftId);
    const context = answers === undefined ? undefined : mailbox.replyContext(caller, answers);
    const from = context?.answered
      ? answerFrom(context, context.answered, request.from)
      : senderFor(db, caller, request.from, { alias: true }).address;
    const recipients = recipientsOf({
      to: readRecipients(request.to),
      cc: readRecipients(request.cc),
      bcc: readRecipients(request.bcc),
    });
    const message = outgoing(
      { mailbox: reach.mailbox, from, recipients, subject: request.subject ?? "" },
      // Of text that was changed, the HTML says something else.
      { text: request.text, html: request.text === text ? html : undefined },
      headers,
    );
    return { message, ...(answers !== undefined && { answers }) };
  }

  return {
    openDraft(caller, draftId) {
      const { from, to, cc, bcc, subject, text, answers = null } = mailbox.readDraft(caller, draftId);
      return { from: from.email, to, cc, bcc, subject, text, answers };
    },
    async saveDraft(caller, draftId, request) {
      const { message } = readRequest(caller, draftId, request);
      const saved = await fileDraft(caller, message, (tx) => mailbox.removeDraft(tx, caller, draftId));
      return { draftId: saved.draftId };
    },
    async sendDraft(caller, draftId, request) {
      const { message, answers } = readRequest(caller, draftId, request);
      if (message.recipients.length === 0) {
        throw new AppError("unprocessable", "There is nobody to send to: give an address");
      }
      return submitted(caller, message, answers, (tx) => mailbox.removeDraft(tx, caller, draftId));
    },
  };
}
