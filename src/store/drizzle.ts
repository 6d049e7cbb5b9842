/**
 * drizzle over bun:sqlite, with `+?` for `?` in what it writes, and statements of our own (statement.ts).
 *
 * SQLite's planner looks into parameters, for better or worse estimates, and then prepares the statement anew each time
 * that another value is bound: a look-up that joins two tables takes 5 to 50 times as long. It does not look into
 * expressions, and one with a unary plus is the parameter, without a step more (https://sqlite.org/lang_expr.html).
 * The guarantee that SQLite has for it (SQLITE_DBCONFIG_ENABLE_QPSG) cannot be asked for through bun:sqlite.
 */
import type { Database } from "bun:sqlite";
import {
  createTableRelationsHelpers,
  type ExtractTablesWithRelations,
  extractTablesRelationalConfig,
} from "drizzle-orm";
import { BunSQLiteDatabase } from "drizzle-orm/bun-sqlite";
import { SQLiteBunSession } from "drizzle-orm/bun-sqlite/session";
import { SQLiteSyncDialect } from "drizzle-orm/sqlite-core";
import * as schema from "./schema.ts";
import { Statement } from "./statement.ts";

type Tables = ExtractTablesWithRelations<typeof schema>;
export type Db = BunSQLiteDatabase<typeof schema> & { $client: Database };

class Dialect extends SQLiteSyncDialect {
  override escapeParam(): string {
    return "+?";
  }
}

/** As drizzle's own function of that purpose, but for dialect and statements. */
export function drizzleOver(sqlite: Database): Db {
  const { tables, tableNamesMap } = extractTablesRelationalConfig<Tables>(schema, createTableRelationsHelpers);
  const config = { fullSchema: schema, schema: tables, tableNamesMap };
  const dialect = new Dialect();
  const session = new SQLiteBunSession<typeof schema, Tables>(sqlite, dialect, config);
  session.prepareQuery = (...query) => new Statement(sqlite, ...query);
  return Object.assign(new BunSQLiteDatabase<typeof schema>("sync", dialect, session, config), { $client: sqlite });
}
