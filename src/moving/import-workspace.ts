/**
 * Imports an export of a workspace, with the server running or stopped. The workspace is not served until all of it is there
 * and compared: its people, domains and addresses come last, in one transaction.
 *
 *   export ──► in: conversations, then logs, in portions ──► search index ──► served, if the export is final
 *     later export ──┘
 *
 * Conversations that are there already, the same in every row, stay; others are replaced whole. So an import that was cut short
 * goes on, and a later export brings an earlier one up to date. Everything else is written anew.
 *
 * Invariants: until the last transaction nobody reaches anything of the workspace, and it takes nothing from other workspaces:
 * no name, address or domain. The import never changes theirs. The same export again changes nothing.
 */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import { rm } from "node:fs/promises";
import { join, resolve } from "node:path";
import { secondFactorKeyPath } from "../access/identity.ts";
import { openSecretSeal } from "../access/seal.ts";
import { replaceSecondFactorSecret } from "../access/second-factor.ts";
import { isDomainClaimProven, markDomainVerified } from "../admin/domains.ts";
import type { Identities } from "../backup/age.ts";
import { BLOBS } from "../backup/backup-layout.ts";
import { copyFile, findFileSize, runConcurrently } from "../backup/durable-files.ts";
import { AppError } from "../base/errors.ts";
import { deleteMailboxMailPortion } from "../mailbox/changing/removal.ts";
import { makeOctetsLater } from "../mailbox/reading/missing-octets.ts";
import type { MailCore } from "../mailbox/state/mail-core.ts";
import { countIndexBacklog, indexMissingMessages } from "../search/fts5/upkeep.ts";
import { blobPath } from "../store/blobs.ts";
import { tryLockFile } from "../store/claim.ts";
import type { Core } from "../store/core.ts";
import type { NotAPromise, Store, Tx } from "../store/store.ts";
import { createPacing } from "../transfer/import-mail.ts";
import {
  checkDatabaseValues,
  damagedExportError,
  type FoundExport,
  findPlainFileSize,
  openExport,
} from "./check-export.ts";
import { type ExportManifest, SECOND_FACTORS } from "./export-layout.ts";
import { finishWorkspaceImport } from "./finish.ts";
import {
  chooseFreshOffsets,
  deletePortionSql,
  insertRowsSql,
  listKeyRanges,
  messagesBetweenSql,
  onlyAnnouncedEventsSql,
  ownedByWorkspaceSql,
  PORTION,
  reserveRowNumbers,
  rowsInRangeSql,
} from "./rows.ts";
import { MOVED } from "./tables.ts";
import { checkExportedBodies, requireTrustworthyExport } from "./trust.ts";
import { createConversationImport } from "./write-conversations.ts";

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
  /** Those of `domains` that are only claims here: no mail is taken or sent under them. */
  unverified: string[];
  settings: Record<string, string>;
}

/** Messages that a transaction of the removal of a mailbox deletes. */
const DELETED_AT_ONCE = 200;
const LARGEST_BLOB = 128 * 1024 * 1024;
/** The file of the data folder in which a blob is until it is whole. */
const STAGED = "import.blob";
const INTERRUPTED = "interrupted; run it again to go on";

