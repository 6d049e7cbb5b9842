/** The server accepts mail under any load of HTTP: one that may open 1,024 files gets many idle POST requests. */
import { expect, test } from "bun:test";
import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { operatingSystem } from "../../src/doctor/system.ts";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { atEndOfFile } from "../harness/end.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { FROM_SOURCE, run, runJson, type Served, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const LIMIT = 1_024;

const sockets: Socket[] = [];
atEndOfFile(() => {
  for (const socket of sockets.splice(0)) socket.destroy();
});

/**
 * Sends a POST that needs no key and whose body never comes. Resolves with the response, or when the connection closes.
 */
function postIdly(at: string, ending: Promise<void>): Promise<string> {
  const { hostname, port, protocol } = new URL(at);
  const place = { host: hostname, port: Number(port), rejectUnauthorized: false };
  const { promise, resolve } = Promise.withResolvers<string>();
  const socket: Socket = protocol === "https:" ? connectTls(place) : connect(place);
  sockets.push(socket);
  socket.once(protocol === "https:" ? "secureConnect" : "connect", () =>
    socket.write(
      "POST /app/sign-in HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n" +
        "Content-Type: application/json\r\nContent-Length: 16000\r\n\r\n",
    ),
  );
  socket.once("data", (bytes: Buffer) => resolve(bytes.toString("latin1")));
  socket.once("close", () => resolve(""));
  socket.on("error", () => {});
  void ending.then(() => resolve("waits"));
  return promise;
}

const MESSAGE = [
  "From: sender@remote.example",
  "To: owner@example.test",
  "Subject: With a file",
  "Message-ID: <NAME@remote.example>",
  "MIME-Version: 1.0",
  'Content-Type: multipart/mixed; boundary="b"',
  "",
  "--b",
  "",
  "Here it is.",
  "--b",
  "Content-Type: application/octet-stream",
  "Content-Transfer-Encoding: base64",
  'Content-Disposition: attachment; filename="a.bin"',
  "",
  `${"QUJD".repeat(19)}\r\n`.repeat(6_000),
  "--b--",
].join("\r\n");

async function takesMail({ mx }: Served, name: string): Promise<void> {
  const began = performance.now();
  const client = await connectSmtp(mx);
  expect(performance.now() - began).toBeLessThan(1_000);
  const reply = await client.deliver({ to: "owner@example.test" }, MESSAGE.replace("NAME", name));
  expect([reply.code, reply.lines.at(-1)]).toEqual([250, expect.stringContaining("filed")]);
  client.destroy();
}

test("SMTP clients take no descriptors of HTTP or of other listeners", async () => {
  const data = temporaryFolder();
  const program = ["prlimit", `--nofile=${LIMIT}:${LIMIT}`, ...FROM_SOURCE];
  await runJson({ data }, "setup", "--domain", "example.test", "--email", "owner@example.test", "--name", "Owner");
  const server = await serve({ data, program });
  // The doctor reads the limit from another process.
  expect(await operatingSystem.openFilesOfServer(data)).toBe(LIMIT);
  const { mx, submission } = server;
  let refused = 0;
  let greeted = 0;
  let open = 600;
  for (let i = 0; i < 600; i++) {
    const socket = connect({ ...mx, localAddress: `127.${i % 50}.0.1` });
    sockets.push(socket);
    socket.once("data", (bytes: Buffer) => (bytes.toString().startsWith("220") ? greeted++ : refused++));
    socket.on("error", () => {});
    socket.once("close", () => open--);
  }
  // Who is silent for longest makes room.
  await until(() => greeted + refused === 600 && open <= 71);
  const client = await connectSmtp(submission);
  client.destroy();
  const answer = await fetch(`${server.http}/healthz`);
  expect([answer.status, await answer.json()]).toMatchObject([200, { checks: { smtp: "ok" } }]);
  expect(await server.kill("SIGTERM")).toBe(0);
}, 60_000);

test("/healthz fails once the server lacks descriptors for mail", async () => {
  const data = temporaryFolder();
  const server = await serve({ data });
  expect((await fetch(`${server.http}/healthz`)).status).toBe(200);
  const { length } = readdirSync(`/proc/${server.pid}/fd`);
  Bun.spawnSync(["prlimit", `--pid=${server.pid}`, `--nofile=${length + 8}:${LIMIT}`]);
  const answer = await fetch(`${server.http}/healthz`);
  expect([answer.status, await answer.json()]).toMatchObject([503, { status: "failing", checks: { smtp: "failing" } }]);
  Bun.spawnSync(["prlimit", `--pid=${server.pid}`, `--nofile=${LIMIT}:${LIMIT}`]);
  expect((await fetch(`${server.http}/healthz`)).status).toBe(200);
  expect(await server.kill("SIGTERM")).toBe(0);
}, 60_000);

test.each([
  ["HTTP", "http", 342],
  ["HTTP", "http", 1_100],
  ["HTTPS", "https", 342],
] as const)(
  "mail is accepted while POST requests idle over %s (%s, %d of them)",
  async (_, face, posts) => {
    const data = temporaryFolder();
    const program = ["prlimit", `--nofile=${LIMIT}:${LIMIT}`, ...FROM_SOURCE];
    const env = { ...(face === "https" && { MAILROOM_HTTPS: "127.0.0.1:0" }) };
    const setUp = ["setup", "--domain", "example.test", "--email", "owner@example.test", "--name", "Owner"];
    await runJson({ data }, ...setUp);
    await run({ data }, ["domain", "verify", "example.test", "--skip-dns"]);
    const server = await serve({ data, env, program });
    const at = face === "https" ? `https://${server.ready.https}` : server.http;
    const open = async () => {
      const text = await (await fetch(`${server.http}/metrics`)).text();
      return Number(/^mailroom_http_connections\{kind="open"\} (\d+)$/m.exec(text)?.[1]);
    };
    // The server responds before the rush.
    if (face === "http") expect(await open()).toBe(1);

    const over = Promise.withResolvers<void>();
    const answers = Array.from({ length: posts }, () => postIdly(at, over.promise));
    // Clients beyond the limit are refused at once.
    const first = await Promise.race(answers);
    if (face === "http") {
      expect(first).toMatch(/^HTTP\/1.1 503 .*\r\nretry-after: \d+\r\n.*"code":"server_error"/s);
    } else expect(first).toBe("");
    await takesMail(server, "during");
    await takesMail(server, "again");

    // While connections are scarce, the server waits a shorter time for slow clients.
    await until(async () => (await fetch(`${server.http}/healthz`).catch(() => undefined))?.status === 200);
    const health = (await (await fetch(`${server.http}/healthz`)).json()) as object;
    expect(health).toMatchObject({ status: "ok", checks: { smtp: "ok" } });
    over.resolve();
    const answered = await Promise.all(answers);
    expect(answered.filter((answer) => answer !== "waits").length).toBeGreaterThan(posts - 200);
    await takesMail(server, "after");
    const metrics = await (await fetch(`${server.http}/metrics`, { tls: { rejectUnauthorized: false } })).text();
    const value = (name: string) =>
      Number(
        metrics
          .split("\n")
          .find((line) => line.startsWith(`${name} `))
          ?.split(" ")[1],
      );
    expect(value('mailroom_http_connections_refused_total{by="total"}')).toBeGreaterThan(posts - 200);
    expect([value('mailroom_http_connections{kind="most"}'), value("process_max_fds")]).toEqual([67, LIMIT]);
    expect(value("process_open_fds")).toBeWithin(20, LIMIT);
    expect(await server.kill("SIGTERM")).toBe(0);
  },
  120_000,
);
