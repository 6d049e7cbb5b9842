/**
 * Drafts in the app: created, opened, saved while they are written, with files attached; forwarded messages begin as
 * drafts. Each change names the revision that it starts from, so that nobody overwrites a change that they have not
 * seen.
 *
 * Invariant: a draft that is scheduled for sending does not change; the sending is undone first.
 */
import { eq, sql } from "drizzle-orm";
import { type Caller, findReach, findReachableMailboxes, outOfReachError, requireAccess } from "../access/caller.ts";
import { findKeyHolder } from "../access/credentials.ts";
import { AppError } from "../base/errors.ts";
import { toIsoTime } from "../base/time.ts";
import { trashDraft } from "../mailbox/changing/change.ts";
import {
  attachFiles,
  changeDraft,
  type Draft,
  detachFile,
  draftsAnswering,
  markDraftEditedByPerson,
  readDraft,
  removeDraft,
  replaceDraftFiles,
  transmittedSize,
  transmittedSizes,
} from "../mailbox/changing/drafts.ts";
import { fileMessage } from "../mailbox/filing/filing.ts";
import type { NewDraft } from "../mailbox/filing/filing-rows.ts";
import type { PreparedMessage } from "../mailbox/filing/prepare.ts";
import {
  attachmentView,
  getMessage,
  listReusableAttachments,
  type StoredFile,
  storedFile,
  writtenContent,
} from "../mailbox/reading/messages.ts";
import { renderForwardedHtml, renewSanitizedHtml } from "../mailbox/reading/stored-html.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { readMailboxUsage, resolveMailboxId } from "../mailbox/state/mailboxes.ts";
import { readSignatureAndTemplates, signatureBlock } from "../mailbox/state/texts.ts";
import type { AttachmentView } from "../mailbox/state/views.ts";
import type { EmailAddress } from "../message/address.ts";
import { formatAddress } from "../message/compose.ts";
import { type Composition, forwardedText, forwardSubject } from "../message/composition.ts";
import { readContentType } from "../message/content-type.ts";
import { decodeWords } from "../message/headers.ts";
import { defaultFilename, safeFilename } from "../message/parse.ts";
import { readRecipients, readUnfinishedRecipients } from "../message/recipients.ts";
import { htmlOfText } from "../message/text.ts";
import { requireMessageSize } from "../outbound/accept.ts";
import { getHeld } from "../outbound/approval.ts";
import { mergeRecipients, requireMailboxSpace, resolveSender } from "../outbound/guardrails.ts";
import type { SendCore } from "../outbound/send-core.ts";
import type { Core, Reader } from "../store/core.ts";
import { type DraftAgent, type RecipientField, threads, type Unfinished } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Db, NotAPromise, Tx } from "../store/store.ts";
import type { ParsingCore } from "../workers/parsing-core.ts";
import { compositionFile, MESSAGE_FILE, readMessageToAttach, toForwardedFile } from "./attached-files.ts";
import {
  createOutgoingMessage,
  listRecipientsInField,
  type OutgoingMessage,
  prepareDraft,
  requireBodySize,
  toForwardedMessage,
} from "./outgoing.ts";
import { readReplyContext, replyHeaders, replySender, TRANSMITTABLE_ID } from "./reply.ts";
import type { DraftRequest } from "./requests.ts";

export interface SavedDraft {
  /** Id of its conversation. A draft that is moved to another mailbox, to be sent from there, gets a new one. */
  draftId: string;
  /** The next change must name it. */
  revision: number;
  /** ISO 8601. */
  savedAt: string;
  attachments: AttachmentView[];
  /** Bytes that can still be attached. */
  room: number;
}

/** A draft as it is opened. */
export interface DraftContent extends SavedDraft {
  /** Id of its message. */
  emailId: string;
  from: string;
  to: EmailAddress[];
  cc: EmailAddress[];
  bcc: EmailAddress[];
  /** Text in the recipient fields that is not an address yet. */
  unfinished: Unfinished;
  subject: string;
  text: string;
  /** True if it has an HTML part, which is then the one to edit. */
  html: boolean;
  /** Fields that a program added to its header, and that go out, too; decoded. */
  added?: { name: string; value: string }[];
  /** Id of the conversation that it replies to. */
  answers: string | null;
  /** The API key that created or changed it, if one did. */
  agent: DraftAgent | null;
  /** When it is sent, ISO 8601; null for one that is not scheduled. */
  dueAt: string | null;
  /** Why it could not be sent when it was due. */
  refusal: string | null;
}

