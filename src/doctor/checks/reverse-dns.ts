/**
 * The server's name and its addresses lead to each other (forward-confirmed reverse DNS): who does not have that is
 * refused by many. An address on a blocklist is, too.
 */

import { createBlocklists, reversedAddress } from "../../inbound/dnsbl.ts";
import { createDnsCache, isAbsence } from "../../net/dns-cache.ts";
import { canonicalAddress } from "../../net/ip.ts";
import type { Check, Finding, World } from "../check.ts";

/** Lists that many servers ask; besides them, those that this server asks about its clients. */
const WELL_KNOWN = ["zen.spamhaus.org", "bl.spamcop.net"];

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? "ESERVFAIL";

/** The addresses of a name; undefined when DNS does not answer. */
async function addressesOf({ runtime: { dns }, config }: World): Promise<string[] | undefined> {
  const answers = await Promise.allSettled([dns.resolve4(config.hostname), dns.resolve6(config.hostname)]);
  if (answers.some((answer) => answer.status === "rejected" && !isAbsence(codeOf(answer.reason)))) return undefined;
  return answers
    .flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []))
    .flatMap((address) => canonicalAddress(address) ?? []);
}

export const checkReverseDns: Check = async (world) => {
  const { hostname } = world.config;
  const base = { id: "hostname", name: "Server name" } as const;
  const addresses = await addressesOf(world);
  if (addresses === undefined) return [{ ...base, state: "unknown", detail: `DNS does not answer for ${hostname}` }];
  if (addresses.length === 0) {
    const todo = `Publish an A record (and AAAA, if the machine has IPv6) for ${hostname} with the address of this machine, or name another server in MAILROOM_HOSTNAME.`;
    return [{ ...base, state: "bad", detail: `${hostname} has no address`, todo }];
  }
  const found = await Promise.all(
    addresses.map(async (address) => [await pointsBack(world, address), await isListed(world, address)]),
  );
  return [{ ...base, state: "ok", detail: `${hostname} is at ${addresses.join(" and ")}` }, ...found.flat()];
};

async function pointsBack({ runtime: { dns }, config: { hostname } }: World, address: string): Promise<Finding> {
  const base = { id: `ptr:${address}`, name: `Reverse DNS of ${address}` };
  const todo = `Have the provider of the address set its reverse DNS (PTR) to ${hostname}: many servers refuse mail without it.`;
  const zone = address.includes(":") ? "ip6.arpa" : "in-addr.arpa";
  try {
    const names = await dns.resolvePtr(`${reversedAddress(address)}.${zone}`);
    const isOurs = names.some((name) => name.toLowerCase().replace(/\.$/, "") === hostname.toLowerCase());
    if (isOurs) return { ...base, state: "ok", detail: `it is ${hostname}` };
    return { ...base, state: "bad", detail: `it is ${names.join(", ")}, not ${hostname}`, todo };
  } catch (error) {
    if (!isAbsence(codeOf(error))) return { ...base, state: "unknown", detail: "DNS does not answer" };
    return { ...base, state: "bad", detail: "there is none", todo };
  }
}

async function isListed({ runtime, options }: World, address: string): Promise<Finding> {
  const base = { id: `dnsbl:${address}`, name: `Blocklists of ${address}` };
  const own = options.get("mx.dnsbl");
  const zones = [...new Set([...WELL_KNOWN, ...(own === "none" ? [] : own)])];
  let silent = 0;
  const log = { debug() {}, info() {}, error() {}, warn: () => void silent++, child: () => log };
  const listing = await createBlocklists({ names: createDnsCache(runtime), runtime, log }).find(address, zones);
  if (listing) {
    const why = listing.reason === undefined ? "" : ` (${listing.reason})`;
    const todo = `Find out what was sent from the address (mailroom queue list, and the server's log), end it, and then ask ${listing.zone} to remove it.`;
    return { ...base, state: "bad", detail: `${listing.zone} lists it${why}`, todo };
  }
  const asked = zones.length - silent;
  return asked > 0
    ? { ...base, state: "ok", detail: `none of ${asked} lists has it` }
    : { ...base, state: "unknown", detail: "no list answers; those of Spamhaus answer no public resolver" };
}
