/**
 * The message that is answered, quoted under the answer (rules: Reply request). What is quoted was written by
 * somebody else: it cannot end the quotation, and no more than a mebibyte of it is taken.
 */
import type { EmailAddress } from "./address.ts";
import { type Budget, createBudget } from "./budget.ts";
import { sanitizeHtml } from "./sanitize.ts";
import { htmlOfText, trimLineBreaks } from "./text.ts";

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
