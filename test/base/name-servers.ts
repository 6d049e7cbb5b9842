/** Name servers of other makers, authoritative for zones of the test, as child processes on free ports of 127.0.0.1. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createDnsClient, type DnsClient } from "../../src/base/dns-client.ts";
import { atEndOfFile } from "../harness/end.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { randomNumber } from "../harness/peers/dns-server.ts";
import { noKnot, startKnot } from "../harness/peers/knot.ts";
import { takePort } from "../harness/port.ts";
import { until } from "../harness/until.ts";

/** The lines of each zone's file, besides SOA and the NS record of the zone itself. */
export type ZoneFiles = Record<string, readonly string[]>;

export const NAME_SERVERS = ["bind9", "nsd", "knot"] as const;
export type NameServerName = (typeof NAME_SERVERS)[number];

const programOf = (name: string): string | null => Bun.which(name) ?? Bun.which(`/usr/sbin/${name}`);
const PROGRAMS = { bind9: programOf("named"), nsd: programOf("nsd") };

/** The reason why the tests with a server are skipped, or undefined. */
export const noNameServer = (name: NameServerName): string | undefined =>
  name === "knot" ? noKnot : PROGRAMS[name] === null ? `${name} is not installed (apt-get install ${name})` : undefined;

const children: Bun.Subprocess[] = [];
atEndOfFile(async () => {
  for (const child of children) child.kill("SIGKILL");
  await Promise.all(children.splice(0).map((child) => child.exited));
});

/** Seconds that absences hold. */
const ABSENCE_SECONDS = 60;

const zonesOf = (zones: ZoneFiles) => Object.keys(zones);

function bindConfig(folder: string, port: number, zones: ZoneFiles): string {
  const options = [
    `directory "${folder}"`,
    `listen-on port ${port} { 127.0.0.1; }`,
    "listen-on-v6 { none; }",
    "pid-file none",
    "session-keyfile none",
    "recursion no",
    "dnssec-validation no",
  ];
  const parts = zonesOf(zones).map((zone) => `zone "${zone}" { type primary; file "${zone}.zone"; };`);
  return [`options { ${options.join("; ")}; };`, "controls { };", ...parts, ""].join("\n");
}

function nsdConfig(folder: string, port: number, zones: ZoneFiles): string {
  const server = {
    "ip-address": `127.0.0.1@${port}`,
    "do-ip6": "no",
    "server-count": 1,
    username: '""',
    zonesdir: `"${folder}"`,
    database: '""',
    pidfile: `"${folder}/nsd.pid"`,
    xfrdfile: `"${folder}/xfrd.state"`,
    zonelistfile: `"${folder}/zone.list"`,
    xfrdir: `"${folder}"`,
  };
  const lines = (values: object) => Object.entries(values).map(([name, value]) => `    ${name}: ${value}`);
  const parts = zonesOf(zones).flatMap((name) => ["zone:", ...lines({ name: `"${name}"`, zonefile: `${name}.zone` })]);
  return ["server:", ...lines(server), "remote-control:", "    control-enable: no", ...parts, ""].join("\n");
}

/** Starts one, and resolves with a client of it once it answers. */
export async function startNameServer(name: NameServerName, zones: ZoneFiles): Promise<DnsClient> {
  const clientOf = (port: number) =>
    createDnsClient({ servers: [`127.0.0.1:${port}`], randomNumber, elapsed: () => 0, longestMs: 5_000 });
  if (name === "knot") return clientOf((await startKnot(zones)).port);
  const folder = temporaryFolder();
  const port = await takePort();
  for (const [zone, lines] of Object.entries(zones)) {
    const soa = `@ 60 SOA ns1.example.test. admin.example.test. 1 3600 600 86400 ${ABSENCE_SECONDS}`;
    const text = [`$ORIGIN ${zone}.`, soa, "@ 60 NS ns1.example.test.", ...lines, ""].join("\n");
    writeFileSync(join(folder, `${zone}.zone`), text);
  }
  const config = join(folder, "server.conf");
  writeFileSync(config, name === "bind9" ? bindConfig(folder, port, zones) : nsdConfig(folder, port, zones));
  const program = PROGRAMS[name];
  if (program === null) throw new Error(noNameServer(name));
  const args = name === "bind9" ? ["-g", "-n", "1", "-c", config] : ["-d", "-c", config];
  const child = Bun.spawn([program, ...args], { stdio: ["ignore", "ignore", "pipe"] });
  children.push(child);
  const said = new Response(child.stderr).text();
  const client = clientOf(port);
  await until(async () => {
    if (child.exitCode !== null) throw new Error(`${name} ended: ${await said}`);
    return client.ask("ns1.example.test", "A").catch(() => undefined);
  });
  return client;
}
