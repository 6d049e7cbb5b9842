/**
 * Reading a JSON body (spec: Errors, bad_request and payload_too_large): every way in which it can be none has a refusal
 * that says what to change. No more of it is taken into memory than allowed.
 */
import { AppError } from "../errors.ts";

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

/** The bytes of a body. @throws AppError bad_request, payload_too_large */
export async function readBytes(request: Request, mostBytes: number): Promise<Uint8Array> {
  const length = request.headers.get("content-length");
  if (length !== null && Number(length) > mostBytes) throw tooLarge(mostBytes);
  const parts: Uint8Array[] = [];
  let size = 0;
  try {
    // Its length is known, and the listener takes no more: reading it as a stream would cost several times as much.
    if (length !== null) return await request.bytes();
    for await (const part of request.body ?? []) {
      size += part.byteLength;
      if (size > mostBytes) break;
      parts.push(part);
    }
  } catch (cause) {
    throw new AppError("bad_request", "The body broke off: send the request again", { cause });
  }
  if (size > mostBytes) throw tooLarge(mostBytes);
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

/** The value of the request's JSON body. @throws AppError bad_request, payload_too_large */
export async function readJson(request: Request, mostBytes: number): Promise<unknown> {
  requireJson(request.headers);
  return parseJson(await readBytes(request, mostBytes));
}
