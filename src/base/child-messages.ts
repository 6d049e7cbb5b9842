/**
 * Messages between the server and a child that reads what strangers sent. A message is a value of JSON, with bytes and long
 * texts of the value behind it. A structured clone, which Bun exchanges, would have the server rebuild objects of the
 * platform from whatever a child writes, and take in a message of any length first.
 *
 *   length of the rest, length of the JSON (32 bits each) │ JSON: [value, places] │ what belongs there, in that order
 */

const TEXT = 1;
const MAP = 2;
/** The keys that lead to bytes, a text, or a Map as JSON in a value, and the number of bytes. */
type Place = [keys: readonly (string | number)[], length: number, kind?: typeof TEXT | typeof MAP];

const PREFIX_BYTES = 8;
/** Characters of a text that stands in the JSON. */
const LONGEST_IN_JSON = 1_000;
/** Bytes of the JSON, and so a bound of the values in it. That of a message with a thousand attachments has 300 kB. */
const LONGEST_JSON = 4 * 1024 * 1024;

/**
 * Writes a value of plain objects, lists, Uint8Arrays and Maps from text to text. Undefined fields of an object are left out.
 */
export function encodeChildMessage(value: unknown): Buffer {
  const places: Place[] = [];
  const pieces: (Uint8Array | string)[] = [];
  const json = JSON.stringify([takeOut(value, [], places, pieces), places]);
  const jsonBytes = Buffer.byteLength(json);
  let at = PREFIX_BYTES + jsonBytes;
  const message = Buffer.allocUnsafe(places.reduce((sum, [, length]) => sum + length, at));
  message.writeUInt32LE(message.length - 4, 0);
  message.writeUInt32LE(jsonBytes, 4);
  message.write(json, PREFIX_BYTES);
  for (const piece of pieces) {
    if (typeof piece === "string") at += message.write(piece, at);
    else {
      message.set(piece, at);
      at += piece.byteLength;
    }
  }
  return message;
}

/** The value with null in the place of bytes and long texts, copied only where it has some. */
function takeOut(value: unknown, keys: Place[0], places: Place[], pieces: (Uint8Array | string)[]): unknown {
  if (typeof value === "string") {
    // UTF-8 has no lone surrogates.
    if (value.length <= LONGEST_IN_JSON || !value.isWellFormed()) return value;
    places.push([keys, Buffer.byteLength(value), TEXT]);
    pieces.push(value);
    return null;
  }
  if (value instanceof Map) {
    const entries = JSON.stringify([...value]);
    places.push([keys, Buffer.byteLength(entries), MAP]);
    pieces.push(entries);
    return null;
  }
  if (typeof value !== "object" || value === null) return value;
  if (value instanceof Uint8Array) {
    places.push([keys, value.byteLength]);
    pieces.push(value);
    return null;
  }
  let copy: Record<string, unknown> | undefined;
  const parts = value as Record<string, unknown>;
  for (const key in parts) {
    const part = parts[key];
    if (typeof part !== "object" && !(typeof part === "string" && part.length > LONGEST_IN_JSON)) continue;
    const left = takeOut(part, [...keys, key], places, pieces);
    if (left === part) continue;
    copy ??= (Array.isArray(value) ? [...value] : { ...value }) as Record<string, unknown>;
    copy[key] = left;
  }
  return copy ?? value;
}

