/**
 * Makes a backup, with or without a running server: a snapshot of the database, then the blobs that it names, then the
 * data folder's other files. Blobs never change, so the backup folder's are kept. Blobs are copied, not linked: a
 * backup must not share its bytes with the data that it protects.
 *
 * Invariants: a generation exists whole and fsynced, or not at all; files that a finished one names are never changed;
 * only one backup at a time reads a data folder or writes a backup folder; the sweeper removes no blob meanwhile.
 */
import { realpathSync } from "node:fs";
import { rename, rm, statfs, unlink } from "node:fs/promises";
import { basename, dirname, join, resolve, sep } from "node:path";
import { AppError } from "../base/errors.ts";
import { isMissing, syncFolder } from "../base/files.ts";
import { pause } from "../base/pause.ts";
import type { Runtime } from "../base/runtime.ts";
import { toIsoTime } from "../base/time.ts";
import type { S3Location } from "../net/s3.ts";
import { blobPath } from "../store/blobs.ts";
import { claimBlobs, tryLockFile } from "../store/claim.ts";
import { MIGRATIONS } from "../store/migrate.ts";
import { measureDatabase, openSnapshot, takeSnapshot } from "../store/snapshot.ts";
import { listBackupRecipients } from "./age.ts";
import {
  BACKUP,
  BLOB_LIST,
  BLOBS,
  DATABASE,
  FILES,
  FORMAT,
  formatChecksums,
  GENERATIONS,
  type Generation,
  generationId,
  generationTime,
  isBackedUp,
  isFolderMarkedAs,
  LOCK,
  listGenerations,
  MANIFEST,
  MARKER,
  type Manifest,
  markerText,
  mergeSortedNames,
  PLAIN_FORMAT,
  parseChecksums,
  readBlobList,
  recordBackupFailure,
  SUMS,
  writeBackupState,
  writeBlobList,
} from "./backup-layout.ts";
import { type BlobSource, openBlobSource } from "./blob-source.ts";
import {
  checkFileState,
  copyFile,
  filesBelow,
  hashFile,
  isDiskFullError,
  listDirectoryNames,
  makeFolder,
  makeFolders,
  readSmallFile,
  runConcurrently,
  syncFile,
  syncTree,
  writeText,
} from "./durable-files.ts";
import { encryptBackupContent, type WrittenContent } from "./encrypted.ts";

export interface BackupRequest {
  /** The data folder. */
  data: string;
  /** The backup folder; made when missing, but not the folders above it. */
  folder: string;
  /** Generations to keep, this one included; undefined keeps all. */
  keep?: number | undefined;
  /** Checks the hashes of the backup folder's blobs, not only their sizes. Damaged ones are copied anew. */
  reread?: boolean | undefined;
  /** Encrypts nothing, whatever the setting says. */
  unencrypted?: boolean | undefined;
  /** Where blobs are, if not in the data folder. */
  blobs?: S3Location | undefined;
  /** Names of this server and this program, for the manifest. */
  hostname: string;
  version: string;
  runtime: Pick<Runtime, "now" | "setTimer" | "randomBytes" | "fetch">;
}

export interface Made extends Manifest {
  id: string;
  folder: string;
  /** Blobs that were missing or damaged in the backup folder, and their bytes. */
  copied: number;
  copiedBytes: number;
  /** Those of them that were damaged. */
  mended: number;
  /** Ids of the generations removed because of `keep`. */
  removed: string[];
}

/** How long a sweep of blobs, or another backup, may take before this one gives up, ms. */
const CLAIM_WAIT_MS = 60_000;
const CLAIM_POLL_MS = 200;
/** Leaves room for a database that grows during the backup. */
const SPARE = 1.1;

