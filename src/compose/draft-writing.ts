/**
 * Drafts as they are written: what a request says becomes a draft, or takes the place of one. Each change names the
 * revision that it starts from, so that nobody saves over what they have not seen.
 *
 * Invariant: a draft that is about to be sent does not change; that is undone first.
 */
import { type Caller, notFound, reachTo, requireAccess } from "../access/caller.ts";
import { holderOf } from "../access/credentials.ts";
import { AppError } from "../base/errors.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Draft } from "../mailbox/drafts.ts";
import { type DraftFile, transmittedSizes } from "../mailbox/drafts.ts";
import type { NewDraft } from "../mailbox/filing-rows.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import type { PreparedMessage } from "../mailbox/prepare.ts";
import type { EmailAddress } from "../message/address.ts";
import type { Letter } from "../message/letter.ts";
import { readRecipients, readUnfinished } from "../message/recipients.ts";
import { requireSize } from "../outbound/accept.ts";
import { requireRoom } from "../outbound/guardrails.ts";
import { type Recipient, recipientsOf } from "../outbound/recipient.ts";
import { senderFor } from "../outbound/sender.ts";
import type { Unfinished } from "../store/schema.ts";
import type { Options } from "../store/settings.ts";
import type { Store, Tx } from "../store/store.ts";
import { type DraftRequest, type SavedDraft, savedView } from "./draft-views.ts";
import { answerFrom, answerHeaders } from "./reply.ts";
import type { Outgoing } from "./send.ts";

export interface DraftWritingParts {
  store: Pick<Store, "db" | "enqueue">;
  mailbox: Pick<Mailbox, "replyContext" | "file" | "usage" | "drafts">;
  options: Pick<Options, "get">;
  runtime: Pick<Runtime, "now">;
  outgoing(
    envelope: Omit<Outgoing, "messageId" | "letter"> & { subject: string },
    content: Pick<Letter, "text" | "html" | "files">,
    headers: [name: string, value: string][],
  ): Outgoing;
  /** @throws AppError payload_too_large */
  requireBodySize(request: { text?: string | undefined; html?: string | undefined }): void;
  /** @throws AppError payload_too_large, unprocessable, server_error 503 */
  prepareDraft(mailboxId: string, letter: Letter): Promise<PreparedMessage>;
}

export interface DraftWriting {
  /** Files a draft. @throws AppError not_found, unprocessable (no room) */
  begin(
    tx: Tx,
    caller: Caller,
    message: Outgoing,
    prepared: PreparedMessage,
    more: NewDraft,
    files?: DraftFile[],
  ): string;
  /**
   * Saves in place of `draft`, or as a new one. `strict`: every recipient has to be an address. In the same transaction
   * `check` may refuse the draft as it is before, and `also` runs after. @throws AppError as saveDraft, unprocessable
   */
  keep(
    caller: Caller,
    request: DraftRequest & { revision?: number; answers?: string | undefined },
    options?: {
      draftId?: string;
      strict?: boolean;
      files?: DraftFile[];
      check?(draft: Draft): void;
      also?(tx: Tx, draft: Draft): void;
    },
  ): Promise<SavedDraft>;
  /** What would be sent of a request. @throws AppError as saveDraft, unprocessable */
  describe(
    caller: Caller,
    request: DraftRequest,
    more: { draft?: Draft | undefined; answers?: string | undefined; strict: boolean },
  ): Described;
  /** The same of a draft as it is stored. */
  stored(caller: Caller, draft: Draft): Outgoing;
}

interface Described {
  message: Outgoing;
  unfinished: Unfinished;
}

