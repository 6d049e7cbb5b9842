/**
 * Hands over, once, what a standby needs to take over and the replica does not have: the keys that seal secrets, and the
 * certificates with their accounts. The server leaves them in the bucket, encrypted with a code that a person carries to the
 * standby.
 *
 * Invariant: an invitation is used once, by the standby whose conditional write replaces the object.
 */
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { decryptWithCode, encryptWithCode } from "../backup/age.ts";
import { filesBelow, makeFolders, writeText } from "../backup/durable-files.ts";
import { AppError } from "../base/errors.ts";
import { syncFolder } from "../base/files.ts";
import { base32, type Runtime } from "../base/runtime.ts";
import { formatS3Location, openS3, type S3Location } from "../net/s3.ts";
import { readStandby, writeStandby } from "./follow-replica.ts";

interface Parts {
  data: string;
  location: S3Location;
  runtime: Pick<Runtime, "now" | "randomBytes" | "fetch" | "setTimer">;
}

const FOLDER = "join/";
/** Folders of the data folder whose files are handed over. */
const HANDED_OVER = ["keys", "tls"];
const isHandedOver = (path: string): boolean => /^(keys|tls)(\/[\w-][\w.-]*)+$/.test(path);
/** 5 bits each. */
const CODE_LENGTH = 30;
const LASTS_MS = 60 * 60_000;
/** Left in the place of one that was used. */
const USED = "used";

interface Invitation {
  /** Epoch ms, by the server's clock. */
  expiresAt: number;
  /** Contents in base64. */
  files: { path: string; content: string }[];
}

const refuse = (): AppError =>
  new AppError(
    "forbidden",
    "this code is wrong, or was used, or is older than an hour: run mailroom standby invite on the server again",
  );

/** The code without what people add, and the object's key, which does not tell it. */
function readCode(typed: string): { code: string; key: string } {
  const code = typed.toLowerCase().replaceAll(/[\s-]/g, "").replaceAll(/[il]/g, "1").replaceAll("o", "0");
  return { code, key: FOLDER + createHash("sha256").update(`name of ${code}`).digest("hex").slice(0, 32) };
}

/** Returns the code, and until when it can be used, epoch ms. An earlier one is of no more use. @throws S3Error */
export async function inviteStandby({ data, location, runtime }: Parts): Promise<{ code: string; expiresAt: number }> {
  if (readStandby(data)) throw new AppError("conflict", "this is a standby: run it on the server");
  const objects = openS3(location, runtime);
  const paths = (await filesBelow(data, (path) => !HANDED_OVER.includes(path.split("/")[0] ?? ""))).filter(
    isHandedOver,
  );
  const files = await Promise.all(
    paths.map(async (path) => ({ path, content: (await readFile(join(data, path))).toString("base64") })),
  );
  const code = base32(runtime.randomBytes(CODE_LENGTH));
  const expiresAt = runtime.now() + LASTS_MS;
  for (const { key } of (await objects.list(FOLDER)).objects) await objects.remove(key);
  const invitation: Invitation = { expiresAt, files };
  await objects.put(readCode(code).key, await encryptWithCode(JSON.stringify(invitation), code));
  return { code: code.match(/.{5}/g)?.join("-") ?? code, expiresAt };
}

/** Writes what the server hands over. Returns its paths in the data folder. @throws AppError forbidden; S3Error */
export async function joinServer({ data, location, runtime }: Parts, typed: string): Promise<string[]> {
  if (!readStandby(data) && existsSync(join(data, "mailroom.db"))) {
    throw new AppError("conflict", `${data} is the data folder of a server: a standby has one of its own`);
  }
  const objects = openS3(location, runtime);
  const place = formatS3Location(location);
  const { code, key } = readCode(typed);
  const found = await objects.get(key);
  if (!found || found.text === USED) throw refuse();
  const invitation = await decryptWithCode(found.text, code).then(
    (text) => JSON.parse(text) as Invitation,
    () => undefined,
  );
  if (!invitation || invitation.expiresAt <= runtime.now()) throw refuse();
  if ((await objects.put(key, USED, { etag: found.etag })) === undefined) throw refuse();
  const files = invitation.files.filter(({ path }) => isHandedOver(path));
  for (const { path, content } of files) {
    await makeFolders(data, dirname(join(data, path)));
    await writeText(join(data, path), Buffer.from(content, "base64"));
  }
  await syncFolder(data);
  writeStandby(data, { ...(readStandby(data) ?? { place }), joinedAt: runtime.now() });
  await objects.remove(key);
  return files.map(({ path }) => path);
}
