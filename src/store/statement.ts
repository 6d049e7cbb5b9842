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

type Prepared = ReturnType<Database["prepare"]>;
type Late = Pick<Prepared, "run" | "all" | "values">;

/** SQLite prepares the statement when it first runs, since a process runs few of the statements that its modules build. */
function preparedLate(sqlite: Database, text: string): Late {
  let made: Prepared | undefined;
  const statement = (): Prepared => {
    made ??= sqlite.prepare(text);
    return made;
  };
  return {
    run: (...params) => statement().run(...params),
    all: (...params) => statement().all(...params),
    values: (...params) => statement().values(...params),
  };
}

/** A statement of drizzle's for `sqlite`. */
export class Statement extends PreparedQuery {
  /** Makes the same statement for another database. Undefined if its rows refer to this one. */
  readonly again: ((sqlite: Database) => Statement) | undefined;
  readonly #statement: Late;
  readonly #sources: readonly Source[];
  readonly #targets: readonly Target[] | undefined;

  constructor(
    sqlite: Database,
    query: Query,
    fields: SelectedFieldsOrdered | undefined,
    method: SQLiteExecuteMethod,
    isInArrayMode: boolean,
    mapRows?: (rows: unknown[][]) => unknown,
  ) {
    const statement = preparedLate(sqlite, query.sql);
    super(statement as Prepared, query, new NoopLogger(), fields, method, isInArrayMode, mapRows);
    this.again = mapRows ? undefined : (other) => new Statement(other, query, fields, method, isInArrayMode);
    this.#statement = statement;
    this.#sources = query.params.map(toValueSource);
    this.#targets = mapRows === undefined && fields ? findRowTargets(fields) : undefined;
  }

  #fill(values: Values = {}): never[] {
    return this.#sources.map((source) => {
      if ("constant" in source) return source.constant;
      const { name, encode } = source;
      if (!(name in values)) throw new Error(`no value for placeholder "${name}" was provided`);
      return (encode === undefined ? values[name] : encode(values[name])) as never;
    });
  }

  override run(values?: Values) {
    return this.#statement.run(...this.#fill(values));
  }

  override get(values?: Values): unknown {
    const targets = this.#targets;
    if (!targets) return super.get(values);
    const [row] = this.#statement.values(...this.#fill(values));
    return row && decodeRow(targets, row);
  }

  override all(values?: Values): unknown {
    const targets = this.#targets;
    if (!targets) return super.all(values);
    return this.#statement.values(...this.#fill(values)).map((row) => decodeRow(targets, row));
  }

  override values(values?: Values): unknown {
    return this.#statement.values(...this.#fill(values));
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

/** drizzle sets this after it has made a statement, and hides it. */
interface Joined {
  joinsNotNullableMap?: unknown;
}

function againOf(value: unknown): ((sqlite: Database) => unknown) | undefined {
  if (!(value instanceof Statement)) return undefined;
  const { again } = value;
  const { joinsNotNullableMap } = value as Joined;
  return again && ((sqlite) => Object.assign(again(sqlite), { joinsNotNullableMap }));
}

/** How to make the same for another database, if it is a statement or an object of nothing but statements. */
function makerOf<T>(value: T): ((sqlite: Database) => T) | undefined {
  if (value instanceof Statement) return againOf(value) as ((sqlite: Database) => T) | undefined;
  if (Object.getPrototypeOf(value) !== Object.prototype) return undefined;
  const makers = Object.entries(value as object).map(([name, one]) => [name, againOf(one)] as const);
  if (!makers.every(([, maker]) => maker)) return undefined;
  return (sqlite) => Object.fromEntries(makers.map(([name, maker]) => [name, maker?.(sqlite)])) as T;
}

/**
 * Returns a function that calls `build(db)` once per database and then returns the same result. Statements are the same for
 * every database, so `build` runs once for them: drizzle takes long to build their text.
 */
export function prepared<T>(build: (db: Db) => T): (db: Db) => T {
  const made = new WeakMap<Db, T>();
  let make: ((sqlite: Database) => T) | undefined;
  return (db) => {
    let value = made.get(db);
    if (value === undefined) {
      value = make ? make(db.$client) : build(db);
      make ??= makerOf(value);
      made.set(db, value);
    }
    return value;
  };
}

/**
 * Returns a function that gives the statement of an SQL text, prepared once per database, when it is first asked for.
 * `Row`: a row as bun:sqlite returns it, without conversions.
 */
export const statement = <Row = unknown, Params extends SQLQueryBindings[] = []>(text: string) =>
  prepared(({ $client }) => $client.prepare<Row, Params>(text));
