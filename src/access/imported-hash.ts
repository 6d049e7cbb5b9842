/**
 * Hashes of passwords that another mail server made, as Dovecot writes them: bcrypt, SHA512-CRYPT and other parameters of
 * argon2id. They serve until their person's first sign-in, which replaces them by one of ours (sign-in.ts).
 *
 * A hash says itself what it costs to check, so each kind has a bound.
 */
import { timingSafeEqual } from "node:crypto";
import { AppError } from "../base/errors.ts";

const MOST_BCRYPT_COST = 12;
const MOST_ROUNDS = 700_000;
/** KiB, passes and lanes. */
const MOST_ARGON2ID = { memory: 65_536, passes: 6, lanes: 4 };

const BCRYPT = /^\$2[aby]\$(\d\d)\$[./0-9A-Za-z]{53}$/;
const SHA512_CRYPT = /^\$6\$(?:rounds=([1-9]\d{0,8})\$)?[!-#%-9;-~]{1,16}\$[./0-9A-Za-z]{86}$/;
const ARGON2ID = /^\$argon2id\$v=19\$m=(\d{1,8}),t=(\d{1,4}),p=(\d{1,3})\$[\w+/=-]{1,100}\$[\w+/=-]{1,100}$/;

/** Dovecot's names of the kinds. */
const KINDS: readonly { name: string; form: RegExp }[] = [
  { name: "{SHA512-CRYPT}", form: SHA512_CRYPT },
  { name: "{BLF-CRYPT}", form: BCRYPT },
  { name: "{ARGON2ID}", form: ARGON2ID },
];

/** A stored hash that was imported begins with the name of its kind in braces, and one of ours does not. */
export const isImportedPasswordHash = (hash: string): boolean => hash.startsWith("{");

const withoutName = (hash: string): string => hash.replace(/^\{[\w-]{1,20}\}/, "");

/** True for a stored hash that can be checked at a bounded cost. */
export function isAffordablePasswordHash(stored: string): boolean {
  const hash = withoutName(stored);
  const [, cost] = BCRYPT.exec(hash) ?? [];
  if (cost !== undefined) return Number(cost) >= 4 && Number(cost) <= MOST_BCRYPT_COST;
  const sha512 = SHA512_CRYPT.exec(hash);
  if (sha512) return Number(sha512[1] ?? 5_000) >= 1_000 && Number(sha512[1] ?? 5_000) <= MOST_ROUNDS;
  const argon2id = ARGON2ID.exec(hash);
  const [memory = 0, passes = 0, lanes = 0] = argon2id?.slice(1).map(Number) ?? [];
  const most = MOST_ARGON2ID;
  return Math.min(memory, passes, lanes) > 0 && memory <= most.memory && passes <= most.passes && lanes <= most.lanes;
}

const refusal = (message: string): AppError => new AppError("bad_request", message);

/** The hash to store for a text of Dovecot, with or without the name of its kind. @throws AppError bad_request */
export async function readImportedHash(text: string): Promise<string> {
  const given = text.trim();
  const hash = withoutName(given);
  const kind = KINDS.find(({ form }) => form.test(hash));
  const name = given.slice(0, given.length - hash.length).toUpperCase();
  if (!kind || !["", "{CRYPT}", kind.name].includes(name)) {
    throw refusal(
      "give a hash as Dovecot has it: {SHA512-CRYPT}$6$…, {BLF-CRYPT}$2y$… or {ARGON2ID}$argon2id$…; the name in braces may be left out",
    );
  }
  if (!isAffordablePasswordHash(hash)) {
    throw refusal(
      `the hash costs too much to check, or too little: bcrypt may have a cost of 4 to ${MOST_BCRYPT_COST}, SHA512-CRYPT 1000 to ${MOST_ROUNDS} rounds, and argon2id at most ${MOST_ARGON2ID.memory} KiB, ${MOST_ARGON2ID.passes} passes and ${MOST_ARGON2ID.lanes} lanes. Give this person a new password instead`,
    );
  }
  await verifyPasswordHash("", hash).catch(() => {
    throw refusal("the hash is damaged");
  });
  return kind.name + hash;
}

/** Bytes of a password: the work of SHA512-CRYPT grows with their square. */
const LONGEST_PASSWORD = 1_024;
/** Bytes that bcrypt reads. */
const BCRYPT_BYTES = 72;

/** True if the password is right for an affordable hash. Works on another thread. */
export async function verifyPasswordHash(password: string, stored: string): Promise<boolean> {
  const hash = withoutName(stored);
  if (hash.startsWith("$argon2id$")) return Bun.password.verify(password, hash);
  const bytes = Buffer.from(password);
  if (bytes.length > LONGEST_PASSWORD) return false;
  // Bun hashes a longer password before, which no other program does.
  if (hash.startsWith("$2")) return Bun.password.verify(bytes.subarray(0, BCRYPT_BYTES), hash);
  const found = Buffer.from(await hashWithSha512Crypt(password, hash));
  return found.length === hash.length && timingSafeEqual(found, Buffer.from(hash));
}

async function hashWithSha512Crypt(password: string, hash: string): Promise<string> {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  // The same address in the single executable (entry naming [name]).
  const worker = new Worker(new URL("./sha512-crypt-worker.ts", import.meta.url).href);
  worker.addEventListener("message", ({ data }) => resolve(data));
  worker.addEventListener("error", (event) => {
    event.preventDefault();
    reject(event.error ?? new Error(event.message));
  });
  worker.postMessage({ password, hash });
  try {
    return await promise;
  } finally {
    worker.terminate();
  }
}
