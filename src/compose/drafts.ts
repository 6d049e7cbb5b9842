/** Drafts in the app: begun, opened, saved as they are written, with files attached. */
import { type Caller, notFound } from "../access/caller.ts";
import { AppError } from "../base/errors.ts";
import type { Draft } from "../mailbox/drafts.ts";
import { transmittedSize } from "../mailbox/drafts.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { attachmentView } from "../mailbox/messages.ts";
import type { AttachmentView } from "../mailbox/views.ts";
import { defaultFilename, safeFilename } from "../message/parse.ts";
import { requireRoom } from "../outbound/guardrails.ts";
import type { Spool } from "../smtp/spool.ts";
import type { Options } from "../store/settings.ts";
import type { Store } from "../store/store.ts";
import {
  contentView,
  type DraftContent,
  type DraftRequest,
  type DraftSummary,
  roomFor,
  type SavedDraft,
  summaryView,
} from "./draft-views.ts";
import { type DraftWriting, requireUnscheduled } from "./draft-writing.ts";

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
}

export interface DraftsParts {
  store: Pick<Store, "enqueue" | "blobs">;
  mailbox: Pick<Mailbox, "usage" | "drafts">;
  options: Pick<Options, "get">;
  writing: Pick<DraftWriting, "keep">;
  spool: Pick<Spool, "keep">;
}

const MOST_FILES = 100;
const MEDIA_TYPE = /^[a-z0-9!#$&^_.+-]{1,80}\/[a-z0-9!#$&^_.+-]{1,80}$/;

export function createDrafts({ store, mailbox, options, writing, spool }: DraftsParts): Drafts {
  const largestMessage = (): number => options.get("smtp.maxMessageBytes");

  /** @throws AppError conflict */
  function readChangeable(caller: Caller, draftId: string): Draft {
    const draft = mailbox.drafts.read(caller, draftId);
    requireUnscheduled(draft);
    return draft;
  }

  return {
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
      // Before anything of it is read.
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
        // Before it is among the blobs, too: what is refused stays there until the sweep.
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
  };
}
