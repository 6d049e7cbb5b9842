/**
 * The MTA-STS policy of the domains here (RFC 8461): who sends them mail is to use TLS with a certificate that holds, and
 * to say when that fails. One text for all of them, at each domain's own policy host.
 */
import { policyHostOf, writeStsPolicy, writeStsRecord } from "../authentication/mta-sts.ts";
import type { Options } from "../store/settings.ts";
import type { DnsRecord } from "./dns.ts";

export interface PublishedPolicy {
  /** The records that tell of it, all of them optional; none while nothing is published. */
  recordsOf(domain: string): DnsRecord[];
  /** The policy as it is at this moment. */
  text(): string;
}

export interface PublishedPolicyParts {
  options: Pick<Options, "get">;
  /** Name of this server, which takes the mail. */
  hostname: string;
  /** Public origin: policies are read over HTTPS. */
  baseUrl: string;
}

/** Seconds that senders hold on to it: while it is tried out they are to notice changes soon. */
const MAX_AGE = { none: 86_400, testing: 86_400, enforce: 14 * 86_400 } as const;

export function createPublishedPolicy({ options, hostname, baseUrl }: PublishedPolicyParts): PublishedPolicy {
  const host = hostname.toLowerCase();

  function text(): string {
    const mode = options.get("mtaSts.mode");
    return writeStsPolicy({ mode, mx: [host], maxAgeSeconds: MAX_AGE[mode] });
  }

  return {
    text,
    recordsOf(domain) {
      if (options.get("mtaSts.mode") === "none" || !baseUrl.startsWith("https:")) return [];
      return [
        { type: "CNAME", name: policyHostOf(domain), value: host, purpose: "mta-sts", optional: true },
        {
          ...{ type: "TXT", name: `_mta-sts.${domain}`, value: writeStsRecord(text()) },
          ...{ purpose: "mta-sts", optional: true },
        },
        {
          ...{ type: "TXT", name: `_smtp._tls.${domain}`, value: `v=TLSRPTv1; rua=mailto:postmaster@${domain}` },
          ...{ purpose: "tls-rpt", optional: true },
        },
      ];
    },
  };
}
