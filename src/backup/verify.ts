/**
 * Verifies a backup folder: every file of every generation against its hash, each database with SQLite's own check and
 * against its list of blobs, every blob against its name. It only reads and takes no lock, so it works on read-only
 * media.
 */
import { join } from "node:path";
import { AppError } from "../base/errors.ts";
import { isMissing } from "../base/files.ts";
import { blobPath } from "../store/blobs.ts";
import { openSnapshot } from "../store/snapshot.ts";
import type { Identities } from "./age.ts";
import {
  BLOB_LIST,
  BLOBS,
  CONTENTS,
  DATABASE,
  GENERATIONS,
  type Generation,
  isGenerationPresent,
  listGenerations,
  MANIFEST,
  type Manifest,
  mergeSortedNames,
  type Named,
  parseChecksums,
  readBlobList,
  readManifest,
  SUMS,
} from "./backup-layout.ts";
import { filesBelow, hashFile, readSmallFile, runConcurrently } from "./durable-files.ts";
import { checkEncryptedBackup } from "./encrypted.ts";

/** A problem with a file, whose path is relative to the backup folder. */
export interface Problem {
  file: string;
  problem: string;
}

export interface VerifiedGeneration {
  id: string;
  /** Undefined when its manifest cannot be read. */
  createdAt?: string;
  version?: string;
  schema?: number;
  databaseBytes?: number;
  blobs?: number;
  /** The public keys for which it is encrypted. */
  recipients?: string[];
  ok: boolean;
}

export interface Verified {
  folder: string;
  ok: boolean;
  /** The oldest first. */
  generations: VerifiedGeneration[];
  /** Blobs read. */
  blobs: number;
  bytes: number;
  problems: Problem[];
  /** Problems beyond those listed. */
  more: number;
}

const MOST_PROBLEMS = 1_000;
const DIFFERS = "is not what was written: its checksum differs";

const describeFileError = (error: unknown): string =>
  isMissing(error) ? "is missing" : error instanceof Error ? error.message : String(error);

/** @throws AppError not_found without a backup or such a generation; conflict for a later format */
export async function verifyBackup(
  folder: string,
  { generation: only, identities }: { generation?: string | undefined; identities?: Identities | undefined } = {},
): Promise<Verified> {
  const generations = (await listGenerations(folder)).filter(({ id }) => only === undefined || id === only);
  if (generations.length === 0) {
    throw new AppError("not_found", `there is no finished backup${only ? ` ${only}` : ""} in ${folder}`);
  }
  const result: Verified = { folder, ok: true, generations: [], blobs: 0, bytes: 0, problems: [], more: 0 };
  const report = (problem: Problem): void => {
    result.ok = false;
    if (result.problems.length < MOST_PROBLEMS) result.problems.push(problem);
    else result.more++;
  };
  for (const generation of generations) {
    const found: Problem[] = [];
    const manifest = await checkGeneration(generation, identities, (file, problem) => {
      found.push({ file: `${GENERATIONS}/${generation.id}/${file}`, problem });
    });
    // A newer backup removed it meanwhile.
    if (found.length > 0 && !(await isGenerationPresent(generation))) continue;
    for (const problem of found) report(problem);
    const { format: _, lacking: __, hostname: ___, ...described } = manifest ?? {};
    result.generations.push({ id: generation.id, ...described, ok: found.length === 0 });
  }
  await checkBlobs(folder, generations, result, (problem, naming) => {
    report(problem);
    for (const described of result.generations) if (naming.has(described.id)) described.ok = false;
  });
  return result;
}

type Tell = (file: string, problem: string) => void;

/** Checks a generation except the bytes of its blobs. Returns its manifest when that can be read. */
async function checkGeneration(
  generation: Generation,
  identities: Identities | undefined,
  tell: Tell,
): Promise<Manifest | undefined> {
  const { path } = generation;
  let sums: Map<string, string>;
  try {
    sums = parseChecksums(await readSmallFile(join(path, SUMS)));
  } catch (error) {
    tell(SUMS, describeFileError(error));
    return undefined;
  }
  const sound = new Set<string>();
  for (const [file, expected] of sums) {
    try {
      if ((await hashFile(join(path, file))).sha256 === expected) sound.add(file);
      else tell(file, DIFFERS);
    } catch (error) {
      tell(file, describeFileError(error));
    }
  }
  for (const file of await filesBelow(path)) {
    if (file !== SUMS && !sums.has(file)) tell(file, `is not listed in ${SUMS}`);
  }
  if (!sound.has(MANIFEST)) return undefined;
  const manifest = await readManifest(path, "it").catch((error) => tell(MANIFEST, describeFileError(error)));
  if (!manifest) return undefined;
  for (const name of manifest.lacking) {
    tell(DATABASE, `names ${name}, which was missing or damaged in the data folder already`);
  }
  const lacking = new Set(manifest.lacking);
  if (sound.has(DATABASE)) checkDatabase(path, lacking, sound.has(BLOB_LIST), tell);
  if (manifest.recipients && [...sums.keys()].every((file) => sound.has(file))) {
    const opening = identities?.opens(manifest.recipients) ? identities : undefined;
    if (identities && !opening) tell(MANIFEST, "is encrypted for others than the identity given");
    await checkEncryptedBackup(generation, lacking, opening, tell).catch((error) =>
      tell(CONTENTS, describeFileError(error)),
    );
  }
  return manifest;
}

function checkDatabase(path: string, lacking: ReadonlySet<string>, hasList: boolean, tell: Tell): void {
  let snapshot: ReturnType<typeof openSnapshot>;
  try {
    snapshot = openSnapshot(join(path, DATABASE));
  } catch (error) {
    tell(DATABASE, describeFileError(error));
    return;
  }
  try {
    for (const finding of snapshot.check()) tell(DATABASE, finding);
    if (!hasList) return;
    for (const { name, of } of mergeSortedNames([snapshot.blobs(), readBlobList(join(path, BLOB_LIST))])) {
      if (of.length === 2 || lacking.has(name)) continue;
      tell(
        BLOB_LIST,
        of[0] === 0 ? `lacks ${name}, which the database names` : `names ${name}, which the database does not name`,
      );
    }
  } finally {
    snapshot.close();
  }
}

/** Reads each blob that a generation names, once. `tell` gets the ids of the generations that name a bad one. */
async function checkBlobs(
  folder: string,
  generations: readonly Generation[],
  result: Verified,
  tell: (problem: Problem, naming: ReadonlySet<string>) => void,
): Promise<void> {
  // Lists that cannot be read to the end are among the problems already.
  const listed = generations.filter(({ path }) => canRead(join(path, BLOB_LIST)));

  async function check({ name, of }: Named): Promise<void> {
    let problem: string;
    try {
      const { sha256, size } = await hashFile(blobPath(join(folder, BLOBS), name));
      result.blobs++;
      result.bytes += size;
      if (sha256 === name) return;
      problem = DIFFERS;
    } catch (error) {
      problem = describeFileError(error);
    }
    const naming = new Set<string>();
    for (const i of of) {
      const generation = listed[i] as Generation;
      if (await isGenerationPresent(generation)) naming.add(generation.id);
    }
    if (naming.size > 0) tell({ file: `${BLOBS}/${name.slice(0, 2)}/${name.slice(2)}`, problem }, naming);
  }

  await runConcurrently(mergeSortedNames(listed.map(({ path }) => readBlobList(join(path, BLOB_LIST)))), check);
}

function canRead(path: string): boolean {
  try {
    for (const _ of readBlobList(path));
    return true;
  } catch {
    return false;
  }
}
