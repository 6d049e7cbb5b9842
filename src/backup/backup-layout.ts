/**
 * The files of a backup folder, and the record of backups in the data folder. `sha256sum -c` can check all of the backup
 * folder, and people can restore it by hand.
 *
 *   mailroom-backup.json              marks the folder as a backup folder
 *   blobs/ab/cdef…                    as in the data folder, shared by all generations
 *   generations/<time>/               one backup, whole or absent: it is made under a name that begins with a dot
 *     SHA256SUMS                      hashes of the other files here
 *     manifest.json
 *     mailroom.db                     the database at one moment
 *     blobs.sha256                    the blobs that it names, in order, as lines for `sha256sum -c` in the backup folder
 *     files/…                         the data folder's other files, such as certificates and their keys; but not the key
 *                                     of sealed secrets, so that a stolen backup reveals none of them, unless it is encrypted
 *
 * An encrypted generation has files in the format of age, which its own program opens, too (encrypted.ts):
 *
 *     SHA256SUMS, manifest.json       as above; the manifest says for which public keys
 *     mailroom.db.age
 *     blobs.sha256                    the encrypted blobs, which are named by their own hashes, too
 *     names.db                        which blob each of them holds, by keyed hashes
 *     contents.json.age               the key of these hashes, and the paths of `files`
 *     files/0.age …
 */
