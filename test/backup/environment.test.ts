/** The environment that a backup has, and what another machine takes over of it. */
import { expect, test } from "bun:test";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { keepEnvironment } from "../../src/backup/environment.ts";
import { readConfig, SERVER_VARIABLES } from "../../src/config.ts";
import { openBackupRig } from "../harness/data/backup-rig.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { openTerminal } from "../harness/servers/terminal.ts";

interface Told {
  environment: Record<string, string>;
  left: { name: string; value: string; why: string }[];
}

const SERVER = {
  MAILROOM_BASE_URL: "https://mail.acme.test",
  MAILROOM_HOSTNAME: "mail.acme.test",
  MAILROOM_MX: "0.0.0.0:25",
  MAILROOM_HTTP: "127.0.0.1:8025",
  MAILROOM_TLS: "acme",
  MAILROOM_ACME_EMAIL: "ada@acme.test",
  MAILROOM_DNS: "192.0.2.53:53,192.0.2.54",
};

/** Backs the environment up, or the text in its place. Returns what another machine is told, and as text. */
async function told(env: Record<string, string> | string): Promise<Told & { text: string }> {
  const { data, folder, ask } = await openBackupRig();
  if (typeof env === "string") writeFileSync(join(data, "environment.json"), env);
  else await keepEnvironment(data, env);
  await ask("backup", folder);
  const elsewhere = openTerminal();
  const { stdout } = await elsewhere.say("backup", "environment", folder);
  return { ...(await elsewhere.ask<Told>("backup", "environment", folder)), text: stdout };
}

test("all that the server was started with is known again, and no secret", async () => {
  const secrets = {
    MAILROOM_DATA: "/srv/data",
    AWS_SECRET_ACCESS_KEY: "s3cret",
    AWS_ACCESS_KEY_ID: "id",
    PATH: "/bin",
  };
  const { environment, left, text } = await told({ ...SERVER, ...secrets, MAILROOM_LOG: "" });
  expect([environment, left]).toEqual([SERVER, []]);
  expect(text.trim().split("\n").sort()).toEqual(
    Object.entries(SERVER)
      .map(([name, value]) => `${name}=${value}`)
      .sort(),
  );
});

test("every variable that the server reads is known, but for the folder and secrets", () => {
  const read = new Set<string>();
  readConfig(
    new Proxy<Record<string, string>>(
      { MAILROOM_TLS: "acme", MAILROOM_HOSTNAME: "mail.acme.test" },
      {
        get(env, name: string) {
          read.add(name);
          return env[name];
        },
      },
    ),
  );
  read.delete("MAILROOM_DATA");
  expect([...SERVER_VARIABLES].sort() as string[]).toEqual([...read].sort());
});

test("it is that of an encrypted backup, for who has the private key", async () => {
  const { data, folder, ask } = await openBackupRig();
  const key = join(temporaryFolder(), "key.txt");
  const { recipient } = await ask<{ recipient: string }>("backup", "key", key);
  await ask("settings", "set", "backup.recipients", recipient);
  await keepEnvironment(data, SERVER);
  await ask("backup", folder);
  const elsewhere = openTerminal();
  expect((await elsewhere.say("backup", "environment", folder)).stderr).toContain("is encrypted: give --identity FILE");
  expect(await elsewhere.ask("backup", "environment", folder, "--identity", key)).toMatchObject({
    environment: SERVER,
  });
});

test("of a backup of an earlier version, the name alone is known", async () => {
  const { data, folder, ask } = await openBackupRig();
  rmSync(join(data, "environment.json"), { force: true });
  await ask("backup", folder);
  expect(await openTerminal().ask<Told>("backup", "environment", folder)).toEqual({
    environment: { MAILROOM_HOSTNAME: "mail.acme.test" },
    left: [],
  });
});

test("what names programs, files or another machine's address is told and not taken over", async () => {
  const { environment, left, text } = await told({
    ...SERVER,
    MAILROOM_MX: "192.0.2.7:25",
    MAILROOM_IMAPS: "[2001:db8::7]:993",
    MAILROOM_TLS: "files:/etc/nowhere/cert.pem,/etc/nowhere/key.pem",
    MAILROOM_ACME_CHALLENGE: "dns-hook:/bin/sh",
    MAILROOM_BLOBS: "s3://mail",
    MAILROOM_REPLICA: "s3://mail/replica",
    NODE_EXTRA_CA_CERTS: "/etc/own.pem",
  });
  expect(left.map(({ name }) => name).sort()).toEqual([
    "MAILROOM_ACME_CHALLENGE",
    "MAILROOM_BLOBS",
    "MAILROOM_IMAPS",
    "MAILROOM_MX",
    "MAILROOM_REPLICA",
    "MAILROOM_TLS",
    "NODE_EXTRA_CA_CERTS",
  ]);
  expect(environment.MAILROOM_MX).toMatch(/^(\[::\]|0\.0\.0\.0):25$/);
  expect(environment.MAILROOM_IMAPS).toMatch(/^(\[::\]|0\.0\.0\.0):993$/);
  expect(Object.keys(environment)).not.toContain("MAILROOM_TLS");
  expect(text).toContain(
    "# MAILROOM_ACME_CHALLENGE=dns-hook:/bin/sh was not taken over: a program that a backup names",
  );
  readConfig(environment);
});

test("a certificate in files that are on this machine is used", async () => {
  const folder = temporaryFolder();
  for (const file of ["cert", "key"]) writeFileSync(join(folder, file), "");
  const MAILROOM_TLS = `files:${folder}/cert,${folder}/key`;
  expect((await told({ ...SERVER, MAILROOM_TLS })).environment).toMatchObject({ MAILROOM_TLS });
});

test.each<[string, string]>([
  ["lines of its own", JSON.stringify({ ...SERVER, MAILROOM_LOG: "info\nLD_PRELOAD=/tmp/evil.so" })],
  [
    "variables of others",
    JSON.stringify({ ...SERVER, LD_PRELOAD: "/tmp/evil.so", "MAILROOM_X\nLD_PRELOAD": "/tmp/evil.so" }),
  ],
  ["a line that goes on", JSON.stringify({ ...SERVER, MAILROOM_LOG: "LD_PRELOAD=/tmp/evil.so\\" })],
  ["a value that the server refuses", JSON.stringify({ ...SERVER, MAILROOM_LOG: "LD_PRELOAD=/tmp/evil.so" })],
])("a file that somebody edited brings no more than the server's variables: %s", async (_, text) => {
  const found = await told(text);
  expect(found.environment).toEqual(SERVER);
  for (const line of found.text.trim().split("\n")) expect(line).toMatch(/^(# )?MAILROOM_[A-Z_]+=[ -~]+$/);
  expect(found.text).not.toMatch(/^LD_PRELOAD/m);
});

test.each(["null", "[]", "7", "not JSON", `{"MAILROOM_BASE_URL": 7}`, `"${"x".repeat(1_000_000)}"`])(
  "a file that is none says nothing: %.20s",
  async (text) => {
    expect(await told(text)).toMatchObject({ environment: {}, left: [] });
  },
);

test("it is written once, and again when it changes", async () => {
  const data = join(temporaryFolder(), "data");
  mkdirSync(data);
  await keepEnvironment(data, SERVER);
  const file = join(data, "environment.json");
  rmSync(file);
  await keepEnvironment(data, SERVER);
  await keepEnvironment(data, { ...SERVER, MAILROOM_LOG: "warn" });
  expect(JSON.parse(readFileSync(file, "utf8"))).toEqual({ ...SERVER, MAILROOM_LOG: "warn" });
});
