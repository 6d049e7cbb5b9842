/**
 * The app's calls, with the types of their responses. The URLs of the app's API are here and in settings-*.ts, and
 * nowhere else.
 */
import type { approveHold, rejectHold } from "../../operations/admin/holds.ts";
import type { getAttachment, getMessage, getRawMessage } from "../../operations/mail/messages.ts";
import type { getThread, listMailboxes, listThreads } from "../../operations/mail/threads.ts";
import type { AnswerOf } from "../../operations/operation.ts";
import type { copyHeld, getApproval, listApprovals } from "../../operations/person/approvals.ts";
import type {
  beginDraft,
  detachFile,
  discardDraft,
  forwardMessage,
  getReplyDefaults,
  listDraftsAnswering,
  listMarkedDrafts,
  listScheduled,
  openDraft,
  saveDraft,
  sendOpenedDraft,
  undoSend,
} from "../../operations/person/drafts.ts";
import type { changeLabel, completeLabels, removeLabel } from "../../operations/person/labels.ts";
import type { getSendingPreferences, setSendingPreferences } from "../../operations/person/profile.ts";
import type { endPush, getPush, setPush } from "../../operations/person/push.ts";
import type {
  changeThreads,
  deleteThreads,
  emptySpam,
  emptyTrash,
  findCorrespondents,
  getClassification,
  getProgress,
  getUsage,
  undoChange,
} from "../../operations/person/reading.ts";
import type {
  answerInvitation,
  getInvitation,
  getReceived,
  getWarnings,
  hideImagesOf,
  listImagesShown,
  setImagesOfSender,
  unsubscribe,
} from "../../operations/person/received.ts";
import type { getMe, signIn, signOut } from "../../operations/person/session.ts";
import type { getStandby } from "../../operations/person/standby.ts";
import type { changeSignature, deleteTemplate, getTexts, saveTemplate } from "../../operations/person/texts.ts";
import { type BodyOf, call, type Leaving, type QueryOf, urlTo } from "./call.ts";

export type Person = AnswerOf<typeof getMe>;
export type MailboxView = AnswerOf<typeof listMailboxes>["mailboxes"][number];
export type ThreadListView = AnswerOf<typeof listThreads>;
export type ThreadView = ThreadListView["threads"][number];
export type HighlightView = NonNullable<ThreadView["highlights"]>[number];
export type ThreadDetailView = AnswerOf<typeof getThread>;
export type MessageView = ThreadDetailView["messages"][number];
export type AttachmentView = MessageView["attachments"][number];
export type ReplyDefaults = AnswerOf<typeof getReplyDefaults>;
export type DraftContent = AnswerOf<typeof openDraft>;
export type DraftSummary = AnswerOf<typeof listDraftsAnswering>["drafts"][number];
export type DraftMarks = AnswerOf<typeof listMarkedDrafts>;
export type ScheduledView = AnswerOf<typeof listScheduled>["scheduled"][number];
export type SavedDraft = AnswerOf<typeof saveDraft>;
export type SentDraft = AnswerOf<typeof sendOpenedDraft>;
export type Classification = AnswerOf<typeof getClassification>;
export type Received = AnswerOf<typeof getReceived>;
export type MessageWarning = AnswerOf<typeof getWarnings>["warnings"][number];
export type InvitationView = NonNullable<AnswerOf<typeof getInvitation>["invitation"]>;
export type InvitationAnswer = BodyOf<typeof answerInvitation>["answer"];
export type UnsubscribeView = NonNullable<Received["unsubscribe"]>;
export type RecipientProgress = AnswerOf<typeof getProgress>["recipients"][number];
/** A message that waits for approval, as the list has it, and whole. */
export type WaitingView = AnswerOf<typeof listApprovals>["waiting"][number];
export type ApprovalView = AnswerOf<typeof getApproval>;
/** A change of each of several conversations. */
export type ThreadChange = Omit<BodyOf<typeof changeThreads>, "ids">;
/** A conversation that was not changed, and why. */
export type RefusedThread = AnswerOf<typeof changeThreads>["refused"][number];

export type Texts = AnswerOf<typeof getTexts>;
export type Template = Texts["templates"][number];

export type LabelColour = NonNullable<AnswerOf<typeof completeLabels>["labels"][number]["colour"]>;

