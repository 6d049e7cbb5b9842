/**
 * Fetches Bun for another kind of machine, as the base of its executable. Bun itself would download it without a checksum;
 * npm has the same files, and package-lock.json their checksums.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { readLock } from "./lock.ts";
import { outputOf, runCommand } from "./tools.ts";

/** @throws Error when the content does not match `integrity` (`sha512-…`, base64) */
export function checkIntegrity(name: string, content: Uint8Array, integrity: string | undefined): void {
  const [algorithm, expected] = /^(sha512)-(.+)$/.exec(integrity ?? "")?.slice(1) ?? [];
  if (!algorithm) throw new Error(`package-lock.json has no sha512 of ${name}`);
  const found = createHash(algorithm).update(content).digest("base64");
  if (found !== expected) throw new Error(`${name} is not what package-lock.json says: sha512-${found}`);
}

/**
 * Path of the package's runtime: the installed one, which npm has checked, or one fetched into `folder`.
 * @throws Error when it cannot be fetched or differs from the pinned one
 */
export async function fetchBun(root: string, name: string, folder: string): Promise<string> {
  const installed = join(root, "node_modules", name, "bin/bun");
  if (existsSync(installed)) return installed;
  const { version, integrity } = readLock(root).get(`node_modules/${name}`) ?? {};
  mkdirSync(folder, { recursive: true });
  const packed = await outputOf(root, "npm", "pack", "--silent", "--pack-destination", folder, `${name}@${version}`);
  const archive = join(folder, packed.split("\n").at(-1) ?? "");
  checkIntegrity(name, readFileSync(archive), integrity);
  await runCommand(folder, "tar", "--extract", "--gzip", "--file", archive, "package/bin/bun");
  return join(folder, "package/bin/bun");
}
