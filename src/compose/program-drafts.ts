/**
 * Drafts of programs, over the API: made of the fields of a request, read, changed field by field, and sent now or at a
 * time (rules: Drafts over the API). They are the drafts that people open in the app, and each change names the revision
 * that it starts from.
 */
import { type Caller, requireScope } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import { toIsoTime } from "../base/time.ts";
import { addJournalEntry } from "../journal/entries.ts";
import { trashDraft } from "../mailbox/changing/change.ts";
import { type Draft, readDraft, removeDraft, transmittedSizes } from "../mailbox/changing/drafts.ts";
import { getMessage } from "../mailbox/reading/messages.ts";
import { renewSanitizedHtml } from "../mailbox/reading/stored-html.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { readMailboxUsage } from "../mailbox/state/mailboxes.ts";
import { decodeWords } from "../message/headers.ts";
import { readRecipients } from "../message/recipients.ts";
import { requireMessageSize } from "../outbound/accept.ts";
import { mergeRecipients, requireMailboxSpace, resolveSender } from "../outbound/guardrails.ts";
import type { SendCore } from "../outbound/send-core.ts";
import type { Core, Reader } from "../store/core.ts";
import type { Tx } from "../store/store.ts";
import type { ParsingCore } from "../workers/parsing-core.ts";
import { type OutgoingFile, storeFiles } from "./attached-files.ts";
import { sendLater } from "./draft-sending.ts";
import { ADDED_FIELD, type OutgoingMessage, readAddedHeaderFields, requireBodySize } from "./outgoing.ts";
import type { DraftFields, DraftPatch, DraftSendRequest, Timed } from "./requests.ts";
import type { ProgramDraftView, SendView } from "./sending-views.ts";
import { submitOutgoing } from "./submit.ts";
import { composeDraft, messageOfDraft, requireDraftUnchanged, storeDraft } from "./write-drafts.ts";

/** Records an answer in the transaction that makes it true; may run twice, the first time rolled back. */
type RecordIn<T> = (tx: Tx, answer: T) => void;

const NO_TEXT = { to: "", cc: "", bcc: "" };

function buildProgramDraftView(reader: Reader, caller: Caller, draft: Draft): ProgramDraftView {
  const { id, emailId, revision, reach, from, replyTo, answers = null, savedAt, due, refusal } = draft;
  const { to, cc, bcc, subject, text, html, attachments } = getMessage(reader, caller, emailId, { html: true });
  const added = draft.headers.filter(([name]) => ADDED_FIELD.test(name));
  const headers = Object.fromEntries(added.map(([name, value]) => [name, decodeWords(value)]));
  return {
    id,
    draftId: id,
    emailId,
    revision,
    mailboxId: reach.mailbox.id,
    from: from.email,
    to,
    cc,
    ...(bcc && { bcc }),
    ...(replyTo.length > 0 && { replyTo }),
    ...(Object.keys(headers).length > 0 && { headers }),
    subject,
    text,
    ...(html !== undefined && { html }),
    attachments,
    replyToThreadId: answers,
    savedAt: toIsoTime(savedAt),
    ...(due && { sendAt: toIsoTime(due.at) }),
    ...(refusal !== undefined && { refusal }),
  };
}

/** Makes files durable, once they are known to fit. @throws AppError payload_too_large, unprocessable */
async function keepFiles(core: Core, { mailbox: box }: OutgoingMessage, files: readonly OutgoingFile[]) {
  const size = transmittedSizes(files);
  requireMessageSize({ size }, core.options.get("smtp.maxMessageBytes"));
  requireMailboxSpace(readMailboxUsage(core, box.id), size, box.address, "unprocessable");
  return storeFiles(files);
}

/** The message after a change. @throws AppError not_found, forbidden, unprocessable */
function changed(core: Core, caller: Caller, draft: Draft, fields: DraftFields): OutgoingMessage {
  const { from, text, html, subject = draft.subject, replyTo, headers } = fields;
  if (from !== undefined && draft.answers === undefined) resolveSender(core.db, caller, from, { alias: false });
  const list = (name: "to" | "cc" | "bcc") => (fields[name] === undefined ? draft[name] : readRecipients(fields[name]));
  const isReplaced = (name: string): boolean =>
    /^reply-to$/i.test(name) ? replyTo !== undefined : ADDED_FIELD.test(name) && headers !== undefined;
  return composeDraft(
    core,
    caller,
    {
      from: from ?? draft.from.email,
      recipients: mergeRecipients({ to: list("to"), cc: list("cc"), bcc: list("bcc") }),
      subject,
      // HTML does not match a changed text.
      content: text === undefined && html === undefined ? { text: draft.text, html: draft.html } : { text, html },
    },
    draft.answers,
    { ...draft, headers: [...draft.headers.filter(([name]) => !isReplaced(name)), ...readAddedHeaderFields(fields)] },
  );
}

