/**
 * Reads stored HTML when a person or a model asks for it. Strangers wrote it, so a parser does the work
 * (workers/parser.ts), each reading within a budget of its own. Also packs and unpacks stored bodies.
 */
import { zstdDecompressSync } from "node:zlib";
import { type CodedPart, maskCodes } from "./codes.ts";
import { type CodedFile, maskCodesInFile } from "./codes-file.ts";
import { type ForwardedMessage, forwardedHtml } from "./composition.ts";
import { type DeceptiveLink, deceptiveLinks } from "./deceptive-links.ts";
import { attachmentPreviewUrl, editorDocument, type FramedMessage, renderMessageDocument } from "./frame.ts";
import { createHtmlBudget } from "./markup.ts";
import { sanitizeHtml } from "./sanitize.ts";
import { type SeenText, type VisibleHtml, visibleHtml, visibleTextForModel } from "./visible.ts";

/** Compresses text as bodies are stored: zstd. */
export const packText = (text: string): Uint8Array => Bun.zstdCompressSync(text);

/** Bytes of an unpacked body: as many as the largest message that smtp.maxMessageBytes allows. */
const MOST_UNPACKED = 1024 * 1024 * 1024;

/** @throws Error for what is not packed, or unpacks to more than `most` bytes */
export const unpackText = (packed: Uint8Array, most = MOST_UNPACKED): string =>
  new TextDecoder().decode(zstdDecompressSync(packed, { maxOutputLength: Math.max(1, most) }));

/** A body stored by an older version: `html` as received, packed; `text` as stored. */
interface BodyReading {
  kind: "body";
  html: Uint8Array;
  text: string;
}
/** HTML for a model: safe, and without hidden text. */
interface VisibleReading {
  kind: "visible";
  html: Uint8Array;
}
/** The links of a message that deceive its reader (deceptive-links.ts). */
interface LinksReading {
  kind: "links";
  html: Uint8Array;
}
/** The text of an HTML file, as its reader sees it. */
interface FileReading {
  kind: "text";
  html: string;
}
/** The HTML of a forwarded message, under its header block. */
interface ForwardReading {
  kind: "forward";
  message: ForwardedMessage;
}
/** The document that shows a message (frame.ts). `remote`: includes the URLs of its remote images, between NULs. */
interface FrameReading {
  kind: "frame";
  message: FramedMessage;
  remote: boolean;
}
/** The document in which the HTML of a draft is edited. */
interface EditorReading {
  kind: "editor";
  message: Pick<FramedMessage, "html" | "attachments">;
}
/** The parts of several messages, with their codes masked (codes.ts). */
interface CodesReading {
  kind: "codes";
  messages: readonly { parts: readonly CodedPart[]; known: readonly string[] }[];
}
/** A file with its codes masked; null if there is nothing to mask (codes-file.ts). */
interface CodedFileReading {
  kind: "file codes";
  file: CodedFile;
}
export type Reading =
  | CodesReading
  | CodedFileReading
  | BodyReading
  | VisibleReading
  | LinksReading
  | FileReading
  | ForwardReading
  | FrameReading
  | EditorReading;

/** The result of a reading. */
export type Read<R extends Reading = Reading> = R extends BodyReading
  ? { html: string; seen: SeenText }
  : R extends VisibleReading
    ? Pick<VisibleHtml, "html" | "hidden">
    : R extends LinksReading
      ? DeceptiveLink[]
      : R extends CodesReading
        ? ReturnType<typeof maskCodes>[]
        : R extends CodedFileReading
          ? Uint8Array | null
          : string;

/** The size of what is read: characters, or bytes of packed HTML or a file. */
export function sizeOfReading(reading: Reading): number {
  if ("file" in reading) return reading.file.content.byteLength;
  if ("messages" in reading) return countPartCharacters(reading.messages);
  return ("message" in reading ? reading.message.html : reading.html)?.length ?? 0;
}

/** Characters of the parts of several messages. */
export const countPartCharacters = (messages: CodesReading["messages"]): number =>
  messages.reduce((sum, { parts }) => parts.reduce((of, { content }) => of + content.length, sum), 0);

/**
 * Runs a reading in a parser. `source`: id of the owner that the time is charged to. @throws AppError server_error 503
 */
export type ReadHtml = <R extends Reading>(source: string, reading: R) => Promise<Read<R>>;

/** Runs a reading in this thread, for commands, which delay no other request. */
export const readHtmlInThisThread: ReadHtml = (_, reading) => performReading(reading);

export async function performReading<R extends Reading>(reading: R): Promise<Read<R>> {
  return (
    reading.kind === "file codes" ? ((await maskCodesInFile(reading.file)) ?? null) : readHtml(reading)
  ) as Read<R>;
}

/** Every reading but that of a file, which takes its time. */
export function readHtml<R extends Exclude<Reading, CodedFileReading>>(reading: R): Read<R>;
export function readHtml(reading: Exclude<Reading, CodedFileReading>): Read {
  if (reading.kind === "codes") return reading.messages.map(({ parts, known }) => maskCodes(parts, known));
  const budget = createHtmlBudget();
  if (reading.kind === "forward") return forwardedHtml(reading.message, budget);
  if (reading.kind === "text") return visibleHtml(reading.html, budget).text;
  if (reading.kind === "editor") return editorDocument(reading.message);
  if (reading.kind === "frame") {
    const remote = reading.remote ? (url: string) => `\u0000${url}\u0000` : undefined;
    return renderMessageDocument(reading.message, { attachment: attachmentPreviewUrl, remote });
  }
  const html = unpackText(reading.html);
  if (reading.kind === "links") return deceptiveLinks(html, budget);
  if (reading.kind === "visible") {
    const visible = visibleHtml(html, budget);
    return { html: sanitizeHtml(visible.html, budget, "model"), hidden: visible.hidden };
  }
  // The same as mailbox/filing/prepare.ts stores of arriving mail.
  const seen = visibleTextForModel(reading.text, html, budget);
  return { html: sanitizeHtml(html, budget), seen };
}
