/** A standby follows changes and epochs, also after Litestream's removals and when processes are killed. */
import { Database } from "bun:sqlite";
import { describe, expect, test } from "bun:test";
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createLog } from "../../src/base/log.ts";
import { systemRuntime } from "../../src/base/runtime.ts";
import { formatS3Location, openS3 } from "../../src/net/s3.ts";
import { openStandby, type Standby } from "../../src/replica/follow-replica.ts";
import { takeReplicaLease } from "../../src/replica/lease.ts";
import type { Identity } from "../../src/replica/replica-identity.ts";
import { emptyDatabase, MIGRATIONS } from "../../src/store/migrate.ts";
import { atEndOfFile } from "../harness/end.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { type S3, startS3 } from "../harness/peers/s3.ts";
import { noReplica } from "../harness/servers/replica.ts";
import { until } from "../harness/until.ts";

const LITESTREAM = Bun.which("litestream") ?? "";
const runtime = systemRuntime();
const log = createLog("silent", runtime.now, () => {});
const ends: (() => unknown)[] = [];
atEndOfFile(async () => {
  for (const end of ends.splice(0)) await end();
});

/** A server's database, and the Litestream and the lease beside it. */
async function server(s3: S3, { epoch = 1, hasty = false } = {}) {
  const data = temporaryFolder();
  const file = join(data, "mailroom.db");
  writeFileSync(file, emptyDatabase());
  const sqlite = new Database(file);
  sqlite.exec("PRAGMA journal_mode = WAL; PRAGMA wal_autocheckpoint = 0");
  const { location } = s3;
  const second = { interval: "1s", retention: "1s" };
  const config = {
    // Removes what it can, as it does in days.
    ...(hasty && {
      snapshot: second,
      levels: [{ interval: "1s" }],
      "l0-retention": "1s",
      "l0-retention-check-interval": "1s",
    }),
    dbs: [
      {
        path: file,
        replica: {
          ...{
            type: "s3",
            bucket: location.bucket,
            path: `${location.prefix}epochs/${epoch}`,
            endpoint: location.endpoint,
          },
          ...{ region: location.region, "force-path-style": true, "sync-interval": "100ms" },
        },
      },
    ],
  };
  writeFileSync(join(data, "litestream.yml"), JSON.stringify(config));
  const child = Bun.spawn([LITESTREAM, "replicate", "-config", join(data, "litestream.yml")], {
    env: { LITESTREAM_ACCESS_KEY_ID: location.accessKeyId, LITESTREAM_SECRET_ACCESS_KEY: location.secretAccessKey },
    stdio: ["ignore", "ignore", "ignore"],
  });
  const objects = openS3(location, runtime);
  const parts = {
    objects,
    runtime,
    place: formatS3Location(location),
    url: `https://${epoch}.example`,
    keep(_: Identity) {},
  };
  const lease = await takeReplicaLease(parts, undefined);
  expect(lease.epoch).toBe(epoch);
  const stop = async () => {
    child.kill("SIGKILL");
    await child.exited;
  };
  ends.push(stop, () => lease.stop());
  const add = (name: string) =>
    sqlite.run("INSERT INTO workspaces (id, name, created_at) VALUES (?, ?, 0)", [`wsp_${name}`, name]);
  return { sqlite, add, lease, stop, objects };
}

function follow(s3: S3, data = temporaryFolder()) {
  const standby = openStandby({ data, location: s3.location, executable: LITESTREAM, patienceMs: 3_000, runtime, log });
  ends.push(() => standby.stop());
  return { standby, data };
}

/** The rows of a query of a copy; undefined while Litestream writes a change, for long on a busy machine. */
function rowsIn<T>(file: string, query: string): T[] | undefined {
  using sqlite = new Database(file, { readonly: true });
  sqlite.exec("PRAGMA busy_timeout = 5000");
  try {
    return sqlite.query<T, []>(query).all();
  } catch (error) {
    if ((error as { code?: string }).code !== "SQLITE_BUSY") throw error;
  }
}

function namesIn(standby: Standby): string[] | undefined {
  const file = standby.database();
  if (file === undefined) return [];
  return rowsIn<{ name: string }>(file, "SELECT name FROM workspaces ORDER BY name")?.map(({ name }) => name);
}

const shows = (standby: Standby, names: string[]): Promise<void> =>
  until(async () => {
    await Bun.sleep(20);
    return Bun.deepEquals(namesIn(standby), names);
  });

