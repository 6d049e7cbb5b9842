/**
 * Reading a JSON body (rules: Errors, Body size): every way in which it can be none has a refusal
 * that says what to change. No more of it is taken into memory than allowed.
 */
import { AppError } from "../base/errors.ts";
import type { Count } from "./budget.ts";

const JSON_TYPE = /^application\/(?:[\w.-]+\+)?json$/;

const UTF_8 = new TextDecoder("utf-8", { fatal: true });

function requireJson(headers: Headers): void {
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
    const charset = /^charset\s*=\s*"?([^"]*)"?$/i.exec(parameter)?.[1];
    if (charset !== undefined && !/^(utf-?8|us-ascii)$/i.test(charset)) {
      throw new AppError("bad_request", "The charset of the body is not UTF-8: send JSON in UTF-8");
    }
  }
}

function tooLarge(mostBytes: number): AppError {
  return new AppError("payload_too_large", `The body is too large: send at most ${mostBytes} bytes`);
}

const awaited = new WeakSet<Request>();

/** Whether somebody reads the request's body, which is not whole yet. */
export const isAwaitingBody = (request: Request): boolean => awaited.has(request);

/** What the Content-Length of a request says; undefined for a body that is sent in chunks. */
export function declaredLength({ headers }: Request): number | undefined {
  const length = headers.get("content-length");
  return length === null ? undefined : Number(length);
}

/** Reads from a body. @throws AppError bad_request when it breaks off */
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

/** The parts of a body as they come in. They throw AppError bad_request. */
export async function* readParts(request: Request): AsyncGenerator<Uint8Array> {
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

/** Bodies up to this size are not counted: what they take in all, the number of connections bounds. */
const SMALL_BYTES = 65_536;

/** `count` is told of large bodies before they are read. @throws AppError bad_request, payload_too_large, and what `count` throws */
async function readBytes(request: Request, mostBytes: number, count: Count): Promise<Uint8Array> {
  const length = declaredLength(request);
  if (length !== undefined) {
    if (length > mostBytes) throw tooLarge(mostBytes);
    if (length > SMALL_BYTES) count(length);
    // The listener takes no more: reading it as a stream would cost several times as much.
    return reading(request, () => request.bytes());
  }
  const parts: Uint8Array[] = [];
  let size = 0;
  let counted = SMALL_BYTES;
  for await (const part of readParts(request)) {
    size += part.byteLength;
    if (size > mostBytes) throw tooLarge(mostBytes);
    if (size > counted) {
      count(size - counted);
      counted = size;
    }
    parts.push(part);
  }
  return Buffer.concat(parts);
}

function parseJson(bytes: Uint8Array): unknown {
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
 * The value of the request's JSON body; `count` as in budget.ts.
 * @throws AppError bad_request, payload_too_large, and what `count` throws
 */
export async function readJson(request: Request, mostBytes: number, count: Count = () => {}): Promise<unknown> {
  requireJson(request.headers);
  return parseJson(await readBytes(request, mostBytes, count));
}
