/**
 * What TLS has to be like to the hosts that take mail for a domain, as the domain asks for it: by DANE (RFC 7672), else by
 * MTA-STS (RFC 8461, §2: DANE goes first), and else whatever can be had (RFC 7435).
 *
 * Invariant: what a domain asks for is never given up for want of it: its mail waits.
 */

import { createDane, type Dane, type DaneHost, problemOfChain } from "../authentication/dane.ts";
import { namesHost } from "../authentication/mta-sts.ts";
import { createPolicyFetcher, createStsPolicies, type StsPolicies } from "../authentication/sts-policies.ts";
import type { Log } from "../base/log.ts";
import type { Runtime } from "../base/runtime.ts";
import { openHttpClient } from "../net/http-client.ts";
import type { TlsPolicy } from "../smtp/client-connection.ts";
import { DeliveryFailure, deliveryResultOf } from "../smtp/delivery-result.ts";
import type { Options } from "../store/settings.ts";
import type { Store } from "../store/store.ts";

export interface Protection {
  /**
   * Of the hosts of a domain (A-labels), by their names, lower case. Either rejects with DeliveryFailure, deferred: where
   * what is asked for cannot be known, and for a host that must not have the mail.
   */
  of(domain: string): Promise<(host: string) => Promise<TlsPolicy>>;
  /** Ends what is being asked. */
  close(): void;
}

export interface ProtectionParts {
  dane: Dane;
  policies: StsPolicies;
  runtime: Pick<Runtime, "now">;
  log: Log;
}

/** What can be had. */
export const ANY_TLS: TlsPolicy = { mode: "opportunistic", verify: false, plainIfBroken: true };
const VALID_TLS: TlsPolicy = { mode: "required", verify: true, plainIfBroken: false, askedBy: "MTA-STS" };

export function createProtection({ dane, policies, runtime, log }: ProtectionParts): Protection {
  /** §3.1.1, §3.2.3: the certificate that a record names, or one for the host or the domain under an anchor. */
  function daneTls(domain: string, host: string, { base, usable }: DaneHost): TlsPolicy {
    const encrypted: TlsPolicy = { mode: "required", verify: false, plainIfBroken: false, askedBy: "DANE" };
    if (usable.length === 0) return encrypted;
    const names = [...new Set([base, host, domain])];
    const check: TlsPolicy["check"] = (chain) => problemOfChain(chain, { records: usable, names, now: runtime.now() });
    return { ...encrypted, check, servername: base };
  }

  return {
    async of(domain) {
      const [daneOf, policy] = await Promise.all([dane.of(domain), policies.policyFor(domain)]);
      return async (host) => {
        const records = await daneOf(host);
        if (records) return daneTls(domain, host, records);
        if (policy === undefined || policy.mode === "none") return ANY_TLS;
        const isTesting = policy.mode === "testing";
        if (namesHost(policy, host)) return isTesting ? { ...VALID_TLS, otherwise: ANY_TLS } : VALID_TLS;
        const text = `${host} is not among the hosts that the MTA-STS policy of ${domain} names`;
        if (!isTesting) {
          throw new DeliveryFailure(deliveryResultOf({ command: "connect", status: "4.7.5", text, remote: host }));
        }
        log.warn("a host is not in an MTA-STS policy, going on", { domain, remote: host });
        return ANY_TLS;
      };
    },
    close: policies.close,
  };
}

/** Over the network, to public addresses only. */
export function openProtection(parts: {
  store: Pick<Store, "db" | "transact">;
  options: Pick<Options, "get">;
  runtime: Pick<Runtime, "dns" | "secureDns" | "now" | "setTimer" | "authorities">;
  log: Log;
}): Protection {
  const { runtime, log } = parts;
  const none: readonly string[] = [];
  const http = openHttpClient({ runtime, allow: () => none });
  const policies = createStsPolicies({ ...parts, fetcher: createPolicyFetcher(http) });
  return createProtection({ dane: createDane(parts), policies, runtime, log });
}
