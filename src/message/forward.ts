/** The message that is forwarded, under the words of who forwards it: its header block, and its text or HTML. */
import type { EmailAddress } from "./address.ts";
import { type Budget, createBudget } from "./budget.ts";
import { LONGEST_SUBJECT } from "./compose.ts";
import { sanitizeHtml } from "./sanitize.ts";
import { htmlOfText, isForward } from "./text.ts";

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
