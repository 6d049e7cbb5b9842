/** Parsers and readers of a real server: what they have of it, and that they end with it. */
import { expect, test } from "bun:test";
import { constants, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { basename } from "node:path";
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
/** Children of a kind that a server has, or those that have lost it. */
const childrenOf = (server: number, kind: "parser:" | "reader:") =>
  readdirSync("/proc")
    .map(Number)
    .filter((pid) => pid > 0 && read(pid, "cmdline").split("\0").includes(kind) && parentOf(pid) === server);

/** Variables of a process's environment, but for those that the shell beside it sets. */
const environmentOf = (pid: number): string[] =>
  read(pid, "environ")
    .split("\0")
    .filter((line) => line !== "" && !/^(?:PWD|NODE_CHANNEL_[A-Z_]+|SHLVL|_|OLDPWD)=/.test(line));

/** The files of a server that a process has open, each with the flags of open(2). */
const openFilesOf = (pid: number): { path: string; flags: number }[] =>
  readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      const path = readlinkSync(`/proc/${pid}/fd/${fd}`).replace(/.*dist\/mailroom$/, "");
      const [, flags = ""] = /^flags:\s+(\d+)/m.exec(read(pid, `fdinfo/${fd}`)) ?? [];
      return /mailroom|\.db|\.pem|\.key/.test(path) ? [{ path, flags: Number.parseInt(flags, 8) }] : [];
    } catch {
      return [];
    }
  });

async function serveMail() {
  const place = { data: temporaryFolder() };
  await runJson(place, "setup", "--domain", "acme.test", "--email", ADDRESS, "--name", "Ada");
  await runJson(place, "domain", "verify", "acme.test", "--skip-dns");
  const server = await serve({ ...place, env: { AWS_SECRET_ACCESS_KEY: "a secret of the server" } });
  const client = await connectSmtp(server.mx);
  expect((await client.deliver({ from: "a@far.example", to: ADDRESS }, letter({ subject: "one" }))).code).toBe(250);
  const [parser = 0, ...others] = childrenOf(server.pid, "parser:");
  expect(parser).toBeGreaterThan(0);
  expect(others).toEqual([]);
  return { server, client, parser };
}

test("a parser has nothing of the server's environment, database and keys", async () => {
  const { server, client, parser } = await serveMail();
  expect(environmentOf(parser)).toEqual([]);
  expect(openFilesOf(parser)).toEqual([]);
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

test("a reader has nothing of the server's environment and keys, and the database for reading", async () => {
  const { server, client } = await serveMail();
  const [reader = 0, ...others] = childrenOf(server.pid, "reader:");
  expect(others).toEqual([]);
  await until(() => openFilesOf(reader).length > 0);
  expect(environmentOf(reader)).toEqual([]);
  const files = openFilesOf(reader);
  expect(files.map(({ path }) => basename(path)).filter((name) => !/^mailroom\.db(-wal|-shm)?$/.test(name))).toEqual(
    [],
  );
  const [database] = files.filter(({ path }) => path.endsWith("mailroom.db"));
  expect((database?.flags ?? -1) & (constants.O_WRONLY | constants.O_RDWR)).toBe(constants.O_RDONLY);
  process.kill(reader, "SIGSTOP");
  client.destroy();
  await server.kill("SIGKILL");
  await until(() => !read(reader, "cmdline").includes("reader:"));
}, 60_000);
