/** Advises on an authority that issued no certificate, by the kind of its refusal (RFC 8555 §6.7, RFC 8659). */
import type { ChallengeMode } from "../config.ts";
import type { Trouble } from "./source.ts";

/** A request for a certificate: to which authority, with which challenge, and for which name. */
export interface Asking {
  /** URL of the authority. */
  directory: string;
  challenge: ChallengeMode;
  /** A name of the certificate. */
  host: string;
}

const LETS_ENCRYPT = /\.letsencrypt\.org$/;

/** Sentences for the operator. */
export function adviceOnCertificateTrouble({ type }: Pick<Trouble, "type">, asking: Asking): string {
  const { directory, challenge, host } = asking;
  switch (type) {
    case "rateLimited":
      return "Wait: nothing here can be mended, and whatever is asked sooner counts against the limit of the authority, too.";
    case "dns":
      return challenge.type === "dns-hook"
        ? describeChallengeNeed(asking)
        : `Publish an A record (and AAAA, if the machine has IPv6) of ${host} that leads to this machine, and see that every name server of the domain answers for it, with valid DNSSEC if it is signed.`;
    case "connection":
      return `Every A and AAAA record of ${host} must lead to this machine. ${describeChallengeNeed(asking)}`;
    case "unauthorized":
    case "incorrectResponse":
      return challenge.type === "dns-hook"
        ? describeChallengeNeed(asking)
        : `Something else answers in place of this server: every A and AAAA record of ${host} must lead to this machine, and no other web server or proxy may answer first. ${describeChallengeNeed(asking)}`;
    case "caa":
      return `A CAA record of ${host}, or of a domain above it, allows other authorities only: remove it, or add one with ${caaRecordValue(directory)}.`;
    case "rejectedIdentifier":
      return `The authority's policy rules this name out: choose another name (MAILROOM_HOSTNAME, MAILROOM_BASE_URL), or another authority (MAILROOM_ACME_DIRECTORY).`;
    case "invalidContact":
    case "unsupportedContact":
      return "Name an e-mail address in MAILROOM_ACME_EMAIL that the authority takes, or none, and restart the server.";
    case "externalAccountRequired":
      return "This authority takes only accounts that were made at its web site, which Mailroom has no use for: name another in MAILROOM_ACME_DIRECTORY.";
    case "away":
    case "serverInternal":
      return `See that this machine reaches ${directory} (DNS, a firewall, MAILROOM_ACME_DIRECTORY). If it does, the authority itself is down.`;
    case "clock":
      return "Set the clock right: timedatectl set-ntp true.";
    default:
      return describeChallengeNeed(asking);
  }
}

/** The value of the record that allows an authority. */
function caaRecordValue(directory: string): string {
  const host = URL.parse(directory)?.hostname ?? directory;
  return LETS_ENCRYPT.test(host)
    ? '0 issue "letsencrypt.org"'
    : `0 issue and the domain that the maker of ${host} names`;
}

/** The precondition of the challenge, for the operator. */
export function describeChallengeNeed({ challenge, host }: Pick<Asking, "challenge" | "host">): string {
  if (challenge.type === "http") {
    return `Port 80 of ${host} must lead to MAILROOM_HTTP from everywhere; where it cannot, MAILROOM_ACME_CHALLENGE=tls-alpn needs port 443 alone.`;
  }
  if (challenge.type === "tls-alpn") {
    return `Port 443 of ${host} must lead to MAILROOM_HTTPS from everywhere, with no proxy that ends TLS on the way.`;
  }
  const record = `_acme-challenge.${host}`;
  return `${challenge.program} must publish ${record} (TXT) within minutes; run it by hand as the service's user: present ${record}. test`;
}
