/** Data as written by the version before 0015_search_layout.sql. */
import { Database } from "bun:sqlite";
import { rmSync } from "node:fs";
import { MIGRATIONS } from "../../../src/store/migrate.ts";

const SCHEMA = 14;

/**
 * Converts a database of this version to that schema: the rows of each table in its old columns, except those of webhooks, and
 * an old index entry for each message.
 */
export function takeBackToSchema14(file: string): void {
  const copy = `${file}.present`;
  {
    using present = new Database(file);
    present.run("VACUUM INTO ?", [copy]);
  }
  for (const ending of ["", "-wal", "-shm"]) rmSync(file + ending, { force: true });
  const sqlite = new Database(file, { create: true });
  sqlite.exec("PRAGMA foreign_keys = OFF");
  for (const migration of MIGRATIONS.slice(0, SCHEMA)) sqlite.exec(migration);
  const triggers = rows(sqlite, "SELECT name, sql FROM sqlite_master WHERE type = 'trigger'");
  for (const { name } of triggers) sqlite.exec(`DROP TRIGGER ${name}`);
  sqlite.run("ATTACH ? AS present", [copy]);
  const tables = rows(sqlite, "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'");
  for (const { name } of tables.filter(({ name }) => !/^(?:sqlite|webhook)_/.test(name))) {
    const columns = rows(
      sqlite,
      `SELECT name FROM pragma_table_info('${name}', 'main')
         INTERSECT SELECT name FROM pragma_table_info('${name}', 'present')`,
    ).map((column) => `"${column.name}"`);
    if (columns.length === 0) continue;
    sqlite.exec(
      `DELETE FROM main.${name}; INSERT INTO main.${name} (${columns}) SELECT ${columns} FROM present.${name}`,
    );
  }
  sqlite.exec(`
    INSERT INTO message_index (rowid, scope, subject, body, sender, recipients, files)
      SELECT seq, 'x', 'x', 'word', 'x', 'x', 'x' FROM main.messages;
    DETACH present`);
  for (const { sql } of triggers) sqlite.exec(sql);
  sqlite.exec(`PRAGMA user_version = ${SCHEMA}`);
  sqlite.close();
}

const rows = (sqlite: Database, sql: string) => sqlite.query<{ name: string; sql: string }, []>(sql).all();

/** Reads every word of every message, with its position. */
export function entriesOf(sqlite: Database): unknown[] {
  sqlite.run("CREATE VIRTUAL TABLE IF NOT EXISTS temp.entries USING fts5vocab(main, message_index, instance)");
  return sqlite.query("SELECT doc, col, term, offset FROM temp.entries ORDER BY doc, col, offset, term").all();
}