/** A draft before it is opened: without recipients, which only the person who opens it to send it sees (rules: Bcc). */
export type DraftSummary = Pick<DraftContent, "draftId" | "subject" | "text" | "agent" | "dueAt" | "refusal">;

/** A message that is to be kept as a draft. */
export interface Described {
  message: OutgoingMessage;
  /** Id of the conversation that it replies to. */
  answers: string | undefined;
  unfinished: Unfinished;
}

/** A file that somebody attaches. */
export interface Upload {
  filename: string;
  contentType: string;
  /** Bytes, as declared; undefined if they were not. */
  size: number | undefined;
  /** Read only once it is known that the file may be attached. */
  content: AsyncIterable<Uint8Array>;
}

const MOST_FILES = 100;

/** Most bytes of a forwarded text in the draft itself; the limit for a message leaves room for some words above it. */
const LARGEST_INLINE = 900_000;

/** Checks that the caller may send from the address. @throws AppError not_found, forbidden, unprocessable */
export function composeDraft(
  core: Core,
  caller: Caller,
  {
    from,
    recipients,
    subject,
    content,
    messageId,
  }: Pick<OutgoingMessage, "from" | "recipients"> & {
    subject: string;
    content: Pick<Composition, "text" | "html">;
    messageId?: string;
  },
  answers: string | undefined,
  draft: Draft | undefined,
): OutgoingMessage {
  const context = answers === undefined ? undefined : readReplyContext(core.db, caller, answers);
  if (context) requireAccess(context.reach, "send");
  const answered = context?.answered;
  const sender =
    context && answered
      ? { reach: context.reach, address: replySender(context, answered, from) }
      : resolveSender(core.db, caller, from, { alias: true });
  return createOutgoingMessage(
    core,
    {
      mailbox: sender.reach.mailbox,
      from: sender.address,
      recipients,
      subject,
      ...(messageId !== undefined && { messageId }),
    },
    { ...content, files: draft?.attachments.map(compositionFile) },
    draft?.headers ?? (answered ? replyHeaders(answered) : []),
  );
}

/**
 * The address of a mailbox if the caller may send from there, else of another, preferably their own.
 * @throws AppError forbidden
 */
export function chooseSenderAddress({ db }: Reader, caller: Caller, mailboxId?: string): string {
  const reached = [...findReachableMailboxes(db, caller).values()].filter(({ access }) => access.send);
  const chosen =
    reached.find(({ mailbox: { id } }) => id === mailboxId) ??
    reached.find(({ source }) => source === "owner") ??
    reached[0];
  if (!chosen) throw new AppError("forbidden", "You have no mailbox to send from");
  return chosen.mailbox.address;
}

/**
 * The text that a person wrote last, before a key replaces it; undefined if a key wrote it, because a key's text is not kept.
 */
async function formerVersion(
  core: ParsingCore,
  caller: Caller,
  draft: Draft,
): Promise<{ message: OutgoingMessage; prepared: PreparedMessage } | undefined> {
  if (draft.writtenBy !== undefined) return undefined;
  const message = messageOfDraft(core, caller, draft);
  const { files: _, ...composition } = message.composition;
  return { message, prepared: await prepareDraft(core, message.mailbox.id, composition) };
}

/** Puts that version into trash, where people find it and undo takes it from (rules: What a key cannot delete). */
function keepFormer(
  core: MailCore,
  tx: Tx,
  caller: Caller,
  { unfinished, answers, agent, attachments }: Draft,
  { message, prepared }: { message: OutgoingMessage; prepared: PreparedMessage },
): void {
  const more = { unfinished, ...(answers !== undefined && { answers }), ...(agent && { agent }) };
  const { keyId: _, ...person } = caller;
  const id = fileDraft(core, tx, person, message, prepared, more, attachments.map(storedFile));
  trashDraft(tx, caller, id, core.now());
}

