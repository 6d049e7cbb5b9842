/** The project's statements return what drizzle's do, for every kind of column, row and parameter. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { asc, eq, getTableColumns, inArray, sql } from "drizzle-orm";
import { drizzle } from "drizzle-orm/bun-sqlite";
import { blob, integer, real, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { type Db, drizzleOver, perDatabase, prepared, Statement } from "../../src/store/statement.ts";

const owners = sqliteTable("owners", { id: integer("id").primaryKey(), name: text("name").notNull() });
const things = sqliteTable("things", {
  id: integer("id").primaryKey(),
  ownerId: integer("owner_id"),
  note: text("note"),
  on: integer("is_on", { mode: "boolean" }).notNull(),
  at: integer("at", { mode: "timestamp_ms" }),
  tags: text("tags", { mode: "json" }).$type<string[]>(),
  bytes: blob("bytes", { mode: "buffer" }),
  part: real("part"),
});

const thing = (name: string) => sql.placeholder(name);
const given = {
  id: thing("id"),
  ownerId: thing("ownerId"),
  note: thing("note"),
  on: thing("on"),
  at: thing("at"),
  tags: thing("tags"),
  bytes: thing("bytes"),
  part: 0.25,
};
const ONE = { id: 1, ownerId: 1, note: "A", on: true, at: new Date(5), tags: ["a"], bytes: Buffer.from("b") };
const TWO = { id: 2, ownerId: null, note: null, on: false, at: new Date(7), tags: [], bytes: Buffer.of() };

function fresh(): Database {
  const sqlite = new Database(":memory:", { strict: true });
  sqlite.exec(`CREATE TABLE owners (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
    CREATE TABLE things (id INTEGER PRIMARY KEY, owner_id INTEGER, note TEXT, is_on INTEGER NOT NULL, at INTEGER, tags TEXT,
      bytes BLOB, part REAL);
    INSERT INTO owners VALUES (1, 'Ann')`);
  return sqlite;
}

/** The results of a database with those tables, after inserting both rows. */
function answers(db: Db): Record<string, unknown> {
  const insert = db.insert(things).values(given).prepare();
  const returning = db.insert(things).values(given).returning({ id: things.id, tags: things.tags }).prepare();
  const inserted = insert.run(ONE);
  const returned = returning.get(TWO);
  const byId = db
    .select()
    .from(things)
    .where(eq(things.id, thing("id")))
    .prepare();
  const withOwner = db.select().from(things).leftJoin(owners, eq(owners.id, things.ownerId)).orderBy(asc(things.id));
  return {
    inserted,
    returned,
    all: db.select().from(things).all(),
    none: byId.get({ id: 3 }),
    one: byId.get({ id: 1 }),
    two: byId.all({ id: 2 }),
    bare: byId.values({ id: 1 }),
    joined: withOwner.all(),
    nested: db
      .select({ ...getTableColumns(things), owner: { name: owners.name } })
      .from(things)
      .leftJoin(owners, eq(owners.id, things.ownerId))
      .all(),
    computed: db
      .select({ n: sql<number>`count(*)`, twice: sql<number>`max(${things.id})`.mapWith((n) => 2 * n) })
      .from(things)
      .get(),
    aliased: db
      .select({ shout: sql<string>`${things.note} || '!'`.as("shout"), on: things.on })
      .from(things)
      .all(),
    inline: db
      .select({ id: things.id })
      .from(things)
      .where(inArray(things.id, [1, 2]))
      .all(),
    updated: db
      .update(things)
      .set({ tags: ["c"], on: true })
      .where(eq(things.id, thing("id")))
      .prepare()
      .run({ id: 2 }),
    after: byId.get({ id: 2 }),
  };
}

test("return what drizzle returns", () => {
  const theirs = answers(drizzle(fresh()) as unknown as Db);
  const ours = answers(drizzleOver(fresh()));
  expect(ours).toEqual(theirs);
  expect(Object.keys(ours)).toHaveLength(14);
  expect(ours.one).toEqual({ ...ONE, part: 0.25 });
});

test("the store uses them for every statement, and a missing value is an error", () => {
  const db = drizzleOver(fresh());
  const statement = db
    .select()
    .from(things)
    .where(eq(things.id, thing("id")))
    .prepare();
  expect(statement).toBeInstanceOf(Statement);
  expect(() => statement.get({ other: 1 })).toThrow('no value for placeholder "id" was provided');
  expect(() => statement.all()).toThrow('no value for placeholder "id" was provided');
});

test("prepared ones are built once, and are those of the database that is given", () => {
  let built = 0;
  const statements = prepared((db) => {
    built++;
    return {
      insert: db.insert(things).values(given).prepare(),
      joined: db
        .select({ id: things.id, owner: owners })
        .from(things)
        .leftJoin(owners, eq(owners.id, things.ownerId))
        .orderBy(asc(things.id))
        .prepare(),
    };
  });
  const [first, second] = [drizzleOver(fresh()), drizzleOver(fresh())];
  const ours = statements(first);
  ours.insert.run(ONE);
  ours.insert.run(TWO);
  statements(second).insert.run(TWO);
  const [one, two] = [
    { id: 1, owner: { id: 1, name: "Ann" } },
    { id: 2, owner: null },
  ];
  expect(ours.joined.all()).toEqual([one, two]);
  expect(statements(second).joined.all()).toEqual([two]);
  expect(statements(first)).toBe(ours);
  expect(built).toBe(1);
});

test("a cache is made for each database", () => {
  const lists = perDatabase((db) => ({ db, seen: [] as string[] }));
  const [first, second] = [drizzleOver(fresh()), drizzleOver(fresh())];
  lists(first).seen.push("a");
  expect(lists(second).seen).toEqual([]);
  expect(lists(second).db).toBe(second);
  expect(lists(first).seen).toEqual(["a"]);
});
