/**
 * DATA/replica.json: who this data folder is to the replica. A backup leaves it out, so a restored folder is another
 * one.
 */
import { existsSync, readFileSync, rmSync, statSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { isMissing, syncFolder } from "../base/files.ts";
import { formatS3Location, type S3Location } from "../net/s3.ts";
import { REPLICATED as IDENTITY_FILE } from "../store/wal.ts";

export interface Identity {
  /** The replica that it is for. */
  readonly place: string;
  /** Random id of the data folder. */
  readonly holder: string;
  /** The epoch in which it writes. */
  readonly epoch: number;
  /** Nonces of its last write of the lease that succeeded, and of the write that was tried after it. */
  readonly nonces: readonly string[];
}

/** The identity that a data folder has. */
export interface KnownIdentity extends Identity {
  /** True if it was written in this folder since this machine was started, so that its writer has ended. False in a copy. */
  readonly isHere: boolean;
}

interface StoredIdentity extends Identity {
  /** Start of the machine, and the folder on it. */
  readonly machine: string;
}

function identifyMachine(data: string): string {
  const { dev, ino } = statSync(data);
  return `${readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()} ${dev}:${ino}`;
}

/** Undefined if the folder has none, or one for another replica. @throws Error for a file that cannot be read */
export function readReplicaIdentity(data: string, location: S3Location): KnownIdentity | undefined {
  const path = join(data, IDENTITY_FILE);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
  try {
    const { machine, ...identity } = JSON.parse(text) as StoredIdentity;
    return identity.place === formatS3Location(location)
      ? { ...identity, isHere: machine === identifyMachine(data) }
      : undefined;
  } catch (error) {
    // Of a write that a power cut ended.
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

/**
 * Size of the file. Each write takes the place of the one before, so that a full disk does not end the lease. The file is
 * within one page, so that no write is torn.
 */
const BYTES = 2_048;

/**
 * Resolves when it is on the disk: a folder whose identity is older than the lease is taken for a copy. @throws errors of
 * the file system
 */
export async function writeReplicaIdentity(data: string, identity: Identity): Promise<void> {
  const stored: StoredIdentity = { ...identity, machine: identifyMachine(data) };
  const path = join(data, IDENTITY_FILE);
  const isNew = !existsSync(path);
  await writeFile(path, `${JSON.stringify(stored).padEnd(BYTES - 1)}\n`, {
    mode: 0o600,
    flag: isNew ? "w" : "r+",
    flush: true,
  });
  if (!isNew) return;
  await syncFolder(data);
}

/** Removes the identity, once another server has taken over from this folder for good, or the folder follows one. */
export const forgetReplicaIdentity = (data: string): void => rmSync(join(data, IDENTITY_FILE), { force: true });
