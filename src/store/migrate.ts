/**
 * Migrates a database to this program's schema: forward only, all or nothing, and never while a server runs on it. To
 * go back, restore a backup: an older program refuses a newer database.
 */
import { Database } from "bun:sqlite";
import mail from "./migrations/0001_mail.sql" with { type: "text" };
import sending from "./migrations/0002_sending.sql" with { type: "text" };
import webhooks from "./migrations/0003_webhooks.sql" with { type: "text" };
import junk from "./migrations/0004_junk.sql" with { type: "text" };
import greylist from "./migrations/0005_greylist.sql" with { type: "text" };
import sessions from "./migrations/0006_sessions.sql" with { type: "text" };
import drafts from "./migrations/0007_drafts.sql" with { type: "text" };
import identity from "./migrations/0008_identity.sql" with { type: "text" };
import reading from "./migrations/0009_reading.sql" with { type: "text" };
import transport from "./migrations/0010_transport.sql" with { type: "text" };
import trace from "./migrations/0011_trace.sql" with { type: "text" };
import imported from "./migrations/0012_import.sql" with { type: "text" };
import discarded from "./migrations/0013_discarded.sql" with { type: "text" };
import search from "./migrations/0014_search.sql" with { type: "text" };
import searchLayout from "./migrations/0015_search_layout.sql" with { type: "text" };
import webhookWaiting from "./migrations/0016_webhook_waiting.sql" with { type: "text" };
import webhookRuns from "./migrations/0017_webhook_runs.sql" with { type: "text" };
import webhookLog from "./migrations/0018_webhook_log.sql" with { type: "text" };
import reports from "./migrations/0019_reports.sql" with { type: "text" };
import domainClaims from "./migrations/0020_domain_claims.sql" with { type: "text" };
import access from "./migrations/0021_access.sql" with { type: "text" };
import queueLines from "./migrations/0022_queue_lines.sql" with { type: "text" };
import seen from "./migrations/0023_seen.sql" with { type: "text" };
import webhookQueue from "./migrations/0024_webhook_queue.sql" with { type: "text" };
import mailboxExpiry from "./migrations/0025_mailbox_expiry.sql" with { type: "text" };
import webhookDescription from "./migrations/0026_webhook_description.sql" with { type: "text" };
import shortPasswords from "./migrations/0027_short_passwords.sql" with { type: "text" };
import knownNetworks from "./migrations/0028_known_networks.sql" with { type: "text" };
import fewerPages from "./migrations/0029_fewer_pages.sql" with { type: "text" };
import keyNotices from "./migrations/0030_key_notices.sql" with { type: "text" };
import searchWaiting from "./migrations/0031_search_waiting.sql" with { type: "text" };
import greylistNetworks from "./migrations/0032_greylist_networks.sql" with { type: "text" };
import changes from "./migrations/0033_changes.sql" with { type: "text" };
import scheduledByKey from "./migrations/0034_scheduled_by_key.sql" with { type: "text" };
import searchOperators from "./migrations/0035_search_operators.sql" with { type: "text" };
import dsn from "./migrations/0036_dsn.sql" with { type: "text" };
import policies from "./migrations/0037_policies.sql" with { type: "text" };
import holds from "./migrations/0038_holds.sql" with { type: "text" };
import journal from "./migrations/0039_journal.sql" with { type: "text" };
import holdChanges from "./migrations/0040_hold_changes.sql" with { type: "text" };
import oauth from "./migrations/0041_oauth.sql" with { type: "text" };
import moving from "./migrations/0042_moving.sql" with { type: "text" };
import mailboxTexts from "./migrations/0043_mailbox_texts.sql" with { type: "text" };
import rules from "./migrations/0044_rules.sql" with { type: "text" };
import readingMail from "./migrations/0045_reading.sql" with { type: "text" };
import push from "./migrations/0046_push.sql" with { type: "text" };
import messageFolders from "./migrations/0047_message_folders.sql" with { type: "text" };
import uids from "./migrations/0048_uids.sql" with { type: "text" };
import octets from "./migrations/0049_octets.sql" with { type: "text" };
import journalImap from "./migrations/0050_journal_imap.sql" with { type: "text" };
import appPasswordAccess from "./migrations/0051_app_passwords.sql" with { type: "text" };
import labelFolders from "./migrations/0052_label_folders.sql" with { type: "text" };
import seenWords from "./migrations/0053_seen_words.sql" with { type: "text" };
import signInSources from "./migrations/0054_sign_in_sources.sql" with { type: "text" };
import provenance from "./migrations/0055_provenance.sql" with { type: "text" };
import workspaceLimits from "./migrations/0056_workspace_limits.sql" with { type: "text" };
import registeredFrom from "./migrations/0057_registered_from.sql" with { type: "text" };
import endedByKey from "./migrations/0058_ended_by_key.sql" with { type: "text" };
import draftWriter from "./migrations/0059_draft_writer.sql" with { type: "text" };
import webhookMaker from "./migrations/0060_webhook_maker.sql" with { type: "text" };
import locks from "./migrations/0061_locks.sql" with { type: "text" };
import apart from "./migrations/0062_apart.sql" with { type: "text" };
import attachmentTypes from "./migrations/0063_attachment_types.sql" with { type: "text" };
import messageOctets from "./migrations/0064_message_octets.sql" with { type: "text" };
import octetsWaiting from "./migrations/0065_octets_waiting.sql" with { type: "text" };
import packedHtml from "./migrations/0066_packed_html.sql" with { type: "text" };

