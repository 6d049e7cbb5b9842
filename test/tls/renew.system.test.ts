/** `mailroom certificates renew`, and what is tried at once after a failure: the program with Pebble as its authority. */
import { describe, expect, test } from "bun:test";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryFolder } from "../harness/folder.ts";
import { startDnsServer, type Zone } from "../harness/peers/dns-server.ts";
import { noPebble, startPebble } from "../harness/peers/pebble.ts";
import { takePort } from "../harness/port.ts";
import { run, type Served, serve } from "../harness/servers/process.ts";
import { until } from "../harness/until.ts";

const HOST = "mail.example.test";
const HERE = { a: ["127.0.0.1"] };

const obtained = (served: Served): number => served.stderr().split('"message":"certificate obtained"').length - 1;
const refused = (served: Served): number =>
  served.stderr().split('"message":"no certificate could be obtained').length - 1;

/** A server whose authority is Pebble; `zone` is what the server and the authority find in DNS. */
async function setUp(zone: Zone) {
  const pebble = await startPebble(zone, { env: { PEBBLE_AUTHZREUSE: "0" }, refused: ["blocked.test"] });
  const dns = await startDnsServer(zone);
  const data = temporaryFolder();
  const authority = join(temporaryFolder(), "authority.pem");
  writeFileSync(authority, pebble.authority);
  const env = {
    MAILROOM_HOSTNAME: HOST,
    MAILROOM_TLS: "acme",
    MAILROOM_ACME_DIRECTORY: pebble.directory,
    MAILROOM_SUBMISSIONS: `127.0.0.1:${await takePort()}`,
    MAILROOM_DNS: dns.address,
    NODE_EXTRA_CA_CERTS: authority,
  };
  return { pebble, place: { data, env } };
}

describe.skipIf(noPebble !== undefined)("mailroom certificates renew", () => {
  test("orders now, says what came of it and what to do, and exits with 1 if nothing came", async () => {
    const zone: Zone = { [HOST]: HERE, "mta-sts.other.test": HERE };
    const { pebble, place } = await setUp(zone);
    const stopped = await run(place, ["certificates", "renew"]);
    expect(stopped.exitCode).toBe(1);
    expect(stopped.stderr).toContain(`no server runs on ${place.data}`);

    const served = await serve(place);
    pebble.askAt(served.http);
    await until(() => obtained(served) === 1);
    const renewed = await run(place, ["certificates", "renew", "--json"]);
    expect(renewed).toMatchObject({ exitCode: 0, stderr: "" });
    const { names, until: end, failure } = JSON.parse(renewed.stdout);
    expect([names, failure]).toEqual([[HOST], undefined]);
    expect(Date.parse(end)).toBeGreaterThan(Date.now());
    expect(obtained(served)).toBe(2);

    const unknown = await run(place, ["certificates", "renew", "--domain", "other.test"]);
    expect(unknown).toMatchObject({ exitCode: 1, stderr: "mailroom: this server serves no domain other.test\n" });

    delete zone[HOST];
    const failed = await run(place, ["certificates", "renew", "--json"]);
    expect(failed.exitCode).toBe(1);
    expect(failed.stderr).toContain(`no certificate for ${HOST} was obtained`);
    const told = JSON.parse(failed.stdout);
    expect(told.failure.todo).toContain(`Every A and AAAA record of ${HOST} must lead to this machine. Port 80`);
    expect(Date.parse(told.until)).toBeGreaterThan(Date.now());
    const again = await run(place, ["certificates", "renew"]);
    expect(again.stdout).toContain("The present certificate stays");
    expect(await served.kill("SIGTERM")).toBe(0);
  }, 240_000);

  test("of a domain orders that of its hosts", async () => {
    const { pebble, place } = await setUp({ [HOST]: HERE, "mta-sts.other.test": HERE });
    await run(place, ["setup", "--domain", "other.test", "--email", "ada@other.test", "--name", "Ada"]);
    expect((await run(place, ["domain", "verify", "other.test", "--skip-dns"])).exitCode).toBe(0);
    const served = await serve({ ...place, env: { ...place.env, MAILROOM_HTTPS: "127.0.0.1:0" } });
    pebble.askAt(served.http);
    await until(() => obtained(served) === 2);
    const { stdout, exitCode } = await run(place, ["certificates", "renew", "--domain", "OTHER.test", "--json"]);
    expect([JSON.parse(stdout).names, exitCode]).toEqual([["mta-sts.other.test"], 0]);
    expect(obtained(served)).toBe(3);
    expect(await served.kill("SIGTERM")).toBe(0);
  }, 240_000);

  test("without an authority says whose work it is", async () => {
    const data = temporaryFolder();
    const served = await serve({ data });
    const { exitCode, stderr } = await run({ data }, ["certificates", "renew"]);
    expect(exitCode).toBe(1);
    expect(stderr).toContain("self-signed");
    expect(await served.kill("SIGTERM")).toBe(0);
  }, 120_000);
});

describe.skipIf(noPebble !== undefined)("after a failure", () => {
  test("another authority and another name are tried at once, the same ones are not", async () => {
    const { pebble, place } = await setUp({ [HOST]: HERE, "mail.blocked.test": HERE });
    const start = async (env: Record<string, string>) => {
      const served = await serve({ ...place, env: { ...place.env, ...env } });
      pebble.askAt(served.http);
      return served;
    };
    const away = { MAILROOM_ACME_DIRECTORY: `https://localhost:${await takePort()}/dir` };
    let served = await start(away);
    await until(() => refused(served) === 1);
    await served.kill("SIGTERM");

    served = await start({ MAILROOM_HOSTNAME: "mail.blocked.test" });
    await until(() => refused(served) === 1);
    const doctor = await run({ ...place, env: { ...place.env, MAILROOM_HOSTNAME: "mail.blocked.test" } }, [
      "doctor",
      "--json",
    ]);
    const findings = JSON.parse(doctor.stdout) as { id: string; todo?: string }[];
    const { todo } = findings.find(({ id }) => id === "certificate") ?? {};
    expect(todo).toContain("choose another name (MAILROOM_HOSTNAME");
    expect(todo).toContain("at once by mailroom certificates renew");
    await served.kill("SIGTERM");

    // A restart alone asks nobody.
    served = await start({ MAILROOM_HOSTNAME: "mail.blocked.test" });
    await run(place, ["certificates", "renew", "--domain", "nowhere.test"]);
    expect(refused(served)).toBe(0);
    await served.kill("SIGTERM");

    served = await start({});
    await until(() => obtained(served) === 1);
    expect(await served.kill("SIGTERM")).toBe(0);
  }, 240_000);
});
