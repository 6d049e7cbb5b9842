/**
 * Changing a draft: what it says, what is attached to it, and when it is sent. It keeps its ids, so that who has it open
 * goes on with it. Attachments are rows beside its text, naming blobs: saving the text does not touch them.
 *
 * Invariant: row of the conversation, index and usage are in step with the draft after each change.
 */
import { eq, isNotNull, sql } from "drizzle-orm";
import { newId, type Runtime } from "../base/runtime.ts";
import type { EmailAddress } from "../message/address.ts";
import type { SearchEngine } from "../search/engine.ts";
import { foldDocument } from "../search/fold.ts";
import { attachments, drafts, messageBodies, messages, threads, type Unfinished } from "../store/schema.ts";
import { prepared } from "../store/statement.ts";
import type { Tx } from "../store/store.ts";
import type { Draft, Due } from "./drafts.ts";
import type { PreparedMessage } from "./prepare.ts";
import { markUnread } from "./read-state.ts";
import { attachmentsOf } from "./stored-message.ts";
import { started } from "./threading.ts";
import { addUsage } from "./usage.ts";

/** What a draft says from now on; `message` has no attachments. */
export interface DraftChange {
  message: PreparedMessage & { from: EmailAddress };
  bcc: readonly EmailAddress[];
  unfinished: Unfinished;
  /** User who changed it. */
  userId: string;
  /** Epoch ms. */
  now: number;
}

/** A file whose blob is durable already. */
export interface DraftFile {
  filename: string;
  contentType: string;
  size: number;
  inline: boolean;
  contentId: string | null;
  blob: string;
}

/** Bytes that a file has in a message: base64 in lines of 76 characters, and its header. */
export const transmittedSize = (bytes: number): number => Math.ceil(bytes / 57) * 78 + 500;

/** The same of files together. */
export const transmittedSizes = (files: readonly Pick<DraftFile, "size">[]): number =>
  files.reduce((sum, { size }) => sum + transmittedSize(size), 0);

/** Longer than anybody may undo sending. */
const LONGEST_UNDO_MS = 60_000;

const statements = prepared(({ $client: sqlite }) => ({
  unschedule: sqlite.prepare<unknown, [threadSeq: number]>(
    `UPDATE drafts SET due_at = NULL, due_by = NULL
     WHERE due_at IS NOT NULL AND message_seq IN (SELECT seq FROM messages WHERE thread_seq = ? AND kind = 'draft')`,
  ),
  recall: sqlite.prepare<unknown, [now: number, longest: number]>(
    `UPDATE drafts SET due_at = ?1 WHERE due_at > ?1 AND EXISTS
       (SELECT 1 FROM messages WHERE seq = message_seq AND filed_at > ?1 AND due_at - filed_at <= ?2)`,
  ),
}));

/** Of a conversation that goes to trash: a draft in it is not sent, also when it is brought back. */
export function unscheduleIn(tx: Tx, threadSeq: number): void {
  statements(tx).unschedule.run(threadSeq);
}

export type DraftChanges = ReturnType<typeof createDraftChanges>;

