/**
 * Compresses JSON for clients that ask for it (rules: Compression). Longer JSON is compressed off the main thread.
 *
 * Whoever sees the lengths of compressed responses, and gets text of their own into them, can guess a secret beside it
 * (BREACH). So the caller leaves out responses that hold a key or another secret of ours.
 */
import { promisify } from "node:util";
import { gzip } from "node:zlib";
import Negotiator from "negotiator";

const ENCODINGS = ["zstd", "gzip", "identity"] as const;
type Encoding = (typeof ENCODINGS)[number];

/** Bytes; JSON up to this size is sent as it is. */
const SMALL_BYTES = 1_024;
/** Up to this size, compressing takes the main thread less than half a millisecond. */
const MOST_BYTES_AT_ONCE = 32_768;
/** JSON above this size is sent as it is: compressing it would take a processor for 0.1 s or more. */
const MOST_BYTES = 8 * 1_048_576;

const gzipElsewhere = promisify(gzip);

/**
 * Those of the encodings `preferred` that a client accepts, the best first; at the same weight, in the order of `preferred`.
 */
export function acceptedEncodings<E extends Encoding>(request: Request, preferred: readonly E[]): E[] {
  const headers = { "accept-encoding": request.headers.get("accept-encoding") ?? "" };
  return new Negotiator({ headers }).encodings(preferred, { preferred });
}

function compress(bytes: Uint8Array<ArrayBuffer>, encoding: "zstd" | "gzip"): Uint8Array | Promise<Uint8Array> {
  const isLong = bytes.length > MOST_BYTES_AT_ONCE;
  if (encoding === "zstd") return isLong ? Bun.zstdCompress(bytes) : Bun.zstdCompressSync(bytes);
  return isLong ? gzipElsewhere(bytes, { level: 4 }) : Bun.gzipSync(bytes, { library: "libdeflate", level: 1 });
}

/** Compresses the body of a response if it is JSON, and if size and client allow it. */
export async function compressJson(request: Request, response: Response): Promise<Response> {
  const { status, headers } = response;
  headers.append("vary", "accept-encoding");
  if (headers.get("content-type")?.startsWith("application/json") !== true) return response;
  const [best = "identity", ...others] = acceptedEncodings(request, ENCODINGS);
  if (best === "identity" || request.method === "HEAD") return response;
  const withBody = (body: Uint8Array) => new Response(body as Uint8Array<ArrayBuffer>, { status, headers });
  const bytes = new Uint8Array(await response.arrayBuffer());
  const isSmall = bytes.length <= SMALL_BYTES && others.includes("identity");
  if (isSmall || bytes.length > MOST_BYTES) return withBody(bytes);
  headers.set("content-encoding", best);
  return withBody(await compress(bytes, best));
}
