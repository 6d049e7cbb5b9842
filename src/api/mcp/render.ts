/**
 * What a model sees of an operation's answer: text and structured content within a budget, mail inside a fence
 * (fence.ts). Pure.
 *
 * Invariants: neither the text nor the structured content as JSON is longer than `maxChars`; what is left out is told,
 * with the argument that gives it; no character of mail stands outside the fence.
 */
import type {
  MailboxView,
  MessageSummaryView,
  MessageView,
  ThreadDetailView,
  ThreadListView,
  ThreadView,
} from "../../mailbox/views.ts";
import { renderDownload } from "./render-download.ts";
import { renderMailboxes, renderMessages, renderThreads, renderUpdated } from "./render-lists.ts";
import { renderMessage } from "./render-message.ts";
import { type DraftAnswer, renderDraft, renderSent, type SentAnswer } from "./render-sending.ts";
import { renderThread } from "./render-thread.ts";
import type { RenderArguments, RenderContext, Rendered, RenderedDownload } from "./rendering.ts";

/** Answers of the operations by name, as REST gives them; downloads with their bytes. */
export interface Answers {
  listMailboxes: { mailboxes: MailboxView[] };
  listThreads: ThreadListView;
  searchMail: ThreadListView;
  getThread: ThreadDetailView;
  updateThread: { thread: ThreadView };
  listMessages: { messages: MessageSummaryView[]; count: number };
  getMessage: { message: MessageView };
  getRawMessage: RenderedDownload;
  getAttachment: RenderedDownload;
  sendEmail: SentAnswer;
  replyToThread: SentAnswer;
  draftReply: DraftAnswer;
}

type Renderers = {
  [Name in keyof Answers]: (
    answer: Answers[Name],
    args: RenderArguments,
    context: RenderContext,
  ) => Rendered | Promise<Rendered>;
};

/** For getThread and getMessage, ask the operation for `html: false`: what is seen of it is asked of `context.html`. */
export const RENDERERS: Renderers = {
  listMailboxes: renderMailboxes,
  listThreads: renderThreads("list_threads"),
  searchMail: renderThreads("search_mail"),
  getThread: renderThread,
  updateThread: renderUpdated,
  listMessages: renderMessages,
  getMessage: renderMessage,
  getRawMessage: renderDownload("get_raw_message"),
  getAttachment: renderDownload("get_attachment"),
  sendEmail: renderSent,
  replyToThread: renderSent,
  draftReply: renderDraft,
};
