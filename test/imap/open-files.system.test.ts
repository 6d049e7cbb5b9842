/** More mail apps than the server may open files: they are refused, mail and API go on, and later apps get in again. */
import { expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { apiClient } from "../harness/clients/api.ts";
import { fetchAll, type ImapAccount, imapAccount } from "../harness/clients/imap-client.ts";
import { settle, WITHOUT_LIMITS } from "../harness/data/settle.ts";
import { atEndOfFile } from "../harness/end.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter, mailer } from "../harness/mail/mail.ts";
import { imapsOf, PROGRAM, run, runJson, type Served, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const OWNER = "owner@example.test";
const LIMIT = 1_024;
/** IMAP's share of that. */
const SHARE = 50;
const STRANGERS = 300;
/** Too long to be composed without a file. */
const LARGE_TEXT = randomBytes(300_000).toString("base64").replace(/.{76}/g, "$&\n");
/** A file that is not part of the octets in the database. */
const LONG_TEXT = "x".repeat(900).concat("\n").repeat(3);
const ATTACHED = ['Content-Disposition: attachment; filename="f"'];

const sockets: Socket[] = [];
atEndOfFile(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

async function setUp() {
  const env = { MAILROOM_IMAP: "127.0.0.1:0", MAILROOM_IMAPS: "127.0.0.1:0" };
  const place = { data: temporaryFolder(), env };
  const names = ["--domain", "example.test", "--email", OWNER, "--name", "Owner"];
  const { apiKey } = await runJson<{ apiKey: string }>(place, "setup", ...names);
  await run(place, ["domain", "verify", "example.test", "--skip-dns"]);
  settle(place, WITHOUT_LIMITS);
  const server = await serve({
    ...place,
    program: ["prlimit", `--nofile=${LIMIT}:${LIMIT}`, ...PROGRAM],
  });
  return { place, apiKey, server, app: () => imapAccount(imapsOf(server), OWNER, apiKey) };
}

async function receive({ mx }: Served, subject: string, text = "Hello", headers: string[] = []): Promise<void> {
  const sender = mailer(mx);
  await sender.send({ from: "carol@remote.example", to: OWNER }, letter({ to: OWNER, subject, text, headers }));
  sender.close();
}

const allows = ({ pid }: Served, files: number): void =>
  void Bun.spawnSync(["prlimit", `--pid=${pid}`, `--nofile=${files}:${LIMIT}`]);

test("beyond IMAP's share of the open files silent strangers end, and those that are in read large mail", async () => {
  const { place, server, apiKey, app } = await setUp();
  await receive(server, "large", LARGE_TEXT);
  const apps: ImapAccount[] = [];
  for (let i = 0; i < 20; i++) apps.push(await app());
  const [, host = "", port = ""] = /^(.*):(\d+)$/.exec(String(server.ready.imap)) ?? [];
  const greetings: string[] = [];
  let ended = 0;
  for (let i = 0; i < STRANGERS; i++) {
    const socket = connect({ host, port: Number(port), localAddress: `127.${i % 50}.0.1` });
    sockets.push(socket);
    socket.once("close", () => ended++);
    socket.once("data", (bytes: Buffer) => greetings.push(bytes.toString("latin1")));
    socket.on("error", () => {});
  }
  // Each is greeted, and ends when it has been silent for longest and another comes.
  await until(() => greetings.length === STRANGERS && ended === STRANGERS - SHARE + apps.length);
  expect(greetings.filter((text) => !text.startsWith("* OK "))).toEqual([]);
  apps.push(await app());
  const checks = JSON.parse((await run(place, ["doctor", "--json"])).stdout) as { id: string; detail: string }[];
  expect(checks.find(({ id }) => id === "open-files")?.detail).toContain(`${SHARE} IMAP`);

  const fetched = await Promise.all(apps.map((one) => fetchAll(one, "INBOX")));
  for (const { mail } of fetched) expect(mail[0]?.octets.length).toBeGreaterThan(LARGE_TEXT.length);
  await receive(server, "meanwhile");
  expect((await apiClient(server.http, apiKey).get("/threads")).status).toBe(200);
  const health = await fetch(`${server.http}/healthz`);
  expect([health.status, await health.json()]).toMatchObject([200, { checks: { smtp: "ok" } }]);
  const metrics = async () => (await (await fetch(`${server.http}/metrics`)).text()).split("\n");
  expect(await metrics()).toContain(`mailroom_imap_connections_refused_total{by="total"} ${ended}`);

  for (const socket of sockets.splice(0)) socket.destroy();
  for (const one of apps) one.end();
  await until(async () => (await metrics()).includes('mailroom_imap_connections{kind="open"} 0'));
  const again = await app();
  expect((await fetchAll(again, "INBOX")).mail).toHaveLength(2);
  again.end();
  expect(await server.kill("SIGTERM")).toBe(0);
}, 60_000);

test("where no file can be opened at all, sessions go on, and with room again apps get in", async () => {
  const { server, apiKey, app } = await setUp();
  await receive(server, "large", LARGE_TEXT);
  await receive(server, "with a file", LONG_TEXT, ATTACHED);
  const first = await app();
  expect((await first.say("SELECT INBOX")).untagged).toContain("* 2 EXISTS");
  allows(server, readdirSync(`/proc/${server.pid}/fd`).length);
  let greeted = 0;
  const late = Array.from({ length: 20 }, () => {
    const socket = connect(imapsOf(server), "127.0.0.1");
    socket.on("data", () => greeted++).on("error", () => {});
    return socket;
  });
  const unavailable = expect.stringMatching(/^\[UNAVAILABLE\] The mail store is briefly unavailable/);
  const attached = letter({ headers: ATTACHED }).replaceAll("\n", "\r\n");
  for (const command of ["FETCH 1 (BODY.PEEK[])", "FETCH 2 (BODY.PEEK[])"]) {
    expect(await first.say(command)).toMatchObject({ status: "NO", text: unavailable });
  }
  // The parser that writes its file has descriptors of its own.
  expect((await first.say(`APPEND INBOX {${attached.length}+}\r\n${attached}`)).status).toBe("OK");
  expect(server.stderr()).not.toContain('"level":"error"');
  expect(greeted).toBe(0);
  allows(server, LIMIT);
  for (const socket of late) socket.destroy();
  await receive(server, "two");
  const second = await app();
  const { mail } = await fetchAll(second, "INBOX");
  expect(mail.map(({ size, octets }) => size === octets.length)).toEqual([true, true, true, true]);
  expect(mail[0]?.octets.length).toBeGreaterThan(LARGE_TEXT.length);
  expect((await apiClient(server.http, apiKey).get("/threads")).status).toBe(200);
  first.end();
  second.end();
  expect(await server.kill("SIGTERM")).toBe(0);
}, 60_000);
