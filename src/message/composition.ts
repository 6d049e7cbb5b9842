/**
 * Composes the body of an outgoing message from the text or HTML that its author wrote: makes the HTML safe, puts its
 * visible text beside it, and quotes the replied-to message below, or shows the forwarded one; compose.ts writes the bytes.
 * Slow for large bodies, so a parser does it.
 */
import type { EmailAddress } from "./address.ts";
import { type ComposedAttachment, composeMessage, LONGEST_SUBJECT } from "./compose.ts";
import { stripTags } from "./layout.ts";
import { type Budget, createHtmlBudget } from "./markup.ts";
import { sanitizeHtml } from "./sanitize.ts";
import { removeStyleScope } from "./scope.ts";
import { isForwardSubject } from "./subject.ts";
import { htmlOfText, trimLineBreaks } from "./text.ts";
import { findVisibleHtml } from "./visible.ts";

export interface Composition {
  /** The boundaries contain it; the author cannot know it. */
  id: string;
  /** [name, value] in order. */
  headers: readonly (readonly [name: string, value: string])[];
  /** Text, HTML or both, as written. An absent or empty one is derived or left out. */
  text?: string | undefined;
  html?: string | undefined;
  /** Quoted below the body. */
  quoted?: QuotedMessage | undefined;
  /** Shown below the body. */
  forwarded?: ForwardedMessage | undefined;
  files?: readonly CompositionFile[] | undefined;
}

/** An attachment whose content is in a blob. */
interface CompositionFile extends Omit<ComposedAttachment, "content"> {
  blob: string;
  /** Bytes. */
  size: number;
}

export const isComposition = (source: Composition | Uint8Array | string): source is Composition =>
  typeof source === "object" && "headers" in source;

/** The bytes, lines ended by CRLF. HTML always comes with a text beside it. `readBlob` reads the attachments. */
export async function serializeComposition(
  { id, headers, files = [], ...content }: Composition,
  readBlob: (name: string) => Promise<Uint8Array>,
): Promise<Uint8Array> {
  return composeMessage({
    id,
    headers,
    ...composeBodies(content),
    attachments: await Promise.all(
      files.map(async ({ blob, size: _, ...file }) => ({ ...file, content: await readBlob(blob) })),
    ),
  });
}

function composeBodies({
  text,
  html,
  quoted,
  forwarded,
}: Pick<Composition, "text" | "html" | "quoted" | "forwarded">): {
  text: string;
  html?: string;
} {
  const budget = createHtmlBudget();
  const safeHtml = html ? sanitizeHtml(removeStyleScope(html), budget, "recipient") : undefined;
  const doctype = DOCTYPE.exec(html ?? "")?.[1] ?? "";
  const ownText = text || (findVisibleHtml(safeHtml ?? "", budget)?.text ?? stripTags(safeHtml ?? ""));
  if (forwarded) {
    const below = forwardedText(forwarded);
    return {
      text: ownText === "" ? below.trimStart() : ownText + below,
      ...((safeHtml ?? forwarded.html) !== undefined && {
        html: `${doctype}${safeHtml ?? htmlOfText(ownText)}\n${forwardedHtml(forwarded, budget)}`,
      }),
    };
  }
  return {
    text: quoted ? `${ownText}\n\n${quotedText(quoted)}` : ownText,
    ...(safeHtml !== undefined && {
      html: `${doctype}${safeHtml}${quoted ? `\n<br>\n${quotedHtml(quoted, budget)}` : ""}`,
    }),
  };
}

/** The document type at the start of HTML: readers render by the standards, or like old browsers without it. */
const DOCTYPE = /^\s{0,100}(<!doctype\s[^<>]{1,300}>)/i;

/*
 * Quotes the replied-to message under the reply (rules: Reply request). The quoted text comes from somebody else, so it
 * cannot end the quotation, and at most a mebibyte of it is quoted.
 */

export interface QuotedMessage {
  from: EmailAddress;
  /** Epoch milliseconds. */
  date: number;
  text: string;
  /** Sanitised. */
  html?: string;
}

/** Most characters that are quoted. */
const MAX_QUOTED = 1024 * 1024;
/** Keeps an attribution on one line, which makeSnippet recognises as the beginning of a quotation. */
const MAX_NAME = 60;

const BLOCKQUOTE = "margin:0 0 0 0.8ex;border-left:1px solid #ccc;padding-left:1ex";

