/**
 * A data folder from before octets were kept, with what mbsync had copied from it and its notes of that, both made by the version
 * before 0064_message_octets.sql: after the upgrade mbsync finds what it knows, also when the server is killed meanwhile.
 */
import { Database } from "bun:sqlite";
import { beforeEach, describe, expect, test } from "bun:test";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { installed, run as runProgram } from "../harness/programs.ts";
import { imapsOf, type Place, run, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";
import { mbsync, setUpMbsync } from "./mbsync.ts";

const KEPT = join(import.meta.dir, "kept/before-octets.tar.zst");
const zstd = installed("zstd");
const ENV = { MAILROOM_IMAPS: "127.0.0.1:0" };

let place: Place;
let copied: string;
let key: string;
beforeEach(async () => {
  const folder = temporaryFolder();
  await runProgram([zstd.path, "-dq", KEPT, "-o", join(folder, "kept.tar")]);
  await runProgram(["tar", "xf", join(folder, "kept.tar"), "-C", folder]);
  place = { data: join(folder, "data"), env: ENV };
  copied = join(folder, "mail/Mail");
  key = readFileSync(join(folder, "mail/key"), "utf8");
});

function inDatabase<T>(work: (sqlite: Database) => T): T {
  const sqlite = new Database(join(place.data, "mailroom.db"));
  try {
    return work(sqlite);
  } finally {
    sqlite.close();
  }
}

const waiting = (): number =>
  inDatabase(
    (sqlite) => sqlite.query<{ count: number }, []>("SELECT count(*) AS count FROM octets_waiting").get()?.count ?? -1,
  );

/** Names, sizes and inodes of the files that mbsync copied: it renames what changed flags, and writes what is new. */
const files = (): string[] =>
  readdirSync(copied, { recursive: true, encoding: "utf8" })
    .filter((path) => /\/(?:cur|new)\//.test(path))
    .map((path) => `${path.replace(/,.*|:2.*/g, "")} ${statSync(join(copied, path)).ino}`)
    .sort();

async function copyAgain(server: Awaited<ReturnType<typeof serve>>): Promise<void> {
  const { sync } = await setUpMbsync(
    { imaps: `localhost:${imapsOf(server)}`, key, data: place.data },
    { folder: copied },
  );
  for (let round = 0; round < 2; round++) expect(await sync()).toBe("0");
}

describe.skipIf(mbsync.absent || zstd.absent)(`${mbsync.named} after the upgrade`, () => {
  test("fetches nothing again, before and after the octets of the mail are made", async () => {
    const before = files();
    expect(before).toHaveLength(35);
    const server = await serve(place);
    await copyAgain(server);
    await until(() => waiting() === 0);
    await copyAgain(server);
    expect(files()).toEqual(before);
    expect(await server.kill("SIGTERM")).toBe(0);
    const told = "SELECT kind FROM imap_octets JOIN messages ON seq = message_seq";
    expect(inDatabase((sqlite) => sqlite.query(told).all())).toEqual([{ kind: "draft" }]);
    const kept = inDatabase((sqlite) => sqlite.query("SELECT message_seq FROM message_octets").all());
    expect(kept.length).toBeGreaterThanOrEqual(34);
    const checks = JSON.parse((await run(place, ["doctor", "--json"])).stdout) as { id: string; state: string }[];
    expect(checks.find(({ id }) => id === "mail-apps")).toMatchObject({ state: "ok" });
  }, 120_000);

  test("fetches a message again whose octets no longer come out as it saw them, and only that one", async () => {
    const before = files();
    inDatabase((sqlite) =>
      sqlite.run(
        "UPDATE imap_octets SET digest = zeroblob(32) WHERE message_seq = (SELECT seq FROM messages WHERE subject = 'Message 5 Grüße')",
      ),
    );
    const server = await serve(place);
    await until(() => waiting() === 0);
    await copyAgain(server);
    const after = files();
    expect(after).toHaveLength(35);
    const gone = before.filter((file) => !after.includes(file));
    expect(gone).toHaveLength(1);
    expect(gone[0]).toStartWith("Inbox/");
    expect(await server.kill("SIGTERM")).toBe(0);
    expect(server.stderr()).toContain("gets another UID");
  }, 120_000);
});
