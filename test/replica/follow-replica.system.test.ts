/** Two machines: a server, its standby, what happens to them in order, and back again. */
import { describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { fetchAll, imapAccount } from "../harness/clients/imap-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { mailer } from "../harness/mail/mail.ts";
import { startS3 } from "../harness/peers/s3.ts";
import { type Place, run, runJson, type Served, serve, start } from "../harness/servers/process.ts";
import { noReplica, replicatedPlace } from "../harness/servers/replica.ts";
import { until } from "../harness/until.ts";

const OWNER = "owner@example.test";

type Health = { status: string; standby?: { lagSeconds?: number; epoch?: number; reason?: string } };
const healthOf = async ({ http }: Pick<Served, "http">): Promise<Health> =>
  (await (await fetch(`${http}/healthz`)).json()) as Health;

interface Message {
  id: string;
  subject: string;
}

async function subjects({ http }: Pick<Served, "http">, apiKey: string): Promise<string[]> {
  const { status, body } = await apiClient(http, apiKey).get<{ messages: Message[] }>("/messages?limit=100");
  if (status !== 200) throw new Error(`${status} ${JSON.stringify(body)}`);
  return body.messages.map(({ subject }) => subject).sort();
}

async function receive({ mx }: Pick<Served, "mx">, ...given: string[]): Promise<void> {
  const sender = mailer(mx);
  for (const subject of given) {
    await sender.send(
      { from: "ben@elsewhere.test", to: OWNER },
      `From: ben@elsewhere.test\r\nSubject: ${subject}\r\n\r\nHello\r\n`,
    );
  }
  sender.close();
}

/** The subjects are there within a few seconds. */
const shows = (served: Pick<Served, "http">, apiKey: string, expected: string[]): Promise<void> =>
  until(async () => {
    await Bun.sleep(100);
    return Bun.deepEquals(await subjects(served, apiKey), expected.toSorted());
  });

/** Joins a standby to the server. */
async function joinTo(server: Place, standby: Place): Promise<string[]> {
  const { code } = await runJson<{ code: string }>(server, "standby", "invite");
  return (await runJson<{ files: string[] }>(standby, "standby", "join", code)).files;
}

describe.skipIf(noReplica !== undefined)(`a standby${noReplica === undefined ? "" : ` (${noReplica})`}`, () => {
  test("follows, takes over, and the former server becomes the standby", async () => {
    const s3 = await startS3();
    const one = await replicatedPlace(s3);
    const { apiKey } = one;
    makeSeal(one.data);
    const first = await serve(one);
    await receive(first, "a");
    const two = { data: temporaryFolder(), env: { ...one.env, MAILROOM_BASE_URL: "https://two.example" } };
    const second = await start(two, "standby");
    expect(second.ready).toMatchObject({ mx: "off", submission: "off", submissions: "off" });
    await shows(second, apiKey, ["a"]);
    await receive(first, "b");
    await shows(second, apiKey, ["a", "b"]);
    await until(async () => ((await healthOf(second)).standby?.lagSeconds ?? 60) < 10);

    // Commands beside it read, and do not write.
    expect((await runJson<{ address: string }[]>(two, "user", "list")).map(({ address }) => address)).toEqual([OWNER]);
    const refused = await run(two, ["key", "create", "--user", OWNER, "--name", "x", "--scopes", "read"]);
    expect(refused).toMatchObject({ exitCode: 1, stdout: "" });
    expect(refused.stderr).toContain("the server is https://one.example");
    expect((await run(two, ["backup", join(temporaryFolder(), "b")])).stderr).toContain("make backups on the server");
    expect((await run(two, ["serve"])).stderr).toContain("the data folder of a standby");

    // It cannot take over yet: it lacks the keys, and the server is alive.
    expect((await run(two, ["promote"])).stderr).toContain("mailroom standby invite");
    expect(await joinTo(one, two)).toEqual(["keys/second-factor.key", "tls/self-signed.pem"]);
    const key = join(two.data, "keys/second-factor.key");
    expect(readFileSync(key)).toEqual(readFileSync(join(one.data, "keys/second-factor.key")));
    expect(statSync(key).mode & 0o777).toBe(0o600);
    expect((await run(two, ["promote"])).stderr).toContain("the server https://one.example writes to the replica");

    await receive(first, "c");
    await shows(second, apiKey, ["a", "b", "c"]);
    await first.kill("SIGTERM");
    const promoted = await runJson<{ epoch: number; former: number; ready: Record<string, string> }>(two, "promote");
    expect(promoted).toMatchObject({ epoch: 2, former: 1, formerServer: "https://one.example" });
    const [host = "", port = ""] = promoted.ready.mx?.split(":") ?? [];
    const now = { http: `http://${promoted.ready.http}`, mx: { host, port: Number(port) } };
    expect((await healthOf(now)).standby).toBeUndefined();
    await receive(now, "d");
    expect(await subjects(now, apiKey)).toEqual(["a", "b", "c", "d"]);

    // The former server says who has taken over, and becomes the standby, with its own database aside.
    const fenced = await run(one, ["serve"]);
    expect(fenced.stderr).toContain("https://two.example");
    expect(fenced.exitCode).toBe(3);
    const back = await start(one, "standby");
    await shows(back, apiKey, ["a", "b", "c", "d"]);
    const [aside = ""] = readdirSync(one.data).filter((name) => name.startsWith("before-standby-"));
    expect(back.stderr()).toContain(aside);
    const kept = { data: join(one.data, aside) };
    expect((await runJson<{ address: string }[]>(kept, "user", "list")).length).toBe(1);

    // And back. It has the key already: it was a server.
    await second.kill("SIGKILL");
    const again = await runJson<{ epoch: number }>(one, "promote");
    expect(again).toMatchObject({ epoch: 3, former: 2 });
    // The unit of a standby serves from then on, also after a restart.
    await back.kill("SIGTERM");
    const restarted = await start(one, "standby");
    expect(restarted.ready.mx).not.toBe("off");
    expect(await subjects(restarted, apiKey)).toEqual(["a", "b", "c", "d"]);
    const third = await start(two, "standby");
    await shows(third, apiKey, ["a", "b", "c", "d"]);
    expect(existsSync(join(two.data, "mailroom.db"))).toBe(false);
    await third.kill("SIGTERM");
    await restarted.kill("SIGTERM");
  }, 240_000);

  test("serves octets byte for byte, those in files where both machines read them, and so does the server that it becomes", async () => {
    const s3 = await startS3();
    const text = randomBytes(60_000).toString("hex").replace(/.{76}/g, "$&\r\n");
    const messages = ["short", text].map((body, n) => `From: ben@elsewhere.test\r\nSubject: ${n}\r\n\r\n${body}\r\n`);
    const places = { MAILROOM_BLOBS: s3.url.replace("/team", "/files"), MAILROOM_IMAPS: "127.0.0.1:0" };
    const { apiKey, ...place } = await replicatedPlace(s3);
    const one = { ...place, env: { ...place.env, ...places } };
    const first = await serve(one);
    const two = { data: temporaryFolder(), env: { ...one.env, MAILROOM_BASE_URL: "https://two.example" } };
    const second = await start(two, "standby");
    await joinTo(one, two);
    const sender = mailer(first.mx);
    for (const message of messages) await sender.send({ from: "ben@elsewhere.test", to: OWNER }, message);
    sender.close();
    await shows(second, apiKey, ["0", "1"]);

    /** The originals, in the order of their subjects. */
    async function originals({ http }: Pick<Served, "http">): Promise<string[]> {
      const api = apiClient(http, apiKey);
      const { body } = await api.get<{ messages: Message[] }>("/messages");
      const found = body.messages.toSorted((a, b) => a.subject.localeCompare(b.subject));
      const all = await Promise.all(found.map(({ id }) => api.bytes(`/api/ext/v1/messages/${id}/original`)));
      return all.map((answer) => Buffer.from(answer.body).toString());
    }
    const before = await originals(first);
    expect(before.map((octets, n) => octets.endsWith(messages[n] ?? "none"))).toEqual([true, true]);
    expect(Bun.deepEquals(await originals(second), before)).toBe(true);
    await first.kill("SIGTERM");
    const { ready } = await runJson<{ ready: Record<string, string> }>(two, "promote");
    expect(Bun.deepEquals(await originals({ http: `http://${ready.http}` }), before)).toBe(true);
    const app = await imapAccount(Number(ready.imaps?.split(":")[1]), OWNER, apiKey);
    const fetched = (await fetchAll(app, "INBOX")).mail.map(({ octets }) => octets);
    app.end();
    expect(Bun.deepEquals(fetched, before)).toBe(true);
    await second.kill("SIGTERM");
  }, 120_000);

  test("a promotion that is killed goes on at the next start, and one without a standby that runs works, too", async () => {
    const s3 = await startS3();
    const one = await replicatedPlace(s3);
    const { apiKey } = one;
    const first = await serve(one);
    await receive(first, "a");
    const two = { data: temporaryFolder(), env: { ...one.env, MAILROOM_BASE_URL: "https://two.example" } };
    const second = await start(two, "standby");
    await shows(second, apiKey, ["a"]);
    await joinTo(one, two);
    await first.kill("SIGTERM");

    // It gets the lease, and then cannot look at the replica any more.
    const isTaken = () => existsSync(join(two.data, "replica.json"));
    s3.interfere(({ url }) =>
      isTaken() && url.includes("list-type") ? new Response(null, { status: 503 }) : undefined,
    );
    const promoting = run(two, ["promote"]);
    await until(isTaken);
    await second.kill("SIGKILL");
    expect((await promoting).stderr).toContain("start it again, and it goes on");
    expect((await run(one, ["serve"])).exitCode).toBe(3);
    s3.interfere(undefined);
    const again = await start(two, "standby");
    await until(() => again.stderr().includes('"message":"ready"'));
    await until(() => existsSync(join(two.data, "mailroom.db")));
    await again.kill("SIGTERM");
    const server = await start(two, "standby");
    expect(server.ready.mx).not.toBe("off");
    expect(await subjects(server, apiKey)).toEqual(["a"]);

    // Back, without a process that follows.
    const back = await start(one, "standby");
    await shows(back, apiKey, ["a"]);
    await joinTo(two, one);
    await back.kill("SIGTERM");
    await server.kill("SIGTERM");
    const promoted = await runJson<{ epoch: number; next: string }>(one, "promote");
    expect(promoted).toMatchObject({ epoch: 3, former: 2, next: "start mailroom standby, or mailroom serve" });
    const served = await serve(one);
    expect(await subjects(served, apiKey)).toEqual(["a"]);
    await served.kill("SIGTERM");
  }, 240_000);

  test("does not become the server with what a stranger put into the replica to run there", async () => {
    const s3 = await startS3();
    const one = await replicatedPlace(s3);
    const script = `new (await import("bun:sqlite")).Database(${JSON.stringify(join(one.data, "mailroom.db"))}).exec(
      "CREATE TRIGGER theirs AFTER INSERT ON messages BEGIN UPDATE users SET name = 'theirs'; END")`;
    expect(await Bun.spawn([process.execPath, "-e", script]).exited).toBe(0);
    const first = await serve(one);
    const two = { data: temporaryFolder(), env: { ...one.env, MAILROOM_BASE_URL: "https://two.example" } };
    const second = await start(two, "standby");
    await shows(second, one.apiKey, []);
    await joinTo(one, two);
    await first.kill("SIGTERM");
    const refused = await run(two, ["promote"]);
    expect(refused.exitCode).toBe(1);
    expect(refused.stderr).toContain("has a trigger theirs that is not Mailroom's");
    expect(existsSync(join(two.data, "mailroom.db"))).toBe(false);
    await second.kill("SIGTERM");
    // The lease is nobody else's.
    await (await serve(one)).kill("SIGTERM");
  }, 240_000);

  test("is invited with a code that works once, for an hour, and hands over nothing without it", async () => {
    const s3 = await startS3();
    const one = await replicatedPlace(s3);
    const server = await serve(one);
    const standby = { data: temporaryFolder(), env: one.env };
    const refusal = "this code is wrong, or was used, or is older than an hour";
    const join = (code: string) => run(standby, ["standby", "join", code]);
    const invite = async () => (await runJson<{ code: string }>(one, "standby", "invite")).code;
    const stale = await invite();
    const code = await invite();
    expect((await join(stale)).stderr).toContain(refusal);
    expect((await join("wrong")).stderr).toContain(refusal);
    const [object = ""] = (await s3.direct.list({ prefix: "team/join/" })).contents?.map(({ key }) => key) ?? [];
    const sealed = Buffer.from(await s3.direct.file(object).text(), "base64").toString("latin1");
    expect(sealed).toStartWith("age-encryption.org/v1");
    expect(sealed).not.toContain("PRIVATE KEY");
    // As people type it.
    expect(await join(code.toUpperCase().replaceAll("-", " "))).toMatchObject({ exitCode: 0 });
    expect((await join(code)).stderr).toContain(refusal);
    expect((await s3.direct.list({ prefix: "team/join/" })).contents ?? []).toEqual([]);
    expect((await run(standby, ["standby", "invite"])).stderr).toContain("run it on the server");
    expect((await run(one, ["standby", "join", code])).stderr).toContain("is the data folder of a server");
    // Nobody has taken over from it.
    await server.kill("SIGTERM");
    const refused = await run({ data: temporaryFolder(), env: one.env }, ["promote"]);
    expect(refused.exitCode).toBe(1);
  }, 120_000);
});

/** The key that seals second factors, as it is once a person has one. */
function makeSeal(data: string): void {
  mkdirSync(join(data, "keys"), { mode: 0o700 });
  writeFileSync(join(data, "keys/second-factor.key"), new Uint8Array(32).fill(7), { mode: 0o600 });
}
