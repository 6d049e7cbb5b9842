/** A backup that somebody edited, with checksums that agree, to have whoever restores or verifies it run, write or hang. */
import { Database } from "bun:sqlite";
import { expect, test } from "bun:test";
import { cpSync, existsSync, mkdirSync, readdirSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { agree, openBackupRig } from "../harness/data/backup-rig.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { openTerminal } from "../harness/servers/terminal.ts";

const made = (async () => {
  const rig = await openBackupRig();
  await rig.add("first");
  mkdirSync(join(rig.data, "tls"));
  writeFileSync(join(rig.data, "tls/key.pem"), "key");
  await rig.ask("backup", rig.folder);
  return rig;
})();

async function copied(): Promise<{ folder: string; generation: string }> {
  const folder = join(temporaryFolder(), "backup");
  cpSync((await made).folder, folder, { recursive: true });
  return { folder, generation: join(folder, "generations", readdirSync(join(folder, "generations"))[0] ?? "") };
}

function put(generation: string, path: string, text: string): void {
  mkdirSync(dirname(join(generation, path)), { recursive: true });
  writeFileSync(join(generation, path), text);
  agree(generation);
}

function edit(generation: string, sql: string): void {
  const db = new Database(join(generation, "mailroom.db"));
  db.exec(sql);
  db.close();
  agree(generation);
}

const leftIn = (data: string) => readdirSync(data).filter((name) => !/^(serving|backup)\.lock(-journal)?$/.test(name));

test.each<[string, (generation: string, folder: string) => void]>([
  [
    "a trigger",
    (generation) => edit(generation, "CREATE TRIGGER x AFTER INSERT ON messages BEGIN DELETE FROM suppressions; END"),
  ],
  ["a view", (generation) => edit(generation, "CREATE VIEW x AS SELECT 1")],
  [
    "a table in which names of files are computed",
    (generation) => edit(generation, "CREATE TABLE x (a, blob AS (hex(zeroblob(100000000))))"),
  ],
  ["a computed column", (generation) => edit(generation, "ALTER TABLE users ADD COLUMN x AS (hex(zeroblob(9)))")],
  ["a virtual table", (generation) => edit(generation, "CREATE VIRTUAL TABLE x USING fts5(a)")],
  ["a table that is a view", (generation) => edit(generation, "DROP TABLE greylist; CREATE VIEW greylist AS SELECT 1")],
  ["another number of migrations", (generation) => edit(generation, "PRAGMA user_version = 3")],
  ["fewer migrations than none", (generation) => edit(generation, "PRAGMA user_version = -1")],
  [
    "a manifest that is none",
    (generation) => put(generation, "manifest.json", '{"format":1,"schema":1,"lacking":7,"recipients":{}}'),
  ],
  ["a manifest that is no object", (generation) => put(generation, "manifest.json", "null")],
  [
    "a path that leads out",
    (generation) => writeFileSync(join(generation, "SHA256SUMS"), `${"0".repeat(64)}  files/../../../x\n`),
  ],
  [
    "a path that is the folder itself",
    (generation) => writeFileSync(join(generation, "SHA256SUMS"), `${"0".repeat(64)}  files/.\n`),
  ],
  [
    "a device in place of a list",
    (generation) => {
      rmSync(join(generation, "blobs.sha256"));
      symlinkSync("/dev/zero", join(generation, "blobs.sha256"));
    },
  ],
  [
    "a device in place of the mark of the folder",
    (_, folder) => {
      rmSync(join(folder, "mailroom-backup.json"));
      symlinkSync("/dev/zero", join(folder, "mailroom-backup.json"));
    },
  ],
  [
    "a device in place of the checksums",
    (generation) => {
      rmSync(join(generation, "SHA256SUMS"));
      symlinkSync("/dev/zero", join(generation, "SHA256SUMS"));
    },
  ],
  [
    "a device in place of a file of the mail",
    (_, folder) => {
      const [shard = ""] = readdirSync(join(folder, "blobs"));
      const [name = ""] = readdirSync(join(folder, "blobs", shard));
      rmSync(join(folder, "blobs", shard, name));
      symlinkSync("/dev/zero", join(folder, "blobs", shard, name));
    },
  ],
  ["a list with a line without end", (generation) => put(generation, "blobs.sha256", "0".repeat(10_000_000))],
])("refused and told, with nothing left behind: %s", async (_, spoil) => {
  const { folder, generation } = await copied();
  spoil(generation, folder);
  const elsewhere = openTerminal();
  const { exitCode, stderr, stdout } = await elsewhere.say("restore", folder);
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(/is damaged|no plain file|no checksum/);
  expect(leftIn(elsewhere.data)).toEqual([]);
  expect(await elsewhere.say("backup", "verify", folder)).toMatchObject({ exitCode: 1 });
  // The honest one goes on beside it.
  expect(await elsewhere.ask("restore", (await made).folder)).toMatchObject({ blobs: 1 });
});

test("what a backup never has is not taken from one: executables, locks, logs of the database, what a folder is to a replica", async () => {
  const { folder, generation } = await copied();
  const paths = [
    "bin/meilisearch",
    "mailroom.db-wal",
    "mailroom.db-journal",
    "serving.lock",
    "replica.json",
    "standby.json",
  ];
  for (const path of [...paths, "keys/seal", "blobs/ab/cd", "search/x"]) put(generation, `files/${path}`, "evil");
  const elsewhere = openTerminal();
  expect(await elsewhere.ask("restore", folder)).toMatchObject({ blobs: 1 });
  for (const path of paths) {
    if (/^mailroom|lock$/.test(path)) continue;
    expect([path, existsSync(join(elsewhere.data, path))]).toEqual([path, false]);
  }
  expect(existsSync(join(elsewhere.data, "keys/seal"))).toBe(false);
  expect(await Bun.file(join(elsewhere.data, "tls/key.pem")).text()).toBe("key");
  expect(await elsewhere.ask("user", "list")).toMatchObject([{ address: "ada@acme.test" }]);
});

test("what Litestream and SQLite keep in a database is no stranger's", async () => {
  const { folder, generation } = await copied();
  edit(generation, "CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER); ANALYZE");
  expect(await openTerminal().ask("backup", "verify", folder)).toMatchObject({ ok: true });
  expect(await openTerminal().ask("restore", folder)).toMatchObject({ blobs: 1 });
});

test("an encrypted one whose list of names is computed is refused, and the next backup asks nothing of it", async () => {
  const rig = await openBackupRig();
  const key = join(temporaryFolder(), "key.txt");
  const { recipient } = await rig.ask<{ recipient: string }>("backup", "key", key);
  await rig.ask("settings", "set", "backup.recipients", recipient);
  await rig.add("first");
  const { id } = await rig.ask<{ id: string }>("backup", rig.folder);
  const generation = join(rig.folder, "generations", id);
  const names = new Database(join(generation, "names.db"));
  names.exec(
    `DROP TABLE names; CREATE VIEW names AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n)
       SELECT i AS name, i AS stored, i AS bytes FROM n`,
  );
  names.close();
  agree(generation);
  const elsewhere = openTerminal();
  const { exitCode, stderr } = await elsewhere.say("restore", rig.folder, "--identity", key);
  expect([exitCode, stderr]).toEqual([1, expect.stringContaining("names.db is no list of names")]);
  expect(leftIn(elsewhere.data)).toEqual([]);
  expect(await rig.ask("backup", rig.folder)).toMatchObject({ blobs: 1, copied: 1 });
  expect(await elsewhere.ask("restore", rig.folder, "--identity", key)).toMatchObject({ blobs: 1 });
});
