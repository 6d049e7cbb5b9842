/**
 * What somebody wrote becomes the bytes of a message: HTML made safe, text beside it, the message that is answered
 * quoted below. Heavy for large bodies: a worker does it.
 */
import { createBudget } from "./budget.ts";
import { type ComposedAttachment, composeMessage } from "./compose.ts";
import { type QuotedMessage, quotedHtml, quotedText } from "./quote.ts";
import { sanitizeHtml } from "./sanitize.ts";
import { textOfHtml } from "./text.ts";

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
