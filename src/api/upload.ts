/**
 * Reads requests that bring files along (rules: Attached files): as multipart/form-data, or in base64 as `content` of
 * attachments in JSON. The files go to the spool as they come in, and what is left is JSON of an ordinary size.
 *
 * Invariant: a `content` in what is read names a file of this request.
 */
import { once } from "node:events";
import type { Readable } from "node:stream";
import { Dicer } from "@fastify/busboy";
import { AppError } from "../base/errors.ts";
import { collectGarbageSoon, LARGE_BYTES } from "../base/memory.ts";
import { type FileKeeper, type UploadedFile, uploadName } from "../compose/attached-files.ts";
import { type AttachmentRequest, MOST_ATTACHMENTS } from "../compose/requests.ts";
import { readHeaderParameter } from "../message/content-type.ts";
import { parseHeaderValue } from "../message/structure.ts";
import type { Count } from "./pools.ts";
import {
  bodyTooLargeError,
  declaredBodyLength,
  parseJson,
  readBodyBytes,
  readBodyParts,
  requireJson,
  SMALL_BYTES,
} from "./request.ts";

interface Limits {
  /** Bytes of the JSON, without the files. */
  largestBody: number;
  /** Bytes of all files together. */
  largestFiles: number;
  /** Counts the JSON in a budget, in bytes. */
  count: Count;
  /** Counts an upload. */
  countUpload: Count;
  keep: FileKeeper["keep"];
}

const MULTIPART = /^multipart\/form-data\b/i;

/**
 * Reads the body of a request, and its files, to be disposed of by the caller. If it rejects, it has disposed of them.
 * @throws AppError bad_request, payload_too_large, errors of the counts and of the spool
 */
export async function readBodyWithFiles(
  request: Request,
  limits: Limits,
): Promise<{ body: unknown; uploads: UploadedFile[] }> {
  const type = request.headers.get("content-type") ?? "";
  const isMultipart = MULTIPART.test(type);
  if (!isMultipart) requireJson(request.headers);
  if (isMultipart || (declaredBodyLength(request) ?? Number.POSITIVE_INFINITY) > SMALL_BYTES) limits.countUpload(1);
  const uploads: UploadedFile[] = [];
  let bytes = 0;
  /** Puts a file into the spool. Returns its name. */
  async function keep(content: AsyncIterable<Uint8Array>): Promise<string> {
    if (uploads.length >= MOST_ATTACHMENTS) throw tooMany();
    const before = bytes;
    const file = await limits.keep(content, (size) => {
      bytes = before + size;
      if (bytes > limits.largestFiles) {
        throw new AppError("payload_too_large", `The files have more than ${limits.largestFiles} bytes together`);
      }
    });
    uploads.push(file);
    return uploadName(uploads.length - 1);
  }
  try {
    const read = isMultipart ? readMultipart : readJsonWithFiles;
    const body = await read(request, limits, keep);
    if (bytes > LARGE_BYTES) collectGarbageSoon();
    return { body, uploads };
  } catch (error) {
    await Promise.all(uploads.map((file) => file.dispose()));
    throw error;
  }
}

type Keep = (content: AsyncIterable<Uint8Array>) => Promise<string>;

const tooMany = () => new AppError("bad_request", `attachments must be a list of at most ${MOST_ATTACHMENTS} items`);

/*
 * multipart/form-data (RFC 7578): the part `request` has the JSON, every other part is a file, attached after those that
 * the JSON lists.
 */

async function readMultipart(
  request: Request,
  { largestBody, largestFiles, count }: Limits,
  keep: Keep,
): Promise<unknown> {
  const form = createFormParser(request);
  let isOver = false;
  const ended = once(form, "finish").then(() => {
    isOver = true;
  });
  const failed = Promise.withResolvers<never>();
  for (const end of [ended, failed.promise]) end.catch(() => {});
  const open = new Set<Readable>();
  const parts: Promise<void>[] = [];
  let partCount = 0;
  const files: AttachmentRequest[] = [];
  let json: Uint8Array | undefined;
  let failure: unknown;
  const fail = (error: unknown): void => {
    failure ??= error;
    failed.reject(error);
    for (const stream of open) stream.destroy();
  };

  async function readPart({ name, filename, contentType }: PartHeader, stream: AsyncIterable<Uint8Array>) {
    if (name === "request" && json === undefined) {
      json = new Uint8Array(0);
      json = await readWhole(stream, largestBody, count);
      return;
    }
    if (!filename) throw new AppError("bad_request", `The part ${quotePartName(name)} is no file: it has no filename`);
    const file: AttachmentRequest = { filename, contentType };
    files.push(file);
    file.content = await keep(stream);
  }

  form.on("part", (stream) => {
    stream.on("error", () => {});
    if (++partCount > MOST_ATTACHMENTS + 1) fail(tooMany());
    stream.on("header", (header) => {
      const read = readPartHeader(header as Record<string, string[]>);
      if (failure !== undefined || !read) {
        stream.resume();
        return;
      }
      open.add(stream);
      const part = readPart(read, readPartBytes(stream));
      parts.push(
        part.then(
          () => void open.delete(stream),
          (error) => fail(error),
        ),
      );
    });
  });
  try {
    for await (const chunk of upTo(readBodyParts(request), largestBody + largestFiles)) {
      // What stands behind the last boundary counts, and is nothing.
      if (!isOver && !form.write(chunk)) await Promise.race([once(form, "drain"), ended, failed.promise]);
    }
    form.end();
    await Promise.race([ended, failed.promise]);
  } catch (error) {
    fail(error instanceof AppError ? error : broken(error));
  }
  await Promise.all(parts);
  if (failure !== undefined) throw failure;
  if (json === undefined) throw new AppError("bad_request", "The form has no part named request, with the JSON");
  const body = parseJson(json) as { attachments?: unknown };
  const listed = body?.attachments ?? [];
  if (files.length === 0 || !Array.isArray(listed)) return requireNoContent(body);
  return { ...requireNoContent(body), attachments: [...listed, ...files] };
}

