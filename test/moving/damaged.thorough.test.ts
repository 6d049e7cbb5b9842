/** An export that is damaged, of a stranger, or in the way of something is refused, and nothing is changed. */
import { Database } from "bun:sqlite";
import { beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { secondFactorKeyPath } from "../../src/access/identity.ts";
import { openSecretSeal } from "../../src/access/seal.ts";
import { createLog } from "../../src/base/log.ts";
import { MIGRATIONS } from "../../src/store/migrate.ts";
import { folderOf, peek, rowsOf } from "../harness/data/table-rows.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import {
  copySource,
  exportTo,
  importFrom,
  makeSource,
  newExport,
  openPlace,
  SECOND_FACTOR,
} from "../harness/servers/moving-world.ts";
import { copyOf, editExport, editManifest, generationOf } from "./moving-export.ts";

setDefaultTimeout(30_000);

let made: string;
beforeAll(async () => {
  await makeSource();
  made = newExport();
  await exportTo(await copySource(), made, "--final");
});

const copyExport = (): string => copyOf(made);

const flip = (path: string): void => {
  const bytes = readFileSync(path);
  bytes[bytes.length >> 1] = (bytes[bytes.length >> 1] ?? 0) ^ 1;
  writeFileSync(path, bytes);
};

const blobIn = (folder: string): string => {
  const [shard = ""] = readdirSync(join(folder, "blobs"));
  const [name = ""] = readdirSync(join(folder, "blobs", shard));
  return join(folder, "blobs", shard, name);
};

