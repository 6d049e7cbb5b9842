/**
 * Sends and drafts for the API: makes messages of the fields of requests (rules: Send request, Reply request, Drafts).
 * Refuses in the order of rules: Order of refusals: size, conversation, permission, then the fields.
 */
import { type Caller, requireAccess } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import { addJournalEntry } from "../journal/entries.ts";
import { transmittedSizes } from "../mailbox/changing/drafts.ts";
import { maskMessageForCaller } from "../mailbox/reading/masked-codes.ts";
import { getMessage, listReusableAttachments } from "../mailbox/reading/messages.ts";
import { renewSanitizedHtml } from "../mailbox/reading/stored-html.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { readMailboxUsage } from "../mailbox/state/mailboxes.ts";
import type { ReceivedMessage } from "../mailbox/state/received.ts";
import type { EmailAddress } from "../message/address.ts";
import {
  type Composition,
  type ForwardedMessage,
  forwardSubject,
  quotedText,
  withoutImages,
} from "../message/composition.ts";
import { readRecipients } from "../message/recipients.ts";
import { requireMessageSize } from "../outbound/accept.ts";
import { mergeRecipients, requireMailboxSpace, resolveSender, type Sender } from "../outbound/guardrails.ts";
import type { SendCore } from "../outbound/send-core.ts";
import type { Core, Reader } from "../store/core.ts";
import type { Tx } from "../store/store.ts";
import type { ParsingCore } from "../workers/parsing-core.ts";
import { type OutgoingFile, readReferencedContent, reuseStoredFile, storeFiles } from "./attached-files.ts";
import { sendLater } from "./draft-sending.ts";
import {
  createOutgoingMessage,
  listRecipientsInField,
  type OutgoingMessage,
  prepareDraft,
  readAddedHeaderFields,
  requireBodySize,
  toForwardedMessage,
} from "./outgoing.ts";
import { createProgramDraft } from "./program-drafts.ts";
import {
  type AnsweredMessage,
  readReplyContext,
  replyHeaders,
  replyRecipients,
  replySender,
  replySubject,
} from "./reply.ts";
import type {
  DraftReplyArguments,
  Forwarding,
  NewDraftRequest,
  ReplyArguments,
  SendRequest,
  Timed,
} from "./requests.ts";
import type { DraftView, ProgramDraftView, SendView } from "./sending-views.ts";
import { type RecordResponse, submitOutgoing } from "./submit.ts";
import { chooseSenderAddress, fileDraft } from "./write-drafts.ts";

/** A message that the server writes for a person. */
export interface WrittenFor extends Pick<Composition, "text"> {
  about: ReceivedMessage;
  /** Sender's address. The default is the address at which `about` arrived, if that is still usable. */
  from?: string;
  to: string;
  subject: string;
  headers?: Composition["headers"];
  files?: readonly OutgoingFile[];
  /** True: it joins the conversation. */
  joins?: boolean;
}

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

/** Most characters quoted in a reply that is written in the app, which leaves room for the reply. */
const LONGEST_QUOTE = 200_000;

/** The message of a conversation that a reply answers. @throws AppError not_found, forbidden, unprocessable */
function answeredIn({ db }: Reader, caller: Caller, threadId: string) {
  const context = readReplyContext(db, caller, threadId);
  const { reach, answered } = context;
  requireAccess(reach, "send");
  if (!answered) {
    throw new AppError("unprocessable", "This conversation has no message to reply to");
  }
  return { context, answered };
}

/** The reply that a request describes. @throws AppError payload_too_large, not_found, forbidden, unprocessable */
function composeReply(
  core: Core,
  { context, answered }: ReturnType<typeof answeredIn>,
  request: DraftReplyArguments,
  forwarded?: ForwardedMessage,
): OutgoingMessage & { toNobody: boolean } {
  const { reach } = context;
  const from = replySender(context, answered, request.from);
  const given = readRecipients(request.to);
  const computed =
    given.length > 0 ? { to: given, cc: [] } : replyRecipients(context, answered, { all: request.replyAll === true });
  const recipients = mergeRecipients({
    to: computed.to,
    cc: [...computed.cc, ...readRecipients(request.cc)],
    bcc: readRecipients(request.bcc),
  });
  const subject = request.subject ?? replySubject(answered.subject);
  const quoted = request.quote === true ? quotable(answered) : undefined;
  return {
    ...createOutgoingMessage(
      core,
      { mailbox: reach.mailbox, from, recipients, subject },
      { text: request.text, html: request.html, quoted, forwarded },
      [...replyHeaders(answered), ...readAddedHeaderFields(request)],
    ),
    toNobody: computed.to.length + computed.cc.length === 0,
  };
}

