import { test } from "bun:test";
import { MIGRATIONS } from "../../src/store/migrate.ts";
import { expectRowsKept } from "./rows-kept.ts";

test.each(MIGRATIONS.map((_, index) => index + 1))(
  "from schema %i, every row is kept in the new schema, and the program reads it",
  expectRowsKept,
);
