/**
 * Reads what any request says, before an operation looks at it: the source that it counts against, the parts of its
 * URL, its JSON body. Gives each request its id.
 */
import { AppError } from "../base/errors.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Sharer } from "../base/shares.ts";
import { canonicalIpAddress, createNetworkMatcher, ipAddressSource } from "../net/ip.ts";
import type { Count } from "./pools.ts";

/** The address in a hop of X-Forwarded-For, which may have brackets and a port. */
function addressOfHop(hop: string): string | undefined {
  const match = /^\s*(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+|(\S+))\s*$/.exec(hop);
  return match ? canonicalIpAddress(match[1] ?? match[2] ?? match[3] ?? "") : undefined;
}

/**
 * Creates the reader of the address that a request comes from, as canonicalIpAddress gives it. `peer` is the address of the
 * connection, undefined when the system does not tell it. Behind trusted proxies, it is the right-most hop of
 * X-Forwarded-For that is no trusted proxy.
 *
 * Invariant: the reader believes only the hops that trusted proxies wrote. Nothing that a client puts there itself
 * changes its address.
 */
export function createClientAddressReader(
  trustedProxies: readonly string[],
): (peer: string | undefined, forwardedFor: string | null) => string | undefined {
  const isTrusted = createNetworkMatcher(trustedProxies);

  return (peer, forwardedFor) => {
    let address = canonicalIpAddress(peer ?? "");
    const hops = forwardedFor?.split(",") ?? [];
    while (address !== undefined && hops.length > 0 && isTrusted(address)) {
      const nearer = addressOfHop(hops.pop() ?? "");
      if (nearer === undefined) break;
      address = nearer;
    }
    return address;
  };
}

/**
 * Creates the reader of a request's source (rules: Request rates): an IPv4 address, or the /64 of an IPv6 address. The
 * arguments are those of createClientAddressReader.
 */
export function createClientSourceReader(
  trustedProxies: readonly string[],
): (peer: string | undefined, forwardedFor: string | null) => string {
  const readClientAddress = createClientAddressReader(trustedProxies);
  return (peer, forwardedFor) => ipAddressSource(readClientAddress(peer, forwardedFor));
}

const TRACE_BYTES = 8;
/** Requests of the listener. */
const named = new WeakMap<Request, { trace: string; leaving: AbortSignal; asker?: Sharer }>();

/** Makes the id of a request, which its response has in X-Request-Id (rules: Request ids). */
export const createRequestTraceId = (runtime: Pick<Runtime, "randomBytes">): string =>
  runtime.randomBytes(TRACE_BYTES).toHex();

/**
 * Gives a request its id, which its lines in the log have as `trace`. Whatever the client calls it is not believed.
 * `leaving` aborts when the client sends no more.
 */
export function assignRequestTraceId(
  request: Request,
  runtime: Pick<Runtime, "randomBytes">,
  leaving: AbortSignal,
): string {
  const trace = createRequestTraceId(runtime);
  named.set(request, { trace, leaving });
  return trace;
}

/** The id of a request of the listener. */
export const requestTraceId = (request: Request): string | undefined => named.get(request)?.trace;

/**
 * Aborts when the client sends no more. It has left, or it has only closed its side and still takes the response: the
 * two cannot be told apart. Whatever waits for news then responds without.
 */
export const clientLeavingSignal = (request: Request): AbortSignal => named.get(request)?.leaving ?? request.signal;

/** Notes the person with whose key or session a request came: it counts against their part of what is shared. */
export function noteRequestPerson(request: Request, asker: Sharer): void {
  const known = named.get(request);
  if (known) known.asker = asker;
}

/** Undefined for a request of somebody unknown. */
export const findRequestPerson = (request: Request): Sharer | undefined => named.get(request)?.asker;

/** The URL from its path on. */
const urlTarget = (url: string): string => url.slice(url.indexOf("/", url.indexOf("//") + 2));

