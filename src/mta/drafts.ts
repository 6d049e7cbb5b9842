/**
 * Drafts before they are sent: begun, opened, saved as they are written, with files attached. Each change names the
 * revision that it starts from, so that nobody saves over what they have not seen.
 *
 * Invariant: a draft that is about to be sent does not change; that is undone first.
 */
import { type Caller, notFound, reachTo, requireAccess } from "../access/caller.ts";
import { holderOf } from "../access/credentials.ts";
import { AppError } from "../errors.ts";
import { type DraftFile, transmittedSize, transmittedSizes } from "../mailbox/draft-changes.ts";
import type { Draft } from "../mailbox/drafts.ts";
import type { NewDraft } from "../mailbox/filing.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { attachmentView } from "../mailbox/message-view.ts";
import type { PreparedMessage } from "../mailbox/prepare.ts";
import type { AttachmentView } from "../mailbox/views.ts";
import type { EmailAddress } from "../message/address.ts";
import { defaultFilename, safeFilename } from "../message/parse.ts";
import { readRecipients, readUnfinished } from "../message/recipients.ts";
import type { Runtime } from "../runtime.ts";
import type { Options } from "../store/options.ts";
import type { DraftAgent, Unfinished } from "../store/schema.ts";
import type { Store, Tx } from "../store/store.ts";
import { answerFrom, answerHeaders } from "./answer.ts";
import type { Letter } from "./letter.ts";
import { requireRoom } from "./limits.ts";
import { type Recipient, recipientsOf } from "./recipient.ts";
import { senderFor } from "./sender.ts";
import type { Outgoing } from "./sending.ts";
import { requireSize } from "./submit.ts";

/** A draft as it is opened. */
export interface DraftContent extends SavedDraft {
  from: string;
  to: EmailAddress[];
  cc: EmailAddress[];
  bcc: EmailAddress[];
  /** What was typed beside them and is no address yet. */
  unfinished: Unfinished;
  subject: string;
  text: string;
  /** Whether it has an HTML part, to be edited as such. */
  html: boolean;
  /** Id of the conversation that it answers. */
  answers: string | null;
  /** The API key that it was made with, if it was. */
  agent: DraftAgent | null;
  /** When it is sent, ISO 8601; null for one that nobody has sent. */
  dueAt: string | null;
  /** Why it was not sent when it was due. */
  refusal: string | null;
}

/** A draft before it is opened: without its recipients, for who opens it to send it sees them (contract: Bcc). */
export type DraftSummary = Pick<DraftContent, "draftId" | "subject" | "text" | "agent" | "dueAt" | "refusal">;

/** What it is to say. */
export interface DraftRequest {
  from: string;
  to: string;
  cc?: string | undefined;
  bcc?: string | undefined;
  subject?: string | undefined;
  /** Instead of text and HTML that are there; the HTML stays while the text does. */
  text?: string | undefined;
  /** Instead of both; the text is derived. */
  html?: string | undefined;
}

export interface SavedDraft {
  /** Of its conversation; another than before when it moved to another mailbox, to be sent from there. */
  draftId: string;
  /** To be named by the next change. */
  revision: number;
  /** ISO 8601. */
  savedAt: string;
  attachments: AttachmentView[];
  /** Bytes that can still be attached. */
  room: number;
}

/** A file that somebody attaches. */
export interface Upload {
  filename: string;
  contentType: string;
  bytes: Uint8Array;
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
  /** @throws AppError not_found, forbidden, conflict, payload_too_large, insufficient_storage */
  attach(caller: Caller, draftId: string, upload: Upload): Promise<AttachmentView>;
  /** @throws AppError not_found, forbidden, conflict */
  detach(caller: Caller, draftId: string, attachmentId: string): Promise<void>;
}

export interface DraftsParts {
  store: Pick<Store, "db" | "enqueue" | "blobs">;
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
  prepareDraft(letter: Letter): Promise<PreparedMessage>;
}