export function createDraftChanges({
  engine,
  runtime,
}: {
  engine: Pick<SearchEngine, "replace">;
  runtime: Pick<Runtime, "now" | "randomBytes">;
}) {
  const scopeOf = ({ reach: { mailbox } }: Draft) => ({ workspaceId: mailbox.workspaceId, mailboxId: mailbox.id });

  /** After its files have changed. */
  function settleFiles(tx: Tx, draft: Draft): void {
    const files = attachmentsOf(tx, draft.seq);
    const hasAttachments = files.length > 0;
    const bytes = transmittedSizes(files) - transmittedSizes(draft.attachments);
    tx.update(messages)
      .set({ hasAttachments, size: sql`${messages.size} + ${bytes}` })
      .where(eq(messages.seq, draft.seq))
      .run();
    tx.update(threads).set({ hasAttachments }).where(eq(threads.seq, draft.threadSeq)).run();
    addUsage(tx, draft.reach.mailbox.id, bytes);
    const { subject, text, from, to, cc } = draft;
    const filenames = files.map(({ filename }) => filename);
    engine.replace(tx, draft.seq, scopeOf(draft), foldDocument({ subject, text, from: [from], to, cc, filenames }));
  }

  return {
    /** Its new revision. */
    change(tx: Tx, draft: Draft, { message, bcc, unfinished, userId, now }: DraftChange): number {
      const {
        folder: _,
        nextOrdinal: __,
        hasAttachments: ___,
        ...state
      } = started({ message, kind: "draft", date: now }, false);
      const size = message.size + transmittedSizes(draft.attachments);
      const filenames = draft.attachments.map(({ filename }) => filename);
      const { files } = foldDocument({ subject: "", text: "", from: [], to: [], cc: [], filenames });
      tx.update(threads)
        .set({ ...state, receivedOn: message.from.email })
        .where(eq(threads.seq, draft.threadSeq))
        .run();
      tx.update(messages)
        .set({
          ...{ date: now, filedAt: now, size, sentBy: userId, bcc: [...bcc], read: true },
          messageId: message.messageId ?? null,
          inReplyTo: message.inReplyTo ?? null,
          ...{ from: message.from, to: message.to, cc: message.cc },
          ...{ subject: message.subject, snippet: message.snippet, fingerprint: message.fingerprint },
        })
        .where(eq(messages.seq, draft.seq))
        .run();
      tx.update(messageBodies)
        .set({
          headers: message.headers,
          text: message.text,
          html: message.html ?? null,
          htmlSource: message.htmlSource === undefined ? null : Buffer.from(message.htmlSource),
          sanitizer: message.sanitizer,
          seenText: message.seenText === undefined ? null : Buffer.from(message.seenText),
          seenHidden: message.seenHidden,
          seenVersion: message.seenVersion,
        })
        .where(eq(messageBodies.messageSeq, draft.seq))
        .run();
      const revision = draft.revision + 1;
      tx.update(drafts).set({ revision, unfinished, refusal: null }).where(eq(drafts.messageSeq, draft.seq)).run();
      engine.replace(tx, draft.seq, scopeOf(draft), { ...message.index, files });
      addUsage(tx, draft.reach.mailbox.id, size - draft.size);
      return revision;
    },

    /** Attaches files after those that are there; their ids. */
    attach(tx: Tx, draft: Draft, files: readonly DraftFile[]): string[] {
      const first = (draft.attachments.at(-1)?.position ?? -1) + 1;
      const ids = files.map((file, i) => {
        const id = newId(runtime, "att");
        tx.insert(attachments)
          .values({ ...file, id, messageSeq: draft.seq, position: first + i })
          .run();
        return id;
      });
      settleFiles(tx, draft);
      return ids;
    },

    detach(tx: Tx, draft: Draft, attachmentId: string): void {
      tx.delete(attachments).where(eq(attachments.id, attachmentId)).run();
      settleFiles(tx, draft);
    },

    schedule(tx: Tx, draft: Pick<Draft, "seq">, due: Due | undefined): void {
      tx.update(drafts)
        .set({ dueAt: due?.at ?? null, dueBy: due?.userId ?? null, refusal: null })
        .where(eq(drafts.messageSeq, draft.seq))
        .run();
    },

    /**
     * What a clock that was ahead has put off for its person to undo it is due at `now` (epoch ms): it would be sent only
     * once that time has come. A time that somebody chose stays.
     */
    recall(tx: Tx, now: number): void {
      statements(tx).recall.run(now, LONGEST_UNDO_MS);
    },

    /** It stays a draft, unread, with the reason why it was not sent. Nothing when it is no longer due at that time. */
    refuse(tx: Tx, draftId: string, dueAt: number, reason: string): void {
      const found = tx
        .select({ seq: messages.seq, threadSeq: messages.threadSeq })
        .from(drafts)
        .innerJoin(messages, eq(messages.seq, drafts.messageSeq))
        .innerJoin(threads, eq(threads.seq, messages.threadSeq))
        .where(sql`${threads.id} = ${draftId} and ${drafts.dueAt} = ${dueAt}`)
        .get();
      if (!found) return;
      tx.update(drafts)
        .set({ dueAt: null, dueBy: null, refusal: reason })
        .where(eq(drafts.messageSeq, found.seq))
        .run();
      markUnread(tx, found.threadSeq);
    },
  };
}

/** Keeps every draft that is to be sent at a time from it, with the reason; how many. */
export function unschedule(tx: Tx, reason: string): number {
  const changed = tx
    .update(drafts)
    .set({ dueAt: null, dueBy: null, refusal: reason })
    .where(isNotNull(drafts.dueAt))
    .returning({ seq: drafts.messageSeq })
    .all();
  return changed.length;
}