/** @throws AppError conflict for what is damaged, newer than this program, or in the way; not_found; errors of the store */
export async function importWorkspace(core: MailCore, request: ImportRequest): Promise<Imported> {
  const { data } = request;
  const release = tryLockFile(join(data, "import.lock"));
  if (!release) throw new AppError("conflict", "another import of a workspace is under way");
  try {
    const found = await openExport(resolve(request.folder), data);
    try {
      return await bringIn(core, request, found);
    } finally {
      found.close();
      await rm(join(data, STAGED), { force: true });
    }
  } finally {
    release();
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

/** Those whose rows come last, which others may take meanwhile. */
const LATER = MOVED.flatMap(({ name, stage }) => (stage === "last" && Object.hasOwn(UNIQUE, name) ? [name] : []));

async function bringIn(core: MailCore, request: ImportRequest, found: FoundExport): Promise<Imported> {
  const { store, runtime, log } = core;
  const { data, identities, isInterrupted, onProgress } = request;
  const { manifest } = found;
  const workspaceId = manifest.workspace.id;
  const sqlite = store.db.$client;
  sqlite.prepare("ATTACH ? AS moved").run(found.database);
  checkDatabaseValues(sqlite, manifest.workspace);
  await requireTrustworthyExport(sqlite, found, runtime.now());
  const pacing = createPacing(core, isInterrupted);
  const secrets = await readFactorSecrets(found, identities);

  requireFree(sqlite, manifest, Object.keys(UNIQUE));
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
    unverified: [],
    settings: manifest.settings,
  };
  if (present === "served") return result;

  const lacking = new Set(manifest.lacking);
  renameLacking(sqlite, manifest);
  const bringBlobs = (query: string, ...range: SQLQueryBindings[]) =>
    copyBlobs(
      { blobs: store.blobs, staged: join(data, STAGED) },
      found.folder,
      lacking,
      sqlite.prepare<NamedBlob, SQLQueryBindings[]>(query).all(...range),
    );
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
  const mail = createConversationImport(sqlite);
  for (let after = 0, last = mail.next(after, pacing.room()); last !== null; last = mail.next(after, pacing.room())) {
    const through: number = last;
    const from = after + 1;
    checkExportedBodies(sqlite, from, through);
    for (const table of ["attachments", "message_octets", "holds"]) {
      await bringBlobs(
        `SELECT DISTINCT blob, ${blobSizesSql(table)} FROM moved.${table} WHERE blob IS NOT NULL AND message_seq ${messagesBetweenSql("?1", "?2")}`,
        from,
        through,
      );
    }
    result.written += await paced(pacing.room(), (tx) => {
      const seqs = mail.bring(from, through);
      for (const { seq } of seqs.messages) core.engine.addLater(tx, seq);
      makeOctetsLater(
        tx,
        seqs.messages.map(({ seq }) => seq),
      );
      return seqs.threads;
    });
    after = through;
    onProgress(() => `${result.written} of ${manifest.rows.threads ?? 0} conversations written`);
  }
  await paced(1, () => void mail.linkDrafts());

  const logs = MOVED.filter(({ stage }) => stage === "log");
  for (const { name } of logs.toReversed()) {
    const statement = sqlite.prepare<unknown, [string]>(deletePortionSql(sqlite, name));
    while ((await paced(PORTION, () => statement.run(workspaceId).changes)) > 0);
  }
  const offsets = await paced(1, () => reserveRowNumbers(sqlite, logs));
  for (const { name } of logs) {
    onProgress(() => `writing ${name}`);
    for (const { from, through } of listKeyRanges(sqlite, name)) {
      const range = [...from, ...through];
      if (name === "outbound_contents") {
        const named = `SELECT blob, ${blobSizesSql(name)} FROM moved.${name} m WHERE blob IS NOT NULL AND ${rowsInRangeSql(sqlite, name, from.length > 0)}`;
        await bringBlobs(named, ...range);
      }
      await paced(PORTION, () => {
        const numbers = { ...offsets, ...chooseFreshOffsets(sqlite, [name]) };
        const where = rowsInRangeSql(sqlite, name, from.length > 0);
        const written = sqlite.prepare(insertRowsSql(sqlite, name, numbers, where)).run(...range).changes;
        const listed = sqlite.prepare<{ n: number }, SQLQueryBindings[]>(
          `SELECT count(*) AS n FROM moved.${name} m WHERE ${where}${onlyAnnouncedEventsSql(name)}`,
        );
        if (listed.get(...range)?.n !== written) throw new Error(`not all rows of ${name} were written`);
      });
    }
  }

  while (countIndexBacklog(core.db) > 0) {
    await paced(pacing.room(), (tx) => indexMissingMessages(tx, core.engine, pacing.room()));
    onProgress(() => `${countIndexBacklog(core.db)} messages to be indexed`);
  }
  if (!manifest.final) return result;

  const proven = await provenDomains(core, sqlite);
  const seal = openSecretSeal(secondFactorKeyPath(data), runtime, log);
  await paced(1, (tx) => {
    requireFree(sqlite, manifest, LATER);
    finishWorkspaceImport(tx, manifest, offsets, runtime.now());
    for (const id of proven) markDomainVerified(core, tx, id);
    for (const { userId, email } of peopleWithFactors(sqlite, workspaceId)) {
      const secret = secrets.get(userId);
      if (secret) replaceSecondFactorSecret(tx, userId, seal.close(secret, userId));
      else result.withoutFactor.push(email);
    }
  });
  result.unverified = sqlite
    .prepare<{ name: string }, [string]>(
      "SELECT name FROM main.domains WHERE workspace_id = ? AND verified_at IS NULL ORDER BY name",
    )
    .all(workspaceId)
    .map(({ name }) => name);
  return result;
}

/** Ids of the domains that were verified at the other server, and whose records are seen from here. */
async function provenDomains(core: Core, sqlite: Database): Promise<string[]> {
  const claims = sqlite
    .prepare<{ id: string; name: string; ownershipToken: string }, []>(
      "SELECT id, name, ownership_token AS ownershipToken FROM moved.domains WHERE verified_at IS NOT NULL",
    )
    .all();
  const keysOf = sqlite.prepare<{ selector: string; algorithm: "rsa" | "ed25519"; publicKey: string }, [string]>(
    "SELECT selector, algorithm, public_key AS publicKey FROM moved.dkim_keys WHERE domain_id = ?",
  );
  const proven: string[] = [];
  await runConcurrently(claims, async (claim) => {
    if (await isDomainClaimProven(core, claim, keysOf.all(claim.id))) proven.push(claim.id);
  });
  return proven;
}

/** Gives files that the export lacks a name of their own, unless an earlier import of the workspace brought them. */
function renameLacking(sqlite: Database, { workspace, lacking }: ExportManifest): void {
  sqlite.exec("CREATE TEMP TABLE lacking (blob TEXT PRIMARY KEY, instead TEXT NOT NULL)");
  const owned = sqlite.prepare(
    ["attachments", "message_octets"]
      .map(
        (table) => `SELECT 1 FROM main.${table} a JOIN main.messages m ON m.seq = a.message_seq
          JOIN main.mailboxes b ON b.id = m.mailbox_id WHERE a.blob = ?1 AND b.workspace_id = ?2`,
      )
      .join(" UNION ALL "),
  );
  const rename = sqlite.prepare("INSERT OR IGNORE INTO temp.lacking VALUES (?, ?)");
  for (const blob of lacking) {
    if (owned.get(blob, workspace.id) !== null) continue;
    rename.run(blob, new Bun.CryptoHasher("sha256").update(`${workspace.id} ${blob}`).digest("hex"));
  }
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
  requireFree(sqlite, manifest, LATER);
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
    sqlite.prepare(`DELETE FROM main.${table.name} WHERE ${ownedByWorkspaceSql(table.name)}`).run(id);
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
function requireFree(sqlite: Database, { workspace }: ExportManifest, tables: readonly string[]): void {
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
  for (const table of tables) {
    for (const column of UNIQUE[table] ?? []) {
      const taken = first(
        `SELECT o.${column} AS taken FROM moved.${table} m CROSS JOIN main.${table} o ON o.${column} = m.${column}
         WHERE NOT (${ownedByWorkspaceSql(table).replace(/^(\w+)/, "o.$1")}) LIMIT 1`,
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
    while (await paced(DELETED_AT_ONCE, (tx) => deleteMailboxMailPortion(tx, id, DELETED_AT_ONCE)));
    await paced(1, () => void sqlite.prepare("DELETE FROM main.mailboxes WHERE id = ?").run(id));
  }
  // Looked for outside a transaction, since it reads all conversations.
  const strays = sqlite.prepare<{ seq: number }, [string]>(
    `SELECT t.seq FROM main.mailboxes b CROSS JOIN main.threads t ON t.mailbox_id = b.id
     WHERE b.workspace_id = ?1 AND NOT EXISTS (SELECT 1 FROM moved.threads m WHERE m.id = t.id)`,
  );
  const left = strays.all(workspaceId).map(({ seq }) => seq);
  while (left.length > 0) {
    const seqs = JSON.stringify(left.splice(0, DELETED_AT_ONCE));
    await paced(DELETED_AT_ONCE, () => {
      sqlite.prepare("DELETE FROM main.threads WHERE seq IN (SELECT value FROM json_each(?))").run(seqs);
    });
  }
}

/** A file that a row names, and how many bytes it may have by that row. */
interface NamedBlob {
  blob: string;
  least: number;
  most: number;
}

/** SQL for the columns of NamedBlob. A packed skeleton has little more bytes than its octets. */
const blobSizesSql = (table: string): string =>
  table === "message_octets"
    ? "0 AS least, size + size / 64 + 1000 AS most"
    : `coalesce(size, 0) AS least, coalesce(size, ${LARGEST_BLOB}) AS most`;

/**
 * Copies blobs from the export piece by piece, and checks them. `staged`: where one is written until it is whole. @throws AppError
 * conflict for one that is missing or damaged
 */
async function copyBlobs(
  { blobs, staged }: Pick<Store, "blobs"> & { staged: string },
  folder: string,
  lacking: ReadonlySet<string>,
  named: readonly NamedBlob[],
): Promise<void> {
  for (const { blob, least, most } of named) {
    if (lacking.has(blob)) continue;
    const path = blobPath(join(folder, BLOBS), blob);
    const size = await findPlainFileSize(path);
    if (size === undefined || size > LARGEST_BLOB)
      throw damagedExportError(`blobs/${blob} ${size === undefined ? "is missing" : "is too large"}`);
    // What is small by its row is read whole beside other work.
    if (size < least || size > most) throw damagedExportError(`blobs/${blob} has another size than its row says`);
    if ((await copyFile(path, staged, blob)).sha256 !== blob) throw damagedExportError(`blobs/${blob}`);
    await blobs.adopt(staged, blob);
  }
}

/** The secrets of second factors, by the ids of their people. @throws AppError for an identity that does not open them */
async function readFactorSecrets(
  { path }: FoundExport,
  identities: Identities | undefined,
): Promise<Map<string, Uint8Array>> {
  const file = join(path, SECOND_FACTORS);
  if (!identities || (await findFileSize(file)) === undefined) return new Map();
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