/** What the other half of drafts, and the API, have of this one. */
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
   * Saves in place of `draft`, or as a new one. `strict`: every recipient has to be an address. `also` runs in the same
   * transaction. @throws AppError as saveDraft, unprocessable
   */
  keep(
    caller: Caller,
    request: DraftRequest & { revision?: number; answers?: string | undefined },
    options?: { draftId?: string; strict?: boolean; files?: DraftFile[]; also?(tx: Tx, draft: Draft): void },
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

const MOST_FILES = 100;
/** Characters of a draft that are shown before it is opened. */
const LONGEST_BEGINNING = 300;
const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]{1,80}\/[a-z0-9!#$&^_.+-]{1,80}$/;

export function createDrafts(parts: DraftsParts): { drafts: Drafts; writing: DraftWriting } {
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

    async keep(caller, request, { draftId, strict = false, files = [], also } = {}) {
      requireBodySize(request);
      const draft = draftId === undefined ? undefined : mailbox.drafts.read(caller, draftId);
      if (draft) requireUnchanged(draft, request.revision);
      const { message, unfinished } = writing.describe(caller, request, { draft, answers: request.answers, strict });
      // What is attached stays where it is.
      const { files: _, ...letter } = message.letter;
      const prepared = await prepareDraft(letter);
      const from = prepared.from ?? { email: message.from };
      return store.enqueue((tx) => {
        const present = draft && mailbox.drafts.read(caller, draft.id);
        if (present) requireUnchanged(present, request.revision);
        const size = prepared.size + transmittedSizes(present?.attachments ?? files);
        requireSize({ size }, options.get("smtp.maxMessageBytes"));
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
        return savedView(saved);
      });
    },
  };

  /** @throws AppError conflict */
  function readChangeable(caller: Caller, draftId: string): Draft {
    const draft = mailbox.drafts.read(caller, draftId);
    requireUnscheduled(draft);
    return draft;
  }

  const savedView = (draft: Draft): SavedDraft => ({
    draftId: draft.id,
    revision: draft.revision,
    savedAt: new Date(draft.savedAt).toISOString(),
    attachments: draft.attachments.map(attachmentView),
    room: roomFor(options.get("smtp.maxMessageBytes") - draft.size),
  });

  const contentView = (draft: Draft): DraftContent => ({
    ...savedView(draft),
    from: draft.from.email,
    to: draft.to,
    cc: draft.cc,
    bcc: draft.bcc,
    unfinished: draft.unfinished,
    subject: draft.subject,
    text: draft.text,
    html: draft.html !== undefined,
    answers: draft.answers ?? null,
    agent: draft.agent ?? null,
    dueAt: draft.due === undefined ? null : new Date(draft.due.at).toISOString(),
    refusal: draft.refusal ?? null,
  });

  const drafts: Drafts = {
    openDraft: (caller, draftId) => contentView(mailbox.drafts.read(caller, draftId)),
    draftsAnswering: (caller, threadId) =>
      mailbox.drafts.answering(caller, threadId).map((id) => {
        const { draftId, subject, text, agent, dueAt, refusal } = contentView(mailbox.drafts.read(caller, id));
        return { draftId, subject, text: text.slice(0, LONGEST_BEGINNING).toWellFormed(), agent, dueAt, refusal };
      }),
    createDraft: (caller, request) => writing.keep(caller, request),
    saveDraft: (caller, draftId, request) => writing.keep(caller, request, { draftId }),

    async attach(caller, draftId, { filename, contentType, bytes }) {
      const most = options.get("smtp.maxMessageBytes");
      const requireFits = (draft: Draft) => {
        if (draft.attachments.length >= MOST_FILES) {
          throw new AppError("unprocessable", `A message takes at most ${MOST_FILES} attachments`);
        }
        if (draft.size + transmittedSize(bytes.byteLength) <= most) return;
        throw new AppError(
          "payload_too_large",
          `The file has ${bytes.byteLength} bytes; at most ${roomFor(most - draft.size)} more can be attached to this message`,
        );
      };
      requireFits(readChangeable(caller, draftId));
      const type = contentType.split(";", 1)[0]?.trim().toLowerCase() ?? "";
      const file = {
        contentType: MEDIA_TYPE.test(type) ? type : "application/octet-stream",
        size: bytes.byteLength,
        inline: false,
        contentId: null,
        blob: await store.blobs.write(bytes),
      };
      return store.enqueue((tx) => {
        const draft = readChangeable(caller, draftId);
        requireFits(draft);
        const { mailbox: box } = draft.reach;
        requireRoom(mailbox.usage(box.id), transmittedSize(file.size), box.address);
        const name = safeFilename(filename) || defaultFilename(file.contentType, draft.attachments.length);
        mailbox.drafts.attach(tx, draft, [{ ...file, filename: name }]);
        const attached = mailbox.drafts.read(caller, draftId).attachments.at(-1);
        if (!attached) throw new Error("the file that was just attached is not there");
        return attachmentView(attached);
      });
    },

    async detach(caller, draftId, attachmentId) {
      await store.enqueue((tx) => {
        const draft = readChangeable(caller, draftId);
        if (!draft.attachments.some(({ id }) => id === attachmentId)) throw notFound("attachment");
        mailbox.drafts.detach(tx, draft, attachmentId);
      });
    },
  };
  return { drafts, writing };
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
function contentOf({ text, html }: DraftRequest, draft: Draft | undefined): Pick<Letter, "text" | "html"> {
  if (html !== undefined) return { html };
  // Of text that was changed, the HTML says something else.
  return draft && (text === undefined || text === draft.text) ? { text: draft.text, html: draft.html } : { text };
}

/** @throws AppError unprocessable, when `strict` */
function read(given: string | undefined, strict: boolean): { addresses: EmailAddress[]; rest: string } {
  return strict ? { addresses: readRecipients(given), rest: "" } : readUnfinished(given ?? "");
}

/** Bytes of a file that fit where a message has so many left. */
const roomFor = (left: number): number => Math.max(0, Math.floor((left - transmittedSize(0)) / 78) * 57);

const draftFile = ({ filename, contentType, size, inline, contentId, blob }: DraftFile): DraftFile => ({
  ...{ filename, contentType, size, inline, contentId, blob },
});

const letterFile = ({ contentId, ...file }: DraftFile) => {
  const { filename, contentType, size, inline, blob } = file;
  return { filename, contentType, size, inline, blob, ...(contentId !== null && { contentId }) };
};

export const addressesIn = (recipients: readonly Recipient[], field: Recipient["field"]): EmailAddress[] =>
  recipients.filter((recipient) => recipient.field === field).map(({ field: _, ...address }) => address);