/** Files a new draft; returns the id of its conversation. @throws AppError not_found, unprocessable (no room) */
export function fileDraft(
  core: MailCore,
  tx: Tx,
  caller: Caller,
  { mailbox: box, from, recipients }: OutgoingMessage,
  prepared: PreparedMessage,
  more: NewDraft,
  files: readonly StoredFile[] = [],
): string {
  // The mailbox, or the caller's share of it, may have ended meanwhile.
  if (!findReach(tx, caller, box.id)) throw outOfReachError("thread");
  requireMailboxSpace(
    readMailboxUsage(core, box.id),
    prepared.size + transmittedSizes(files),
    box.address,
    "unprocessable",
  );
  const agent = more.agent ?? findKeyHolder(tx, caller);
  const { threadId } = fileMessage(core, tx, {
    kind: "draft",
    mailboxId: box.id,
    receivedOn: from,
    message: prepared,
    now: core.now(),
    sentBy: caller.userId,
    bcc: listRecipientsInField(recipients, "bcc"),
    draft: { ...more, ...(agent && { agent }), ...(caller.keyId !== undefined && { writtenBy: caller.keyId }) },
  });
  if (files.length > 0) attachFiles(core, tx, readDraft(tx, caller, threadId), files);
  return threadId;
}

/** The message that a request describes. @throws AppError as saveDraft, unprocessable */
export function readDraftRequest(
  core: Core,
  caller: Caller,
  request: DraftRequest,
  {
    draft,
    answers = draft?.answers,
    strict,
  }: { draft?: Draft | undefined; answers?: string | undefined; strict: boolean },
): Described {
  const to = readField(request.to, strict);
  const cc = readField(request.cc, strict);
  const bcc = readField(request.bcc, strict);
  const recipients = mergeRecipients({ to: to.addresses, cc: cc.addresses, bcc: bcc.addresses });
  const { from, subject = "" } = request;
  const content = chooseDraftContent(request, draft);
  const message = composeDraft(core, caller, { from, recipients, subject, content }, answers, draft);
  return { message, answers, unfinished: { to: to.rest, cc: cc.rest, bcc: bcc.rest } };
}

/** The message of a stored draft, which keeps its Message-ID. @throws AppError not_found, forbidden, unprocessable */
export function messageOfDraft(core: Core, caller: Caller, draft: Draft): OutgoingMessage {
  const { subject, text, html, messageId = "" } = draft;
  const fields = { from: draft.from.email, recipients: mergeRecipients(draft), subject, content: { text, html } };
  const described = { ...fields, ...(TRANSMITTABLE_ID.test(messageId) && { messageId }) };
  return composeDraft(core, caller, described, draft.answers, draft);
}

/**
 * Saves a message in place of `draft`, which must still have the revision, or as a new draft. `files` replace those
 * of the draft. In the transaction `check` may refuse the draft as it is before, and `also` runs at the end: its
 * result is the result.
 * @throws AppError as saveDraft, unprocessable
 */
