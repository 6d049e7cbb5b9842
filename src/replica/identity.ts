/**
 * DATA/replica.json: who this data folder is to the replica. A backup leaves it out, so a restored folder is another
 * one.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { S3Location } from "../config.ts";
import { REPLICATED as IDENTITY_FILE } from "../store/wal.ts";

export interface Identity {
  /** The replica that it is for. */
  readonly place: string;
  /** Random id of the data folder. */
  readonly holder: string;
  /** The epoch in which it writes. */
  readonly epoch: number;
  /** Those of its last write of the lease that succeeded, and of the one that was tried after it. */
  readonly nonces: readonly string[];
}

export const placeOf = ({ endpoint, bucket, prefix }: S3Location): string => `${endpoint}/${bucket}/${prefix}`;

/** Undefined if the folder has none, or one for another replica. @throws Error for a file that cannot be read */
export function readIdentity(data: string, location: S3Location): Identity | undefined {
  const path = join(data, IDENTITY_FILE);
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    const identity = JSON.parse(text) as Identity;
    return identity.place === placeOf(location) ? identity : undefined;
  } catch (error) {
    // Of a write that a power cut ended.
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
}

export function writeIdentity(data: string, identity: Identity): void {
  const path = join(data, IDENTITY_FILE);
  writeFileSync(`${path}.new`, `${JSON.stringify(identity)}\n`, { mode: 0o600 });
  renameSync(`${path}.new`, path);
}

/** Another server has taken over from this folder for good, or it follows one. */
export const forgetIdentity = (data: string): void => rmSync(join(data, IDENTITY_FILE), { force: true });
