/** Checks of the server as clients and other servers see it: listeners, certificate, reverse DNS, blocklists. */
import { X509Certificate } from "node:crypto";
import { toIsoTime } from "../../base/time.ts";
import type { Config, Listen, TlsMode } from "../../config.ts";
import { createBlocklists, reversedAddress } from "../../inbound/dnsbl.ts";
import { createDnsCache } from "../../net/dns-cache.ts";
import { canonicalIpAddress } from "../../net/ip.ts";
import { readAcme } from "../../tls/acme.ts";
import { adviceOnCertificateTrouble, describeChallengeNeed } from "../../tls/advice.ts";
import { isCertificateForHost } from "../../tls/pair.ts";
import type { Trouble } from "../../tls/source.ts";
import type { Check, Finding, World } from "../check.ts";
import { describeServerName } from "./origin.ts";

/* The server's own listeners, contacted from this machine. */

const LISTENERS = [
  { id: "http", name: "HTTP", variable: "MAILROOM_HTTP", expect: "connection" },
  { id: "https", name: "HTTPS", variable: "MAILROOM_HTTPS", expect: "certificate" },
  { id: "mx", name: "SMTP for other servers", variable: "MAILROOM_MX", expect: "line" },
  { id: "submission", name: "SMTP for mail apps", variable: "MAILROOM_SUBMISSION", expect: "line" },
  { id: "submissions", name: "SMTP for mail apps, over TLS", variable: "MAILROOM_SUBMISSIONS", expect: "certificate" },
  { id: "imap", name: "IMAP for mail apps", variable: "MAILROOM_IMAP", expect: "line" },
  { id: "imaps", name: "IMAP for mail apps, over TLS", variable: "MAILROOM_IMAPS", expect: "certificate" },
] as const;

/** The address for clients on this machine; undefined for a listener that is off or has a random port. */
function reachedAt(listen: Listen): { host: string; port: number } | undefined {
  if (listen === "off" || listen.port === 0) return undefined;
  const host = listen.host === "0.0.0.0" ? "127.0.0.1" : listen.host === "::" ? "::1" : listen.host;
  return { host, port: listen.port };
}

export const checkListeners: Check = async (world) => {
  if (world.serving) return (await Promise.all(LISTENERS.map((listener) => look(world, listener)))).flat();
  const detail = "no server runs on the data folder";
  return [
    {
      id: "server",
      name: "Server",
      state: "warning",
      detail,
      todo: "Start it: systemctl start mailroom, or mailroom serve.",
    },
  ];
};

async function look({ config, system }: World, listener: (typeof LISTENERS)[number]): Promise<Finding[]> {
  const { id, variable, expect } = listener;
  const at = reachedAt(config[id]);
  if (!at) return [];
  const base = { id: `listener:${id}`, name: listener.name };
  const where = `${at.host}:${at.port}`;
  try {
    const { line = "220" } = await system.greet(at.host, at.port, expect);
    if (/^(?:220|\* OK)/.test(line)) return [{ ...base, state: "ok", detail: `it answers at ${where}` }];
    return [{ ...base, state: "bad", detail: `it says ${line}`, todo: "Look into the server's log." }];
  } catch (error) {
    const detail = `nothing answers at ${where}: ${error instanceof Error ? error.message : error}`;
    const todo = `See that ${variable} is the same for the server as for this command, and look into the server's log: journalctl -u mailroom`;
    return [{ ...base, state: "bad", detail, todo }];
  }
}

/* The certificate that clients see: its names, its issuer and its end. */

const DAY_MS = 86_400_000;
/** Renewal comes a third of a certificate's life before its end: with so few days left, it has failed. */
const LATE_DAYS = 10;
const LAST_DAYS = 3;

export const checkCertificate: Check = async (world) => {
  const { config, system, serving } = world;
  const at = reachedAt(config.https) ?? reachedAt(config.submissions) ?? reachedAt(config.imaps);
  if (!serving || !at) return [];
  const base = { id: "certificate", name: "Certificate" };
  try {
    const { certificate } = await system.greet(at.host, at.port, "certificate");
    if (certificate === undefined) return [{ ...base, state: "unknown", detail: "none was shown" }];
    const own = await describeCertificate(world, new X509Certificate(certificate));
    return [{ ...base, ...own }, ...(await describeDomains(world))];
  } catch (error) {
    // checkListeners reports a listener that does not answer.
    return [{ ...base, state: "unknown", detail: error instanceof Error ? error.message : String(error) }];
  }
};