export async function storeDraft<T>(
  core: ParsingCore,
  caller: Caller,
  { message, unfinished, answers }: Described,
  {
    draft,
    revision,
    files,
    asWritten = false,
    check,
    also,
  }: {
    draft?: Draft | undefined;
    revision?: number | undefined;
    files?: readonly StoredFile[] | undefined;
    /** The content stays as it is, and whose it is. */
    asWritten?: boolean;
    check?: ((draft: Draft) => void) | undefined;
    also(tx: Tx, draft: Draft): NotAPromise<T>;
  },
): Promise<T> {
  // Without its files, which are stored already.
  const { files: _, ...composition } = message.composition;
  const prepared = await prepareDraft(core, message.mailbox.id, composition);
  const former =
    draft && caller.keyId !== undefined && !asWritten ? await formerVersion(core, caller, draft) : undefined;
  const from = prepared.from ?? { email: message.from };
  const bcc = listRecipientsInField(message.recipients, "bcc");
  return core.store.enqueue((tx) => {
    const present = draft && readDraft(tx, caller, draft.id);
    if (present) {
      requireDraftUnchanged(present, revision);
      check?.(present);
    }
    if (present && former) keepFormer(core, tx, caller, present, former);
    const attached = files ?? present?.attachments ?? [];
    const size = prepared.size + transmittedSizes(attached);
    requireMessageSize({ size }, largestMessage(core));
    let id = present?.id ?? "";
    if (present && present.reach.mailbox.id === message.mailbox.id) {
      requireMailboxSpace(readMailboxUsage(core, message.mailbox.id), size - present.size, message.mailbox.address);
      const { userId } = caller;
      const keyId = asWritten ? present.writtenBy : caller.keyId;
      const agent = present.agent ?? (asWritten ? undefined : findKeyHolder(tx, caller));
      const change = { message: { ...prepared, from }, bcc, unfinished, userId, keyId, agent, now: core.now() };
      changeDraft(core, tx, present, change);
      if (files) replaceDraftFiles(core, tx, readDraft(tx, caller, id), files);
    } else {
      const { agent } = { ...present };
      const more = { unfinished, ...(answers !== undefined && { answers }), ...(agent && { agent }) };
      id = fileDraft(core, tx, caller, message, prepared, more, attached.map(storedFile));
      if (present) removeDraft(tx, present);
    }
    return also(tx, readDraft(tx, caller, id));
  });
}

/**
 * Saves what a person wrote in place of the draft `draftId`, which must still have the revision, or as a new draft with `files`,
 * which may reply to a conversation. Recipients that are not addresses yet are kept as typed.
 * @throws AppError not_found, forbidden, conflict, payload_too_large, unprocessable
 */
export async function saveDraft(
  core: ParsingCore,
  caller: Caller,
  request: DraftRequest & { revision?: number; answers?: string | undefined },
  { draftId, files }: { draftId?: string; files?: readonly StoredFile[] } = {},
): Promise<SavedDraft> {
  requireBodySize(request);
  const draft = draftId === undefined ? undefined : readDraft(core.db, caller, draftId);
  if (draft) requireDraftUnchanged(draft, request.revision);
  const described = readDraftRequest(core, caller, request, { draft, answers: request.answers, strict: false });
  const { revision } = request;
  const also = (_: Tx, saved: Draft): SavedDraft => savedView(saved, largestMessage(core));
  return storeDraft(core, caller, described, { draft, revision, files, also });
}

/** Bytes. */
const largestMessage = ({ options }: Core): number => options.get("smtp.maxMessageBytes");

/** @throws AppError conflict */
function readChangeable(db: Db, caller: Caller, draftId: string): Draft {
  const draft = readDraft(db, caller, draftId);
  requireUnscheduled(draft);
  return draft;
}

/** A message as a file. */
async function messageFile(core: MailCore, caller: Caller, id: string): Promise<StoredFile> {
  const bytes = await readMessageToAttach(core, caller, id);
  const blob = await core.blobs.write(bytes);
  const size = bytes.byteLength;
  return { ...MESSAGE_FILE, unnamed: false, size, inline: false, contentId: null, alternative: false, blob };
}

/** @throws AppError not_found, forbidden, conflict (it is not a draft) */
export const openDraft = (core: Core, caller: Caller, draftId: string): DraftContent =>
  contentView(readDraft(core.db, caller, draftId), largestMessage(core));

/** The drafts that reply to a conversation, oldest first. @throws AppError not_found */
export const listReplyDrafts = (reader: Reader, caller: Caller, threadId: string): DraftSummary[] =>
  draftsAnswering(reader, caller, threadId).map((id) => summaryView(readDraft(reader.db, caller, id)));