/** The message that a request forwards, and the files that go along. @throws AppError unprocessable */
async function forwardedBy(
  core: MailCore,
  caller: Caller,
  { forward: id, forwardAttachments = true }: Forwarding,
): Promise<{ forwarded?: ForwardedMessage; files: OutgoingFile[] }> {
  if (id === undefined) return { files: [] };
  const find = () => readReferencedContent("message to forward", () => getMessage(core, caller, id, { html: true }));
  find();
  await renewSanitizedHtml(core, id);
  const forwarded = toForwardedMessage(await maskMessageForCaller(core, caller, find()));
  const files: OutgoingFile[] = [];
  for (const file of forwardAttachments ? listReusableAttachments(core, caller, id) : [])
    files.push(await reuseStoredFile(core, caller, { file, emailId: id }));
  return { forwarded: files.length > 0 ? forwarded : withoutImages(forwarded), files };
}

/** A reply, and its files. @throws AppError payload_too_large, not_found, forbidden, unprocessable */
async function newReply(
  core: MailCore,
  caller: Caller,
  threadId: string,
  request: DraftReplyArguments,
  files: readonly OutgoingFile[],
): Promise<{ reply: ReturnType<typeof composeReply>; files: OutgoingFile[] }> {
  requireBodySize(request);
  if (request.quote) await renewSanitizedHtml(core, threadId);
  // The conversation is refused first.
  if (request.forward !== undefined) answeredIn(core, caller, threadId);
  const original = await forwardedBy(core, caller, request);
  const found = answeredIn(core, caller, threadId);
  await maskMessageForCaller(core, caller, found.answered);
  return {
    reply: composeReply(core, found, request, original.forwarded),
    files: [...files, ...original.files],
  };
}

/** A new message, and its files. `from`: where it comes from. @throws AppError unprocessable */
async function newMessage(
  core: MailCore,
  caller: Caller,
  { reach, address: from }: Sender,
  request: NewDraftRequest,
  files: readonly OutgoingFile[],
): Promise<{ message: OutgoingMessage; files: OutgoingFile[] }> {
  const { forwarded, files: along } = await forwardedBy(core, caller, request);
  const recipients = mergeRecipients({
    to: readRecipients(request.to),
    cc: readRecipients(request.cc),
    bcc: readRecipients(request.bcc),
  });
  const { text, html, subject = forwarded ? forwardSubject(forwarded.subject) : "" } = request;
  const message = createOutgoingMessage(
    core,
    { mailbox: reach.mailbox, from, recipients, subject },
    { text, html, forwarded },
    readAddedHeaderFields(request),
  );
  return { message, files: [...files, ...along] };
}

/** The defaults of a reply, before anybody writes it. @throws AppError not_found, forbidden, unprocessable */
export function replyDefaults(
  reader: Reader,
  caller: Caller,
  threadId: string,
  options: { all: boolean },
): ReplyDefaults {
  const { context, answered } = answeredIn(reader, caller, threadId);
  const { to, cc } = replyRecipients(context, answered, options);
  const { from, date, text } = answered;
  return {
    from: replySender(context, answered, undefined),
    to,
    cc,
    subject: replySubject(answered.subject),
    quote: quotedText({ from, date, text: text.slice(0, LONGEST_QUOTE).toWellFormed() }),
  };
}

/**
 * Accepts a new message. @throws AppError payload_too_large, forbidden, unprocessable, locked, rate_limited,
 * upstream_failed, insufficient_storage; then nothing was stored
 */
