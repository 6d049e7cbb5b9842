/**
 * Both machines are alive, each in a network of its own, and not connected with each other. The bucket can be reached from
 * both, from one, from the other, from neither, and again.
 */
import { describe, expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { startS3 } from "../harness/peers/s3.ts";
import { beginServing, type Place, run, runJson, type Served, serve, start } from "../harness/servers/process.ts";
import { noReplica, replicatedPlace } from "../harness/servers/replica.ts";
import { until } from "../harness/until.ts";
import { type NetworkedMachine, networkedMachine, noNetworks } from "./networks.ts";

const OWNER = "owner@example.test";
const missing = noReplica ?? noNetworks;

const placeOn = ({ program, address }: NetworkedMachine) => ({
  program,
  env: {
    MAILROOM_HTTP: `${address}:0`,
    MAILROOM_MX: `${address}:0`,
    MAILROOM_SUBMISSION: "off",
    MAILROOM_SUBMISSIONS: "off",
  },
});

async function machines(settings: Record<string, string>) {
  const [ofOne, ofTwo] = [networkedMachine(), networkedMachine()];
  const s3 = await startS3("moto", { hostname: ofOne.bucketAddress });
  const way = await startS3("moto", { beside: s3, hostname: ofTwo.bucketAddress });
  const one = await replicatedPlace(s3, settings, placeOn(ofOne));
  const there = placeOn(ofTwo);
  const two: Place = {
    ...there,
    data: temporaryFolder(),
    env: { ...one.env, ...there.env, MAILROOM_REPLICA: way.url, MAILROOM_BASE_URL: "https://two.example" },
  };
  const first = await serve(one);
  const second = await start(two, "standby");
  const { code } = await runJson<{ code: string }>(one, "standby", "invite");
  await run(two, ["standby", "join", code]);
  return { ofOne, ofTwo, one, two, first, second, apiKey: one.apiKey };
}

interface Acknowledged {
  subject: string;
  at: number;
}

/** Sends a message every tenth of a second until `over`, to wherever `mx` says. */
async function keepSending(name: string, mx: Served["mx"], over: () => boolean, told: Acknowledged[]): Promise<void> {
  for (let n = 0; !over(); n++) {
    const sender = mailer(mx);
    const subject = `${name} ${n}`;
    await sender
      .send({ from: "carol@remote.example", to: OWNER }, letter({ to: OWNER, subject }))
      .then(() => told.push({ subject, at: performance.now() }))
      .catch(() => {});
    sender.close();
    await Bun.sleep(100);
  }
}

async function subjectsOf(http: string, apiKey: string): Promise<string[]> {
  const found: string[] = [];
  for (let cursor = ""; ; ) {
    const { body } = await apiClient(http, apiKey).get<{ threads: { subject: string }[]; nextCursor: string | null }>(
      `/threads?folder=all&limit=100${cursor && `&cursor=${encodeURIComponent(cursor)}`}`,
    );
    found.push(...body.threads.map(({ subject }) => subject));
    if (body.nextCursor === null) return found;
    cursor = body.nextCursor;
  }
}

interface Promoted {
  ready: { http: string; mx: string };
}
const mxOf = ({ ready: { mx } }: Promoted): Served["mx"] => {
  const [host = "", port = ""] = mx.split(":");
  return { host, port: Number(port) };
};

describe.skipIf(missing !== undefined)(`two machines${missing === undefined ? "" : ` (${missing})`}`, () => {
  test("which both reach the bucket: one serves, the other follows, and neither needs the other", async () => {
    const { two, first, second, apiKey } = await machines({});
    const inTwo = (two.program as readonly string[]).slice(0, 4);
    const reach = Bun.spawnSync([...inTwo, "bash", "-c", `: < /dev/tcp/${first.mx.host}/${first.mx.port}`]);
    expect([reach.exitCode, reach.stderr.toString()]).toEqual([1, expect.stringContaining("Network is unreachable")]);
    const sender = mailer(first.mx);
    await sender.send({ from: "carol@remote.example", to: OWNER }, letter({ to: OWNER, subject: "followed" }));
    sender.close();
    await until(async () => (await subjectsOf(second.http, apiKey)).includes("followed"));
    const refused = await run(two, ["promote"]);
    expect([refused.exitCode, refused.stderr]).toEqual([1, expect.stringContaining("https://one.example writes")]);
    await first.kill("SIGTERM");
    await second.kill("SIGTERM");
  }, 240_000);

  test("of which only the standby reaches the bucket: the server stops before the standby may take mail", async () => {
    const { ofOne, one, two, first, second, apiKey } = await machines({ "replica.ack": "replica" });
    let isOver = false;
    const told: Acknowledged[] = [];
    const sending = keepSending("one", first.mx, () => isOver, told);
    await until(() => told.length > 5);
    ofOne.cut();
    const promoted = await runJson<Promoted>(two, "promote");
    const takenAt = performance.now();
    await Bun.sleep(2_000);
    isOver = true;
    await sending;
    expect(told.filter(({ at }) => at > takenAt)).toEqual([]);
    expect(await first.ended).not.toBe(0);
    const there = new Set(await subjectsOf(`http://${promoted.ready.http}`, apiKey));
    expect(told.filter(({ subject }) => !there.has(subject))).toEqual([]);
    // The network is back: the former server is refused for good.
    ofOne.mend();
    expect((await run(one, ["serve"])).exitCode).toBe(3);
    await second.kill("SIGTERM");
  }, 240_000);

  test("of which none reaches the bucket: the server stops, the standby reads, and the server goes on afterwards", async () => {
    const { ofOne, ofTwo, one, two, first, second, apiKey } = await machines({});
    const sender = mailer(first.mx);
    await sender.send({ from: "carol@remote.example", to: OWNER }, letter({ to: OWNER, subject: "before" }));
    sender.close();
    await until(async () => (await subjectsOf(second.http, apiKey)).includes("before"));
    ofOne.cut();
    ofTwo.cut();
    expect(await first.ended).toBe(1);
    expect(await subjectsOf(second.http, apiKey)).toEqual(["before"]);
    const refused = await run(two, ["promote"]);
    expect(refused.exitCode).toBe(1);
    expect(refused.stderr).toContain("cannot be used");
    // A unit starts it again; it waits for the bucket.
    const waiting = beginServing(one);
    ofOne.mend();
    ofTwo.mend();
    await until(() => waiting.stderr().includes('"message":"ready"'));
    await until(async () => {
      await Bun.sleep(200);
      const health = (await (await fetch(`${second.http}/healthz`)).json()) as {
        standby: { lagSeconds: number; epoch: number };
      };
      return health.standby.lagSeconds < 8 && health.standby.epoch === 1;
    });
    await waiting.kill("SIGTERM");
    await second.kill("SIGTERM");
  }, 240_000);

  test("of which only the server reaches the bucket: it goes on, and the standby cannot take over", async () => {
    const { ofTwo, two, first, second, apiKey } = await machines({});
    ofTwo.cut();
    const sender = mailer(first.mx);
    await sender.send({ from: "carol@remote.example", to: OWNER }, letter({ to: OWNER, subject: "meanwhile" }));
    sender.close();
    const refused = await run(two, ["promote"]);
    expect([refused.exitCode, refused.stderr.includes("cannot be used")]).toEqual([1, true]);
    expect(await subjectsOf(second.http, apiKey)).toEqual([]);
    ofTwo.mend();
    await until(async () => {
      await Bun.sleep(200);
      return (await subjectsOf(second.http, apiKey)).includes("meanwhile");
    });
    await until(async () => (await run(two, ["promote"])).stderr.includes("https://one.example writes to the replica"));
    await first.kill("SIGTERM");
    await second.kill("SIGTERM");
  }, 240_000);

  test("with replica.onLost=serve: both take mail until the network is back, and nothing is deleted", async () => {
    const { ofOne, one, two, first, second, apiKey } = await machines({ "replica.onLost": "serve" });
    ofOne.cut();
    const promoted = await runJson<Promoted>(two, "promote");
    let isOver = false;
    const [atOne, atTwo]: [Acknowledged[], Acknowledged[]] = [[], []];
    const both = [
      keepSending("one", first.mx, () => isOver, atOne),
      keepSending("two", mxOf(promoted), () => isOver, atTwo),
    ];
    await until(() => atOne.length > 2 && atTwo.length > 2);
    isOver = true;
    await Promise.all(both);
    ofOne.mend();
    // It sees that another has taken over.
    expect(await first.ended).toBe(3);
    const there = await subjectsOf(`http://${promoted.ready.http}`, apiKey);
    expect(atTwo.filter(({ subject }) => !there.includes(subject))).toEqual([]);
    // What the first one took is in its own database, which is kept when it comes back.
    const back = await start(one, "standby");
    const [aside = ""] = readdirSync(one.data).filter((name) => name.startsWith("before-standby-"));
    const file = join(temporaryFolder(), "old.mbox");
    const exported = await run({ data: join(one.data, aside) }, ["export", "--mailbox", OWNER, "--to", file]);
    expect(exported.exitCode).toBe(0);
    const mbox = await Bun.file(file).text();
    expect(atOne.filter(({ subject }) => !mbox.includes(`Subject: ${subject}`))).toEqual([]);
    await back.kill("SIGTERM");
    await second.kill("SIGTERM");
  }, 240_000);
});
