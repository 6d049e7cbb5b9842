/** The addresses of a host, from its A and AAAA records. */
import { isIP } from "node:net";
import type { DnsClient } from "../base/runtime.ts";

/** RFC 6761 §6.3: names of the machine itself are not looked up in DNS. */
export const LOOPBACK = ["127.0.0.1", "::1"];

/** Tells whether a name, lower case without a final dot, stands for the machine itself (RFC 6761 §6.3). */
export const isLoopbackName = (host: string): boolean => host === "localhost" || host.endsWith(".localhost");

/**
 * Looks up the addresses of a host, IPv4 first; empty when it has none. An IP address is its own.
 * @throws the client's error when DNS fails for one family and the other has no address
 */
export async function lookUpAddresses(host: string, dns: DnsClient): Promise<string[]> {
  if (isIP(host)) return [host];
  if (isLoopbackName(host)) return LOOPBACK;
  const answers = await Promise.allSettled([dns.ask(host, "A"), dns.ask(host, "AAAA")]);
  const addresses = answers.flatMap((answer) => (answer.status === "fulfilled" ? answer.value.records : []));
  const failed = answers.find((answer) => answer.status === "rejected");
  if (addresses.length === 0 && failed) throw failed.reason;
  return addresses;
}
