/** Jobs of parsers on documents. The readers of documents are loaded for the first job alone. */
import { extractText } from "../documents/document-text.ts";
import { readMessageSource } from "../smtp/spool.ts";
import type { DocumentJob, Prepared } from "./jobs.ts";

// pdf.js leaves rejections of broken PDFs behind. They would end the parser, perhaps during the next document.
process.on("unhandledRejection", () => {});

/** Extracts the text of a document, or reads an invitation. `now`: epoch ms. @throws the error of the file system */
export async function performDocumentJob(job: DocumentJob, now: () => number): Promise<Prepared> {
  if ("invitation" in job) {
    const { source, answer } = job.invitation;
    const { readInvitation } = await import("../documents/invitation.ts");
    return { invitation: readInvitation(await readMessageSource(source), answer) ?? null };
  }
  const { source, ...hints } = job.document;
  const bytes = new Uint8Array(await readMessageSource(source));
  return { document: (await extractText(bytes, hints, now)) ?? null };
}
