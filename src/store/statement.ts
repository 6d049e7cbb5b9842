/**
 * drizzle's prepared statements, with the way in and out of each worked out once: what fills a parameter, and what becomes
 * of a column. drizzle works that out at every call, for every value, and many a statement takes less than that.
 *
 * Invariant: what comes out is what drizzle would give. Rows of more than plain columns are left to drizzle.
 */
import type { Database } from "bun:sqlite";
import { Column, is, NoopLogger, Param, Placeholder, type Query, SQL } from "drizzle-orm";
import { PreparedQuery } from "drizzle-orm/bun-sqlite/session";
import type { SelectedFieldsOrdered, SQLiteExecuteMethod } from "drizzle-orm/sqlite-core";
import type { Db } from "./store.ts";

type Values = Record<string, unknown>;

/** A parameter: always the same, or the value of that name, as the driver takes it. */
type Source = { constant: never } | { name: string; encode: ((value: unknown) => unknown) | undefined };

/** Where a column goes. Without `decode` its value stays as it is. */
interface Target {
  name: string;
  decode: ((value: unknown) => unknown) | undefined;
}

const AS_IT_IS = new Set<unknown>([Column.prototype.mapToDriverValue, Column.prototype.mapFromDriverValue]);

function sourceOf(param: unknown): Source {
  if (is(param, Placeholder)) return { name: param.name, encode: undefined };
  if (!is(param, Param) || !is(param.value, Placeholder)) return { constant: param as never };
  const { encoder, value } = param;
  const encode = AS_IT_IS.has(encoder.mapToDriverValue) ? undefined : encoder.mapToDriverValue.bind(encoder);
  return { name: value.name, encode };
}

/** Undefined when rows have more than columns side by side. */
function targetsOf(fields: SelectedFieldsOrdered): Target[] | undefined {
  const targets: Target[] = [];
  for (const { path, field } of fields) {
    const [name] = path;
    if (name === undefined || path.length > 1) return undefined;
    const decoder = is(field, Column) ? field : is(field, SQL) ? decoderOf(field) : undefined;
    if (!decoder) return undefined;
    const { mapFromDriverValue } = decoder;
    targets.push({ name, decode: AS_IT_IS.has(mapFromDriverValue) ? undefined : mapFromDriverValue.bind(decoder) });
  }
  return targets;
}

/** What drizzle's types keep to themselves. */
const decoderOf = (expression: SQL): Pick<Column, "mapFromDriverValue"> =>
  (expression as unknown as { decoder: Column }).decoder;

function rowOf(targets: readonly Target[], values: readonly unknown[]): Values {
  const row: Values = {};
  for (let i = 0; i < targets.length; i++) {
    const { name, decode } = targets[i] as Target;
    const value = values[i];
    row[name] = decode === undefined || value === null ? value : decode(value);
  }
  return row;
}

/** A statement of drizzle's, prepared on `sqlite`. */
export class Statement extends PreparedQuery {
  readonly #statement: ReturnType<Database["prepare"]>;
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
    const statement = sqlite.prepare(query.sql);
    super(statement, query, new NoopLogger(), fields, method, isInArrayMode, mapRows);
    this.#statement = statement;
    this.#sources = query.params.map(sourceOf);
    this.#targets = mapRows === undefined && fields ? targetsOf(fields) : undefined;
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
    return row && rowOf(targets, row);
  }

  override all(values?: Values): unknown {
    const targets = this.#targets;
    if (!targets) return super.all(values);
    return this.#statement.values(...this.#fill(values)).map((row) => rowOf(targets, row));
  }

  override values(values?: Values): unknown {
    return this.#statement.values(...this.#fill(values));
  }
}

/*
 * Statements prepared once a database, for what runs often: building a statement with drizzle costs more than running
 * it. The module that owns a query keeps it beside its use.
 */

/** A function that makes `build(db)` on the first call for a database and gives the same afterwards. */
export function prepared<T>(build: (db: Db) => T): (db: Db) => T {
  const made = new WeakMap<Db, T>();
  return (db) => {
    let value = made.get(db);
    if (value === undefined) {
      value = build(db);
      made.set(db, value);
    }
    return value;
  };
}
