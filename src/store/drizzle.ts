/**
 * drizzle over bun:sqlite, which writes `+?` for `?` and uses this project's statements (statement.ts).
 *
 * SQLite's planner reads parameters for its estimates, and prepares the statement again whenever another value is
 * bound: a look-up that joins two tables takes 5 to 50 times as long. It does not read expressions, and a parameter
 * with a unary plus is an expression of equal cost (https://sqlite.org/lang_expr.html). bun:sqlite offers no access to
 * SQLite's own guarantee (SQLITE_DBCONFIG_ENABLE_QPSG).
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
import { type Db, Statement } from "./statement.ts";

type Tables = ExtractTablesWithRelations<typeof schema>;

class Dialect extends SQLiteSyncDialect {
  override escapeParam(): string {
    return "+?";
  }
}

/** Like drizzle's own constructor, with another dialect and other statements. */
export function drizzleOver(sqlite: Database): Db {
  const { tables, tableNamesMap } = extractTablesRelationalConfig<Tables>(schema, createTableRelationsHelpers);
  const config = { fullSchema: schema, schema: tables, tableNamesMap };
  const dialect = new Dialect();
  const session = new SQLiteBunSession<typeof schema, Tables>(sqlite, dialect, config);
  session.prepareQuery = (...query) => new Statement(sqlite, ...query);
  return Object.assign(new BunSQLiteDatabase<typeof schema>("sync", dialect, session, config), { $client: sqlite });
}
