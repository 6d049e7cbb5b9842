/**
 * What the API sends: the fields of a request become a message (rules: Send request, Reply request, Drafts).
 * Refusals come in their order (rules: Order of refusals): size, conversation, permission, then what is asked for.
 */
import { type Caller, requireAccess } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { Job } from "../base/scheduler.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { AnsweredMessage } from "../mailbox/reply.ts";
import type { EmailAddress } from "../message/address.ts";
import { type Composition, quotedText } from "../message/composition.ts";
import { readRecipients } from "../message/recipients.ts";
import { type GuardParts, requireAcceptable, type Sent, type Submit } from "../outbound/accept.ts";
import { recipientsOf, senderFor } from "../outbound/envelope.ts";
import type { Spool } from "../smtp/spool.ts";
import type { Store, Tx } from "../store/store.ts";
import type { ParserPool } from "../workers/parser-pool.ts";
import { createDraftSending, type DraftSending } from "./draft-sending.ts";
import { createDrafts, type Drafts } from "./drafts.ts";
import { addressesIn, type Outgoing, outgoing, prepareDraft, requireBodySize, type SendView } from "./outgoing.ts";
import { answerFrom, answerHeaders, answerSubject, answerTo } from "./reply.ts";

/** rules: Send request. */
export interface SendRequest {
  from: string;
  to: string | string[];
  cc?: string | string[] | undefined;
  bcc?: string | string[] | undefined;
  subject?: string | undefined;
  /** `text` or `html`, or both. */
  text?: string | undefined;
  html?: string | undefined;
}

/** rules: Reply request. */
export interface ReplyRequest {
  text?: string | undefined;
  html?: string | undefined;
  replyAll?: boolean | undefined;
  from?: string | undefined;
  /** Instead of everybody whom the answer would go to. Naming nobody, it counts as absent. */
  to?: string | string[] | undefined;
  cc?: string | string[] | undefined;
  bcc?: string | string[] | undefined;
  subject?: string | undefined;
  quote?: boolean | undefined;
}

/** rules: Draft response. */
export interface DraftView {
  ok: true;
  draftId: string;
  replyToThreadId: string;
  from: string;
  /** As in a To header; empty when there is nobody to answer, for the person who opens it to fill in. */
  to: string;
  cc: string | null;
  subject: string;
}

/** Writes the answer in the accepting transaction; may run twice, the first time rolled back. */
export type RecordAnswer = (tx: Tx, response: SendView) => void;

/** The defaults of an answer to a conversation. */
export interface AnswerView {
  from: string;
  /** Empty when there is nobody to answer. */
  to: EmailAddress[];
  cc: EmailAddress[];
  subject: string;
  /** What is answered, quoted, to go below the answer. */
  quote: string;
}

export interface Sending extends Drafts, DraftSending {
  /**
   * Accepts a new message. @throws AppError payload_too_large, forbidden, unprocessable, locked, rate_limited,
   * upstream_failed, insufficient_storage; then nothing was stored
   */
  send(caller: Caller, request: SendRequest, record?: RecordAnswer): Promise<SendView>;
  /** Accepts an answer to a conversation. @throws AppError the same, and not_found */
  reply(caller: Caller, threadId: string, request: ReplyRequest, record?: RecordAnswer): Promise<SendView>;
  /** The defaults of an answer, before anybody writes it. @throws AppError not_found, forbidden, unprocessable */
  answerTo(caller: Caller, threadId: string, options: { all: boolean }): AnswerView;
  /** For the scheduler: drafts that are due are sent. */
  job: Job;
  /** Keeps an answer as a draft. @throws AppError payload_too_large, not_found, forbidden, unprocessable */
  draft(caller: Caller, threadId: string, request: ReplyRequest): Promise<DraftView>;
}

/** The part that the API uses. */
export type ApiSending = Pick<Sending, "send" | "reply" | "draft">;

export interface SendingParts extends Omit<GuardParts, "store" | "mailbox"> {
  store: Pick<Store, "db" | "enqueue" | "blobs">;
  mailbox: Mailbox;
  parser: Pick<ParserPool, "prepare">;
  submit: Submit;
  spool: Pick<Spool, "keep">;
  /** Wakes a job that has work now, or will have sooner than it expects. */
  wake(job: string): void;
}

/** Characters quoted in an answer that is written in the app, which leaves room for the answer. */
const LONGEST_QUOTE = 200_000;

