/** A server with a replica: what it copies, acknowledges and refuses, with a real Litestream. */
import { describe, expect, test } from "bun:test";
import { cpSync, existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { settle } from "../harness/data/settle.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { mailer } from "../harness/mail/mail.ts";
import { describeS3, ignoring, startS3 } from "../harness/peers/s3.ts";
import { beginServing, type Place, run, serve } from "../harness/servers/process.ts";
import { isAlive, litestreamOf, noReplica, replicatedPlace, restored } from "../harness/servers/replica.ts";
import { until } from "../harness/until.ts";

const messageOf = (n: string): string =>
  `From: carol@remote.example\nTo: owner@example.test\nSubject: ${n}\nMessage-ID: <${n}@remote.example>\n\nbody of ${n}\n`;

/** A lease that another server has taken. */
const OTHERS = { holder: "b", nonce: "n", released: false, url: "https://two.example", renewedAt: "" };

/** How long a slow server takes for a request; mail waits for several, and for ten seconds at most. */
const SLOW_MS = 600;
const ENVELOPE = { from: "carol@remote.example", to: "owner@example.test" };

interface Health {
  status: string;
  checks: Record<string, string>;
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

describeS3("a server with a replica", (program) => {
  test.skipIf(noReplica !== undefined)(
    "copies what it commits, keeps its secrets out of files, and goes on in the same epoch",
    async () => {
      const s3 = await startS3(program);
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
    },
    60_000,
  );
});

describe.skipIf(noReplica !== undefined)(`a server with a replica${noReplica ? ` (${noReplica})` : ""}`, () => {
  test("a server whose lease another takes stops at once, says so, and is refused from then on", async () => {
    const s3 = await startS3();
    const place = await replicatedPlace(s3);
    const server = await serve(place);
    const child = litestreamOf(place.data);
    await s3.direct.write("team/lease", JSON.stringify({ ...OTHERS, epoch: 2 }));
    expect(await server.ended).toBe(3);
    expect(server.stderr()).toContain(
      "mailroom: https://two.example has taken over the replica, in epoch 2. This server takes no mail",
    );
    await until(() => !isAlive(child));
    const before = await s3.direct.file("team/lease").text();
    const again = await refusedToServe(place);
    expect(again.exitCode).toBe(3);
    expect(again.stderr).toContain("https://two.example writes to the replica, in epoch 2");
    expect(await s3.direct.file("team/lease").text()).toBe(before);
  }, 60_000);

  test("a lease that somebody removes is taken anew at the next start, in a new epoch", async () => {
    const s3 = await startS3();
    const place = await replicatedPlace(s3);
    const server = await serve(place);
    await until(async () => (await subjectsIn(s3).catch(() => undefined)) !== undefined);
    await s3.direct.delete("team/lease");
    expect(await server.ended).toBe(1);
    expect(server.stderr()).toContain("mailroom: the lease of the replica was removed");
    const again = await serve(place);
    expect(JSON.parse(await s3.direct.file("team/lease").text())).toMatchObject({ epoch: 2 });
    await until(async () => (await subjectsIn(s3, 2).catch(() => undefined)) !== undefined);
    expect(await again.kill("SIGTERM")).toBe(0);
  }, 60_000);

  test("a copy of the data folder is refused while the first one serves, and goes on in its place", async () => {
    const s3 = await startS3();
    const place = await replicatedPlace(s3);
    const first = await serve(place);
    const writes = () => s3.asked.filter((line) => line.startsWith("PUT") && line.endsWith("/lease")).length;
    const before = writes();
    const copy = { ...place, data: temporaryFolder() };
    cpSync(place.data, copy.data, { recursive: true, filter: (path) => !/\.(lock|sock)/.test(path) });
    await until(() => writes() >= before + 2);
    const refused = await refusedToServe(copy);
    expect(refused.exitCode).toBe(3);
    expect(refused.stderr).toContain("from a copy of this data folder");

    // A copy of this very moment waits until the first one shows itself.
    const same = { ...place, data: temporaryFolder() };
    cpSync(place.data, same.data, { recursive: true, filter: (path) => !/\.(lock|sock)/.test(path) });
    expect(await refusedToServe(same)).toMatchObject({ exitCode: 3 });

    // Without the first one, the folder was moved.
    await first.kill("SIGKILL");
    const moved = { ...place, data: temporaryFolder() };
    cpSync(place.data, moved.data, { recursive: true, filter: (path) => !/\.(lock|sock)/.test(path) });
    const other = await serve(moved);
    expect(JSON.parse(await s3.direct.file("team/lease").text())).toMatchObject({ epoch: 1 });
    expect(await other.kill("SIGTERM")).toBe(0);
    const left = await refusedToServe(place);
    expect(left).toMatchObject({ exitCode: 3 });
    expect(left.stderr).toContain("what this one has is older");
  }, 90_000);

  test("a Litestream that is killed is started again, and mail goes on", async () => {
    const s3 = await startS3();
    const place = await replicatedPlace(s3);
    const server = await serve(place);
    await until(async () => (await healthOf(server.http)).replica === "ok, 0.0 s behind");
    const first = litestreamOf(place.data) as number;
    process.kill(first, "SIGKILL");
    const sender = mailer(server.mx, { connections: 1, starttls: false });
    await sender.send(ENVELOPE, messageOf("meanwhile"));
    sender.close();
    await until(() => litestreamOf(place.data) !== first && isAlive(litestreamOf(place.data)));
    await until(async () => (await subjectsIn(s3)).includes("meanwhile"));
    expect(server.stderr()).toContain("litestream does not run: the replica does not get what happens here");
    const metrics = await (await fetch(`${server.http}/metrics`)).text();
    expect(metrics).toContain("mailroom_replica_process_restarts_total 1");
    expect(metrics).toContain("mailroom_replica_epoch 1");
    expect(await server.kill("SIGTERM")).toBe(0);
  }, 60_000);

  test("Litestream does not survive the server", async () => {
    const s3 = await startS3();
    const place = await replicatedPlace(s3);
    const server = await serve(place);
    await until(() => isAlive(litestreamOf(place.data)));
    const child = litestreamOf(place.data);
    await server.kill("SIGKILL");
    await until(() => !isAlive(child));
    const again = await serve(place);
    expect(JSON.parse(await s3.direct.file("team/lease").text())).toMatchObject({ epoch: 1 });
    await again.kill("SIGTERM");
  }, 60_000);

  test("with replica.ack, mail waits for the replica and for the sight of the lease", async () => {
    const s3 = await startS3();
    const place = await replicatedPlace(s3, { "replica.ack": "replica" });
    const server = await serve(place);
    const sender = mailer(server.mx, { connections: 16, starttls: false });
    const taken = async (n: string) => sender.send(ENVELOPE, messageOf(n)).then(({ reply }) => reply.slice(0, 3));
    await Promise.all(Array.from({ length: 64 }, (_, n) => taken(`many ${n}`)));
    const asked = s3.asked.filter((line) => line.startsWith("GET") && line.endsWith("/team/lease")).length;
    expect(asked).toBeLessThan(64);
    expect(await subjectsIn(s3)).toHaveLength(64);

    // The replica takes nothing more, while the lease is renewed.
    s3.interfere((request) =>
      request.method === "PUT" && request.url.includes("/epochs/")
        ? new Response("<Error><Code>SlowDown</Code></Error>", { status: 503 })
        : undefined,
    );
    await expect(taken("later")).rejects.toMatchObject({ responseCode: 452 });
    expect(await healthOf(server.http)).toMatchObject({
      status: "failing",
      checks: { store: "ok", smtp: "ok", replica: "failing" },
      replica: expect.stringMatching(/^failing, [1-9]/),
    });
    expect(server.stderr()).toContain('"message":"the replica does not get what happens here"');
    s3.interfere(undefined);
    await until(async () => (await taken("later").catch(() => "452")) === "250");
    expect((await subjectsIn(s3)).filter((subject) => subject === "later")).toHaveLength(1);

    // The replica has it, and the lease is another's.
    await s3.direct.write("team/lease", JSON.stringify({ ...OTHERS, epoch: 2 }));
    await expect(taken("too late")).rejects.toThrow();
    sender.close();
    expect(await server.ended).toBe(3);
  }, 90_000);

  test("a slow replica makes mail wait, and costs neither mail nor the lease", async () => {
    const s3 = await startS3();
    const place = await replicatedPlace(s3, { "replica.ack": "replica" });
    const server = await serve(place);
    await until(async () => (await healthOf(server.http)).replica === "ok, 0.0 s behind");
    let delayed = 0;
    s3.interfere(async (_, forward) => {
      await Bun.sleep(SLOW_MS);
      delayed++;
      return forward();
    });
    const sender = mailer(server.mx, { connections: 1, starttls: false });
    const startedAt = performance.now();
    expect((await sender.send(ENVELOPE, messageOf("slow"))).reply).toStartWith("250");
    expect(performance.now() - startedAt).toBeGreaterThan(2 * SLOW_MS);
    sender.close();
    await until(() => delayed > 10);
    expect(server.stderr()).not.toContain("may not write");
    s3.interfere(undefined);
    expect(await server.kill("SIGTERM")).toBe(0);
    expect(await subjectsIn(s3)).toEqual(["slow"]);
  }, 90_000);

  test("a server of the replica that ignores conditions, refuses the key, or has no such bucket is refused", async () => {
    const s3 = await startS3();
    const place = await replicatedPlace(s3);
    s3.interfere(ignoring(s3, "if-none-match"));
    const ignored = await refusedToServe(place);
    expect(ignored).toMatchObject({ exitCode: 1 });
    expect(ignored.stderr).toContain("does not honour If-None-Match");
    s3.interfere(() => new Response("<Error><Code>InvalidAccessKeyId</Code></Error>", { status: 403 }));
    const refused = await refusedToServe(place);
    expect(refused).toMatchObject({ exitCode: 1 });
    expect(refused.stderr).toContain("403 InvalidAccessKeyId");
    expect(refused.stderr).not.toContain(s3.location.secretAccessKey);
    s3.interfere(undefined);
    const elsewhere = { ...place, env: { ...place.env, MAILROOM_REPLICA: s3.url.replace(/mailroom-\d+-/, "absent-") } };
    expect((await refusedToServe(elsewhere)).stderr).toContain("404 NoSuchBucket");
  }, 60_000);

  test("a server waits at its start for a replica that does not answer, until a signal", async () => {
    const s3 = await startS3();
    const place = await replicatedPlace(s3);
    s3.interfere(() => new Response("", { status: 503 }));
    const waiting = beginServing(place);
    await until(() => waiting.stderr().includes("the lease of the replica cannot be taken yet"));
    expect(await waiting.kill("SIGTERM")).toBe(0);
    const serving = serve(place);
    await until(() => s3.asked.length > 2);
    s3.interfere(undefined);
    const server = await serving;
    expect(await server.kill("SIGTERM")).toBe(0);
  }, 60_000);

  test("a server that loses sight of the replica stops, or goes on with replica.onLost=serve", async () => {
    const [one, two] = [await startS3(), await startS3()];
    const stops = await replicatedPlace(one);
    const serves = await replicatedPlace(two, { "replica.onLost": "serve" });
    const [first, second] = [await serve(stops), await serve(serves)];
    for (const s3 of [one, two]) s3.interfere(() => new Response("", { status: 503 }));
    const startedAt = performance.now();
    expect(await first.ended).toBe(1);
    expect(performance.now() - startedAt).toBeLessThan(25_000);
    expect(first.stderr()).toContain("mailroom: the lease of the replica could not be renewed");
    expect(isAlive(litestreamOf(stops.data))).toBeFalse();

    await until(() => second.stderr().includes("the replica is out of sight, and this server goes on"));
    const sender = mailer(second.mx, { connections: 1, starttls: false });
    await sender.send(ENVELOPE, messageOf("blind"));
    sender.close();
    // It also starts without a sight.
    await second.kill("SIGKILL");
    const third = await serve(serves);
    two.interfere(undefined);
    await until(async () => (await subjectsIn(two).catch((): string[] => [])).includes("blind"));
    await two.direct.write("team/lease", JSON.stringify({ ...OTHERS, epoch: 2 }));
    expect(await third.ended).toBe(3);
  }, 90_000);

  test("the doctor tells from another process who has the lease, and what the replica gets", async () => {
    const s3 = await startS3();
    const place = await replicatedPlace(s3);
    expect(await findings(place)).toMatchObject({
      "replica-lease": { state: "ok", detail: "nobody has it" },
      replica: { state: "ok", detail: expect.stringContaining("is version 0.5.") },
    });
    const server = await serve(place);
    await until(async () => (await healthOf(server.http)).replica === "ok, 0.0 s behind");
    expect(await findings(place)).toMatchObject({
      "replica-lease": { state: "ok", detail: expect.stringContaining("this server has it: epoch 1, last renewed 2") },
      replica: { state: "ok", detail: expect.stringContaining("it has everything, which took ") },
    });
    s3.interfere((request) =>
      request.url.includes("/epochs/") && request.method === "PUT"
        ? new Response("<Error><Code>QuotaExceeded</Code></Error>", { status: 507 })
        : undefined,
    );
    settle(place, { "sending.maxRecipients": "99" });
    expect(await findings(place)).toMatchObject({
      "replica-lease": { state: "ok" },
      replica: { state: "bad", detail: expect.stringContaining("it does not get what is committed: litestream ") },
    });
    await server.kill("SIGKILL");
    s3.interfere(undefined);
    await s3.direct.write("team/lease", JSON.stringify({ ...OTHERS, epoch: 2 }));
    const absent = { ...place, env: { ...place.env, PATH: "/usr/bin:/bin" } };
    expect(await findings(absent)).toMatchObject({
      "replica-lease": { state: "bad", detail: expect.stringContaining("https://two.example has it: epoch 2") },
      replica: {
        state: "bad",
        detail: expect.stringContaining("there is no Litestream: replica.litestreamPath names none"),
      },
    });
  }, 90_000);

  test("a Litestream of another version, or none, is said and retried, and mail goes on", async () => {
    const s3 = await startS3();
    const place = await replicatedPlace(s3);
    const other = join(temporaryFolder(), "litestream");
    writeFileSync(other, "#!/bin/sh\necho v0.3.13\n", { mode: 0o755 });
    settle(place, { "replica.litestreamPath": other });
    const server = await serve(place);
    await until(() => server.stderr().includes("is version 0.3.13 of Litestream"));
    const sender = mailer(server.mx, { connections: 1, starttls: false });
    await sender.send(ENVELOPE, messageOf("meanwhile"));
    await until(async () => /^failing, /.test((await healthOf(server.http)).replica ?? ""));
    expect((await healthOf(server.http)).status).toBe("ok");
    settle(place, { "replica.ack": "replica" });
    await until(async () => {
      const refused = await sender.send(ENVELOPE, messageOf("refused")).catch((error) => error.responseCode);
      return refused === 452;
    });
    settle(place, { "replica.litestreamPath": "auto" });
    await until(async () => (await healthOf(server.http)).replica?.startsWith("ok"));
    await sender.send(ENVELOPE, messageOf("refused"));
    sender.close();
    expect(await subjectsIn(s3)).toEqual(["meanwhile", "refused"]);
    expect(await server.kill("SIGTERM")).toBe(0);
  }, 90_000);
});

/** Findings of the doctor about the replica, by id. */
async function findings(place: Place): Promise<Record<string, unknown>> {
  const { stdout } = await run(place, ["doctor", "--json"]);
  const all = JSON.parse(stdout) as { id: string }[];
  return Object.fromEntries(all.filter(({ id }) => id.startsWith("replica")).map((finding) => [finding.id, finding]));
}

/** Starts a server that ends by itself. */
async function refusedToServe(place: Place): Promise<{ exitCode: number | null; stderr: string }> {
  const server = beginServing(place);
  return { exitCode: await server.ended, stderr: server.stderr() };
}

/** Looks until there is a result, and returns it. */
async function found<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const result = await look();
    if (result !== undefined) return result;
  }
}
