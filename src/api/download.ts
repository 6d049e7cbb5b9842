/**
 * Downloads over HTTP. Anybody may have sent the file by mail: browsers never show it in the appliance's origin, and
 * neither its name nor its type can add a header.
 */
import { formatHttpParameters } from "../message/content-type.ts";
import type { Download } from "../operations/operation.ts";
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

/** Gives the response with bytes that have a tag, or with the part of them that is asked for. */
function taggedResponse(request: Request, bytes: Uint8Array, etag: string, headers: Record<string, string>): Response {
  const tagged = { etag, "accept-ranges": "bytes" };
  if (matchesTag(request.headers.get("if-none-match"), etag))
    return new Response(null, { status: 304, headers: tagged });
  const { byteLength: size } = bytes;
  const range = readRange(request, size, etag);
  if (range === "none") {
    return new Response(null, { status: 416, headers: { ...tagged, "content-range": `bytes */${size}` } });
  }
  if (range === "all") return bytesResponse(bytes, { headers: { ...headers, ...tagged } });
  const { start, end } = range;
  return bytesResponse(bytes.subarray(start, end), {
    status: 206,
    headers: { ...headers, ...tagged, "content-range": `bytes ${start}-${end - 1}/${size}` },
  });
}

/** Gives the response with a download, which is streamed. Files, and bytes that have a digest, support range requests. */
export async function downloadResponse(
  { filename, contentType, parameters = [], content, digest }: Download,
  request?: Request,
): Promise<Response> {
  const headers = {
    "content-type": MEDIA_TYPE.test(contentType)
      ? contentType + formatHttpParameters(parameters)
      : "application/octet-stream",
    "content-disposition": contentDisposition("attachment", filename),
    "content-security-policy": "sandbox; default-src 'none'",
  };
  if (content instanceof Uint8Array) {
    const etag = digest && `"${Buffer.from(digest).toString("base64url")}"`;
    return request && etag ? taggedResponse(request, content, etag, headers) : bytesResponse(content, { headers });
  }
  if (!(await content.exists())) throw new Error(`the blob ${content.name} is gone`);
  return markStreamedResponse(new Response(content, { headers }));
}
