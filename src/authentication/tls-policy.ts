/**
 * The TLS that a domain asks for on connections to the hosts that take its mail: by DANE (RFC 7672), else by MTA-STS
 * (RFC 8461, §2: DANE goes first), else opportunistic TLS (RFC 7435).
 *
 * Invariant: mail waits until the host offers the TLS that the domain asks for. A policy that tests only logs failures.
 */
import { MOST_REQUESTS } from "../base/descriptors.ts";
import { openHttpClient } from "../net/http-client.ts";
import type { TlsPolicy } from "../smtp/client-connection.ts";
import { DeliveryFailure, toDeliveryResult } from "../smtp/delivery-result.ts";
import type { Core } from "../store/core.ts";
import { type DaneHost, findDane, findDaneChainProblem } from "./dane.ts";
import { createStsPolicies, fetchStsPolicy, isHostInStsPolicy, type StsPolicies } from "./mta-sts.ts";

/** Opportunistic TLS: whatever the host offers. */
export const ANY_TLS: TlsPolicy = { mode: "opportunistic", verify: false, plainIfBroken: true };
const VALID_TLS: TlsPolicy = { mode: "required", verify: true, plainIfBroken: false, askedBy: "MTA-STS" };

export type TlsPolicies = ReturnType<typeof openTlsPolicies>;

/** Opens a look-up of policies over the network, which fetches those of MTA-STS from public addresses only. */
export function openTlsPolicies(core: Core) {
  const none: readonly string[] = [];
  const http = openHttpClient({ runtime: core.runtime, allow: () => none, mostAtOnce: MOST_REQUESTS.policies });
  const stsPolicies = createStsPolicies(core, (domain) => fetchStsPolicy(http, domain));
  return {
    of: (domain: string) => findTlsPolicies(core, stsPolicies, domain),
    /** Ends requests under way. */
    close: http.close,
  };
}

/**
 * Finds the policies of a domain (A-labels). Resolves with a look-up of the TLS for each of its hosts, by name in lower
 * case.
 * @throws DeliveryFailure deferred, here and in the look-up, while DNS does not tell what the domain asks for. The
 * look-up also throws it for a host that must not get the mail
 */
export async function findTlsPolicies(
  core: Core,
  stsPolicies: StsPolicies,
  domain: string,
): Promise<(host: string) => Promise<TlsPolicy>> {
  const [daneOf, policy] = await Promise.all([findDane(core, domain), stsPolicies(domain)]);
  return async (host) => {
    const records = await daneOf(host);
    if (records) return daneTls(domain, host, records, core.now);
    if (policy === undefined || policy.mode === "none") return ANY_TLS;
    const isTesting = policy.mode === "testing";
    if (isHostInStsPolicy(policy, host)) return isTesting ? { ...VALID_TLS, otherwise: ANY_TLS } : VALID_TLS;
    const text = `${host} is not among the hosts that the MTA-STS policy of ${domain} names`;
    if (!isTesting) {
      throw new DeliveryFailure(toDeliveryResult({ command: "connect", status: "4.7.5", text, remote: host }));
    }
    core.log.warn("a host is not in an MTA-STS policy, going on", { domain, remote: host });
    return ANY_TLS;
  };
}

/**
 * Requires the certificate that a record names, or one for the host or the domain under an anchor (RFC 7672 §3.1.1,
 * §3.2.3).
 */
function daneTls(domain: string, host: string, { base, usable }: DaneHost, now: () => number): TlsPolicy {
  const encrypted: TlsPolicy = { mode: "required", verify: false, plainIfBroken: false, askedBy: "DANE" };
  if (usable.length === 0) return encrypted;
  const names = [...new Set([base, host, domain])];
  const check: TlsPolicy["check"] = (chain) => findDaneChainProblem(chain, { records: usable, names, now: now() });
  return { ...encrypted, check, servername: base };
}