/** @throws AppError not_found, forbidden, conflict, payload_too_large, insufficient_storage; errors of `content` */
export async function attachToDraft(
  core: SendCore,
  caller: Caller,
  draftId: string,
  { filename, contentType, size: declared = 0, content }: Upload,
): Promise<AttachmentView> {
  const { db, store, spool } = core;
  const most = largestMessage(core);
  const requireFits = (draft: Draft, size: number) => {
    if (draft.attachments.length >= MOST_FILES) {
      throw new AppError("unprocessable", `A message takes at most ${MOST_FILES} attachments`);
    }
    if (draft.size + transmittedSize(size) <= most) return;
    throw new AppError(
      "payload_too_large",
      `The file is ${size} bytes${declared === 0 ? " or more" : ""}; at most ${roomFor(most - draft.size)} more can be attached to this message`,
    );
  };
  const requireKeepable = (draft: Draft, size: number) => {
    requireFits(draft, size);
    const { mailbox: box } = draft.reach;
    requireMailboxSpace(readMailboxUsage(core, box.id), transmittedSize(size), box.address);
  };
  // Checked before any of the file is read.
  const opened = readChangeable(db, caller, draftId);
  requireKeepable(opened, declared);
  const spooledFile = await spool.keep(content, (size) => requireKeepable(opened, size));
  try {
    const file = {
      ...readContentType(contentType),
      size: spooledFile.size,
      unnamed: false,
      inline: false,
      contentId: null,
      alternative: false,
    };
    // Checked again before it becomes a blob, since a refused blob stays until the sweep.
    requireKeepable(readChangeable(db, caller, draftId), spooledFile.size);
    const blob = await store.blobs.adopt(spooledFile.path, spooledFile.sha256);
    return await store.enqueue((tx) => {
      const draft = readChangeable(tx, caller, draftId);
      requireKeepable(draft, spooledFile.size);
      const name = safeFilename(filename) || defaultFilename(file.contentType, draft.attachments.length);
      attachFiles(core, tx, draft, [{ ...file, blob, filename: name }]);
      markDraftEditedByPerson(tx, draft);
      const attached = readDraft(tx, caller, draftId).attachments.at(-1);
      if (!attached) throw new Error("the file that was just attached is not there");
      return attachmentView(attached);
    });
  } finally {
    await spooledFile.dispose();
  }
}

/** @throws AppError not_found, forbidden, conflict */
export async function detachFromDraft(
  core: MailCore,
  caller: Caller,
  draftId: string,
  attachmentId: string,
): Promise<void> {
  await core.store.enqueue((tx) => {
    const draft = readChangeable(tx, caller, draftId);
    if (!draft.attachments.some(({ id }) => id === attachmentId)) throw outOfReachError("attachment");
    detachFile(core, tx, draft, attachmentId);
    markDraftEditedByPerson(tx, draft);
  });
}

/**
 * Creates a draft that contains a whole message.
 * @throws AppError not_found, forbidden (no mailbox to send from), unprocessable (no room)
 */
export async function createForwardDraft(core: ParsingCore, caller: Caller, messageId: string): Promise<SavedDraft> {
  const { db } = core;
  await renewSanitizedHtml(core, messageId);
  const message = getMessage(core, caller, messageId, { html: true });
  const from = chooseSenderAddress(core, caller, message.mailboxId);
  const { subject, html } = message;
  const forwarded = toForwardedMessage(message);
  const signature = signatureBlock(readSignatureAndTemplates(db, resolveMailboxId(db, caller, from)).signature);
  const text = signature + forwardedText(forwarded);
  const below = html === undefined ? undefined : await renderForwardedHtml(core, caller, forwarded);
  const rich = below === undefined ? undefined : htmlOfText(signature) + below;
  const envelope = { from, to: "", subject: forwardSubject(subject) };
  const files = listReusableAttachments(core, caller, messageId).map(toForwardedFile);
  if (rich !== undefined && Buffer.byteLength(rich) <= LARGEST_INLINE) {
    return saveDraft(core, caller, { ...envelope, html: rich }, { files });
  }
  if (rich === undefined && Buffer.byteLength(text) <= LARGEST_INLINE) {
    return saveDraft(core, caller, { ...envelope, text }, { files });
  }
  return saveDraft(core, caller, { ...envelope, text: "" }, { files: [await messageFile(core, caller, messageId)] });
}

/**
 * Creates a draft of the caller's own with what a held message has, which stays as it is.
 * @throws AppError not_found, forbidden, payload_too_large, unprocessable (no room)
 */
