/**
 * Imports an export of a workspace, with the server running or stopped. The workspace is not served until all of it is there
 * and compared: its people, domains and addresses come last, in one transaction.
 *
 *   export ──► in: conversations, then logs, in portions ──► search index ──► served, if the export is final
 *     later export ──┘
 *
 * Conversations that are there already, the same in every row, stay; others are replaced whole. So an import that was cut
 * short goes on, and a later export brings an earlier one up to date. Everything else is written anew.
 *
 * Invariants: until the last transaction nobody reaches anything of the workspace, and it takes nothing from other
 * workspaces: no name, address or domain. What is theirs is never changed. The same export again changes nothing.
 */
import { Database, type SQLQueryBindings } from "bun:sqlite";
import { chmodSync, copyFileSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { is } from "drizzle-orm";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import { sealKeyIn } from "../access/identity.ts";
import { openSeal } from "../access/seal.ts";
import { replaceSecret } from "../access/second-factor.ts";
import type { Identities } from "../backup/age.ts";
import { hashFile, sizeOf } from "../backup/files.ts";
import { BLOBS, DATABASE, listGenerations, MANIFEST, readSums, requireFormat, SUMS } from "../backup/layout.ts";
import { AppError } from "../base/errors.ts";
import type { Mailbox } from "../mailbox/mailbox.ts";
import { deleteMail } from "../mailbox/removal.ts";
import { unpark } from "../outbound/queue.ts";
import { blobPath } from "../store/blobs.ts";
import { tryClaim } from "../store/claim.ts";
import { MIGRATIONS, migrate } from "../store/migrate.ts";
import * as schema from "../store/schema.ts";
import type { NotAPromise, Store, Tx } from "../store/store.ts";
import { createPacing } from "../transfer/import.ts";
import { columnsOf, countOf, type ExportParts, messagesBetween } from "./export.ts";
import { EXPORT, type ExportManifest, SECOND_FACTORS } from "./layout.ts";
import { belongs, MOVED, type Moved } from "./tables.ts";

export interface ImportRequest {
  /** The data folder. */
  data: string;
  /** The folder of the export. */
  folder: string;
  /** Opens the secrets of second factors. */
  identities?: Identities | undefined;
  isInterrupted(): boolean;
  onProgress(line: () => string): void;
}

export interface Imported {
  id: string;
  name: string;
  /** False after an export that is not final: the server that made it still serves the workspace. */
  served: boolean;
  /** This export was imported before. */
  repeated: boolean;
  /** Conversations written by this import; the others were there. */
  written: number;
  rows: Record<string, number>;
  files: number;
  /** Files that the other server had lost already. */
  lacking: string[];
  /** Sign-in names of people whose second factor could not come along: they need a recovery code, or its reset. */
  withoutFactor: string[];
  domains: string[];
  settings: Record<string, string>;
}

const N = schema.MESSAGES_PER_THREAD;
/** Rows that a transaction of the logs writes. */
const PORTION = 500;
/** Messages that a transaction of the removal of a mailbox deletes. */
const DELETED_AT_ONCE = 200;
const LARGEST_BLOB = 128 * 1024 * 1024;
const INTERRUPTED = "interrupted; run it again to go on";

const damaged = (what: string, cause?: unknown): AppError =>
  new AppError("conflict", `the export is damaged (${what}): make it again`, { cause });

/** @throws AppError conflict for what is damaged, newer than this program, or in the way; not_found; errors of the store */
export async function importWorkspace(
  parts: ExportParts & { mailbox: Pick<Mailbox, "backlog"> },
  request: ImportRequest,
): Promise<Imported> {
  const { data } = request;
  const release = tryClaim(join(data, "import.lock"));
  if (!release) throw new AppError("conflict", "another import of a workspace is under way");
  try {
    const found = await openExport(resolve(request.folder), data);
    try {
      return await bringIn(parts, request, found);
    } finally {
      found.close();
    }
  } finally {
    release();
  }
}

interface FoundExport {
  folder: string;
  /** Of its generation. */
  path: string;
  manifest: ExportManifest;
  /** The database, of this program's schema. */
  database: string;
  close(): void;
}

/** Finds an export, and checks its files except the blobs. @throws AppError */
async function openExport(folder: string, data: string): Promise<FoundExport> {
  const path = (await listGenerations(folder, EXPORT)).at(-1)?.path;
  if (path === undefined) throw new AppError("not_found", `no export was finished in ${folder}: make it again`);
  const { manifest, sums } = await readManifest(path);
  const database = join(path, DATABASE);
  for (const [name, sha256] of sums) {
    const hashed = await hashFile(join(path, name)).catch((error) => {
      throw damaged(name, error);
    });
    if (hashed.sha256 !== sha256) throw damaged(`${name} has another checksum`);
  }
  checkDatabase(database, manifest);
  if (manifest.schema === MIGRATIONS.length) return { folder, path, manifest, database, close() {} };
  const migrated = join(data, `mailroom.db-import`);
  rmSync(migrated, { force: true });
  copyFileSync(database, migrated);
  chmodSync(migrated, 0o600);
  const db = new Database(migrated, { readwrite: true, strict: true });
  try {
    migrate(db, { claim: () => () => {} });
  } finally {
    db.close();
  }
  return { folder, path, manifest, database: migrated, close: () => rmSync(migrated, { force: true }) };
}

/** @throws AppError conflict for one that is damaged, or of a newer program */
async function readManifest(path: string): Promise<{ manifest: ExportManifest; sums: Map<string, string> }> {
  let sums: Map<string, string>;
  let manifest: ExportManifest;
  try {
    sums = readSums(await readFile(join(path, SUMS), "utf8"));
    manifest = JSON.parse(await readFile(join(path, MANIFEST), "utf8"));
    if (!isManifest(manifest)) throw new Error(`${MANIFEST} is not one`);
  } catch (error) {
    throw damaged(error instanceof Error ? error.message : String(error), error);
  }
  requireFormat("the export", manifest.format);
  if (manifest.schema <= MIGRATIONS.length) return { manifest, sums };
  throw new AppError(
    "conflict",
    `the export was made by a newer Mailroom (${manifest.version}, schema ${manifest.schema}; this one knows ${MIGRATIONS.length}): bring this server to that version first`,
  );
}

const isManifest = ({
  format,
  version,
  schema,
  id,
  final,
  workspace,
  settings,
  rows,
  lacking,
}: ExportManifest): boolean =>
  [format, schema].every(Number.isSafeInteger) &&
  schema > 0 &&
  [version, id, workspace?.id, workspace?.name].every((text) => typeof text === "string") &&
  typeof final === "boolean" &&
  [settings, rows].every((value) => typeof value === "object" && value !== null) &&
  Array.isArray(lacking);

type SchemaRow = { type: string; name: string; tbl_name: string; sql: string | null };
const SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY type, name";

/**
 * What is not exactly a database of that schema is not read: views and triggers of a stranger would run here.
 * @throws AppError conflict
 */
function checkDatabase(path: string, { schema, workspace }: ExportManifest): void {
  const made = new Database(":memory:", { strict: true });
  let db: Database | undefined;
  try {
    migrate(made, { claim: () => () => {}, migrations: MIGRATIONS.slice(0, schema) });
    db = new Database(path, { readonly: true, strict: true });
    db.exec("PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON");
    const version = db.query<{ user_version: number }, []>("PRAGMA user_version").get()?.user_version;
    const rows = (one: Database) => JSON.stringify(one.query<SchemaRow, []>(SCHEMA).all());
    if (version !== schema || rows(db) !== rows(made)) throw new Error(`${DATABASE} has another schema`);
    const [{ integrity_check: finding = "" } = {}] = db
      .query<{ integrity_check: string }, []>("PRAGMA integrity_check(1)")
      .all();
    if (finding !== "ok") throw new Error(`${DATABASE}: ${finding}`);
    const orphan = db.query<{ table: string }, []>("PRAGMA foreign_key_check").get();
    if (orphan) throw new Error(`a row of ${orphan.table} belongs to nothing`);
    const ids = db.query<{ id: string }, []>("SELECT id FROM workspaces").all();
    if (ids.length !== 1 || ids[0]?.id !== workspace.id) throw new Error("it has another workspace");
  } catch (error) {
    throw damaged(error instanceof Error ? error.message : String(error), error);
  } finally {
    db?.close();
    made.close();
  }
}

const TYPES: Readonly<Record<string, (column: string) => string>> = {
  INTEGER: (column) =>
    `(typeof(${column}) = 'integer' AND ${column} BETWEEN -${Number.MAX_SAFE_INTEGER} AND ${Number.MAX_SAFE_INTEGER})`,
  REAL: (column) => `typeof(${column}) IN ('integer', 'real')`,
  TEXT: (column) => `typeof(${column}) = 'text'`,
  BLOB: (column) => `typeof(${column}) = 'blob'`,
};

/** Rows that belong together, and so must agree. */
const DISAGREEING = [
  `messages m JOIN moved.threads t ON t.seq = m.thread_seq
     WHERE m.mailbox_id <> t.mailbox_id OR m.seq NOT ${messagesBetween("t.seq", "t.seq")}`,
  "thread_references m JOIN moved.threads t ON t.seq = m.thread_seq WHERE m.mailbox_id <> t.mailbox_id",
  "holds m JOIN moved.messages t ON t.seq = m.message_seq WHERE m.mailbox_id <> t.mailbox_id",
  "mailboxes m JOIN moved.users t ON t.id = m.owner_id WHERE m.workspace_id <> t.workspace_id",
];

/** Checks the values in the attached database. @throws AppError conflict */
function checkValues(sqlite: Database, { workspace, rows }: ExportManifest): void {
  const exists = (query: string): boolean => sqlite.prepare(query).get() !== null;
  const tables = new Map(
    (Object.values(schema) as unknown[])
      .filter((value): value is SQLiteTable => is(value, SQLiteTable))
      .map((table) => [getTableConfig(table).name, getTableConfig(table).columns] as const),
  );
  for (const { name, by, of } of MOVED) {
    if (countOf(sqlite, `moved.${name}`) !== (rows[name] ?? 0)) throw damaged(`${name} has another number of rows`);
    const wrong = (tables.get(name) ?? []).map((column) => {
      const quoted = `"${column.name}"`;
      const isRight = [TYPES[column.getSQLType().toUpperCase()]?.(quoted) ?? "TRUE"];
      if (column.dataType === "json") isRight.push(`json_valid(${quoted})`);
      if (column.name === "blob") isRight.push(`length(${quoted}) = 64 AND ${quoted} NOT GLOB '*[^0-9a-f]*'`);
      return `NOT (${column.notNull ? "" : `${quoted} IS NULL OR `}${isRight.join(" AND ")})`;
    });
    if (of === "workspaces") wrong.push(`${by} <> '${workspace.id.replaceAll("'", "''")}'`);
    if (exists(`SELECT 1 FROM moved.${name} WHERE ${wrong.join(" OR ")}`)) throw damaged(`a row of ${name}`);
  }
  for (const query of DISAGREEING) {
    if (exists(`SELECT 1 FROM moved.${query}`)) throw damaged(`a row of ${query.split(" ")[0]}`);
  }
}

/** Tables whose ids must be free before anything is written, and their columns that are unique at a server. */
const UNIQUE: Readonly<Record<string, readonly string[]>> = {
  users: ["id", "email"],
  mailboxes: ["id"],
  domains: ["id"],
  api_keys: ["id", "hash"],
  app_passwords: ["id", "hash"],
  oauth_grants: ["code_hash"],
  oauth_tokens: ["hash"],
  suppressions: ["id"],
  webhook_endpoints: ["id"],
  webhook_deliveries: ["id"],
  events: ["id"],
  outbound_messages: ["id", "return_path"],
  queue_entries: ["id"],
  threads: ["id"],
  messages: ["id"],
  attachments: ["id"],
};

const planOf = (name: string): Moved => MOVED.find((table) => table.name === name) as Moved;

/** SQL that is true of rows of the workspace ?1 in the table `main.name`. */
function ownedBy(name: string): string {
  const { of, by } = planOf(name);
  if (of === "workspaces") return `${by} = ?1`;
  const key = belongs({ of, by }).replace(/.*p\./, "");
  return `${by} IN (SELECT ${key} FROM main.${of} WHERE ${ownedBy(of)})`;
}

async function bringIn(
  parts: ExportParts & { mailbox: Pick<Mailbox, "backlog"> },
  request: ImportRequest,
  found: FoundExport,
): Promise<Imported> {
  const { store, runtime, log, mailbox } = parts;
  const { data, identities, isInterrupted, onProgress } = request;
  const { manifest } = found;
  const workspaceId = manifest.workspace.id;
  const sqlite = store.db.$client;
  sqlite.prepare("ATTACH ? AS moved").run(found.database);
  checkValues(sqlite, manifest);
  const pacing = createPacing({ folder: data, runtime });
  const secrets = await secretsOf(found, identities);

  const present = store.transact((tx) => begin(tx, manifest));
  const result: Imported = {
    id: workspaceId,
    name: manifest.workspace.name,
    served: present === "served" || manifest.final,
    repeated: present === "served",
    written: 0,
    rows: manifest.rows,
    files: manifest.blobs,
    lacking: manifest.lacking,
    withoutFactor: [],
    domains: sqlite
      .prepare<{ name: string }, []>("SELECT name FROM moved.domains ORDER BY name")
      .all()
      .map(({ name }) => name),
    settings: manifest.settings,
  };
  if (present === "served") return result;

  const lacking = new Set(manifest.lacking);
  const bringBlobs = (query: string, ...range: SQLQueryBindings[]) =>
    copyBlobs(store, found.folder, lacking, sqlite.prepare<{ blob: string }, SQLQueryBindings[]>(query).all(...range));
  /** Runs a transaction that does not keep a running server waiting. */
  const paced = <T>(count: number, work: (tx: Tx) => NotAPromise<T>): Promise<T> => {
    if (isInterrupted()) throw new Error(INTERRUPTED);
    return pacing.run(count, (begun) =>
      store.transact((tx) => {
        begun();
        return work(tx);
      }),
    );
  };

  await removeStrays(sqlite, workspaceId, paced);
  const mail = createMailImport(sqlite);
  for (let after = 0, last = mail.next(after, pacing.room()); last !== null; last = mail.next(after, pacing.room())) {
    const through: number = last;
    const from = after + 1;
    for (const table of ["attachments", "holds"]) {
      await bringBlobs(
        `SELECT DISTINCT blob FROM moved.${table} WHERE blob IS NOT NULL AND message_seq ${messagesBetween("?1", "?2")}`,
        from,
        through,
      );
    }
    result.written += await paced(pacing.room(), (tx) => {
      const seqs = mail.bring(from, through);
      for (const { seq } of seqs.messages) mailbox.backlog.add(tx, seq);
      return seqs.threads;
    });
    after = through;
    onProgress(() => `${result.written} of ${manifest.rows.threads ?? 0} conversations written`);
  }
  await paced(1, () => void mail.linkDrafts());

  const logs = MOVED.filter(({ stage }) => stage === "log");
  for (const { name } of logs.toReversed()) {
    const statement = sqlite.prepare<unknown, [string]>(clearing(sqlite, name));
    while ((await paced(PORTION, () => statement.run(workspaceId).changes)) > 0);
  }
  const offsets = store.transact(() => reserve(sqlite, logs));
  for (const { name } of logs) {
    onProgress(() => `writing ${name}`);
    for (const { from, through } of portionsOf(sqlite, name)) {
      const range = [...from, ...through];
      if (name === "outbound_contents") {
        const named = `SELECT blob FROM moved.${name} m WHERE blob IS NOT NULL AND ${between(sqlite, name, from.length > 0)}`;
        await bringBlobs(named, ...range);
      }
      await paced(PORTION, () => {
        const numbers = { ...offsets, ...freshOffsets(sqlite, [name]) };
        const where = between(sqlite, name, from.length > 0);
        const written = sqlite.prepare(inserting(sqlite, name, numbers, where)).run(...range).changes;
        const listed = sqlite.prepare<{ n: number }, SQLQueryBindings[]>(
          `SELECT count(*) AS n FROM moved.${name} m WHERE ${where}${onlyAnnounced(name)}`,
        );
        if (listed.get(...range)?.n !== written) throw new Error(`not all rows of ${name} were written`);
      });
    }
  }

  while (mailbox.backlog.count() > 0) {
    await paced(pacing.room(), (tx) => mailbox.backlog.takeIn(tx, pacing.room()));
    onProgress(() => `${mailbox.backlog.count()} messages to be indexed`);
  }
  if (!manifest.final) return result;

  const seal = openSeal(sealKeyIn(data), runtime, log);
  store.transact((tx) => {
    requireFree(sqlite, manifest);
    finish(tx, manifest, offsets);
    for (const { userId, email } of peopleWithFactors(sqlite, workspaceId)) {
      const secret = secrets.get(userId);
      if (secret) replaceSecret(tx, userId, seal.close(secret, userId));
      else result.withoutFactor.push(email);
    }
  });
  return result;
}

/**
 * Makes the workspace, unless an earlier import did. `served`: this export was imported before, and the workspace is served.
 * @throws AppError conflict
 */
function begin(tx: Tx, manifest: ExportManifest): "in" | "served" {
  const sqlite = tx.$client;
  const { id, name } = manifest.workspace;
  const known = sqlite
    .prepare<{ moving: "in" | "out" | null; exportId: string | null }, [string]>(
      "SELECT moving, export_id AS exportId FROM main.workspaces WHERE id = ?",
    )
    .get(id);
  if (known?.moving === null) {
    if (known.exportId === manifest.id) return "served";
    throw new AppError("conflict", `this server serves the workspace ${name} already`);
  }
  if (known?.moving === "out" && known.exportId === manifest.id) {
    throw new AppError(
      "conflict",
      `the workspace ${name} left this server with this very export: import it at the other one, or take it back with mailroom workspace reopen`,
    );
  }
  requireFree(sqlite, manifest);
  if (!known) {
    sqlite
      .prepare(
        `INSERT INTO main.workspaces (id, name, created_at)
         SELECT id, name, max(created_at, 1 + coalesce((SELECT max(created_at) FROM main.workspaces), -1)) FROM moved.workspaces`,
      )
      .run();
  }
  sqlite.prepare("UPDATE main.workspaces SET moving = 'in', export_id = ? WHERE id = ?").run(manifest.id, id);
  // What is left of an earlier time at this server is not that of its people any more.
  for (const table of MOVED.filter(({ stage }) => stage === "last").toReversed()) {
    if (KEPT_MEANWHILE.has(table.name)) continue;
    sqlite.prepare(`DELETE FROM main.${table.name} WHERE ${ownedBy(table.name)}`).run(id);
  }
  // An address of its own, which nobody asks for.
  sqlite
    .prepare(
      "UPDATE main.mailboxes SET address = id, name = '', owner_id = NULL, expires_at = NULL WHERE workspace_id = ?",
    )
    .run(id);
  sqlite
    .prepare(
      `INSERT INTO main.mailboxes (id, workspace_id, address, name, created_at)
       SELECT id, workspace_id, id, '', created_at FROM moved.mailboxes WHERE id NOT IN (SELECT id FROM main.mailboxes)`,
    )
    .run();
  return "in";
}

/** Rows that mail needs, or that triggers keep. */
const KEPT_MEANWHILE = new Set(["mailboxes", "mailbox_labels"]);

/** @throws AppError conflict for a name, address, domain or id that another workspace has */
function requireFree(sqlite: Database, { workspace }: ExportManifest): void {
  const { id, name } = workspace;
  const first = (query: string) => sqlite.prepare<{ taken: string }, [string]>(query).get(id)?.taken;
  const same = first(
    "SELECT o.name AS taken FROM main.workspaces o JOIN moved.workspaces m ON lower(o.name) = lower(m.name) WHERE o.id <> ?1",
  );
  if (same !== undefined)
    throw new AppError("conflict", `another workspace is called ${name} here: rename one of the two`);
  const domain = first(
    `SELECT o.name AS taken FROM main.domains o JOIN moved.domains m ON o.name = m.name
     WHERE o.workspace_id <> ?1 AND o.verified_at IS NOT NULL AND m.verified_at IS NOT NULL`,
  );
  if (domain !== undefined) throw new AppError("conflict", `another workspace has verified ${domain} here`);
  for (const [table, columns] of Object.entries(UNIQUE)) {
    for (const column of columns) {
      const taken = first(
        `SELECT o.${column} AS taken FROM moved.${table} m CROSS JOIN main.${table} o ON o.${column} = m.${column}
         WHERE NOT (${ownedBy(table).replace(/^(\w+)/, "o.$1")}) LIMIT 1`,
      );
      if (taken === undefined) continue;
      const what = column === "email" ? taken : `${table}.${column}`;
      throw new AppError("conflict", `${what} is taken by another workspace here`);
    }
  }
}

/** Removes mailboxes and conversations that an earlier export had, and this one lacks. */
async function removeStrays(
  sqlite: Database,
  workspaceId: string,
  paced: <T>(count: number, work: (tx: Tx) => NotAPromise<T>) => Promise<T>,
): Promise<void> {
  const gone = sqlite.prepare<{ id: string }, [string]>(
    "SELECT id FROM main.mailboxes WHERE workspace_id = ? AND id NOT IN (SELECT id FROM moved.mailboxes)",
  );
  for (const { id } of gone.all(workspaceId)) {
    while (await paced(DELETED_AT_ONCE, (tx) => deleteMail(tx, id, DELETED_AT_ONCE)));
    await paced(1, () => void sqlite.prepare("DELETE FROM main.mailboxes WHERE id = ?").run(id));
  }
  const strays = sqlite.prepare<unknown, [string]>(
    `DELETE FROM main.threads WHERE seq IN (
       SELECT t.seq FROM main.mailboxes b CROSS JOIN main.threads t ON t.mailbox_id = b.id
       WHERE b.workspace_id = ?1 AND NOT EXISTS (SELECT 1 FROM moved.threads m WHERE m.id = t.id) LIMIT ${PORTION})`,
  );
  while ((await paced(PORTION, () => strays.run(workspaceId).changes)) > 0);
}

/* Conversations. `portion` has those that are being brought: their number there, and here once they are. */

function createMailImport(sqlite: Database) {
  sqlite.exec("CREATE TEMP TABLE portion (source INTEGER PRIMARY KEY, seq INTEGER, fresh INTEGER NOT NULL)");
  const tables = MOVED.filter(({ stage }) => stage === "mail");
  const next = sqlite.prepare<{ seq: number | null }, [number, number]>(
    "SELECT max(seq) AS seq FROM (SELECT seq FROM moved.threads WHERE seq > ? ORDER BY seq LIMIT ?)",
  );
  const choose = sqlite.prepare<unknown, [number, number]>(
    `INSERT INTO portion SELECT m.seq, t.seq, t.seq IS NULL FROM moved.threads m LEFT JOIN main.threads t ON t.id = m.id
     WHERE m.seq BETWEEN ? AND ?`,
  );
  const differing = tables
    .filter(({ name }) => name !== "discarded_threads")
    .map((table) =>
      sqlite.prepare<unknown, []>(
        `UPDATE portion SET fresh = 1 WHERE fresh = 0 AND source IN (${differences(sqlite, table)})`,
      ),
    );
  const number = sqlite.prepare<unknown, []>(
    `UPDATE portion SET seq = (SELECT t.seq FROM moved.threads m JOIN main.threads t ON t.id = m.id WHERE m.seq = source)
     WHERE fresh = 1`,
  );
  const inserts = tables.map(({ name }) => sqlite.prepare<unknown, []>(mailInsert(sqlite, name)));
  const messages = sqlite.prepare<{ seq: number }, []>(
    "SELECT t.seq FROM portion p CROSS JOIN main.messages t ON t.thread_seq = p.seq WHERE p.fresh = 1 ORDER BY t.seq",
  );
  const fresh = sqlite.prepare<{ n: number }, []>("SELECT count(*) AS n FROM portion WHERE fresh = 1");
  const freshCount = (): number => fresh.get()?.n ?? 0;
  return {
    /** The last of the next `count` conversations after one; null at the end. */
    next: (after: number, count: number): number | null => next.get(after, count)?.seq ?? null,
    /** Brings conversations in a transaction, and compares them. Returns how many were written, and their messages. */
    bring(from: number, through: number): { threads: number; messages: { seq: number }[] } {
      sqlite.exec("DELETE FROM portion");
      choose.run(from, through);
      for (const statement of differing) statement.run();
      sqlite.exec("DELETE FROM main.threads WHERE seq IN (SELECT seq FROM portion WHERE fresh = 1)");
      for (const [i, statement] of inserts.entries()) {
        statement.run();
        if (tables[i]?.name === "threads") number.run();
      }
      const written = { threads: freshCount(), messages: messages.all() };
      sqlite.exec("UPDATE portion SET fresh = 0");
      for (const statement of differing) statement.run();
      if (freshCount() > 0) throw new Error("conversations differ from those in the export once they are written");
      return written;
    },
    /** Names the conversations that drafts answer, which may have come after them. */
    linkDrafts(): void {
      sqlite.exec(
        `UPDATE main.drafts SET answers = a.seq
         FROM moved.drafts m JOIN moved.messages d ON d.seq = m.message_seq JOIN main.messages o ON o.id = d.id
           JOIN moved.threads s ON s.seq = m.answers JOIN main.threads a ON a.id = s.id
         WHERE drafts.message_seq = o.seq AND drafts.answers IS NOT a.seq`,
      );
    },
  };
}

/** SQL: the columns of a row `m` of a table of mail as they are here; `p` is its conversation in `portion`. */
function mailValues(sqlite: Database, name: string): Map<string, string> {
  const { numbers = {}, values = {} } = planOf(name);
  return new Map(
    columnsOf(sqlite, name).map((column) => {
      const plain = column.slice(1, -1);
      if (values[plain] !== undefined) return [column, values[plain]];
      if (numbers[plain] === "threads") return [column, name === "threads" ? "NULL" : "p.seq"];
      if (numbers[plain] === "messages") return [column, `p.seq * ${N} + m.${column} % ${N}`];
      return [column, `m.${column}`];
    }),
  );
}

/** SQL: the rows `m` of the conversations `p`. */
function mailRows(name: string): string {
  const { by } = planOf(name);
  if (name === "threads") return "portion p CROSS JOIN moved.threads m ON m.seq = p.source";
  if (by === "thread_seq") return `portion p CROSS JOIN moved.${name} m ON m.thread_seq = p.source`;
  return `portion p CROSS JOIN moved.${name} m ON m.message_seq ${messagesBetween("p.source", "p.source")}`;
}

function mailInsert(sqlite: Database, name: string): string {
  const values = mailValues(sqlite, name);
  if (name === "discarded_threads") {
    // A trigger made the rows.
    return `UPDATE main.discarded_threads SET since = m.since FROM ${mailRows(name)} WHERE p.fresh = 1 AND discarded_threads.thread_seq = p.seq`;
  }
  return `INSERT INTO main.${name} (${[...values.keys()].join(", ")}) SELECT ${[...values.values()].join(", ")}
    FROM ${mailRows(name)} WHERE p.fresh = 1`;
}

/** SQL: numbers, there, of conversations of which a row differs, or is missing on either side. */
function differences(sqlite: Database, { name }: { name: string }): string {
  const values = mailValues(sqlite, name);
  const { values: fixed = {} } = planOf(name);
  const keys = primaryKeyOf(sqlite, name);
  const compared = [...values].filter(
    ([column]) => !(column.slice(1, -1) in fixed) && !(name === "threads" && column === '"seq"'),
  );
  const key =
    name === "threads" ? "t.seq = p.seq" : keys.map((column) => `t.${column} = ${values.get(column)}`).join(" AND ");
  const same = compared.map(([column, value]) => `t.${column} IS ${value}`).join(" AND ");
  const { by } = planOf(name);
  const there = name === "threads" ? "m.seq = p.source" : mailRows(name).replace(/.* ON /, "");
  const here =
    name === "threads"
      ? "t.seq = p.seq"
      : by === "thread_seq"
        ? "t.thread_seq = p.seq"
        : `t.message_seq ${messagesBetween("p.seq", "p.seq")}`;
  return `SELECT p.source FROM ${mailRows(name)} LEFT JOIN main.${name} t ON ${key} WHERE p.fresh = 0 AND NOT (${same})
    UNION SELECT p.source FROM portion p WHERE p.fresh = 0 AND
      (SELECT count(*) FROM moved.${name} m WHERE ${there}) <> (SELECT count(*) FROM main.${name} t WHERE ${here})`;
}

const primaryKeyOf = (sqlite: Database, name: string): string[] =>
  sqlite
    .prepare<{ name: string }, []>(`SELECT name FROM pragma_table_info('${name}', 'main') WHERE pk > 0 ORDER BY pk`)
    .all()
    .map(({ name }) => `"${name}"`);

/* Logs: tables that are written anew, in the order of their keys. */

export const clearing = (sqlite: Database, name: string): string => {
  const key = primaryKeyOf(sqlite, name).join(", ");
  return `DELETE FROM main.${name} WHERE (${key}) IN (SELECT ${key} FROM main.${name} WHERE ${ownedBy(name)} LIMIT ${PORTION})`;
};

/** What is added to the numbers of rows, by table. */
type Offsets = Readonly<Record<string, number>>;

/**
 * Chooses the numbers of rows, and keeps them from being given to others meanwhile. Where this server has none as high, they
 * stay the same; else they are higher than those of either server, so that a program's position in a list of before the move
 * lets it miss nothing.
 */
function reserve(sqlite: Database, tables: readonly { name: string }[]): Offsets {
  const offsets: Record<string, number> = {};
  for (const { name } of tables) {
    if (planOf(name).numbers?.seq !== name || !isSequence(sqlite, name)) continue;
    const { low, high } = boundsOf(sqlite, name);
    const [here, there] = [sequenceOf(sqlite, "main", name), Math.max(high, sequenceOf(sqlite, "moved", name))];
    const offset = here < low ? 0 : Math.max(here, there) - low + 1;
    raise(sqlite, name, Math.max(there, high + offset));
    offsets[name] = offset;
  }
  return offsets;
}

const isSequence = (sqlite: Database, name: string): boolean =>
  sqlite.prepare("SELECT 1 FROM main.sqlite_schema WHERE name = ? AND sql LIKE '%AUTOINCREMENT%'").get(name) !== null;

const boundsOf = (sqlite: Database, name: string): { low: number; high: number } =>
  sqlite
    .prepare<{ low: number; high: number }, []>(
      `SELECT coalesce(min(${KEY(name)}), 1) AS low, coalesce(max(${KEY(name)}), 0) AS high FROM moved.${name}`,
    )
    .get() ?? { low: 1, high: 0 };
const KEY = (name: string): string => (name === "access_notices" ? "id" : "seq");

const sequenceOf = (sqlite: Database, of: "main" | "moved", name: string): number =>
  sqlite.prepare<{ seq: number }, [string]>(`SELECT seq FROM ${of}.sqlite_sequence WHERE name = ?`).get(name)?.seq ?? 0;

/** Lets new rows of a table have numbers above `seq` only. */
function raise(sqlite: Database, name: string, seq: number): void {
  const raised = sqlite.prepare("UPDATE main.sqlite_sequence SET seq = max(seq, ?) WHERE name = ?").run(seq, name);
  if (raised.changes === 0) sqlite.prepare("INSERT INTO main.sqlite_sequence (name, seq) VALUES (?, ?)").run(name, seq);
}

/** The same for tables whose rows are written in one transaction, and need no numbers kept. */
function freshOffsets(sqlite: Database, names: readonly string[]): Offsets {
  const fresh = names.filter(
    (name) => Object.values(planOf(name).numbers ?? {}).includes(name) && !isSequence(sqlite, name),
  );
  return Object.fromEntries(
    fresh.map((name) => {
      const last = sqlite
        .prepare<{ seq: number }, []>(`SELECT coalesce(max(${KEY(name)}), 0) AS seq FROM main.${name}`)
        .get();
      return [name, (last?.seq ?? 0) - boundsOf(sqlite, name).low + 1];
    }),
  );
}

/** Ranges of the keys of a table in the export: after `from`, which is empty at first, to `through`. */
function* portionsOf(
  sqlite: Database,
  name: string,
): Generator<{ from: SQLQueryBindings[]; through: SQLQueryBindings[] }> {
  const key = primaryKeyOf(sqlite, name);
  // Its numbers are free in one transaction alone.
  const count = name === "junk_filters" ? Number.MAX_SAFE_INTEGER : PORTION;
  const list = key.join(", ");
  const page = (from: SQLQueryBindings[]) =>
    sqlite
      .prepare<Record<string, SQLQueryBindings>, SQLQueryBindings[]>(
        `SELECT ${list} FROM (SELECT ${list} FROM moved.${name} ${from.length > 0 ? `WHERE (${list}) > (${from.map(() => "?").join(", ")})` : ""}
           ORDER BY ${list} LIMIT ${count}) ORDER BY ${key.map((column) => `${column} DESC`).join(", ")} LIMIT 1`,
      )
      .get(...from);
  for (let from: SQLQueryBindings[] = []; ; ) {
    const row = page(from);
    if (!row) return;
    const through = Object.values(row);
    yield { from, through };
    from = through;
  }
}

/** SQL: the row `m` is in such a range. */
function between(sqlite: Database, name: string, isBounded: boolean): string {
  const key = primaryKeyOf(sqlite, name);
  const list = key.map((column) => `m.${column}`).join(", ");
  const marks = key.map(() => "?").join(", ");
  return `${isBounded ? `(${list}) > (${marks}) AND ` : ""}(${list}) <= (${marks})`;
}

/** Announced already, as far as it goes, by the server that made the export. */
const ANNOUNCED = "m.seq <= (SELECT event_seq FROM moved.webhook_cursor)";

const onlyAnnounced = (name: string): string => (name === "events" ? ` AND ${ANNOUNCED}` : "");

/** SQL that writes the rows `m` for which `where` is true. */
function inserting(sqlite: Database, name: string, offsets: Offsets, where: string): string {
  const { numbers = {}, values = {} } = planOf(name);
  const columns = columnsOf(sqlite, name);
  const from = columns.map((column) => {
    const plain = column.slice(1, -1);
    const of = numbers[plain];
    if (values[plain] !== undefined) return values[plain];
    if (of === undefined) return `m.${column}`;
    if (of === "threads") {
      // A conversation that is gone has a number that none has.
      return `coalesce((SELECT t.seq FROM main.threads t WHERE t.id = m.thread_id), -m.seq)`;
    }
    if (of === "junk_filters" && name !== of) {
      return `(SELECT f.seq FROM moved.junk_filters o JOIN main.junk_filters f ON f.mailbox_id = o.mailbox_id WHERE o.seq = m.${column})`;
    }
    return `m.${column} + ${offsets[of] ?? 0}`;
  });
  return `INSERT INTO main.${name} (${columns.join(", ")}) SELECT ${from.join(", ")} FROM moved.${name} m
    WHERE ${where}${onlyAnnounced(name)}`;
}

/** Adds what makes the workspace a served one. */
function finish(tx: Tx, { id, workspace }: ExportManifest, logs: Offsets): void {
  const sqlite = tx.$client;
  for (const name of ["events", "thread_changes"]) raise(sqlite, name, sequenceOf(sqlite, "moved", name));
  const lasting = MOVED.filter(({ stage }) => stage === "last");
  const offsets = {
    ...logs,
    ...freshOffsets(
      sqlite,
      lasting.map(({ name }) => name),
    ),
  };
  for (const { name } of lasting) {
    if (name === "mailboxes") {
      const columns = columnsOf(sqlite, name).filter((column) => column !== '"id"');
      const set = columns.map((column) => `${column} = m.${column}`).join(", ");
      sqlite.exec(`UPDATE main.mailboxes SET ${set} FROM moved.mailboxes m WHERE m.id = mailboxes.id`);
      continue;
    }
    sqlite.prepare(`DELETE FROM main.${name} WHERE ${ownedBy(name)}`).run(workspace.id);
    if (name === "oauth_grants") {
      const columns = columnsOf(sqlite, "oauth_clients").join(", ");
      sqlite.exec(`INSERT OR IGNORE INTO main.oauth_clients (${columns}) SELECT ${columns} FROM moved.oauth_clients`);
    }
    sqlite.exec(inserting(sqlite, name, offsets, "TRUE"));
  }
  announce(sqlite, logs);
  tellFollowers(sqlite, workspace.id);
  sqlite
    .prepare(
      `UPDATE main.workspaces SET moving = NULL, export_id = ?, paused_reason = m.paused_reason, keys_paused_at = m.keys_paused_at
       FROM moved.workspaces m WHERE workspaces.id = m.id`,
    )
    .run(id);
  unpark(tx, workspace.id);
}

/** Has the webhooks go on: with the deliveries that wait, and with the events that the other server had not announced. */
function announce(sqlite: Database, logs: Offsets): void {
  const columns = columnsOf(sqlite, "events")
    .filter((column) => column !== '"seq"')
    .join(", ");
  sqlite.exec(
    `INSERT INTO main.events (${columns}) SELECT ${columns} FROM moved.events m WHERE NOT (${ANNOUNCED}) ORDER BY seq;
     UPDATE main.webhook_endpoints SET due_at = m.due_at, sweeping = m.sweeping, telling = m.telling,
       after_event = coalesce(
         (SELECT max(e.seq) FROM moved.events o JOIN main.events e ON e.id = o.id WHERE o.seq <= m.after_event AND NOT (${ANNOUNCED.replace("m.", "o.")})),
         (SELECT event_seq FROM moved.webhook_cursor) + ${logs.events ?? 0})
     FROM moved.webhook_endpoints m WHERE m.id = webhook_endpoints.id`,
  );
}

/** Programs that followed the other server learn of all conversations anew, and which were deleted. */
function tellFollowers(sqlite: Database, workspaceId: string): void {
  const { seq } = sqlite
    .prepare<{ seq: number }, []>("SELECT coalesce(max(seq), 0) AS seq FROM main.thread_changes")
    .get() ?? { seq: 0 };
  const after = Math.max(seq, sequenceOf(sqlite, "main", "thread_changes"));
  sqlite
    .prepare(
      `INSERT INTO main.thread_changes (seq, thread_seq, thread_id, mailbox_id, kind)
       SELECT ?1 + n, -?1 - n, thread_id, mailbox_id, kind
       FROM (SELECT row_number() OVER (ORDER BY seq) AS n, * FROM moved.thread_changes)`,
    )
    .run(after);
  sqlite
    .prepare(
      `INSERT INTO main.thread_changes (kind, user_id, through)
       SELECT 'upserted', id, coalesce((SELECT seq FROM main.sqlite_sequence WHERE name = 'threads'), 0)
       FROM main.users WHERE workspace_id = ?`,
    )
    .run(workspaceId);
}

/** Copies blobs from the export, and checks them. @throws AppError conflict for one that is missing or damaged */
async function copyBlobs(
  { blobs }: Pick<Store, "blobs">,
  folder: string,
  lacking: ReadonlySet<string>,
  named: readonly { blob: string }[],
): Promise<void> {
  for (const { blob } of named) {
    if (lacking.has(blob)) continue;
    const path = blobPath(join(folder, BLOBS), blob);
    const size = await sizeOf(path);
    if (size === undefined || size > LARGEST_BLOB)
      throw damaged(`blobs/${blob} ${size === undefined ? "is missing" : "is too large"}`);
    const bytes = new Uint8Array(await Bun.file(path).arrayBuffer());
    if (new Bun.CryptoHasher("sha256").update(bytes).digest("hex") !== blob) throw damaged(`blobs/${blob}`);
    await blobs.write(bytes);
  }
}

/** The secrets of second factors, by the ids of their people. @throws AppError for an identity that does not open them */
async function secretsOf({ path }: FoundExport, identities: Identities | undefined): Promise<Map<string, Uint8Array>> {
  const file = join(path, SECOND_FACTORS);
  if (!identities || (await sizeOf(file)) === undefined) return new Map();
  try {
    const secrets = JSON.parse(await identities.decryptText(file)) as Record<string, string>;
    return new Map(Object.entries(secrets).map(([id, secret]) => [id, Buffer.from(secret, "base64")]));
  } catch (error) {
    throw new AppError("bad_request", `the identity does not open the second factors of the export`, { cause: error });
  }
}

const peopleWithFactors = (sqlite: Database, workspaceId: string): { userId: string; email: string }[] =>
  sqlite
    .prepare<{ userId: string; email: string }, [string]>(
      `SELECT users.id AS userId, email FROM users JOIN second_factors ON user_id = users.id WHERE workspace_id = ? ORDER BY email`,
    )
    .all(workspaceId);
