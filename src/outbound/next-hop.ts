/**
 * Finds the hosts that take mail for a domain (RFC 5321 §5.1), in the order to try them, and the addresses of each.
 *
 * Invariant: a failure of DNS is temporary; only a reply of DNS is final.
 */
import type { Runtime } from "../base/runtime.ts";
import { lookUpAddresses } from "../net/host-addresses.ts";
import { DeliveryFailure, type Reply, toDeliveryResult } from "../smtp/delivery-result.ts";

export interface MailHost {
  /** Lower case, without a final dot; an IP address where a domain names one as its MX. */
  name: string;
  /** Looks up its addresses, IPv4 and IPv6 in turn; empty when it has none. @throws DeliveryFailure when DNS fails */
  addresses(): Promise<readonly string[]>;
}

interface World {
  runtime: Pick<Runtime, "dns" | "randomBytes">;
  /** Our own name. */
  hostname: string;
}

/**
 * Finds the hosts that take mail for `domain` (A-labels): by preference, at random among equals (RFC 5321 §5.1); without an MX
 * the domain itself.
 * @throws DeliveryFailure deferred when DNS fails; refused for a domain that does not exist (hard), a null MX (RFC 7505, hard),
 * one without any address, and one whose mail would come back to us
 */
export async function findMailHosts(domain: string, { runtime, hostname }: World): Promise<MailHost[]> {
  const { dns } = runtime;
  const { records, absence } = await answered(domain, dns.ask(domain, "MX"));
  if (records.length === 1 && records[0]?.exchange === "") {
    throw failure({ status: "5.1.10", text: `${domain} takes no mail: its MX record is null` });
  }
  if (records.length === 0) return [await hostWithoutMx(domain, absence === "name", { runtime, hostname })];
  // This server, and hosts that are less preferred, would send the mail back (RFC 5321 §5.1).
  const own = records.filter(({ exchange }) => exchange === hostname.toLowerCase());
  const limit = Math.min(...own.map(({ priority }) => priority));
  const usable = records.filter(({ priority, exchange }) => priority < limit && exchange !== "");
  if (own.length > 0 && usable.length === 0) throw loop(domain);
  return usable
    .map((record) => ({ ...record, chance: Buffer.from(runtime.randomBytes(4)).readUInt32BE() }))
    .sort((a, b) => a.priority - b.priority || a.chance - b.chance)
    .map(({ exchange }) => mailHost(exchange, dns));
}

/** Makes the host of a known name, such as a smarthost. */
export function mailHost(name: string, dns: Runtime["dns"]): MailHost {
  return { name, addresses: () => listHostAddresses(name, dns) };
}

/** Makes the failure for a domain none of whose hosts has an address: final, but not the recipient's fault. */
export function createUnroutableFailure(domain: string): DeliveryFailure {
  return failure({ status: "5.4.4", text: `no mail server of ${domain} has an address` });
}

async function hostWithoutMx(domain: string, isMissing: boolean, { runtime, hostname }: World): Promise<MailHost> {
  const addresses = await listHostAddresses(domain, runtime.dns);
  if (addresses.length === 0) {
    throw isMissing
      ? failure({ status: "5.1.2", text: `the domain ${domain} does not exist` })
      : createUnroutableFailure(domain);
  }
  if (domain === hostname.toLowerCase()) throw loop(domain);
  return { name: domain, addresses: async () => addresses };
}

/**
 * Looks up the addresses of a host. IPv4 comes first: a small server's IPv6 address often has no name (PTR), for which large
 * receivers refuse it for good.
 */
async function listHostAddresses(host: string, dns: Runtime["dns"]): Promise<string[]> {
  const addresses = await answered(host, lookUpAddresses(host, dns));
  const [first, second] = [addresses.filter((one) => !one.includes(":")), addresses.filter((one) => one.includes(":"))];
  const inTurn = Array.from({ length: Math.max(first.length, second.length) }, (_, i) => [first[i], second[i]]).flat();
  return [...new Set(inTurn.filter((address) => address !== undefined))];
}

/** Waits for an answer about a name. @throws DeliveryFailure when DNS fails */
async function answered<T>(name: string, question: Promise<T>): Promise<T> {
  try {
    return await question;
  } catch (error) {
    throw unanswered(name, formatErrorCode(error));
  }
}

const formatErrorCode = (error: unknown): string => String((error as { code?: unknown }).code ?? error);

function unanswered(name: string, code: string): DeliveryFailure {
  return failure({ status: "4.4.3", text: `DNS gave no answer for ${name} (${code})` });
}

function loop(domain: string): DeliveryFailure {
  return failure({
    status: "5.4.6",
    text: `mail for ${domain} would come back to this server, which does not take it`,
  });
}

function failure(reply: Pick<Reply, "status" | "text">): DeliveryFailure {
  return new DeliveryFailure(toDeliveryResult({ command: "dns", ...reply }));
}
