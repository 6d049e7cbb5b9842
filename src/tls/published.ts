/**
 * Waits until a record is published: asks every authoritative server of the name directly, as a certificate authority does,
 * because resolvers cache earlier answers.
 */

import { atMost } from "../base/pause.ts";
import type { NameServer, Runtime } from "../base/runtime.ts";

type Dns = Runtime["dns"];

const DNS_PORT = 53;
const MOST_ALIASES = 8;
const MOST_SERVERS = 12;
/** DNS providers publish within seconds, slow ones within minutes. */
const LONGEST_MS = 5 * 60_000;
const FIRST_WAIT_MS = 1_000;
const LONGEST_WAIT_MS = 20_000;

/** Follows the CNAME records of a name to its target, in lower case without a final dot. Never rejects. */
export async function followAliases(name: string, dns: Dns): Promise<string> {
  let target = name.toLowerCase();
  for (let step = 0; step < MOST_ALIASES; step++) {
    const [alias] = await dns.resolveCname(target).catch(() => []);
    if (alias === undefined) break;
    target = alias.toLowerCase().replace(/\.$/, "");
  }
  return target;
}

interface Waiting {
  runtime: Pick<Runtime, "now" | "setTimer" | "dns" | "secureDns">;
  /** Ends the wait. */
  stopped: Promise<void>;
}

/**
 * Resolves once at least one authoritative server answers, and all that answer have the TXT record. When none answers, as
 * behind a firewall, the system's resolver decides. @throws Error after five minutes, naming a server without the record
 */
export async function awaitPublished(name: string, value: string, { runtime, stopped }: Waiting): Promise<void> {
  const until = runtime.now() + LONGEST_MS;
  let isStopped = false;
  void stopped.then(() => {
    isStopped = true;
  });
  for (let wait = FIRST_WAIT_MS; ; wait = Math.min(wait * 2, LONGEST_WAIT_MS)) {
    const lacking = await findLacking(name, value, runtime);
    if (lacking === undefined) return;
    if (isStopped) throw new Error("this server is stopping");
    if (runtime.now() >= until)
      throw new Error(`after ${LONGEST_MS / 60_000} minutes, ${lacking} still lacks the TXT record ${name}`);
    await atMost(runtime, wait, stopped);
  }
}

/** Names a server that lacks the record, for people; undefined when none does. */
async function findLacking(
  name: string,
  value: string,
  { dns, secureDns }: Waiting["runtime"],
): Promise<string | undefined> {
  const servers = secureDns ? await authoritativeServers(name, dns) : [];
  const answers = await Promise.all(
    servers.map(async (server) => {
      const answer = await secureDns?.ask(server, name, "TXT").catch(() => undefined);
      return { host: server.host, has: answer?.texts.includes(value) };
    }),
  );
  const lacking = answers.find(({ has }) => has === false);
  if (lacking || answers.some(({ has }) => has)) return lacking && `DNS server ${lacking.host}`;
  const texts = await dns.resolveTxt(name).catch(() => []);
  return texts.some((strings) => strings.join("") === value) ? undefined : "DNS";
}

/** Finds the servers of the closest zone that contains the name. */
async function authoritativeServers(name: string, dns: Dns): Promise<NameServer[]> {
  for (let zone = name; zone.includes("."); zone = zone.replace(/^[^.]*\./, "")) {
    const hosts = await dns.resolveNs(zone).catch(() => []);
    if (hosts.length === 0) continue;
    const found = await Promise.allSettled(hosts.flatMap((host) => [dns.resolve4(host), dns.resolve6(host)]));
    const addresses = found.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
    return [...new Set(addresses)].slice(0, MOST_SERVERS).map((host) => ({ host, port: DNS_PORT }));
  }
  return [];
}