/** @throws AppError, errors of the file system and SQLite; the former backups then stay as they were */
export async function makeBackup(request: BackupRequest): Promise<Made> {
  const { data, folder, runtime } = request;
  try {
    await prepareBackupFolder(data, folder);
    const releaseFolder = await waitForClaim(() => tryLockFile(join(folder, LOCK)), `into ${folder}`, runtime);
    try {
      const releaseBlobs = await waitForClaim(() => claimBlobs(data), `of ${data}`, runtime);
      try {
        const made = await makeGeneration(request);
        const removed = await keepNewestGenerations(folder, request.keep, request.runtime.now());
        await sweepBackupBlobs(folder);
        // The backup is good even if the data disk is full.
        await writeBackupState(data, { lastGood: { at: runtime.now(), folder, generation: made.id } }).catch(() => {});
        return { ...made, removed };
      } finally {
        releaseBlobs();
      }
    } finally {
      releaseFolder();
    }
  } catch (error) {
    const failure = isDiskFullError(error) ? fullDisk(folder, error) : error;
    await recordBackupFailure(data, folder, failure, runtime.now()).catch(() => {});
    throw failure;
  }
}

/** Waits for another backup, or a sweep of blobs, to end. @throws AppError conflict when it does not in time */
export async function waitForClaim(
  claim: () => (() => void) | undefined,
  what: string,
  runtime: BackupRequest["runtime"],
): Promise<() => void> {
  for (let waited = 0; waited <= CLAIM_WAIT_MS; waited += CLAIM_POLL_MS) {
    const release = claim();
    if (release) return release;
    await pause(runtime, CLAIM_POLL_MS);
  }
  throw new AppError("conflict", `another backup ${what} is under way`);
}

const fullDisk = (folder: string, cause: unknown): AppError =>
  new AppError("insufficient_storage", `the disk of ${folder} is full; the former backups are as they were`, { cause });

/** @throws AppError when the folder cannot be one for backups of that data folder */
export async function prepareBackupFolder(data: string, folder: string, kind = BACKUP): Promise<void> {
  const real = (path: string): string => {
    try {
      return realpathSync(path);
    } catch (error) {
      if (isMissing(error)) return join(realpathSync(dirname(resolve(path))), basename(resolve(path)));
      throw error;
    }
  };
  let [inside, outside] = ["", ""];
  try {
    [inside, outside] = [real(folder), real(data)];
  } catch (error) {
    if (!isMissing(error)) throw error;
    throw new AppError("not_found", `the folder above ${folder} is not there: is its disk mounted?`);
  }
  if (inside === outside || inside.startsWith(outside + sep)) {
    throw new AppError(
      "bad_request",
      `${folder} is in the data folder: a backup belongs elsewhere, best on another disk`,
    );
  }
  await makeFolder(folder);
  if (!(await isFolderMarkedAs(kind, folder))) {
    const others = (await listDirectoryNames(folder)).filter(
      (name) => name !== "lost+found" && !name.startsWith(kind.marker),
    );
    if (others.length > 0) {
      throw new AppError("conflict", `${folder} has other files in it: give an empty folder, or a ${kind.name}`);
    }
    await writeText(join(folder, kind.marker), markerText(PLAIN_FORMAT));
  }
  for (const name of [BLOBS, GENERATIONS]) await makeFolder(join(folder, name));
  await syncFolder(folder);
}

/** Marks the folder as one that programs of an older format do not know. */
async function raiseFormat(folder: string, format: number): Promise<void> {
  const marker = join(folder, MARKER);
  if ((await readSmallFile(marker)) < markerText(format)) await writeText(marker, markerText(format));
}

