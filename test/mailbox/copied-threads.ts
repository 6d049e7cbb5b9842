/** Many conversations at once, without messages of their own, for tests of what takes long or is bounded. */
import type { Database } from "bun:sqlite";

/** Copies the conversation with seq 1 to all numbers `n` from one to another. `values`: SQL for columns that differ, by name. */
export function copyThread(sqlite: Database, [first, last]: [number, number], values: Record<string, string>): void {
  const given: Record<string, string> = { seq: "n", id: "'thr_' || n", ...values };
  const columns = sqlite
    .query<{ name: string }, []>("SELECT name FROM pragma_table_info('threads')")
    .all()
    .map(({ name }) => name);
  const copied = columns.map((name) => given[name] ?? `"${name}"`);
  sqlite.run(
    `INSERT INTO threads (${columns.map((name) => `"${name}"`).join()}) SELECT ${copied.join()} FROM threads, (
       WITH RECURSIVE numbers (n) AS (SELECT ${first} UNION ALL SELECT n + 1 FROM numbers WHERE n < ${last})
       SELECT n FROM numbers) WHERE seq = 1`,
  );
}