/** The attribution, then the lines of the text behind `> `. Lines end in \n, without one at the end. */
export function quotedText(previous: QuotedMessage): string {
  // RFC 3676 §4.5: text that is quoted already gets one more mark, without a space between the marks.
  const lines = trimLineBreaks(cut(previous.text)).split("\n");
  const quoted = lines.map((line) => (line === "" || line.startsWith(">") ? `>${line}` : `> ${line}`));
  return [attribution(previous), ...quoted].join("\n");
}

/** The attribution, then a blockquote of the HTML, or of the text if there is none. Sanitised. */
export function quotedHtml(previous: QuotedMessage, budget: Budget = createHtmlBudget()): string {
  const { text, html } = previous;
  const content = html === undefined || html.length > MAX_QUOTED ? htmlOfText(cut(text)) : withoutAttached(html);
  // Sanitised once more, so that its elements are balanced and it cannot close the blockquote.
  const quoted = sanitizeHtml(content, budget, "recipient");
  return `${htmlOfText(attribution(previous))}\n<blockquote style="${BLOCKQUOTE}">${quoted}</blockquote>`;
}

/** `On Tue, 1 Jul 2003 at 10:52 UTC, Ann Example <ann@remote.example> wrote:` */
function attribution({ from: { email, name }, date }: QuotedMessage): string {
  const [day, time] = new Date(date).toUTCString().split(/ (?=\d\d:)/);
  const whole = oneLine(name ?? "");
  const cutName = whole.length > MAX_NAME ? `${whole.slice(0, MAX_NAME).toWellFormed()}…` : whole;
  const address = email.replace(/[\s\p{C}]+/gu, "");
  return `On ${day?.replace(/ 0/, " ")} at ${time?.slice(0, 5)} UTC, ${cutName === "" ? address : `${cutName} <${address}>`} wrote:`;
}

function cut(text: string): string {
  return text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED).toWellFormed()}…` : text;
}

/** Replaces images shown by `cid:`, which are not sent along, with their alternative text. Expects sanitised HTML. */
function withoutAttached(html: string): string {
  return html.replace(/<img\b[^<>]*>/gi, (image) => {
    if (!/\ssrc="cid:/i.test(image)) return image;
    return /\salt="([^"]*)"/i.exec(image)?.[1] ?? "";
  });
}

/* Shows a forwarded message under the sender's own words: its header block, then its text or HTML. */

export interface ForwardedMessage {
  from: EmailAddress;
  to: readonly EmailAddress[];
  cc: readonly EmailAddress[];
  subject: string;
  /** Epoch milliseconds. */
  date: number;
  text: string;
  /** Sanitised. */
  html?: string | undefined;
}

/** The message as it is forwarded without its attachments: without the images among them. */
export const withoutImages = (message: ForwardedMessage): ForwardedMessage => ({
  ...message,
  html: message.html && withoutAttached(message.html),
});

/** Adds `Fwd:` once, and cuts an overlong subject. */
export const forwardSubject = (subject: string): string =>
  (isForwardSubject(subject) ? subject : `Fwd: ${subject}`).slice(0, LONGEST_SUBJECT).toWellFormed();

/** Empty lines to write in, the header block, and the text. Lines end in \n. */
export const forwardedText = (message: ForwardedMessage): string =>
  `\n\n${formatForwardHeader(message).join("\n")}\n\n${message.text}`;

/** The HTML of a forwarded message: empty lines to write in, the header block, and the sanitised body. */
export function forwardedHtml(message: ForwardedMessage, budget: Budget = createHtmlBudget()): string {
  const [title = "", ...fields] = formatForwardHeader(message).map((line) => htmlOfText(line));
  const body = message.html === undefined ? htmlOfText(message.text) : sanitizeHtml(message.html, budget, "recipient");
  return `<div><br></div><div><br></div><div>${title}${fields.join("")}</div><br><div>${body}</div>`;
}

/** The header block, in lines. Never lists Bcc. */
function formatForwardHeader({ from, to, cc, subject, date }: ForwardedMessage): string[] {
  const lines = [
    ["From", formatDisplayAddress(from)],
    ["Date", new Date(date).toUTCString().replace("GMT", "UTC")],
    ["Subject", oneLine(subject)],
    ["To", to.map(formatDisplayAddress).join(", ")],
    ["Cc", cc.map(formatDisplayAddress).join(", ")],
  ];
  return [
    "---------- Forwarded message ----------",
    ...lines.flatMap(([name, value]) => (value === "" ? [] : `${name}: ${value}`)),
  ];
}

const oneLine = (text: string): string => text.replace(/[\s\p{C}]+/gu, " ").trim();

const formatDisplayAddress = ({ email, name }: EmailAddress): string =>
  name === undefined ? oneLine(email) : `${oneLine(name)} <${oneLine(email)}>`;
