/** A server with a replica: what it copies, acknowledges and refuses, with a real Litestream. */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { mailer } from "../harness/mail.ts";
import { run, serve } from "../harness/process.ts";
import { litestreamOf, noReplica, replicatedPlace, restored } from "../harness/replica.ts";
import { startS3 } from "../harness/s3.ts";
import { until } from "../harness/until.ts";

const messageOf = (n: string): string =>
  `From: carol@remote.example\nTo: owner@example.test\nSubject: ${n}\nMessage-ID: <${n}@remote.example>\n\nbody of ${n}\n`;

const ENVELOPE = { from: "carol@remote.example", to: "owner@example.test" };

interface Health {
  status: string;
  replica?: string;
}
const healthOf = async (http: string): Promise<Health> => (await fetch(`${http}/healthz`)).json() as Promise<Health>;

const subjectsIn = async (s3: Awaited<ReturnType<typeof startS3>>, epoch = 1): Promise<string[]> => {
  const database = await restored(s3, epoch);
  try {
    return (database.query("SELECT subject FROM messages ORDER BY subject").all() as { subject: string }[]).map(
      ({ subject }) => subject,
    );
  } finally {
    database.close();
  }
};

describe.skipIf(noReplica !== undefined)(`a server with a replica${noReplica ? ` (${noReplica})` : ""}`, () => {
  test("copies what it commits, keeps its secrets out of files, and goes on in the same epoch", async () => {
    const s3 = await startS3();
    const place = await replicatedPlace(s3);
    const server = await serve(place);
    const sender = mailer(server.mx, { connections: 1, starttls: false });
    await sender.send(ENVELOPE, messageOf("one"));
    sender.close();
    await until(async () => (await healthOf(server.http)).replica === "ok, 0.0 s behind");
    await until(async () => (await subjectsIn(s3)).length === 1);

    const folder = join(place.data, "replica");
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(statSync(join(folder, "litestream.sock")).mode & 0o777).toBe(0o600);
    expect(readFileSync(join(folder, "litestream.yml"), "utf8")).not.toContain(s3.location.secretAccessKey);
    const environment = readFileSync(`/proc/${litestreamOf(place.data)}/environ`, "utf8").split("\0");
    expect(environment.filter((entry) => /^(MAILROOM|HOME|AWS)/.test(entry))).toEqual([]);

    expect(await server.kill("SIGTERM")).toBe(0);
    expect(existsSync(`/proc/${litestreamOf(place.data)}`)).toBeFalse();
    const lease = JSON.parse(await s3.direct.file("team/lease").text());
    expect(lease).toMatchObject({ epoch: 1, released: true, url: "https://one.example" });

    // A command beside no server writes, too.
    expect((await run(place, ["mailbox", "add", "more@example.test", "--name", "More"])).exitCode).toBe(0);
    const again = await serve(place);
    const database = await found(async () => {
      const copy = await restored(s3);
      return copy.query("SELECT 1 FROM mailboxes WHERE name = 'More'").get() ? copy : undefined;
    });
    expect(database.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
    database.close();
    expect(again.stderr()).not.toContain('"level":"error"');
    expect(await again.kill("SIGTERM")).toBe(0);
  }, 60_000);
});

/** What a look gives at last. */
async function found<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const result = await look();
    if (result !== undefined) return result;
  }
}
