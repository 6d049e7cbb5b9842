/** SQL for the rows of a workspace: which they are, and how they are written with numbers of this server. */
import type { Database, SQLQueryBindings } from "bun:sqlite";
import { MESSAGES_PER_THREAD } from "../store/schema.ts";
import { belongsToSql, MOVED, type Moved } from "./tables.ts";

/** Rows that one transaction writes or deletes. */
export const PORTION = 500;

export const getMovedTable = (name: string): Moved => MOVED.find((table) => table.name === name) as Moved;

/** SQL that is true of rows of the workspace ?1 in the table `main.name`. */
export function ownedByWorkspaceSql(name: string): string {
  const { of, by } = getMovedTable(name);
  if (of === "workspaces") return `${by} = ?1`;
  const key = belongsToSql({ of, by }).replace(/.*p\./, "");
  return `${by} IN (SELECT ${key} FROM main.${of} WHERE ${ownedByWorkspaceSql(of)})`;
}

/** Names of a table's columns, quoted, in the schema `of`. */
export const listQuotedColumns = (db: Database, table: string, of = "main"): string[] =>
  db
    .query<{ name: string }, []>(`SELECT name FROM ${of}.pragma_table_info('${table}', '${of}')`)
    .all()
    .map(({ name }) => `"${name}"`);

export const countTableRows = (db: Database, table: string): number =>
  db.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n ?? 0;

/**
 * SQL: the name of a row's file here. A file that the export lacks has another name in the temporary table `lacking`, since one
 * that somebody else has here under that name is theirs.
 */
export const FILE_NAME = "coalesce((SELECT l.instead FROM temp.lacking l WHERE l.blob = m.blob), m.blob)";

/** SQL: is the number of a message of the conversations from `first` to `last`. */
export const messagesBetweenSql = (first: string, last: string): string =>
  `BETWEEN ${first} * ${MESSAGES_PER_THREAD} AND ${last} * ${MESSAGES_PER_THREAD} + ${MESSAGES_PER_THREAD - 1}`;

export const listPrimaryKeyColumns = (sqlite: Database, name: string): string[] =>
  sqlite
    .prepare<{ name: string }, []>(`SELECT name FROM pragma_table_info('${name}', 'main') WHERE pk > 0 ORDER BY pk`)
    .all()
    .map(({ name }) => `"${name}"`);

/* Logs: tables that are written anew, in the order of their keys. */

export const deletePortionSql = (sqlite: Database, name: string): string => {
  const key = listPrimaryKeyColumns(sqlite, name).join(", ");
  return `DELETE FROM main.${name} WHERE (${key}) IN (SELECT ${key} FROM main.${name} WHERE ${ownedByWorkspaceSql(name)} LIMIT ${PORTION})`;
};

/** Amounts that are added to the numbers of rows, by table. */
export type Offsets = Readonly<Record<string, number>>;

/**
 * Chooses the numbers of rows, and keeps them from being given to others meanwhile. Where this server has none as high, they
 * stay the same; else they are higher than those of either server, so that a program's position in a list of before the move
 * lets it miss nothing.
 */
export function reserveRowNumbers(sqlite: Database, tables: readonly { name: string }[]): Offsets {
  const offsets: Record<string, number> = {};
  for (const { name } of tables) {
    if (getMovedTable(name).numbers?.seq !== name || !isSequence(sqlite, name)) continue;
    const { low, high } = readKeyBounds(sqlite, name);
    const [here, there] = [
      readTableSequence(sqlite, "main", name),
      Math.max(high, readTableSequence(sqlite, "moved", name)),
    ];
    const offset = here < low ? 0 : Math.max(here, there) - low + 1;
    raiseTableSequence(sqlite, name, Math.max(there, high + offset));
    offsets[name] = offset;
  }
  return offsets;
}

const isSequence = (sqlite: Database, name: string): boolean =>
  sqlite.prepare("SELECT 1 FROM main.sqlite_schema WHERE name = ? AND sql LIKE '%AUTOINCREMENT%'").get(name) !== null;

const readKeyBounds = (sqlite: Database, name: string): { low: number; high: number } =>
  sqlite
    .prepare<{ low: number; high: number }, []>(
      `SELECT coalesce(min(${KEY(name)}), 1) AS low, coalesce(max(${KEY(name)}), 0) AS high FROM moved.${name}`,
    )
    .get() ?? { low: 1, high: 0 };
const KEY = (name: string): string => (name === "access_notices" ? "id" : "seq");

