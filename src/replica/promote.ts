/**
 * Makes a standby the server: takes the lease, applies the last of the epoch before, and puts the database where a server has
 * it. Each step can be done again: after a crash, the next start of the standby goes on (`isUnfinished`).
 *
 * Invariant: the lease is taken before the last look at the replica. The server before acknowledges nothing that it uploads
 * after that look: it looks at the lease after each upload and before its answer.
 */
import { Database } from "bun:sqlite";
import { existsSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { AppError } from "../base/errors.ts";
import { syncFolder } from "../base/files.ts";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { renewUidValidity } from "../mailbox/imap/uids.ts";
import { formatS3Location, S3Error, type S3Location } from "../net/s3.ts";
import { MIGRATIONS } from "../store/migrate.ts";
import { findForeignSchemaEntry } from "../store/own-schema.ts";
import { drizzleOver } from "../store/statement.ts";
import { type Follower, findLastReplicaTransaction } from "./follow.ts";
import {
  followedDatabase,
  readFileSchemaVersion,
  readStandby,
  STANDBY_FILE,
  STANDBY_FOLDER,
  type Standby,
} from "./follow-replica.ts";
import { LeaseTaken, readReplicaLease, takeReplicaLease } from "./lease.ts";
import { readReplicaIdentity, writeReplicaIdentity } from "./replica-identity.ts";

export interface Promoted {
  /** The epoch in which this server writes, and the one of the server before. */
  epoch: number;
  former: number;
  /** The last transaction of the former epoch. */
  transaction: string;
  /** Base URL of the server before. */
  formerServer: string;
  /** How long it took to get the lease, and to apply the last changes, in seconds. */
  waitedSeconds: number;
  appliedSeconds: number;
}

interface PromoteParts {
  standby: Standby;
  data: string;
  location: S3Location;
  /** Base URL of this server. */
  url: string;
  /** Says what it does, for people. */
  tell(line: string): void;
  runtime: Pick<Runtime, "now" | "elapsed" | "setTimer" | "randomBytes">;
}

const LOOK_MS = 200;
/** How long a large change may lock the database. */
const PATIENCE_MS = 5_000;
const TRIES = 3;

const conflict = (message: string): AppError => new AppError("conflict", message);
const secondsSince = (at: number, now: number): number => Math.round((now - at) / 100) / 10;

/** The database that will be the server's. @throws AppError conflict with what has to be done before */
function requireReady({ standby }: PromoteParts, schema: number | undefined): Follower {
  const { joinedAt } = standby.record();
  const follower = standby.follower();
  if (!follower || schema === undefined) {
    throw conflict(`this standby has no whole database yet: ${standby.reason() ?? "wait until it has"}`);
  }
  if (joinedAt === undefined) {
    throw conflict(
      "this standby has not got the key of second factors and the certificates: run mailroom standby invite on the server, and here mailroom standby join CODE",
    );
  }
  if (schema > MIGRATIONS.length) {
    throw conflict(
      `the database is of a newer Mailroom (schema ${schema}, this one knows ${MIGRATIONS.length}): upgrade this standby first`,
    );
  }
  requireOwn(follower.file, schema);
  return follower;
}

/** @throws AppError conflict for a database in which a stranger had the server run something (own-schema.ts) */
function requireOwn(file: string, schema: number): void {
  const sqlite = new Database(file, { readonly: true });
  try {
    sqlite.exec(`PRAGMA busy_timeout = ${PATIENCE_MS}; PRAGMA trusted_schema = OFF`);
    const strange = findForeignSchemaEntry(sqlite, schema);
    if (strange === undefined) return;
    throw conflict(
      `the database of the replica has a ${strange} that is not Mailroom's, so somebody else has written there: restore a backup instead`,
    );
  } finally {
    sqlite.close();
  }
}

/**
 * Takes the lease and applies what the replica has. The database then is the server's as soon as `turnStandbyIntoServer` has
 * moved it. @throws AppError conflict while the server is alive, or when something is missing; then all is as it was
 */
export async function promoteStandby(parts: PromoteParts, signal?: AbortSignal): Promise<Promoted> {
  const { standby, data, location, url, tell, runtime } = parts;
  const follower = requireReady(parts, standby.schema());
  const lease = await patiently(() => readReplicaLease(standby.objects), parts);
  if (!lease) throw conflict("the lease is gone from the replica: nobody can tell whether a server still writes");
  const isResumed = readReplicaIdentity(data, location)?.holder === lease.holder;
  if (
    !isResumed &&
    lease.epoch !== follower.epoch &&
    (await findLastReplicaTransaction(standby.objects, lease.epoch))
  ) {
    throw conflict(
      `the server is in epoch ${lease.epoch}, of which this standby has not the whole database yet: wait until it has`,
    );
  }
  standby.pause(true);
  const startedAt = runtime.now();
  let epoch = lease.epoch;
  try {
    if (!isResumed) {
      tell(`waiting until the lease of ${lease.url} is released or over, at most half a minute`);
      const place = formatS3Location(location);
      const keep = (identity: Parameters<typeof writeReplicaIdentity>[1]) => writeReplicaIdentity(data, identity);
      const leaseParts = { objects: standby.objects, runtime, place, url, keep, observer: standby.observe() };
      const held = await patiently(() => takeReplicaLease(leaseParts, undefined, signal), parts);
      epoch = held.epoch;
      await held.stop();
    }
  } catch (error) {
    standby.pause(false);
    if (!(error instanceof LeaseTaken)) throw error;
    throw conflict(`${error.message}: stop it first; this standby takes over only from a server that is gone`);
  }
  tell(`this machine has the lease, in epoch ${epoch}: no other server writes any more`);
  const takenAt = runtime.now();
  const transaction = await applyTheLast(parts, follower, signal);
  // Of what came since, too.
  requireOwn(follower.file, readFileSchemaVersion(follower.file));
  tell(`everything in the replica is applied, to transaction ${transaction}`);
  return {
    epoch,
    former: follower.epoch,
    transaction,
    formerServer: lease.url,
    waitedSeconds: secondsSince(startedAt, takenAt),
    appliedSeconds: secondsSince(takenAt, runtime.now()),
  };
}

/** A request that a busy S3 server does not answer must not end a promotion. */
async function patiently<T>(work: () => Promise<T>, { tell, runtime }: PromoteParts): Promise<T> {
  for (let tried = 1; ; tried++) {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof S3Error) || tried === TRIES) throw error;
      tell(`trying again: ${error.message}`);
      await pause(runtime, LOOK_MS);
    }
  }
}

