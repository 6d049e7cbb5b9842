/**
 * Downloads over HTTP. Anybody may have sent the file by mail: browsers never show it in the appliance's origin, and
 * neither its name nor its type can add a header.
 */
import { formatHttpParameters } from "../message/content-type.ts";
import type { AnyDownload, Download, TaggedDownload } from "../operations/operation.ts";
import { matchesTag, readRange } from "./ranges.ts";
import { markStreamedResponse } from "./unread-answers.ts";

/** RFC 9110 §8.3.1, but without parameters. */
const MEDIA_TYPE = /^[\w!#$&^.+-]{1,127}\/[\w!#$&^.+-]{1,127}$/;

/**
 * Control characters, those that turn the direction of text (a name must not hide its ending), and separators of
 * folders.
 */
const NOT_IN_A_NAME = /[\p{Cc}\u200E\u200F\u202A-\u202E\u2066-\u2069/\\]+/gu;
const LONGEST_NAME = 200;

/**
 * Returns a Content-Disposition (RFC 6266 §4.3, appendix D): a name in ASCII, and the full name as RFC 8187 encodes it.
 */
export function contentDisposition(type: "attachment" | "inline", filename: string): string {
  const name = [...filename.toWellFormed().replaceAll(NOT_IN_A_NAME, "_")].slice(0, LONGEST_NAME).join("").trim();
  const full = name === "" ? "attachment" : name;
  const plain = full.replaceAll(/[^\x20-\x7e]|["%]/g, "_");
  if (plain === full) return `${type}; filename="${plain}"`;
  const encoded = encodeURIComponent(full).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return `${type}; filename="${plain}"; filename*=UTF-8''${encoded}`;
}

/** Bytes of a large message that are in memory at once while a client reads it. */
const PIECE_BYTES = 64 * 1024;

/** Large bytes are a file's memory: pieces of them are read as the client takes them, and a copy is never made. */
function streamBytes(bytes: Uint8Array): ReadableStream<Uint8Array> {
  let at = 0;
  return new ReadableStream(
    {
      pull(controller) {
        controller.enqueue(bytes.slice(at, at + PIECE_BYTES));
        at += PIECE_BYTES;
        if (at >= bytes.byteLength) controller.close();
      },
    },
    { highWaterMark: 0 },
  );
}

/** `init`: status and headers. The body is streamed. */
function bytesResponse(bytes: Uint8Array, init: ResponseInit): Response {
  const isLarge = bytes.byteLength > PIECE_BYTES;
  return markStreamedResponse(new Response(isLarge ? streamBytes(bytes) : (bytes as Uint8Array<ArrayBuffer>), init));
}

const downloadHeaders = ({ filename, contentType, parameters = [] }: AnyDownload): Record<string, string> => ({
  "content-type": MEDIA_TYPE.test(contentType)
    ? contentType + formatHttpParameters(parameters)
    : "application/octet-stream",
  "content-disposition": contentDisposition("attachment", filename),
  "content-security-policy": "sandbox; default-src 'none'",
});

/** Gives the response with a download, or with the part of it that is asked for, which are streamed. Only these are read. */
export async function taggedDownloadResponse(download: TaggedDownload, request: Request): Promise<Response> {
  const { size, digest, read } = download;
  const etag = `"${Buffer.from(digest).toString("base64url")}"`;
  const tagged = { etag, "accept-ranges": "bytes" };
  if (matchesTag(request.headers.get("if-none-match"), etag))
    return new Response(null, { status: 304, headers: tagged });
  const range = readRange(request, size, etag);
  if (range === "none") {
    return new Response(null, { status: 416, headers: { ...tagged, "content-range": `bytes */${size}` } });
  }
  const bytes = await read();
  const headers = downloadHeaders(download);
  if (range === "all") return bytesResponse(bytes, { headers: { ...headers, ...tagged } });
  const { start, end } = range;
  return bytesResponse(bytes.subarray(start, end), {
    status: 206,
    headers: { ...headers, ...tagged, "content-range": `bytes ${start}-${end - 1}/${size}` },
  });
}

/** Gives the response with a download, which is streamed. Files support range requests. */
export async function downloadResponse(download: Download): Promise<Response> {
  const { content } = download;
  const headers = downloadHeaders(download);
  if (content instanceof Uint8Array) return bytesResponse(content, { headers });
  if (!(await content.exists())) throw new Error(`the blob ${content.name} is gone`);
  return markStreamedResponse(new Response(content, { headers }));
}