type Acme = Extract<TlsMode, { mode: "acme" }>;
type CertificateFinding = Omit<Finding, "id" | "name">;

async function describeCertificate(
  { config, runtime }: World,
  certificate: X509Certificate,
): Promise<CertificateFinding> {
  const days = Math.floor((certificate.validToDate.getTime() - runtime.now()) / DAY_MS);
  const renew =
    config.tls.mode === "acme"
      ? `See in the server's log why it is not renewed (journalctl -u mailroom | grep -i certificate). ${describeChallengeNeed({ challenge: config.tls.challenge, host: config.hostname })} To try it now: mailroom certificates renew.`
      : config.tls.mode === "files"
        ? `Put a newer one into ${config.tls.cert}: it is taken up by itself.`
        : "Restart the server: it makes a newer one.";
  const until = certificate.validToDate.toISOString().slice(0, 10);
  if (days < LAST_DAYS) return { state: "bad", detail: `it is good until ${until} only`, todo: renew };
  if (!isCertificateForHost(certificate, config.hostname)) {
    const todo = `Get one that names ${config.hostname}, or change MAILROOM_HOSTNAME.`;
    return { state: "bad", detail: `it is not for ${config.hostname}`, todo };
  }
  if (config.tls.mode === "acme") {
    const trouble = await authorityTrouble(config, config.tls, certificate);
    if (trouble) return trouble;
  }
  if (days < LATE_DAYS) return { state: "warning", detail: `it is good until ${until}`, todo: renew };
  if (config.tls.mode === "self-signed") {
    const todo =
      "Set MAILROOM_TLS=acme for one that browsers and mail apps trust, or files:CERT,KEY for one of your own.";
    return { state: "warning", detail: "it is self-signed: browsers and mail apps warn of it", todo };
  }
  return { state: "ok", detail: `it is good until ${until}` };
}

/** Why the authority has not issued a certificate, or a renewed one; undefined without trouble. */
async function authorityTrouble(
  { data, hostname }: Config,
  acme: Acme,
  certificate: X509Certificate,
): Promise<CertificateFinding | undefined> {
  const isOurs = certificate.verify(certificate.publicKey);
  const { trouble } = (await readAcme(data)).own;
  if (!trouble) {
    const todo = "Look again in some minutes.";
    return isOurs ? { state: "warning", detail: "the authority has not issued one yet", todo } : undefined;
  }
  return {
    state: isOurs ? "bad" : "warning",
    detail: `the authority issued ${isOurs ? "none" : "no newer one"}: ${trouble.reason}`,
    todo: `${adviceOnCertificateTrouble(trouble, { ...acme, host: hostname })} ${nextAttempt(trouble, "mailroom certificates renew")}`,
  };
}

/** `command`: what tries at once. */
function nextAttempt({ retryAt, type }: Trouble, command: string): string {
  const at = `It is tried again by itself, next at ${toIsoTime(retryAt).slice(0, 16).replace("T", " ")} UTC`;
  return type === "rateLimited" ? `${at}.` : `${at}, and at once by ${command}.`;
}

/** Most domains whose certificates are described one by one: people of tenants choose how many fail. */
const MOST_DESCRIBED = 20;

/**
 * The certificates of domains that fail or are not renewed. They are warnings: mail is taken without them, and DNS of a
 * tenant is not the operator's to mend.
 */
async function describeDomains({ config: { data, tls }, runtime }: World): Promise<Finding[]> {
  if (tls.mode !== "acme") return [];
  const late = runtime.now() + LATE_DAYS * DAY_MS;
  const wrong = (await readAcme(data)).domains
    .filter(({ until, trouble }) => trouble || (until !== undefined && until < late))
    // Those that serve somebody first.
    .sort((a, b) => (a.until ?? Number.MAX_VALUE) - (b.until ?? Number.MAX_VALUE));
  const described = wrong.slice(0, MOST_DESCRIBED).map(({ domain, until, trouble }): Finding => {
    const has = until === undefined ? "its hosts have none" : `it is good until ${toIsoTime(until).slice(0, 10)}`;
    return {
      id: `certificate:${domain}`,
      name: `Certificate of ${domain}`,
      state: "warning",
      detail: trouble ? `${has}; the authority issued no newer one: ${trouble.reason}` : `${has}, and was not renewed`,
      todo: trouble
        ? `${adviceOnCertificateTrouble(trouble, { ...tls, host: `mta-sts.${domain}` })} ${nextAttempt(trouble, `mailroom certificates renew --domain ${domain}`)}`
        : `See that its hosts, such as mta-sts.${domain}, still lead to this server; if not, nobody needs it.`,
    };
  });
  const others = wrong.length - described.length;
  if (others === 0) return described;
  const detail = `those of ${others} more domains fail, or end soon`;
  const todo = "See in the server's log why: journalctl -u mailroom | grep -i certificate";
  return [...described, { id: "certificate:others", name: "Certificates of domains", state: "warning", detail, todo }];
}

