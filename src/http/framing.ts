/**
 * Finds where requests and responses of HTTP/1.1 begin and end (RFC 9112), so that the carrier (carrier.ts) can hand the
 * inner listener one request at a time. Bodies are neither copied nor kept.
 *
 * Invariants: a request that two programs could read differently is refused (rules: HTTP messages). Work is linear in
 * the bytes, and what is kept of a head, a chunk's line or trailers has a bound.
 */
import { METHODS } from "node:http";
import { AppError } from "../base/errors.ts";

/** Bytes and fields of a head. Bun.serve takes 16,384 and 198, a few of which are left for what is rewritten. */
export const LARGEST_HEAD = 16_000;
const MOST_FIELDS = 150;
/** Bytes of the shortest field: a name of one, a colon, CR LF. */
const SHORTEST_FIELD = 4;
/** Bytes of a chunk's size with its extensions. */
const LONGEST_CHUNK_LINE = 1_024;
/** Hexadecimal digits of a chunk's size: more than any body that is taken. */
const MOST_SIZE_DIGITS = 12;

const HEAD_END = "\r\n\r\n";
const CR = 13;
const LF = 10;
const SEMICOLON = 59;

/** The methods that Bun.serve takes; it closes the connection for any other. CONNECT is for proxies. */
const KNOWN_METHODS: ReadonlySet<string> = new Set(METHODS.filter((method) => method !== "CONNECT"));

