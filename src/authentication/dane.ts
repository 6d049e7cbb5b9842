/**
 * DANE for SMTP (RFC 7672): reads the authenticated TLSA records of a domain's hosts, and checks certificates against
 * them. Only answers of trusted resolvers count as authenticated.
 *
 * Invariant: when records may exist but cannot be read, the host gets no mail, since an attacker could have withheld
 * them.
 */
import { createHash, type KeyObject, type X509Certificate } from "node:crypto";
import type { DnsAnswer, DnsClient, NameServer, RecordType, Runtime, Tlsa } from "../base/runtime.ts";
import { canonicalIpAddress, createNetworkMatcher } from "../net/ip.ts";
import { DeliveryFailure, toDeliveryResult } from "../smtp/delivery-result.ts";
import type { Options } from "../store/settings.ts";

/** The usable records of a host. */
export interface DaneHost {
  /** The name that the records belong to, and the server name for TLS (RFC 7672 §8.1). */
  base: string;
  /** Empty when there are records but none is usable: TLS is then required, with any certificate (§2.2). */
  usable: readonly Tlsa[];
}

/** The part of the runtime and of the settings that DANE needs. */
export interface DaneParts {
  runtime: Pick<Runtime, "dns">;
  options: Pick<Options, "get">;
}

/** Most hosts of a domain whose TLSA records are read for a host that is none of the domain's. */
const MOST_HOSTS = 8;

/** Asks trusted resolvers alone. @throws DeliveryFailure when none of them answers */
type Ask = <T extends RecordType>(name: string, type: T) => Promise<DnsAnswer<T>>;

/**
 * Asks for the MX records of a domain (A-labels). Resolves with a look-up of its hosts, by name in lower case, which
 * resolves with undefined for a host without TLSA records.
 * @throws DeliveryFailure deferred, here and in the look-up, when DNS fails. The look-up also throws it for a host that
 * is none of the domain's while one of the domain's has TLSA records
 */
export async function findDane(
  parts: DaneParts,
  domain: string,
): Promise<(host: string) => Promise<DaneHost | undefined>> {
  const servers = trustedResolvers(parts);
  if (servers.length === 0) return async () => undefined;
  const ask = asking(parts.runtime.dns, servers);
  const findDaneHost = (host: string) => daneHost(ask, host, parts.options.get("smtp.outboundPort"));
  const mx = await ask(domain, "MX");
  const hosts = mx.records.length === 0 ? [domain] : mx.records.flatMap(({ exchange }) => exchange || []);
  return async (host) => {
    // §2.2.1: a name that is not authenticated could lead anywhere.
    if (!mx.authenticated) return undefined;
    if (hosts.includes(host)) return findDaneHost(host);
    // An untrusted resolver named this host, perhaps to bypass the records of the real ones.
    for (const own of hosts.slice(0, MOST_HOSTS)) {
      if (!(await findDaneHost(own))) continue;
      const text = `${host} is not among the hosts that the authenticated MX records of ${domain} name`;
      throw new DeliveryFailure(toDeliveryResult({ command: "connect", status: "4.7.5", text, remote: host }));
    }
    return undefined;
  };
}

function trustedResolvers({ runtime: { dns }, options }: DaneParts): readonly NameServer[] {
  const networks = options.get("smtp.trustedResolvers");
  const isTrusted = createNetworkMatcher(networks === "none" ? [] : networks);
  return dns.servers().filter(({ host }) => isTrusted(canonicalIpAddress(host) ?? ""));
}

const asking =
  (dns: DnsClient, servers: readonly NameServer[]): Ask =>
  async (name, type) => {
    try {
      return await dns.ask(name, type, servers);
    } catch (error) {
      const code = String((error as { code?: unknown }).code ?? error);
      const text = `DNS gave no answer for ${name} ${type} (${code}), which DANE needs`;
      throw new DeliveryFailure(toDeliveryResult({ command: "dns", status: "4.7.5", text }));
    }
  };

/** Reads the authenticated records of a host. @throws DeliveryFailure when DNS fails */
async function daneHost(ask: Ask, host: string, port: number): Promise<DaneHost | undefined> {
  for (const base of await listTlsaBaseNames(ask, host)) {
    const { authenticated, records } = await ask(`_${port}._tcp.${base}`, "TLSA");
    if (authenticated && records.length > 0) return { base, usable: records.filter(isUsable) };
  }
  return undefined;
}

/** Returns the names where TLSA records of a host may be (§2.1.3, §2.2.2); the first name that has some counts. */
async function listTlsaBaseNames(ask: Ask, host: string): Promise<string[]> {
  const answers = await Promise.all([ask(host, "A"), ask(host, "AAAA")]);
  const name = answers.map((answer) => answer.name).find((one) => one !== host) ?? host;
  if (answers.every(({ authenticated }) => authenticated)) return name === host ? [host] : [name, host];
  return name === host ? [] : [host];
}

const DANE_TA = 2;
const DANE_EE = 3;
/** Digests by matching type; type 0 has none, since it matches the whole content. */
const DIGESTS = new Map([
  [1, { algorithm: "sha256", length: 32 }],
  [2, { algorithm: "sha512", length: 64 }],
]);

/** Tells whether a record can be used: of the usages, only those without public authorities (§3.1.3). */
function isUsable({ usage, selector, matchingType, data }: Tlsa): boolean {
  const digest = DIGESTS.get(matchingType);
  const isWhole = matchingType === 0 ? data.length > 0 : data.length === digest?.length;
  return (usage === DANE_TA || usage === DANE_EE) && (selector === 0 || selector === 1) && isWhole;
}

function matches({ selector, matchingType, data }: Tlsa, certificate: X509Certificate): boolean {
  const content =
    selector === 0 ? certificate.raw : readCertificateKey(certificate)?.export({ type: "spki", format: "der" });
  if (content === undefined) return false;
  const digest = DIGESTS.get(matchingType);
  return Buffer.from(data).equals(digest ? createHash(digest.algorithm).update(content).digest() : content);
}

/** Returns the key of a certificate; undefined for an unknown kind of key. */
function readCertificateKey(certificate: X509Certificate): KeyObject | undefined {
  try {
    return certificate.publicKey;
  } catch {
    return undefined;
  }
}

/**
 * Finds the fault of the certificate chain that a host presents, its own certificate first; undefined when a record
 * matches it. `names`: the names that a certificate under a trust anchor may have (§3.2.3). `now`: epoch ms, for its
 * validity. Names and validity do not matter for a host's certificate that a record names itself (§3.1.1).
 */
export function findDaneChainProblem(
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
    const key = readCertificateKey(issuer);
    if (!key || !issuer.ca || !issued.checkIssued(issuer) || !issued.verify(key)) break;
    if (named(DANE_TA, issuer)) {
      const isForName = names.some((name) => own.checkHost(name) !== undefined);
      return isForName ? undefined : `its certificate is for none of ${names.join(", ")}`;
    }
  }
  return "no TLSA record is of its certificate";
}
