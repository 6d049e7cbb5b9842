/**
 * Writes the conversations of an attached export, in portions. The temporary table `portion` has those of one: their numbers
 * there, and here once they are. A conversation of which a row differs is replaced whole.
 */
import type { Database } from "bun:sqlite";
import { MESSAGES_PER_THREAD } from "../store/schema.ts";
import { FILE_NAME, getMovedTable, listPrimaryKeyColumns, listQuotedColumns, messagesBetweenSql } from "./rows.ts";
import { MOVED } from "./tables.ts";

export function createConversationImport(sqlite: Database) {
  sqlite.exec("CREATE TEMP TABLE portion (source INTEGER PRIMARY KEY, seq INTEGER, fresh INTEGER NOT NULL)");
  const tables = MOVED.filter(({ stage }) => stage === "mail");
  const next = sqlite.prepare<{ seq: number | null }, [number, number]>(
    "SELECT max(seq) AS seq FROM (SELECT seq FROM moved.threads WHERE seq > ? ORDER BY seq LIMIT ?)",
  );
  const choose = sqlite.prepare<unknown, [number, number]>(
    `INSERT INTO portion SELECT m.seq, t.seq, t.seq IS NULL FROM moved.threads m LEFT JOIN main.threads t ON t.id = m.id
     WHERE m.seq BETWEEN ? AND ?`,
  );
  const differing = tables
    .filter(({ name }) => name !== "discarded_threads")
    .map((table) =>
      sqlite.prepare<unknown, []>(
        `UPDATE portion SET fresh = 1 WHERE fresh = 0 AND source IN (${differences(sqlite, table)})`,
      ),
    );
  const number = sqlite.prepare<unknown, []>(
    `UPDATE portion SET seq = (SELECT t.seq FROM moved.threads m JOIN main.threads t ON t.id = m.id WHERE m.seq = source)
     WHERE fresh = 1`,
  );
  const inserts = tables.map(({ name }) => sqlite.prepare<unknown, []>(mailInsert(sqlite, name)));
  const messages = sqlite.prepare<{ seq: number }, []>(
    "SELECT t.seq FROM portion p CROSS JOIN main.messages t ON t.thread_seq = p.seq WHERE p.fresh = 1 ORDER BY t.seq",
  );
  const fresh = sqlite.prepare<{ n: number }, []>("SELECT count(*) AS n FROM portion WHERE fresh = 1");
  const freshCount = (): number => fresh.get()?.n ?? 0;
  return {
    /** The last of the next `count` conversations after one; null at the end. */
    next: (after: number, count: number): number | null => next.get(after, count)?.seq ?? null,
    /** Brings conversations in a transaction, and compares them. Returns how many were written, and their messages. */
    bring(from: number, through: number): { threads: number; messages: { seq: number }[] } {
      sqlite.exec("DELETE FROM portion");
      choose.run(from, through);
      for (const statement of differing) statement.run();
      sqlite.exec(
        `DELETE FROM main.threads WHERE seq IN (SELECT seq FROM portion WHERE fresh = 1)
           AND mailbox_id IN (SELECT id FROM moved.mailboxes)`,
      );
      for (const [i, statement] of inserts.entries()) {
        statement.run();
        if (tables[i]?.name === "threads") number.run();
      }
      const written = { threads: freshCount(), messages: messages.all() };
      sqlite.exec("UPDATE portion SET fresh = 0");
      for (const statement of differing) statement.run();
      if (freshCount() > 0) throw new Error("conversations differ from those in the export once they are written");
      return written;
    },
    /** Names the conversations that drafts answer, which may have come after them. */
    linkDrafts(): void {
      sqlite.exec(
        `UPDATE main.drafts SET answers = a.seq
         FROM moved.drafts m JOIN moved.messages d ON d.seq = m.message_seq JOIN main.messages o ON o.id = d.id
           JOIN moved.threads s ON s.seq = m.answers JOIN main.threads a ON a.id = s.id
         WHERE drafts.message_seq = o.seq AND drafts.answers IS NOT a.seq`,
      );
    },
  };
}

/** SQL: the columns of a row `m` of a table of mail as they are here; `p` is its conversation in `portion`. */
function mailValues(sqlite: Database, name: string): Map<string, string> {
  const { numbers = {}, values = {} } = getMovedTable(name);
  return new Map(
    listQuotedColumns(sqlite, name).map((column) => {
      const plain = column.slice(1, -1);
      if (values[plain] !== undefined) return [column, values[plain]];
      if (plain === "blob") return [column, FILE_NAME];
      if (numbers[plain] === "threads") return [column, name === "threads" ? "NULL" : "p.seq"];
      if (numbers[plain] === "messages")
        return [column, `p.seq * ${MESSAGES_PER_THREAD} + m.${column} % ${MESSAGES_PER_THREAD}`];
      return [column, `m.${column}`];
    }),
  );
}

/** SQL: the rows `m` of the conversations `p`. */
function mailRows(name: string): string {
  const { by } = getMovedTable(name);
  if (name === "threads") return "portion p CROSS JOIN moved.threads m ON m.seq = p.source";
  if (by === "thread_seq") return `portion p CROSS JOIN moved.${name} m ON m.thread_seq = p.source`;
  return `portion p CROSS JOIN moved.${name} m ON m.message_seq ${messagesBetweenSql("p.source", "p.source")}`;
}

function mailInsert(sqlite: Database, name: string): string {
  const values = mailValues(sqlite, name);
  if (name === "discarded_threads") {
    // A trigger made the rows.
    return `UPDATE main.discarded_threads SET since = m.since FROM ${mailRows(name)} WHERE p.fresh = 1 AND discarded_threads.thread_seq = p.seq`;
  }
  return `INSERT INTO main.${name} (${[...values.keys()].join(", ")}) SELECT ${[...values.values()].join(", ")}
    FROM ${mailRows(name)} WHERE p.fresh = 1`;
}

/** SQL: numbers, there, of conversations of which a row differs, or is missing on either side. */
function differences(sqlite: Database, { name }: { name: string }): string {
  const values = mailValues(sqlite, name);
  const { values: fixed = {}, grows } = getMovedTable(name);
  const keys = listPrimaryKeyColumns(sqlite, name);
  const compared = [...values].filter(
    ([column]) => !(column.slice(1, -1) in fixed) && !(name === "threads" && column === '"seq"'),
  );
  const key =
    name === "threads" ? "t.seq = p.seq" : keys.map((column) => `t.${column} = ${values.get(column)}`).join(" AND ");
  const same = compared.map(([column, value]) => `t.${column} IS ${value}`).join(" AND ");
  const { by } = getMovedTable(name);
  const there = name === "threads" ? "m.seq = p.source" : mailRows(name).replace(/.* ON /, "");
  const here =
    name === "threads"
      ? "t.seq = p.seq"
      : by === "thread_seq"
        ? "t.thread_seq = p.seq"
        : `t.message_seq ${messagesBetweenSql("p.seq", "p.seq")}`;
  const other = `SELECT p.source FROM ${mailRows(name)} LEFT JOIN main.${name} t ON ${key} WHERE p.fresh = 0 AND NOT (${same})`;
  if (grows) return other;
  return `${other} UNION SELECT p.source FROM portion p WHERE p.fresh = 0 AND
      (SELECT count(*) FROM moved.${name} m WHERE ${there}) <> (SELECT count(*) FROM main.${name} t WHERE ${here})`;
}
