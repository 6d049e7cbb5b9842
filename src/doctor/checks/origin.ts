/** Where mail of this server comes from, as others see it: what the doctor compares records in DNS with. */
import { evaluateSpf } from "../../authentication/evidence.ts";
import { createDnsCache } from "../../net/dns-cache.ts";
import { lookUpAddresses } from "../../net/host-addresses.ts";
import { canonicalIpAddress, createNetworkMatcher } from "../../net/ip.ts";
import { mailHost } from "../../outbound/next-hop.ts";
import { readSmarthost } from "../../outbound/transport.ts";
import type { Finding, World } from "../check.ts";

/** Networks behind a router that gives their machines its own address (RFC 1918, 6598, 3927, 4193, 4291). */
const isBehindRouter = createNetworkMatcher([
  ...["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "100.64.0.0/10", "169.254.0.0/16", "127.0.0.0/8"],
  ...["fc00::/7", "fe80::/10", "::1/128"],
]);

const addressFamily = (address: string): 4 | 6 => (address.includes(":") ? 6 : 4);

/**
 * Finds the address from which this machine connects to others in a family; `isHidden`: a router puts another in its place.
 * Undefined where there is none.
 */
async function findLocalAddress(
  { system }: World,
  family: 4 | 6,
): Promise<{ address: string; isHidden: boolean } | undefined> {
  const address = canonicalIpAddress((await system.leavesFrom(family)) ?? "");
  return address === undefined ? undefined : { address, isHidden: isBehindRouter(address) };
}

/** Compares the addresses of the server's name with this machine's. */
export async function describeServerName(
  world: World,
  addresses: readonly string[],
): Promise<Omit<Finding, "id" | "name">> {
  const { hostname } = world.config;
  const at = `${hostname} is at ${addresses.join(" and ")}`;
  const others = addresses.filter((address) => !world.system.owns(address));
  if (others.length === 0) return { state: "ok", detail: `${at}, which this machine has` };
  const locals = await Promise.all(
    others.map(async (address) => ({ address, local: await findLocalAddress(world, addressFamily(address)) })),
  );
  const wrong = locals.filter(({ local }) => local && !local.isHidden);
  if (wrong.length > 0) {
    const described = wrong
      .map(({ address, local }) => `${address}, and this machine has ${local?.address}`)
      .join("; ");
    return {
      state: "bad",
      detail: `${hostname} is at ${described}`,
      todo: `Publish the address of this machine for ${hostname}. Leave it as it is only if something at ${wrong[0]?.address} passes all connections on to this machine.`,
    };
  }
  const hidden = locals.flatMap(({ local }) => local?.address ?? []);
  const behind = hidden.length > 0 ? ` (${[...new Set(hidden)].join(", ")})` : "";
  return {
    state: "unknown",
    detail: `${at}, which this machine cannot see as its own${behind}: it is behind a router, or has no route in that family`,
    todo: `See that the router has ${others.join(" and ")}, and leads ports 25, 80, 443, 465, 587 and 993 to this machine.`,
  };
}

/** An address from which others get mail of this server. */
interface Origin {
  address: string;
  /** How the doctor knows. */
  of: string;
}

/** All addresses from which mail leaves: this machine's, the router's (as the name has it), or those of the smarthost. */
async function listMailOrigins(world: World): Promise<Origin[]> {
  const { options, runtime, config } = world;
  const relay = options.get("smtp.relay");
  if (relay !== "none") {
    const { host } = readSmarthost(relay);
    const addresses = await mailHost(host, runtime.dns).addresses();
    return addresses.map((address) => ({ address, of: `the smarthost ${host}` }));
  }
  const named = await lookUpAddresses(config.hostname, runtime.dns).catch(() => []);
  const origins = await Promise.all(
    ([4, 6] as const).map(async (family): Promise<Origin[]> => {
      const local = await findLocalAddress(world, family);
      if (!local) return [];
      if (!local.isHidden) return [{ address: local.address, of: "this machine" }];
      return named
        .filter((address) => addressFamily(address) === family)
        .map((address) => ({ address, of: `the router, if it is ${config.hostname}` }));
    }),
  );
  return origins.flat();
}

/** Whether the published SPF record of a domain allows all addresses from which its mail leaves. */
export async function describeSpf(world: World, domain: string): Promise<Omit<Finding, "id" | "name">> {
  const { runtime, config, options } = world;
  const { records } = await runtime.dns.ask(domain, "TXT");
  const published = records.find((text) => /^v=spf1( |$)/i.test(text)) ?? "";
  const is = `what is published is "${published.slice(0, 500)}"`;
  const origins = await listMailOrigins(world);
  if (origins.length === 0) {
    return { state: "unknown", detail: `${is}; from which address mail leaves cannot be told here` };
  }
  const cache = createDnsCache(runtime);
  const ask = async (name: string, type: string): Promise<string[]> => {
    const answer = await cache.ask(name, type as "TXT");
    // mailauth takes records as they are (workers/parser.ts).
    if ("records" in answer) return answer.records as string[];
    throw Object.assign(new Error(`${type} of ${name}`), { code: answer.code });
  };
  const judged = await Promise.all(
    origins.map(async (origin) => {
      const reversePath = `postmaster@${domain}`;
      const { hostname } = config;
      const { verdict } = await evaluateSpf({ ip: origin.address, helo: hostname, reversePath, hostname }, ask);
      return { ...origin, verdict };
    }),
  );
  const list = (some: typeof judged) => some.map(({ address, of }) => `${address} (${of})`).join(" and ");
  const wrong = judged.filter(({ verdict }) => verdict !== "pass" && verdict !== "temperror");
  if (wrong.length > 0) {
    const verdicts = [...new Set(wrong.map(({ verdict }) => verdict))].join(", ");
    const relayed = options.get("smtp.relay") !== "none";
    return {
      // A smarthost may send from other addresses than it takes mail at.
      state: relayed ? "warning" : "bad",
      detail: `${is}, which does not allow ${list(wrong)}: ${verdicts}`,
      todo: relayed
        ? `See that the record has the "include:" that the smarthost's maker names: mail that it sends from other addresses is taken for spam.`
        : `Mail from the domain is taken for spam. Add ${wrong.map(({ address }) => `ip${addressFamily(address)}:${address}`).join(" ")} before the record's last word, or have mx lead to this machine's addresses.`,
    };
  }
  if (judged.some(({ verdict }) => verdict === "temperror")) {
    return { state: "unknown", detail: `${is}; DNS does not answer for a name in it` };
  }
  return { state: "ok", detail: `${is}, which allows ${list(judged)}` };
}
