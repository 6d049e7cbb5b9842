/**
 * Messages of DNS signed with a secret that both sides have (TSIG, RFC 8945). Pure. No package that is kept up signs
 * updates, and node:crypto has what is difficult about it.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { CLASS, encodeName, encodeRecord, number, type ReadMessage, readName, TYPE } from "./dns-message.ts";

const ALGORITHMS = ["hmac-sha1", "hmac-sha224", "hmac-sha256", "hmac-sha384", "hmac-sha512"] as const;

export interface TsigKey {
  /** Lower case, without a final dot. */
  name: string;
  algorithm: (typeof ALGORITHMS)[number];
  secret: Uint8Array;
}

/** How far clocks may differ, seconds (RFC 8945 §10). */
const FUDGE = 300;

/** Of `rcode` and of errors in the signature (RFC 8945 §3). */
const ERRORS: Readonly<Record<number, string>> = {
  16: "it finds the signature wrong: is the secret the same on both sides?",
  17: "it does not know the key: are name and algorithm the same on both sides?",
  18: "its clock and this machine's differ",
};

/**
 * A key as `tsig-keygen` writes it (`key "name" { algorithm …; secret "…"; };`) or as `algorithm:name:secret`, the form
 * that `keymgr -t` prints and `kdig` and `nsupdate` take; undefined when the text has neither.
 */
export function parseTsigKey(text: string): TsigKey | undefined {
  const { name, algorithm, secret } = keyInBlock(text) ?? keyInLine(text) ?? {};
  const known = ALGORITHMS.find((one) => one === algorithm?.toLowerCase());
  const bytes = Buffer.from(secret ?? "", "base64");
  if (name === undefined || known === undefined || bytes.length === 0) return undefined;
  return { name: name.toLowerCase().replace(/\.$/, ""), algorithm: known, secret: bytes };
}

type WrittenKey = { [field in keyof TsigKey]?: string | undefined };

function keyInBlock(text: string): WrittenKey | undefined {
  const [, name, body = ""] = /key\s+"?([^\s"{;]+)"?\s*\{([^}]*)\}/.exec(text) ?? [];
  const [, algorithm] = /algorithm\s+"?([^\s";]+)"?\s*;/.exec(body) ?? [];
  const [, secret] = /secret\s+"?([^\s";]+)"?\s*;/.exec(body) ?? [];
  return name === undefined ? undefined : { name, algorithm, secret };
}

function keyInLine(text: string): WrittenKey | undefined {
  const [line, algorithm, name, secret] = /^[#\s]*(hmac-\w+):([^\s:]+):([A-Za-z0-9+/=]+)\s*$/m.exec(text) ?? [];
  return line === undefined ? undefined : { name, algorithm, secret };
}

interface Signature {
  /** Epoch seconds. */
  time: number;
  fudge: number;
  error: number;
  other: Buffer;
}

/** RFC 8945 §4.3. `request`: the signature of what a message answers. */
function macOf(message: Buffer, key: TsigKey, { time, fudge, error, other }: Signature, request?: Buffer): Buffer {
  const hmac = createHmac(key.algorithm.replace("hmac-", ""), key.secret);
  if (request) hmac.update(number(2, request.length)).update(request);
  hmac.update(message).update(encodeName(key.name)).update(number(2, CLASS.ANY)).update(number(4, 0));
  hmac.update(encodeName(key.algorithm)).update(number(6, time)).update(number(2, fudge));
  return hmac.update(number(2, error)).update(number(2, other.length)).update(other).digest();
}

/** A message with its signature added (RFC 8945 §5.1), and the signature alone. `now`: epoch ms. */
export function sign(message: Buffer, key: TsigKey, now: number): { signed: Buffer; mac: Buffer } {
  const signature = { time: Math.floor(now / 1_000), fudge: FUDGE, error: 0, other: Buffer.alloc(0) };
  const mac = macOf(message, key, signature);
  const data = Buffer.concat([
    ...[encodeName(key.algorithm), number(6, signature.time), number(2, FUDGE), number(2, mac.length), mac],
    ...[message.subarray(0, 2), number(2, 0), number(2, 0)],
  ]);
  const record = encodeRecord({ name: key.name, type: TYPE.TSIG, class: CLASS.ANY, ttl: 0, data });
  return { signed: Buffer.concat([withAdditionals(message, 1), record]), mac };
}

function withAdditionals(message: Buffer, count: number): Buffer {
  const copy = Buffer.from(message);
  copy.writeUInt16BE(count, 10);
  return copy;
}

/**
 * What is wrong with the signature of an answer to a signed message, for people; undefined when nothing is. `bytes`: the
 * answer whole; `read`: the same, read; `mac`: the signature of what it answers; `now`: epoch ms. @throws RangeError for
 * a signature that is none
 */
export function problemOfSignature(
  bytes: Buffer,
  read: ReadMessage,
  { key, mac, now }: { key: TsigKey; mac: Buffer; now: number },
): string | undefined {
  const record = read.additionals.at(-1);
  if (record?.type !== TYPE.TSIG) return "its answer is not signed";
  const { data } = record;
  const { name: algorithm, end } = readName(data, 0);
  const length = data.readUInt16BE(end + 8);
  const theirs = data.subarray(end + 10, end + 10 + length);
  const rest = data.subarray(end + 10 + length);
  const error = rest.readUInt16BE(2);
  if (ERRORS[error] !== undefined) return ERRORS[error];
  const time = data.readUIntBE(end, 6);
  const signature = { time, fudge: data.readUInt16BE(end + 6), error, other: rest.subarray(6) };
  const unsigned = withAdditionals(bytes.subarray(0, record.start), read.additionals.length - 1);
  rest.copy(unsigned, 0, 0, 2);
  const ours = macOf(unsigned, key, signature, mac);
  const isRight = record.name === key.name && algorithm === key.algorithm;
  if (!isRight || theirs.length !== ours.length || !timingSafeEqual(theirs, ours)) {
    return "the signature of its answer is wrong";
  }
  return Math.abs(now / 1_000 - time) > signature.fudge ? ERRORS[18] : undefined;
}
