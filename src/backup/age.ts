/**
 * Encryption of backups, in the format of age (https://age-encryption.org/v1). The server has public keys only, so what
 * it has written it cannot read; an identity, the private key, is with the people who restore.
 */
import { readFile } from "node:fs/promises";
import { AppError } from "../base/errors.ts";
import { OWN_FILES } from "../store/named-files.ts";
import { SETTINGS } from "../store/settings.ts";
import { storedSetting } from "../store/snapshot.ts";
import { type Changed, copyFileChanged, readSmallFile, writeText } from "./durable-files.ts";

/** Loaded only where it is needed: it is large. */
const load = () => import("age-encryption");

/** The public keys for which backups of the data folder are encrypted, ordered; none if they are not. @throws ConfigError */
export function listBackupRecipients(data: string): string[] {
  const { parse } = SETTINGS["backup.recipients"];
  const recipients = parse(storedSetting(data, "backup.recipients") ?? "none");
  return recipients === "none" ? [] : [...recipients].sort();
}

async function encrypterFor(recipients: readonly string[]) {
  const { Encrypter } = await load();
  const encrypter = new Encrypter();
  for (const recipient of recipients) encrypter.addRecipient(recipient);
  return encrypter;
}

/** Encrypts a file. The copy appears only if the bytes read have the hash `expected`, where it is given. */
export async function encryptFile(
  from: string,
  to: string,
  recipients: readonly string[],
  expected?: string,
): Promise<Changed> {
  const encrypter = await encrypterFor(recipients);
  return copyFileChanged(
    from,
    to,
    (bytes) => encrypter.encrypt(bytes),
    ({ read }) => expected === undefined || read.sha256 === expected,
  );
}

/** Writes a text, encrypted, as a small file. */
export async function encryptText(text: string, to: string, recipients: readonly string[]): Promise<void> {
  const [{ armor }, encrypter] = [await load(), await encrypterFor(recipients)];
  await writeText(to, armor.encode(await encrypter.encrypt(text)));
}

/** Opens encrypted files. */
export type Identities = Awaited<ReturnType<typeof readAgeIdentities>>;

/**
 * Reads identities from a file as age-keygen and `mailroom backup key` write it.
 * @throws AppError bad_request for a file without any; errors of the file system
 */
export async function readAgeIdentities(path: string) {
  const [age, text] = [await load(), await readFile(path, "utf8")];
  const decrypter = new age.Decrypter();
  const lines = text.split("\n").map((line) => line.trim());
  const identities = lines.filter((line) => line !== "" && !line.startsWith("#"));
  const recipients = new Set<string>();
  try {
    if (identities.length === 0) throw new Error("it has none");
    for (const identity of identities) {
      decrypter.addIdentity(identity);
      recipients.add(await age.identityToRecipient(identity));
    }
  } catch (error) {
    throw new AppError("bad_request", `${path} has no identity of age, a line AGE-SECRET-KEY-1…, that can be read`, {
      cause: error,
    });
  }
  return {
    /** True if it opens what is encrypted for one of these public keys. */
    opens: (keys: readonly string[]): boolean => keys.some((key) => recipients.has(key)),
    /** @throws Error for bytes that are damaged, or encrypted for others */
    decryptFile: (from: string, to: string, isGood: (changed: Changed) => boolean): Promise<Changed> =>
      copyFileChanged(from, to, (bytes) => decrypter.decrypt(bytes), isGood),
    /** @throws Error as `decryptFile` */
    decryptText: async (path: string): Promise<string> =>
      decrypter.decrypt(age.armor.decode(await readSmallFile(path)), "text"),
  };
}

/** Writes a new identity into a file that does not exist. Returns its public key. @throws AppError conflict; errors of the file system */
export async function makeAgeIdentity(path: string): Promise<string> {
  const age = await load();
  const identity = await age.generateX25519Identity();
  const recipient = await age.identityToRecipient(identity);
  const file = await OWN_FILES.create(path);
  try {
    await file.write(Buffer.from(`# public key: ${recipient}\n${identity}\n`));
  } catch (error) {
    await file.drop();
    throw error;
  }
  await file.keep();
  return recipient;
}

/** Encrypts a text with a passphrase of so much chance that guessing is hopeless without scrypt's help; in base64. */
export async function encryptWithCode(text: string, code: string): Promise<string> {
  const { Encrypter } = await load();
  const encrypter = new Encrypter();
  encrypter.setPassphrase(code);
  encrypter.setScryptWorkFactor(10);
  return Buffer.from(await encrypter.encrypt(text)).toString("base64");
}

/** @throws Error for another code, and for damaged bytes */
export async function decryptWithCode(base64: string, code: string): Promise<string> {
  const { Decrypter } = await load();
  const decrypter = new Decrypter();
  decrypter.addPassphrase(code);
  return decrypter.decrypt(Buffer.from(base64, "base64"), "text");
}
