/**
 * How each operation shows itself to a model as a tool.
 *
 * Invariant: every word here is paid for by every agent on every turn. The whole list stays under 3,000 tokens, which
 * test/api/mcp-tools.test.ts counts: what a model can guess from a name has no description, and what a result holds is
 * told by its top-level fields alone.
 */
import { type ObjectSchema, oneOf, t } from "../../operations/json-schema.ts";
import { LEAST_CHARS, MOST_CHARS } from "./rendering.ts";
import { LONGEST_WAIT_SECONDS } from "./waiting.ts";

/** How an operation shows itself as a tool. */
interface Face {
  description: string;
  annotations: Record<string, boolean>;
  /** Descriptions of arguments, where the name does not say it. */
  about?: Record<string, string>;
  shaping?: ObjectSchema;
  /** The operation's own arguments that the tool has no use for. */
  without?: readonly string[];
  /** Top-level fields of a result with their JSON types. */
  result: Record<string, string>;
}

/** What mail says comes from anybody, so reading it opens to the world; the instructions say so (instructions.ts). */
const READS_MAIL = { readOnlyHint: true, openWorldHint: true };
/** Nothing that was sent can be called back, and who sends twice has sent twice. */
const SENDS = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true };

const maxChars = t.Optional(t.Integer({ minimum: LEAST_CHARS, maximum: MOST_CHARS }));
const offset = t.Optional(t.Integer({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }));
const newTextOnly = t.Optional(t.Boolean());

const TOTAL = "Result budget, default 24000";
const GO_ON = "nextOffset of the cut result";
const NEXT = "nextCursor of the page before, same filters";
const SYNTAX =
  'Words and "phrases", all must match; from: to: subject: label: has:attachment is:unread is:starred before:YYYY-MM-DD after:YYYY-MM-DD; - excludes';
const REPLY_ABOUT = {
  id: "Thread",
  to: "Instead of the computed recipients",
  cc: "Added to the computed",
  from: "Mailbox or alias; default: where the mail arrived",
  quote: "Append the previous message",
};
const ONCE = "Repeat with the same key to retry without sending twice";

/** By name of the operation. */
export const FACES: Record<string, Face> = {
  listMailboxes: {
    description: "Mailboxes you can read, with your access to each.",
    annotations: { readOnlyHint: true, openWorldHint: false },
    about: { offset: GO_ON },
    shaping: t.Object({ offset }),
    result: { mailboxes: "array", nextOffset: "integer" },
  },
  listThreads: {
    description: "Conversations, newest first, as snippets.",
    annotations: READS_MAIL,
    about: {
      mailbox: "Id or address",
      folder: "Default inbox; all: without trash and spam",
      q: "As in search_mail",
      sort: "Of q; default newest",
      cursor: NEXT,
      maxChars: TOTAL,
    },
    shaping: t.Object({ maxChars }),
    result: { threads: "array", nextCursor: "string|null", unread: "integer", suggestion: "string" },
  },
  getThread: {
    description: "A conversation: its newest messages as text, as many as fit. Marks nothing read.",
    annotations: READS_MAIL,
    about: {
      before: "nextBefore of the cut result: older messages",
      newTextOnly: "Without quoted history; default true",
      maxChars: TOTAL,
    },
    shaping: t.Object({ before: t.Optional(t.String()), newTextOnly, maxChars }),
    without: ["html"],
    result: { thread: "object", messages: "array", permissions: "object", older: "integer", nextBefore: "string" },
  },
  updateThread: {
    description: "Mark, star, move or label a conversation.",
    annotations: { readOnlyHint: false, destructiveHint: true, idempotentHint: true, openWorldHint: false },
    about: { labels: "Replaces all" },
    result: { thread: "object" },
  },
  replyToThread: {
    description:
      "Send a reply to the newest sender, or all; subject and threading headers are set. text or html is required.",
    annotations: SENDS,
    about: { ...REPLY_ABOUT, idempotencyKey: ONCE },
    result: { emailId: "string|null", messageId: "string", threadId: "string", from: "string" },
  },
  draftReply: {
    description: "Save a reply as a draft for a person to review; sends nothing. text or html is required.",
    annotations: { readOnlyHint: false, destructiveHint: false, idempotentHint: false, openWorldHint: false },
    about: REPLY_ABOUT,
    result: { draftId: "string", from: "string", to: "string", cc: "string|null", subject: "string" },
  },
  listMessages: {
    description: "Single messages, newest first, as snippets; or, with waitSeconds, wait for new mail.",
    annotations: READS_MAIL,
    about: {
      mailbox: "Address",
      after: "nextAfter of an earlier result: only mail that arrived since",
      waitSeconds: "Wait for mail arriving after `after`, default now",
      offset: GO_ON,
      maxChars: TOTAL,
    },
    shaping: t.Object({
      after: t.Optional(t.String()),
      waitSeconds: t.Optional(t.Integer({ minimum: 0, maximum: LONGEST_WAIT_SECONDS })),
      offset,
      maxChars,
    }),
    result: { messages: "array", count: "integer", nextAfter: "string", nextOffset: "integer" },
  },
  getMessage: {
    description: "One message as text. Marks nothing read.",
    annotations: READS_MAIL,
    about: {
      html: "The HTML instead; default false",
      newTextOnly: "Without quoted history; default false",
      list: "All of these instead of the text",
      offset: GO_ON,
      maxChars: TOTAL,
    },
    shaping: t.Object({
      html: t.Optional(t.Boolean()),
      newTextOnly,
      list: t.Optional(oneOf(["recipients", "attachments"])),
      offset,
      maxChars,
    }),
    without: ["html"],
    result: { message: "object" },
  },
  getRawMessage: {
    description: "A message as an RFC 5322 file: all headers and MIME parts.",
    annotations: READS_MAIL,
    about: { offset: GO_ON, maxChars: TOTAL },
    shaping: t.Object({ offset, maxChars }),
    result: { text: "string", size: "integer", url: "string", nextOffset: "integer" },
  },
  getAttachment: {
    description: "An attachment: text, or a small file embedded, else a URL to GET with your API key.",
    annotations: READS_MAIL,
    about: { offset: GO_ON, maxChars: TOTAL },
    shaping: t.Object({ offset, maxChars }),
    result: {
      filename: "string",
      contentType: "string",
      size: "integer",
      url: "string",
      text: "string",
      nextOffset: "integer",
    },
  },
  searchMail: {
    description: "Search conversations, newest or best match first, as snippets.",
    annotations: READS_MAIL,
    about: {
      q: SYNTAX,
      mailbox: "Id or address",
      folder: "Default: all but trash and spam",
      sort: "Default newest",
      cursor: NEXT,
      maxChars: TOTAL,
    },
    shaping: t.Object({ maxChars }),
    result: { threads: "array", nextCursor: "string|null", unread: "integer", suggestion: "string" },
  },
  sendEmail: {
    description: "Send a new message. text or html is required. Accepted means queued, delivery follows.",
    annotations: SENDS,
    about: { from: "Address of a mailbox with send access", idempotencyKey: ONCE },
    result: { emailId: "string|null", messageId: "string", threadId: "string", from: "string" },
  },
};
