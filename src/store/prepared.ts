/**
 * Statements prepared once a database, for what runs often: building a statement with drizzle costs more than running
 * it. The module that owns a query keeps it beside its use.
 */
import type { Db } from "./store.ts";

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
