/** Checks that a restore makes of the rows and settings of a backup: an honest backup passes, whatever is in its server. */
import { Database } from "bun:sqlite";
import { beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { cpSync, existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { zstdCompressSync } from "node:zlib";
import { agree } from "../harness/data/backup-rig.ts";
import { peek, rowsOf } from "../harness/data/table-rows.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { copySource, makeSource } from "../harness/servers/moving-world.ts";
import { openTerminal } from "../harness/servers/terminal.ts";

setDefaultTimeout(60_000);

/** Backup of a server with two workspaces and something of everything. */
let honest: string;
let source: Awaited<ReturnType<typeof copySource>>;
beforeAll(async () => {
  await makeSource();
  source = await copySource();
  honest = join(temporaryFolder(), "backup");
  await source.ask("settings", "set", "search.meilisearchPath", "/srv/own/meilisearch");
  await source.ask("backup", honest);
});

function edited(edit: (db: Database) => void): string {
  const folder = join(temporaryFolder(), "backup");
  cpSync(honest, folder, { recursive: true });
  const [id = ""] = readdirSync(join(folder, "generations"));
  const db = new Database(join(folder, "generations", id, "mailroom.db"));
  edit(db);
  db.close();
  agree(join(folder, "generations", id));
  return folder;
}

test("an honest one is restored, with every row of mail and people", async () => {
  const place = openTerminal();
  await place.ask("restore", honest);
  const tables = [
    "users",
    "domains",
    "dkim_keys",
    "mailboxes",
    "threads",
    "messages",
    "message_bodies",
    "api_keys",
    "holds",
  ];
  const of = (data: string) => peek(data, (db) => tables.map((name) => db.query(`SELECT * FROM ${name}`).all()));
  expect(of(place.data)).toEqual(of(source.data));
  expect(of(place.data).every((rows) => rows.length > 0)).toBe(true);
});

test.each<[string, (db: Database) => void, RegExp]>([
  [
    "a password that takes a day to check",
    (db) =>
      db.exec("UPDATE users SET password_hash = '$argon2id$v=19$m=4194304,t=1000000,p=1$c2FsdHNhbHQ$aGFzaGhhc2g'"),
    /the password of /,
  ],
  [
    "a webhook to a file",
    (db) => db.exec("UPDATE webhook_endpoints SET url = 'file:///etc/passwd', state = 'active'"),
    /the webhook file:/,
  ],
  [
    "a key for signing that is another's",
    (db) => db.exec("UPDATE dkim_keys SET public_key = 'AAAA'"),
    /the DKIM keys of /,
  ],
  ["a text where a number belongs", (db) => db.exec("UPDATE messages SET date = 'x'"), /messages/],
  [
    "JSON that jobs of the server would fail at",
    (db) => db.exec("UPDATE threads SET participants = '7'"),
    /a row of threads/,
  ],
  ["rows of nobody", (db) => db.exec("PRAGMA foreign_keys = OFF; DELETE FROM users"), /belongs to nothing/],
  [
    "a value that the schema forbids",
    (db) => db.exec("PRAGMA ignore_check_constraints = ON; UPDATE queue_entries SET state = 'strange'"),
    /CHECK constraint failed/,
  ],
  ["octets of a size that no message has", (db) => db.exec("UPDATE message_octets SET size = -5"), /message_octets/],
  [
    "HTML that unpacks to more than it says",
    (db) => db.query("UPDATE message_bodies SET html = ?, html_bytes = 9").run(zstdCompressSync(Buffer.alloc(10))),
    /message_bodies/,
  ],
  [
    "a text that unpacks to more than the memory",
    (db) => void db.query("UPDATE message_bodies SET html_source = ?").run(zstdCompressSync(Buffer.alloc(200_000_000))),
    /message_bodies/,
  ],
])("refused, with nothing left behind, unless it is trusted: %s", async (_, edit, what) => {
  const folder = edited(edit);
  const place = openTerminal();
  const { exitCode, stdout, stderr } = await place.say("restore", folder);
  expect([exitCode, stdout]).toEqual([1, ""]);
  expect(stderr).toMatch(
    /^mailroom: the backup has what no server writes \(.*\): restore another generation, or .*\n$/s,
  );
  expect(stderr).toMatch(what);
  expect(readdirSync(place.data).filter((name) => !/\.lock(-journal)?$/.test(name))).toEqual([]);
  expect(await place.ask("restore", folder, "--trusted")).toMatchObject({ lacking: [] });
  expect(existsSync(join(place.data, "mailroom.db"))).toBe(true);
});

test("a setting that names a program has its default again, unless the backup is trusted", async () => {
  const place = openTerminal();
  const { stderr } = await place.say("restore", honest);
  expect(stderr).toContain(
    "search.meilisearchPath has its default again: it named a program that is none of this system",
  );
  expect(await place.ask("settings", "get", "search.meilisearchPath")).toMatchObject({ value: "auto" });
  const trusting = openTerminal();
  expect(await trusting.ask("restore", honest, "--trusted")).toMatchObject({ reset: [] });
  expect(await trusting.ask("settings", "get", "search.meilisearchPath")).toMatchObject({
    value: "/srv/own/meilisearch",
  });
  expect(peek(place.data, rowsOf)).not.toEqual({});
});
