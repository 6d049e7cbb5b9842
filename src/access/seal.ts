/**
 * Seals secrets that the appliance itself must read (AES-256-GCM), with a key in a file of its own that backups
 * exclude: a copy of the database reveals nothing about them. A copy of the whole data folder does.
 *
 * Invariant: the key is on disk before the database holds anything sealed with it, and it is never replaced.
 */
import { createCipheriv, createDecipheriv } from "node:crypto";
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import { isMissing } from "../base/files.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";

const CIPHER = "aes-256-gcm";
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export type Seal = ReturnType<typeof openSecretSeal>;

/** `path`: the key's file, created when first needed. */
export function openSecretSeal(path: string, runtime: Pick<Runtime, "randomBytes">, log: Log) {
  let known: Uint8Array | undefined;

  function readKey(): Uint8Array | undefined {
    try {
      known ??= readFileSync(path);
    } catch (error) {
      if (!isMissing(error)) throw error;
    }
    if (known && known.length !== KEY_BYTES) throw new Error(`${path} is no key of ${KEY_BYTES} bytes`);
    return known;
  }

  function makeKey(): Uint8Array {
    mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
    const key = runtime.randomBytes(KEY_BYTES);
    const temporary = `${path}.new`;
    const file = openSync(temporary, "w", 0o600);
    writeSync(file, key);
    fsyncSync(file);
    closeSync(file);
    renameSync(temporary, path);
    const folder = openSync(dirname(path), "r");
    fsyncSync(folder);
    closeSync(folder);
    known = key;
    return key;
  }

  return {
    /**
     * Nonce, tag, ciphertext. `context` names the owner; the secret opens only with the same one. Throws if no key can
     * be created.
     */
    close(plain: Uint8Array, context: string): Buffer {
      const nonce = runtime.randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, readKey() ?? makeKey(), nonce).setAAD(Buffer.from(context));
      const text = Buffer.concat([cipher.update(plain), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), text]);
    },

    /** Undefined, and logged, if it was sealed with another or a lost key. */
    open(sealed: Uint8Array, context: string): Uint8Array | undefined {
      const key = readKey();
      try {
        if (!key) throw new Error(`${path} is not there`);
        const decipher = createDecipheriv(CIPHER, key, sealed.subarray(0, NONCE_BYTES), { authTagLength: TAG_BYTES })
          .setAAD(Buffer.from(context))
          .setAuthTag(sealed.subarray(NONCE_BYTES, NONCE_BYTES + TAG_BYTES));
        return Buffer.concat([decipher.update(sealed.subarray(NONCE_BYTES + TAG_BYTES)), decipher.final()]);
      } catch (error) {
        log.warn(`a sealed secret does not open: put the ${path} back that it was sealed with`, { context, error });
        return undefined;
      }
    },
  };
}