/** Limits for the header of a part. */
const PART_HEADER = { maxHeaderPairs: 20, maxHeaderSize: 16_384 };

function createFormParser(request: Request): Dicer {
  const boundary = parseHeaderValue(request.headers.get("content-type") ?? "").parameters.get("boundary");
  if (!boundary) throw new AppError("bad_request", "Content-Type must name the boundary of the form");
  return new Dicer({ ...PART_HEADER, boundary });
}

interface PartHeader {
  name: string;
  /** Without a folder. */
  filename: string | undefined;
  contentType: string;
}

/** Reads the header of a part, whose octets are in latin1; undefined if it is of no form. */
function readPartHeader(header: Record<string, string[]>): PartHeader | undefined {
  const read = (name: string): string => Buffer.from(header[name]?.[0] ?? "", "latin1").toString();
  const { value, parameters } = parseHeaderValue(read("content-disposition"));
  if (value !== "form-data") return undefined;
  return {
    name: parameters.get("name") ?? "",
    filename: readHeaderParameter(parameters, "filename")?.replace(/^.*[/\\]/s, ""),
    contentType: read("content-type") || "text/plain",
  };
}

const broken = (cause: unknown) => new AppError("bad_request", "The form is broken, or broke off", { cause });

/** @throws AppError bad_request for a part that breaks off */
async function* readPartBytes(stream: Readable): AsyncGenerator<Uint8Array> {
  try {
    yield* stream;
  } catch (cause) {
    throw broken(cause);
  }
}

/** @throws AppError payload_too_large beyond `most` bytes, those between the parts included */
async function* upTo(chunks: AsyncIterable<Uint8Array>, most: number): AsyncGenerator<Uint8Array> {
  let size = 0;
  for await (const chunk of chunks) {
    size += chunk.byteLength;
    if (size > most) throw bodyTooLargeError(most);
    yield chunk;
  }
}

/** @throws AppError bad_request for base64 beside the files */
function requireNoContent<T extends { attachments?: unknown }>(body: T): T {
  const listed = body?.attachments;
  if (Array.isArray(listed) && listed.some((attachment) => attachment?.content !== undefined)) {
    throw new AppError("bad_request", "content is not taken in a form: send the file as a part of its own");
  }
  return body;
}