export function createDraftWriting(parts: DraftWritingParts): DraftWriting {
  const { store, mailbox, options, runtime, outgoing, requireBodySize, prepareDraft } = parts;

  /** The sender is asked for their right to the address each time. @throws AppError not_found, forbidden, unprocessable */
  function compose(
    caller: Caller,
    said: { from: string; recipients: Recipient[]; subject: string; content: Pick<Letter, "text" | "html"> },
    answers: string | undefined,
    draft: Draft | undefined,
  ): Outgoing {
    const context = answers === undefined ? undefined : mailbox.replyContext(caller, answers);
    if (context) requireAccess(context.reach, "send");
    const { from, recipients, subject, content } = said;
    const answered = context?.answered;
    const sender =
      context && answered
        ? { reach: context.reach, address: answerFrom(context, answered, from) }
        : senderFor(store.db, caller, from, { alias: true });
    return outgoing(
      { mailbox: sender.reach.mailbox, from: sender.address, recipients, subject },
      { ...content, files: draft?.attachments.map(letterFile) },
      draft?.headers ?? (answered ? answerHeaders(answered) : []),
    );
  }

  const writing: DraftWriting = {
    begin(tx, caller, { mailbox: box, from, recipients }, prepared, more, files = []) {
      // The mailbox, or the share of it, may be gone meanwhile.
      if (!reachTo(tx, caller, box.id)) throw notFound("thread");
      requireRoom(mailbox.usage(box.id), prepared.size + transmittedSizes(files), box.address, "unprocessable");
      const agent = more.agent ?? holderOf(tx, caller);
      const { threadId } = mailbox.file(tx, {
        kind: "draft",
        mailboxId: box.id,
        receivedOn: from,
        message: prepared,
        now: runtime.now(),
        sentBy: caller.userId,
        bcc: addressesIn(recipients, "bcc"),
        draft: { ...more, ...(agent && { agent }) },
      });
      if (files.length > 0) mailbox.drafts.attach(tx, mailbox.drafts.read(caller, threadId), files);
      return threadId;
    },

    describe(caller, request, { draft, answers = draft?.answers, strict }) {
      const fields = { to: read(request.to, strict), cc: read(request.cc, strict), bcc: read(request.bcc, strict) };
      const { to, cc, bcc } = fields;
      const recipients = recipientsOf({ to: to.addresses, cc: cc.addresses, bcc: bcc.addresses });
      const { from, subject = "" } = request;
      const message = compose(
        caller,
        { from, recipients, subject, content: contentOf(request, draft) },
        answers,
        draft,
      );
      return { message, unfinished: { to: to.rest, cc: cc.rest, bcc: bcc.rest } };
    },

    stored(caller, draft) {
      const { from, subject, text, html } = draft;
      const content = { text, html };
      return compose(
        caller,
        { from: from.email, recipients: recipientsOf(draft), subject, content },
        draft.answers,
        draft,
      );
    },

    async keep(caller, request, { draftId, strict = false, files = [], check, also } = {}) {
      requireBodySize(request);
      const draft = draftId === undefined ? undefined : mailbox.drafts.read(caller, draftId);
      if (draft) requireUnchanged(draft, request.revision);
      const { message, unfinished } = writing.describe(caller, request, { draft, answers: request.answers, strict });
      // What is attached stays where it is.
      const { files: _, ...letter } = message.letter;
      const prepared = await prepareDraft(message.mailbox.id, letter);
      const from = prepared.from ?? { email: message.from };
      return store.enqueue((tx) => {
        const present = draft && mailbox.drafts.read(caller, draft.id);
        if (present) {
          requireUnchanged(present, request.revision);
          check?.(present);
        }
        const size = prepared.size + transmittedSizes(present?.attachments ?? files);
        const most = options.get("smtp.maxMessageBytes");
        requireSize({ size }, most);
        let id = present?.id;
        if (present && present.reach.mailbox.id === message.mailbox.id) {
          requireRoom(mailbox.usage(message.mailbox.id), size - present.size, message.mailbox.address);
          mailbox.drafts.change(tx, present, {
            message: { ...prepared, from },
            bcc: addressesIn(message.recipients, "bcc"),
            unfinished,
            userId: caller.userId,
            now: runtime.now(),
          });
        } else {
          const { answers, agent } = { answers: request.answers, ...present };
          const more = { unfinished, ...(answers !== undefined && { answers }), ...(agent && { agent }) };
          id = writing.begin(tx, caller, message, prepared, more, present?.attachments.map(draftFile) ?? files);
          if (present) mailbox.drafts.remove(tx, present);
        }
        const saved = mailbox.drafts.read(caller, id ?? "");
        also?.(tx, saved);
        return savedView(saved, most);
      });
    },
  };

  return writing;
}

/** @throws AppError conflict */
export function requireUnscheduled({ due }: Draft): void {
  if (due) throw new AppError("conflict", "This draft is about to be sent: undo that first");
}

/** @throws AppError conflict */
export function requireUnchanged(draft: Draft, revision: number | undefined): void {
  requireUnscheduled(draft);
  if (draft.revision === revision) return;
  throw new AppError("conflict", "This draft was changed elsewhere since you opened it, so nothing was saved over it");
}

/** Text and HTML of a request. */
function contentOf({ text, html }: DraftRequest, draft: Draft | undefined): Pick<Letter, "text" | "html"> {
  if (html !== undefined) return { html };
  // Of text that was changed, the HTML says something else.
  return draft && (text === undefined || text === draft.text) ? { text: draft.text, html: draft.html } : { text };
}

/** @throws AppError unprocessable, when `strict` */
function read(given: string | undefined, strict: boolean): { addresses: EmailAddress[]; rest: string } {
  return strict ? { addresses: readRecipients(given), rest: "" } : readUnfinished(given ?? "");
}

const draftFile = ({ filename, contentType, size, inline, contentId, blob }: DraftFile): DraftFile => ({
  ...{ filename, contentType, size, inline, contentId, blob },
});

const letterFile = ({ contentId, ...file }: DraftFile) => {
  const { filename, contentType, size, inline, blob } = file;
  return { filename, contentType, size, inline, blob, ...(contentId !== null && { contentId }) };
};

export const addressesIn = (recipients: readonly Recipient[], field: Recipient["field"]): EmailAddress[] =>
  recipients.filter((recipient) => recipient.field === field).map(({ field: _, ...address }) => address);
