/** Finds the names for a certificate. */
import { isIP } from "node:net";
import type { DnsResolver } from "../base/runtime.ts";
import type { Names } from "./certificates.ts";

export interface NamesParts {
  /** Name of the SMTP listeners. */
  hostname: string;
  /** Public origin of the web. */
  baseUrl: string;
  /** Lists hosts of MTA-STS policies; those whose DNS leads to this server are included. */
  policyHosts(): readonly string[];
  dns: DnsResolver;
}

/** Let's Encrypt allows at most this many names in an order. */
const MOST_NAMES = 100;

/** Finds the current names. Never rejects. */
export async function findNames({ hostname, baseUrl, policyHosts, dns }: NamesParts): Promise<Names> {
  const main = hostname.toLowerCase();
  const webHost = new URL(baseUrl).hostname;
  const here = await addressesOf(main, dns);
  const hosts = policyHosts().slice(0, MOST_NAMES - 2);
  const leadHere = await Promise.all(
    hosts.map(async (host) => (await addressesOf(host, dns)).some((address) => here.includes(address))),
  );
  const isPublic = webHost.includes(".") && isIP(webHost) === 0 && webHost !== main;
  return { main, others: [...(isPublic ? [webHost] : []), ...hosts.filter((_, i) => leadHere[i])] };
}

/** Looks up the addresses of a host; empty when DNS fails. */
async function addressesOf(host: string, dns: DnsResolver): Promise<string[]> {
  const answers = await Promise.allSettled([dns.resolve4(host), dns.resolve6(host)]);
  return answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
}
