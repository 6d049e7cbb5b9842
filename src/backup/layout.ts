/**
 * What a backup folder looks like. All of it can be checked with `sha256sum -c`, and put back by hand.
 *
 *   mailroom-backup.json              says that the folder is one
 *   blobs/ab/cdef…                    as in the data folder, shared by all generations
 *   generations/<time>/               one backup, there whole or not at all: it is made under a name with a dot
 *     SHA256SUMS                      of the other files here
 *     manifest.json
 *     mailroom.db                     the database at one moment
 *     blobs.sha256                    the blobs that it names, in order, as lines for `sha256sum -c` in the backup folder
 *     files/…                         whatever else the data folder has, certificates and their keys; but not the key of
 *                                     sealed secrets, which would open them to who steals the backup
 */
import { readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { AppError } from "../base/errors.ts";
import { isMissing, namesIn } from "./files.ts";

export const MARKER = "mailroom-backup.json";
export const LOCK = "backup.lock";
export const BLOBS = "blobs";
export const GENERATIONS = "generations";
export const SUMS = "SHA256SUMS";
export const MANIFEST = "manifest.json";
export const DATABASE = "mailroom.db";
export const BLOB_LIST = "blobs.sha256";
export const FILES = "files";

/** Of the layout. A program reads its own and those before. */
export const FORMAT = 1;

export interface Manifest {
  format: number;
  /** Of the program that made it. */
  version: string;
  /** How many migrations its database has seen. */
  schema: number;
  /** ISO 8601. */
  createdAt: string;
  /** Of the server, for people. */
  hostname: string;
  databaseBytes: number;
  blobs: number;
  /** Blobs that were missing or damaged in the data folder already, and so are not here. */
  lacking: string[];
}

/** A finished backup. */
export interface Generation {
  /** Sorts by time. */
  readonly id: string;
  /** Its folder. */
  readonly path: string;
}

/** A name for a generation made at `now` (epoch ms): `20261121T190512123Z`. */
export const generationId = (now: number): string => new Date(now).toISOString().replaceAll(/[-:.]/g, "");

/** When the generation of that id was made, epoch ms; undefined for what is no id. */
export function generationTime(id: string): number | undefined {
  const iso = id.replace(/^(\d{4})(\d\d)(\d\dT\d\d)(\d\d)(\d\d)(\d{3}Z)$/, "$1-$2-$3:$4:$5.$6");
  const time = iso === id ? Number.NaN : Date.parse(iso);
  return Number.isNaN(time) ? undefined : time;
}

/** Whether the folder is a backup folder of a format known here. @throws AppError when it cannot be told, or is a later one */
export async function isBackupFolder(folder: string): Promise<boolean> {
  let text: string;
  try {
    text = await readFile(join(folder, MARKER), "utf8");
  } catch (error) {
    if (isMissing(error)) return false;
    throw error;
  }
  const [, format] = MARK.exec(text) ?? [];
  if (format === undefined) throw new AppError("conflict", `${join(folder, MARKER)} is damaged`);
  requireFormat(folder, Number(format));
  return true;
}

/** What the marker says. */
export const markOf = (format: number): string => `{"format":${format}}\n`;
const MARK = /^\{"format":([1-9]\d*)\}\n$/;

export function requireFormat(what: string, format: number): void {
  if (format <= FORMAT) return;
  throw new AppError("conflict", `${what} was written by a newer Mailroom: use that version`);
}

/** Finished ones, the oldest first. @throws AppError not_found when the folder is no backup folder */
export async function listGenerations(folder: string): Promise<Generation[]> {
  if (!(await isBackupFolder(folder))) throw new AppError("not_found", `${folder} is no Mailroom backup`);
  const place = join(folder, GENERATIONS);
  const ids = (await namesIn(place)).filter((name) => !name.startsWith("."));
  return ids.map((id) => ({ id, path: join(place, id) }));
}

/** The generation of that id, or the newest. @throws AppError not_found */
export async function findGeneration(folder: string, id?: string): Promise<Generation> {
  const generations = await listGenerations(folder);
  const found = id === undefined ? generations.at(-1) : generations.find((known) => known.id === id);
  if (found) return found;
  const known = generations.map((generation) => generation.id).join(", ") || "none";
  throw new AppError("not_found", `there is no finished backup${id ? ` ${id}` : ""} in ${folder}; there is: ${known}`);
}

/** Whether it is still there: `--keep` may remove it while it is read. */
export const stillThere = ({ path }: Generation): Promise<boolean> =>
  stat(path).then(
    () => true,
    () => false,
  );

const SUM_LINE = /^([0-9a-f]{64}) {2}([^\0\n\r]+)$/;

/** The text of SHA256SUMS for files and their hashes. */
export const writeSums = (sums: ReadonlyMap<string, string>): string =>
  [...sums].map(([path, sha256]) => `${sha256}  ${path}\n`).join("");

/** Hashes by path. @throws Error for a text that is no such list */
export function readSums(text: string): Map<string, string> {
  const lines = text.split("\n");
  if (lines.pop() !== "") throw new Error("its last line is cut off");
  const sums = new Map<string, string>();
  for (const line of lines) {
    const [, sha256, path] = SUM_LINE.exec(line) ?? [];
    if (sha256 === undefined || path === undefined || path.split("/").includes("..") || path.startsWith("/")) {
      throw new Error(`"${line}" is no checksum of a file`);
    }
    sums.set(path, sha256);
  }
  for (const path of [DATABASE, MANIFEST, BLOB_LIST]) if (!sums.has(path)) throw new Error(`it does not list ${path}`);
  return sums;
}