import { closeSync, openSync, readSync } from "node:fs";
import { open, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { AppError } from "../base/errors.ts";
import { isMissing } from "../base/files.ts";
import { parseTime, toIsoTime } from "../base/time.ts";
import { BLOB_CACHE } from "../store/blob-cache.ts";
import { BLOB_MARK } from "../store/blob-mark.ts";
import { giveFileToFolderOwner, requireUnlinked } from "../store/ownership.ts";
import { listDirectoryNames, readSmallFile, writeText } from "./durable-files.ts";

/** A kind of folder with generations: the file that marks it, and its name for people. */
export interface FolderKind {
  marker: string;
  name: string;
}

export const MARKER = "mailroom-backup.json";
export const BACKUP: FolderKind = { marker: MARKER, name: "Mailroom backup" };
export const LOCK = "backup.lock";
export const BLOBS = "blobs";
export const GENERATIONS = "generations";
export const SUMS = "SHA256SUMS";
export const MANIFEST = "manifest.json";
export const DATABASE = "mailroom.db";
export const BLOB_LIST = "blobs.sha256";
export const FILES = "files";

/** File of the data folder that notes the last good backup and the failure since. */
const STATE_FILE = "backup.json";

/** Suffix of encrypted files. */
export const AGE = ".age";
export const NAMES = "names.db";
export const CONTENTS = `contents.json${AGE}`;

/** Version of the layout. A program reads its own and older ones. */
export const FORMAT = 2;
/** Version of the layout of unencrypted backups. It stays lower so that older programs read them. */
export const PLAIN_FORMAT = 1;

export interface Manifest {
  format: number;
  /** The public keys for which it is encrypted, ordered; absent if it is not. */
  recipients?: string[];
  /** Version of the program that made it. */
  version: string;
  /** Number of migrations applied to its database. */
  schema: number;
  /** ISO 8601. */
  createdAt: string;
  /** The server's host name, for people. */
  hostname: string;
  databaseBytes: number;
  blobs: number;
  /** Blobs that the data folder lacked or had damaged; they are not in the backup. Keyed hashes if it is encrypted. */
  lacking: string[];
}

/** Reads a manifest, whoever wrote it. @throws Error for what is none; AppError as requireBackupFormat */
export async function readManifest(path: string, what: string): Promise<Manifest> {
  const manifest = JSON.parse(await readSmallFile(join(path, MANIFEST))) as Manifest;
  const { format, version, schema, createdAt, databaseBytes, blobs, lacking, recipients = [] } = manifest ?? {};
  if (!Number.isSafeInteger(format)) throw new Error(`${MANIFEST} is none`);
  requireBackupFormat(what, format);
  const isOne =
    [schema, databaseBytes, blobs].every((count) => Number.isSafeInteger(count) && count >= 0) &&
    [version, createdAt].every((text) => typeof text === "string") &&
    [lacking, recipients].every((list) => Array.isArray(list) && list.every((text) => typeof text === "string"));
  if (!isOne) throw new Error(`${MANIFEST} is none`);
  return manifest;
}

/**
 * Entries of the data folder that are not copied as files: those with a place of their own in a backup; where blobs are
 * in S3, because the backup has them, and copies of those; locks; keys; Meilisearch's data (`search`), which is
 * made from the mail again; executables (`bin`), which belong to the machine; what this folder is to a replica (`replica`,
 * `standby`, and files beside them): a restored folder is another one; sockets; the database of a server that was taken over from.
 */
const NOT_A_FILE = new RegExp(
  `^(mailroom\\.db.*|blobs|${BLOB_CACHE}|${BLOB_MARK}(\\.new)?|spool|keys|search|standby(\\.json.*)?|.*\\.sock|before-standby-.*|replica|replica\\.json.*|bin|restoring|reserve(\\.new)?|lost\\+found|.*\\.lock(-journal)?|${STATE_FILE})$`,
);

/**
 * The key of sealed secrets (access/seal.ts). Unencrypted backups leave it out, so that their thief can open none of the
 * secrets.
 */
const SEAL_KEY = /^keys(\/second-factor\.key)?$/;

/** True for a file of the data folder that a backup has among its `files`: no other one is taken from a backup, either. */
export const isBackedUp = (path: string, { encrypted }: { encrypted: boolean }): boolean =>
  (encrypted && SEAL_KEY.test(path)) ||
  path.split("/").every((_, i, names) => !NOT_A_FILE.test(names.slice(0, i + 1).join("/")));

/** A finished backup. */
export interface Generation {
  /** Sorts by time. */
  readonly id: string;
  /** Its folder. */
  readonly path: string;
}

/** A name for a generation made at `now` (epoch ms): `20261121T190512123Z`. */
export const generationId = (now: number): string => toIsoTime(now).replaceAll(/[-:.]/g, "");

/** When the generation of that id was made, epoch ms; undefined for any other text. */
export function generationTime(id: string): number | undefined {
  const iso = id.replace(/^(\d{4})(\d\d)(\d\dT\d\d)(\d\d)(\d\d)(\d{3}Z)$/, "$1-$2-$3:$4:$5.$6");
  return iso === id ? undefined : parseTime(iso);
}

/** True for a folder of that kind and of a known format. @throws AppError for a damaged marker or a later format */
export async function isFolderMarkedAs({ marker }: FolderKind, folder: string): Promise<boolean> {
  let text: string;
  try {
    text = await readSmallFile(join(folder, marker));
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
  const [, format] = MARK.exec(text) ?? [];
  if (format === undefined) throw new AppError("conflict", `${join(folder, marker)} is damaged`);
  requireBackupFormat(folder, Number(format));
  return true;
}

/** The marker's text. */
export const markerText = (format: number): string => `{"format":${format}}\n`;
const MARK = /^\{"format":([1-9]\d*)\}\n$/;

export function requireBackupFormat(what: string, format: number): void {
  if (format <= FORMAT) return;
  throw new AppError("conflict", `${what} was written by a newer Mailroom: use that version`);
}

/** Finished generations, the oldest first. @throws AppError not_found when the folder is of another kind */
export async function listGenerations(folder: string, kind = BACKUP): Promise<Generation[]> {
  if (!(await isFolderMarkedAs(kind, folder))) throw new AppError("not_found", `${folder} is no ${kind.name}`);
  const parent = join(folder, GENERATIONS);
  const ids = (await listDirectoryNames(parent)).filter((name) => !name.startsWith("."));
  return ids.map((id) => ({ id, path: join(parent, id) }));
}

/** The generation of that id, or the newest. @throws AppError not_found */
export async function findGeneration(folder: string, id?: string): Promise<Generation> {
  const generations = await listGenerations(folder);
  const found = id === undefined ? generations.at(-1) : generations.find((known) => known.id === id);
  if (found) return found;
  const known = generations.map((generation) => generation.id).join(", ") || "none";
  throw new AppError("not_found", `there is no finished backup${id ? ` ${id}` : ""} in ${folder}; there is: ${known}`);
}

/** The refusal to restore from a file or a generation. */
export const damagedBackupError = (what: string, cause?: unknown): AppError =>
  new AppError(
    "conflict",
    `${what} is damaged: look at it with mailroom backup verify, and restore another generation (--generation ID)`,
    { cause },
  );

/** False once `--keep` has removed it, perhaps while it was read. */
export const isGenerationPresent = ({ path }: Generation): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

const SUM_LINE = /^([0-9a-f]{64}) {2}([^\0\n\r]+)$/;

/** The text of SHA256SUMS for files and their hashes. */
export const formatChecksums = (sums: ReadonlyMap<string, string>): string =>
  [...sums].map(([path, sha256]) => `${sha256}  ${path}\n`).join("");

/** Hashes by path. @throws Error for a text that is not such a list */
export function parseChecksums(text: string): Map<string, string> {
  const lines = text.split("\n");
  if (lines.pop() !== "") throw new Error("its last line is cut off");
  const sums = new Map<string, string>();
  for (const line of lines) {
    const [, sha256, path] = SUM_LINE.exec(line) ?? [];
    if (sha256 === undefined || path === undefined || !isPathBelow(path)) {
      throw new Error(`"${line}" is no checksum of a file`);
    }
    sums.set(path, sha256);
  }
  for (const path of [sums.has(CONTENTS) ? `${DATABASE}${AGE}` : DATABASE, MANIFEST, BLOB_LIST]) {
    if (!sums.has(path)) throw new Error(`it does not list ${path}`);
  }
  return sums;
}

/** True for a relative path that leads to something below. */
export const isPathBelow = (path: string): boolean =>
  path.split("/").every((name) => name !== "" && name !== "." && name !== "..");

/* Files that list blobs, ordered by name. They are read line by line and merged, so their size does not matter. */

const BUFFER_BYTES = 64 * 1024;
const BLOB_LINE = /^([0-9a-f]{64}) {2}/;

/** A line for `sha256sum -c`: the name of a blob is its hash. */
const formatChecksumLine = (name: string): string => `${name}  ${BLOBS}/${name.slice(0, 2)}/${name.slice(2)}\n`;

/** Writes names, given in order, to a new file, durably. Returns their number. */
export async function writeBlobList(path: string, names: Iterable<string>): Promise<number> {
  const handle = await open(path, "wx", 0o600);
  try {
    requireUnlinked(handle.fd, path);
    let count = 0;
    let text = "";
    for (const name of names) {
      count++;
      text += formatChecksumLine(name);
      if (text.length < BUFFER_BYTES) continue;
      await handle.writeFile(text);
      text = "";
    }
    await handle.writeFile(text);
    await handle.sync();
    giveFileToFolderOwner(handle.fd, path);
    return count;
  } finally {
    await handle.close();
  }
}

/** Names in order. @throws Error for an invalid line or one out of order; errors of the file system */
export function* readBlobList(path: string): Generator<string> {
  const fd = openSync(path, "r");
  try {
    const buffer = Buffer.alloc(BUFFER_BYTES);
    let rest = "";
    let last = "";
    for (let read = readSync(fd, buffer); read > 0; read = readSync(fd, buffer)) {
      const lines = (rest + buffer.toString("latin1", 0, read)).split("\n");
      rest = lines.pop() as string;
      if (rest.length > BUFFER_BYTES) throw new Error("it has a line without end");
      for (const line of lines) {
        const [, name] = BLOB_LINE.exec(line) ?? [];
        if (name === undefined || formatChecksumLine(name) !== `${line}\n` || name <= last) {
          throw new Error(`"${line}" does not belong there`);
        }
        last = name;
        yield name;
      }
    }
    if (rest !== "") throw new Error("its last line is cut off");
  } finally {
    closeSync(fd);
  }
}

export interface Named {
  name: string;
  /** Indexes of the lists that have it. */
  of: number[];
}

/** Merges ordered lists into one, each name once. */
export function* mergeSortedNames(lists: readonly Iterable<string>[]): Generator<Named> {
  const readers = lists.map((list) => list[Symbol.iterator]());
  try {
    const heads = readers.map((reader) => reader.next());
    for (;;) {
      const names = heads.flatMap(({ done, value }) => (done ? [] : [value as string]));
      if (names.length === 0) return;
      const name = names.sort()[0] as string;
      const of = heads.flatMap(({ done, value }, i) => (!done && value === name ? [i] : []));
      yield { name, of };
      for (const i of of) heads[i] = (readers[i] as Iterator<string>).next();
    }
  } finally {
    for (const reader of readers) reader.return?.();
  }
}

/*
 * The last good backup of a data folder, and the failure since, in a small file beside the database: a file of its own
 * can be written while the database cannot. It is not part of a backup.
 */

/** Times are epoch ms. */
export interface BackupState {
  lastGood?: { at: number; folder: string; generation: string };
  /** The last failure since the last good backup. `told`: the admins got a mail. */
  lastFailure?: { at: number; folder: string; error: string; told: boolean };
}

/** The state of the data folder's backups; empty when none was made. */
export async function readBackupState(data: string): Promise<BackupState> {
  try {
    return JSON.parse(await readFile(join(data, STATE_FILE), "utf8")) as BackupState;
  } catch (error) {
    if (isMissing(error) || error instanceof SyntaxError) return {};
    throw error;
  }
}

export const writeBackupState = (data: string, state: BackupState): Promise<void> =>
  writeText(join(data, STATE_FILE), `${JSON.stringify(state)}\n`);

/** Records that a backup failed at `now` (epoch ms). Returns the new state. */
export async function recordBackupFailure(
  data: string,
  folder: string,
  error: unknown,
  now: number,
): Promise<BackupState> {
  const state = await readBackupState(data);
  const reason = error instanceof Error ? error.message : String(error);
  const lastFailure = { at: now, folder, error: reason, told: state.lastFailure?.told ?? false };
  const failed = { ...state, lastFailure };
  await writeBackupState(data, failed);
  return failed;
}