/** Removes what an interrupted backup left first, and its own files when it fails, to free room. */
async function makeGeneration(request: BackupRequest): Promise<Omit<Made, "removed">> {
  const { data, folder } = request;
  await sweepUnfinishedGenerations(folder);
  const createdAt = request.runtime.now();
  const id = generationId(createdAt);
  const parent = join(folder, GENERATIONS);
  const unfinished = join(parent, `.${id}`);
  try {
    const recipients = request.unencrypted ? [] : listBackupRecipients(data);
    const isEncrypted = recipients.length > 0;
    const { bytes, schema } = measureDatabase(data);
    if (schema > MIGRATIONS.length) {
      throw new AppError(
        "conflict",
        "the data folder was written by a newer Mailroom: make the backup with that version",
      );
    }
    await requireRoom(folder, bytes);
    if (isEncrypted) await requireRoom(data, bytes);
    await makeFolder(unfinished);
    const files = await filesBelow(data, (path) => !isBackedUp(path, { encrypted: isEncrypted }));
    if (isEncrypted) await raiseFormat(folder, FORMAT);
    const { reread = false, runtime } = request;
    const source = openBlobSource(data, request.blobs, runtime);
    const content = isEncrypted
      ? await encryptBackupContent({ data, source, folder, unfinished, recipients, files, reread, runtime })
      : await copyContent({ data, source, folder, unfinished, files, reread });
    const { sums, copied, copiedBytes, mended, ...described } = content;
    const manifest: Manifest = {
      format: isEncrypted ? FORMAT : PLAIN_FORMAT,
      ...(isEncrypted && { recipients }),
      version: request.version,
      createdAt: toIsoTime(createdAt),
      hostname: request.hostname,
      ...described,
    };
    await writeText(join(unfinished, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`);
    sums.set(MANIFEST, (await hashFile(join(unfinished, MANIFEST))).sha256);
    await writeText(join(unfinished, SUMS), formatChecksums(sums));
    await rename(unfinished, join(parent, id));
    await syncFolder(parent);
    return { id, folder, ...manifest, copied, copiedBytes, mended };
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true }).catch(() => {});
    await sweepBackupBlobs(folder).catch(() => {});
    throw error;
  }
}

/** @throws AppError insufficient_storage when the database alone, of so many bytes, does not fit */
async function requireRoom(folder: string, bytes: number): Promise<void> {
  const needed = bytes * SPARE;
  const { bavail, bsize } = await statfs(folder);
  const free = bavail * bsize;
  if (free >= needed) return;
  const mb = (bytes: number): string => `${Math.ceil(bytes / 1_000_000)} MB`;
  throw new AppError(
    "insufficient_storage",
    `the disk of ${folder} has ${mb(free)} free, and the database alone takes ${mb(needed)}; the former backups are as they were`,
  );
}

/*
 * Blobs never change, so the backup folder's are kept, unless they are damaged: their size differs from the data
 * folder's, or, with `reread`, their hash differs from their name.
 *
 * Invariant: only bytes with the hash in its name replace a blob of the backup folder.
 */

interface Content {
  /** The data folder. */
  data: string;
  source: BlobSource;
  /** The backup folder. */
  folder: string;
  /** Folder of the generation. */
  unfinished: string;
  /** Paths of other files of the data folder. */
  files: readonly string[];
  reread: boolean;
}

async function copyContent(content: Content): Promise<WrittenContent> {
  const { data, unfinished, files } = content;
  const database = join(unfinished, DATABASE);
  takeSnapshot(data, database);
  await syncFile(database);
  const { sha256, size: databaseBytes } = await hashFile(database);
  const copies = await copyBlobs(content);
  const sums = new Map([
    [DATABASE, sha256],
    [BLOB_LIST, (await hashFile(join(unfinished, BLOB_LIST))).sha256],
    ...(await copyFiles(data, files, unfinished)),
  ]);
  return { sums, databaseBytes, ...copies };
}

/** Copies the blobs that the snapshot names and the backup folder lacks, and writes the list of them all. */
async function copyBlobs({
  source,
  folder,
  unfinished,
  reread,
}: Content): Promise<Omit<WrittenContent, "sums" | "databaseBytes">> {
  const snapshot = openSnapshot(join(unfinished, DATABASE));
  try {
    const copies = { copied: 0, copiedBytes: 0, mended: 0 };
    const lacking = new Set<string>();
    const to = join(folder, BLOBS);
    await runConcurrently(snapshot.blobs(), async (name) => {
      const target = blobPath(to, name);
      const state = await checkFileState(target, { sha256: name, size: await source.size(name) }, reread);
      if (state === "whole") return;
      await makeFolder(dirname(target));
      const made = await source.copy(
        name,
        (path) => copyFile(path, target, name),
        ({ sha256 }) => sha256 === name,
      );
      // A blob that was lost must not stop the backup of the rest. The backup folder's may be the one that is whole.
      if (!made) {
        if ((await checkFileState(target, { sha256: name, size: undefined }, true)) !== "whole") lacking.add(name);
        return;
      }
      copies.copied++;
      copies.copiedBytes += made.size;
      if (state === "damaged") copies.mended++;
    });
    // All shards: an interrupted backup may have left blobs there without fsync, and this one counts them as whole.
    await syncTree(to);
    const there = snapshot.blobs().filter((name) => !lacking.has(name));
    const blobs = await writeBlobList(join(unfinished, BLOB_LIST), there);
    return { schema: snapshot.schema, blobs, lacking: [...lacking].sort(), ...copies };
  } finally {
    snapshot.close();
  }
}

/** Copies other files of the data folder. Returns hashes by path in the generation. */
async function copyFiles(data: string, files: readonly string[], unfinished: string): Promise<Map<string, string>> {
  const sums = new Map<string, string>();
  const made = new Set<string>();
  for (const path of files) {
    const target = join(unfinished, FILES, path);
    await makeFolders(unfinished, dirname(target));
    made.add(dirname(target));
    try {
      sums.set(`${FILES}/${path}`, (await copyFile(join(data, path), target)).sha256);
    } catch (error) {
      // The server has replaced or removed it meanwhile.
      if (!isMissing(error)) throw error;
    }
  }
  for (const folder of made) await syncFolder(folder);
  return sums;
}

/*
 * Pruning, with the folder claimed: generations beyond those to keep, leftovers of interrupted backups, and blobs that
 * no finished generation names.
 *
 * Invariant: blobs are removed only while every generation's list of blobs is readable and has its hash.
 */

/**
 * Removes the oldest generations beyond the newest `keep`. Returns their ids. A generation from the future (`now`:
 * epoch ms) was made while the clock was ahead; it counts as the oldest, so that the one made just now stays.
 */
export async function keepNewestGenerations(
  folder: string,
  keep: number | undefined,
  now: number,
  kind = BACKUP,
): Promise<string[]> {
  if (keep === undefined) return [];
  const parent = join(folder, GENERATIONS);
  const generations = await listGenerations(folder, kind);
  const isOfFuture = ({ id }: Generation): boolean => (generationTime(id) ?? 0) > now;
  const oldestFirst = [...generations.filter(isOfFuture), ...generations.filter((one) => !isOfFuture(one))];
  const leaving = oldestFirst.slice(0, -keep);
  for (const { id, path } of leaving) {
    // The dot marks it as unfinished before its files go.
    const aside = join(parent, `.${id}`);
    await rename(path, aside);
    await syncFolder(parent);
    await rm(aside, { recursive: true });
  }
  return leaving.map(({ id }) => id);
}

/** Removes unfinished generations, which an interrupted backup was making or removing. */
export async function sweepUnfinishedGenerations(folder: string): Promise<void> {
  const parent = join(folder, GENERATIONS);
  for (const name of await listDirectoryNames(parent)) {
    if (name.startsWith(".")) await rm(join(parent, name), { recursive: true });
  }
}

/** Removes blobs that no finished generation names. Returns their number; 0 while some list cannot be trusted. */
export async function sweepBackupBlobs(folder: string, kind = BACKUP): Promise<number> {
  const generations = await listGenerations(folder, kind);
  if (!(await Promise.all(generations.map(hasItsList))).every(Boolean)) return 0;
  const named = mergeSortedNames(generations.map(({ path }) => readBlobList(join(path, BLOB_LIST))));
  try {
    let next = named.next();
    let removed = 0;
    const pool = join(folder, BLOBS);
    for (const shard of await listDirectoryNames(pool)) {
      const wanted = new Set<string>();
      for (; !next.done && next.value.name.slice(0, 2) <= shard; next = named.next()) wanted.add(next.value.name);
      for (const entry of await listDirectoryNames(join(pool, shard))) {
        if (wanted.has(shard + entry)) continue;
        await unlink(join(pool, shard, entry));
        removed++;
      }
    }
    return removed;
  } finally {
    named.return(undefined);
  }
}

async function hasItsList({ path }: Generation): Promise<boolean> {
  try {
    const sums = parseChecksums(await readSmallFile(join(path, SUMS)));
    return (await hashFile(join(path, BLOB_LIST))).sha256 === sums.get(BLOB_LIST);
  } catch {
    return false;
  }
}