test.each<[string, (folder: string) => void, RegExp]>([
  ["no export", (folder) => rmSync(join(folder, "mailroom-workspace.json")), /is no export of a workspace/],
  [
    "an export that was not finished",
    (folder) => rmSync(generationOf(folder), { recursive: true }),
    /no export was finished/,
  ],
  [
    "a flipped bit in the database",
    (folder) => flip(join(generationOf(folder), "mailroom.db")),
    /mailroom.db has another checksum/,
  ],
  ["a flipped bit in the manifest", (folder) => flip(join(generationOf(folder), "manifest.json")), /damaged/],
  ["a missing file", (folder) => rmSync(join(generationOf(folder), "blobs.sha256")), /damaged \(blobs.sha256/],
  [
    "a checksum of a file elsewhere",
    (folder) => writeFileSync(join(generationOf(folder), "SHA256SUMS"), `${"0".repeat(64)}  ../../x\n`),
    /is no checksum of a file/,
  ],
  ["a manifest that is none", (folder) => editManifest(folder, { rows: 5 }), /manifest.json is not one/],
  [
    "another workspace in the manifest",
    (folder) => editManifest(folder, { workspace: { id: "wsp_x", name: "X" } }),
    /another workspace/,
  ],
  ["a later layout", (folder) => editManifest(folder, { format: 9 }), /written by a newer Mailroom/],
  ["a later schema", (folder) => editManifest(folder, { schema: MIGRATIONS.length + 1 }), /made by a newer Mailroom/],
  [
    "a trigger",
    (folder) => editExport(folder, "CREATE TRIGGER x AFTER INSERT ON threads BEGIN DELETE FROM users; END"),
    /another schema/,
  ],
  ["a view", (folder) => editExport(folder, "CREATE VIEW x AS SELECT * FROM users"), /another schema/],
  [
    "a table that is a view",
    (folder) => editExport(folder, "DROP TABLE suppressions; CREATE VIEW suppressions AS SELECT 1"),
    /another schema/,
  ],
  ["another number of migrations", (folder) => editExport(folder, "PRAGMA user_version = 3"), /another schema/],
  [
    "a row too many",
    (folder) =>
      editExport(
        folder,
        "INSERT INTO suppressions SELECT 'sup_x', workspace_id, 'x@y.z', reason, created_at FROM suppressions",
      ),
    /suppressions has another number of rows/,
  ],
  [
    "a row of another workspace",
    (folder) => editExport(folder, "UPDATE suppressions SET workspace_id = 'wsp_other'"),
    /belongs to nothing|a row of suppressions/,
  ],
  [
    "a row of no workspace",
    (folder) => editExport(folder, "UPDATE journal_entries SET workspace_id = 'wsp_other'"),
    /a row of journal_entries/,
  ],
  [
    "a message of another mailbox",
    (folder) =>
      editExport(folder, "UPDATE messages SET mailbox_id = (SELECT max(id) FROM mailboxes WHERE id <> mailbox_id)"),
    /a row of messages/,
  ],
  [
    "a message that has another's number",
    (folder) =>
      editExport(folder, "UPDATE messages SET seq = seq + 655360 WHERE seq = (SELECT max(seq) FROM messages)"),
    /a row of|belongs to nothing/,
  ],
  [
    "a path in place of a file's name",
    (folder) => editExport(folder, "UPDATE attachments SET blob = '../../../../etc/passwd'"),
    /a row of attachments/,
  ],
  [
    "text in place of a number",
    (folder) => editExport(folder, "UPDATE threads SET last_message_at = 'soon'"),
    /a row of threads/,
  ],
])("refused: %s", async (_, spoil, refusal) => {
  const folder = copyExport();
  spoil(folder);
  const place = openPlace();
  const { exitCode, stderr, stdout } = await place.say("workspace", "import", folder);
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(refusal);
  const rows = peek(place.data, rowsOf);
  expect([rows.users, rows.addresses, rows.domains, rows.threads]).toEqual([[], [], [], []]);
});

test.each<[string, (folder: string) => void, RegExp]>([
  ["what is no JSON", (folder) => editExport(folder, "UPDATE api_keys SET scopes = 'all'"), /a row of api_keys/],
  ["a missing attachment", (folder) => rmSync(blobIn(folder)), /is missing/],
  ["a damaged attachment", (folder) => flip(blobIn(folder)), /damaged \(blobs/],
])("after %s, an export that is sound goes on", async (_, spoil, refusal) => {
  const folder = copyExport();
  spoil(folder);
  const place = openPlace();
  expect((await place.say("workspace", "import", folder)).stderr).toMatch(refusal);
  expect(peek(place.data, rowsOf)).toMatchObject({ users: [], addresses: [], domains: [] });
  expect(await importFrom(place, made)).toMatchObject({ served: true });
});

describe("in the way", () => {
  const others = async () => {
    const place = openPlace();
    await place.ask("workspace", "add", "Others");
    return place;
  };
  const refused = async (place: Awaited<ReturnType<typeof others>>, refusal: RegExp) => {
    const before = peek(place.data, rowsOf);
    const { exitCode, stderr } = await place.say("workspace", "import", made);
    expect(exitCode).toBe(1);
    expect(stderr).toMatch(refusal);
    expect(peek(place.data, rowsOf)).toEqual(before);
  };

  test("a workspace of that name, in any case", async () => {
    const place = openPlace();
    await place.ask("workspace", "add", "EXAMPLE");
    await refused(place, /another workspace is called Example here/);
  });

  test("a person with that address", async () => {
    const place = await others();
    await place.ask("user", "add", "alice@example.test", "--name", "A", "--role", "owner", "--no-mailbox");
    await refused(place, /alice@example.test is taken by another workspace/);
  });

  test("a domain that another workspace has verified", async () => {
    const place = await others();
    await place.ask("domain", "add", "example.test");
    await place.ask("domain", "verify", "example.test", "--skip-dns");
    await refused(place, /another workspace has verified example.test here/);
  });

  test("a key with that hash", async () => {
    const place = await others();
    await place.ask("user", "add", "bob@b.test", "--name", "B", "--role", "owner", "--no-mailbox");
    await place.ask("key", "create", "--user", "bob@b.test", "--name", "K", "--scopes", "read");
    peek(place.data, (db) => db.exec("UPDATE api_keys SET hash = 'grant'"));
    await refused(place, /api_keys.hash is taken/);
  });

  test("the workspace itself, which is served", async () => {
    const source = await copySource();
    const { exitCode, stderr } = await source.say("workspace", "import", made);
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining("serves the workspace Example already")]);
  });

  test("an export of another workspace in the folder", async () => {
    const source = await copySource();
    const { exitCode, stderr } = await source.say("workspace", "export", "Others Ltd", "--to", copyExport());
    expect([exitCode, stderr]).toEqual([1, expect.stringContaining("has an export of Example")]);
  });

  test("other files in the folder, or the data folder", async () => {
    const source = await copySource();
    const other = temporaryFolder();
    writeFileSync(join(other, "mine"), "");
    expect((await source.say("workspace", "export", "Example", "--to", other)).stderr).toContain(
      "has other files in it",
    );
    expect((await source.say("workspace", "export", "Example", "--to", join(source.data, "x"))).stderr).toContain(
      "is in the data folder",
    );
  });
});

