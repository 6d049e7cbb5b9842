/**
 * drizzle over bun:sqlite, with prepared statements of our own that convert parameters and columns by precomputed
 * functions. drizzle works out the conversion for every value of every call, which takes longer than many a statement.
 *
 * Invariant: the results equal drizzle's. Rows with more than plain columns are left to drizzle.
 */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import {
  Column,
  createTableRelationsHelpers,
  type ExtractTablesWithRelations,
  extractTablesRelationalConfig,
  is,
  NoopLogger,
  Param,
  Placeholder,
  type Query,
  SQL,
} from "drizzle-orm";
import { BunSQLiteDatabase } from "drizzle-orm/bun-sqlite";
import { PreparedQuery, SQLiteBunSession } from "drizzle-orm/bun-sqlite/session";
import { type SelectedFieldsOrdered, type SQLiteExecuteMethod, SQLiteSyncDialect } from "drizzle-orm/sqlite-core";
import * as schema from "./schema.ts";

/** drizzle over one connection. */
export type Db = BunSQLiteDatabase<typeof schema> & { $client: Database };

type Values = Record<string, unknown>;

/** A parameter: a constant, or the named value converted for the driver. */
type Source = { constant: never } | { name: string; encode: ((value: unknown) => unknown) | undefined };

/** The target of a column. Without `decode` the value stays as it is. */
interface Target {
  name: string;
  decode: ((value: unknown) => unknown) | undefined;
}

const AS_IT_IS = new Set<unknown>([Column.prototype.mapToDriverValue, Column.prototype.mapFromDriverValue]);

function toValueSource(param: unknown): Source {
  if (is(param, Placeholder)) return { name: param.name, encode: undefined };
  if (!is(param, Param) || !is(param.value, Placeholder)) return { constant: param as never };
  const { encoder, value } = param;
  const encode = AS_IT_IS.has(encoder.mapToDriverValue) ? undefined : encoder.mapToDriverValue.bind(encoder);
  return { name: value.name, encode };
}

/** Undefined for rows with nested fields. */
function findRowTargets(fields: SelectedFieldsOrdered): Target[] | undefined {
  const targets: Target[] = [];
  for (const { path, field } of fields) {
    const [name] = path;
    if (name === undefined || path.length > 1) return undefined;
    const decoder = is(field, Column) ? field : is(field, SQL) ? sqlDecoder(field) : undefined;
    if (!decoder) return undefined;
    const { mapFromDriverValue } = decoder;
    targets.push({ name, decode: AS_IT_IS.has(mapFromDriverValue) ? undefined : mapFromDriverValue.bind(decoder) });
  }
  return targets;
}

/** Hidden by drizzle's types. */
const sqlDecoder = (expression: SQL): Pick<Column, "mapFromDriverValue"> =>
  (expression as unknown as { decoder: Column }).decoder;

function decodeRow(targets: readonly Target[], values: readonly unknown[]): Values {
  const row: Values = {};
  for (let i = 0; i < targets.length; i++) {
    const { name, decode } = targets[i] as Target;
    const value = values[i];
    row[name] = decode === undefined || value === null ? value : decode(value);
  }
  return row;
}

/** A statement that SQLite prepares when it first runs, since a process runs few of those that its modules build. */
function prepareLate(sqlite: Database, text: string): Pick<ReturnType<Database["prepare"]>, "run" | "all" | "values"> {
  let made: ReturnType<Database["prepare"]> | undefined;
  const statement = () => (made ??= sqlite.prepare(text));
  return {
    run: (...params) => statement().run(...params),
    all: (...params) => statement().all(...params),
    values: (...params) => statement().values(...params),
  };
}

/** A statement of drizzle's for `sqlite`. */
export class Statement extends PreparedQuery {
  private readonly statement: ReturnType<typeof prepareLate>;
  private readonly sources: readonly Source[];
  private readonly targets: readonly Target[] | undefined;

  constructor(
    sqlite: Database,
    query: Query,
    fields: SelectedFieldsOrdered | undefined,
    method: SQLiteExecuteMethod,
    isInArrayMode: boolean,
    mapRows?: (rows: unknown[][]) => unknown,
  ) {
    const statement = prepareLate(sqlite, query.sql);
    super(statement as never, query, new NoopLogger(), fields, method, isInArrayMode, mapRows);
    this.statement = statement;
    this.sources = query.params.map(toValueSource);
    this.targets = mapRows === undefined && fields ? findRowTargets(fields) : undefined;
  }

