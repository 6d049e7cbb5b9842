/** The program as its users run it, and a certificate for it from a real authority that is to look into DNS. */
import { describe, expect, test } from "bun:test";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { connect, type TLSSocket } from "node:tls";
import { namesShownAt } from "../harness/clients/tls-client.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { startDnsServer, type Zone } from "../harness/peers/dns-server.ts";
import { noPebble, startPebble } from "../harness/peers/pebble.ts";
import { runJson, type Served, serve } from "../harness/servers/process.ts";
import { until as eventually } from "../harness/until.ts";

const HOST = "mail.example.test";
const NAME = `_acme-challenge.${HOST}`;
/** A host of another domain that is served here. */
const OTHER = "mta-sts.other.test";

/** A server that is told to have `script`, lines of shell, publish its proofs; "$1" is what it is to do, "$2" the name. */
async function setUp(script: string) {
  const folder = temporaryFolder();
  const hook = join(folder, "hook");
  writeFileSync(hook, `#!/bin/sh\necho "$1 $3" >> ${folder}/calls\n${script}\n`);
  chmodSync(hook, 0o700);
  // Those that are whole.
  const calls = (): [action: string, value: string][] => {
    const text = existsSync(join(folder, "calls")) ? readFileSync(join(folder, "calls"), "utf8") : "";
    const lines = text.split("\n").slice(0, -1);
    return lines.map((call) => call.split(" ") as [string, string]);
  };
  const published = (): string[] => {
    const values = new Set<string>();
    for (const [action, value] of calls()) {
      if (action === "present") values.add(value);
      else values.delete(value);
    }
    return [...values];
  };
  const proofs = {
    get txt() {
      return published();
    },
  };
  const zone: Zone = {
    [HOST]: { a: ["127.0.0.1"] },
    [OTHER]: { a: ["127.0.0.1"] },
    // Nobody answers there: what the resolver says counts.
    "example.test": { ns: [HOST] },
    [NAME]: proofs,
    [`_acme-challenge.${OTHER}`]: proofs,
  };
  const pebble = await startPebble(zone);
  const dns = await startDnsServer(zone);
  const authority = join(folder, "authority.pem");
  writeFileSync(authority, pebble.authority);
  const env = {
    MAILROOM_HTTP: "off",
    MAILROOM_HOSTNAME: HOST,
    MAILROOM_TLS: "acme",
    MAILROOM_ACME_DIRECTORY: pebble.directory,
    MAILROOM_ACME_CHALLENGE: `dns-hook:${hook}`,
    MAILROOM_DNS: dns.address,
    NODE_EXTRA_CA_CERTS: authority,
  };
  const place = { data: join(folder), env };
  return { place, pebble, hook, calls, published };
}

/** Not one that has ended and that nobody has asked about yet. */
function isRunning(pid: number): boolean {
  const status = `/proc/${pid}/status`;
  return existsSync(status) && !/State:\s+Z/.test(readFileSync(status, "utf8"));
}

/** Until it is so; what the program said, if it ends first. */
async function until(served: Served, is: () => boolean): Promise<void> {
  while (!is()) {
    if (!existsSync(`/proc/${served.pid}`)) throw new Error(served.stderr());
    await Bun.sleep(10);
  }
}

describe.skipIf(noPebble !== undefined)("a hook", () => {
  test("gets mail apps a certificate that they trust, and leaves nothing behind", async () => {
    const { place, pebble, calls, published } = await setUp("");
    const served = await serve(place);
    await until(served, () => served.stderr().includes("certificate obtained"));
    const ca = await pebble.root();
    const socket = await new Promise<TLSSocket>((resolve, reject) => {
      const opening: TLSSocket = connect({ ...served.submissions, servername: HOST, ca }, () => resolve(opening));
      opening.once("error", reject);
    });
    expect(socket.authorized).toBe(true);
    socket.destroy();
    await until(served, () => calls().length === 2);
    expect([calls().map(([action]) => action), published()]).toEqual([["present", "cleanup"], []]);
    expect(await served.kill("SIGTERM")).toBe(0);
  }, 120_000);

  test("that hangs is ended when the server is, and has taken its record away", async () => {
    const { place, hook, calls, published } = await setUp(
      '[ "$1" = cleanup ] || { echo $$ > $0.new; mv $0.new $0.pid; sleep 600; }',
    );
    const served = await serve(place);
    await until(served, () => existsSync(`${hook}.pid`));
    expect(await served.kill("SIGTERM")).toBe(0);
    expect([calls().map(([action]) => action), published()]).toEqual([["present", "cleanup"], []]);
    // The signal that ends it may still be under way.
    await eventually(() => !isRunning(Number(readFileSync(`${hook}.pid`, "utf8"))));
  }, 120_000);

  test("whose record a crash left behind takes it away at the next start", async () => {
    const { place, hook, calls, published } = await setUp(
      '[ "$1" = cleanup ] || [ -e $0.again ] || { echo $$ > $0.new; mv $0.new $0.pid; sleep 600; }',
    );
    const crashed = await serve(place);
    await until(crashed, () => existsSync(`${hook}.pid`));
    await crashed.kill("SIGKILL");
    process.kill(-Number(readFileSync(`${hook}.pid`, "utf8")), "SIGKILL");
    expect(published()).toHaveLength(1);
    writeFileSync(`${hook}.again`, "");
    const served = await serve(place);
    await until(served, () => served.stderr().includes("certificate obtained") && calls().length >= 4);
    expect(published()).toEqual([]);
    expect(await served.kill("SIGTERM")).toBe(0);
  }, 120_000);

  test("that a crash ends while it works for a domain works for it at the next start, and each name is shown its own", async () => {
    const { place, hook } = await setUp(
      `[ "$1 $2" != "present _acme-challenge.${OTHER}." ] || [ -e $0.again ] || { echo $$ > $0.new; mv $0.new $0.pid; sleep 600; }`,
    );
    await runJson(place, "setup", "--domain", "other.test", "--email", "owner@other.test", "--name", "Owner");
    await runJson(place, "domain", "verify", "other.test", "--skip-dns");
    const crashed = await serve(place);
    await until(crashed, () => existsSync(`${hook}.pid`));
    // The server's own came first.
    expect(await namesShownAt(crashed.submissions, OTHER)).toEqual([HOST]);
    await crashed.kill("SIGKILL");
    process.kill(-Number(readFileSync(`${hook}.pid`, "utf8")), "SIGKILL");
    writeFileSync(`${hook}.again`, "");
    const served = await serve(place);
    expect(await namesShownAt(served.submissions, HOST)).toEqual([HOST]);
    await until(served, () => served.stderr().includes("certificate obtained"));
    for (const [name, shown] of [
      [OTHER, OTHER],
      [HOST, HOST],
      ["elsewhere.test", HOST],
    ] as const) {
      expect(await namesShownAt(served.submissions, name)).toEqual([shown]);
      expect(await namesShownAt({ ...served.mx, starttls: "smtp" }, name)).toEqual([shown]);
    }
    expect(await served.kill("SIGTERM")).toBe(0);
  }, 120_000);
});