/** Keeps a new message as a draft. @throws AppError payload_too_large, unprocessable */
export async function createProgramDraft(
  core: ParsingCore,
  caller: Caller,
  message: OutgoingMessage,
  record: RecordIn<ProgramDraftView>,
  files: readonly OutgoingFile[],
): Promise<ProgramDraftView> {
  const stored = await keepFiles(core, message, files);
  return storeDraft(
    core,
    caller,
    { message, answers: undefined, unfinished: NO_TEXT },
    {
      files: stored,
      also(tx, draft) {
        const view = buildProgramDraftView(core, caller, draft);
        addJournalEntry(tx, caller, { ids: [view.id] }, core.now());
        record(tx, view);
        return view;
      },
    },
  );
}

/** Reads a draft. @throws AppError not_found, conflict (it is not a draft) */
export async function getProgramDraft(core: MailCore, caller: Caller, draftId: string): Promise<ProgramDraftView> {
  await renewSanitizedHtml(core, draftId);
  return buildProgramDraftView(core, caller, readDraft(core.db, caller, draftId, "read"));
}

/**
 * Changes the fields that are given; `files` replace the attachments. `record` is called in the transaction.
 * @throws AppError not_found, forbidden, missing_scope, conflict, payload_too_large, unprocessable, insufficient_storage
 */
export async function changeProgramDraft(
  core: ParsingCore,
  caller: Caller,
  draftId: string,
  { revision, ...fields }: DraftPatch,
  record: RecordIn<ProgramDraftView>,
  files?: readonly OutgoingFile[],
): Promise<ProgramDraftView> {
  requireBodySize(fields);
  const draft = readDraft(core.db, caller, draftId);
  // The answer has all of it.
  if (draft.writtenBy === undefined || draft.writtenBy !== caller.keyId) requireScope(caller, "read");
  requireDraftUnchanged(draft, revision);
  const message = changed(core, caller, draft, fields);
  const { to, cc, bcc } = draft.unfinished;
  const unfinished = {
    to: fields.to === undefined ? to : "",
    cc: fields.cc === undefined ? cc : "",
    bcc: fields.bcc === undefined ? bcc : "",
  };
  return storeDraft(
    core,
    caller,
    { message, answers: draft.answers, unfinished },
    {
      draft,
      revision,
      files: files && (await keepFiles(core, message, files)),
      also(tx, saved) {
        const view = buildProgramDraftView(core, caller, saved);
        addJournalEntry(tx, caller, { ids: [view.id], changes: 1 }, core.now());
        record(tx, view);
        return view;
      },
    },
  );
}

/** Moves a draft to trash, also one that is about to be sent. @throws AppError not_found, forbidden, conflict */
export function discardProgramDraft({ now }: Reader, tx: Tx, caller: Caller, draftId: string): void {
  const { id } = readDraft(tx, caller, draftId);
  trashDraft(tx, caller, id, now());
  addJournalEntry(tx, caller, { ids: [draftId], changes: 1 }, now());
}

/**
 * Sends a draft as it is stored, now or at a time (epoch ms). `revision`: the one that the caller has seen.
 * @throws AppError as sendMessage, not_found, conflict
 */
export async function sendProgramDraft(
  core: SendCore,
  caller: Caller,
  draftId: string,
  { revision, at }: Timed<DraftSendRequest>,
  record: RecordIn<SendView>,
): Promise<SendView> {
  const draft = readDraft(core.db, caller, draftId);
  requireDraftUnchanged(draft, revision ?? draft.revision);
  requireFinished(draft);
  const message = messageOfDraft(core, caller, draft);
  const remove = (tx: Tx, { held }: Pick<SendView, "held">) => {
    const present = readDraft(tx, caller, draftId);
    requireDraftUnchanged(present, draft.revision);
    requireSameFiles(present, draft);
    // A held message may end unsent, and is then deleted: what a person wrote stays in trash.
    if (held && present.writtenBy === undefined) trashDraft(tx, caller, present.id, core.now());
    else removeDraft(tx, present);
  };
  if (at !== undefined) return sendLater(core, caller, message, { at, draft, remove }, record);
  return submitOutgoing(core, caller, message, draft.answers, (tx, sent) => {
    remove(tx, sent);
    record(tx, sent);
  });
}

/** @throws AppError unprocessable */
function requireFinished({ to, cc, bcc, unfinished, text, html, attachments }: Draft): void {
  if (Object.values(unfinished).some((typed) => typed.trim() !== "")) {
    throw new AppError("unprocessable", "The draft has text in its recipient fields that is no address");
  }
  if (to.length + cc.length + bcc.length === 0) {
    throw new AppError("unprocessable", "There is no recipient: give the draft one");
  }
  if (text.trim() === "" && html === undefined && attachments.length === 0) {
    throw new AppError("unprocessable", "The draft has neither text nor html");
  }
}

/** @throws AppError conflict */
function requireSameFiles(present: Draft, seen: Draft): void {
  const joinAttachmentIds = ({ attachments }: Draft): string => attachments.map(({ id }) => id).join();
  if (joinAttachmentIds(present) === joinAttachmentIds(seen)) return;
  throw new AppError("conflict", "The attachments of this draft were changed meanwhile");
}