  /** Makes this statement for another database. */
  on(sqlite: Database): Statement {
    const statement = prepareLate(sqlite, this.getQuery().sql);
    // drizzle's own copy of it has another name, which its types hide.
    return Object.assign(Object.create(Statement.prototype), this, { statement, stmt: statement });
  }

  private fill(values: Values = {}): never[] {
    return this.sources.map((source) => {
      if ("constant" in source) return source.constant;
      const { name, encode } = source;
      if (!(name in values)) throw new Error(`no value for placeholder "${name}" was provided`);
      return (encode === undefined ? values[name] : encode(values[name])) as never;
    });
  }

  override run(values?: Values) {
    return this.statement.run(...this.fill(values));
  }

  override get(values?: Values): unknown {
    const targets = this.targets;
    if (!targets) return super.get(values);
    const [row] = this.statement.values(...this.fill(values));
    return row && decodeRow(targets, row);
  }

  override all(values?: Values): unknown {
    const targets = this.targets;
    if (!targets) return super.all(values);
    return this.statement.values(...this.fill(values)).map((row) => decodeRow(targets, row));
  }

  override values(values?: Values): unknown {
    return this.statement.values(...this.fill(values));
  }
}

type Tables = ExtractTablesWithRelations<typeof schema>;

/**
 * Writes `+?` for `?`. SQLite's planner reads parameters for its estimates, and prepares the statement again whenever
 * another value is bound: a look-up that joins two tables takes 5 to 50 times as long. It does not read expressions,
 * and a parameter with a unary plus is an expression of equal cost (https://sqlite.org/lang_expr.html). bun:sqlite
 * offers no access to SQLite's own guarantee (SQLITE_DBCONFIG_ENABLE_QPSG).
 */
class Dialect extends SQLiteSyncDialect {
  override escapeParam(): string {
    return "+?";
  }
}

const { tables, tableNamesMap } = extractTablesRelationalConfig<Tables>(schema, createTableRelationsHelpers);
const config = { fullSchema: schema, schema: tables, tableNamesMap };

/** Like drizzle's own constructor, with another dialect and other statements. */
export function drizzleOver(sqlite: Database): Db {
  const dialect = new Dialect();
  const session = new SQLiteBunSession<typeof schema, Tables>(sqlite, dialect, config);
  session.prepareQuery = (...query) => new Statement(sqlite, ...query);
  return Object.assign(new BunSQLiteDatabase<typeof schema>("sync", dialect, session, config), { $client: sqlite });
}

/*
 * Two ways to write SQL, for two kinds of statements. drizzle builds what is composed when it runs, such as the conditions of a
 * list, and rows whose columns need converting; its frequent statements are `prepared`. Whatever else is the same text each
 * time is a `statement`, typed by hand. The module that owns one keeps it next to its use.
 */

/** Returns a function that calls `make(db)` once per database and then returns the same result. */
export function perDatabase<T>(make: (db: Db) => T): (db: Db) => T {
  const made = new WeakMap<Db, T>();
  return (db) => {
    let value = made.get(db);
    if (value === undefined) {
      value = make(db);
      made.set(db, value);
    }
    return value;
  };
}

/** A statement by drizzle's types; each is a Statement. */
type Built = Pick<PreparedQuery, "getQuery">;

/**
 * Returns a function that gives a database its statements, one or an object of them. `build` runs once: drizzle takes long to
 * write their text, which is the same for every database.
 */
export function prepared<T extends Built | Record<string, Built>>(build: (db: Db) => T): (db: Db) => T {
  let built: object | undefined;
  return perDatabase((db) => {
    built ??= build(db);
    if (built instanceof Statement) return built.on(db.$client) as unknown as T;
    return Object.fromEntries(Object.entries(built).map(([name, one]) => [name, one.on(db.$client)])) as T;
  });
}

/**
 * Returns a function that gives the statement of an SQL text, prepared once per database, when it is first asked for.
 * `Row`: a row as bun:sqlite returns it, without conversions.
 */
export const statement = <Row = unknown, Params extends SQLQueryBindings[] = []>(text: string) =>
  perDatabase(({ $client }) => $client.prepare<Row, Params>(text));
