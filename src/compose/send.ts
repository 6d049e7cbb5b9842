/**
 * Sends and drafts for the API: makes messages of the fields of requests (rules: Send request, Reply request, Drafts).
 * Refuses in the order of rules: Order of refusals: size, conversation, permission, then the fields.
 */

import { type Caller, requireAccess } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import { isoOf } from "../base/time.ts";
import { noteDeed } from "../journal/entries.ts";
import { type Draft, transmittedSizes } from "../mailbox/drafts.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { ReceivedMessage } from "../mailbox/received.ts";
import type { EmailAddress } from "../message/address.ts";
import {
  type Composition,
  type ForwardedMessage,
  forwardSubject,
  quotedText,
  withoutImages,
} from "../message/composition.ts";
import { readRecipients } from "../message/recipients.ts";
import {
  type GuardParts,
  requireAcceptable,
  requireSize,
  type Sent,
  type Submission,
  type Submit,
} from "../outbound/accept.ts";
import type { Approvals } from "../outbound/approval.ts";
import { recipientsOf, requireRoom, type Sender, senderFor } from "../outbound/guardrails.ts";
import type { Store, Tx } from "../store/store.ts";
import type { ParserPool } from "../workers/parser-pool.ts";
import { createDraftSending } from "./draft-sending.ts";
import { compositionFile, createDrafts } from "./drafts.ts";
import {
  type FileKeeper,
  type KeptFile,
  type OutgoingFile,
  readAttachments,
  readable,
  storedAgain,
  storeFiles,
} from "./files.ts";
import {
  addedFields,
  addressesIn,
  forwardedFrom,
  type Outgoing,
  outgoing,
  prepareDraft,
  requireBodySize,
} from "./outgoing.ts";
import { createProgramDrafts } from "./program-drafts.ts";
import {
  type AnsweredMessage,
  readReplyContext,
  replyHeaders,
  replyRecipients,
  replySender,
  replySubject,
} from "./reply.ts";
import type {
  AttachmentRequest,
  DraftReplyArguments,
  Forwarding,
  NewDraftRequest,
  ReplyArguments,
  SendRequest,
  Timed,
} from "./requests.ts";
import type { DraftView, ProgramDraftView, SendView } from "./views.ts";

/** A message that the server writes for a person. */
export interface WrittenFor extends Pick<Composition, "text" | "calendar"> {
  about: ReceivedMessage;
  /** By default the address at which `about` arrived, if that is still usable. */
  from?: string;
  to: string;
  subject: string;
  headers?: Composition["headers"];
  /** True: it joins the conversation. */
  joins?: boolean;
}

/** Records the response in the accepting transaction; may run twice, the first time rolled back. */
export type RecordResponse = (tx: Tx, response: SendView) => void;

/** The defaults of a reply to a conversation. */
export interface ReplyDefaults {
  from: string;
  /** Empty if there is nobody to reply to. */
  to: EmailAddress[];
  cc: EmailAddress[];
  subject: string;
  /** The answered message, quoted, to go below the reply. */
  quote: string;
}

export type Sending = ReturnType<typeof createSending>;

/** The part that the API uses. */
export type ApiSending = Pick<
  Sending,
  | "readFiles"
  | "send"
  | "reply"
  | "approvals"
  | "draft"
  | "newDraft"
  | "getProgramDraft"
  | "changeProgramDraft"
  | "discardProgramDraft"
  | "sendProgramDraft"
>;

/** Most characters quoted in a reply that is written in the app, which leaves room for the reply. */
const LONGEST_QUOTE = 200_000;

