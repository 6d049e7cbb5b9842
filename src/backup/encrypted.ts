/**
 * The content of an encrypted generation: writing, checking and reading it. Checksums, the manifest and the list of blobs are as
 * in others, so `sha256sum -c`, verification without an identity, and the removal of old backups need no key.
 *
 * Blobs are named by the hashes of their bytes, which would tell whoever has the folder whether a file that they know is in
 * it. So an encrypted blob is named by the hash of its encrypted bytes, and `names.db`, whole in each generation, says which
 * blob it holds: by hashes with a key that only the data folder and the encrypted `contents.json.age` have.
 *
 * Invariants: nothing of the data folder's content is written to the backup folder unencrypted; an encrypted blob is used
 * again only by generations for the same public keys.
 */
import { Database } from "bun:sqlite";
import { createHmac } from "node:crypto";
import { mkdtemp, readFile, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { isMissing, syncFolder } from "../base/files.ts";
import type { Runtime } from "../base/runtime.ts";
import { blobPath } from "../store/blobs.ts";
import { openSnapshot, takeSnapshot } from "../store/snapshot.ts";
import { encryptFile, encryptText, type Identities } from "./age.ts";
import {
  AGE,
  BLOB_LIST,
  BLOBS,
  CONTENTS,
  DATABASE,
  damagedBackupError,
  FILES,
  type Generation,
  isBackedUp,
  isPathBelow,
  listGenerations,
  mergeSortedNames,
  NAMES,
  parseChecksums,
  readBlobList,
  readManifest,
  SUMS,
  writeBlobList,
} from "./backup-layout.ts";
import type { BlobSource } from "./blob-source.ts";
import {
  type Changed,
  checkFileState,
  hashFile,
  isDiskFullError,
  makeFolder,
  makeFolders,
  readSmallFile,
  runConcurrently,
  syncFile,
  syncTree,
  writeText,
} from "./durable-files.ts";

/** Content of `contents.json.age`. */
interface Contents {
  /** Key of the names, hex. */
  key: string;
  /** Paths in the data folder; the n-th is `files/n.age`. */
  files: string[];
}

/** The content of a generation, as it was written. */
export interface WrittenContent {
  /** Hashes by path. */
  sums: Map<string, string>;
  /** Number of migrations applied to the database. */
  schema: number;
  databaseBytes: number;
  blobs: number;
  lacking: string[];
  copied: number;
  copiedBytes: number;
  mended: number;
}

/** The snapshot, before it is encrypted. It lies in the data folder, and stays there after a crash until the next backup. */
const SNAPSHOT = "mailroom.db.snapshot";
/** The key of the names, in the data folder. If it is lost, the next backup copies every blob. */
const NAMES_KEY = "keys/backup-names";
const HEX_64 = /^[0-9a-f]{64}$/;

/** The name of a blob for those who have no key. */
const hashBlobName = (key: string, blob: string): string =>
  createHmac("sha256", Buffer.from(key, "hex")).update(blob).digest("hex");

async function keyOfNames(data: string, runtime: Pick<Runtime, "randomBytes">): Promise<string> {
  const path = join(data, NAMES_KEY);
  const known = await readFile(path, "latin1").catch((error) => {
    if (isMissing(error)) return "";
    throw error;
  });
  if (HEX_64.test(known)) return known;
  const key = Buffer.from(runtime.randomBytes(32)).toString("hex");
  await makeFolder(dirname(path));
  await writeText(path, key);
  return key;
}

interface Stored {
  /** Name of the encrypted blob. */
  stored: string;
  /** Its size. */
  bytes: number;
}

const NAMES_TABLE =
  "CREATE TABLE names (name TEXT PRIMARY KEY, stored TEXT NOT NULL, bytes INTEGER NOT NULL) WITHOUT ROWID";

function createNames(path: string) {
  const db = new Database(path, { create: true });
  db.exec(`
    PRAGMA journal_mode = OFF;
    ${NAMES_TABLE};
    BEGIN;
  `);
  const insert = db.query("INSERT INTO names VALUES (?, ?, ?)");
  return {
    add: (name: string, { stored, bytes }: Stored): void => void insert.run(name, stored, bytes),
    stored: () => storedIn(db),
    close(): void {
      db.exec("COMMIT");
      db.close();
    },
  };
}

/** @throws Error for a file that is not such a database */
function openNames(path: string) {
  const db = new Database(path, { readonly: true });
  db.exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
  const made = db.query<{ sql: string }, []>("SELECT sql FROM sqlite_schema LIMIT 2").all();
  if (made.length !== 1 || made[0]?.sql !== NAMES_TABLE) {
    db.close();
    throw new Error(`${NAMES} is no list of names`);
  }
  const select = db.query<Stored, [string]>("SELECT stored, bytes FROM names WHERE name = ?");
  return {
    find(name: string): Stored | undefined {
      const found = select.get(name);
      return found !== null && HEX_64.test(found.stored) ? found : undefined;
    },
    stored: () => storedIn(db),
    close: (): void => db.close(),
  };
}

/** Names of the encrypted blobs, in order. */
function* storedIn(db: Database): Generator<string> {
  for (const { stored } of db.query<{ stored: string }, []>("SELECT stored FROM names ORDER BY stored").iterate()) {
    yield stored;
  }
}

interface Request {
  /** The data folder. */
  data: string;
  source: BlobSource;
  /** The backup folder. */
  folder: string;
  /** Folder of the generation. */
  unfinished: string;
  /** Public keys, ordered. */
  recipients: readonly string[];
  /** Paths of other files of the data folder. */
  files: readonly string[];
  /** Checks the hashes of encrypted blobs that are there already, not only their sizes. */
  reread: boolean;
  runtime: Pick<Runtime, "randomBytes">;
}

/** @throws errors of the file system and SQLite */
export async function encryptBackupContent(request: Request): Promise<WrittenContent> {
  const { data, unfinished, recipients, runtime } = request;
  const sums = new Map<string, string>();
  async function put(from: string, path: string): Promise<number> {
    const { read, written } = await encryptFile(from, join(unfinished, path), recipients);
    sums.set(path, written.sha256);
    return read.size;
  }
  async function recordFileSum(path: string): Promise<void> {
    sums.set(path, (await hashFile(join(unfinished, path))).sha256);
  }

  const key = await keyOfNames(data, runtime);
  const snapshot = join(data, SNAPSHOT);
  await rm(snapshot, { force: true });
  let databaseBytes: number;
  let copies: Omit<WrittenContent, "sums" | "databaseBytes">;
  try {
    takeSnapshot(data, snapshot);
    databaseBytes = await put(snapshot, `${DATABASE}${AGE}`);
    copies = await encryptBlobs(request, snapshot, key);
  } finally {
    await rm(snapshot, { force: true });
  }
  for (const path of [NAMES, BLOB_LIST]) await recordFileSum(path);

  const files: string[] = [];
  await makeFolder(join(unfinished, FILES));
  for (const path of request.files) {
    try {
      await put(join(data, path), `${FILES}/${files.length}${AGE}`);
      files.push(path);
    } catch (error) {
      // The server has replaced or removed it meanwhile.
      if (!isMissing(error)) throw error;
    }
  }
  await syncFolder(join(unfinished, FILES));
  await encryptText(JSON.stringify({ key, files } satisfies Contents), join(unfinished, CONTENTS), recipients);
  await recordFileSum(CONTENTS);
  return { sums, databaseBytes, ...copies };
}

/** Encrypts the blobs that the snapshot names and the backup folder lacks, and writes the list of them all, and their names. */
async function encryptBlobs(
  { source, folder, unfinished, recipients, reread }: Request,
  snapshotPath: string,
  key: string,
): Promise<Omit<WrittenContent, "sums" | "databaseBytes">> {
  const pool = join(folder, BLOBS);
  const copies = { copied: 0, copiedBytes: 0, mended: 0 };
  const lacking: string[] = [];
  const stateOfStored = ({ stored, bytes }: Stored) =>
    checkFileState(blobPath(pool, stored), { sha256: stored, size: bytes }, reread);

  const snapshot = openSnapshot(snapshotPath);
  const known = await lastNames(folder, recipients);
  const names = createNames(join(unfinished, NAMES));
  let blobs: number;
  try {
    await runConcurrently(snapshot.blobs(), async (blob) => {
      const name = hashBlobName(key, blob);
      const found = known?.find(name);
      const state = found === undefined ? "missing" : await stateOfStored(found);
      if (found !== undefined && state === "whole") {
        names.add(name, found);
        return;
      }
      const temporary = join(unfinished, name);
      const changed = await source.copy(
        blob,
        (path) => encryptFile(path, temporary, recipients, blob),
        ({ read }) => read.sha256 === blob,
      );
      // A blob that was lost must not stop the backup of the rest.
      if (!changed) {
        lacking.push(name);
        return;
      }
      const { sha256: stored, size: bytes } = changed.written;
      const target = blobPath(pool, stored);
      await makeFolder(dirname(target));
      await rename(temporary, target);
      names.add(name, { stored, bytes });
      copies.copied++;
      copies.copiedBytes += changed.read.size;
      if (state === "damaged") copies.mended++;
    });
    await syncTree(pool);
    blobs = await writeBlobList(join(unfinished, BLOB_LIST), names.stored());
  } finally {
    names.close();
    known?.close();
    snapshot.close();
  }
  await syncFile(join(unfinished, NAMES));
  return { schema: snapshot.schema, blobs, lacking: lacking.sort(), ...copies };
}

/** The names of the newest sound generation for the same public keys; undefined if there is none. */
async function lastNames(folder: string, recipients: readonly string[]) {
  for (const { path } of (await listGenerations(folder)).reverse()) {
    try {
      const sums = parseChecksums(await readSmallFile(join(path, SUMS)));
      const manifest = await readManifest(path, "it");
      if (manifest.recipients?.join() !== recipients.join()) continue;
      if ((await hashFile(join(path, NAMES))).sha256 === sums.get(NAMES)) return openNames(join(path, NAMES));
    } catch {
      // A damaged generation; verification tells.
    }
  }
  return undefined;
}

/** @throws Error for one that is damaged */
async function readContents({ path }: Generation, identities: Identities): Promise<Contents> {
  const { key, files } = JSON.parse(await identities.decryptText(join(path, CONTENTS))) as Partial<Contents>;
  if (!HEX_64.test(key ?? "") || !files?.every((file) => typeof file === "string" && isPathBelow(file))) {
    throw new Error(`${CONTENTS} says nothing that can be used`);
  }
  return { key: key as string, files };
}

/** @throws AppError for bytes that differ from what was backed up */
async function decryptSound(
  identities: Identities,
  from: string,
  to: string,
  isGood: (changed: Changed) => boolean,
): Promise<void> {
  const changed = await identities.decryptFile(from, to, isGood).catch((error) => {
    throw isDiskFullError(error) ? error : damagedBackupError(from, error);
  });
  if (!isGood(changed)) throw damagedBackupError(from);
}

/**
 * Restores the content into an empty data folder. Returns the blobs that the generation lacks.
 * @throws AppError conflict for a damaged one; errors of the file system
 */
export async function decryptBackupContent({
  folder,
  data,
  generation,
  sums,
  lacking,
  identities,
}: {
  folder: string;
  data: string;
  generation: Generation;
  /** Hashes by path. */
  sums: ReadonlyMap<string, string>;
  /** Names of blobs that are not in the backup. */
  lacking: ReadonlySet<string>;
  identities: Identities;
}): Promise<string[]> {
  const { path, id } = generation;
  const take = (from: string, to: string, isGood: (changed: Changed) => boolean): Promise<void> =>
    decryptSound(identities, from, to, isGood);
  const takeFile = (file: string, to: string): Promise<void> =>
    take(join(path, file), to, ({ read }) => read.sha256 === sums.get(file));

  const namesFile = join(path, NAMES);
  if ((await hashFile(namesFile)).sha256 !== sums.get(NAMES)) throw damagedBackupError(namesFile);
  const { key, files } = await readContents(generation, identities).catch((error) => {
    throw damagedBackupError(join(path, CONTENTS), error);
  });
  await takeFile(`${DATABASE}${AGE}`, join(data, DATABASE));
  for (const [n, file] of files.entries()) {
    if (!isBackedUp(file, { encrypted: true })) continue;
    const target = join(data, file);
    await makeFolders(data, dirname(target));
    await takeFile(`${FILES}/${n}${AGE}`, target);
    await syncFolder(dirname(target));
  }

  const lost: string[] = [];
  const pool = join(data, BLOBS);
  await makeFolder(pool);
  const snapshot = openSnapshot(join(data, DATABASE));
  const names = openNames(namesFile);
  try {
    if (snapshot.check().length > 0) throw damagedBackupError(`the database of ${id}`);
    await runConcurrently(snapshot.blobs(), async (blob) => {
      const name = hashBlobName(key, blob);
      const found = names.find(name);
      if (found === undefined) {
        if (!lacking.has(name)) throw damagedBackupError(`the list of files of ${id}`);
        lost.push(blob);
        return;
      }
      const target = blobPath(pool, blob);
      await makeFolder(dirname(target));
      await take(blobPath(join(folder, BLOBS), found.stored), target, ({ written }) => written.sha256 === blob);
    });
  } finally {
    names.close();
    snapshot.close();
  }
  await syncTree(pool);
  return lost.sort();
}

/**
 * Decrypts one of the data folder's files to `to`. Returns false if the generation has none of that path.
 * @throws AppError conflict for a damaged one
 */
export async function decryptBackupFile(
  generation: Generation,
  sums: ReadonlyMap<string, string>,
  identities: Identities,
  { path, to }: { path: string; to: string },
): Promise<boolean> {
  const contents = join(generation.path, CONTENTS);
  const { files } = await readContents(generation, identities).catch((error) => {
    throw damagedBackupError(contents, error);
  });
  if (!files.includes(path)) return false;
  const name = `${FILES}/${files.indexOf(path)}${AGE}`;
  await decryptSound(identities, join(generation.path, name), to, ({ read }) => read.sha256 === sums.get(name));
  return true;
}

/**
 * Checks what is only known of a generation whose files have their hashes: that its names fit its list of blobs, and,
 * with `identities`, the database and its names. `tell` gets each problem.
 */
export async function checkEncryptedBackup(
  generation: Generation,
  lacking: ReadonlySet<string>,
  identities: Identities | undefined,
  tell: (file: string, problem: string) => void,
): Promise<void> {
  const { path } = generation;
  const names = openNames(join(path, NAMES));
  try {
    for (const { name, of } of mergeSortedNames([names.stored(), readBlobList(join(path, BLOB_LIST))])) {
      if (of.length === 1) tell(BLOB_LIST, `and ${NAMES} disagree about ${name}`);
    }
    if (identities === undefined) return;
    const { key } = await readContents(generation, identities);
    const place = await mkdtemp(join(tmpdir(), "mailroom-verify-"));
    try {
      await identities.decryptFile(join(path, `${DATABASE}${AGE}`), join(place, DATABASE), () => true);
      const snapshot = openSnapshot(join(place, DATABASE));
      try {
        for (const finding of snapshot.check()) tell(DATABASE, finding);
        for (const blob of snapshot.blobs()) {
          const name = hashBlobName(key, blob);
          if (names.find(name) === undefined && !lacking.has(name))
            tell(NAMES, `lacks ${blob}, which the database names`);
        }
      } finally {
        snapshot.close();
      }
    } finally {
      await rm(place, { recursive: true, force: true });
    }
  } finally {
    names.close();
  }
}
