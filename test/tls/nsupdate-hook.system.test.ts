/** packaging/nsupdate-hook: its commands for nsupdate, its refusals, and updates of a real server (Knot DNS). */
import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { createDnsClient } from "../../src/base/dns-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { randomNumber } from "../harness/peers/dns-server.ts";
import { type Knot, NSUPDATE_HOOK, noKnot, noNsupdate, startKnot } from "../harness/peers/knot.ts";

const noServer = noKnot ?? noNsupdate;
if (noServer) console.warn(`updates of a real DNS server: skipped, ${noServer}`);

const NAME = "_acme-challenge.mail.example.test";

async function run(env: Record<string, string>, ...args: string[]): Promise<{ status: number; stderr: string }> {
  const child = Bun.spawn([NSUPDATE_HOOK, ...args], { env, cwd: "/", stdio: ["ignore", "ignore", "pipe"] });
  const stderr = await new Response(child.stderr).text();
  return { status: await child.exited, stderr };
}

describe("with a stand-in for nsupdate", () => {
  /** Records its arguments, then its input; ends with `status`. */
  function standIn(status = 0) {
    const folder = temporaryFolder();
    const program = join(folder, "nsupdate");
    writeFileSync(program, `#!/bin/sh\n{ echo "$@"; cat; } > ${folder}/told\nexit ${status}\n`);
    chmodSync(program, 0o700);
    const key = join(folder, "tsig.key");
    writeFileSync(key, "a key");
    const env = { PATH: `${folder}:${process.env.PATH}`, NSUPDATE_SERVER: "ns.example.net", NSUPDATE_KEY: key };
    const path = join(folder, "told");
    const told = () => (existsSync(path) ? readFileSync(path, "utf8").split("\n").slice(0, -1) : []);
    return { env, key, told };
  }

  test("a record is added and deleted by its name and value", async () => {
    const { env, key, told } = standIn();
    expect(await run(env, "present", `${NAME}.`, "a_digest-1")).toEqual({ status: 0, stderr: "" });
    const update = `update add ${NAME}. 60 TXT "a_digest-1"`;
    expect(told()).toEqual([`-v -t 15 -k ${key}`, "server ns.example.net 53", update, "send"]);
    await run({ ...env, NSUPDATE_PORT: "5353" }, "cleanup", `${NAME}.`, "a_digest-1");
    expect(told().slice(1)).toEqual(["server ns.example.net 5353", `update delete ${NAME}. TXT "a_digest-1"`, "send"]);
  });

  test("the hook ends with the status of nsupdate", async () => {
    expect((await run(standIn(2).env, "present", `${NAME}.`, "value")).status).toBe(2);
  });

  test.each([
    ["no server", { NSUPDATE_SERVER: "" }, ["present", NAME, "value"], "NSUPDATE_SERVER"],
    ["no file of a key", { NSUPDATE_KEY: "/nowhere/key" }, ["present", NAME, "value"], "NSUPDATE_KEY"],
    ["another action", {}, ["timeout", NAME, "value"], "present or cleanup"],
    ["no value", {}, ["present", NAME], "present|cleanup NAME. VALUE"],
    ["a name with another line", {}, ["present", `${NAME}.\nserver 192.0.2.1`, "value"], "NAME"],
    ["a name with a space", {}, ["present", `${NAME} 60 A`, "value"], "NAME"],
    ["a value with a quote", {}, ["present", NAME, 'value" "more'], "VALUE"],
    ["an empty value", {}, ["present", NAME, ""], "VALUE"],
  ])("%s is refused without running nsupdate", async (_, change, args, says) => {
    const { env, told } = standIn();
    const { status, stderr } = await run({ ...env, ...change }, ...args);
    expect([status, stderr]).toEqual([2, expect.stringMatching(/^nsupdate-hook: [^\n]+\n$/)]);
    expect(stderr).toContain(says);
    expect(told()).toEqual([]);
  });
});

describe.skipIf(noServer !== undefined)("a real server", () => {
  const start = () => startKnot({ "example.test": ["mail 60 A 127.0.0.1"] });
  const envOf = ({ port, keyFile }: Knot) => ({
    PATH: process.env.PATH ?? "",
    NSUPDATE_SERVER: "127.0.0.1",
    NSUPDATE_PORT: String(port),
    NSUPDATE_KEY: keyFile,
  });
  async function textsAt({ port }: Knot): Promise<string[]> {
    const dns = createDnsClient({ servers: [`127.0.0.1:${port}`], randomNumber, elapsed: () => 0 });
    return (await dns.ask(NAME, "TXT")).records.sort();
  }

  test("publishes a record beside others of its name, and removes only that one", async () => {
    const knot = await start();
    const call = async (action: string, value: string) =>
      expect(await run(envOf(knot), action, `${NAME}.`, value)).toEqual({ status: 0, stderr: "" });
    await call("present", "first");
    await call("present", "second");
    await call("present", "second");
    expect(await textsAt(knot)).toEqual(["first", "second"]);
    await call("cleanup", "first");
    await call("cleanup", "first");
    expect(await textsAt(knot)).toEqual(["second"]);
    await call("cleanup", "second");
    expect(await textsAt(knot)).toEqual([]);
  });

  test.each([
    ["a wrong secret", 'secret "[^"]+"', 'secret "eA=="'],
    ["another name of the key", 'key "mailroom"', 'key "other"'],
    ["another algorithm", "hmac-sha256", "hmac-sha512"],
  ])("%s is refused, and the message does not contain the secret", async (_, pattern, change) => {
    const knot = await start();
    writeFileSync(knot.keyFile, readFileSync(knot.keyFile, "utf8").replace(new RegExp(pattern), change));
    const { status, stderr } = await run(envOf(knot), "present", `${NAME}.`, "value");
    expect(status).not.toBe(0);
    expect(stderr).not.toBe("");
    expect(stderr).not.toContain(knot.secret);
    expect(await textsAt(knot)).toEqual([]);
  });

  test("a name of another zone is refused", async () => {
    const knot = await start();
    expect((await run(envOf(knot), "present", "_acme-challenge.mail.other.test.", "value")).status).not.toBe(0);
  });
});
