/** A server with a replica, as a child process with a real Litestream; and what the replica has. */
import { Database } from "bun:sqlite";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { WITHOUT_LIMITS } from "../data/settle.ts";
import { temporaryFolder } from "../folder.ts";
import { noS3, type S3 } from "../peers/s3.ts";
import { type Place, run, runJson } from "./process.ts";

const SETTLE = join(import.meta.dir, "../data/settle.ts");

const LITESTREAM = Bun.which("litestream");

/** The reason why its tests are skipped, or undefined. */
export const noReplica = LITESTREAM === null ? "litestream is not installed (.ci/run does)" : noS3;

/**
 * A data folder with owner@example.test, a verified domain and high rates, and the environment of its server. `machine`: what
 * is special of the one that it is on.
 */
export async function replicatedPlace(
  s3: S3,
  settings: Record<string, string> = {},
  machine: Pick<Place, "program" | "env"> = {},
): Promise<Place & { apiKey: string; data: string; env: Record<string, string> }> {
  const env = { MAILROOM_REPLICA: s3.url, ...s3.credentials, MAILROOM_BASE_URL: "https://one.example", ...machine.env };
  const place = { ...machine, data: temporaryFolder(), env };
  const names = ["--domain", "example.test", "--email", "owner@example.test", "--name", "Owner"];
  const { apiKey } = await runJson<{ apiKey: string }>(place, "setup", ...names);
  await run(place, ["domain", "verify", "example.test", "--skip-dns"]);
  const wanted = {
    ...WITHOUT_LIMITS,
    ...settings,
  };
  // In a process of its own: here, the database would stay open, and locked, until its statements are collected.
  const script = `(await import(${JSON.stringify(SETTLE)})).settle(...${JSON.stringify([place, wanted])})`;
  if ((await Bun.spawn([process.execPath, "-e", script]).exited) !== 0) throw new Error("the settings were not set");
  return { ...place, apiKey };
}

/** The process of the Litestream of a data folder; undefined while none runs. */
export function litestreamOf(data: string): number | undefined {
  const { pid } = JSON.parse(readFileSync(join(data, "replica/process.json"), "utf8")) as { pid?: number };
  return pid;
}

/** True while the process exists and is not a zombie. */
export function isAlive(pid: number | undefined): boolean {
  try {
    return !/\) [ZX] /.test(readFileSync(`/proc/${pid}/stat`, "latin1"));
  } catch {
    return false;
  }
}

/** Restores what the replica has of an epoch, past the proxy. */
export async function restored({ location, endpoint }: S3, epoch = 1): Promise<Database> {
  const folder = temporaryFolder();
  const settings = {
    dbs: [
      {
        path: join(folder, "source.db"),
        replica: {
          ...{ type: "s3", bucket: location.bucket, path: `${location.prefix}epochs/${epoch}` },
          ...{ endpoint, region: location.region, "force-path-style": true },
        },
      },
    ],
  };
  const config = join(folder, "litestream.yml");
  await Bun.write(config, JSON.stringify(settings));
  const target = join(folder, "restored.db");
  const child = Bun.spawn(
    [LITESTREAM as string, "restore", "-config", config, "-o", target, join(folder, "source.db")],
    {
      env: { LITESTREAM_ACCESS_KEY_ID: location.accessKeyId, LITESTREAM_SECRET_ACCESS_KEY: location.secretAccessKey },
      stdio: ["ignore", "ignore", "pipe"],
    },
  );
  const said = await new Response(child.stderr).text();
  if ((await child.exited) !== 0) throw new Error(`litestream restore: ${said}`);
  return new Database(target);
}
