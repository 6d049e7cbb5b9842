/**
 * Reads requests that bring files along (rules: Attached files): as multipart/form-data, or in base64 as `content` of
 * attachments in JSON. The files go to the spool as they come in, and what is left is JSON of an ordinary size.
 *
 * Invariant: a `content` in what is read names a file of this request.
 */
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Busboy, type BusboyFileStream } from "@fastify/busboy";
import { getManyValues, isMany, none } from "stream-chain/defs.js";
import { jsonParser, type Token } from "stream-json/core/parser.js";
import stringer from "stream-json/core/stringer.js";
import { AppError } from "../base/errors.ts";
import {
  type AttachmentRequest,
  type FileKeeper,
  type KeptFile,
  MOST_ATTACHMENTS,
  uploadName,
} from "../compose/files.ts";
import {
  type Count,
  declaredLength,
  parseJson,
  readBytes,
  readParts,
  requireJson,
  SMALL_BYTES,
  tooLarge,
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
export async function readWithFiles(request: Request, limits: Limits): Promise<{ body: unknown; uploads: KeptFile[] }> {
  const type = request.headers.get("content-type") ?? "";
  const isMultipart = MULTIPART.test(type);
  if (!isMultipart) requireJson(request.headers);
  if (isMultipart || (declaredLength(request) ?? Number.POSITIVE_INFINITY) > SMALL_BYTES) limits.countUpload(1);
  const uploads: KeptFile[] = [];
  let bytes = 0;
  /** Puts a file into the spool. Returns its name. */
  async function keep(content: AsyncIterable<Uint8Array>): Promise<string> {
    if (uploads.length >= MOST_ATTACHMENTS) throw tooMany();
    const before = bytes;
    const kept = await limits.keep(content, (size) => {
      bytes = before + size;
      if (bytes > limits.largestFiles) {
        throw new AppError("payload_too_large", `The files have more than ${limits.largestFiles} bytes together`);
      }
    });
    uploads.push(kept);
    return uploadName(uploads.length - 1);
  }
  try {
    const read = isMultipart ? readMultipart : readJsonWithFiles;
    return { body: await read(request, limits, keep), uploads };
  } catch (error) {
    await Promise.all(uploads.map((kept) => kept.dispose()));
    throw error;
  }
}

type Keep = (content: AsyncIterable<Uint8Array>) => Promise<string>;

const tooMany = () => new AppError("bad_request", `attachments must be a list of at most ${MOST_ATTACHMENTS} items`);

/*
 * multipart/form-data (RFC 7578): the part `request` has the JSON, every other part is a file, attached after those that
 * the JSON lists.
 */

async function readMultipart(request: Request, { largestBody, count }: Limits, keep: Keep): Promise<unknown> {
  const form = formOf(request);
  const stop = new AbortController();
  const open = new Set<BusboyFileStream>();
  const parts: Promise<void>[] = [];
  const files: AttachmentRequest[] = [];
  let json: Uint8Array | undefined;
  let failure: unknown;
  const fail = (error: unknown): void => {
    failure ??= error;
    stop.abort();
    for (const stream of open) stream.destroy();
  };

  async function readPart(name: string, stream: BusboyFileStream, filename: string | undefined, contentType: string) {
    if (name === "request" && json === undefined) {
      json = new Uint8Array(0);
      json = await readWhole(stream, largestBody, count);
      return;
    }
    if (!filename) throw new AppError("bad_request", `The part ${shown(name)} is no file: it has no filename`);
    const file: AttachmentRequest = { filename, contentType };
    files.push(file);
    file.content = await keep(stream);
  }

  form.on("file", (name, stream, filename, _encoding, contentType) => {
    open.add(stream);
    const part = readPart(name, stream, filename, contentType);
    parts.push(
      part.then(
        () => void open.delete(stream),
        (error) => fail(error),
      ),
    );
  });
  form.on("filesLimit", () => fail(tooMany()));
  try {
    await pipeline(Readable.from(readParts(request)), form, { signal: stop.signal });
  } catch (error) {
    fail(error instanceof AppError ? error : new AppError("bad_request", "The form is broken", { cause: error }));
  }
  await Promise.all(parts);
  if (failure !== undefined) throw failure;
  if (json === undefined) throw new AppError("bad_request", "The form has no part named request, with the JSON");
  const body = parseJson(json) as { attachments?: unknown };
  const listed = body?.attachments ?? [];
  if (files.length === 0 || !Array.isArray(listed)) return requireNoContent(body);
  return { ...requireNoContent(body), attachments: [...listed, ...files] };
}

function formOf(request: Request) {
  try {
    return new Busboy({
      headers: { "content-type": request.headers.get("content-type") ?? "" },
      isPartAFile: () => true,
      limits: { files: MOST_ATTACHMENTS + 1, headerPairs: 20, headerSize: 16_384 },
    });
  } catch (cause) {
    throw new AppError("bad_request", "Content-Type must name the boundary of the form", { cause });
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
    if (size > most) throw tooLarge(most);
    count(piece.byteLength);
    pieces.push(piece);
  }
  return Buffer.concat(pieces);
}

const shown = (name: string): string => JSON.stringify(name.slice(0, 80));

/*
 * JSON whose `attachments[…].content` is base64: the string goes to the spool, decoded, and its name takes its place. The
 * rest is written as JSON again and parsed as a whole.
 */

async function readJsonWithFiles(request: Request, { largestBody, count }: Limits, keep: Keep): Promise<unknown> {
  const tokens = tokensOf(request);
  const write = stringer({ useKeyValues: true, useNumberValues: true });
  const pieces: string[] = [];
  let size = 0;
  let counted = SMALL_BYTES;
  function put(token: Token): void {
    const piece = write(token);
    if (typeof piece !== "string") return;
    size += piece.length;
    if (size > largestBody) throw tooLarge(largestBody);
    if (size > counted) {
      count(size - counted);
      counted = size;
    }
    pieces.push(piece);
  }
  /** The name under which the present value stands in each open object; undefined for an array. */
  const path: (string | undefined)[] = [];
  const isContent = () =>
    path.length === 3 && path[0] === "attachments" && path[1] === undefined && path[2] === "content";

  for (let token = await tokens.next(); token; token = await tokens.next()) {
    if (token.name === "keyValue") path[path.length - 1] = token.value;
    else if (token.name === "startObject") path.push("");
    else if (token.name === "startArray") path.push(undefined);
    else if (token.name === "endObject" || token.name === "endArray") path.pop();
    put(token);
    if (token.name === "startString" && isContent()) {
      put({ name: "stringChunk", value: await keep(tokens.base64()) });
      put({ name: "endString" });
    }
  }
  return parseJson(Buffer.from(pieces.join("")));
}

/** The tokens of a body of JSON. @throws AppError bad_request */
function tokensOf(request: Request) {
  const decoder = new TextDecoder("utf-8", { fatal: true });
  const parse = jsonParser({ streamKeys: false, packStrings: false, streamNumbers: false });
  const chunks = chunksOf(request);
  let batch: Token[] = [];
  let at = 0;
  let isOver = false;
  let isBlank = true;

  /** Reads on, if there is more. */
  async function more(): Promise<boolean> {
    while (at === batch.length && !isOver) {
      const { done = false, value } = await chunks.next();
      isOver = done;
      const text = decode(value);
      isBlank &&= text.trim() === "";
      if (isBlank) continue;
      try {
        // The types leave out `none`, which ends the text.
        const found = parse((isOver ? none : text) as string);
        batch = isMany(found) ? (getManyValues(found) as Token[]) : [];
        at = 0;
      } catch (cause) {
        throw new AppError("bad_request", "The body is not valid JSON: check its quotes, commas and braces", { cause });
      }
    }
    return at < batch.length;
  }

  function decode(bytes: Uint8Array | undefined): string {
    try {
      return decoder.decode(bytes, { stream: bytes !== undefined });
    } catch (cause) {
      throw new AppError("bad_request", "The body is not UTF-8: send JSON in UTF-8", { cause });
    }
  }

  return {
    next: async (): Promise<Token | undefined> => ((await more()) ? batch[at++] : undefined),

    /** Decodes the string that has just begun (RFC 4648 §4, with white space as some programs wrap it). */
    async *base64(): AsyncGenerator<Uint8Array> {
      let rest = "";
      let isPadded = false;
      for (;;) {
        if (!(await more())) throw new AppError("bad_request", "The body is not valid JSON: it ends within a string");
        const pieces = [rest];
        let isEnd = false;
        while (at < batch.length && !isEnd) {
          const token = batch[at++] as Token;
          if (token.name === "stringChunk") pieces.push(token.value);
          else isEnd = true;
        }
        const text = pieces.join("").replace(/[\t\n\r ]+/g, "");
        const end = text.length - (text.length % 4);
        const whole = text.slice(0, end);
        rest = text.slice(end);
        if ((isPadded && text !== "") || (isEnd && rest !== "") || !/^[A-Za-z0-9+/]*={0,2}$/.test(whole)) {
          throw new AppError("bad_request", "content is not base64");
        }
        isPadded = whole.endsWith("=");
        if (whole !== "") yield Buffer.from(whole, "base64");
        if (isEnd) return;
      }
    },
  };
}

/** The body in pieces; a small one as one. */
async function* chunksOf(request: Request): AsyncGenerator<Uint8Array> {
  if ((declaredLength(request) ?? Number.POSITIVE_INFINITY) > SMALL_BYTES) yield* readParts(request);
  else yield await readBytes(request, SMALL_BYTES, () => {});
}
