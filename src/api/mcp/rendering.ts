/** What a tool's answer is rendered from and into; render.ts does it. */
import type { ErrorCode } from "../../base/errors.ts";
import type { MessageView } from "../../mailbox/views.ts";
import type { SeenText } from "../../message/seen.ts";
import type { VisibleHtml } from "../../message/visible.ts";
import { type Fields, type Written, write } from "./json.ts";

/** Characters that a result may have, as text and again as structured content: about four make a token. */
export const DEFAULT_CHARS = 24_000;

/** The arguments of tools that shape a result rather than choose what it is about. */
export interface RenderArguments {
  /** LEAST_CHARS to MOST_CHARS. */
  maxChars?: number | undefined;
  /**
   * Where to go on: a character of the text (get_message, get_raw_message, get_attachment), or an item of what is
   * listed (list_messages; get_message with `list`). A result that is cut names the next one.
   */
  offset?: number | undefined;
  /** get_thread: only messages older than this one, by id. A result that is cut names it. */
  before?: string | undefined;
  /** Without the quoted history of replies. Default: get_thread true, get_message false. */
  newTextOnly?: boolean | undefined;
  /** get_message: the HTML instead of the text. Default false. */
  html?: boolean | undefined;
  /** get_message: all recipients, or all attachments, instead of the text. */
  list?: "recipients" | "attachments" | undefined;
}

/** What is seen of HTML, which a worker finds out. */
export interface HtmlSeen {
  /** What the reader of a message sees of it, as text. */
  text(message: MessageView): Promise<SeenText>;
  /** The same as HTML, safe; undefined where it has none. */
  visible(message: MessageView): Promise<VisibleHtml | undefined>;
  /** The text of an HTML file. */
  ofFile(html: string): Promise<string>;
}

/** What the world provides to the rendering. */
export interface RenderContext {
  /** Sixteen or more random hexadecimal digits; asked again should mail contain them. */
  nonce(): string;
  /** Public origin, for links that work outside: `https://mail.example.com`. */
  baseUrl: string;
  /** Asked only for messages that are shown. */
  html: HtmlSeen;
}

export interface Rendered {
  text: Written;
  /** As JSON no longer than `maxChars` either. What comes from mail in it is cut and cleaned as in the text. */
  structured: Fields;
  /**
   * Of a list with a cursor: fewer rows fit than were asked for. Perform again with this `limit` and render that
   * answer instead, so that its cursor follows the last row shown. For list_messages, where it has one: of arrivals.
   */
  askAgain?: { limit: number };
}

/** A result that is no JSON yet. */
export const renderedOf = (text: string, structured: object): Rendered => ({
  text: write(text),
  structured: Object.fromEntries(Object.entries(structured).map(([name, value]) => [name, JSON.stringify(value)])),
});

/** Answer of getRawMessage and getAttachment, with its bytes if they are wanted (see `wantsBytes`). */
export interface RenderedDownload {
  /** As asked for. */
  id: string;
  filename: string;
  contentType: string;
  /** Bytes. */
  size: number;
  content?: Uint8Array | undefined;
}

/** A refusal: as AppError. */
export interface Refusal {
  code: ErrorCode;
  message: string;
  /** Seconds. */
  retryAfter?: number | undefined;
}
