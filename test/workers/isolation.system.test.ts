/** Parsers of a real server: what they have of it, and that they end with it. */
import { expect, test } from "bun:test";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { connectSmtp } from "../harness/clients/smtp-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { letter } from "../harness/mail/mail.ts";
import { runJson, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const ADDRESS = "ada@acme.test";

const read = (pid: number, file: string): string => {
  try {
    return readFileSync(`/proc/${pid}/${file}`, "latin1");
  } catch {
    return "";
  }
};
const parentOf = (pid: number): number => Number(/^PPid:\s+(\d+)/m.exec(read(pid, "status"))?.[1]);
/** Parsers that a server has, or those that have lost it. */
const parsersOf = (server: number, all: readonly number[] = readdirSync("/proc").map(Number).filter(Boolean)) =>
  all.filter((pid) => read(pid, "cmdline").split("\0").includes("parser:") && parentOf(pid) === server);

async function serveMail() {
  const place = { data: temporaryFolder() };
  await runJson(place, "setup", "--domain", "acme.test", "--email", ADDRESS, "--name", "Ada");
  await runJson(place, "domain", "verify", "acme.test", "--skip-dns");
  const server = await serve({ ...place, env: { AWS_SECRET_ACCESS_KEY: "a secret of the server" } });
  const client = await connectSmtp(server.mx);
  expect((await client.deliver({ from: "a@far.example", to: ADDRESS }, letter({ subject: "one" }))).code).toBe(250);
  const [parser = 0, ...others] = parsersOf(server.pid);
  expect(parser).toBeGreaterThan(0);
  expect(others).toEqual([]);
  return { server, client, parser };
}

test("a parser has nothing of the server's environment, database and keys", async () => {
  const { server, client, parser } = await serveMail();
  const environment = read(parser, "environ").split("\0").filter(Boolean);
  expect(environment.filter((line) => !/^(?:PWD|NODE_CHANNEL_[A-Z_]+|SHLVL|_|OLDPWD)=/.test(line))).toEqual([]);
  const open = readdirSync(`/proc/${parser}/fd`).flatMap((fd) => {
    try {
      return readlinkSync(`/proc/${parser}/fd/${fd}`);
    } catch {
      return [];
    }
  });
  expect(open.filter((path) => /mailroom|\.db|\.pem|\.key/.test(path.replace(/.*dist\/mailroom$/, "")))).toEqual([]);
  client.destroy();
  await server.kill("SIGTERM");
  await until(() => !read(parser, "cmdline").includes("parser:"));
}, 60_000);

test("a parser ends with a server that is killed, even if it does not run", async () => {
  const { server, client, parser } = await serveMail();
  process.kill(parser, "SIGSTOP");
  await server.kill("SIGKILL");
  await until(() => !read(parser, "cmdline").includes("parser:"));
  client.destroy();
}, 60_000);
