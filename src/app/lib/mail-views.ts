/** Mail as the server shows it in the answers of its operations. */
import type { Answer, Input } from "./api-client.ts";

export type Person = Answer<"getMe">;
export type MailboxView = Answer<"listMailboxes">["mailboxes"][number];
export type ThreadListView = Answer<"listThreads">;
export type ThreadView = ThreadListView["threads"][number];
export type HighlightView = NonNullable<ThreadView["highlights"]>[number];
export type ThreadDetailView = Answer<"getThread">;
export type MessageView = ThreadDetailView["messages"][number];
export type AttachmentView = MessageView["attachments"][number];
export type ReplyDefaults = Answer<"getReplyDefaults">;
export type DraftContent = Answer<"openDraft">;
export type DraftSummary = Answer<"listDraftsAnswering">["drafts"][number];
export type DraftMarks = Answer<"listMarkedDrafts">;
export type ScheduledView = Answer<"listScheduled">["scheduled"][number];
export type SavedDraft = Answer<"saveDraft">;
export type SentDraft = Answer<"sendOpenedDraft">;
export type Classification = Answer<"getClassification">;
export type Received = Answer<"getReceived">;
export type MessageWarning = Answer<"getWarnings">["warnings"][number];
export type InvitationView = NonNullable<Answer<"getInvitation">["invitation"]>;
export type InvitationAnswer = Input<"answerInvitation">["answer"];
export type UnsubscribeView = NonNullable<Received["unsubscribe"]>;
export type RecipientProgress = Answer<"getProgress">["recipients"][number];
/** A message that waits for approval, as the list has it, and whole. */
export type WaitingView = Answer<"listApprovals">["waiting"][number];
export type ApprovalView = Answer<"getApproval">;
/** A change of each of several conversations. */
export type ThreadChange = Omit<Input<"changeThreads">, "ids">;
/** A conversation that was not changed, and why. */
export type RefusedThread = Answer<"changeThreads">["refused"][number];

export type Texts = Answer<"getTexts">;
export type Template = Texts["templates"][number];

export type LabelColour = NonNullable<Answer<"completeLabels">["labels"][number]["colour"]>;

/** Selects the conversations of a list. */
export type ListFilters = Input<"listThreads">;
export type SearchOrder = NonNullable<ListFilters["sort"]>;
