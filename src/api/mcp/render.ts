/**
 * Renders the answer of an operation for a model: text and structured content within a budget, mail inside a fence
 * (fence.ts). Lists, messages and downloads have files of their own; results of a few lines are here. Pure.
 *
 * Invariants: neither the text nor the structured content as JSON is longer than `maxChars`. A result says what was
 * left out, with the argument that gives it. No character of mail stands outside a fence, in either.
 */
import type { ErrorCode } from "../../base/errors.ts";
import type { DraftView, ProgramDraftView, SendView } from "../../compose/sending-views.ts";
import type { ChangedThreads } from "../../mailbox/changing/threads.ts";
import type {
  MailboxView,
  MessageSummaryView,
  MessageView,
  ThreadDetailView,
  ThreadListView,
  ThreadView,
} from "../../mailbox/state/views.ts";
import type { EmailAddress } from "../../message/address.ts";
import { resultBudget } from "./budget.ts";
import { cleanLineForMailFence, drawMailFenceNonce, wrapInMailFence } from "./fence.ts";
import { formatAddressForMcp, formatShortenedList, shortenAddresses, subjectLine } from "./parts.ts";
import { createMcpDownloadRenderer } from "./render-download.ts";
import {
  createMcpThreadsRenderer,
  renderMailboxesForMcp,
  renderMessagesForMcp,
  renderUpdatedThreadForMcp,
  renderUpdatedThreadsForMcp,
} from "./render-lists.ts";
import { renderMessageForMcp, renderThreadForMcp } from "./render-messages.ts";
import {
  makeMailToolResult,
  type RenderArguments,
  type RenderContext,
  type Rendered,
  type RenderedDownload,
} from "./result.ts";

/** The answers of the operations by name, as REST gives them; but downloads may have their bytes. */
export interface Answers {
  listMailboxes: { mailboxes: MailboxView[] };
  listThreads: ThreadListView;
  searchMail: ThreadListView;
  getThread: ThreadDetailView;
  updateThread: { thread: ThreadView };
  updateThreads: ChangedThreads;
  listMessages: { messages: MessageSummaryView[]; count: number };
  getMessage: { message: MessageView };
  getRawMessage: RenderedDownload;
  getAttachment: RenderedDownload;
  sendEmail: SendView;
  replyToThread: SendView;
  draftReply: DraftView;
  createDraft: ProgramDraftView;
}

type Renderers = {
  [Name in keyof Answers]: (
    answer: Answers[Name],
    args: RenderArguments,
    context: RenderContext,
  ) => Rendered | Promise<Rendered>;
};

/**
 * getThread and getMessage are to be asked with `html: false`: the renderers get the visible part from `context.html`.
 */
export const RENDERERS: Renderers = {
  listMailboxes: renderMailboxesForMcp,
  listThreads: createMcpThreadsRenderer("list_threads"),
  searchMail: createMcpThreadsRenderer("search_mail"),
  getThread: renderThreadForMcp,
  updateThread: renderUpdatedThreadForMcp,
  updateThreads: renderUpdatedThreadsForMcp,
  listMessages: renderMessagesForMcp,
  getMessage: renderMessageForMcp,
  getRawMessage: createMcpDownloadRenderer("get_raw_message"),
  getAttachment: createMcpDownloadRenderer("get_attachment"),
  sendEmail: renderSent,
  replyToThread: renderSent,
  draftReply: renderDraft,
  createDraft: renderNewDraft,
};

function renderSent(answer: SendView): Rendered {
  const { emailId, messageId, threadId, from, held, scheduled, sendAt, draftId } = answer;
  if (held) {
    const message = `Held for approval: message ${emailId} is sent from ${from} once a person approves it${sendAt === undefined ? "" : `, and not before ${sendAt}`}. Do not send it again; get_message of that id shows what became of it.`;
    return { text: message, structured: { emailId, messageId, threadId, from, held, sendAt } };
  }
  const text =
    sendAt === undefined
      ? `Accepted for delivery from ${from}: message ${emailId ?? messageId} in conversation ${threadId}. Whether it was delivered shows later: get_message gives delivery, and a failure comes as a notice in the conversation.`
      : `Scheduled: it is sent from ${from} at ${sendAt}. Until then it is draft ${draftId}: update_thread with that id and folder trash cancels it.`;
  return { text, structured: { emailId, messageId, threadId, from, scheduled, sendAt, draftId } };
}

const LONGEST_RECIPIENTS = 500;