/** The path of a request's URL, still escaped. Every request asks for it, so the URL is not parsed whole. */
export const urlPath = (url: string): string => urlTarget(url).split(/[?#]/, 1)[0] ?? "";

/** The query of a request's URL, still escaped, without `?` and fragment; empty when there is none. */
export function urlQuery(url: string): string {
  const start = url.indexOf("?");
  return start < 0 ? "" : (url.slice(start + 1).split("#", 1)[0] ?? "");
}

/** The host that a request names, in lower case and without its port; empty when it names none. */
export const requestHost = ({ headers }: Request): string =>
  (headers.get("host") ?? "").toLowerCase().replace(/:\d+$/, "");

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json$/;

const UTF_8 = new TextDecoder("utf-8", { fatal: true });

export function requireJson(headers: Headers): void {
  const contentType = headers.get("content-type") ?? "";
  if (contentType !== "application/json") requireJsonType(contentType);
  const encoding = headers.get("content-encoding");
  if (encoding !== null && !/^(identity)?$/i.test(encoding.trim())) {
    throw new AppError("bad_request", "The body is compressed: send it without Content-Encoding");
  }
}

function requireJsonType(contentType: string): void {
  const [type = "", ...parameters] = contentType.split(";").map((part) => part.trim());
  if (!JSON_TYPE.test(type.toLowerCase())) {
    const given = type === "" ? "missing" : "not JSON";
    throw new AppError("bad_request", `Content-Type is ${given}: send JSON with Content-Type: application/json`);
  }
  for (const parameter of parameters) {
    const [name = "", value] = parameter.split("=").map((part) => part.trim().toLowerCase());
    if (name === "charset" && value !== undefined && !/^"?(?:utf-?8|us-ascii)"?$/.test(value)) {
      throw new AppError("bad_request", "The charset of the body is not UTF-8: send JSON in UTF-8");
    }
  }
}

export function bodyTooLargeError(mostBytes: number): AppError {
  return new AppError("payload_too_large", `The body is too large: send at most ${mostBytes} bytes`);
}

const awaited = new WeakSet<Request>();

/** True while the server waits for more of the request's body. */
export const isAwaitingBody = (request: Request): boolean => awaited.has(request);

/** The Content-Length of a request, in bytes; undefined for a body that comes in chunks. */
export function declaredBodyLength({ headers }: Request): number | undefined {
  const length = headers.get("content-length");
  return length === null ? undefined : Number(length);
}

/** Reads from a body. @throws AppError bad_request when the body breaks off */
async function reading<T>(request: Request, read: () => Promise<T>): Promise<T> {
  awaited.add(request);
  try {
    return await read();
  } catch (cause) {
    throw new AppError("bad_request", "The body broke off: send the request again", { cause });
  } finally {
    awaited.delete(request);
  }
}

/** Yields the parts of a body as they come in. @throws AppError bad_request when the body breaks off */
export async function* readBodyParts(request: Request): AsyncGenerator<Uint8Array> {
  const reader = request.body?.getReader();
  try {
    for (;;) {
      const part = await reading(request, async () => reader?.read());
      if (!part || part.done) return;
      yield part.value;
    }
  } finally {
    reader?.releaseLock();
  }
}

/** Bodies up to this size are not counted: the limit of connections bounds their total. */
export const SMALL_BYTES = 65_536;

/** Counts a large body before reading it. @throws AppError bad_request, payload_too_large, and errors of `count` */
export async function readBodyBytes(request: Request, mostBytes: number, count: Count): Promise<Uint8Array> {
  const length = declaredBodyLength(request);
  if (length !== undefined) {
    if (length > mostBytes) throw bodyTooLargeError(mostBytes);
    if (length > SMALL_BYTES) count(length);
    // The listener takes no more than the declared length. Reading the body as a stream would cost several times as
    // much.
    return reading(request, () => request.bytes());
  }
  const parts: Uint8Array[] = [];
  let size = 0;
  let counted = SMALL_BYTES;
  for await (const part of readBodyParts(request)) {
    size += part.byteLength;
    if (size > mostBytes) throw bodyTooLargeError(mostBytes);
    if (size > counted) {
      count(size - counted);
      counted = size;
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
}

/** More than any request has. Parsed, an empty list of three bytes takes some eighty. */
const MOST_PARTS = 50_000;
const [QUOTE, BACKSLASH, COLON, BRACKET, BRACE] = [0x22, 0x5c, 0x3a, 0x5b, 0x7b];

/** The position of the quote that ends the string which begins at `at`; the end of the bytes without one. */
function endOfString(bytes: Uint8Array, at: number): number {
  for (let end = bytes.indexOf(QUOTE, at); end >= 0; end = bytes.indexOf(QUOTE, end + 1)) {
    let escapes = 0;
    while (bytes[end - 1 - escapes] === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return end;
  }
  return bytes.byteLength;
}

/** @throws AppError bad_request for JSON that takes much more memory than its bytes */
function requireFewParts(bytes: Uint8Array): void {
  let parts = 0;
  for (let i = 0; i < bytes.byteLength; i++) {
    const byte = bytes[i];
    if (byte === QUOTE) i = endOfString(bytes, i + 1);
    else if ((byte === COLON || byte === BRACKET || byte === BRACE) && ++parts > MOST_PARTS) {
      throw new AppError("bad_request", `The JSON has more than ${MOST_PARTS} fields, objects and lists`);
    }
  }
}

/** @throws AppError bad_request */
export function parseJson(bytes: Uint8Array): unknown {
  if (bytes.byteLength > SMALL_BYTES) requireFewParts(bytes);
  let text: string;
  try {
    text = UTF_8.decode(bytes);
  } catch {
    throw new AppError("bad_request", "The body is not UTF-8: send JSON in UTF-8");
  }
  if (text.trim() === "") throw new AppError("bad_request", "The body is empty: send a JSON object");
  try {
    return JSON.parse(text);
  } catch {
    throw new AppError("bad_request", "The body is not valid JSON: check its quotes, commas and braces");
  }
}

/**
 * Reads the JSON body of a request (rules: Errors, Body size). At most `mostBytes` of it are taken into memory; `count`
 * counts them in a budget.
 * @throws AppError bad_request with what to change, payload_too_large, and errors of `count`
 */
export async function readJson(request: Request, mostBytes: number, count: Count = () => {}): Promise<unknown> {
  requireJson(request.headers);
  return parseJson(await readBodyBytes(request, mostBytes, count));
}
