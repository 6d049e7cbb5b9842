/**
 * The requests that the app makes, with the types of their responses. The URLs of the app's API are here, in reading.ts
 * and in settings-*.ts, and nowhere else.
 */

import type { SentDraft } from "../../compose/draft-sending.ts";
import type { DraftContent, DraftRequest, DraftSummary, SavedDraft } from "../../compose/draft-views.ts";
import type { AnswerView } from "../../compose/send.ts";
import type { SignInView } from "../../http/identity-views.ts";
import type { DraftMarkView, Person, SendingPreferences } from "../../http/views.ts";
import type { MailboxView, SearchOrder, ThreadDetailView, ThreadListView } from "../../mailbox/views.ts";
import type { EmailAddress } from "../../message/address.ts";
import { ask, idOf, type Leaving } from "./ask.ts";

export type { SentDraft } from "../../compose/draft-sending.ts";
export type { DraftContent, DraftRequest, DraftSummary, SavedDraft } from "../../compose/draft-views.ts";
export type { AnswerView } from "../../compose/send.ts";
export type { Person } from "../../http/views.ts";
export type { HighlightView } from "../../mailbox/highlights.ts";
export type {
  AttachmentView,
  MailboxView,
  MessageView,
  SearchOrder,
  ThreadDetailView,
  ThreadListView,
  ThreadView,
} from "../../mailbox/views.ts";

export interface SignInRequest {
  email: string;
  password: string;
  code?: string;
  /** True: the session outlives the browser's closing. */
  keep: boolean;
}

/** Selects the conversations of a list. */
export interface ListFilters {
  mailbox?: string | undefined;
  folder?: string | undefined;
  q?: string | undefined;
  label?: string | undefined;
  unread?: boolean | undefined;
  sort?: SearchOrder | undefined;
  cursor?: string | undefined;
  limit?: number | undefined;
}

function queryOf(filters: ListFilters): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(filters)) {
    if (value !== undefined && value !== "") query.set(name, String(value));
  }
  return query.size === 0 ? "" : `?${query}`;
}

export const api = {
  me: () => ask<Person>("GET", "/me"),
  signIn: (given: SignInRequest) => ask<SignInView | undefined>("POST", "/sign-in", given),
  signOut: () => ask<void>("POST", "/sign-out", {}),
  mailboxes: () => ask<{ mailboxes: MailboxView[] }>("GET", "/mailboxes"),
  threads: (filters: ListFilters) => ask<ThreadListView>("GET", `/threads${queryOf(filters)}`),
  thread: (id: string) => ask<ThreadDetailView>("GET", `/threads/${idOf(id)}?html=false`),
  empty: (folder: "trash" | "spam", mailbox: string) =>
    ask<{ deleted: number }>("POST", `/${folder}/empty`, { mailbox }),
  answerTo: (id: string, all: boolean) => ask<AnswerView>("GET", `/threads/${idOf(id)}/answer?all=${all}`),
  draftMarks: async (mailbox: string) =>
    (await ask<{ drafts: DraftMarkView[] }>("GET", `/drafts${queryOf({ mailbox })}`)).drafts,
  draft: (id: string) => ask<DraftContent>("GET", `/drafts/${idOf(id)}`),
  draftsAnswering: async (threadId: string) =>
    (await ask<{ drafts: DraftSummary[] }>("GET", `/threads/${idOf(threadId)}/drafts`)).drafts,
  createDraft: (draft: DraftRequest & { answers?: string | undefined }, leaving?: Leaving) =>
    ask<SavedDraft>("POST", "/drafts", draft, leaving),
  saveDraft: (id: string, draft: DraftRequest & { revision: number }, leaving?: Leaving) =>
    ask<SavedDraft>("PATCH", `/drafts/${idOf(id)}`, draft, leaving),
  discardDraft: (id: string) => ask<void>("DELETE", `/drafts/${idOf(id)}`),
  sendDraft: (id: string, draft: DraftRequest & { revision: number; attachments: string[]; at?: string | undefined }) =>
    ask<SentDraft>("POST", `/drafts/${idOf(id)}/send`, draft),
  undoSend: (id: string) => ask<void>("POST", `/drafts/${idOf(id)}/undo`, {}),
  detach: (id: string, attachmentId: string) =>
    ask<void>("DELETE", `/drafts/${idOf(id)}/attachments/${idOf(attachmentId)}`),
  forward: (messageId: string) => ask<SavedDraft>("POST", `/messages/${idOf(messageId)}/forward`, {}),
  people: async (mailbox: string, q: string) =>
    (await ask<{ people: EmailAddress[] }>("GET", `/people${queryOf({ mailbox, q })}`)).people,
  sendingPreferences: () => ask<SendingPreferences>("GET", "/me/sending"),
  setSendingPreferences: (preferences: SendingPreferences) => ask<void>("PATCH", "/me/sending", preferences),
};

/** URL of a message's document, for its frame. */
export const frameOf = (messageId: string, images: boolean): string =>
  `/app/messages/${idOf(messageId)}/frame${images ? "?images=1" : ""}`;
/** URL of the document in which the HTML of a draft is edited. */
export const editorOf = (draftId: string, revision: number): string =>
  `/app/drafts/${idOf(draftId)}/editor?revision=${revision}`;
/** URL that takes the upload of a file. */
export const uploadsOf = (draftId: string, filename: string): string =>
  `/app/drafts/${idOf(draftId)}/attachments?name=${encodeURIComponent(filename)}`;
/** URL that shows an attachment if it is an image, else downloads it. */
export const previewOf = (attachmentId: string): string => `/app/attachments/${idOf(attachmentId)}/preview`;
/** URL of an attachment as a download. */
export const downloadOf = (attachmentId: string): string => `/app/attachments/${idOf(attachmentId)}`;
/** URL of a message as a file, with its header. */
export const originalOf = (messageId: string): string => `/app/messages/${idOf(messageId)}/raw`;
/** URL of the news of mail, as server-sent events. */
export const LIVE = "/app/live";
