/**
 * What somebody wrote becomes the bytes of a message: HTML made safe, text beside it, the message that is answered
 * quoted below. Heavy for large bodies: a worker does it.
 */

import type { EmailAddress } from "./address.ts";
import { type Budget, createBudget } from "./budget.ts";
import { type ComposedAttachment, composeMessage, LONGEST_SUBJECT } from "./compose.ts";
import { sanitizeHtml } from "./sanitize.ts";
import { htmlOfText, isForward, textOfHtml, trimLineBreaks } from "./text.ts";

export interface Letter {
  /** Boundaries are made of it: nothing that its writer knows. */
  id: string;
  /** [name, value] in order. */
  headers: readonly (readonly [name: string, value: string])[];
  /** Text, HTML or both as written; what is absent or empty is derived or left out. */
  text?: string | undefined;
  html?: string | undefined;
  /** To be quoted below. */
  quoted?: QuotedMessage | undefined;
  files?: readonly LetterFile[] | undefined;
}

/** What is attached, in a blob. */
export interface LetterFile extends Omit<ComposedAttachment, "content"> {
  blob: string;
  /** Bytes. */
  size: number;
}

export const isLetter = (source: Letter | Uint8Array | string): source is Letter =>
  typeof source === "object" && "headers" in source;

/** HTML is never alone: its text goes beside it. The bytes, lines ended by CRLF. `readBlob` gives what is attached. */
export async function composeLetter(
  { id, headers, text, html, quoted, files = [] }: Letter,
  readBlob: (name: string) => Promise<Uint8Array>,
): Promise<Uint8Array> {
  const budget = createBudget();
  const safeHtml = html ? sanitizeHtml(html, budget) : undefined;
  const ownText = text || textOfHtml(safeHtml ?? "", budget);
  return composeMessage({
    id,
    headers,
    text: quoted ? `${ownText}\n\n${quotedText(quoted)}` : ownText,
    ...(safeHtml !== undefined && { html: quoted ? `${safeHtml}\n<br>\n${quotedHtml(quoted, budget)}` : safeHtml }),
    attachments: await Promise.all(
      files.map(async ({ blob, size: _, ...file }) => ({ ...file, content: await readBlob(blob) })),
    ),
  });
}

/*
 * The message that is answered, quoted under the answer (rules: Reply request). What is quoted was written by
 * somebody else: it cannot end the quotation, and no more than a mebibyte of it is taken.
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
/** An attribution is one line, which snippetOf knows for the beginning of a quotation. */
const MAX_NAME = 60;

const BLOCKQUOTE = "margin:0 0 0 0.8ex;border-left:1px solid #ccc;padding-left:1ex";

/** The attribution and, behind `> `, the lines of the text. Lines end in \n; none at the end. */
export function quotedText(previous: QuotedMessage): string {
  // RFC 3676 §4.5: what was quoted before is quoted deeper, without a space between the marks.
  const lines = trimLineBreaks(cut(previous.text)).split("\n");
  const quoted = lines.map((line) => (line === "" || line.startsWith(">") ? `>${line}` : `> ${line}`));
  return [attribution(previous), ...quoted].join("\n");
}

/** The attribution and, in a blockquote, the HTML, or the text where there is none. Sanitised. */
export function quotedHtml(previous: QuotedMessage, budget: Budget = createBudget()): string {
  const { text, html } = previous;
  const content = html === undefined || html.length > MAX_QUOTED ? htmlOfText(cut(text)) : withoutAttached(html);
  // Sanitised once more: what it opens is closed before the blockquote is, and what it closes it has opened.
  const quoted = sanitizeHtml(content, budget);
  return `${htmlOfText(attribution(previous))}\n<blockquote style="${BLOCKQUOTE}">${quoted}</blockquote>`;
}

/** `On Tue, 1 Jul 2003 at 10:52 UTC, Ann Example <ann@remote.example> wrote:` */
function attribution({ from: { email, name }, date }: QuotedMessage): string {
  const [day, time] = new Date(date).toUTCString().split(/ (?=\d\d:)/);
  const shown = (name ?? "").replace(/[\s\p{C}]+/gu, " ").trim();
  const cutName = shown.length > MAX_NAME ? `${shown.slice(0, MAX_NAME).toWellFormed()}…` : shown;
  const address = email.replace(/[\s\p{C}]+/gu, "");
  return `On ${day?.replace(/ 0/, " ")} at ${time?.slice(0, 5)} UTC, ${cutName === "" ? address : `${cutName} <${address}>`} wrote:`;
}

function cut(text: string): string {
  return text.length > MAX_QUOTED ? `${text.slice(0, MAX_QUOTED).toWellFormed()}…` : text;
}

/** Without images shown by `cid:`, which do not come along: only what they stand for. Of sanitised HTML. */
function withoutAttached(html: string): string {
  return html.replace(/<img\b[^<>]*>/gi, (image) => {
    if (!/\ssrc="cid:/i.test(image)) return image;
    return /\salt="([^"]*)"/i.exec(image)?.[1] ?? "";
  });
}

/* The message that is forwarded, under the words of who forwards it: its header block, and its text or HTML. */

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

/** `Fwd:` stands there once. An endless one is cut. */
export const forwardSubject = (subject: string): string =>
  (isForward(subject) ? subject : `Fwd: ${subject}`).slice(0, LONGEST_SUBJECT).toWellFormed();

/** The header block, and the text below it; room to write is above. Lines end in \n. */
export const forwardedText = (message: ForwardedMessage): string =>
  `\n\n${blockOf(message).join("\n")}\n\n${message.text}`;

/** The same in HTML. Sanitised. */
export function forwardedHtml(message: ForwardedMessage, budget: Budget = createBudget()): string {
  const [title = "", ...fields] = blockOf(message).map((line) => htmlOfText(line));
  const body = message.html === undefined ? htmlOfText(message.text) : sanitizeHtml(message.html, budget);
  return `<div><br></div><div><br></div><div>${title}${fields.join("")}</div><br><div>${body}</div>`;
}

/** Never Bcc. */
function blockOf({ from, to, cc, subject, date }: ForwardedMessage): string[] {
  const lines = [
    ["From", shown(from)],
    ["Date", new Date(date).toUTCString().replace("GMT", "UTC")],
    ["Subject", oneLine(subject)],
    ["To", to.map(shown).join(", ")],
    ["Cc", cc.map(shown).join(", ")],
  ];
  return [
    "---------- Forwarded message ----------",
    ...lines.flatMap(([name, value]) => (value === "" ? [] : `${name}: ${value}`)),
  ];
}

const oneLine = (text: string): string => text.replace(/[\s\p{C}]+/gu, " ").trim();

const shown = ({ email, name }: EmailAddress): string =>
  name === undefined ? oneLine(email) : `${oneLine(name)} <${oneLine(email)}>`;
