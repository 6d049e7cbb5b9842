/**
 * The records by which mail apps find the server of an address: SRV records (RFC 6186, RFC 8314 §5.1), and the hosts
 * that serve settings (http/discovery.ts).
 */
import type { DnsRecord } from "./dns.ts";

/** Ports of the listeners for mail apps; null where there is none. */
export interface MailAppPorts {
  /** With STARTTLS. */
  imap: number | null;
  /** With TLS from the start. */
  imaps: number | null;
  submission: number | null;
  submissions: number | null;
}

export type MailAppRecords = ReturnType<typeof createMailAppRecords>;

/** The hosts of a domain that serve settings and nothing else. */
const hostsOf = (domain: string): string[] => [`autoconfig.${domain}`, `autodiscover.${domain}`];

export function createMailAppRecords({
  hostname,
  baseUrl,
  ports,
}: {
  /** Name of this server. */
  hostname: string;
  /** Public origin. Settings are served over HTTPS. */
  baseUrl: string;
  ports: MailAppPorts;
}) {
  const host = hostname.toLowerCase();
  const { imap, imaps, submission, submissions } = ports;
  const isRead = imap !== null || imaps !== null;
  const optional = true;
  const purpose = "mail-apps";

  /** Apps prefer the lower priority, also between services (RFC 6186 §3.4). */
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

  return {
    /** The hosts that serve settings of a domain; none without IMAP. */
    hostsOf: (domain: string): string[] => (isRead ? hostsOf(domain) : []),
    /** Lists the records, all optional; none without IMAP. */
    recordsOf(domain: string): DnsRecord[] {
      if (!isRead) return [];
      const hosts = baseUrl.startsWith("https:") ? hostsOf(domain) : [];
      return [
        ...hosts.map((name): DnsRecord => ({ type: "CNAME", name, value: host, purpose, optional })),
        ...services.map(
          ([service, value]): DnsRecord => ({
            type: "SRV",
            name: `${service}._tcp.${domain}`,
            value,
            purpose,
            optional,
          }),
        ),
      ];
    },
  };
}