async function readWhole(stream: AsyncIterable<Uint8Array>, most: number, count: Count): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let size = 0;
  for await (const piece of stream) {
    size += piece.byteLength;
    if (size > most) throw bodyTooLargeError(most);
    count(piece.byteLength);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

const quotePartName = (name: string): string => JSON.stringify(name.slice(0, 80));

/*
 * JSON whose `attachments[…].content` is base64: the string goes to the spool, decoded, and its name takes its place. What is
 * left is parsed as a whole.
 */

const QUOTE = 0x22;

async function readJsonWithFiles(request: Request, { largestBody, count }: Limits, keep: Keep): Promise<unknown> {
  const body = openBody(request);
  const findContent = createContentFinder();
  const pieces: Uint8Array[] = [];
  let size = 0;
  let counted = SMALL_BYTES;
  function put(piece: Uint8Array): void {
    size += piece.byteLength;
    if (size > largestBody) throw bodyTooLargeError(largestBody);
    if (size > counted) {
      count(size - counted);
      counted = size;
    }
    pieces.push(piece);
  }
  while (await body.more()) {
    const chunk = body.rest();
    const start = findContent(chunk);
    put(body.take(start ?? chunk.byteLength));
    if (start !== undefined) put(Buffer.from(`${await keep(base64In(body))}"`));
  }
  return parseJson(Buffer.concat(pieces));
}

/** The body in chunks, a small one as one, read piece by piece. */
function openBody(request: Request) {
  const chunks = readRequestChunks(request);
  let chunk: Uint8Array = new Uint8Array(0);
  return {
    /** Reads on if nothing is left of the present chunk. False at the end. */
    async more(): Promise<boolean> {
      while (chunk.byteLength === 0) {
        const { done, value } = await chunks.next();
        if (done) return false;
        chunk = value;
      }
      return true;
    },
    rest: (): Uint8Array => chunk,
    take(bytes: number): Uint8Array {
      const taken = chunk.subarray(0, bytes);
      chunk = chunk.subarray(bytes);
      return taken;
    },
  };
}

async function* readRequestChunks(request: Request): AsyncGenerator<Uint8Array> {
  if ((declaredBodyLength(request) ?? Number.POSITIVE_INFINITY) > SMALL_BYTES) yield* readBodyParts(request);
  else yield await readBodyBytes(request, SMALL_BYTES, () => {});
}

/** Deeper JSON is nobody's request. */
const DEEPEST = 200;
/** More than any request has; parsing takes a microsecond for each. */
const MOST_KEYS = 10_000;
/** Raw bytes of a key that may be `content` or `attachments`, every character escaped. */
const LONGEST_KEY = 6 * "attachments".length;

/**
 * Returns a function that reads JSON chunk by chunk, and finds where a string at `attachments[…].content` begins: the position
 * after its opening quote, from where the next chunk must begin behind the closing one. It checks nothing that JSON.parse
 * does. @throws AppError bad_request for JSON that is nested too deep or has too many fields
 */
function createContentFinder(): (chunk: Uint8Array) => number | undefined {
  /** Names of the present values in the open objects; undefined for an array. */
  const path: (string | undefined)[] = [];
  let isInString = false;
  let isEscaped = false;
  /** The bytes of the present string if it is a key; undefined otherwise, and for a key that is too long. */
  let key: number[] | undefined;
  let expectsKey = false;
  let keys = 0;
  const isContent = () =>
    path.length === 3 && path[0] === "attachments" && path[1] === undefined && path[2] === "content";

  function open(name: string | undefined): void {
    if (path.length === DEEPEST) throw new AppError("bad_request", "The JSON is nested too deep");
    path.push(name);
    expectsKey = name !== undefined;
  }

  return (chunk) => {
    for (let i = 0; i < chunk.byteLength; i++) {
      const byte = chunk[i];
      if (isInString) {
        if (isEscaped) isEscaped = false;
        else if (byte === 0x5c) isEscaped = true;
        else if (byte === QUOTE) {
          isInString = false;
          if (key) path[path.length - 1] = parseJsonKey(key);
          key = undefined;
          continue;
        }
        if (key && key.push(byte as number) > LONGEST_KEY) {
          path[path.length - 1] = "";
          key = undefined;
        }
      } else if (byte === QUOTE) {
        if (!expectsKey && isContent()) return i + 1;
        isInString = true;
        key = expectsKey ? [] : undefined;
        if (expectsKey && ++keys > MOST_KEYS) throw new AppError("bad_request", "The JSON has too many fields");
        expectsKey = false;
      } else if (byte === 0x7b) open("");
      else if (byte === 0x5b) open(undefined);
      else if (byte === 0x7d || byte === 0x5d) {
        path.pop();
        expectsKey = false;
      } else if (byte === 0x2c) expectsKey = path.at(-1) !== undefined;
    }
    return undefined;
  };
}

function parseJsonKey(bytes: number[]): string {
  try {
    return JSON.parse(`"${Buffer.from(bytes).toString()}"`);
  } catch {
    return "";
  }
}

const notBase64 = () => new AppError("bad_request", "content is not base64");

/**
 * Decodes the JSON string that has just begun, up to its closing quote (RFC 4648 §4; white space is left out, since some
 * programs wrap lines).
 */
async function* base64In(body: ReturnType<typeof openBody>): AsyncGenerator<Uint8Array> {
  /** Characters that are not decoded yet, because an escape or a group of four is incomplete. */
  let raw = "";
  let rest = "";
  let isPadded = false;
  for (let isEnd = false; !isEnd; ) {
    if (!(await body.more())) throw new AppError("bad_request", "The body is not valid JSON: it ends within a string");
    const chunk = body.rest();
    const end = chunk.indexOf(QUOTE);
    isEnd = end >= 0;
    raw += Buffer.from(body.take(isEnd ? end : chunk.byteLength)).toString("latin1");
    if (isEnd) body.take(1);
    const begun = isEnd ? "" : (/\\(?:u[0-9a-f]{0,3})?$/i.exec(raw)?.[0] ?? "");
    const text = rest + unescaped(raw.slice(0, raw.length - begun.length)).replace(/[\t\n\r ]+/g, "");
    raw = begun;
    const whole = text.slice(0, text.length - (text.length % 4));
    rest = text.slice(whole.length);
    if ((isPadded && text !== "") || (isEnd && rest !== "") || !/^[A-Za-z0-9+/]*={0,2}$/.test(whole)) throw notBase64();
    isPadded = whole.endsWith("=");
    if (whole !== "") yield Buffer.from(whole, "base64");
  }
}

/** @throws AppError bad_request for what no JSON string holds */
function unescaped(raw: string): string {
  if (!raw.includes("\\")) return raw;
  try {
    return JSON.parse(`"${raw}"`);
  } catch {
    throw notBase64();
  }
}
