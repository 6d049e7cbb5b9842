/**
 * The standby's view of the replica: looks at the lease, follows the epoch of the server, and another one when it
 * begins, without giving up the one before it was read whole. It keeps what it follows in DATA/standby/, and what it
 * is in DATA/standby.json, which tells a standby's data folder from a server's.
 */
import { Database } from "bun:sqlite";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { type AppError, StandbyRefusal } from "../base/errors.ts";
import { isMissing } from "../base/files.ts";
import type { Log } from "../base/log.ts";
import type { Metrics, Sample } from "../base/metrics.ts";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { formatS3Location, openS3, type S3Location } from "../net/s3.ts";
import { MIGRATIONS } from "../store/migrate.ts";
import {
  type Follower,
  findLastReplicaTransaction,
  followEpoch,
  readAppliedTransaction,
  removeFollowedDatabase,
} from "./follow.ts";
import { createLeaseObserver, type Observer, readReplicaLease, type SeenLease } from "./lease.ts";

export const STANDBY_FILE = "standby.json";
/** Folder of the followed databases, in the data folder. */
export const STANDBY_FOLDER = "standby";

/** DATA/standby.json */
export interface StandbyRecord {
  /** The replica that it follows (replica-identity.ts). */
  place: string;
  /** Name of the database in DATA/standby/, and its epoch; undefined until one was whole. */
  database?: { name: string; epoch: number };
  /** When it got the server's keys and certificates, epoch ms. */
  joinedAt?: number;
  /** The server's base URL. */
  server?: string;
}

