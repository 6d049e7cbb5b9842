/**
 * Attachments, and messages as files: text, and the text of documents, is shown piece by piece; a small file of another
 * type is embedded, which the caller does; a large one is a link, because base64 is of no use to a model.
 */
import { decodeUnlabelledText } from "../../message/charset.ts";
import { cutPiece, type Piece, resultBudget } from "./budget.ts";
import { drawMailFenceNonce, wrapInMailFence } from "./fence.ts";
import { contentTypeLine, filenameLine } from "./parts.ts";
import {
  makeMailToolResult,
  type RenderArguments,
  type RenderContext,
  type Rendered,
  type RenderedDownload,
} from "./result.ts";

const TEXT_TYPE =
  /^(?:text\/(?!rtf)|message\/|image\/svg\+xml$|application\/(?:(?:[\w.-]+\+)?(?:json|xml|yaml)|x-yaml|toml|sql|csv|javascript|ecmascript|x-sh|x-ndjson|ics|pgp-signature)$)/i;
const TEXT_NAME =
  /\.(?:txt|text|md|csv|tsv|json|ndjson|jsonl|xml|ya?ml|toml|ini|log|ics|vcf|eml|svg|x?html?|css|js|ts|py|rb|go|rs|java|c|h|cpp|sh|sql|diff|patch|srt|tex)$/i;
/** Types that say nothing, so the name of the file decides. */
const ANY_TYPE = /^application\/(?:octet-stream|x-download|force-download|unknown)$/i;

/** Bytes of the largest text that is shown piece by piece. A larger file is for programs. */
const LARGEST_TEXT = 25 * 1024 * 1024;

const isTextLike = ({ contentType, filename }: Pick<RenderedDownload, "contentType" | "filename">): boolean =>
  TEXT_TYPE.test(contentType) || (ANY_TYPE.test(contentType) && TEXT_NAME.test(filename));

/**
 * Says what the caller does with the bytes. `text`: give them to the renderer. `blob`: embed them beside the result;
 * their base64 is no longer than the budget. `none`, `link`: do not read them.
 */
export function chooseDownloadForm(
  download: Pick<RenderedDownload, "contentType" | "filename" | "size" | "document"> &
    Pick<RenderArguments, "maxChars">,
): "text" | "none" | "blob" | "link" {
  const { document } = download;
  if (document && "text" in document) return "none";
  if (!document && isTextLike(download) && download.size <= LARGEST_TEXT) return "text";
  return Math.ceil(download.size / 3) * 4 <= resultBudget(download) ? "blob" : "link";
}

export function createMcpDownloadRenderer(tool: "get_attachment" | "get_raw_message") {
  const path = tool === "get_attachment" ? (id: string) => `attachments/${id}` : (id: string) => `messages/${id}/raw`;
  return async (download: RenderedDownload, args: RenderArguments, context: RenderContext): Promise<Rendered> => {
    const file = {
      id: download.id,
      filename: filenameLine(download.filename),
      contentType: contentTypeLine(download.contentType),
      size: download.size,
      url: `${context.baseUrl}/api/v1/${path(encodeURIComponent(download.id))}`,
    };
    const { document, content } = download;
    if (document && "text" in document) return renderText(tool, file, document, args, context);
    const text = content && (await decode(download, content, context));
    if (text !== undefined) return renderText(tool, file, { text, notes: [] }, args, context);
    const isEmbedded = chooseDownloadForm({ ...download, maxChars: args.maxChars }) === "blob";
    return renderFile(file, { isEmbedded, failure: document?.failure }, context);
  };
}

type File = Omit<RenderedDownload, "content" | "document"> & { url: string };

/** The fields of a file that do not come from mail. */
const toStructuredFile = ({ size, url }: File) => ({ size, url });

const formatFileTitle = (file: File, nonce: string): string =>
  `${file.id}, ${file.size} bytes\n${wrapInMailFence(nonce, `"${file.filename}" ${file.contentType}`)}`;

/** `failure`: why a document gives no text. */
function renderFile(
  file: File,
  { isEmbedded, failure }: { isEmbedded: boolean; failure: string | undefined },
  { nonce }: RenderContext,
): Rendered {
  const why = failure === undefined ? "" : `Its text could not be extracted: ${failure}. `;
  const how = isEmbedded
    ? `${why}Its bytes come as an embedded resource.`
    : `Cut: ${why || (file.size > LARGEST_TEXT ? "a file over 25 MB is not read. " : "it is no text, and its bytes have no room in maxChars. ")}Download it with the same key:\ncurl -H "Authorization: Bearer $KEY" -o FILE ${file.url}`;
  return makeMailToolResult(
    `${formatFileTitle(file, drawMailFenceNonce(nonce, file.filename, file.contentType))}\n${how}`,
    toStructuredFile(file),
  );
}

/** An offset longer than any, to measure what stands around a piece. */
const FAR = 999_999_999;

/** `notes`: what the text of a document lacks. */
function renderText(
  tool: string,
  file: File,
  { text: whole, notes }: { text: string; notes: string[] },
  args: RenderArguments,
  context: RenderContext,
): Rendered {
  const budget = resultBudget(args);
  const assemble = ({ shown, start, end }: Piece): Rendered => {
    const content = `"${file.filename}" ${file.contentType}\n\n${shown}`;
    const cut = `Cut: characters ${start} to ${end} of ${whole.length}; go on with ${tool}, id ${file.id}, offset ${end}; or download ${file.url} with the same key.`;
    const isCut = end !== whole.length;
    const lines = [
      ...(isCut ? [cut] : []),
      ...notes.map((note) => `${note} Download ${file.url} with the same key for the whole.`),
    ];
    return makeMailToolResult(
      [
        `${file.id}, ${file.size} bytes`,
        wrapInMailFence(drawMailFenceNonce(context.nonce, content), content),
        ...lines,
      ].join("\n"),
      {
        ...toStructuredFile(file),
        ...(start === 0 ? {} : { offset: start }),
        ...(isCut ? { nextOffset: end } : {}),
        textLength: whole.length,
      },
    );
  };
  const frame = assemble({ shown: "", start: FAR, end: FAR });
  const room = { text: budget - frame.text.length, json: budget - JSON.stringify(frame.structured).length };
  return assemble(cutPiece(whole, args.offset ?? 0, room));
}

/** Decodes the text of a file, of HTML its visible text; undefined when the bytes are not text. */
async function decode(
  { contentType, filename }: RenderedDownload,
  content: Uint8Array,
  { html }: RenderContext,
): Promise<string | undefined> {
  const text = decodeText(content);
  if (text === undefined) return undefined;
  const isHtml =
    /^(?:text\/html|application\/xhtml\+xml)$/i.test(contentType) ||
    (ANY_TYPE.test(contentType) && /\.x?html?$/i.test(filename));
  return isHtml ? html.ofFile(text) : text;
}

function decodeText(content: Uint8Array): string | undefined {
  if (content[0] === 0xff && content[1] === 0xfe) return new TextDecoder("utf-16le").decode(content);
  if (content[0] === 0xfe && content[1] === 0xff) return new TextDecoder("utf-16be").decode(content);
  return content.subarray(0, 4_096).includes(0) ? undefined : decodeUnlabelledText(content);
}
