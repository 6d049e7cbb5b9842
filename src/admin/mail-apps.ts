/**
 * The records by which mail apps find the server of an address: SRV records (RFC 6186, RFC 8314 §5.1), and the hosts
 * that serve settings (http/mail-app-discovery.ts).
 */
import type { Core, Site } from "../store/core.ts";
import type { DnsRecord } from "./dns.ts";

const isRead = ({ ports: { imap, imaps } }: Site): boolean => imap !== null || imaps !== null;

/** The hosts of a domain that serve settings and nothing else; none without IMAP. */
export const listMailAppSettingsHosts = ({ site }: Core, domain: string): string[] =>
  isRead(site) ? [`autoconfig.${domain}`, `autodiscover.${domain}`] : [];

/** The records, all optional; none without IMAP. Settings are served over HTTPS only. */
export function listMailAppRecords(core: Core, domain: string): DnsRecord[] {
  const { site } = core;
  if (!isRead(site)) return [];
  const host = site.hostname.toLowerCase();
  const { imap, imaps, submission, submissions } = site.ports;
  // Apps prefer the lower priority, also between services (RFC 6186 §3.4).
  const offers = [
    ["_imaps", imaps, 0],
    ["_imap", imap, 10],
    ["_submissions", submissions, 0],
    ["_submission", submission, 10],
  ] as const;
  const services: [service: string, value: string][] = [
    ...offers.flatMap(([service, port, priority]): [string, string][] =>
      port === null ? [] : [[service, `${priority} 1 ${port} ${host}`]],
    ),
    // There is no POP here (RFC 6186 §3.4).
    ["_pop3s", "0 0 0 ."],
    ["_pop3", "0 0 0 ."],
  ];
  const kind = { purpose: "mail-apps", optional: true } as const;
  const hosts = site.baseUrl.startsWith("https:") ? listMailAppSettingsHosts(core, domain) : [];
  return [
    ...hosts.map((name): DnsRecord => ({ type: "CNAME", name, value: host, ...kind })),
    ...services.map(
      ([service, value]): DnsRecord => ({ type: "SRV", name: `${service}._tcp.${domain}`, value, ...kind }),
    ),
  ];
}