test("an export of an older schema is brought up to date", async () => {
  const old = MIGRATIONS.length - 1;
  const folder = copyExport();
  const path = join(generationOf(folder), "mailroom.db");
  // As the version before made it: its schema, with these rows.
  const rows = new Database(path, { readonly: true });
  const earlier = folderOf(old, () => {});
  const counts: Record<string, number> = {};
  peek(earlier, (db) => {
    db.exec("PRAGMA foreign_keys = OFF");
    const triggers = db.query("SELECT name, sql FROM sqlite_schema WHERE type = 'trigger'").all() as {
      name: string;
      sql: string;
    }[];
    for (const { name } of triggers) db.exec(`DROP TRIGGER ${name}`);
    for (const [table, found] of Object.entries(rowsOf(rows))) {
      if (table === "message_index") continue;
      if (db.query("SELECT 1 FROM sqlite_schema WHERE name = ?").get(table) === null) continue;
      const columns = db.query("SELECT name FROM pragma_table_info(?)").all(table) as { name: string }[];
      if (columns.length > 0) counts[table] = found.length;
      else continue;
      db.exec(`DELETE FROM ${table}`);
      for (const row of found) {
        const names = columns.map(({ name }) => name);
        db.query(`INSERT INTO ${table} (${names.map((name) => `"${name}"`)}) VALUES (${names.map(() => "?")})`).run(
          ...names.map((name) => row[name] as string),
        );
      }
    }
    for (const { sql } of triggers) db.exec(sql);
    db.exec("PRAGMA journal_mode = DELETE");
  });
  cpSync(join(earlier, "mailroom.db"), path);
  editManifest(folder, { schema: old, rows: counts });
  const place = openPlace();
  expect(await importFrom(place, folder)).toMatchObject({ served: true, written: 9 });
  expect(readdirSync(place.data)).not.toContain("mailroom.db-import");
});

describe("second factors", () => {
  const secretAt = (data: string): Uint8Array | undefined => {
    const runtime = fakeRuntime();
    const seal = openSecretSeal(
      secondFactorKeyPath(data),
      runtime,
      createLog("silent", runtime.now, () => {}),
    );
    return peek(data, (db) => {
      const row = db.query("SELECT user_id AS id, secret FROM second_factors").get() as {
        id: string;
        secret: Uint8Array;
      };
      return seal.open(row.secret, row.id);
    });
  };

  test("stay behind unless they are sealed for the other server, which says whose", async () => {
    const place = openPlace();
    expect(await importFrom(place, made)).toMatchObject({ withoutFactor: ["alice@example.test"] });
    expect(secretAt(place.data)).toBeUndefined();
    // They are asked for a code all the same, and have recovery codes.
    expect(peek(place.data, rowsOf).recovery_codes).toHaveLength(1);
  });

  test("come along sealed, and open with the other server's own key", async () => {
    const identity = join(temporaryFolder(), "identity");
    const place = openPlace();
    const { recipient } = await place.ask<{ recipient: string }>("backup", "key", identity);
    const folder = newExport();
    const source = await copySource();
    await exportTo(source, folder, "--final", "--seal-for", recipient);
    for (const name of readdirSync(generationOf(folder))) {
      const bytes = readFileSync(join(generationOf(folder), name));
      expect([
        name,
        bytes.includes(SECOND_FACTOR),
        bytes.includes(Buffer.from(SECOND_FACTOR).toString("base64")),
      ]).toEqual([name, false, false]);
    }
    const other = join(temporaryFolder(), "other");
    await place.ask("backup", "key", other);
    expect((await place.say("workspace", "import", folder, "--identity", other)).stderr).toContain("does not open");
    expect(await importFrom(place, folder, "--identity", identity)).toMatchObject({ withoutFactor: [] });
    expect(secretAt(place.data)).toEqual(Buffer.from(SECOND_FACTOR));
  });
});
