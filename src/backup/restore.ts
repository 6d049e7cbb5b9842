/**
 * Restores a backup into an empty data folder. Every byte is checked as it is copied.
 *
 * Invariant: from before the first file until after the last, a marker in the folder keeps every Mailroom from opening
 * it. An interrupted restore begins anew; one that fails leaves the folder as empty as it was.
 *
 * Queued mail and scheduled drafts of a backup may have been sent since; the server cannot know. So the queue is held
 * and the drafts lose their time, unless `sendQueue` is set. Webhooks are posted again: receivers know an event by its
 * id (rules: Webhook attempts).
 */
import { realpathSync } from "node:fs";
import { mkdir, mkdtemp, open, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { AppError } from "../base/errors.ts";
import { isMissing, syncFolder } from "../base/files.ts";
import type { Runtime } from "../base/runtime.ts";
import { unscheduleAllDrafts } from "../mailbox/changing/drafts.ts";
import { unapproveAllHolds } from "../mailbox/changing/holds.ts";
import { renewUidValidity } from "../mailbox/imap/uids.ts";
import { holdWaitingEntries } from "../outbound/queue.ts";
import { blobPath } from "../store/blobs.ts";
import { claimFolder } from "../store/claim.ts";
import { MIGRATIONS } from "../store/migrate.ts";
import { openOptions } from "../store/settings.ts";
import { measureDatabase, openSnapshot } from "../store/snapshot.ts";
import { openStore, RESTORING, type Store } from "../store/store.ts";
import type { Identities } from "./age.ts";
import {
  BLOB_LIST,
  BLOBS,
  DATABASE,
  damagedBackupError,
  FILES,
  findGeneration,
  type Generation,
  isBackedUp,
  MANIFEST,
  type Manifest,
  mergeSortedNames,
  parseChecksums,
  readBlobList,
  readManifest,
  SUMS,
} from "./backup-layout.ts";
import {
  copyFile,
  hashFile,
  isDiskFullError,
  listDirectoryNames,
  makeFolder,
  makeFolders,
  readSmallFile,
  runConcurrently,
  syncTree,
} from "./durable-files.ts";
import { decryptBackupContent, decryptBackupFile } from "./encrypted.ts";

export interface RestoreRequest {
  /** The backup folder. */
  folder: string;
  /** Id of the generation; the newest unless given. */
  generation?: string | undefined;
  /** The data folder; made when missing. */
  data: string;
  /** Opens an encrypted generation. */
  identities?: Identities | undefined;
  /** Sends queued mail and scheduled drafts as if nothing had happened. */
  sendQueue: boolean;
  /** Called when all of the backup is read, and before anything of it is opened to be changed. */
  becomeOwner(): void;
  /**
   * Checks the rows of the database, which has this program's schema; undefined for a backup that is trusted, whose programs
   * are kept, too. @throws AppError for what no server writes
   */
  check: ((database: string) => void) | undefined;
  runtime: Pick<Runtime, "now" | "randomBytes" | "setTimer">;
}

export interface Restored extends Pick<Manifest, "version" | "schema" | "createdAt" | "databaseBytes" | "lacking"> {
  id: string;
  folder: string;
  data: string;
  blobs: number;
  /** Recipients whose mail is held until somebody releases it. */
  held: number;
  /** Drafts that lost the time at which they were to be sent. */
  unscheduled: number;
  /** Settings that have their default again, since they named a program that is none of this system. */
  reset: string[];
}

/** Lock files, which even a check for a running server makes. */
const LOCKS = /^(serving|backup)\.lock(-journal)?$/;
const UNSCHEDULED = "A backup was restored: it may have been sent before";
/** Reply of the mail that is held. */
export const HELD = "held when a backup was restored: it may have been sent before";

/** @throws AppError, errors of the file system; the data folder is then as empty as it was */
export async function restoreBackup(request: RestoreRequest): Promise<Restored> {
  const { folder, data } = request;
  const generation = await findGeneration(folder, request.generation);
  const { manifest, sums } = await readGeneration(generation);
  const identities = requireIdentities(generation, manifest, request.identities);
  await mkdir(data, { recursive: true, mode: 0o700 });
  const release = claimFolder(data);
  try {
    await claimEmpty(data);
    try {
      const missing = new Set(manifest.lacking);
      const lacking = identities
        ? await decryptBackupContent({ folder, data, generation, sums, lacking: missing, identities })
        : await copyContent(request, generation, sums, missing);
      requireSchema(generation, manifest, data);
      request.becomeOwner();
      const restored = openRestored(request);
      await rm(join(data, RESTORING));
      await syncFolder(data);
      const { version, schema, createdAt, databaseBytes, blobs } = manifest;
      return {
        id: generation.id,
        folder,
        data,
        version,
        schema,
        createdAt,
        databaseBytes,
        blobs,
        lacking,
        ...restored,
      };
    } catch (error) {
      await clear(data);
      throw isDiskFullError(error)
        ? new AppError("insufficient_storage", `the disk of ${data} is full: nothing was restored`, { cause: error })
        : error;
    }
  } finally {
    release();
  }
}

/** @throws AppError conflict for a generation that is newer than this program, or damaged */
async function readGeneration({ path, id }: Generation): Promise<{ manifest: Manifest; sums: Map<string, string> }> {
  try {
    const sums = parseChecksums(await readSmallFile(join(path, SUMS)));
    for (const file of [MANIFEST, BLOB_LIST]) {
      if ((await hashFile(join(path, file))).sha256 !== sums.get(file)) throw new Error(`${file} has another checksum`);
    }
    const manifest = await readManifest(path, `backup ${id}`);
    if (manifest.schema > MIGRATIONS.length) {
      throw new AppError(
        "conflict",
        `backup ${id} was made by a newer Mailroom (${manifest.version}, schema ${manifest.schema}; this one knows ${MIGRATIONS.length}): restore it with that version`,
      );
    }
    return { manifest, sums };
  } catch (error) {
    if (error instanceof AppError) throw error;
    throw damagedBackupError(`generation ${id}`, error);
  }
}

/**
 * Text of a small file of the data folder that is backed up; undefined if the generation has none of that path.
 * @throws AppError as restoreBackup
 */
export async function readBackedUpFile(
  { folder, generation: id, identities: given }: Pick<RestoreRequest, "folder" | "generation" | "identities">,
  path: string,
): Promise<{ text: string | undefined; manifest: Manifest }> {
  const generation = await findGeneration(folder, id);
  const { manifest, sums } = await readGeneration(generation);
  const identities = requireIdentities(generation, manifest, given);
  if (!identities) {
    const [file, sha256] = [join(generation.path, FILES, path), sums.get(`${FILES}/${path}`)];
    if (sha256 === undefined) return { text: undefined, manifest };
    const text = await readSmallFile(file).catch((error) => {
      throw damagedBackupError(file, error);
    });
    if (new Bun.CryptoHasher("sha256").update(text).digest("hex") !== sha256) throw damagedBackupError(file);
    return { text, manifest };
  }
  const place = await mkdtemp(join(tmpdir(), "mailroom-restore-"));
  try {
    const to = join(place, basename(path));
    const found = await decryptBackupFile(generation, sums, identities, { path, to });
    return { text: found ? await readSmallFile(to) : undefined, manifest };
  } finally {
    await rm(place, { recursive: true, force: true });
  }
}

/** Returns what opens the generation; undefined if it is not encrypted. @throws AppError bad_request without a fitting one */
function requireIdentities(
  { id }: Generation,
  { recipients }: Manifest,
  identities: Identities | undefined,
): Identities | undefined {
  if (recipients === undefined) return undefined;
  if (identities?.opens(recipients)) return identities;
  throw new AppError(
    "bad_request",
    `backup ${id} is encrypted: give --identity FILE, with the private key of ${recipients.join(" or ")}`,
  );
}

/** Puts the marker into a folder that is empty or has an interrupted restore. @throws AppError conflict */
async function claimEmpty(data: string): Promise<void> {
  const others = (await listDirectoryNames(data)).filter((name) => !LOCKS.test(name) && name !== "lost+found");
  if (others.includes(RESTORING)) await clear(data);
  else if (others.length > 0) {
    throw new AppError("conflict", `the data folder ${data} is not empty (${others[0]}): restore into an empty one`);
  }
  const handle = await open(join(data, RESTORING), "wx", 0o600);
  await handle.sync();
  await handle.close();
  await syncFolder(data);
}

/** Empties the folder, the marker last. */
async function clear(data: string): Promise<void> {
  for (const name of await listDirectoryNames(data)) {
    if (LOCKS.test(name) || name === RESTORING || name === "lost+found") continue;
    // SQLite may remove its own files meanwhile.
    await rm(join(data, name), { recursive: true, force: true });
  }
  await syncFolder(data);
  await rm(join(data, RESTORING));
}

/** Returns the blobs that the generation lacks. */
async function copyContent(
  { folder, data }: RestoreRequest,
  generation: Generation,
  sums: ReadonlyMap<string, string>,
  lacking: ReadonlySet<string>,
): Promise<string[]> {
  const { path } = generation;
  /** @throws AppError for bytes that differ from the backup's checksums */
  async function copySound(from: string, to: string, expected: string): Promise<void> {
    const copied = await copyFile(from, to, expected).catch((error) => {
      throw isMissing(error) ? damagedBackupError(from, error) : error;
    });
    if (copied.sha256 !== expected) throw damagedBackupError(from);
  }

  const list = join(path, BLOB_LIST);
  for (const [file, sha256] of sums) {
    if (file === DATABASE) await copySound(join(path, file), join(data, file), sha256);
    if (!file.startsWith(`${FILES}/`)) continue;
    const name = file.slice(FILES.length + 1);
    if (!isBackedUp(name, { encrypted: false })) continue;
    const target = join(data, name);
    await makeFolders(data, dirname(target));
    await copySound(join(path, file), target, sha256);
    await syncFolder(dirname(target));
  }
  const pool = join(data, BLOBS);
  await makeFolder(pool);
  await runConcurrently(readBlobList(list), async (name) => {
    const target = blobPath(pool, name);
    await makeFolder(dirname(target));
    await copySound(blobPath(join(folder, BLOBS), name), target, name);
  }).catch((error) => {
    throw (error as NodeJS.ErrnoException).code === undefined ? damagedBackupError(list, error) : error;
  });
  await syncTree(pool);
  checkDatabase(generation, data, lacking);
  return [...lacking];
}

/** @throws AppError for a database that fails SQLite's check or names a blob that was not backed up */
function checkDatabase({ id, path }: Generation, data: string, lacking: ReadonlySet<string>): void {
  const snapshot = openSnapshot(join(data, DATABASE));
  try {
    if (snapshot.check().length > 0) throw damagedBackupError(`the database of ${id}`);
    for (const { name, of } of mergeSortedNames([snapshot.blobs(), readBlobList(join(path, BLOB_LIST))])) {
      if (of[0] === 0 && of.length === 1 && !lacking.has(name)) throw damagedBackupError(`the list of files of ${id}`);
    }
  } finally {
    snapshot.close();
  }
}

/** @throws AppError for a database of another schema than the manifest says */
function requireSchema({ id }: Generation, { schema }: Manifest, data: string): void {
  if (measureDatabase(data).schema !== schema) throw damagedBackupError(`the database of ${id}`);
}

/**
 * Migrates the database to this version, checks it, numbers mail anew for IMAP, since mail that arrived after the backup had
 * numbers, and holds the mail that would be sent. Returns how much.
 */
function openRestored(request: RestoreRequest): Pick<Restored, "held" | "unscheduled" | "reset"> {
  const { data, sendQueue, runtime } = request;
  const store = openStore({ folder: data, restoring: true, runtime });
  try {
    request.check?.(join(data, DATABASE));
    const reset = request.check ? resetPrograms(store) : [];
    store.transact((tx) => renewUidValidity(tx, runtime.now()));
    if (sendQueue) return { held: 0, unscheduled: 0, reset };
    return store.transact((tx) => ({
      reset,
      held: holdWaitingEntries(tx, HELD),
      unscheduled: unscheduleAllDrafts(tx, UNSCHEDULED) + unapproveAllHolds(tx, UNSCHEDULED, runtime.now()),
    }));
  } finally {
    store.close();
  }
}

/** Programs that the server starts: the settings that name them, and how their files are called. */
const PROGRAMS = { "search.meilisearchPath": "meilisearch", "replica.litestreamPath": "litestream" } as const;
/** Folders of the system, where no backup lies. */
const OF_SYSTEM = ["/usr/", "/opt/"];

/** A backup that somebody edited would have the server start any program. Returns the names of settings that were reset. */
function resetPrograms(store: Store): string[] {
  const options = openOptions(store);
  const strange = (Object.keys(PROGRAMS) as (keyof typeof PROGRAMS)[]).filter((name) => {
    const path = options.get(name);
    return path !== options.find(name).default && !isProgram(path, PROGRAMS[name]);
  });
  store.transact((tx) => {
    for (const name of strange) options.reset(tx, name);
  });
  return strange;
}

function isProgram(path: string, name: string): boolean {
  try {
    const real = realpathSync(path);
    return basename(real).startsWith(name) && OF_SYSTEM.some((folder) => real.startsWith(folder));
  } catch {
    return false;
  }
}
