/**
 * Secrets that the appliance itself must be able to read, sealed where they are stored (AES-256-GCM) under a key in a file
 * of its own, which backups leave out: who has a copy of the database learns nothing of them. From who has the whole data
 * folder nothing could be kept.
 *
 * Invariant: the key is on disk before anything sealed with it is in the database; it is never replaced.
 */
import { createCipheriv, createDecipheriv } from "node:crypto";
import { closeSync, fsyncSync, mkdirSync, openSync, readFileSync, renameSync, writeSync } from "node:fs";
import { dirname } from "node:path";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";

const CIPHER = "aes-256-gcm";
const KEY_BYTES = 32;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

export interface Seal {
  /** Nonce, tag, ciphertext. `context`: whose it is; sealed for another it does not open. Throws when there can be no key. */
  close(plain: Uint8Array, context: string): Buffer;
  /** Undefined, and logged, for what another key sealed, or none that is still there. */
  open(sealed: Uint8Array, context: string): Uint8Array | undefined;
}

/** `path`: of the key's file, made when it is first needed. */
export function openSeal(path: string, runtime: Pick<Runtime, "randomBytes">, log: Log): Seal {
  let known: Uint8Array | undefined;

  function readKey(): Uint8Array | undefined {
    try {
      known ??= readFileSync(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
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
    close(plain, context) {
      const nonce = runtime.randomBytes(NONCE_BYTES);
      const cipher = createCipheriv(CIPHER, readKey() ?? makeKey(), nonce).setAAD(Buffer.from(context));
      const text = Buffer.concat([cipher.update(plain), cipher.final()]);
      return Buffer.concat([nonce, cipher.getAuthTag(), text]);
    },

    open(sealed, context) {
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
