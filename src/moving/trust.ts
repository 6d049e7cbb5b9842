/**
 * Checks the rows of an export before any of them is written. Somebody who had the folder in hand may have edited it, to get at
 * data of other workspaces of this server, to send in their name, or to use the server up. They may spoil their own workspace.
 */
import { Database } from "bun:sqlite";
import { createPrivateKey, createPublicKey } from "node:crypto";
import { open } from "node:fs/promises";
import { join } from "node:path";
import { isAffordablePasswordHash } from "../access/imported-hash.ts";
import { BLOBS } from "../backup/backup-layout.ts";
import { AppError } from "../base/errors.ts";
import { EVENT_NAMES } from "../events/kinds.ts";
import { MOST_RULES, normalizeGivenRules } from "../mailbox/filing/rules.ts";
import { normalizeMailDomain, splitAddress } from "../message/address.ts";
import { unpackText } from "../message/reading.ts";
import { readDestination } from "../net/destination.ts";
import { readSubmitted } from "../outbound/submitted.ts";
import { blobPath } from "../store/blobs.ts";
import { LARGEST_MESSAGE } from "../transfer/import-mail.ts";
import {
  checkDatabaseValues,
  Damaged,
  damagedExportError,
  type FoundExport,
  findPlainFileSize,
} from "./check-export.ts";
import { messagesBetweenSql, ownedByWorkspaceSql } from "./rows.ts";

/** Columns that name a row without a foreign key, and the tables of these rows. */
const NAMING: readonly [table: string, column: string, of: string][] = [
  ["messages", "sent_by", "users"],
  ["drafts", "due_by", "users"],
  ["drafts", "due_key", "api_keys"],
  ["holds", "message_id", "messages"],
  ["holds", "key_id", "api_keys"],
  ["holds", "user_id", "users"],
  ["holds", "decided_by", "users"],
  ["holds", "answers", "threads"],
  ["automatic_mail", "mailbox_id", "mailboxes"],
  ["api_keys", "made_by", "api_keys"],
  ["api_keys", "made_by", "sessions"],
  ["webhook_endpoints", "made_by", "api_keys"],
  ["journal_entries", "key_id", "api_keys"],
  ["journal_entries", "user_id", "users"],
  ["key_changes", "key_id", "api_keys"],
  ["key_changes", "mailbox_id", "mailboxes"],
  ["key_changes", "thread_id", "threads"],
  ["events", "email_id", "messages"],
  ["outbound_messages", "id", "messages"],
  ["outbound_messages", "mailbox_id", "mailboxes"],
  ["outbound_messages", "thread_id", "threads"],
  ["thread_changes", "mailbox_id", "mailboxes"],
];
/** Conditions like those of `ownedByWorkspaceSql`, for rows `o` of tables that do not move. */
const OWNED: Readonly<Record<string, string>> = {
  sessions: "o.user_id IN (SELECT id FROM main.users WHERE workspace_id = ?1)",
};

/** Keys that sign each message of a domain, and the sizes of those that this server makes or takes. */
const MOST_KEYS = 8;
const RSA_BITS = { least: 1_024, most: 4_096 };
/** Bytes of a message that are searched for its header. */
const LONGEST_HEADER = 256 * 1024;
const BEGINNING = `substr(c.bytes, 1, ${LONGEST_HEADER}) AS bytes, c.blob`;

/** @throws AppError conflict */
export async function requireTrustworthyExport(
  sqlite: Database,
  { folder, manifest }: Pick<FoundExport, "folder" | "manifest">,
  now: number,
): Promise<void> {
  refuseOthers(sqlite, manifest.workspace.id);
  // Without a key the public token alone would prove the domain.
  const bare = sqlite
    .prepare<{ name: string }, []>(
      "SELECT name FROM moved.domains WHERE id NOT IN (SELECT domain_id FROM moved.dkim_keys) LIMIT 1",
    )
    .get();
  if (bare) throw damagedExportError(`the DKIM keys of ${bare.name}`);
  const names = new Set(checkRows(sqlite, now));
  const queued = sqlite.prepare<Content & { domain: string }, []>(
    `SELECT ${BEGINNING}, m.domain FROM moved.outbound_contents c JOIN moved.outbound_messages m ON m.seq = c.message_seq
     WHERE m.notice = 0`,
  );
  for (const { domain, ...content } of queued.iterate()) {
    const from = await findAuthorDomain(folder, content);
    if (from !== undefined && from !== domain)
      throw damagedExportError(`a message of the queue is from ${from}, not ${domain}`);
  }
  const held = sqlite.prepare<Content, []>(
    `SELECT ${BEGINNING} FROM moved.holds c WHERE bytes IS NOT NULL OR blob IS NOT NULL`,
  );
  for (const content of held.iterate()) {
    const from = await findAuthorDomain(folder, content);
    if (from !== undefined && !names.has(from)) throw damagedExportError(`a held message is from ${from}`);
  }
}

