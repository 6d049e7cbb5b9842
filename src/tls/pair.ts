/** A certificate with its key, as text: checks pairs, and keeps each pair of the server in one file. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { type FileHandle, mkdir, open, readFile, rename } from "node:fs/promises";
import { dirname } from "node:path";

/** PEM; `cert` may carry its chain. */
export interface KeyPair {
  readonly cert: string;
  readonly key: string;
}

/** Describes what is wrong with a pair; undefined when it is usable. */
export function problemOf({ cert, key }: KeyPair): string | undefined {
  let certificate: X509Certificate;
  try {
    certificate = new X509Certificate(cert);
  } catch {
    return "the certificate is not an X.509 certificate in PEM";
  }
  try {
    if (certificate.checkPrivateKey(createPrivateKey(key))) return undefined;
  } catch {
    return "the key is not a private key in PEM without a passphrase";
  }
  return "the key does not belong to the certificate";
}

/** Loads a pair that savePair wrote; undefined when the file is missing or damaged. @throws when it cannot be read */
export async function loadPair(path: string): Promise<KeyPair | undefined> {
  const pem = await readPrivately(path);
  const [key = ""] = /-----BEGIN PRIVATE KEY-----[\s\S]*?-----END PRIVATE KEY-----/.exec(pem ?? "") ?? [];
  const chain = pem?.match(/-----BEGIN CERTIFICATE-----[\s\S]*?-----END CERTIFICATE-----/g) ?? [];
  const pair = { key, cert: chain.join("\n") };
  return problemOf(pair) === undefined ? pair : undefined;
}

/** Saves key and certificates in one file, so that a crash cannot leave halves that do not match. */
export async function savePair(path: string, { cert, key }: KeyPair): Promise<void> {
  await savePrivately(path, `${key}\n${cert}\n`);
}

/** Reads a file; undefined when it does not exist. @throws when it cannot be read */
export async function readPrivately(path: string): Promise<string | undefined> {
  try {
    return await readFile(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
}

/** Replaces a file whole, readable by its owner only, in a folder of the same kind; on disk when it resolves. */
export async function savePrivately(path: string, text: string): Promise<void> {
  const folder = dirname(path);
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const temporary = `${path}.new`;
  await withFile(temporary, "w", async (file) => {
    await file.chmod(0o600);
    await file.writeFile(text);
    await file.sync();
  });
  await rename(temporary, path);
  // Syncs the rename, too: the caller may next delete data that this file replaces.
  await withFile(folder, "r", (file) => file.sync());
}

async function withFile(path: string, flags: string, use: (file: FileHandle) => Promise<void>): Promise<void> {
  const file = await open(path, flags, 0o600);
  try {
    await use(file);
  } finally {
    await file.close();
  }
}