/** A request line and fields (RFC 9112 §3, §5). Targets may have unescaped UTF-8, which common clients send. */
const HEAD =
  /^([!#$%&'*+.^_`|~\w-]+) ([!-~\x80-\xff]+) HTTP\/(\d\.\d)\r\n((?:[!#$%&'*+.^_`|~\w-]+:[\t -~\x80-\xff]*\r\n)*)\r\n$/;
/** The fields that say how a message ends, and for which host it is. */
const FRAMING_FIELDS =
  /^(?:host:[\t ]*([^\r]*)|content-length:[\t ]*([^\r]*)|transfer-encoding:([^\r]*)|connection:([^\r]*)|content-type:[\t ]*([^\r]*))/gim;
const ABSOLUTE_FORM = /^https?:\/\/([^/?#]*)/i;
/** A host and its port (RFC 9110 §7.2). */
const HOST = /^(?:[\w.~!$&'()*+;=%-]+|\[[\da-f:.]+\])(?::\d*)?$/i;
const LENGTH = /^\d{1,15}[\t ]*$/;
const CHUNKED = /^[\t ]*chunked[\t ]*$/i;
const CLOSE = /(?:^|,)[\t ]*close[\t ]*(?:,|$)/i;

const NO_HEAD = "its head is not that of HTTP/1.1";
const malformed = (what: string): AppError => new AppError("bad_request", `The request is malformed: ${what}`);
const refused = (status: number, message: string): AppError => new AppError("bad_request", message, { status });
const tooLarge = (): AppError =>
  refused(431, `The head of the request is too large: send at most ${LARGEST_HEAD} bytes in ${MOST_FIELDS} fields`);

/** The rest of a message after its head. */
export interface Body {
  /**
   * Reads the bytes from `at` on. `end`: where the body or the bytes end. From `cutFrom` to `cutTo` there are trailers,
   * which the inner listener does not take; the two are equal when there are none.
   * @throws AppError bad_request for chunks that are malformed
   */
  read(bytes: Buffer, at: number): { end: number; cutFrom: number; cutTo: number };
  isWhole(): boolean;
}

/** A body of so many bytes; Infinity for one that ends with its connection. */
function bodyOfLength(length: number): Body {
  let left = length;
  return {
    read(bytes, at) {
      const end = Math.min(bytes.length, at + left);
      left -= end - at;
      return { end, cutFrom: end, cutTo: end };
    },
    isWhole: () => left === 0,
  };
}

const EMPTY = bodyOfLength(0);

const hexDigitValue = (byte: number): number => {
  if (byte >= 48 && byte <= 57) return byte - 48;
  const lower = byte | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
};

/** The element that a reader of chunks expects next. */
type Expected =
  | "size"
  | "extension"
  | "size LF"
  | "data"
  | "data CR"
  | "data LF"
  | "trailer"
  | "trailer LF"
  | "nothing";

/** A body in chunks (RFC 9112 §7.1). Each line must end in CR LF. */
function chunkedBody(): Body {
  let expected: Expected = "size";
  /** Bytes of the chunk that are still to come. */
  let left = 0;
  /** Bytes of the line, and digits of the size in it. */
  let line = 0;
  let digits = 0;
  /** Bytes of the trailers. */
  let trailers = 0;
  /** The line of a trailer has nothing before its CR. */
  let isEmpty = true;

  /** Reads one byte outside of a chunk's data. */
  function take(byte: number): void {
    switch (expected) {
      case "size": {
        const digit = hexDigitValue(byte);
        if (digit >= 0 && ++digits <= MOST_SIZE_DIGITS) left = left * 16 + digit;
        else if (digits === 0 || digit >= 0) throw malformed("a chunk has no valid size");
        else if (byte === CR) expected = "size LF";
        else if (byte === SEMICOLON) expected = "extension";
        else throw malformed("a chunk has no valid size");
        return;
      }
      case "extension":
        if (byte === CR) expected = "size LF";
        else if (byte === LF || ++line > LONGEST_CHUNK_LINE) throw malformed("a chunk's extension is invalid");
        return;
      case "size LF":
        if (byte !== LF) throw malformed("a chunk's size does not end in CR LF");
        expected = left > 0 ? "data" : "trailer";
        line = 0;
        digits = 0;
        return;
      case "data CR":
        if (byte !== CR) throw malformed("a chunk is longer than its size");
        expected = "data LF";
        return;
      case "data LF":
        if (byte !== LF) throw malformed("a chunk is longer than its size");
        expected = "size";
        return;
      case "trailer":
        if (++trailers > LARGEST_HEAD) throw refused(431, "The trailers of the request are too large");
        if (byte === LF) throw malformed("a trailer does not end in CR LF");
        if (byte === CR) expected = "trailer LF";
        else isEmpty = false;
        return;
      case "trailer LF":
        if (byte !== LF) throw malformed("a trailer does not end in CR LF");
        expected = isEmpty ? "nothing" : "trailer";
        isEmpty = true;
        return;
      default:
    }
  }

  return {
    read(bytes, from) {
      let at = from;
      let cutFrom = -1;
      let cutTo = -1;
      while (at < bytes.length && expected !== "nothing") {
        if (expected === "data") {
          const length = Math.min(left, bytes.length - at);
          at += length;
          left -= length;
          if (left === 0) expected = "data CR";
        } else {
          const wasEmpty = isEmpty;
          take(bytes[at] as number);
          at++;
          // A trailer's line, up to its LF.
          if (!isEmpty || !wasEmpty) {
            if (cutFrom < 0) cutFrom = at - 1;
            cutTo = at;
          }
        }
      }
      return cutFrom < 0 ? { end: at, cutFrom: at, cutTo: at } : { end: at, cutFrom, cutTo };
    },
    isWhole: () => expected === "nothing",
  };
}

/** A request's head (RFC 9112 §2 to §6). */
export interface RequestHead {
  /** The head that the inner listener gets instead of the client's, if it needs another. */
  rewritten: Buffer | undefined;
  body: Body;
  /** The response has no body. */
  isHead: boolean;
  /** The client sends no further request. */
  isLast: boolean;
}

/** The fields that say how a message is to be read. Several of a name are one, with commas (RFC 9110 §5.3). */
interface Fields {
  host: string | undefined;
  length: string | undefined;
  coding: string | undefined;
  connection: string | undefined;
  type: string | undefined;
}

function join(before: string | undefined, value: string | undefined): string | undefined {
  return before === undefined || value === undefined ? (before ?? value) : `${before},${value}`;
}

function readFields(text: string): Fields {
  const fields: Fields = {
    host: undefined,
    length: undefined,
    coding: undefined,
    connection: undefined,
    type: undefined,
  };
  FRAMING_FIELDS.lastIndex = 0;
  for (let match = FRAMING_FIELDS.exec(text); match; match = FRAMING_FIELDS.exec(text)) {
    fields.host = join(fields.host, match[1]);
    fields.length = join(fields.length, match[2]);
    fields.coding = join(fields.coding, match[3]);
    fields.connection = join(fields.connection, match[4]);
    fields.type = join(fields.type, match[5]);
  }
  return fields;
}

/** RFC 9112 §6.3. @throws AppError bad_request */
function bodyOfRequest({ coding, length }: Fields, version: string): Body {
  if (coding !== undefined) {
    if (length !== undefined || version === "1.0") throw malformed("it gives its length in two ways");
    const codings = coding.split(",");
    if (!CHUNKED.test(codings.pop() ?? "") || codings.some((one) => CHUNKED.test(one))) {
      throw malformed("its Transfer-Encoding does not end in chunked");
    }
    if (codings.length === 0) return chunkedBody();
    throw refused(501, "Only the transfer coding chunked is known: send the body without another");
  }
  if (length === undefined) return EMPTY;
  if (!LENGTH.test(length)) throw malformed("its Content-Length is not one number");
  return bodyOfLength(Number(length));
}

/** The host that passed last: nearly every request has the same. */
let knownHost = "";

function requireHost(host: string): void {
  if (host === knownHost) return;
  if (!HOST.test(host) || !URL.canParse(`http://${host}`)) throw malformed("its Host is not one host name");
  knownHost = host;
}

function withoutSpace(value: string): string {
  let end = value.length;
  while (value[end - 1] === " " || value[end - 1] === "\t") end--;
  return value.slice(0, end);
}

const isClosing = ({ connection }: Fields): boolean => connection !== undefined && CLOSE.test(connection);

/**
 * Reads the head of a request: from the request line to the empty line. A target with an origin (RFC 9112 §3.2.2) and a
 * request of HTTP/1.0 without Host are rewritten, because Bun takes no host from either.
 * @throws AppError bad_request with the status: 400, or 431, 501, 505 for what is not served
 */
export function readRequestHead(bytes: Buffer, start: number, end: number): RequestHead {
  if (end - start > LARGEST_HEAD) throw tooLarge();
  const match = HEAD.exec(bytes.toString("latin1", start, end));
  if (!match) throw malformed(NO_HEAD);
  const [, method = "", target = "", version = "", lines = ""] = match;
  if (version !== "1.1" && version !== "1.0") throw refused(505, "Only HTTP/1.1 and HTTP/1.0 are spoken here");
  if (!KNOWN_METHODS.has(method)) throw refused(501, "The method of the request is not known here");
  if (lines.length > MOST_FIELDS * SHORTEST_FIELD && lines.split("\n").length > MOST_FIELDS + 1) throw tooLarge();
  const fields = readFields(lines);
  const named = fields.host && withoutSpace(fields.host);
  if (named === undefined && version === "1.1") throw malformed("it has no Host field");
  const [scheme = "", authority] = target.startsWith("/") ? [] : (ABSOLUTE_FORM.exec(target) ?? []);
  const path = target.slice(scheme.length);
  if (authority === undefined && !target.startsWith("/")) throw malformed("its target is no path");
  // Two Host fields are no host name.
  if (named !== undefined) requireHost(named);
  const host = authority ?? named ?? "localhost";
  requireHost(host);
  return {
    rewritten: host === named && path === target ? undefined : writeHead({ method, path, version, host, lines }),
    body: bodyOfRequest(fields, version),
    isHead: method === "HEAD",
    isLast: version === "1.0" || isClosing(fields),
  };
}

/** Writes a head with another path and host. */
function writeHead(head: { method: string; path: string; version: string; host: string; lines: string }): Buffer {
  const { method, path, version, host, lines } = head;
  const target = path.startsWith("/") ? path : `/${path}`;
  const others = lines.replace(/^host:.*\r\n/im, "");
  return Buffer.from(`${method} ${target} HTTP/${version}\r\nHost: ${host}\r\n${others}\r\n`, "latin1");
}

const TOKEN_BYTE = /[!#$%&'*+.^_`|~\w-]/;

/** A head that has not come whole may become one: it has begun with a method, and its lines end in CR LF. */
function mayBecomeHead(bytes: Buffer, start: number): boolean {
  const isBegun = start === bytes.length || TOKEN_BYTE.test(bytes.toString("latin1", start, start + 1));
  return (isBegun || (bytes[start] === CR && bytes.length === start + 1)) && bytes.indexOf("\n\n", start) < 0;
}

/**
 * Finds the head that begins at `from`, or after empty lines there (RFC 9112 §2.2). `end` is undefined while more of it
 * must come.
 * @throws AppError bad_request for what cannot become a head
 */
export function findRequestHead(bytes: Buffer, from: number): { start: number; end: number | undefined } {
  let start = from;
  while (bytes[start] === CR && bytes[start + 1] === LF) start += 2;
  const found = bytes.indexOf(HEAD_END, start);
  if (found >= 0) return { start, end: found + HEAD_END.length };
  if (bytes.length - start > LARGEST_HEAD) throw tooLarge();
  if (!mayBecomeHead(bytes, start)) throw malformed(NO_HEAD);
  return { start, end: undefined };
}

const STATUS_LINE = /^HTTP\/1\.1 (\d{3})/;

/** RFC 9112 §6.3. */
function bodyOfResponse(status: number, fields: Fields, isHead: boolean): Body {
  if (isHead || status === 204 || status === 304) return EMPTY;
  if (fields.coding !== undefined) return chunkedBody();
  return bodyOfLength(fields.length === undefined ? Number.POSITIVE_INFINITY : Number(fields.length));
}

/** Follows a response of the inner listener. */
export class ResponseReader {
  /** The head, as far as it has come. */
  #head: Buffer | undefined;
  #fields: Fields | undefined;
  #body: Body | undefined;
  readonly #isHead: boolean;

  /** `isHead`: the request is a HEAD, so that the response has no body (RFC 9110 §9.3.2). */
  constructor(isHead: boolean) {
    this.#isHead = isHead;
  }

  /** Reads the response's next bytes. */
  read(bytes: Buffer): void {
    let at = 0;
    let read = bytes;
    while (!this.#body) {
      if (this.#head) read = Buffer.concat([this.#head, bytes]);
      const end = read.indexOf(HEAD_END, at);
      this.#head = end < 0 ? read.subarray(at) : undefined;
      if (end < 0) return;
      const text = read.toString("latin1", at, end);
      at = end + HEAD_END.length;
      const status = Number(STATUS_LINE.exec(text)?.[1]);
      // Another response follows an interim one (RFC 9110 §15.2).
      if (status < 200) continue;
      this.#fields = readFields(text);
      this.#body = bodyOfResponse(status, this.#fields, this.#isHead);
    }
    this.#body.read(read, at);
  }

  /** Bytes of the final response were read. */
  get hasBegun(): boolean {
    return this.#body !== undefined || (this.#head?.length ?? 0) > 0;
  }

  /** The response was read to its end. One that ends with its connection never is. */
  get isWhole(): boolean {
    return this.#body?.isWhole() === true;
  }

  /** The inner listener closes the connection after it. */
  get isLast(): boolean {
    return this.#fields !== undefined && isClosing(this.#fields);
  }

  /** True if the body is a stream of events. */
  get isStream(): boolean {
    return this.#fields?.type === "text/event-stream";
  }
}