/*
 * Forward-confirmed reverse DNS: the server's name and its addresses lead to each other. Many servers refuse mail
 * without it, and mail from an address on a blocklist.
 */

/** Blocklists that many servers use; the check adds those of the setting mx.dnsbl. */
const WELL_KNOWN = ["zen.spamhaus.org", "bl.spamcop.net"];

/** The addresses of a name; undefined when DNS does not answer. */
async function findHostAddresses({ runtime: { dns }, config }: World): Promise<string[] | undefined> {
  const name = config.hostname;
  const answers = await Promise.all([dns.ask(name, "A"), dns.ask(name, "AAAA")]).catch(() => undefined);
  return answers?.flatMap(({ records }) => records).flatMap((address) => canonicalIpAddress(address) ?? []);
}

export const checkReverseDns: Check = async (world) => {
  const { hostname } = world.config;
  const base = { id: "hostname", name: "Server name" } as const;
  const addresses = await findHostAddresses(world);
  if (addresses === undefined) return [{ ...base, state: "unknown", detail: `DNS does not answer for ${hostname}` }];
  if (addresses.length === 0) {
    const todo = `Publish an A record (and AAAA, if the machine has IPv6) for ${hostname} with the address of this machine, or name another server in MAILROOM_HOSTNAME.`;
    return [{ ...base, state: "bad", detail: `${hostname} has no address`, todo }];
  }
  const found = await Promise.all(
    addresses.map(async (address) => [await pointsBack(world, address), await isListed(world, address)]),
  );
  return [{ ...base, ...(await describeServerName(world, addresses)) }, ...found.flat()];
};

async function pointsBack({ runtime: { dns }, config: { hostname } }: World, address: string): Promise<Finding> {
  const base = { id: `ptr:${address}`, name: `Reverse DNS of ${address}` };
  const todo = `Have the provider of the address set its reverse DNS (PTR) to ${hostname}: many servers refuse mail without it.`;
  const zone = address.includes(":") ? "ip6.arpa" : "in-addr.arpa";
  try {
    const { records: names } = await dns.ask(`${reversedAddress(address)}.${zone}`, "PTR");
    if (names.length === 0) return { ...base, state: "bad", detail: "there is none", todo };
    if (names.includes(hostname.toLowerCase())) return { ...base, state: "ok", detail: `it is ${hostname}` };
    return { ...base, state: "bad", detail: `it is ${names.join(", ")}, not ${hostname}`, todo };
  } catch {
    return { ...base, state: "unknown", detail: "DNS does not answer" };
  }
}

async function isListed({ runtime, options }: World, address: string): Promise<Finding> {
  const base = { id: `dnsbl:${address}`, name: `Blocklists of ${address}` };
  const own = options.get("mx.dnsbl");
  const zones = [...new Set([...WELL_KNOWN, ...(own === "none" ? [] : own)])];
  let silent = 0;
  const log = { debug() {}, info() {}, error() {}, warn: () => void silent++, child: () => log };
  const listing = await createBlocklists({ runtime, log }, createDnsCache(runtime)).find(address, zones);
  if (listing) {
    const why = listing.reason === undefined ? "" : ` (${listing.reason})`;
    const todo = `Find out what was sent from the address (mailroom queue list, and the server's log), end it, and then ask ${listing.zone} to remove it.`;
    return { ...base, state: "bad", detail: `${listing.zone} lists it${why}`, todo };
  }
  const asked = zones.length - silent;
  return asked > 0
    ? { ...base, state: "ok", detail: `none of ${asked} lists has it` }
    : { ...base, state: "unknown", detail: "no list answers; those of Spamhaus answer no public resolver" };
}
