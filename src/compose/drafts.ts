/**
 * Drafts in the app: begun, opened, saved as they are written, with files attached, and forwarded messages, which begin as
 * drafts. Each change names the revision that it starts from, so that nobody saves over what they have not seen.
 *
 * Invariant: a draft that is about to be sent does not change; that is undone first.
 */
import { type Caller, notFound, reachOf, reachTo, requireAccess } from "../access/caller.ts";
import { holderOf } from "../access/credentials.ts";
import { AppError } from "../base/errors.ts";
import type { Runtime } from "../base/runtime.ts";
import { type Draft, type DraftFile, transmittedSize, transmittedSizes } from "../mailbox/drafts.ts";
import type { NewDraft } from "../mailbox/filing-rows.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { attachmentView } from "../mailbox/messages.ts";
import type { PreparedMessage } from "../mailbox/prepare.ts";
import type { AttachmentView, MessageView } from "../mailbox/views.ts";
import type { EmailAddress } from "../message/address.ts";
import { type Composition, type ForwardedMessage, forwardedText, forwardSubject } from "../message/composition.ts";
import { withoutBcc } from "../message/original.ts";
import { defaultFilename, safeFilename } from "../message/parse.ts";
import { readRecipients, readUnfinished } from "../message/recipients.ts";
import { requireSize } from "../outbound/accept.ts";
import { type Recipient, recipientsOf, senderFor } from "../outbound/envelope.ts";
import { requireRoom } from "../outbound/guardrails.ts";
import type { Spool } from "../smtp/spool.ts";
import type { Unfinished } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import {
  contentView,
  type DraftContent,
  type DraftRequest,
  type DraftSummary,
  roomFor,
  type SavedDraft,
  savedView,
  summaryView,
} from "./draft-views.ts";
import {
  addressesIn,
  type Outgoing,
  outgoing,
  type PreparingParts,
  prepareDraft,
  requireBodySize,
} from "./outgoing.ts";
import { answerFrom, answerHeaders } from "./reply.ts";

/** A file that somebody attaches. */
export interface Upload {
  filename: string;
  contentType: string;
  /** Bytes, as declared; undefined if they were not. */
  size: number | undefined;
  /** Read only once it is known that the file may be attached. */
  content: AsyncIterable<Uint8Array>;
}