export async function copyHeldToDraft(core: ParsingCore, caller: Caller, messageId: string): Promise<SavedDraft> {
  const { recipients, subject, answers } = getHeld(core, caller, messageId);
  const { from } = getMessage(core, caller, messageId, { html: false });
  const field = (name: RecipientField) => listRecipientsInField(recipients, name).map(formatAddress).join(", ");
  const request = {
    from: from.email,
    ...{ to: field("to"), cc: field("cc"), bcc: field("bcc") },
    subject,
    ...writtenContent(core, caller, messageId),
    ...(answers !== null && isThread(core.db, answers) && { answers }),
  };
  return saveDraft(core, caller, request, { files: listReusableAttachments(core, caller, messageId) });
}

const threadById = prepared((db) =>
  db
    .select({ id: threads.id })
    .from(threads)
    .where(eq(threads.id, sql.placeholder("id")))
    .prepare(),
);

/** False for a conversation that was deleted. */
const isThread = (db: Db, id: string): boolean => threadById(db).get({ id }) !== undefined;

/** Characters of the text in a summary. */
const LONGEST_BEGINNING = 300;

/** `most`: the setting smtp.maxMessageBytes. */
const savedView = (draft: Draft, most: number): SavedDraft => ({
  draftId: draft.id,
  revision: draft.revision,
  savedAt: toIsoTime(draft.savedAt),
  attachments: draft.attachments.map(attachmentView),
  room: roomFor(most - draft.size),
});

const contentView = (draft: Draft, most: number): DraftContent => ({
  ...savedView(draft, most),
  ...addedIn(draft),
  emailId: draft.emailId,
  from: draft.from.email,
  to: draft.to,
  cc: draft.cc,
  bcc: draft.bcc,
  unfinished: draft.unfinished,
  subject: draft.subject,
  text: draft.text,
  html: draft.html !== undefined,
  answers: draft.answers ?? null,
  ...toDraftState(draft),
});

function addedIn({ headers }: Draft): Pick<DraftContent, "added"> {
  const added = headers.filter(([name]) => !/^(?:in-reply-to|references)$/i.test(name));
  return added.length === 0 ? {} : { added: added.map(([name, value]) => ({ name, value: decodeWords(value) })) };
}

const summaryView = (draft: Draft): DraftSummary => ({
  draftId: draft.id,
  subject: draft.subject,
  text: draft.text.slice(0, LONGEST_BEGINNING).toWellFormed(),
  ...toDraftState(draft),
});

const toDraftState = ({ agent, due, refusal }: Draft): Pick<DraftContent, "agent" | "dueAt" | "refusal"> => ({
  agent: agent ?? null,
  dueAt: due === undefined ? null : toIsoTime(due.at),
  refusal: refusal ?? null,
});

/** The largest file, in bytes, that fits a message which may grow by `left` bytes. */
const roomFor = (left: number): number => Math.max(0, Math.floor((left - transmittedSize(0)) / 78) * 57);

/** @throws AppError conflict */
function requireUnscheduled({ due }: Draft): void {
  if (due) throw new AppError("conflict", "This draft is about to be sent: undo that first");
}

/** @throws AppError conflict */
export function requireDraftUnchanged(draft: Draft, revision: number | undefined): void {
  requireUnscheduled(draft);
  if (draft.revision === revision) return;
  throw new AppError(
    "conflict",
    "This draft was changed elsewhere since you opened it, so your changes were not saved",
  );
}

/** The text and HTML of a draft after a request. */
function chooseDraftContent(
  { text, html }: DraftRequest,
  draft: Draft | undefined,
): Pick<Composition, "text" | "html"> {
  if (html !== undefined) return { html };
  // The person saw the HTML: a text that an agent wrote beside it may say something else.
  if (draft?.html !== undefined && text === undefined) return { html: draft.html };
  // HTML does not match a changed text.
  return draft && (text === undefined || text === draft.text) ? { text: draft.text, html: draft.html } : { text };
}

/** Reads a recipient field. @throws AppError unprocessable if it is invalid and `strict` */
function readField(given: string | undefined, strict: boolean): { addresses: EmailAddress[]; rest: string } {
  return strict ? { addresses: readRecipients(given), rest: "" } : readUnfinishedRecipients(given ?? "");
}
