/** The result of a tool: what it is rendered from, and its two faces, text and structured content. render.ts renders it. */
import type { DocumentText } from "../../documents/kind.ts";
import type { MessageView } from "../../mailbox/state/views.ts";
import type { SeenText, VisibleHtml } from "../../message/visible.ts";

/** Characters that a result may have, as text and again as structured content. About four make a token. */
export const DEFAULT_CHARS = 24_000;

/** The arguments that shape a result rather than choose what it is about. */
export interface RenderArguments {
  /** LEAST_CHARS to MOST_CHARS. */
  maxChars?: number | undefined;
  /**
   * Position to continue at: a character of the text (get_message, get_raw_message, get_attachment), or an item of the list
   * (list_messages, list_mailboxes; get_message with `list`). A result that is cut names the next one.
   */
  offset?: number | undefined;
  /** get_thread: only messages older than the one with this id. A result that is cut names it. */
  before?: string | undefined;
  /** Leaves out the quoted history of replies. Default: get_thread true, get_message false. */
  newTextOnly?: boolean | undefined;
  /** get_message: the HTML instead of the text. Default false. */
  html?: boolean | undefined;
  /** get_message: all recipients, or all attachments, instead of the text. */
  list?: "recipients" | "attachments" | undefined;
}

/** The services that renderers use. */
export interface RenderContext {
  /** Draws sixteen or more random hexadecimal digits. Called again if mail contains them. */
  nonce(): string;
  /** Public origin, for links: `https://mail.example.com`. */
  baseUrl: string;
  /** The visible part of HTML, which a parser finds. Called only for messages that the result shows. */
  html: {
    /** The visible text of a message. */
    text(message: MessageView): Promise<SeenText>;
    /** The visible HTML of a message, safe; undefined when the message has no HTML. */
    visible(message: MessageView): Promise<Pick<VisibleHtml, "html" | "hidden"> | undefined>;
    /** The visible text of an HTML file. */
    ofFile(html: string): Promise<string>;
  };
}

export interface Rendered {
  text: string;
  /** The content as JSON, which is at most `maxChars` long, too. No value but `text` comes from mail. */
  structured: Record<string, unknown>;
  /**
   * Set when fewer rows fit than the call asked for. The caller performs the operation again with this `limit` and
   * renders that answer instead, so that the cursor follows the last row shown. For list_messages the caller does so
   * only with arrivals, since the operation has no cursor.
   */
  askAgain?: { limit: number };
}

/** A text, or a file beside it in base64. */
export type Content =
  | { type: "text"; text: string }
  | { type: "image"; data: string; mimeType: string }
  | { type: "resource"; resource: { uri: string; mimeType: string; blob: string } };

/** The result of a call, as MCP has it (CallToolResult). */
export type Result = {
  content: Content[];
  structuredContent: Record<string, unknown>;
  isError?: true;
};

/**
 * Makes a result with mail. Some clients show a model the structured content alone, so that repeats the text with its
 * fences. `structured`: what a program needs to go on, none of it from mail.
 */
export const makeMailToolResult = (text: string, structured: object): Rendered => ({
  text,
  structured: { text, ...structured },
});

/** The answer of getRawMessage and getAttachment; `content` only when `chooseDownloadForm` says "text". */
export interface RenderedDownload {
  /** The id that the call asked for. */
  id: string;
  filename: string;
  contentType: string;
  /** Bytes. */
  size: number;
  /** The text of a document. */
  document?: DocumentText | undefined;
  content?: Uint8Array | undefined;
}
