/**
 * The text of attachments that are documents (documents/document-text.ts). A model reads a long text piece by piece, so the
 * last texts are kept in memory for some minutes.
 */
import type { Caller } from "../../access/caller.ts";
import type { Runtime } from "../../base/runtime.ts";
import { type DocumentText, HEAD_BYTES, mayBeDocument, type ReadDocument } from "../../documents/kind.ts";
import type { Download } from "../../operations/operation.ts";

/** Bytes of the largest document that is read. */
const LARGEST = 25 * 1024 * 1024;
/** Texts that are kept, of a million characters at most, and for how long, ms. */
const MOST_KEPT = 8;
const KEPT_MS = 5 * 60_000;

/** The text of an attachment; undefined when it is no document, or too large. Rejects as ReadDocument. */
export type TextOfDocument = (caller: Caller, attachment: Download) => Promise<DocumentText | undefined>;

export function createAttachmentTextReader({
  readDocument,
  runtime,
}: {
  readDocument: ReadDocument;
  runtime: Pick<Runtime, "now">;
}): TextOfDocument {
  /** Texts by file and hints; the one used last is at the end. */
  const cache = new Map<string, { text: Promise<DocumentText | undefined>; until: number }>();

  /** The text that `read` gives, or gave lately. */
  function once(key: string, read: () => Promise<DocumentText | undefined>): Promise<DocumentText | undefined> {
    const now = runtime.now();
    for (const [other, { until }] of cache) if (until <= now) cache.delete(other);
    const known = cache.get(key) ?? { text: read(), until: now + KEPT_MS };
    cache.delete(key);
    cache.set(key, known);
    for (const oldest of cache.keys()) {
      if (cache.size <= MOST_KEPT) break;
      cache.delete(oldest);
    }
    known.text.catch(() => cache.delete(key));
    return known.text;
  }

  return async (caller, { content, filename, contentType }) => {
    if (content instanceof Uint8Array || content.size > LARGEST || content.name === undefined) return undefined;
    const hints = { filename, contentType };
    if (!mayBeDocument(await content.slice(0, HEAD_BYTES).bytes(), hints)) return undefined;
    // The name of a blob is the hash of its bytes.
    const { name, size } = content;
    return once(JSON.stringify([name, hints]), () => readDocument(caller.userId, name, size, hints));
  };
}