const readSchemaVersion = (sqlite: Database): number =>
  (sqlite.query("PRAGMA user_version").get() as { user_version: number }).user_version;

/**
 * @throws Error that names the newer version, the failed migration, or the holder of the folder; then nothing was
 * changed
 */
export function migrateDatabase(
  sqlite: Database,
  {
    claim,
    migrations = MIGRATIONS,
  }: {
    /**
     * Claims the data folder while its schema changes; returns the function that releases it. A server of the previous
     * version would continue with statements for dropped tables. @throws if a server holds it
     */
    claim(): () => void;
    /** The whole list, oldest first. */
    migrations?: readonly string[];
  },
): void {
  const known = migrations.length;
  const found = readSchemaVersion(sqlite);
  if (found > known) {
    throw new Error(
      `The data folder was written by a newer Mailroom (schema ${found}, this one knows ${known}): start that version, or restore a backup`,
    );
  }
  if (found === known) return;
  const release = found === 0 ? undefined : claim();
  try {
    applyMissing(sqlite, migrations);
  } finally {
    release?.();
  }
}

const empty = new Map<number, Uint8Array>();

/** The bytes of a database without rows, as the first migrations leave it, by default all. They run once in a process. */
export function emptyDatabase(schema = MIGRATIONS.length): Uint8Array {
  const known = empty.get(schema);
  if (known) return known;
  const sqlite = new Database(":memory:");
  try {
    migrateDatabase(sqlite, { claim: () => () => {}, migrations: MIGRATIONS.slice(0, schema) });
    const bytes = sqlite.serialize();
    empty.set(schema, bytes);
    return bytes;
  } finally {
    sqlite.close();
  }
}

function applyMissing(sqlite: Database, migrations: readonly string[]): void {
  // Rebuilding a table drops it, which would delete the rows that refer to it. The pragma works only outside a
  // transaction.
  sqlite.exec("PRAGMA foreign_keys = OFF");
  // Two processes may start at once: the second finds the work done once it has the lock.
  sqlite.exec("BEGIN EXCLUSIVE");
  const from = readSchemaVersion(sqlite);
  let reached = from;
  try {
    for (const sql of migrations.slice(from)) {
      sqlite.exec(sql);
      reached++;
    }
    const orphan = sqlite.query("PRAGMA foreign_key_check").get() as { table: string; parent: string } | null;
    if (orphan) throw new Error(`a row of ${orphan.table} would refer to a row of ${orphan.parent} that is gone`);
    sqlite.exec(`PRAGMA user_version = ${migrations.length}`);
    sqlite.exec("COMMIT");
  } catch (error) {
    // On a full disk, SQLite rolls back on its own.
    if (sqlite.inTransaction) sqlite.exec("ROLLBACK");
    const reason = error instanceof Error ? error.message : String(error);
    const step = Math.min(reached + 1, migrations.length);
    throw new Error(
      `its schema could not be brought from ${from} to ${migrations.length}, and is as it was (migration ${step}: ${reason})`,
      { cause: error },
    );
  } finally {
    sqlite.exec("PRAGMA foreign_keys = ON");
  }
}

/*
 * The migrations, oldest first, as text inside the executable. Append-only: a released one never changes. `PRAGMA
 * user_version` counts the applied ones.
 */

export const MIGRATIONS: readonly string[] = [
  mail,
  sending,
  webhooks,
  junk,
  greylist,
  sessions,
  drafts,
  identity,
  reading,
  transport,
  trace,
  imported,
  discarded,
  search,
  searchLayout,
  webhookWaiting,
  webhookRuns,
  webhookLog,
  reports,
  domainClaims,
  access,
  queueLines,
  seen,
  webhookQueue,
  mailboxExpiry,
  webhookDescription,
  shortPasswords,
  knownNetworks,
  fewerPages,
  keyNotices,
  searchWaiting,
  greylistNetworks,
  changes,
  scheduledByKey,
  searchOperators,
  dsn,
  policies,
  holds,
  journal,
  holdChanges,
  oauth,
  moving,
  mailboxTexts,
  rules,
  readingMail,
  push,
  messageFolders,
  uids,
  octets,
  journalImap,
  appPasswordAccess,
  labelFolders,
  seenWords,
  signInSources,
  provenance,
  workspaceLimits,
  registeredFrom,
  endedByKey,
  draftWriter,
  webhookMaker,
  locks,
  apart,
  attachmentTypes,
  messageOctets,
  octetsWaiting,
  packedHtml,
];
