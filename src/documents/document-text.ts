/**
 * The text of documents that come by mail, for models: PDF, Word, Excel, PowerPoint, RTF and calendars. Runs in a parser
 * (workers/parser.ts), which is ended when it takes too long or too much memory; each reader has limits besides,
 * and is loaded when it is needed.
 */

import { createExtractedText, Enough, type Text, Unreadable } from "./extracted-text.ts";
import { type DocumentText, detectDocumentKind, type FileHints, matchesFileHints, TYPE_OF_OFFICE } from "./kind.ts";

/** Extracts the text; undefined when it is no document after all. `now`: epoch ms. */
export async function extractText(
  bytes: Uint8Array<ArrayBuffer>,
  hints: FileHints,
  now: () => number,
): Promise<DocumentText | undefined> {
  const text = createExtractedText(now);
  try {
    if (!(await readInto(text, bytes, hints))) return undefined;
    if (text.whole.trim() === "") throw new Unreadable("it has no text");
    return { text: text.whole, notes: text.notes() };
  } catch (error) {
    if (error instanceof Enough) return { text: text.whole, notes: text.notes(error) };
    if (error instanceof Unreadable) return { failure: error.message };
    return { failure: "it is broken" };
  }
}

/** False when it is no document. */
async function readInto(text: Text, bytes: Uint8Array<ArrayBuffer>, hints: FileHints): Promise<boolean> {
  const kind = detectDocumentKind(bytes, hints);
  if (kind === "office") return readOffice(text, bytes, hints);
  if (kind === "pdf") await (await import("./pdf.ts")).readPdf(bytes, text);
  else if (kind === "rtf") (await import("./rtf-text.ts")).readRtf(bytes, text);
  else if (kind === "calendar") return (await import("./calendar.ts")).readCalendar(bytes, text);
  else if (kind === "old-office") throw new Unreadable("it is encrypted, or in the format of before 2007");
  return kind !== undefined;
}

/** Reads an Office file by the root element of its main part. */
async function readOffice(text: Text, bytes: Uint8Array, hints: FileHints): Promise<boolean> {
  const { openArchive } = await import("./archive.ts");
  const archive = await openArchive(bytes, text).catch((error) => {
    // An archive of another kind, which happens to be broken.
    if (error instanceof Unreadable && !matchesFileHints(hints, TYPE_OF_OFFICE)) return undefined;
    throw error;
  });
  const relations = await archive?.readPartRelations("");
  const main = relations?.values().find(({ kind }) => kind === "officeDocument")?.target;
  if (!archive || main === undefined) return false;
  const root = await archive.findRootElement(main);
  if (root === "document") await (await import("./docx.ts")).readDocx(archive, main, text);
  else if (root === "workbook") await (await import("./xlsx.ts")).readXlsx(archive, main, text);
  else if (root === "presentation") await (await import("./pptx.ts")).readPptx(archive, main, text);
  else return false;
  return true;
}