/** Selects the conversations of a list. */
export type ListFilters = QueryOf<typeof listThreads>;
export type SearchOrder = NonNullable<ListFilters["sort"]>;

export const api = {
  standby: () => call<typeof getStandby>("GET", "/standby"),
  me: () => call<typeof getMe>("GET", "/me"),
  signIn: (body: BodyOf<typeof signIn>) => call<typeof signIn>("POST", "/sign-in", { body }),
  signOut: () => call<typeof signOut>("POST", "/sign-out"),
  mailboxes: () => call<typeof listMailboxes>("GET", "/mailboxes"),
  threads: (query: ListFilters) => call<typeof listThreads>("GET", "/threads", { query }),
  thread: (id: string) => call<typeof getThread>("GET", "/threads/:id", { params: { id }, query: { html: false } }),
  message: async (id: string) =>
    (await call<typeof getMessage>("GET", "/messages/:id", { params: { id }, query: { html: false } })).message,
  /** At most 100 at once. */
  changeThreads: (ids: readonly string[], change: ThreadChange) =>
    call<typeof changeThreads>("POST", "/threads/change", { body: { ids: [...ids], ...change } }),
  undoChange: (undo: string) => call<typeof undoChange>("POST", "/threads/undo", { body: { undo } }),
  /** At most 100 at once. */
  deleteThreads: (ids: readonly string[]) =>
    call<typeof deleteThreads>("POST", "/threads/delete", { body: { ids: [...ids] } }),
  empty: (folder: "trash" | "spam", mailbox: string) =>
    folder === "trash"
      ? call<typeof emptyTrash>("POST", "/trash/empty", { body: { mailbox } })
      : call<typeof emptySpam>("POST", "/spam/empty", { body: { mailbox } }),
  labels: async (mailbox: string) =>
    (await call<typeof completeLabels>("GET", "/labels", { query: { mailbox } })).labels,
  changeLabel: (name: string, body: BodyOf<typeof changeLabel>) =>
    call<typeof changeLabel>("PATCH", "/labels/:name", { params: { name }, body }),
  removeLabel: (name: string, mailbox: string) =>
    call<typeof removeLabel>("DELETE", "/labels/:name", { params: { name }, query: { mailbox } }),
  texts: (id: string) => call<typeof getTexts>("GET", "/mailboxes/:id/texts", { params: { id } }),
  changeSignature: (id: string, text: string) =>
    call<typeof changeSignature>("PATCH", "/mailboxes/:id/signature", { params: { id }, body: { text } }),
  saveTemplate: (id: string, body: BodyOf<typeof saveTemplate>) =>
    call<typeof saveTemplate>("POST", "/mailboxes/:id/templates", { params: { id }, body }),
  deleteTemplate: (id: string, name: string) =>
    call<typeof deleteTemplate>("DELETE", "/mailboxes/:id/templates/:name", { params: { id, name } }),
  usage: (mailbox: string) => call<typeof getUsage>("GET", "/usage", { query: { mailbox } }),
  classification: (id: string) => call<typeof getClassification>("GET", "/messages/:id/judgement", { params: { id } }),
  push: () => call<typeof getPush>("GET", "/me/push"),
  setPush: (body: BodyOf<typeof setPush>) => call<typeof setPush>("POST", "/me/push", { body }),
  endPush: () => call<typeof endPush>("DELETE", "/me/push"),
  received: (id: string) => call<typeof getReceived>("GET", "/messages/:id/received", { params: { id } }),
  warnings: (id: string) => call<typeof getWarnings>("GET", "/messages/:id/warnings", { params: { id } }),
  unsubscribe: (id: string) => call<typeof unsubscribe>("POST", "/messages/:id/unsubscribe", { params: { id } }),
  invitation: (id: string) => call<typeof getInvitation>("GET", "/messages/:id/invitation", { params: { id } }),
  answerInvitation: (id: string, answer: InvitationAnswer) =>
    call<typeof answerInvitation>("POST", "/messages/:id/invitation", { params: { id }, body: { answer } }),
  setImagesOfSender: (id: string, always: boolean) =>
    call<typeof setImagesOfSender>("POST", "/messages/:id/images", { params: { id }, body: { always } }),
  imageSenders: () => call<typeof listImagesShown>("GET", "/me/image-senders"),
  hideImagesOf: (sender: string) =>
    call<typeof hideImagesOf>("DELETE", "/me/image-senders/:sender", { params: { sender } }),
  progress: (id: string) => call<typeof getProgress>("GET", "/messages/:id/progress", { params: { id } }),
  replyDefaults: (id: string, all: boolean) =>
    call<typeof getReplyDefaults>("GET", "/threads/:id/answer", { params: { id }, query: { all } }),
  draftMarks: (mailbox: string) => call<typeof listMarkedDrafts>("GET", "/drafts", { query: { mailbox } }),
  scheduled: (mailbox: string) => call<typeof listScheduled>("GET", "/scheduled", { query: { mailbox } }),
  draft: (id: string) => call<typeof openDraft>("GET", "/drafts/:id", { params: { id } }),
  replyDrafts: async (id: string) =>
    (await call<typeof listDraftsAnswering>("GET", "/threads/:id/drafts", { params: { id } })).drafts,
  createDraft: (body: BodyOf<typeof beginDraft>, leaving?: Leaving) =>
    call<typeof beginDraft>("POST", "/drafts", { body }, leaving),
  saveDraft: (id: string, body: BodyOf<typeof saveDraft>, leaving?: Leaving) =>
    call<typeof saveDraft>("PATCH", "/drafts/:id", { params: { id }, body }, leaving),
  discardDraft: (id: string) => call<typeof discardDraft>("DELETE", "/drafts/:id", { params: { id } }),
  sendDraft: (id: string, body: BodyOf<typeof sendOpenedDraft>) =>
    call<typeof sendOpenedDraft>("POST", "/drafts/:id/send", { params: { id }, body }),
  undoSend: (id: string) => call<typeof undoSend>("POST", "/drafts/:id/undo", { params: { id } }),
  detach: (id: string, attachmentId: string) =>
    call<typeof detachFile>("DELETE", "/drafts/:id/attachments/:attachmentId", { params: { id, attachmentId } }),
  forward: (id: string) => call<typeof forwardMessage>("POST", "/messages/:id/forward", { params: { id } }),
  approvals: () => call<typeof listApprovals>("GET", "/approvals"),
  approval: (id: string) => call<typeof getApproval>("GET", "/approvals/:id", { params: { id } }),
  approve: (id: string) => call<typeof approveHold>("POST", "/holds/:id/approve", { params: { id } }),
  reject: (id: string, body: BodyOf<typeof rejectHold>) =>
    call<typeof rejectHold>("POST", "/holds/:id/reject", { params: { id }, body }),
  copyHeld: (id: string) => call<typeof copyHeld>("POST", "/approvals/:id/copy", { params: { id } }),
  people: async (mailbox: string, q: string) =>
    (await call<typeof findCorrespondents>("GET", "/people", { query: { mailbox, q } })).people,
  sendingPreferences: () => call<typeof getSendingPreferences>("GET", "/me/sending"),
  setSendingPreferences: (body: BodyOf<typeof setSendingPreferences>) =>
    call<typeof setSendingPreferences>("PATCH", "/me/sending", { body }),
};

/** URL of a message's document, for its frame. */
export const frameUrl = (messageId: string, images: boolean): string =>
  `/app/messages/${encodeURIComponent(messageId)}/frame${images ? "?images=1" : ""}`;
/** URL of the document in which the HTML of a draft is edited. */
export const editorUrl = (draftId: string, revision: number): string =>
  `/app/drafts/${encodeURIComponent(draftId)}/editor?revision=${revision}`;
/** URL that takes the upload of a file. */
export const uploadUrl = (draftId: string, filename: string): string =>
  `/app/drafts/${encodeURIComponent(draftId)}/attachments?name=${encodeURIComponent(filename)}`;
/** URL that shows an attachment if it is an image, else downloads it. */
export const previewUrl = (attachmentId: string): string =>
  `/app/attachments/${encodeURIComponent(attachmentId)}/preview`;
/** URL of an attachment as a download. */
export const downloadUrl = (id: string): string => urlTo<typeof getAttachment>("/attachments/:id", { params: { id } });
/** URL of a message as a file, with its header. */
export const originalUrl = (id: string): string => urlTo<typeof getRawMessage>("/messages/:id/raw", { params: { id } });
/** URL of the news of mail, as server-sent events. */
export const LIVE_URL = "/app/live";
