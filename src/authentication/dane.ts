/**
 * DANE for SMTP (RFC 7672): reads the authenticated TLSA records of a domain's hosts, and checks certificates against them.
 * Only answers of trusted resolvers count as authenticated.
 *
 * Invariant: when records may exist but cannot be read, the host gets no mail, since an attacker could have withheld them.
 */
import { createHash, type KeyObject, type X509Certificate } from "node:crypto";
import type { NameServer, Runtime, SecureAnswer, SecureDns, Tlsa } from "../base/runtime.ts";
import { canonicalAddress, networkList } from "../net/ip.ts";
import { DeliveryFailure, deliveryResultOf } from "../smtp/delivery-result.ts";
import type { Options } from "../store/settings.ts";

/** The usable records of a host. */
export interface DaneHost {
  /** The name that the records belong to, and the server name for TLS (RFC 7672 §8.1). */
  base: string;
  /** Empty when there are records but none is usable: TLS is then required, with any certificate (§2.2). */
  usable: readonly Tlsa[];
}

export interface Dane {
  /**
   * A look-up of the hosts of a domain (A-labels), by name in lower case; undefined for a host without records. Both reject
   * with a deferred DeliveryFailure when DNS fails, and for a host outside the domain's while others have records.
   */
  of(domain: string): Promise<(host: string) => Promise<DaneHost | undefined>>;
}

export interface DaneParts {
  runtime: Pick<Runtime, "secureDns">;
  options: Pick<Options, "get">;
}

export function createDane({ runtime: { secureDns }, options }: DaneParts): Dane {
  /** The trusted resolvers. */
  function trusted(): readonly NameServer[] {
    const networks = options.get("smtp.trustedResolvers");
    const isTrusted = networkList(networks === "none" ? [] : networks);
    return (secureDns?.servers ?? []).filter(({ host }) => isTrusted(canonicalAddress(host) ?? ""));
  }

  /** @throws DeliveryFailure when none of the resolvers answers */
  async function ask(servers: readonly NameServer[], ...[name, type]: Question): Promise<SecureAnswer> {
    let code = "";
    for (const server of servers) {
      try {
        if (secureDns) return await secureDns.ask(server, name, type);
      } catch (error) {
        code = String((error as { code?: unknown }).code ?? error);
      }
    }
    const text = `DNS gave no answer for ${name} ${type} (${code}), which DANE needs`;
    throw new DeliveryFailure(deliveryResultOf({ command: "dns", status: "4.7.5", text }));
  }

  /** The names where TLSA records of a host may be (§2.1.3, §2.2.2); the first name that has some counts. */
  async function basesOf(servers: readonly NameServer[], host: string): Promise<string[]> {
    const answers = await Promise.all([ask(servers, host, "A"), ask(servers, host, "AAAA")]);
    const name = answers.map((answer) => answer.name).find((one) => one !== host) ?? host;
    if (answers.every(({ authenticated }) => authenticated)) return name === host ? [host] : [name, host];
    return name === host ? [] : [host];
  }

  /** The authenticated records of a host. @throws DeliveryFailure when DNS fails */
  async function recordsOf(servers: readonly NameServer[], host: string): Promise<DaneHost | undefined> {
    for (const base of await basesOf(servers, host)) {
      const { authenticated, tlsa } = await ask(servers, `_${options.get("smtp.outboundPort")}._tcp.${base}`, "TLSA");
      if (authenticated && tlsa.length > 0) return { base, usable: tlsa.filter(isUsable) };
    }
    return undefined;
  }

  return {
    async of(domain) {
      const servers = trusted();
      if (servers.length === 0) return async () => undefined;
      const mx = await ask(servers, domain, "MX");
      const hosts = mx.hosts.length === 0 ? [domain] : mx.hosts.filter((host) => host !== "");
      return async (host) => {
        // §2.2.1: a name that is not authenticated could lead anywhere.
        if (!mx.authenticated) return undefined;
        if (hosts.includes(host)) return recordsOf(servers, host);
        // An untrusted resolver named this host, perhaps to bypass the records of the real ones.
        for (const right of hosts.slice(0, MOST_HOSTS)) {
          if (!(await recordsOf(servers, right))) continue;
          const text = `${host} is not among the hosts that the authenticated MX records of ${domain} name`;
          throw new DeliveryFailure(deliveryResultOf({ command: "connect", status: "4.7.5", text, remote: host }));
        }
        return undefined;
      };
    },
  };
}

/** Most hosts of a domain whose records are read when another host is named. */
const MOST_HOSTS = 8;

type Question = Parameters<SecureDns["ask"]> extends [NameServer, ...infer Rest] ? Rest : never;

const DANE_TA = 2;
const DANE_EE = 3;
/** By matching type; of the exact match, any. */
const DIGESTS = new Map([
  [1, { algorithm: "sha256", length: 32 }],
  [2, { algorithm: "sha512", length: 64 }],
]);

/** §3.1.3: of the usages, those without public authorities. */
function isUsable({ usage, selector, matchingType, data }: Tlsa): boolean {
  const digest = DIGESTS.get(matchingType);
  const isWhole = matchingType === 0 ? data.length > 0 : data.length === digest?.length;
  return (usage === DANE_TA || usage === DANE_EE) && (selector === 0 || selector === 1) && isWhole;
}

function matches({ selector, matchingType, data }: Tlsa, certificate: X509Certificate): boolean {
  const content = selector === 0 ? certificate.raw : keyOf(certificate)?.export({ type: "spki", format: "der" });
  if (content === undefined) return false;
  const digest = DIGESTS.get(matchingType);
  return Buffer.from(data).equals(digest ? createHash(digest.algorithm).update(content).digest() : content);
}

/** Undefined for an unknown kind of key. */
function keyOf(certificate: X509Certificate): KeyObject | undefined {
  try {
    return certificate.publicKey;
  } catch {
    return undefined;
  }
}

/**
 * The fault of the certificate chain that a host presents, its own certificate first; undefined when a record matches it.
 * `names`: the names that a certificate under a trust anchor may have (§3.2.3); `now`: epoch ms, for its validity. Neither
 * matters for a certificate that a record names itself (§3.1.1).
 */
export function problemOfChain(
  chain: readonly X509Certificate[],
  { records, names, now }: { records: readonly Tlsa[]; names: readonly string[]; now: number },
): string | undefined {
  const [own] = chain;
  if (!own) return "it shows no certificate";
  const named = (usage: number, certificate: X509Certificate) =>
    records.some((record) => record.usage === usage && matches(record, certificate));
  if (named(DANE_EE, own)) return undefined;
  const isValid = ({ validFromDate, validToDate }: X509Certificate) =>
    validFromDate.getTime() <= now && now <= validToDate.getTime();
  for (const [i, issuer] of chain.entries()) {
    const issued = chain[i - 1];
    if (!isValid(issuer)) break;
    if (!issued) continue;
    const key = keyOf(issuer);
    if (!key || !issuer.ca || !issued.checkIssued(issuer) || !issued.verify(key)) break;
    if (named(DANE_TA, issuer)) {
      const isForName = names.some((name) => own.checkHost(name) !== undefined);
      return isForName ? undefined : `its certificate is for none of ${names.join(", ")}`;
    }
  }
  return "no TLSA record is of its certificate";
}
