/** What was sent or drafted. */
import { drawNonce, fence, fencedLine, NOTICE } from "./fence.ts";
import { subjectLine } from "./parts.ts";
import { type RenderArguments, type RenderContext, type Rendered, renderedOf } from "./rendering.ts";

/** rules: Send response. Every value of it is ours. */
export interface SentAnswer {
  messageId: string;
  emailId: string | null;
  threadId: string;
  mailboxId: string;
  from: string;
}

/** rules: Draft response. */
export interface DraftAnswer {
  draftId: string;
  replyToThreadId: string;
  from: string;
  to: string;
  cc?: string | null;
  subject: string;
}

const LONGEST_LIST = 500;

export function renderSent(answer: SentAnswer, _args: RenderArguments, _context: RenderContext): Rendered {
  const { emailId, threadId, from } = answer;
  return renderedOf(
    `Accepted for delivery from ${from}: message ${emailId ?? answer.messageId} in conversation ${threadId}. Whether it was delivered shows later: get_message gives deliveredAt, and a failure comes as a notice in the conversation.`,
    answer,
  );
}

/** Recipients and subject come from the mail that is answered. */
export function renderDraft(answer: DraftAnswer, _args: RenderArguments, { nonce }: RenderContext): Rendered {
  const to = fencedLine(answer.to, LONGEST_LIST);
  const cc = typeof answer.cc === "string" ? fencedLine(answer.cc, LONGEST_LIST) : undefined;
  const subject = subjectLine(answer.subject);
  const content = [`To: ${to}`, ...(cc === undefined ? [] : [`Cc: ${cc}`]), `Subject: ${subject}`].join("\n");
  return renderedOf(
    `Draft ${answer.draftId} saved from ${answer.from}, answering ${answer.replyToThreadId}. Nothing is sent: a person reviews and sends it in the app.\n${fence(drawNonce(nonce, content), content)}`,
    { notice: NOTICE, ...answer, to, ...(cc === undefined ? {} : { cc }), subject },
  );
}
