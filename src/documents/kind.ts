/**
 * Finds out what a file is: its bytes say so, and the type and name that the sender gave are hints. Here are also the shapes of
 * the extraction (document-text.ts), because the server itself does not load its code.
 */
/** Name and type that the sender of a file gave it. */
export interface FileHints {
  filename: string;
  contentType: string;
}

/** `text`: the text of the document, with sentences that say what was left out. `failure`: the reason for none. */
export type DocumentText = { text: string; notes: string[] } | { failure: string };

/**
 * Extracts the text of a document in a parser. `owner`: id of the person whom its time is charged to; `source`: its bytes,
 * or the path of its file; `size`: bytes. Undefined when it is no document. @throws AppError server_error 503
 */
export type ReadDocument = (
  owner: string,
  source: Uint8Array | string,
  size: number,
  hints: FileHints,
) => Promise<DocumentText | undefined>;

/** Bytes at the beginning of a file that say what it is. */
export const HEAD_BYTES = 1_024;

export type Kind = "pdf" | "office" | "old-office" | "rtf" | "calendar";

/** Types and names of the Office files that are read. */
export const TYPE_OF_OFFICE =
  /officedocument|application\/vnd\.ms-(?:word|excel|powerpoint)\.\w+\.macroenabled|\.(?:doc|xls|ppt|pps|pot|dot|xlt)[xm]$/i;

export const matchesFileHints = ({ contentType, filename }: FileHints, type: RegExp): boolean =>
  type.test(contentType) || type.test(filename);

/** The kind of a file by its first bytes; undefined for others than documents. */
export function detectDocumentKind(head: Uint8Array, hints: FileHints): Kind | undefined {
  const start = new TextDecoder("latin1").decode(head.subarray(0, HEAD_BYTES));
  const words = start.replace(/^(?:\u00ef\u00bb\u00bf)?\s*/, "");
  if (start.startsWith("PK\u0003\u0004")) return "office";
  // Readers find the header behind other bytes, too; text may speak of it.
  if (words.startsWith("%PDF-") || (start.includes("%PDF-") && matchesFileHints(hints, /\bpdf$/i))) return "pdf";
  if (start.startsWith("\u00d0\u00cf\u0011\u00e0") && matchesFileHints(hints, TYPE_OF_OFFICE)) return "old-office";
  // A text may begin so and be meant as text.
  if (words.startsWith("{\\rtf") && !isPlainText(hints, /\brtf$/i)) return "rtf";
  if (/^BEGIN:VCALENDAR/i.test(words) && !isPlainText(hints, /\bcalendar\b|\bics$/i)) return "calendar";
  return undefined;
}

const isPlainText = (hints: FileHints, exceptFor: RegExp): boolean =>
  /^text\/plain\b/i.test(hints.contentType) && !matchesFileHints(hints, exceptFor);

/** True for a file that may be a document, by its first HEAD_BYTES. */
export const mayBeDocument = (head: Uint8Array, hints: FileHints): boolean =>
  detectDocumentKind(head, hints) !== undefined;