/** Until it succeeds: the lease is ours, so that nobody else writes meanwhile. */
async function applyTheLast(
  { standby, tell, runtime }: PromoteParts,
  follower: Follower,
  signal?: AbortSignal,
): Promise<string> {
  let goal: string | undefined;
  let reported: string | undefined;
  for (;;) {
    signal?.throwIfAborted();
    let trouble = follower.trouble();
    try {
      goal ??= await findLastReplicaTransaction(standby.objects, follower.epoch, follower.applied());
    } catch (error) {
      trouble = error instanceof Error ? error.message : String(error);
    }
    const applied = follower.applied();
    if (goal !== undefined && applied !== undefined && applied >= goal && follower.isWhole()) return applied;
    if (trouble !== undefined && trouble !== reported) tell(`still trying: ${trouble}`);
    reported = trouble;
    await pause(runtime, LOOK_MS, signal);
  }
}

/**
 * Moves the database, of which nothing is open any more, to where a server has it, and numbers mail anew for IMAP: apps may have
 * been told of UIDs that the replica has not. Done again after a crash, since the standby's file is removed last. `now`: epoch ms.
 */
export async function turnStandbyIntoServer(data: string, now: number): Promise<void> {
  const record = readStandby(data);
  const followed = record && followedDatabase(data, record);
  const database = join(data, "mailroom.db");
  if (followed !== undefined && !existsSync(database)) {
    renameSync(followed, database);
    await syncFolder(data);
  }
  if (record && existsSync(database)) renewUids(database, now);
  rmSync(join(data, STANDBY_FILE), { force: true });
  rmSync(join(data, STANDBY_FOLDER), { recursive: true, force: true });
  await syncFolder(data);
}

/** The database may be of a version without IMAP. */
function renewUids(file: string, now: number): void {
  const sqlite = new Database(file);
  try {
    const hasFolders = sqlite.query("SELECT 1 FROM sqlite_master WHERE name = 'imap_folders'").get() !== null;
    if (hasFolders) renewUidValidity(drizzleOver(sqlite), now);
  } finally {
    sqlite.close();
  }
}
