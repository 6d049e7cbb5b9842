/**
 * An answer over HTTP/1.1 (RFC 9112), read as its bytes come: its status, the first 4 KiB of its body, and whether the
 * connection may take another request. Pure.
 *
 *   status line ─► fields ─┬► length ─────────────────────────────┬► over
 *        ▲  1xx  ──┘       ├► size ─► data ─► data's end ─► size ─┤
 *                          │   └──► trailers ─────────────────────┤
 *                          └► until close ────────────────────────┘
 *
 * Invariants: nothing that is sent makes it throw; it holds 4 KiB of body and 1 KiB of a line, and passes once over what
 * comes; in whatever pieces an answer comes, it is the same. What is doubtful is a fault: there is no proxy's lenience here.
 */

/** Bun's names for them. */
export type Fault =
  | "Malformed_HTTP_Response"
  | "ResponseHeadersTooLarge"
  | "UnrequestedUpgrade"
  | "InvalidContentLength"
  | "UnsupportedTransferEncoding"
  | "InvalidHTTPResponse";

type LineStep = "status line" | "fields" | "size" | "data's end" | "trailers";
type Step = LineStep | "length" | "data" | "until close" | "over";

export interface Answer {
  step: Step;
  /** It is over because of this. */
  fault: Fault | undefined;
  /** Of the final answer, once its head has ended. */
  status: number | undefined;
  /** The connection may take another request when the answer is over. */
  keepsAlive: boolean;
  /** What is kept of the body: `size` bytes in `body` from `from`. */
  body: Buffer;
  from: number;
  size: number;
  /** There was more of the body than that. */
  isCut: boolean;

  /** A byte has come. */
  begun: boolean;
  /** On the last status line, whichever kind of answer it begins. */
  code: number;
  interim: number;
  contentLength: number | undefined;
  /** undefined without the field. */
  codings: string[] | undefined;
  /** Bytes of the body, or of the chunk, that are still to come. */
  rest: number;
  /** Bytes of lines: of this head, or of what frames the chunks. */
  lineBytes: number;
  /** The beginning of a line that has not ended, and how long that is so far. */
  held: Buffer | undefined;
  heldLength: number;
}

const KEPT_BYTES = 4096;
/** Of a line this much is looked at. Only a field that is of no interest may be longer. */
const LONGEST_LINE = 1_024;
/** Bytes of a head, and again of sizes, extensions and trailers of chunks. Bun's fetch took as much. */
const MOST_LINE_BYTES = 256 * 1_024;
const MOST_INTERIM = 1_000;

const LF = 0x0a;
const CR = 0x0d;
const HTAB = 0x09;
const SPACE = 0x20;
const COLON = 0x3a;
const SEMICOLON = 0x3b;
const DELETE = 0x7f;
const BEGIN = Buffer.from("HTTP/1.");
const NOTHING = Buffer.alloc(0);

export const newAnswer = (): Answer => ({
  step: "status line",
  fault: undefined,
  status: undefined,
  keepsAlive: true,
  body: NOTHING,
  from: 0,
  size: 0,
  isCut: false,
  begun: false,
  code: 0,
  interim: 0,
  contentLength: undefined,
  codings: undefined,
  rest: 0,
  lineBytes: 0,
  held: undefined,
  heldLength: 0,
});

/** Reads on. The answer may keep a part of `bytes` without copying it. */
export function readAnswer(answer: Answer, bytes: Buffer): void {
  let at = 0;
  answer.begun = true;
  while (at < bytes.length && answer.step !== "over") {
    const { step } = answer;
    const isBody = step === "length" || step === "data" || step === "until close";
    at = isBody ? readBody(answer, bytes, at) : readLine(answer, step, bytes, at);
  }
  if (at < bytes.length) answer.keepsAlive = false;
}

/** Nothing more comes. Whether that is how the answer ends (RFC 9112 §8). */
export function endAnswer(answer: Answer): boolean {
  if (answer.step === "until close") answer.step = "over";
  return answer.step === "over";
}

function fail(answer: Answer, fault: Fault): undefined {
  answer.step = "over";
  answer.fault = fault;
  answer.keepsAlive = false;
}

