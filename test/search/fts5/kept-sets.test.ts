/** Sets are kept until any write, and only a limited number of them. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { join } from "node:path";
import { createKeptSets } from "../../../src/search/fts5/fts5.ts";
import { seqsIn, setOf } from "../../../src/search/sets.ts";
import { temporaryFolder } from "../../harness/folder.ts";

/** Asks, and returns whether the set had to be found. */
function asker(sqlite: Database, most?: number) {
  const keep = createKeptSets(sqlite, most);
  return (question: string, answer: readonly number[]) => {
    let found = false;
    const set = keep(question, () => {
      found = true;
      return setOf(answer);
    });
    return { found, seqs: seqsIn(set) };
  };
}

test("found once until this or another process writes", () => {
  const file = join(temporaryFolder(), "kept.db");
  using sqlite = new Database(file);
  using other = new Database(file);
  sqlite.run("PRAGMA journal_mode = WAL");
  sqlite.run("CREATE TABLE words (word TEXT)");
  const ask = asker(sqlite);
  expect(ask("oak", [1])).toEqual({ found: true, seqs: [1] });
  expect(ask("oak", [2])).toEqual({ found: false, seqs: [1] });
  sqlite.run("INSERT INTO words VALUES ('oak')");
  expect(ask("oak", [3])).toEqual({ found: true, seqs: [3] });
  other.run("INSERT INTO words VALUES ('elm')");
  expect(ask("oak", [4])).toEqual({ found: true, seqs: [4] });
  sqlite.transaction(() => {
    sqlite.run("DELETE FROM words");
    expect(ask("oak", [5])).toEqual({ found: true, seqs: [5] });
  })();
  expect(ask("oak", [6])).toEqual({ found: false, seqs: [5] });
});

test("the least recently used set is dropped", () => {
  using sqlite = new Database(":memory:");
  const ask = asker(sqlite, 2);
  for (const question of ["a", "b", "a", "c"]) ask(question, [1]);
  expect(ask("a", [2]).found).toBe(false);
  expect(ask("b", [2]).found).toBe(true);
});