/** The recipients and the subject come from the mail that the draft replies to, so they stand in a fence. */
function renderDraft(
  { replyToThreadId, ...answer }: Omit<DraftView, "ok" | "replyToThreadId"> & { replyToThreadId?: string },
  _args: RenderArguments,
  { nonce }: Pick<RenderContext, "nonce">,
): Rendered {
  const to = cleanLineForMailFence(answer.to, LONGEST_RECIPIENTS);
  const cc = typeof answer.cc === "string" ? cleanLineForMailFence(answer.cc, LONGEST_RECIPIENTS) : undefined;
  const subject = subjectLine(answer.subject);
  const content = [`To: ${to}`, ...(cc === undefined ? [] : [`Cc: ${cc}`]), `Subject: ${subject}`].join("\n");
  const what = replyToThreadId === undefined ? "a new message" : `answering ${replyToThreadId}`;
  const { draftId, from } = answer;
  const message = `Draft ${draftId} saved from ${from}, ${what}. Nothing is sent: a person reviews and sends it in the app.`;
  return makeMailToolResult(`${message}\n${wrapInMailFence(drawMailFenceNonce(nonce, content), content)}`, {
    draftId,
    from,
    replyToThreadId,
  });
}

function renderNewDraft(
  { draftId, from, to, cc, subject }: ProgramDraftView,
  args: RenderArguments,
  context: RenderContext,
): Rendered {
  const formatAddresses = (addresses: EmailAddress[]): string => {
    const { items, more } = shortenAddresses(addresses, resultBudget(args));
    return formatShortenedList(items.map(formatAddressForMcp), more);
  };
  const answer = { draftId, from, to: formatAddresses(to), cc: cc.length === 0 ? null : formatAddresses(cc), subject };
  return renderDraft(answer, args, context);
}

/** Advice to a model after a refusal (rules: Errors): without it, a model tries at random. */
const NEXT: Record<ErrorCode, string> = {
  bad_request: "Correct the argument that the message names, then call again. Start a list over without cursor.",
  unauthorized: "Stop: the API key is missing, wrong or revoked. Ask your user for another.",
  missing_scope: "Stop: the API key lacks the scope. Ask your user for a key that has it.",
  forbidden:
    "Do not retry the same: the key or the mailbox has no right to it. Leave out recipients that the message names, use another mailbox, save a draft, or ask your user.",
  not_found:
    "Check the id: take it from a list of the same session. What is not reachable with this key is not found either.",
  conflict: "Read the current state with get_thread, then decide again.",
  idempotency_in_progress: "Wait a few seconds, then call again with the same idempotencyKey and arguments.",
  idempotency_key_reused:
    "Take a new idempotencyKey for a new message; repeat an old one only with the same arguments.",
  payload_too_large: "Shorten text and html to at most 1 MB together, or leave out attachments, then call again.",
  unprocessable:
    "Change what the message names (sender, recipient or number of recipients); the same again fails again.",
  locked: "Do not retry: sending is paused here. Tell your user why; an admin can resume it.",
  rate_limited: "Wait, then call again with the same arguments.",
  insufficient_storage: "Do not retry: the mailbox is full. Ask your user to make room.",
  server_error: "Wait a few seconds, then call again; when sending, with the same idempotencyKey.",
  upstream_failed: "Nothing was sent. Call again in some minutes; when sending, with the same idempotencyKey.",
};

const LONGEST_REFUSAL = 1_000;

/**
 * Codes whose message may quote what others wrote: addresses of a message's Reply-To or Cc, which a reply is refused for, a
 * reason of an admin, another server's answer.
 */
const QUOTES_OTHERS = new Set<ErrorCode>(["forbidden", "unprocessable", "conflict", "locked", "upstream_failed"]);

/**
 * Renders a refusal. Its message stands on one line, in a fence where it may quote others. `retryAfter` is in seconds.
 */
export function renderErrorForMcp(
  { code, message, retryAfter }: { code: ErrorCode; message: string; retryAfter?: number | undefined },
  { nonce }: Pick<RenderContext, "nonce">,
): Rendered {
  const error = cleanLineForMailFence(message, LONGEST_REFUSAL);
  const seconds = retryAfter === undefined ? undefined : Math.ceil(retryAfter);
  const next = seconds === undefined ? NEXT[code] : `Wait ${seconds} seconds. ${NEXT[code]}`;
  const quotes = QUOTES_OTHERS.has(code);
  const shown = quotes ? wrapInMailFence(drawMailFenceNonce(nonce, error), error) : error;
  return {
    text: `Error ${code}:${quotes ? "\n" : " "}${shown}\nNext: ${next}`,
    structured: { code, error: shown, next, retryAfter: seconds },
  };
}
