/** For which names a certificate is asked. */
import { isIP } from "node:net";
import type { DnsResolver } from "../base/runtime.ts";
import type { Names } from "./certificates.ts";

export interface NamesParts {
  /** Of the SMTP listeners. */
  hostname: string;
  /** Public origin of the web. */
  baseUrl: string;
  /** Hosts of the MTA-STS policies that this server would publish, where they lead here. */
  policyHosts(): readonly string[];
  dns: DnsResolver;
}

/** An order of Let's Encrypt has no more. */
const MOST_NAMES = 100;

/** The names as of now. Never rejects. */
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

/** None when DNS gives none. */
async function addressesOf(host: string, dns: DnsResolver): Promise<string[]> {
  const answers = await Promise.allSettled([dns.resolve4(host), dns.resolve6(host)]);
  return answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value : []));
}
