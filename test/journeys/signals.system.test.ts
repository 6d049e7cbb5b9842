/** Signals to the running server: none ends it without grace (rules: Stopping). */
import { describe, expect, test } from "bun:test";
import { statSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connectSmtp, type SmtpClient } from "../harness/clients/smtp-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { makeChain } from "../harness/peers/certificate-chain.ts";
import { startS3 } from "../harness/peers/s3.ts";
import { type Place, PROGRAM, runJson, type Served, serve, start } from "../harness/servers/process.ts";
import { noReplica, replicatedPlace } from "../harness/servers/replica.ts";
import { until } from "../harness/until.ts";

const ADDRESS = "owner@example.test";
/** Those that change nothing, with one that Bun ignores of itself. */
const IGNORED = ["SIGUSR1", "SIGUSR2", "SIGALRM", "SIGVTALRM", "SIGPROF", "SIGIO", "SIGPIPE"] as const;

async function setUp(env: Record<string, string> = {}): Promise<Place> {
  const place = { data: temporaryFolder(), env };
  await runJson(place, "setup", "--domain", "example.test", "--email", ADDRESS, "--name", "Owner");
  await runJson(place, "domain", "verify", "example.test", "--skip-dns");
  return place;
}

/** A client in the middle of a message. */
async function inData(server: Pick<Served, "mx">): Promise<SmtpClient> {
  const smtp = await connectSmtp(server.mx);
  await smtp.expect(250, "MAIL FROM:<ben@elsewhere.test>");
  await smtp.expect(250, `RCPT TO:<${ADDRESS}>`);
  await smtp.expect(354, "DATA");
  smtp.write("From: ben@elsewhere.test\r\nSubject: Half\r\n\r\nHello\r\n");
  return smtp;
}

async function finish(smtp: SmtpClient): Promise<void> {
  smtp.write(".\r\n");
  expect((await smtp.reply()).code).toBe(250);
  smtp.destroy();
}

test("signals without a meaning end nothing: a message that is under way is taken", async () => {
  const server = await serve(await setUp());
  const smtp = await inData(server);
  for (const signal of IGNORED) process.kill(server.pid, signal);
  const logged = IGNORED.filter((signal) => signal !== "SIGPIPE");
  await until(() => logged.every((signal) => server.stderr().includes(signal)));
  await finish(smtp);
  expect((await fetch(`${server.http}/healthz`)).status).toBe(200);
  expect(await server.kill("SIGTERM")).toBe(0);
}, 60_000);

test.each(["SIGQUIT", "SIGINT", "SIGTERM"] as const)(
  "%s lets a message that is under way end, and exits 0",
  async (signal) => {
    const server = await serve(await setUp());
    const smtp = await inData(server);
    process.kill(server.pid, signal);
    await until(() =>
      connectSmtp(server.mx).then(
        (other) => other.destroy(),
        () => true,
      ),
    );
    await finish(smtp);
    expect(await server.ended).toBe(0);
  },
  60_000,
);

test("SIGHUP reads the certificate again, though its files look unchanged, and goes on", async () => {
  const folder = temporaryFolder();
  const files = { cert: join(folder, "cert.pem"), key: join(folder, "key.pem") };
  const write = async (host: string): Promise<void> => {
    const { pair } = await makeChain(host);
    // Of one length, in the same file, at the same time.
    writeFileSync(files.cert, pair.cert.padEnd(4_000, "\n"));
    writeFileSync(files.key, pair.key.padEnd(1_000, "\n"));
    for (const file of Object.values(files)) utimesSync(file, 1_000_000_000, 1_000_000_000);
    expect(statSync(files.cert).size).toBe(4_000);
  };
  await write("one.example.test");
  const server = await serve(await setUp({ MAILROOM_TLS: `files:${files.cert},${files.key}` }));
  const fingerprint = async (): Promise<string> => {
    const client = await connectSmtp(server.submission);
    await client.expect(220, "STARTTLS");
    const { fingerprint } = await client.secure().finally(() => client.destroy());
    return fingerprint;
  };
  const before = await fingerprint();
  const smtp = await inData(server);
  await write("two.example.test");
  process.kill(server.pid, "SIGHUP");
  await until(() => server.stderr().includes("certificate replaced"));
  await finish(smtp);
  expect(await fingerprint()).not.toBe(before);
  writeFileSync(files.cert, "nonsense");
  process.kill(server.pid, "SIGHUP");
  await until(() => server.stderr().includes("new certificate cannot be used"));
  expect((await fetch(`${server.http}/healthz`)).status).toBe(200);
  expect(await server.kill("SIGTERM")).toBe(0);
}, 60_000);

test("the server outlives the reader of its log", async () => {
  const { data } = await setUp();
  const child = Bun.spawn([...PROGRAM, "serve"], {
    env: {
      PATH: process.env.PATH ?? "",
      MAILROOM_DATA: data,
      MAILROOM_HTTP: "127.0.0.1:0",
      MAILROOM_MX: "127.0.0.1:0",
    },
    cwd: data,
    stdio: ["ignore", "pipe", "pipe"],
  });
  try {
    const { value } = await child.stdout.getReader().read();
    const { http } = JSON.parse(Buffer.from(value ?? []).toString()) as { http: string };
    await child.stderr.cancel();
    for (let times = 0; times < 20; times++) process.kill(child.pid, "SIGUSR2");
    expect((await fetch(`http://${http}/healthz`)).status).toBe(200);
    child.kill("SIGTERM");
    expect(await child.exited).toBe(0);
  } finally {
    child.kill("SIGKILL");
  }
}, 60_000);

describe.skipIf(noReplica !== undefined)(`a standby${noReplica === undefined ? "" : ` (${noReplica})`}`, () => {
  test("goes on after the same signals", async () => {
    const s3 = await startS3();
    const one = await replicatedPlace(s3);
    const first = await serve(one);
    const second = await start({ data: temporaryFolder(), env: one.env ?? {} }, "standby");
    for (const signal of ["SIGHUP", ...IGNORED] as const) process.kill(second.pid, signal);
    await until(() => ["SIGHUP", "SIGIO"].every((signal) => second.stderr().includes(signal)));
    expect((await fetch(`${second.http}/healthz`)).status).toBe(200);
    process.kill(second.pid, "SIGQUIT");
    expect(await second.ended).toBe(0);
    await first.kill("SIGTERM");
  }, 120_000);
});