/** Reads from `at` to the end of the line, a bare LF too (RFC 9112 §2.2), or what there is of it; returns where. */
function readLine(answer: Answer, step: LineStep, bytes: Buffer, at: number): number {
  const lineFeed = bytes.indexOf(LF, at);
  const end = lineFeed < 0 ? bytes.length : lineFeed;
  const next = lineFeed < 0 ? end : end + 1;
  const isHeld = lineFeed < 0 || answer.heldLength > 0;
  const line = isHeld ? hold(answer, bytes, at, end) : bytes;
  const from = isHeld ? 0 : at;
  const length = isHeld ? answer.heldLength : end - at;
  answer.lineBytes += next - at;
  if (step === "status line" && !beginsHttp(line, from, Math.min(length, BEGIN.length))) {
    fail(answer, "Malformed_HTTP_Response");
  } else if (answer.lineBytes > MOST_LINE_BYTES) {
    fail(answer, "ResponseHeadersTooLarge");
  } else if (lineFeed >= 0) {
    answer.heldLength = 0;
    takeLine(answer, step, line, from, length);
  }
  return next;
}

/** Adds to the line that has begun, as far as that is looked at. */
function hold(answer: Answer, bytes: Buffer, from: number, to: number): Buffer {
  answer.held ??= Buffer.allocUnsafe(LONGEST_LINE);
  // What is beyond the end of `held` is not copied.
  if (answer.heldLength < LONGEST_LINE) bytes.copy(answer.held, answer.heldLength, from, to);
  answer.heldLength += to - from;
  return answer.held;
}

function beginsHttp(line: Buffer, from: number, length: number): boolean {
  for (let i = 0; i < length; i++) if (line[from + i] !== BEGIN[i]) return false;
  return true;
}

/** A line without its LF, in `line` from `from`; only its beginning if it is too long. */
function takeLine(answer: Answer, step: LineStep, line: Buffer, from: number, length: number): void {
  const isLong = length > LONGEST_LINE;
  const endsInCr = !isLong && length > 0 && line[from + length - 1] === CR;
  const to = isLong ? from + LONGEST_LINE : from + length - (endsInCr ? 1 : 0);
  if (step === "status line") takeStatusLine(answer, line, from, to);
  else if (step === "fields") {
    if (from === to) endHead(answer);
    else takeField(answer, line, from, to, isLong);
  } else if (step === "trailers") {
    if (from === to) answer.step = "over";
  } else if (!endsInCr) fail(answer, "InvalidHTTPResponse");
  else if (step === "size") takeSize(answer, line, from, to);
  else if (from === to) answer.step = "size";
  else fail(answer, "InvalidHTTPResponse");
}

/** HTTP/1.x, three digits, and perhaps a reason (RFC 9112 §4). */
function takeStatusLine(answer: Answer, line: Buffer, from: number, to: number): undefined {
  const version = digit(line[from + 7]);
  const hundreds = digit(line[from + 9]);
  const tens = digit(line[from + 10]);
  const ones = digit(line[from + 11]);
  const isSpaced = line[from + 8] === SPACE && (to === from + 12 || line[from + 12] === SPACE);
  if (to < from + 12 || !isSpaced || version < 0 || hundreds < 0 || tens < 0 || ones < 0) {
    return fail(answer, "Malformed_HTTP_Response");
  }
  if (version === 0) answer.keepsAlive = false;
  answer.code = 100 * hundreds + 10 * tens + ones;
  answer.step = "fields";
}

const digit = (byte: number | undefined): number =>
  byte !== undefined && byte >= 0x30 && byte <= 0x39 ? byte - 0x30 : -1;

/** A name without white space, so that no line goes on with the one before (RFC 9112 §5.1, §5.2); and a value. */
function takeField(answer: Answer, line: Buffer, from: number, to: number, isLong: boolean): undefined {
  let colon = from;
  for (; colon < to && line[colon] !== COLON; colon++) {
    const byte = line[colon] as number;
    if (byte <= SPACE || byte >= DELETE) return fail(answer, "Malformed_HTTP_Response");
  }
  if (colon === to || colon === from) return fail(answer, "Malformed_HTTP_Response");
  const isLength = isNamed("content-length", line, from, colon);
  const isCodings = isNamed("transfer-encoding", line, from, colon);
  const isConnection = isNamed("connection", line, from, colon);
  if (!isLength && !isCodings && !isConnection) return undefined;
  if (isLong) return fail(answer, "ResponseHeadersTooLarge");
  const value = line.toString("latin1", colon + 1, to).toLowerCase();
  if (isLength) takeLength(answer, value);
  else if (isCodings)
    answer.codings = [...(answer.codings ?? []), ...elements(value).filter((coding) => coding !== "")];
  else if (elements(value).includes("close")) answer.keepsAlive = false;
}