/**
 * Checks what could have the server spend itself, or that its own code never writes. Returns the names of the domains.
 * @throws AppError conflict
 */
function checkRows(sqlite: Database, now: number): string[] {
  const rows = <T>(query: string): T[] => sqlite.prepare<T, []>(query).all();
  const domains = rows<{ id: string; name: string }>("SELECT id, name FROM moved.domains");
  for (const { id, name } of domains) {
    if (normalizeMailDomain(name) !== name) throw damagedExportError("the name of a domain");
    const keys = sqlite
      .prepare<SigningKey, [string]>(
        "SELECT algorithm, selector, private_key AS privateKey, public_key AS publicKey FROM moved.dkim_keys WHERE domain_id = ?",
      )
      .all(id);
    if (keys.length > MOST_KEYS || !keys.every(isPair)) throw damagedExportError(`the DKIM keys of ${name}`);
  }
  for (const { email, hash } of rows<{ email: string; hash: string }>(
    "SELECT email, password_hash AS hash FROM moved.users WHERE password_hash IS NOT NULL",
  )) {
    if (!isAffordablePasswordHash(hash)) throw damagedExportError(`the password of ${email}`);
  }
  for (const { url, events } of rows<{ url: string; events: string }>(
    "SELECT url, events FROM moved.webhook_endpoints WHERE state <> 'removed'",
  )) {
    orDamaged(`the webhook ${url}`, () => {
      // Private networks are for each attempt to judge.
      readDestination(url, ["0.0.0.0/0", "::/0"]);
      const names: readonly string[] = EVENT_NAMES;
      if (!(JSON.parse(events) as string[]).every((name) => names.includes(name))) throw new Error("no such event");
    });
  }
  for (const { rules } of rows<{ rules: string }>("SELECT rules FROM moved.mailbox_rules")) {
    orDamaged("a row of mailbox_rules", () => {
      if (normalizeGivenRules(JSON.parse(rules), now).length > MOST_RULES) throw new Error("too many rules");
    });
  }
  return domains.map(({ name }) => name);
}

/**
 * Checks the database of a backup that was restored, of this program's schema, as that of an export. `now`: epoch ms.
 * @throws AppError conflict
 */
export function checkRestoredDatabase(file: string, now: number): void {
  const sqlite = new Database(":memory:", { strict: true });
  try {
    sqlite.prepare("ATTACH ? AS moved").run(file);
    // Unlike the check of a snapshot, which is opened to read alone, this one heeds the CHECK constraints.
    const [{ quick_check: finding = "" } = {}] = sqlite
      .query<{ quick_check: string }, []>("PRAGMA moved.quick_check(1)")
      .all();
    if (finding !== "ok") throw damagedExportError(finding);
    checkDatabaseValues(sqlite);
    const orphan = sqlite.query<{ table: string }, []>("PRAGMA moved.foreign_key_check").get();
    if (orphan) throw damagedExportError(`a row of ${orphan.table} belongs to nothing`);
    checkRows(sqlite, now);
    checkExportedBodies(sqlite, 0, Number.MAX_SAFE_INTEGER);
  } catch (error) {
    if (!(error instanceof Damaged)) throw error;
    throw new AppError(
      "conflict",
      `the backup has what no server writes (${error.what}): restore another generation, or this one with --trusted if nobody else could change it`,
      {
        cause: error,
      },
    );
  } finally {
    sqlite.close();
  }
}

