/**
 * Finds the role of a data folder on which a standby is started. The folder may be that of a standby; an empty one that becomes
 * one; that of the server itself; or that of a server that another machine has taken over from, which becomes a standby.
 *
 * Invariant: nothing of a server's is removed. Its database may have mail that never reached the replica, so it is kept aside,
 * in a folder that commands can be run on.
 */
import { Database } from "bun:sqlite";
import { copyFileSync, existsSync, linkSync, mkdirSync, readdirSync, renameSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { toIsoTime } from "../base/time.ts";
import { formatS3Location, openS3, type S3Location } from "../net/s3.ts";
import { REPLICATED } from "../store/wal.ts";
import { readStandby, writeStandby } from "./follow-replica.ts";
import { type Lease, readReplicaLease } from "./lease.ts";
import { endLitestream, REPLICA_FOLDER } from "./litestream.ts";
import { turnStandbyIntoServer } from "./promote.ts";
import { forgetReplicaIdentity, readReplicaIdentity } from "./replica-identity.ts";

export type Role =
  /** The folder is a standby's. `aside`: where the database of the server that it was is kept. */
  | { role: "standby"; aside?: string; takenBy?: Lease }
  /** The standby of this folder has taken the lease, and has to finish its promotion. */
  | { role: "promoting" }
  | { role: "server" };

/** The key of second factors (access/seal.ts), which every server that has taken over has from the one before. */
const SEAL = "keys/second-factor.key";

/** The folder is claimed. @throws AppError conflict for a server's folder from which nobody has taken over; S3Error */
export async function decideServerRole({
  data,
  location,
  runtime,
  log,
}: {
  data: string;
  location: S3Location;
  runtime: Pick<Runtime, "now" | "fetch" | "setTimer">;
  log: Log;
}): Promise<Role> {
  const hasDatabase = existsSync(join(data, "mailroom.db"));
  const isStandby = readStandby(data) !== undefined;
  const identity = readReplicaIdentity(data, location);
  if (!identity && !hasDatabase) return { role: "standby" };
  const lease = await readReplicaLease(openS3(location, runtime));
  const isOurs = identity !== undefined && lease?.holder === identity.holder;
  if (isStandby) {
    if (!isOurs) {
      // A promotion that ended before it moved anything, and another one since.
      forgetReplicaIdentity(data);
      return { role: "standby" };
    }
    if (!hasDatabase) return { role: "promoting" };
    await turnStandbyIntoServer(data, runtime.now());
    return { role: "server" };
  }
  if (isOurs) return { role: "server" };
  if (!hasDatabase) return { role: "standby" };
  if (!identity || !lease) {
    throw new AppError(
      "conflict",
      `${data} has the database of a server, and no other has taken over from it: start it with mailroom serve, or give a standby an empty data folder`,
    );
  }
  await endLitestream(data, { ...runtime, log });
  const aside = keepAside(data, runtime.now());
  const joinedAt = existsSync(join(data, SEAL)) ? runtime.now() : undefined;
  writeStandby(data, { place: formatS3Location(location), ...(joinedAt !== undefined && { joinedAt }) });
  forgetReplicaIdentity(data);
  return { role: "standby", aside, takenBy: lease };
}

/** Moves the database aside, with links to its blobs. Returns the folder, in which commands find all as it was. */
function keepAside(data: string, now: number): string {
  // One file, so that it moves whole: the write-ahead log goes into it. First, since it fails while a command has it open.
  const sqlite = new Database(join(data, "mailroom.db"));
  try {
    sqlite.exec("PRAGMA journal_mode = DELETE");
  } finally {
    sqlite.close();
  }
  const aside = join(data, `before-standby-${toIsoTime(now).replaceAll(/[-:]|\.\d+/g, "")}`);
  mkdirSync(aside, { mode: 0o700 });
  linkTree(join(data, "blobs"), join(aside, "blobs"));
  linkTree(join(data, "keys"), join(aside, "keys"));
  copyFileSync(join(data, REPLICATED), join(aside, REPLICATED));
  // What Litestream knew of it would not fit another one.
  if (existsSync(join(data, REPLICA_FOLDER))) renameSync(join(data, REPLICA_FOLDER), join(aside, REPLICA_FOLDER));
  renameSync(join(data, "mailroom.db"), join(aside, "mailroom.db"));
  return aside;
}

function linkTree(from: string, to: string): void {
  if (!existsSync(from)) return;
  mkdirSync(to, { mode: 0o700 });
  for (const entry of readdirSync(from, { withFileTypes: true })) {
    const [source, target] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) linkTree(source, target);
    else if (entry.isFile()) linkSync(source, target);
  }
}
