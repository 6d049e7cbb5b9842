/**
 * The MTA-STS policy of the hosted domains (RFC 8461): it asks senders to use TLS with a valid certificate, and to
 * report failures. All domains share one text, served at each domain's own policy host.
 */
import { stsPolicyHost, writeStsPolicy, writeStsRecord } from "../authentication/mta-sts.ts";
import type { Core } from "../store/core.ts";
import type { DnsRecord } from "./dns.ts";

/** Seconds that senders cache the policy: short during a trial, so that they notice changes soon. */
const MAX_AGE = { none: 86_400, testing: 86_400, enforce: 14 * 86_400 } as const;

/** The current policy. */
export function stsPolicyText({ options, site: { hostname } }: Core): string {
  const mode = options.get("mtaSts.mode");
  return writeStsPolicy({ mode, mx: [hostname.toLowerCase()], maxAgeSeconds: MAX_AGE[mode] });
}

/**
 * The records that announce the policy, all optional; none while no policy is published, or where senders cannot read it,
 * since they do over HTTPS only.
 */
export function listMtaStsRecords(core: Core, domain: string): DnsRecord[] {
  const { hostname, baseUrl } = core.site;
  if (core.options.get("mtaSts.mode") === "none" || !baseUrl.startsWith("https:")) return [];
  return [
    { type: "CNAME", name: stsPolicyHost(domain), value: hostname.toLowerCase(), purpose: "mta-sts", optional: true },
    {
      type: "TXT",
      name: `_mta-sts.${domain}`,
      value: writeStsRecord(stsPolicyText(core)),
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
}
