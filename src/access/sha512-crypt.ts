/** SHA512-CRYPT, the hashes `$6$…` of Unix systems and mail servers: "Unix crypt using SHA-256 and SHA-512", Ulrich Drepper, version 0.6. */
import { createHash } from "node:crypto";

const DIGITS = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const DIGEST_BYTES = 64;
const DEFAULT_ROUNDS = 5_000;

const hashSha512 = (pieces: readonly Uint8Array[]): Buffer => {
  const hash = createHash("sha512");
  for (const piece of pieces) hash.update(piece);
  return hash.digest();
};

/** `length` bytes of the digest, repeated. */
const stretched = (digest: Buffer, length: number): Buffer => Buffer.alloc(length, digest);

/** The hash of a password with the salt and rounds of `setting`, a hash or its beginning: `$6$[rounds=N$]SALT`. Blocks for its rounds. */
export function sha512Crypt(password: string, setting: string): string {
  const [, rounds, salt = ""] = /^\$6\$(?:rounds=(\d+)\$)?([^$]{0,16})/.exec(setting) ?? [];
  const [key, salted] = [Buffer.from(password), Buffer.from(salt)];
  const other = hashSha512([key, salted, key]);
  const first = [key, salted, stretched(other, key.length)];
  for (let bits = key.length; bits > 0; bits >>= 1) first.push(bits & 1 ? other : key);
  let digest = hashSha512(first);
  const p = stretched(hashSha512(Array<Buffer>(key.length).fill(key)), key.length);
  const s = stretched(hashSha512(Array<Buffer>(16 + (digest[0] as number)).fill(salted)), salted.length);
  for (let round = 0; round < Number(rounds ?? DEFAULT_ROUNDS); round++) {
    const isOdd = round % 2 === 1;
    const pieces = [isOdd ? p : digest];
    if (round % 3 !== 0) pieces.push(s);
    if (round % 7 !== 0) pieces.push(p);
    pieces.push(isOdd ? digest : p);
    digest = hashSha512(pieces);
  }
  return `$6$${rounds === undefined ? "" : `rounds=${rounds}$`}${salt}$${written(digest)}`;
}

/** The digest in the order and the digits of crypt: three bytes, 21 apart, are four digits, the lowest first. */
function written(digest: Buffer): string {
  let text = "";
  for (let i = 0, [a, b, c] = [0, 21, 42]; i < 21; i++, [a, b, c] = [b + 1, c + 1, a + 1]) {
    text += digits(((digest[a] as number) << 16) | ((digest[b] as number) << 8) | (digest[c] as number), 4);
  }
  return text + digits(digest[DIGEST_BYTES - 1] as number, 2);
}

function digits(value: number, count: number): string {
  let text = "";
  for (let i = 0; i < count; i++) text += DIGITS[(value >> (6 * i)) & 63];
  return text;
}