/** Undefined for a data folder that is no standby's. @throws Error for a file that cannot be read */
export function readStandby(data: string): StandbyRecord | undefined {
  try {
    return JSON.parse(readFileSync(join(data, STANDBY_FILE), "utf8")) as StandbyRecord;
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

export function writeStandby(data: string, record: StandbyRecord): void {
  const path = join(data, STANDBY_FILE);
  writeFileSync(`${path}.new`, `${JSON.stringify(record)}\n`, { mode: 0o600, flush: true });
  renameSync(`${path}.new`, path);
}

/** The database that a standby reads; undefined if it has none yet. */
export function followedDatabase(data: string, { database }: StandbyRecord): string | undefined {
  const path = database && join(data, STANDBY_FOLDER, database.name);
  return path !== undefined && existsSync(path) ? path : undefined;
}

/** The refusal of a write, for people. */
export const describeStandbyRefusal = ({ server }: StandbyRecord): string =>
  `This is a standby, which changes nothing: ${server === undefined ? "no server is known" : `the server is ${server}`}`;

export interface StandbyState {
  /** The epoch that is read; undefined while none is. */
  epoch?: number;
  /** The last transaction applied. */
  transaction?: string;
  /** How old what it reads may be, in seconds; undefined until it has been up to date once. */
  lagSeconds?: number;
  /** Why nothing can be read. */
  reason?: string;
  /** The server, as its lease says. */
  server?: { url: string; epoch: number; released: boolean; heardSecondsAgo: number };
  /** Why the replica cannot be looked at. */
  trouble?: string;
}

export type Standby = ReturnType<typeof openStandby>;

/** Pause between looks at the lease and at the replica. */
const LOOK_MS = 2_000;
/** Pause between looks at what has been applied. */
const APPLIED_MS = 250;
const SCHEMA_PATIENCE_MS = 20;
/** Looks at the replica that are remembered while they wait to be applied: half an hour. */
const MOST_SEEN = 1_000;

const roundToSeconds = (ms: number): number => Math.round(ms / 100) / 10;

/** Number of the migrations that a database has. @throws SQLiteError while it is locked for long, as by a large change */
export function readFileSchemaVersion(file: string, patienceMs = 5_000): number {
  const sqlite = new Database(file, { readonly: true });
  try {
    sqlite.exec(`PRAGMA busy_timeout = ${patienceMs}`);
    return sqlite.query<{ user_version: number }, []>("PRAGMA user_version").get()?.user_version ?? 0;
  } finally {
    sqlite.close();
  }
}

/** Why a database of this schema cannot be read by this program; undefined if it can. */
export function schemaMismatch(found: number): string | undefined {
  const known = MIGRATIONS.length;
  if (found === known) return undefined;
  return found > known
    ? `the server has a newer Mailroom (schema ${found}, this one knows ${known}): upgrade this standby`
    : `the server has an older Mailroom (schema ${found}, this one has ${known}): upgrade the server; this standby can take over as it is`;
}

/** `executable`: Litestream's. The data folder is claimed by this process, and is no server's. */
export function openStandby({
  data,
  location,
  executable,
  patienceMs,
  runtime,
  log,
}: {
  data: string;
  location: S3Location;
  executable: string;
  /** For tests: see followEpoch. */
  patienceMs?: number;
  runtime: Pick<Runtime, "now" | "elapsed" | "setTimer" | "randomBytes" | "fetch">;
  log: Log;
}) {
  const folder = join(data, STANDBY_FOLDER);
  const objects = openS3(location, runtime);
  const observer = createLeaseObserver(runtime);
  const over = new AbortController();
  const listeners: (() => void)[] = [];
  const place = formatS3Location(location);
  const known = readStandby(data);
  if (known && known.place !== place) {
    throw new Error(`${data} follows the replica ${known.place}: use another data folder for ${place}`);
  }
  let record: StandbyRecord = known ?? { place };
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  writeStandby(data, record);

  let current: Follower | undefined;
  /** Follower of an epoch that has begun, until its database is whole. */
  let next: Follower | undefined;
  let schema: number | undefined;
  let lease: SeenLease | undefined;
  /** When the lease was seen to change, and when it was looked at last, as of `elapsed`. */
  let heardAt: number | undefined;
  let trouble: string | undefined;
  let isPaused = false;
  /** The replica had this transaction at that time. */
  let seen: { transaction: string; at: number }[] = [];
  let currentAt: number | undefined;

  const save = (change: Partial<StandbyRecord>): void => {
    // A command may have changed it.
    record = { ...(readStandby(data) ?? record), ...change };
    writeStandby(data, record);
  };

  const tell = (): void => {
    for (const listener of listeners) listener();
  };

  function begin(epoch: number, name = `${epoch}-${runtime.now()}.db`): Follower {
    const file = join(folder, name);
    return followEpoch({ epoch, file, location, objects, executable, changed, log, patienceMs, ...runtime });
  }

  /** Makes the new database the one that is read. */
  function changed(): void {
    if (next?.isWhole()) {
      const before = current;
      current = next;
      next = undefined;
      seen = [];
      schema = undefined;
      readSchema();
      save({ database: { name: current.file.slice(folder.length + 1), epoch: current.epoch } });
      log.info("this standby reads an epoch of the server", { epoch: current.epoch });
      tell();
      if (before) void before.stop().then(() => removeFollowedDatabase(before.file));
      return;
    }
    readSchema();
    tell();
  }

  /** True if it has changed. While the database is locked, it stays as it was. */
  function readSchema(): boolean {
    if (!current?.isWhole()) return false;
    const before = schema;
    try {
      schema = readFileSchemaVersion(current.file, SCHEMA_PATIENCE_MS);
    } catch (error) {
      log.debug("the schema was not read", { error });
    }
    return schema !== before;
  }

  /** Follows the epoch of the lease, from the beginning if what there is cannot go on. */
  async function choose({ epoch }: SeenLease): Promise<void> {
    const isUseful = (follower: Follower | undefined): boolean => follower?.epoch === epoch && !follower.cannotResume();
    if (isUseful(next) || (!next && isUseful(current))) return;
    const failed = next;
    next = undefined;
    await failed?.stop();
    if (failed) removeFollowedDatabase(failed.file);
    if (!isUseful(current)) next = begin(epoch);
  }

  /** Goes on with the database of the last time, and removes what was fetched by half. */
  function resume(): void {
    const { database } = record;
    const followed = followedDatabase(data, record) === undefined ? undefined : database;
    for (const name of readdirSync(folder)) {
      if (followed === undefined || !name.startsWith(followed.name)) rmSync(join(folder, name), { force: true });
    }
    if (followed) current = begin(followed.epoch, followed.name);
  }

  async function look(): Promise<void> {
    if (isPaused) return;
    const askedAt = runtime.elapsed();
    try {
      lease = await readReplicaLease(objects);
      if (lease) {
        const sight = observer.look(lease, askedAt);
        if (sight === "first" || sight === "changed") heardAt = runtime.elapsed();
        if (lease.url !== record.server) save({ server: lease.url });
        if (!isPaused) await choose(lease);
      }
      trouble = lease ? undefined : "no server replicates there yet";
      for (const follower of [current, next]) {
        if (!follower || follower.epoch !== lease?.epoch) continue;
        const transaction = await findLastReplicaTransaction(objects, follower.epoch, follower.applied());
        if (transaction === undefined) continue;
        follower.noteLast(transaction);
        if (follower === current && seen.length < MOST_SEEN) seen.push({ transaction, at: askedAt });
      }
    } catch (error) {
      trouble = error instanceof Error ? error.message : String(error);
    }
  }

  function noteApplied(): void {
    const applied = current?.isWhole() ? readAppliedTransaction(current.file) : undefined;
    if (applied === undefined) return;
    const reached = seen.findLastIndex(({ transaction }) => transaction <= applied);
    if (reached < 0) return;
    currentAt = (seen[reached] as (typeof seen)[0]).at;
    seen = seen.slice(reached + 1);
  }

  async function keepLooking(): Promise<void> {
    for (let at = Number.NEGATIVE_INFINITY; !over.signal.aborted; ) {
      if (runtime.now() - at >= LOOK_MS || runtime.now() < at) {
        at = runtime.now();
        await look();
      }
      noteApplied();
      if (readSchema()) tell();
      await pause(runtime, APPLIED_MS, over.signal);
    }
  }

  function reason(): string | undefined {
    if (!current) return next?.trouble() ?? trouble ?? "the database is being fetched";
    if (!current.isWhole()) return current.trouble() ?? "the last changes are being applied";
    return schema === undefined ? "the last changes are being applied" : schemaMismatch(schema);
  }

  resume();
  const looking = keepLooking();
  return {
    objects,
    /** The record as it is on the disk, where commands change it. */
    record: (): StandbyRecord => readStandby(data) ?? record,
    /** Called when the database, or whether it can be read, has changed. */
    onChange: (listener: () => void): void => void listeners.push(listener),
    /** The database to read; undefined while it cannot be read. */
    database: (): string | undefined => (reason() === undefined ? current?.file : undefined),
    follower: (): Follower | undefined => current,
    /** Returns a copy of the observations of the lease. */
    observe: (): Observer => observer.copy(),
    reason,
    /** Number of the database's migrations; undefined while it is not whole. */
    schema: (): number | undefined => (current?.isWhole() ? schema : undefined),
    state(): StandbyState {
      const why = reason();
      const transaction = current?.applied();
      const now = runtime.elapsed();
      return {
        ...(current && { epoch: current.epoch }),
        ...(transaction !== undefined && { transaction }),
        ...(currentAt !== undefined && { lagSeconds: roundToSeconds(now - currentAt) }),
        ...(why !== undefined && { reason: why }),
        ...(lease &&
          heardAt !== undefined && {
            server: {
              url: lease.url,
              epoch: lease.epoch,
              released: lease.released,
              heardSecondsAgo: roundToSeconds(now - heardAt),
            },
          }),
        ...(trouble !== undefined && { trouble }),
      };
    },
    /** The refusal of a write. */
    refusal: (): AppError => new StandbyRefusal(describeStandbyRefusal(record)),
    /** While paused, it begins to follow no other epoch. */
    pause(paused: boolean): void {
      isPaused = paused;
    },
    /** Resolves when nothing changes the database any more. */
    async stop(): Promise<void> {
      over.abort();
      await looking;
      await Promise.all([current?.stop(), next?.stop()]);
    },
  };
}

/** The part of the state that anybody may know: nothing that names servers. */
export const publicStandbyState = ({ lagSeconds, epoch, server }: StandbyState) => ({
  ...(epoch !== undefined && { epoch }),
  ...(lagSeconds !== undefined && { lagSeconds }),
  ...(server && { serverHeardSecondsAgo: server.heardSecondsAgo }),
});

export function registerStandbyGauges({ gauge }: Pick<Metrics, "gauge">, state: () => StandbyState): void {
  const some = (value: number | undefined): Sample[] => (value === undefined ? [] : [[{}, value]]);
  gauge("mailroom_standby_readable", "Whether this standby can be read", () =>
    some(state().reason === undefined ? 1 : 0),
  );
  gauge("mailroom_standby_lag_seconds", "How old what this standby reads may be", () => some(state().lagSeconds));
  gauge("mailroom_standby_epoch", "The epoch of the server that this standby follows", () => some(state().epoch));
  gauge("mailroom_standby_server_heard_seconds", "Time since the server's lease was seen to change", () =>
    some(state().server?.heardSecondsAgo),
  );
}