describe.skipIf(noReplica !== undefined)(`following${noReplica === undefined ? "" : ` (${noReplica})`}`, () => {
  test("goes from one epoch to the next without a moment in which nothing can be read", async () => {
    const s3 = await startS3();
    const one = await server(s3);
    one.add("a");
    const { standby, data } = follow(s3);
    await shows(standby, ["a"]);
    let unreadable = 0;
    standby.onChange(() => {
      if (standby.database() === undefined) unreadable++;
    });
    await one.stop();
    await one.lease.release();
    const two = await server(s3, { epoch: 2 });
    two.add("b");
    await shows(standby, ["b"]);
    expect(unreadable).toBe(0);
    expect(standby.state()).toMatchObject({ epoch: 2, server: { url: "https://2.example", epoch: 2 } });
    // Of the former epoch, nothing stays.
    await until(() => readdirSync(join(data, "standby")).every((name) => name.startsWith("2-")));
    await standby.stop();
  }, 120_000);

  test("reads what it had after a restart, while a new epoch has nothing yet", async () => {
    const s3 = await startS3();
    const one = await server(s3);
    one.add("a");
    const { standby, data } = follow(s3);
    await shows(standby, ["a"]);
    await standby.stop();
    await one.stop();
    await one.lease.release();
    const place = formatS3Location(s3.location);
    const parts = { objects: one.objects, runtime, place, url: "https://2.example", keep(_: Identity) {} };
    const taken = await takeReplicaLease(parts, undefined);
    ends.push(() => taken.stop());
    const again = follow(s3, data).standby;
    await shows(again, ["a"]);
    await until(() => again.state().server?.epoch === 2);
    expect(namesIn(again)).toEqual(["a"]);
    await again.stop();
  }, 120_000);

  test("goes on after files were removed under it, and begins anew when what comes next is gone", async () => {
    const s3 = await startS3();
    const one = await server(s3, { hasty: true });
    one.add("a");
    const { standby, data } = follow(s3);
    await shows(standby, ["a"]);
    for (const name of ["b", "c", "d", "e"]) {
      one.add(name);
      await Bun.sleep(1_200);
    }
    await shows(standby, ["a", "b", "c", "d", "e"]);
    const before = standby.database();
    const applied = standby.state().transaction ?? "";
    await standby.stop();
    one.add("f");
    // Until the transaction that comes next is in no file but the snapshots.
    const next = (Number.parseInt(applied, 16) + 1).toString(16).padStart(16, "0");
    await until(async () => {
      await Bun.sleep(300);
      one.add(`g${performance.now()}`);
      const levels = await Promise.all([0, 1].map((level) => one.objects.list(`epochs/1/000${level}/`)));
      return levels
        .flatMap(({ objects }) => objects)
        .every(({ key }) => {
          const [, first = "", last = ""] = /([0-9a-f]{16})-([0-9a-f]{16})/.exec(key) ?? [];
          return first > next || last < next;
        });
    });
    const again = follow(s3, data).standby;
    await until(async () => {
      await Bun.sleep(50);
      return namesIn(again)?.includes("f");
    });
    expect(before).toBeDefined();
    await again.stop();
  }, 120_000);

  test("shows no half of a change, however often Litestream is killed", async () => {
    const s3 = await startS3();
    const one = await server(s3);
    one.sqlite.exec(
      "CREATE TABLE pairs (n INTEGER PRIMARY KEY, filler BLOB); CREATE TABLE more (n INTEGER PRIMARY KEY, filler BLOB)",
    );
    const { standby } = follow(s3);
    await until(() => standby.database() !== undefined);
    let n = 0;
    const write = one.sqlite.transaction(() => {
      n++;
      one.sqlite.run("INSERT INTO pairs VALUES (?, randomblob(200000))", [n]);
      one.sqlite.run("INSERT INTO more VALUES (?, randomblob(200000))", [n]);
    });
    let unequal = 0;
    let kills = 0;
    let looks = 0;
    for (let round = 0; round < 8; round++) {
      for (let i = 0; i < 5; i++) write();
      const until = performance.now() + 1_500;
      let killed = false;
      while (performance.now() < until) {
        await Bun.sleep(5);
        const file = standby.database();
        if (file !== undefined) {
          const both = "SELECT (SELECT count(*) FROM pairs) AS a, (SELECT count(*) FROM more) AS b";
          const seen = rowsIn<{ a: number; b: number }>(file, both)?.[0];
          if (seen) looks++;
          if (seen?.a !== seen?.b) unequal++;
        }
        if (!killed && Math.random() < 0.05) {
          killed = true;
          const pgrep = Bun.spawnSync(["pgrep", "-f", `^${LITESTREAM} restore -f .*-o ${standby.follower()?.file}`]);
          for (const pid of pgrep.stdout.toString().split("\n").filter(Boolean)) {
            kills++;
            process.kill(Number(pid), "SIGKILL");
          }
        }
      }
    }
    expect(unequal).toBe(0);
    expect(looks).toBeGreaterThan(20);
    expect(kills).toBeGreaterThan(2);
    await until(async () => {
      await Bun.sleep(50);
      const file = standby.database();
      if (file === undefined) return false;
      const isAll = rowsIn<{ n: number }>(file, "SELECT count(*) AS n FROM pairs")?.[0]?.n === n;
      return isAll && Bun.deepEquals(rowsIn<object>(file, "PRAGMA integrity_check"), [{ integrity_check: "ok" }]);
    });
    await standby.stop();
  }, 120_000);

  test("reads only a database of its own schema, and says which machine to upgrade", async () => {
    const s3 = await startS3();
    const one = await server(s3);
    one.add("a");
    const { standby } = follow(s3);
    await shows(standby, ["a"]);
    one.sqlite.exec(`PRAGMA user_version = ${MIGRATIONS.length + 1}`);
    await until(() => standby.reason() !== undefined);
    expect(standby.reason()).toContain("upgrade this standby");
    expect(standby.database()).toBeUndefined();
    one.sqlite.exec(`PRAGMA user_version = ${MIGRATIONS.length - 1}`);
    await until(() => standby.reason()?.includes("upgrade the server"));
    one.sqlite.exec(`PRAGMA user_version = ${MIGRATIONS.length}`);
    await shows(standby, ["a"]);
    await standby.stop();
  }, 120_000);
});
