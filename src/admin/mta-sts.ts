/**
 * The MTA-STS policy of the hosted domains (RFC 8461): it asks senders to use TLS with a valid certificate, and to
 * report failures. All domains share one text, served at each domain's own policy host.
 */
import { policyHostOf, writeStsPolicy, writeStsRecord } from "../authentication/mta-sts.ts";
import type { Options } from "../store/settings.ts";
import type { DnsRecord } from "./dns.ts";

export type PublishedPolicy = ReturnType<typeof createPublishedPolicy>;

/** Seconds that senders cache the policy: short during a trial, so that they notice changes soon. */
const MAX_AGE = { none: 86_400, testing: 86_400, enforce: 14 * 86_400 } as const;

export function createPublishedPolicy({
  options,
  hostname,
  baseUrl,
}: {
  options: Pick<Options, "get">;
  /** Name of this server, which takes the mail. */
  hostname: string;
  /** Public origin. Senders read policies over HTTPS only. */
  baseUrl: string;
}) {
  const host = hostname.toLowerCase();

  function text(): string {
    const mode = options.get("mtaSts.mode");
    return writeStsPolicy({ mode, mx: [host], maxAgeSeconds: MAX_AGE[mode] });
  }

  return {
    /** Returns the current policy. */
    text,
    /** Lists the records that announce the policy, all optional; none while no policy is published. */
    recordsOf(domain: string): DnsRecord[] {
      if (options.get("mtaSts.mode") === "none" || !baseUrl.startsWith("https:")) return [];
      return [
        { type: "CNAME", name: policyHostOf(domain), value: host, purpose: "mta-sts", optional: true },
        {
          type: "TXT",
          name: `_mta-sts.${domain}`,
          value: writeStsRecord(text()),
          purpose: "mta-sts",
          optional: true,
        },
        {
          type: "TXT",
          name: `_smtp._tls.${domain}`,
          value: `v=TLSRPTv1; rua=mailto:postmaster@${domain}`,
          purpose: "tls-rpt",
          optional: true,
        },
      ];
    },
  };
}