/** Reads a whole message. The bytes in it are copies. @throws Error for anything else */
export function decodeChildMessage(message: Uint8Array): unknown {
  const octets = joined([message]);
  if (octets.length < PREFIX_BYTES || octets.readUInt32LE(0) !== octets.length - 4) throw new Error("it is no message");
  const jsonBytes = octets.readUInt32LE(4);
  if (jsonBytes > LONGEST_JSON) throw new Error("it has too many values");
  let at = PREFIX_BYTES + jsonBytes;
  if (at > octets.length) throw new Error("it has fewer bytes than it says");
  const [value, places] = JSON.parse(octets.toString("utf8", PREFIX_BYTES, at)) as [unknown, Place[]];
  const top = { value };
  let left = LONGEST_JSON - jsonBytes;
  for (const [keys, length, kind] of places) {
    const end = at + length;
    if (!(length >= 0 && end <= octets.length)) throw new Error("it has fewer bytes than it says");
    const text = kind && octets.toString("utf8", at, end);
    if (kind === MAP) left -= length;
    if (left < 0) throw new Error("it has too many values");
    const part =
      text === undefined ? new Uint8Array(octets.subarray(at, end)) : kind === MAP ? readJsonMap(text) : text;
    put(top, ["value", ...keys], part);
    at = end;
  }
  return top.value;
}

/** @throws Error for what is no Map from text to text */
function readJsonMap(json: string): Map<string, string> {
  const entries = JSON.parse(json) as unknown[];
  const isEntry = (entry: unknown): entry is [string, string] =>
    Array.isArray(entry) && entry.length === 2 && entry.every((part) => typeof part === "string");
  if (!Array.isArray(entries) || !entries.every(isEntry)) throw new Error("it has something else than a Map");
  return new Map(entries);
}

/** Puts a part where null stands. @throws Error where it does not */
function put(top: object, keys: Place[0], part: Uint8Array | string | Map<string, string>): void {
  let at = top as Record<string, unknown>;
  for (const [index, key] of keys.entries()) {
    const there = Object.hasOwn(at, key) ? at[key] : undefined;
    if (index + 1 === keys.length && there === null) at[key] = part;
    else if (typeof there === "object" && there !== null) at = there as Record<string, unknown>;
    else throw new Error("it has bytes in no place");
  }
}

/**
 * Cuts a stream into messages of at most `most` bytes. `heard` is called with each value. @throws Error, from the function that it
 * gives, for a longer message, before it is taken in, and for what is none
 */
export function createChildMessageReader(most: number, heard: (value: unknown) => void): (chunk: Uint8Array) => void {
  let chunks: Uint8Array[] = [];
  let size = 0;
  /** Bytes of the message that begins there, once that is known. */
  let wanted = 4;
  return (chunk) => {
    chunks.push(chunk);
    size += chunk.byteLength;
    while (size >= wanted) {
      const all = joined(chunks);
      wanted = 4 + all.readUInt32LE(0);
      if (wanted > most) throw new Error("it says too much at once");
      if (size < wanted) {
        chunks = [all];
        return;
      }
      chunks = [all.subarray(wanted)];
      size -= wanted;
      const message = all.subarray(0, wanted);
      wanted = 4;
      heard(decodeChildMessage(message));
    }
  };
}

/** A single chunk is not copied. */
function joined(chunks: readonly Uint8Array[]): Buffer {
  const [first, ...others] = chunks;
  return first && others.length === 0
    ? Buffer.from(first.buffer, first.byteOffset, first.byteLength)
    : Buffer.concat(chunks);
}

/* In a child. */

/** The descriptor that the shell beside it has given it (child-process.ts). Its standard output leads nowhere. */
const TO_PARENT = 3;
let parent: Bun.FileSink | undefined;

/** Gives the server a message that encodeChildMessage wrote. */
export function tellParent(message: Uint8Array): void {
  parent ??= Bun.file(TO_PARENT).writer();
  parent.write(message);
  parent.flush();
}

const listeners: ((value: unknown) => void)[] = [];

/** Calls `heard` with each message of the server, and ends the process when there can be no further one. */
export function hearParent(heard: (value: unknown) => void): void {
  listeners.push(heard);
  if (listeners.length === 1) void listen();
}

async function listen(): Promise<void> {
  const read = createChildMessageReader(Number.POSITIVE_INFINITY, (value) => {
    for (const heard of listeners) heard(value);
  });
  for await (const chunk of Bun.stdin.stream()) read(chunk);
  process.exit();
}