/** Names are compared without regard to case (RFC 9110 §5.1). `name` in lower case. */
function isNamed(name: string, line: Buffer, from: number, to: number): boolean {
  if (to - from !== name.length) return false;
  for (let i = 0; i < name.length; i++) {
    const byte = line[from + i] as number;
    if ((byte >= 0x41 && byte <= 0x5a ? byte + 0x20 : byte) !== name.charCodeAt(i)) return false;
  }
  return true;
}

const elements = (value: string): string[] =>
  value.includes(",") ? value.split(",").map((element) => element.trim()) : [value.trim()];

/** The same length may be said more than once (RFC 9110 §8.6). */
function takeLength(answer: Answer, value: string): undefined {
  for (const text of elements(value)) {
    const length = /^\d+$/.test(text) ? Number(text) : Number.NaN;
    if (!Number.isSafeInteger(length) || length !== (answer.contentLength ?? length)) {
      return fail(answer, "InvalidContentLength");
    }
    answer.contentLength = length;
  }
}

/** RFC 9112 §6.3. */
function endHead(answer: Answer): undefined {
  const { code, contentLength, codings } = answer;
  answer.lineBytes = 0;
  if (code >= 100 && code < 200) return endInterim(answer);
  // "identity" was once a word for none.
  const real = codings?.filter((coding) => coding !== "identity");
  if (real && real.indexOf("chunked") < real.lastIndexOf("chunked")) {
    return fail(answer, "UnsupportedTransferEncoding");
  }
  answer.status = code;
  if (codings && contentLength !== undefined) answer.keepsAlive = false;
  if (code === 204 || code === 304) answer.step = "over";
  else if (real?.at(-1) === "chunked") answer.step = "size";
  else if (contentLength === undefined || (real && real.length > 0)) {
    answer.step = "until close";
    answer.keepsAlive = false;
  } else {
    answer.step = contentLength === 0 ? "over" : "length";
    answer.rest = contentLength;
  }
}

/** The final answer is still to come (RFC 9110 §15.2). */
function endInterim(answer: Answer): undefined {
  answer.interim++;
  if (answer.code === 101) return fail(answer, "UnrequestedUpgrade");
  if (answer.interim > MOST_INTERIM) return fail(answer, "ResponseHeadersTooLarge");
  answer.contentLength = undefined;
  answer.codings = undefined;
  answer.step = "status line";
}

/** The size of a chunk, and extensions, which say nothing to us (RFC 9112 §7.1). */
function takeSize(answer: Answer, line: Buffer, from: number, to: number): undefined {
  let at = from;
  let size = 0;
  for (let value = hexDigit(line[at]); at < to && value >= 0; value = hexDigit(line[++at])) size = 16 * size + value;
  let rest = at;
  while (rest < to && (line[rest] === SPACE || line[rest] === HTAB)) rest++;
  const isExtended = rest < to && line[rest] === SEMICOLON;
  if (at === from || (at < to && !isExtended) || !Number.isSafeInteger(size)) {
    return fail(answer, "InvalidHTTPResponse");
  }
  answer.rest = size;
  answer.step = size === 0 ? "trailers" : "data";
}

function hexDigit(byte: number | undefined): number {
  const letter = (byte ?? 0) | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : digit(byte);
}

/** Reads from `at` what belongs to the body or the chunk; returns where that ends. */
function readBody(answer: Answer, bytes: Buffer, at: number): number {
  const { step, rest } = answer;
  const end = step === "until close" ? bytes.length : Math.min(bytes.length, at + rest);
  keep(answer, bytes, at, end);
  answer.rest -= end - at;
  if (answer.isCut) {
    answer.step = "over";
    answer.keepsAlive = false;
  } else if (step !== "until close" && answer.rest === 0) answer.step = step === "length" ? "over" : "data's end";
  return end;
}

function keep(answer: Answer, bytes: Buffer, from: number, to: number): void {
  const size = answer.size + to - from;
  if (answer.step === "length" && to - from === answer.rest && answer.size === 0 && size <= KEPT_BYTES) {
    answer.body = bytes;
    answer.from = from;
  } else {
    if (answer.body.length === 0) answer.body = Buffer.allocUnsafe(KEPT_BYTES);
    bytes.copy(answer.body, answer.size, from, to);
  }
  answer.size = Math.min(size, KEPT_BYTES);
  answer.isCut = size > KEPT_BYTES;
}