/** @throws AppError conflict for a row that names one of another workspace here, or a person at a domain of one */
function refuseOthers(sqlite: Database, workspaceId: string): void {
  for (const [table, column, of] of NAMING) {
    const owned = OWNED[of] ?? ownedByWorkspaceSql(of).replace(/^(\w+)/, "o.$1");
    const found = sqlite
      .prepare(
        `SELECT 1 FROM moved.${table} m CROSS JOIN main.${of} o ON o.id = m.${column} WHERE NOT (${owned}) LIMIT 1`,
      )
      .get(workspaceId);
    if (found !== null) throw damagedExportError(`a row of ${table} names what another workspace has here`);
  }
  const person = sqlite
    .prepare<{ email: string; name: string }, [string]>(
      `SELECT m.email, o.name FROM moved.users m JOIN main.domains o
         ON o.verified_at IS NOT NULL AND o.workspace_id <> ?1 AND substr(m.email, -length(o.name) - 1) = '@' || o.name LIMIT 1`,
    )
    .get(workspaceId);
  if (person) {
    throw new AppError(
      "conflict",
      `another workspace has verified ${person.name} here: give ${person.email} another address`,
    );
  }
}

interface SigningKey {
  algorithm: string;
  selector: string;
  privateKey: string;
  publicKey: string;
}

/** True for a private key that the published one belongs to: who has it proves that the records are theirs. */
function isPair({ algorithm, selector, privateKey, publicKey }: SigningKey): boolean {
  if (privateKey.length > LONGEST_PEM || !/^[a-z0-9](?:[a-z0-9.-]{0,61}[a-z0-9])?$/.test(selector)) return false;
  try {
    const key = createPrivateKey(privateKey);
    const bits = key.asymmetricKeyDetails?.modulusLength ?? 0;
    if (key.asymmetricKeyType !== algorithm) return false;
    if (algorithm === "rsa" && (bits < RSA_BITS.least || bits > RSA_BITS.most)) return false;
    const spki = createPublicKey(key).export({ type: "spki", format: "der" });
    return publicKey === (algorithm === "rsa" ? spki : spki.subarray(-ED25519_BYTES)).toString("base64");
  } catch {
    return false;
  }
}
const LONGEST_PEM = 8_192;
const ED25519_BYTES = 32;

interface Content {
  bytes: Uint8Array | null;
  blob: string | null;
}

/** The domain of a message's only author; undefined if the export lacks the message. @throws AppError conflict for several */
async function findAuthorDomain(folder: string, { bytes, blob }: Content): Promise<string | undefined> {
  const beginning = bytes ?? (await readFileBeginning(blobPath(join(folder, BLOBS), blob ?? "")));
  if (beginning === undefined) return undefined;
  const text = Buffer.from(beginning.buffer, beginning.byteOffset, Math.min(beginning.byteLength, LONGEST_HEADER));
  const end = text.indexOf("\r\n\r\n");
  return orDamaged("the header of a message that is to be sent", () => {
    if (end < 0 && beginning.byteLength >= LONGEST_HEADER) throw new Error("it has no end");
    const { from } = readSubmitted(end < 0 ? text : text.subarray(0, end + 4));
    return splitAddress(from).domain.toLowerCase();
  });
}

async function readFileBeginning(path: string): Promise<Uint8Array | undefined> {
  if ((await findPlainFileSize(path)) === undefined) return undefined;
  const file = await open(path);
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(LONGEST_HEADER), 0, LONGEST_HEADER, 0);
    return buffer.subarray(0, bytesRead);
  } finally {
    await file.close();
  }
}

/** Checks that the bodies of conversations unpack, to no more than a message may have. @throws AppError conflict */
export function checkExportedBodies(sqlite: Database, from: number, through: number): void {
  type Packed = Uint8Array | null;
  type Body = { source: Packed; seen: Packed; html: Packed; htmlBytes: number | null };
  const bodies = sqlite.prepare<Body, [number, number]>(
    `SELECT html_source AS source, seen_text AS seen, iif(typeof(html) = 'blob', html, NULL) AS html, html_bytes AS htmlBytes
     FROM moved.message_bodies WHERE message_seq ${messagesBetweenSql("?1", "?2")}`,
  );
  for (const { source, seen, html, htmlBytes } of bodies.iterate(from, through)) {
    for (const [packed, most] of [[source], [seen], [html, htmlBytes ?? 0]] as const) {
      const atMost = Math.min(most ?? LARGEST_MESSAGE, LARGEST_MESSAGE);
      if (packed) orDamaged("a row of message_bodies", () => void unpackText(packed, atMost));
    }
  }
}

function orDamaged<T>(what: string, check: () => T): T {
  try {
    return check();
  } catch (error) {
    throw damagedExportError(what, error);
  }
}