export function createSending(
  parts: Omit<GuardParts, "store" | "mailbox"> & {
    store: Pick<Store, "db" | "enqueue" | "blobs">;
    mailbox: Mailbox;
    parser: Pick<ParserPool, "prepare">;
    submit: Submit;
    spool: FileKeeper;
    approvals: Approvals;
    /** Wakes a job that has work now, or will have it sooner than it expects. */
    wake(job: string): void;
  },
) {
  const { store, mailbox, submit, runtime, log } = parts;
  /** `files` become durable once the guardrails have passed the message. */
  async function submitOutgoing(
    caller: Caller,
    { composition, ...message }: Outgoing & Pick<Submission, "isDue" | "heldUntil">,
    threadId?: string,
    record?: RecordResponse,
    files: readonly OutgoingFile[] = [],
  ): Promise<SendView> {
    const submission = {
      caller,
      ...message,
      ...(threadId !== undefined && { threadId }),
      bytes: sizeOf(files),
      compose: async () =>
        files.length === 0 ? composition : { ...composition, files: (await storeFiles(files)).map(compositionFile) },
    };
    return sendView(await submit(submission, record && ((tx, sent) => record(tx, sendView(sent)))));
  }

  /** The message of a conversation that a reply answers. @throws AppError not_found, forbidden, unprocessable */
  function answeredIn(caller: Caller, threadId: string) {
    const context = readReplyContext(store.db, caller, threadId);
    const { reach, answered } = context;
    requireAccess(reach, "send");
    if (!answered) {
      throw new AppError("unprocessable", "This conversation has no message to reply to");
    }
    return { context, answered };
  }

  /** The reply that a request describes. @throws AppError payload_too_large, not_found, forbidden, unprocessable */
  function replyOf(
    caller: Caller,
    threadId: string,
    request: DraftReplyArguments,
    forwarded?: ForwardedMessage,
  ): Outgoing & { toNobody: boolean } {
    const { context, answered } = answeredIn(caller, threadId);
    const { reach } = context;
    const from = replySender(context, answered, request.from);
    const given = readRecipients(request.to);
    const computed =
      given.length > 0 ? { to: given, cc: [] } : replyRecipients(context, answered, { all: request.replyAll === true });
    const recipients = recipientsOf({
      to: computed.to,
      cc: [...computed.cc, ...readRecipients(request.cc)],
      bcc: readRecipients(request.bcc),
    });
    const subject = request.subject ?? replySubject(answered.subject);
    const quoted = request.quote === true ? quotable(answered) : undefined;
    return {
      ...outgoing(
        runtime,
        { mailbox: reach.mailbox, from, recipients, subject },
        { text: request.text, html: request.html, quoted, forwarded },
        [...replyHeaders(answered), ...addedFields(request)],
      ),
      toNobody: computed.to.length + computed.cc.length === 0,
    };
  }

  /** The message that a request forwards, and the files that go along. @throws AppError unprocessable */
  async function forwardedBy(
    caller: Caller,
    { forward: id, forwardAttachments = true }: Forwarding,
  ): Promise<{ forwarded?: ForwardedMessage; files: OutgoingFile[] }> {
    if (id === undefined) return { files: [] };
    const find = () => readable("message to forward", () => mailbox.getMessage(caller, id, { html: true }));
    find();
    await mailbox.renewHtml(id);
    const forwarded = forwardedFrom(find());
    const files = forwardAttachments ? mailbox.filesOf(caller, id).map(storedAgain) : [];
    return { forwarded: files.length > 0 ? forwarded : withoutImages(forwarded), files };
  }

  /** A reply, and its files. @throws AppError payload_too_large, not_found, forbidden, unprocessable */
  async function newReply(
    caller: Caller,
    threadId: string,
    request: DraftReplyArguments,
    files: readonly OutgoingFile[],
  ): Promise<{ reply: ReturnType<typeof replyOf>; files: OutgoingFile[] }> {
    requireBodySize(request);
    if (request.quote) await mailbox.renewHtml(threadId);
    // The conversation is refused first.
    if (request.forward !== undefined) answeredIn(caller, threadId);
    const original = await forwardedBy(caller, request);
    return { reply: replyOf(caller, threadId, request, original.forwarded), files: [...files, ...original.files] };
  }

  const { drafts, writing } = createDrafts(parts);
  const { job, schedule, ...draftSending } = createDraftSending({
    store,
    mailbox,
    requireAcceptable: (...asked) => requireAcceptable(parts, ...asked),
    submitOutgoing,
    runtime,
    log,
    writing,
    onScheduled: () => parts.wake(job.name),
  });

  /**
   * Keeps a message as a draft that is sent at a time, instead of `draft` or as a new one; one that has to wait for a
   * person is held until then. @throws AppError as Submit
   */
  async function sendLater(
    caller: Caller,
    message: Outgoing,
    {
      at,
      draft,
      remove,
      answers,
      files,
    }: {
      at: number;
      draft?: Draft;
      /** Takes the draft away when the message is held instead. */
      remove?: (tx: Tx, sent: SendView) => void;
      answers?: string;
      files?: readonly OutgoingFile[];
    },
    record?: RecordResponse,
  ): Promise<SendView> {
    const threadId = draft?.answers ?? answers;
    const size = draft?.size ?? sizeOf(files ?? []);
    const held = await requireAcceptable(parts, { caller, ...message, threadId }, size);
    if (held !== undefined) {
      return submitOutgoing(
        caller,
        { ...message, heldUntil: at },
        threadId,
        (tx, view) => {
          remove?.(tx, view);
          record?.(tx, view);
        },
        files,
      );
    }
    const { mailbox: box, from, messageId } = message;
    return schedule(
      caller,
      { message, answers: draft?.answers ?? answers, unfinished: { to: "", cc: "", bcc: "" } },
      {
        at,
        draft,
        revision: draft?.revision,
        files: files && (await storeFiles(files)),
        also(tx, { id }) {
          const threadId = draft?.answers ?? answers ?? id;
          const view: SendView = {
            ...sendView({ messageId, emailId: null, threadId, mailboxId: box.id, from }),
            scheduled: true,
            sendAt: isoOf(at),
            draftId: id,
          };
          record?.(tx, view);
          return view;
        },
      },
    );
  }

  /** A new message, and its files. `from`: where it comes from. @throws AppError unprocessable */
  async function newMessage(
    caller: Caller,
    { reach, address: from }: Sender,
    request: NewDraftRequest,
    files: readonly OutgoingFile[],
  ): Promise<{ message: Outgoing; files: OutgoingFile[] }> {
    const { forwarded, files: along } = await forwardedBy(caller, request);
    const recipients = recipientsOf({
      to: readRecipients(request.to),
      cc: readRecipients(request.cc),
      bcc: readRecipients(request.bcc),
    });
    const { text, html, subject = forwarded ? forwardSubject(forwarded.subject) : "" } = request;
    const message = outgoing(
      runtime,
      { mailbox: reach.mailbox, from, recipients, subject },
      { text, html, forwarded },
      addedFields(request),
    );
    return { message, files: [...files, ...along] };
  }

  const { createProgramDraft, ...programDrafts } = createProgramDrafts({
    ...parts,
    writing,
    submitOutgoing,
    sendLater,
  });

  return {
    ...drafts,
    ...draftSending,
    ...programDrafts,
    approvals: parts.approvals,
    job,

    /**
     * Reads the attachments of a request. `uploads`: the files that came with it; more are added, to be disposed of with
     * the request. @throws AppError payload_too_large, unprocessable, bad_request
     */
    readFiles: (
      caller: Caller,
      attachments: readonly AttachmentRequest[],
      uploads: KeptFile[],
    ): Promise<OutgoingFile[]> => readAttachments(parts, caller, attachments, uploads),

    /** The defaults of a reply, before anybody writes it. @throws AppError not_found, forbidden, unprocessable */
    replyDefaults(caller: Caller, threadId: string, options: { all: boolean }): ReplyDefaults {
      const { context, answered } = answeredIn(caller, threadId);
      const { to, cc } = replyRecipients(context, answered, options);
      const { from, date, text } = answered;
      return {
        from: replySender(context, answered, undefined),
        to,
        cc,
        subject: replySubject(answered.subject),
        quote: quotedText({ from, date, text: text.slice(0, LONGEST_QUOTE).toWellFormed() }),
      };
    },

    /**
     * Accepts a new message. @throws AppError payload_too_large, forbidden, unprocessable, locked, rate_limited,
     * upstream_failed, insufficient_storage; then nothing was stored
     */
    async send(
      caller: Caller,
      request: Timed<SendRequest>,
      record?: RecordResponse,
      files: readonly OutgoingFile[] = [],
    ): Promise<SendView> {
      requireBodySize(request);
      const sender = senderFor(store.db, caller, request.from, { alias: false });
      const { message, files: all } = await newMessage(caller, sender, request, files);
      if (message.recipients.length === 0) {
        throw new AppError("unprocessable", "There is no recipient: `to` is empty");
      }
      const { at } = request;
      if (at !== undefined) return sendLater(caller, message, { at, files: all }, record);
      return submitOutgoing(caller, message, undefined, record, all);
    },

    /**
     * Accepts a message that the server writes for a person who pressed a button at a received one. @throws AppError
     * forbidden; as `send`
     */
    async sendFor(
      caller: Caller,
      { about, from, to, subject, headers = [], joins = false, ...content }: WrittenFor,
      record?: RecordResponse,
    ): Promise<SendView> {
      const { reach, threadId } = about;
      requireAccess(reach, "send");
      const context = readReplyContext(store.db, caller, threadId);
      const address = replySender(context, { kind: "received", ...about }, from);
      const recipients = recipientsOf({ to: readRecipients(to), cc: [], bcc: [] });
      const envelope = { mailbox: reach.mailbox, from: address, recipients, subject };
      return submitOutgoing(
        caller,
        outgoing(runtime, envelope, content, headers),
        joins ? threadId : undefined,
        record,
      );
    },

    /**
     * Keeps a new message as a draft, of which any field may be missing; it comes from the caller's own mailbox unless
     * `from` says otherwise. @throws AppError payload_too_large, forbidden, unprocessable
     */
    async newDraft(
      caller: Caller,
      request: NewDraftRequest,
      record: (tx: Tx, view: ProgramDraftView) => void,
      files: readonly OutgoingFile[] = [],
    ): Promise<ProgramDraftView> {
      requireBodySize(request);
      const from = request.from ?? writing.addressFor(caller);
      const sender = senderFor(store.db, caller, from, { alias: false });
      const { message, files: all } = await newMessage(caller, sender, request, files);
      return createProgramDraft(caller, message, record, all);
    },

    /** Accepts a reply to a conversation. @throws AppError as send, not_found */
    async reply(
      caller: Caller,
      threadId: string,
      request: Timed<ReplyArguments>,
      record?: RecordResponse,
      files: readonly OutgoingFile[] = [],
    ): Promise<SendView> {
      const { reply, files: all } = await newReply(caller, threadId, request, files);
      const { toNobody, ...message } = reply;
      if (toNobody) {
        throw new AppError("unprocessable", "The message has no address to reply to: give `to`");
      }
      const { at } = request;
      if (at !== undefined) return sendLater(caller, message, { at, answers: threadId, files: all }, record);
      return submitOutgoing(caller, message, threadId, record, all);
    },

    /** Keeps a reply as a draft. @throws AppError payload_too_large, not_found, forbidden, unprocessable */
    async draft(
      caller: Caller,
      threadId: string,
      request: DraftReplyArguments,
      files: readonly OutgoingFile[] = [],
    ): Promise<DraftView> {
      const { reply, files: all } = await newReply(caller, threadId, request, files);
      const { from, recipients, composition } = reply;
      const message = await prepareDraft(parts, reply.mailbox.id, composition);
      const size = message.size + transmittedSizes(all);
      requireSize({ size }, parts.options.get("smtp.maxMessageBytes"));
      requireRoom(mailbox.usage(reply.mailbox.id), size, reply.mailbox.address, "unprocessable");
      const stored = await storeFiles(all);
      const draftId = await store.enqueue((tx) => {
        const id = writing.begin(tx, caller, reply, message, { answers: threadId }, stored);
        noteDeed(tx, caller, { ids: [id, threadId] }, runtime.now());
        return id;
      });
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

const sizeOf = (files: readonly OutgoingFile[]): number => files.reduce((sum, { size }) => sum + size, 0);

/** Addresses as in a header, for people: names are not encoded. */
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

const sendView = ({
  messageId,
  emailId,
  threadId,
  mailboxId,
  from,
  held,
  sendAt,
}: Omit<Sent, "emailId"> & Pick<SendView, "emailId">): SendView => ({
  ok: true,
  id: messageId,
  messageId,
  emailId,
  threadId,
  mailboxId,
  from,
  ...(held && { held }),
  ...(sendAt !== undefined && { sendAt: isoOf(sendAt) }),
});