export const readTableSequence = (sqlite: Database, of: "main" | "moved", name: string): number =>
  sqlite.prepare<{ seq: number }, [string]>(`SELECT seq FROM ${of}.sqlite_sequence WHERE name = ?`).get(name)?.seq ?? 0;

/** Lets new rows of a table have numbers above `seq` only. */
export function raiseTableSequence(sqlite: Database, name: string, seq: number): void {
  const raised = sqlite.prepare("UPDATE main.sqlite_sequence SET seq = max(seq, ?) WHERE name = ?").run(seq, name);
  if (raised.changes === 0) sqlite.prepare("INSERT INTO main.sqlite_sequence (name, seq) VALUES (?, ?)").run(name, seq);
}

/** Chooses the numbers of tables whose rows are written in one transaction, so that none need be kept from others. */
export function chooseFreshOffsets(sqlite: Database, names: readonly string[]): Offsets {
  const fresh = names.filter(
    (name) => Object.values(getMovedTable(name).numbers ?? {}).includes(name) && !isSequence(sqlite, name),
  );
  return Object.fromEntries(
    fresh.map((name) => {
      const last = sqlite
        .prepare<{ seq: number }, []>(`SELECT coalesce(max(${KEY(name)}), 0) AS seq FROM main.${name}`)
        .get();
      return [name, (last?.seq ?? 0) - readKeyBounds(sqlite, name).low + 1];
    }),
  );
}

/** Ranges of the keys of a table in the export: after `from`, which is empty at first, to `through`. */
export function* listKeyRanges(
  sqlite: Database,
  name: string,
): Generator<{ from: SQLQueryBindings[]; through: SQLQueryBindings[] }> {
  const key = listPrimaryKeyColumns(sqlite, name);
  // Its numbers are free in one transaction alone.
  const count = name === "junk_filters" ? Number.MAX_SAFE_INTEGER : PORTION;
  const list = key.join(", ");
  const page = (from: SQLQueryBindings[]) =>
    sqlite
      .prepare<Record<string, SQLQueryBindings>, SQLQueryBindings[]>(
        `SELECT ${list} FROM (SELECT ${list} FROM moved.${name} ${from.length > 0 ? `WHERE (${list}) > (${from.map(() => "?").join(", ")})` : ""}
           ORDER BY ${list} LIMIT ${count}) ORDER BY ${key.map((column) => `${column} DESC`).join(", ")} LIMIT 1`,
      )
      .get(...from);
  for (let from: SQLQueryBindings[] = []; ; ) {
    const row = page(from);
    if (!row) return;
    const through = Object.values(row);
    yield { from, through };
    from = through;
  }
}

/** SQL: the row `m` is in such a range. */
export function rowsInRangeSql(sqlite: Database, name: string, isBounded: boolean): string {
  const key = listPrimaryKeyColumns(sqlite, name);
  const list = key.map((column) => `m.${column}`).join(", ");
  const marks = key.map(() => "?").join(", ");
  return `${isBounded ? `(${list}) > (${marks}) AND ` : ""}(${list}) <= (${marks})`;
}

/** Announced already, as far as it goes, by the server that made the export. */
export const ANNOUNCED = "m.seq <= (SELECT event_seq FROM moved.webhook_cursor)";

export const onlyAnnouncedEventsSql = (name: string): string => (name === "events" ? ` AND ${ANNOUNCED}` : "");

/** SQL that writes the rows `m` for which `where` is true. */
export function insertRowsSql(sqlite: Database, name: string, offsets: Offsets, where: string): string {
  const { numbers = {}, values = {} } = getMovedTable(name);
  const columns = listQuotedColumns(sqlite, name);
  const from = columns.map((column) => {
    const plain = column.slice(1, -1);
    const of = numbers[plain];
    if (values[plain] !== undefined) return values[plain];
    if (plain === "blob") return FILE_NAME;
    if (of === undefined) return `m.${column}`;
    if (of === "threads") {
      // A conversation that is gone has a number that none has.
      return `coalesce((SELECT t.seq FROM main.threads t WHERE t.id = m.thread_id AND t.mailbox_id IN (SELECT id FROM moved.mailboxes)), -m.seq)`;
    }
    if (of === "junk_filters" && name !== of) {
      return `(SELECT f.seq FROM moved.junk_filters o JOIN main.junk_filters f ON f.mailbox_id = o.mailbox_id WHERE o.seq = m.${column})`;
    }
    return `m.${column} + ${offsets[of] ?? 0}`;
  });
  return `INSERT INTO main.${name} (${columns.join(", ")}) SELECT ${from.join(", ")} FROM moved.${name} m
    WHERE ${where}${onlyAnnouncedEventsSql(name)}`;
}
