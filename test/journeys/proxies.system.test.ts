/** Variables of proxies in the environment divert nothing that the server, its commands and its children ask for. */
import { describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { apiClient } from "../harness/clients/api.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { startFakeMeilisearch } from "../harness/peers/fake-meilisearch.ts";
import { makeStandIn } from "../harness/peers/meilisearch-stand-in.ts";
import { startReceiver } from "../harness/peers/receiver.ts";
import { noS3, startS3 } from "../harness/peers/s3.ts";
import { type Place, run, runJson, type Served, serve, start } from "../harness/servers/process.ts";
import { litestreamOf, noReplica, replicatedPlace } from "../harness/servers/replica.ts";
import { until } from "../harness/until.ts";
import { startForwardProxy } from "./forward-proxy.ts";

const ADDRESS = "owner@example.test";

async function setUp(place: Place): Promise<string> {
  const { apiKey } = await runJson<{ apiKey: string }>(
    ...[place, "setup", "--domain", "example.test", "--email", ADDRESS, "--name", "Owner"],
  );
  await runJson(place, "domain", "verify", "example.test", "--skip-dns");
  return apiKey;
}

/** A message with a file that is kept apart from the database. */
async function receive({ mx }: Pick<Served, "mx">): Promise<void> {
  const sender = mailer(mx);
  const file = randomBytes(100_000).toString("base64").replace(/.{76}/g, "$&\n");
  const text = `--b\nContent-Type: text/plain\n\nHello\n--b\nContent-Type: application/octet-stream\nContent-Transfer-Encoding: base64\n\n${file}\n--b--`;
  const headers = ["MIME-Version: 1.0", 'Content-Type: multipart/mixed; boundary="b"'];
  await sender.send({ from: "ben@elsewhere.test", to: ADDRESS }, letter({ to: ADDRESS, headers, text }));
  sender.close();
}

const healthOf = async ({ http }: Pick<Served, "http">): Promise<Record<string, unknown>> =>
  (await (await fetch(`${http}/healthz`)).json()) as Record<string, unknown>;

const environmentOf = (pid: number | string): string[] => readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");

/** The environment of the process whose command line has these words. */
function environmentWith(...words: string[]): string[] {
  const pid = readdirSync("/proc").find((name) => {
    try {
      const line = /^\d+$/.test(name) ? readFileSync(`/proc/${name}/cmdline`, "latin1") : "";
      return words.every((word) => line.includes(word));
    } catch {
      return false;
    }
  });
  if (pid === undefined) throw new Error(`no process has ${words.join(" ")}`);
  return environmentOf(pid);
}

test.skipIf(noS3 !== undefined)(
  `blobs, search and webhooks${noS3 === undefined ? "" : ` (${noS3})`}`,
  async () => {
    const proxy = await startForwardProxy();
    const s3 = await startS3();
    const search = startFakeMeilisearch();
    const receiver = startReceiver();
    const place = {
      data: temporaryFolder(),
      env: { ...proxy.env, MAILROOM_BLOBS: s3.url, ...s3.credentials },
    };
    const apiKey = await setUp(place);
    await run(place, ["settings", "set", "webhooks.allowNetworks", "127.0.0.0/8"]);
    await runJson(place, "webhook", "add", "--url", receiver.url, "--events", "message.inbound");
    await run(place, ["settings", "set", "search.meilisearchUrl", search.url]);
    await run(place, ["settings", "set", "search.meilisearchKey", search.key]);
    await run(place, ["settings", "set", "search.engine", "meilisearch"]);
    const server = await serve(place);
    await receive(server);
    await until(async () => (await healthOf(server)).search === "meilisearch");
    await until(() => receiver.hooks.length > 0);
    const api = apiClient(server.http, apiKey);
    const [message] = (await api.get<{ messages: { id: string }[] }>("/messages")).body.messages;
    const { body } = await api.get<{ message: { attachments: { url: string }[] } }>(`/messages/${message?.id}`);
    const url = body.message.attachments[0]?.url;
    expect((await fetch(`${server.http}${url}`, { headers: { authorization: `Bearer ${apiKey}` } })).status).toBe(200);
    await run(place, ["doctor"]);
    expect((await run(place, ["blobs", "check"])).stderr).not.toContain("502");
    expect(s3.asked.length).toBeGreaterThan(0);
    expect(search.messages()).toHaveLength(1);
    await server.kill("SIGTERM");
    expect(proxy.asked).toEqual([]);
  },
  120_000,
);

test("Meilisearch as a child gets neither variables of proxies nor the credentials of S3", async () => {
  const proxy = await startForwardProxy();
  const standIn = makeStandIn(temporaryFolder());
  const secrets = { AWS_ACCESS_KEY_ID: "id", AWS_SECRET_ACCESS_KEY: "secret" };
  const place = { data: temporaryFolder(), env: { ...proxy.env, ...secrets } };
  await setUp(place);
  await run(place, ["settings", "set", "search.meilisearchPath", standIn.path]);
  await run(place, ["settings", "set", "search.engine", "meilisearch"]);
  const server = await serve(place);
  const words = [standIn.path.replace(/meilisearch$/, "server.js"), place.data];
  const state = join(place.data, "search/process.json");
  await until(() => existsSync(state) && readFileSync(state, "utf8").includes('"running"'));
  expect(environmentWith(...words).filter((line) => /proxy|^AWS_/i.test(line))).toEqual([]);
  await server.kill("SIGTERM");
  expect(proxy.asked).toEqual([]);
}, 60_000);

describe.skipIf(noReplica !== undefined)(`a replica${noReplica === undefined ? "" : ` (${noReplica})`}`, () => {
  test("Litestream, its control, a standby that joins, and its promotion", async () => {
    const proxy = await startForwardProxy();
    const s3 = await startS3();
    const one = await replicatedPlace(s3, { "replica.ack": "replica" }, { env: proxy.env });
    const first = await serve(one);
    await receive(first);
    const litestream = litestreamOf(one.data);
    expect(environmentOf(litestream as number).filter((line) => /proxy|^AWS_/i.test(line))).toEqual([]);
    const two = { data: temporaryFolder(), env: { ...one.env, MAILROOM_BASE_URL: "https://two.example" } };
    const second = await start(two, "standby");
    const { code } = await runJson<{ code: string }>(one, "standby", "invite");
    await runJson(two, "standby", "join", code);
    await first.kill("SIGTERM");
    expect(await runJson<object>(two, "promote")).toMatchObject({ epoch: 2 });
    await second.kill("SIGTERM");
    expect(s3.asked.length).toBeGreaterThan(0);
    expect(proxy.asked).toEqual([]);
  }, 120_000);
});