export async function sendMessage(
  core: SendCore,
  caller: Caller,
  request: Timed<SendRequest>,
  record?: RecordResponse,
  files: readonly OutgoingFile[] = [],
): Promise<SendView> {
  requireBodySize(request);
  const sender = resolveSender(core.db, caller, request.from, { alias: false });
  const { message, files: all } = await newMessage(core, caller, sender, request, files);
  if (message.recipients.length === 0) {
    throw new AppError("unprocessable", "There is no recipient: `to` is empty");
  }
  const { at } = request;
  if (at !== undefined) return sendLater(core, caller, message, { at, files: all }, record);
  return submitOutgoing(core, caller, message, undefined, record, all);
}

/**
 * Accepts a message that the server writes for a person who pressed a button at a received one. @throws AppError
 * forbidden; as sendMessage
 */
export async function sendMessageOnBehalf(
  core: SendCore,
  caller: Caller,
  { about, from, to, subject, text, headers = [], files, joins = false }: WrittenFor,
  record?: RecordResponse,
): Promise<SendView> {
  const { reach, threadId } = about;
  requireAccess(reach, "send");
  const context = readReplyContext(core.db, caller, threadId);
  const address = replySender(context, { kind: "received", ...about }, from);
  const recipients = mergeRecipients({ to: readRecipients(to), cc: [], bcc: [] });
  const envelope = { mailbox: reach.mailbox, from: address, recipients, subject };
  return submitOutgoing(
    core,
    caller,
    createOutgoingMessage(core, envelope, { text }, headers),
    joins ? threadId : undefined,
    record,
    files,
  );
}

/**
 * Keeps a new message as a draft, of which any field may be missing; it comes from the caller's own mailbox unless
 * `from` says otherwise. @throws AppError payload_too_large, forbidden, unprocessable
 */
export async function newDraft(
  core: ParsingCore,
  caller: Caller,
  request: NewDraftRequest,
  record: (tx: Tx, view: ProgramDraftView) => void,
  files: readonly OutgoingFile[] = [],
): Promise<ProgramDraftView> {
  requireBodySize(request);
  const from = request.from ?? chooseSenderAddress(core, caller);
  const sender = resolveSender(core.db, caller, from, { alias: false });
  const { message, files: all } = await newMessage(core, caller, sender, request, files);
  return createProgramDraft(core, caller, message, record, all);
}

/** Accepts a reply to a conversation. @throws AppError as sendMessage, not_found */
export async function sendReply(
  core: SendCore,
  caller: Caller,
  threadId: string,
  request: Timed<ReplyArguments>,
  record?: RecordResponse,
  files: readonly OutgoingFile[] = [],
): Promise<SendView> {
  const { reply, files: all } = await newReply(core, caller, threadId, request, files);
  const { toNobody, ...message } = reply;
  if (toNobody) {
    throw new AppError("unprocessable", "The message has no address to reply to: give `to`");
  }
  const { at } = request;
  if (at !== undefined) return sendLater(core, caller, message, { at, answers: threadId, files: all }, record);
  return submitOutgoing(core, caller, message, threadId, record, all);
}

/** Keeps a reply as a draft. @throws AppError payload_too_large, not_found, forbidden, unprocessable */
export async function createReplyDraft(
  core: ParsingCore,
  caller: Caller,
  threadId: string,
  request: DraftReplyArguments,
  files: readonly OutgoingFile[] = [],
): Promise<DraftView> {
  const { reply, files: all } = await newReply(core, caller, threadId, request, files);
  const { from, recipients, composition } = reply;
  const message = await prepareDraft(core, reply.mailbox.id, composition);
  const size = message.size + transmittedSizes(all);
  requireMessageSize({ size }, core.options.get("smtp.maxMessageBytes"));
  requireMailboxSpace(readMailboxUsage(core, reply.mailbox.id), size, reply.mailbox.address, "unprocessable");
  const stored = await storeFiles(all);
  const draftId = await core.store.enqueue((tx) => {
    const id = fileDraft(core, tx, caller, reply, message, { answers: threadId }, stored);
    addJournalEntry(tx, caller, { ids: [id, threadId] }, core.now());
    return id;
  });
  const cc = listRecipientsInField(recipients, "cc");
  return {
    ok: true,
    draftId,
    replyToThreadId: threadId,
    from,
    to: listed(listRecipientsInField(recipients, "to")),
    cc: cc.length === 0 ? null : listed(cc),
    subject: message.subject,
  };
}

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
