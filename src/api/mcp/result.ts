/**
 * The result of a tool: what it is rendered from, and how it is written as JSON. render.ts renders it.
 *
 * A result is put together of parts that are JSON already. The text stands in it twice, as text and in the structured
 * content, and is escaped once, because escaping is most of the cost of a long message. And the length that was measured
 * is the length that is sent.
 *
 * Strings are only concatenated, never joined or sliced, so the engine copies them once, when the result is sent.
 */
import type { DocumentText } from "../../documents/kind.ts";
import type { MessageView } from "../../mailbox/views.ts";
import { isAscii } from "../../message/characters.ts";
import type { SeenText, VisibleHtml } from "../../message/visible.ts";

/** Characters that a result may have, as text and again as structured content. About four make a token. */
export const DEFAULT_CHARS = 24_000;

/** The arguments that shape a result rather than choose what it is about. */
export interface RenderArguments {
  /** LEAST_CHARS to MOST_CHARS. */
  maxChars?: number | undefined;
  /**
   * Where to continue: at a character of the text (get_message, get_raw_message, get_attachment), or at an item of the
   * list (list_messages, list_mailboxes; get_message with `list`). A result that is cut names the next one.
   */
  offset?: number | undefined;
  /** get_thread: only messages older than the one with this id. A result that is cut names it. */
  before?: string | undefined;
  /** Without the quoted history of replies. Default: get_thread true, get_message false. */
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
  text: Written;
  /** At most `maxChars` long as JSON, too. No value but `text` comes from mail. */
  structured: Fields;
  /**
   * Set when fewer rows fit than the call asked for. The caller performs the operation again with this `limit` and
   * renders that answer instead, so that the cursor follows the last row shown. For list_messages the caller does so
   * only with arrivals, since the operation has no cursor.
   */
  askAgain?: { limit: number };
}

/** Writes the values of an object as JSON. */
const fieldsFrom = (values: object): Fields =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [name, JSON.stringify(value)]));

/** Makes a result without mail, of values that are not JSON yet. */
export const renderedOf = (text: string, structured: object): Rendered => ({
  text: write(text),
  structured: fieldsFrom(structured),
});

/**
 * Makes a result with mail. Some clients show a model the structured content alone, so that repeats the text with its
 * fences. `structured`: what a program needs to go on, none of it from mail.
 */
export const fencedResult = (text: Written, structured: object): Rendered => ({
  text,
  structured: { text: stringOf(text), ...fieldsFrom(structured) },
});

/** The answer of getRawMessage and getAttachment; `content` only when `wantsBytes` says "text". */
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

/**
 * Text as it stands between the quotes of a JSON string. `length` counts the characters of the text, without the
 * escapes.
 */
export interface Written {
  json: string;
  length: number;
}

export const write = (text: string): Written => ({ json: escapeText(text), length: text.length });

/** Length in ASCII characters from which separate replacements cost half as much as JSON.stringify. */
const LONG = 500;
/** Control characters but for newline and tab, which `escapeText` replaces. */
const CONTROLS = "\\0-\\x08\\v-\\x1f";
const HAS_CONTROLS = new RegExp(`[${CONTROLS}]`);

function escapeText(text: string): string {
  if (text.length < LONG || !isAscii(text) || HAS_CONTROLS.test(text)) return JSON.stringify(text).slice(1, -1);
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n").replaceAll("\t", "\\t");
}

/** Joins parts, each on lines of its own. */
export function writeLines(first: Written, ...rest: readonly Written[]): Written {
  let { json, length } = first;
  for (const part of rest) {
    json += `\\n${part.json}`;
    length += 1 + part.length;
  }
  return { json, length };
}

/** Writes a text as a JSON string. */
export const stringOf = ({ json }: Written): string => `"${json}"`;

/** The fields of an object, with values as JSON. Undefined ones are left out. */
export type Fields = Record<string, string | undefined>;

/** Writes fields as they stand between the braces of an object. */
function fieldsOf(fields: Fields): string {
  let json = "";
  for (const name of Object.keys(fields)) {
    const value = fields[name];
    if (value !== undefined) json += `${json === "" ? "" : ","}"${name}":${value}`;
  }
  return json;
}

export const objectOf = (fields: Fields): string => `{${fieldsOf(fields)}}`;