export function createSending(parts: SendingParts): Sending {
  const { store, mailbox, submit, runtime, log } = parts;
  async function submitted(
    caller: Caller,
    { composition, ...message }: Outgoing,
    threadId?: string,
    record?: RecordAnswer,
  ): Promise<SendView> {
    const submission = {
      caller,
      ...message,
      ...(threadId !== undefined && { threadId }),
      compose: async () => composition,
    };
    return sendView(await submit(submission, record && ((tx, sent) => record(tx, sendView(sent)))));
  }

  /** @throws AppError not_found, forbidden, unprocessable */
  function answerable(caller: Caller, threadId: string) {
    const context = mailbox.replyContext(caller, threadId);
    const { reach, answered } = context;
    requireAccess(reach, "send");
    if (!answered) {
      throw new AppError("unprocessable", "There is nothing to answer: no message came or went in this conversation");
    }
    return { context, answered };
  }

  /** The answer that a request describes. @throws AppError payload_too_large, not_found, forbidden, unprocessable */
  function answering(caller: Caller, threadId: string, request: ReplyRequest): Outgoing & { toNobody: boolean } {
    requireBodySize(request);
    const { context, answered } = answerable(caller, threadId);
    const { reach } = context;
    const from = answerFrom(context, answered, request.from);
    const given = readRecipients(request.to);
    const computed =
      given.length > 0 ? { to: given, cc: [] } : answerTo(context, answered, { all: request.replyAll === true });
    const recipients = recipientsOf({
      to: computed.to,
      cc: [...computed.cc, ...readRecipients(request.cc)],
      bcc: readRecipients(request.bcc),
    });
    const subject = request.subject ?? answerSubject(answered.subject);
    const quoted = request.quote === true ? quotable(answered) : undefined;
    return {
      ...outgoing(
        runtime,
        { mailbox: reach.mailbox, from, recipients, subject },
        { text: request.text, html: request.html, quoted },
        answerHeaders(answered),
      ),
      toNobody: computed.to.length + computed.cc.length === 0,
    };
  }

  const drafts = createDrafts(parts);
  const { job, ...draftSending } = createDraftSending({
    store,
    mailbox,
    requireAcceptable: (message, bytes) => requireAcceptable(parts, message, bytes),
    submitted,
    runtime,
    log,
    writing: drafts,
    scheduled: () => parts.wake(job.name),
  });

  return {
    ...drafts,
    ...draftSending,
    job,

    answerTo(caller, threadId, options) {
      const { context, answered } = answerable(caller, threadId);
      const { to, cc } = answerTo(context, answered, options);
      const { from, date, text } = answered;
      return {
        from: answerFrom(context, answered, undefined),
        to,
        cc,
        subject: answerSubject(answered.subject),
        quote: quotedText({ from, date, text: text.slice(0, LONGEST_QUOTE).toWellFormed() }),
      };
    },

    async send(caller, request, record) {
      requireBodySize(request);
      const { reach, address: from } = senderFor(store.db, caller, request.from, { alias: false });
      const recipients = recipientsOf({
        to: readRecipients(request.to),
        cc: readRecipients(request.cc),
        bcc: readRecipients(request.bcc),
      });
      if (recipients.length === 0) throw new AppError("unprocessable", "There is nobody to send to: `to` names nobody");
      const { text, html, subject = "" } = request;
      return submitted(
        caller,
        outgoing(runtime, { mailbox: reach.mailbox, from, recipients, subject }, { text, html }),
        undefined,
        record,
      );
    },

    async reply(caller, threadId, request, record) {
      if (request.quote) await mailbox.renewHtml(threadId);
      const { toNobody, ...message } = answering(caller, threadId, request);
      if (toNobody) {
        throw new AppError("unprocessable", "There is nobody to answer: the message names no address. Give `to`");
      }
      return submitted(caller, message, threadId, record);
    },

    async draft(caller, threadId, request) {
      if (request.quote) await mailbox.renewHtml(threadId);
      const answer = answering(caller, threadId, request);
      const { from, recipients, composition } = answer;
      const message = await prepareDraft(parts, answer.mailbox.id, composition);
      const draftId = await store.enqueue((tx) => drafts.begin(tx, caller, answer, message, { answers: threadId }));
      const cc = addressesIn(recipients, "cc");
      return {
        ok: true,
        draftId,
        replyToThreadId: threadId,
        from,
        to: listed(addressesIn(recipients, "to")),
        cc: cc.length === 0 ? null : listed(cc),
        subject: message.subject,
      };
    },
  };
}

/** For people: as in a header, names not encoded. */
const listed = (addresses: readonly EmailAddress[]): string =>
  addresses
    .map(({ email, name }) => (name === undefined ? email : `"${name.replace(/["\\]/g, "\\$&")}" <${email}>`))
    .join(", ");

const quotable = ({ from, date, text, html }: AnsweredMessage): NonNullable<Composition["quoted"]> => ({
  from,
  date,
  text,
  ...(html !== undefined && { html }),
});

const sendView = ({ messageId, emailId, threadId, mailboxId, from }: Sent): SendView => ({
  ok: true,
  id: messageId,
  messageId,
  emailId,
  threadId,
  mailboxId,
  from,
});
