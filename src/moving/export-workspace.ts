/**
 * Exports a workspace into a folder, beside the running server: its rows as of one moment, in a database of their own, and the
 * files that they name. Files that the folder has already are kept, so an interrupted export goes on, and a later one of the
 * same workspace copies what is new.
 *
 *   serving ── export ──► serving          to be brought up to date later
 *   serving ── final export ──► out        nothing is taken or sent any more; the other server sends what waits
 *      ▲                         │
 *      └──────── reopen ─────────┘
 *
 * Invariants: an export has no row of another workspace. Mail that waits is sent by the server that serves the workspace, and
 * only a final export lets another one serve it.
 */
import { Database } from "bun:sqlite";
import { writeFileSync } from "node:fs";
import { readFile, rename, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { eq } from "drizzle-orm";
import { secondFactorKeyPath } from "../access/identity.ts";
import { openSecretSeal } from "../access/seal.ts";
import { encryptText } from "../backup/age.ts";
import {
  BLOB_LIST,
  BLOBS,
  DATABASE,
  formatChecksums,
  GENERATIONS,
  generationId,
  generationTime,
  LOCK,
  listGenerations,
  MANIFEST,
  PLAIN_FORMAT,
  SUMS,
  writeBlobList,
} from "../backup/backup-layout.ts";
import {
  checkFileState,
  findFileSize,
  hashFile,
  isDiskFullError,
  listDirectoryNames,
  makeFolder,
  runConcurrently,
  syncFile,
  syncTree,
  writeBytes,
  writeText,
} from "../backup/durable-files.ts";
import {
  keepNewestGenerations,
  prepareBackupFolder,
  sweepBackupBlobs,
  sweepUnfinishedGenerations,
  waitForClaim,
} from "../backup/make.ts";
import { AppError } from "../base/errors.ts";
import { isMissing, syncFolder } from "../base/files.ts";
import { letOthersRun, pause } from "../base/pause.ts";
import { newId } from "../base/runtime.ts";
import { readTimeField, toIsoTime } from "../base/time.ts";
import { releaseAllWebhookLeases as releaseDeliveries } from "../events/delivery-queue.ts";
import { releaseAllQueueLeases } from "../outbound/claims.ts";
import { parkWorkspaceQueue, unparkWorkspaceQueue } from "../outbound/queue.ts";
import { blobPath } from "../store/blobs.ts";
import { claimBlobs, isDataFolderClaimed, tryLockFile } from "../store/claim.ts";
import type { Core } from "../store/core.ts";
import { emptyDatabase, MIGRATIONS } from "../store/migrate.ts";
import { workspaces } from "../store/schema.ts";
import { openSnapshot } from "../store/snapshot.ts";
import { isDamagedBlobError } from "../store/sound.ts";
import type { Db, Store, Tx } from "../store/store.ts";
import { EXPORT, type ExportManifest, SECOND_FACTORS } from "./export-layout.ts";
import { countTableRows, listQuotedColumns, messagesBetweenSql } from "./rows.ts";
import { belongsToSql, MOVED } from "./tables.ts";

export interface ExportRequest {
  workspace: { id: string; name: string };
  /** The folder; made when missing, but not the folders above it. */
  folder: string;
  /** Closes the workspace here first. */
  final: boolean;
  /** A public key of age, for which the secrets of second factors are encrypted. */
  sealFor?: string | undefined;
  /** The server's settings that differ from their defaults, with secrets masked. */
  settings: Record<string, string>;
  version: string;
  isInterrupted(): boolean;
  onProgress(line: () => string): void;
}

export interface Exported extends ExportManifest {
  folder: string;
  /** Blobs that the folder lacked, and their bytes. */
  copied: number;
  copiedBytes: number;
}

/** Conversations that one statement copies. */
const PORTION = 2_000;
/** Between two looks for attempts that are under way, ms. */
const LOOK_MS = 200;
/** Requests that came before the workspace was closed end within this time, or are refused. */
const GRACE_MS = 2_000;
/** An attempt may take as long as its remote. */
const LONGEST_ATTEMPT_MS = 30 * 60_000;

const INTERRUPTED = "interrupted; run it again to go on";

/** @throws AppError, errors of the file system and SQLite; a finished export in the folder then stays */
export async function exportWorkspace(core: Core, request: ExportRequest): Promise<Exported> {
  const { runtime, site } = core;
  const data = site.folder;
  const folder = resolve(request.folder);
  await prepareBackupFolder(data, folder, EXPORT);
  const releaseFolder = await waitForClaim(() => tryLockFile(join(folder, LOCK)), `into ${folder}`, runtime);
  try {
    await requireSame(folder, request.workspace);
    const releaseBlobs = await waitForClaim(() => claimBlobs(data), `of ${data}`, runtime);
    try {
      if (request.final) await close(core, request);
      const exported = await writeExport(core, { ...request, folder });
      await keepNewestGenerations(folder, 1, readTimeField("createdAt", exported.createdAt), EXPORT);
      await sweepBackupBlobs(folder, EXPORT);
      return exported;
    } finally {
      releaseBlobs();
    }
  } finally {
    releaseFolder();
  }
}

/** @throws AppError conflict for a folder with an export of another workspace */
async function requireSame(folder: string, { id, name }: ExportRequest["workspace"]): Promise<void> {
  const found = await newestManifest(folder);
  if (!found || found.workspace.id === id) return;
  throw new AppError(
    "conflict",
    `${folder} has an export of ${found.workspace.name}: give ${name} a folder of its own`,
  );
}

async function newestManifest(folder: string): Promise<ExportManifest | undefined> {
  const newest = (await listGenerations(folder, EXPORT)).at(-1);
  return newest && (JSON.parse(await readFile(join(newest.path, MANIFEST), "utf8")) as ExportManifest);
}

/** Ends the service of the workspace here, and waits for what is under way. @throws AppError conflict */
async function close({ store, runtime, site }: Core, request: ExportRequest): Promise<void> {
  const { workspace, isInterrupted, onProgress } = request;
  store.transact((tx) => {
    const { moving } = getWorkspaceRow(tx, workspace.id);
    if (moving === "in") throw new AppError("conflict", `the import of ${workspace.name} has not ended here`);
    if (moving === "out") return;
    const exportId = newId(runtime, "exp");
    tx.update(workspaces).set({ moving: "out", exportId }).where(eq(workspaces.id, workspace.id)).run();
  });
  const isRunning = isDataFolderClaimed(site.folder);
  if (isRunning) await pause(runtime, GRACE_MS);
  const until = runtime.now() + LONGEST_ATTEMPT_MS;
  for (;;) {
    const attempts = store.transact((tx) => {
      // Without a server, what is leased was cut short.
      if (!isRunning) {
        releaseAllQueueLeases(tx, runtime.now());
        releaseDeliveries(tx, runtime.now());
      }
      return parkWorkspaceQueue(tx, workspace.id) + attemptsAtWebhooks(tx, workspace.id);
    });
    if (attempts === 0) return;
    if (isInterrupted()) throw new Error(INTERRUPTED);
    if (runtime.now() > until) throw new AppError("conflict", `${attempts} deliveries are still under way`);
    onProgress(() => `waiting for ${attempts} deliveries under way`);
    await pause(runtime, LOOK_MS);
  }
}

/** Serves the workspace here again, and nowhere else: whoever asks says that no other server does. @throws AppError conflict */
export function reopenWorkspace(tx: Tx, workspaceId: string): void {
  const { moving, name } = getWorkspaceRow(tx, workspaceId);
  if (moving !== "out") throw new AppError("conflict", `${name} has not left this server`);
  tx.update(workspaces).set({ moving: null, exportId: null }).where(eq(workspaces.id, workspaceId)).run();
  unparkWorkspaceQueue(tx, workspaceId);
}

export function getWorkspaceRow(db: Db, workspaceId: string): typeof workspaces.$inferSelect {
  const row = db.select().from(workspaces).where(eq(workspaces.id, workspaceId)).get();
  if (!row) throw new AppError("not_found", "there is no such workspace");
  return row;
}

const attemptsAtWebhooks = (db: Db, workspaceId: string): number =>
  db.$client
    .query<{ n: number }, [string]>(
      `SELECT count(*) AS n FROM webhook_endpoints e JOIN webhook_deliveries d ON d.endpoint_seq = e.seq
       WHERE e.workspace_id = ? AND d.due_at IS NOT NULL AND d.leased = 1`,
    )
    .get(workspaceId)?.n ?? 0;

async function writeExport(core: Core, request: ExportRequest): Promise<Exported> {
  const { store, runtime, site } = core;
  const { folder, workspace, version, sealFor } = request;
  await sweepUnfinishedGenerations(folder);
  // The newest by its name, whatever the clock says.
  const last = (await listGenerations(folder, EXPORT)).at(-1)?.id ?? "";
  const createdAt = Math.max(runtime.now(), 1 + (generationTime(last) ?? -1));
  const generation = generationId(createdAt);
  const parent = join(folder, GENERATIONS);
  const unfinished = join(parent, `.${generation}`);
  try {
    await makeFolder(unfinished);
    const database = join(unfinished, DATABASE);
    const rows = await copyRows(core, request, database);
    await syncFile(database);
    const blobs = await copyBlobs(store, request, unfinished);
    if (sealFor !== undefined) {
      await encryptText(JSON.stringify(secretsIn(core, database)), join(unfinished, SECOND_FACTORS), [sealFor]);
    }
    const { moving, exportId } = getWorkspaceRow(store.db, workspace.id);
    const manifest: ExportManifest = {
      format: PLAIN_FORMAT,
      version,
      schema: MIGRATIONS.length,
      createdAt: toIsoTime(createdAt),
      hostname: site.hostname,
      id: moving === "out" && exportId !== null ? exportId : newId(runtime, "exp"),
      workspace: { id: workspace.id, name: workspace.name },
      final: moving === "out",
      settings: request.settings,
      rows,
      databaseBytes: (await findFileSize(database)) ?? 0,
      blobs: blobs.blobs,
      lacking: blobs.lacking,
    };
    await writeText(join(unfinished, MANIFEST), `${JSON.stringify(manifest, null, 2)}\n`);
    const sums = new Map<string, string>();
    for (const name of await listDirectoryNames(unfinished))
      sums.set(name, (await hashFile(join(unfinished, name))).sha256);
    await writeText(join(unfinished, SUMS), formatChecksums(sums));
    await rename(unfinished, join(parent, generation));
    await syncFolder(parent);
    return { folder, ...manifest, copied: blobs.copied, copiedBytes: blobs.copiedBytes };
  } catch (error) {
    await rm(unfinished, { recursive: true, force: true }).catch(() => {});
    if (isDiskFullError(error))
      throw new AppError("insufficient_storage", `the disk of ${folder} is full`, { cause: error });
    throw error;
  }
}

/** Makes the database of an export. Returns the number of rows by table. */
async function copyRows({ site }: Core, { workspace, isInterrupted, onProgress }: ExportRequest, path: string) {
  writeFileSync(path, emptyDatabase(), { flag: "wx", mode: 0o600 });
  const db = new Database(path, { readwrite: true, strict: true });
  try {
    // A file that is not finished is removed.
    db.exec("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA cache_size = -65536");
    db.exec("PRAGMA foreign_keys = OFF");
    db.query("ATTACH ? AS source").run(join(site.folder, "mailroom.db"));
    const aside = db
      .query<{ type: string; name: string; sql: string }, []>(
        "SELECT type, name, sql FROM main.sqlite_schema WHERE type IN ('trigger', 'index') AND sql IS NOT NULL",
      )
      .all();
    // Rows are copied as they are, and indexes cost less at the end.
    for (const { type, name } of aside) db.exec(`DROP ${type} main.${name}`);
    db.exec("BEGIN");
    db.query(copying(db, "workspaces", "source.workspaces t WHERE t.id = ?")).run(workspace.id);
    for (const table of MOVED.filter(({ stage }) => stage !== "mail")) {
      db.query(
        copying(db, table.name, `main.${table.of} p CROSS JOIN source.${table.name} t ON ${belongsToSql(table)}`),
      ).run();
    }
    db.exec(
      `${copying(db, "thread_changes", "source.thread_changes t WHERE kind = 'gone' AND user_id IS NULL AND mailbox_id IN (SELECT id FROM main.mailboxes)")};
       DELETE FROM main.webhook_cursor;
       ${copying(db, "webhook_cursor", "source.webhook_cursor t")};
       UPDATE main.webhook_cursor SET event_seq =
         max(event_seq, coalesce((SELECT min(after_event) FROM main.webhook_endpoints), (SELECT max(seq) FROM main.events), 0));
       DELETE FROM main.sqlite_sequence;
       INSERT INTO main.sqlite_sequence (name, seq) SELECT name, seq FROM source.sqlite_sequence;
       CREATE TEMP TABLE chosen (seq INTEGER PRIMARY KEY);
       INSERT INTO chosen SELECT t.seq FROM main.mailboxes p CROSS JOIN source.threads t ON t.mailbox_id = p.id`,
    );
    const mail = MOVED.filter(({ stage }) => stage === "mail").map((table) =>
      db.query<unknown, [number, number]>(copying(db, table.name, mailFrom(table))),
    );
    const last = db.query<{ seq: number | null }, [number]>(
      `SELECT max(seq) AS seq FROM (SELECT seq FROM chosen WHERE seq > ? ORDER BY seq LIMIT ${PORTION})`,
    );
    for (let after = 0, done = 0; ; done += PORTION) {
      const through = last.get(after)?.seq;
      if (through == null) break;
      for (const statement of mail) statement.run(after + 1, through);
      after = through;
      onProgress(() => `${done + PORTION} conversations`);
      await letOthersRun();
      if (isInterrupted()) throw new Error(INTERRUPTED);
    }
    db.exec("COMMIT");
    for (const { sql } of aside) {
      db.exec(sql);
      await letOthersRun();
    }
    return Object.fromEntries(MOVED.map(({ name }) => [name, countTableRows(db, name)]));
  } finally {
    db.close();
  }
}

/** SQL that copies rows `t`. */
function copying(db: Database, table: string, from: string): string {
  const columns = listQuotedColumns(db, table);
  return `INSERT INTO main.${table} (${columns.join(", ")}) SELECT ${columns.map((name) => `t.${name}`).join(", ")} FROM ${from}`;
}

/** Rows of the conversations ?1 to ?2. */
function mailFrom(table: (typeof MOVED)[number]): string {
  const { name, of } = table;
  if (name === "threads") return "chosen p CROSS JOIN source.threads t ON t.seq = p.seq WHERE p.seq BETWEEN ?1 AND ?2";
  const range = of === "messages" ? messagesBetweenSql("?1", "?2") : "BETWEEN ?1 AND ?2";
  return `main.${of} p CROSS JOIN source.${name} t ON ${belongsToSql(table)} WHERE p.seq ${range}`;
}

/** Copies the blobs that the database names, and writes the list of them. */
async function copyBlobs(
  { blobs }: Pick<Store, "blobs">,
  { folder, isInterrupted, onProgress }: ExportRequest,
  unfinished: string,
) {
  const snapshot = openSnapshot(join(unfinished, DATABASE));
  try {
    const pool = join(folder, BLOBS);
    const lacking = new Set<string>();
    let [copied, copiedBytes] = [0, 0];
    await runConcurrently(snapshot.blobs(), async (name) => {
      if (isInterrupted()) throw new Error(INTERRUPTED);
      const path = blobPath(pool, name);
      if ((await checkFileState(path, { sha256: name, size: undefined }, false)) === "whole") return;
      const bytes = await blobs.read(name).catch((error) => {
        if (isMissing(error) || isDamagedBlobError(error)) return undefined;
        throw error;
      });
      if (!bytes) {
        lacking.add(name);
        return;
      }
      await makeFolder(dirname(path));
      await writeBytes(path, bytes);
      copied++;
      copiedBytes += bytes.byteLength;
      onProgress(() => `${copied} files`);
    });
    await syncTree(pool);
    const there = snapshot.blobs().filter((name) => !lacking.has(name));
    const count = await writeBlobList(join(unfinished, BLOB_LIST), there);
    return { blobs: count, lacking: [...lacking].sort(), copied, copiedBytes };
  } finally {
    snapshot.close();
  }
}

/** The secrets of second factors in the database, by the ids of their people, in base64. */
function secretsIn({ runtime, log, site }: Core, database: string): Record<string, string> {
  const seal = openSecretSeal(secondFactorKeyPath(site.folder), runtime, log);
  const db = new Database(database, { readonly: true });
  try {
    const rows = db.query<{ userId: string; secret: Uint8Array }, []>(
      "SELECT user_id AS userId, secret FROM second_factors",
    );
    return Object.fromEntries(
      rows.all().flatMap(({ userId, secret }) => {
        const opened = seal.open(secret, userId);
        return opened ? [[userId, Buffer.from(opened).toString("base64")]] : [];
      }),
    );
  } finally {
    db.close();
  }
}