export interface Drafts {
  /** @throws AppError not_found, forbidden, conflict (no draft) */
  openDraft(caller: Caller, draftId: string): DraftContent;
  /** Those that answer a conversation, oldest first. @throws AppError not_found */
  draftsAnswering(caller: Caller, threadId: string): DraftSummary[];
  /** Begins one, in answer to a conversation or to none. @throws AppError not_found, forbidden, payload_too_large, unprocessable */
  createDraft(caller: Caller, request: DraftRequest & { answers?: string | undefined }): Promise<SavedDraft>;
  /** Recipients that cannot be read yet are kept as they were typed. @throws AppError the same, and conflict */
  saveDraft(caller: Caller, draftId: string, request: DraftRequest & { revision: number }): Promise<SavedDraft>;
  /** @throws AppError not_found, forbidden, conflict, payload_too_large, insufficient_storage, what `content` throws */
  attach(caller: Caller, draftId: string, upload: Upload): Promise<AttachmentView>;
  /** @throws AppError not_found, forbidden, conflict */
  detach(caller: Caller, draftId: string, attachmentId: string): Promise<void>;
  /** Begins a draft with all of a message in it. @throws AppError not_found, forbidden (no mailbox to send from), unprocessable (no room) */
  forward(caller: Caller, messageId: string): Promise<SavedDraft>;
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

export interface DraftsParts extends PreparingParts {
  store: Pick<Store, "db" | "enqueue" | "blobs">;
  mailbox: Mailbox;
  runtime: Pick<Runtime, "now" | "randomBytes">;
  spool: Pick<Spool, "keep">;
}

const MOST_FILES = 100;
const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]{1,80}\/[a-z0-9!#$&^_.+-]{1,80}$/;

/** Bytes of text and HTML in the draft; the limit of a message leaves room for some words above them. */
const LARGEST_INLINE = 900_000;

export function createDrafts(parts: DraftsParts): Drafts & DraftWriting {
  const { store, mailbox, options, runtime, spool } = parts;

  /** Checks each time that the caller may send from the address. @throws AppError not_found, forbidden, unprocessable */
  function compose(
    caller: Caller,
    said: { from: string; recipients: Recipient[]; subject: string; content: Pick<Composition, "text" | "html"> },
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
      runtime,
      { mailbox: sender.reach.mailbox, from: sender.address, recipients, subject },
      { ...content, files: draft?.attachments.map(compositionFile) },
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
      // Attachments stay where they are.
      const { files: _, ...composition } = message.composition;
      const prepared = await prepareDraft(parts, message.mailbox.id, composition);
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

  const largestMessage = (): number => options.get("smtp.maxMessageBytes");

  /** @throws AppError conflict */
  function readChangeable(caller: Caller, draftId: string): Draft {
    const draft = mailbox.drafts.read(caller, draftId);
    requireUnscheduled(draft);
    return draft;
  }

  /** The mailbox of the message, if the caller may send from there; else one of their own. @throws AppError forbidden */
  function addressFor(caller: Caller, mailboxId: string): string {
    const reached = [...reachOf(store.db, caller).values()].filter(({ access }) => access.send);
    const chosen =
      reached.find(({ mailbox: { id } }) => id === mailboxId) ??
      reached.find(({ source }) => source === "owner") ??
      reached[0];
    if (!chosen) throw new AppError("forbidden", "You have no mailbox to send from");
    return chosen.mailbox.address;
  }

  async function whole(caller: Caller, message: MessageView): Promise<DraftFile> {
    // Its sender sees the Bcc, but the recipients of the forwarded copy must not (rules: Bcc).
    const bytes = withoutBcc(await mailbox.getRawMessage(caller, message.id));
    const blob = await store.blobs.write(bytes);
    const size = bytes.byteLength;
    return { filename: "forwarded.eml", contentType: "message/rfc822", size, inline: false, contentId: null, blob };
  }

  return {
    ...writing,
    openDraft: (caller, draftId) => contentView(mailbox.drafts.read(caller, draftId), largestMessage()),
    draftsAnswering: (caller, threadId) =>
      mailbox.drafts.answering(caller, threadId).map((id) => summaryView(mailbox.drafts.read(caller, id))),
    createDraft: (caller, request) => writing.keep(caller, request),
    saveDraft: (caller, draftId, request) => writing.keep(caller, request, { draftId }),

    async attach(caller, draftId, { filename, contentType, size: declared = 0, content }) {
      const most = largestMessage();
      const requireFits = (draft: Draft, size: number) => {
        if (draft.attachments.length >= MOST_FILES) {
          throw new AppError("unprocessable", `A message takes at most ${MOST_FILES} attachments`);
        }
        if (draft.size + transmittedSize(size) <= most) return;
        throw new AppError(
          "payload_too_large",
          `The file has ${size} bytes${declared === 0 ? " or more" : ""}; at most ${roomFor(most - draft.size)} more can be attached to this message`,
        );
      };
      const requireKeepable = (draft: Draft, size: number) => {
        requireFits(draft, size);
        const { mailbox: box } = draft.reach;
        requireRoom(mailbox.usage(box.id), transmittedSize(size), box.address);
      };
      // Checked before any of it is read.
      const opened = readChangeable(caller, draftId);
      requireKeepable(opened, declared);
      const kept = await spool.keep(content, (size) => requireKeepable(opened, size));
      try {
        const type = contentType.split(";", 1)[0]?.trim().toLowerCase() ?? "";
        const file = {
          contentType: MEDIA_TYPE.test(type) ? type : "application/octet-stream",
          size: kept.size,
          inline: false,
          contentId: null,
        };
        // Checked again before it becomes a blob, since a refused blob stays until the sweep.
        requireKeepable(readChangeable(caller, draftId), kept.size);
        const blob = await store.blobs.adopt(kept.path, kept.sha256);
        return await store.enqueue((tx) => {
          const draft = readChangeable(caller, draftId);
          requireKeepable(draft, kept.size);
          const name = safeFilename(filename) || defaultFilename(file.contentType, draft.attachments.length);
          mailbox.drafts.attach(tx, draft, [{ ...file, blob, filename: name }]);
          const attached = mailbox.drafts.read(caller, draftId).attachments.at(-1);
          if (!attached) throw new Error("the file that was just attached is not there");
          return attachmentView(attached);
        });
      } finally {
        await kept.dispose();
      }
    },

    async detach(caller, draftId, attachmentId) {
      await store.enqueue((tx) => {
        const draft = readChangeable(caller, draftId);
        if (!draft.attachments.some(({ id }) => id === attachmentId)) throw notFound("attachment");
        mailbox.drafts.detach(tx, draft, attachmentId);
      });
    },

    async forward(caller, messageId) {
      await mailbox.renewHtml(messageId);
      const message = mailbox.getMessage(caller, messageId, { html: true });
      const from = addressFor(caller, message.mailboxId);
      const { to, cc, subject, html } = message;
      const date = Date.parse(message.date);
      const forwarded: ForwardedMessage = { from: message.from, to, cc, subject, date, text: message.text, html };
      const text = forwardedText(forwarded);
      const rich = html === undefined ? undefined : await mailbox.forwardHtml(caller, forwarded);
      const envelope = { from, to: "", subject: forwardSubject(subject) };
      const files = mailbox.filesOf(caller, messageId);
      if (rich !== undefined && Buffer.byteLength(rich) <= LARGEST_INLINE) {
        return writing.keep(caller, { ...envelope, html: rich }, { files });
      }
      if (rich === undefined && Buffer.byteLength(text) <= LARGEST_INLINE) {
        return writing.keep(caller, { ...envelope, text }, { files });
      }
      return writing.keep(caller, { ...envelope, text: "" }, { files: [await whole(caller, message)] });
    },
  };
}

/** @throws AppError conflict */
function requireUnscheduled({ due }: Draft): void {
  if (due) throw new AppError("conflict", "This draft is about to be sent: undo that first");
}

/** @throws AppError conflict */
export function requireUnchanged(draft: Draft, revision: number | undefined): void {
  requireUnscheduled(draft);
  if (draft.revision === revision) return;
  throw new AppError("conflict", "This draft was changed elsewhere since you opened it, so nothing was saved over it");
}

/** Text and HTML of a request. */
function contentOf({ text, html }: DraftRequest, draft: Draft | undefined): Pick<Composition, "text" | "html"> {
  if (html !== undefined) return { html };
  // When the text was changed, the HTML no longer matches it.
  return draft && (text === undefined || text === draft.text) ? { text: draft.text, html: draft.html } : { text };
}

/** @throws AppError unprocessable, when `strict` */
function read(given: string | undefined, strict: boolean): { addresses: EmailAddress[]; rest: string } {
  return strict ? { addresses: readRecipients(given), rest: "" } : readUnfinished(given ?? "");
}

const draftFile = ({ filename, contentType, size, inline, contentId, blob }: DraftFile): DraftFile => ({
  filename,
  contentType,
  size,
  inline,
  contentId,
  blob,
});

const compositionFile = ({ contentId, ...file }: DraftFile) => {
  const { filename, contentType, size, inline, blob } = file;
  return { filename, contentType, size, inline, blob, ...(contentId !== null && { contentId }) };
};
