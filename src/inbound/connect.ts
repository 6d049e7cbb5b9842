/**
 * Admission of connections and of transactions (MAIL) at the MX listener. A source and its network may open only so many of
 * either, and the address is looked up in the blocklists. Networks that the operator trusts are admitted without these checks,
 * here and at RCPT.
 *
 * Every refusal of the MX listener for policy is 4yz, so that an honest server delivers later; the exception is a listed
 * address, which the operator asked to refuse. The listener refuses nobody for the name in HELO (RFC 5321 §4.1.4), and an
 * address of ours in MAIL earns no trust: only authentication shows the sender of a message.
 *
 * Invariant: the number of sources that are remembered is bounded.
 */
import { createRateLimit } from "../access/rate.ts";
import type { MailboxRoute } from "../mailbox/state/addresses.ts";
import type { DnsCache } from "../net/dns-cache.ts";
import { canonicalIpAddress, createNetworkMatcher, ipAddressNetwork, ipAddressSource } from "../net/ip.ts";
import type { Returned } from "../outbound/queue.ts";
import { Refusal } from "../smtp/refusal.ts";
import type { Core } from "../store/core.ts";
import { createBlocklists, type Listing } from "./dnsbl.ts";

/** A server that sends mail here, for one connection. */
export interface Peer {
  isTrusted: boolean;
  /** IP address; undefined when the operating system does not tell it. */
  address: string | undefined;
  source: string;
  network: string;
  /** The blocklist that lists it. The look-up begins at once, so that its result is there when RCPT needs it. */
  listing: Promise<Listing | undefined>;
  /** Unknown recipients that it has named since its last message. */
  unknownRecipients: number;
}

/** A recipient that RCPT admitted. It has a route, or is the return path of a message. */
export interface Admitted {
  /** Address as in RCPT TO. */
  address: string;
  route?: MailboxRoute;
  /** The message that we sent with this address as its reverse-path. */
  sent?: Returned;
}

/** One message, from MAIL to DATA. */
export interface Transaction {
  /** Empty for mail that asks for no automatic answer (RFC 5321 §4.5.5). */
  reversePath: string;
  /** Recipients that RCPT admitted, by their spelling there. */
  admitted: Map<string, Admitted>;
}

const MINUTE_MS = 60_000;
const HOUR_MS = 60 * MINUTE_MS;
/** A network is many sources: it may do this many times as much as one of them. */
const SHARE_OF_NETWORK = 4;
/** An hour allows as much as this many minutes at full rate. */
const MINUTES_AT_FULL_RATE = 20;
/** Sources counted by one rate; there are ten rates, of about 2 MB each. */
const SOURCES_COUNTED = 10_000;

export function createMxAdmission(core: Core, names: DnsCache) {
  const { options } = core;
  const blocklists = createBlocklists(core, names);
  const mayConnect = createPeerRateLimit(core, "mx.connectionsPerMinute", "minute");
  const mayStart = createPeerRateLimit(core, "mx.messagesPerMinute", "minute", "hour");

  function isTrusted(address: string | undefined): boolean {
    const networks = options.get("mx.trustedNetworks");
    return address !== undefined && networks !== "none" && createNetworkMatcher(networks)(address);
  }

  async function findListing(address: string | undefined): Promise<Listing | undefined> {
    const zones = options.get("mx.dnsbl");
    return address === undefined || zones === "none" ? undefined : blocklists.find(address, zones);
  }

  return {
    /** Tells whether `ip` is in one of the networks that the operator trusts. */
    isTrusted: (ip: string): boolean => isTrusted(canonicalIpAddress(ip)),
    /** @throws Refusal tooManyConnections */
    connect(ip: string): Peer {
      const address = canonicalIpAddress(ip);
      const origin = { address, source: ipAddressSource(address), network: ipAddressNetwork(address) };
      const fresh = { ...origin, unknownRecipients: 0 };
      if (isTrusted(address)) return { ...fresh, isTrusted: true, listing: Promise.resolve(undefined) };
      if (!mayConnect(origin)) throw new Refusal("tooManyConnections");
      return { ...fresh, isTrusted: false, listing: findListing(address) };
    },
    /** @throws Refusal tooMuchMail */
    startMail(peer: Peer, reversePath: string): Transaction {
      if (!peer.isTrusted && !mayStart(peer)) throw new Refusal("tooMuchMail");
      return { reversePath, admitted: new Map() };
    },
  };
}

/**
 * Makes a rate limit of sources and their networks, over each of `spans`. `perMinute`: the setting of the limit. The function that it returns counts one more for a
 * peer, and returns false when the peer's source or network has used up any of the limits.
 */
export function createPeerRateLimit(
  { options, now }: Core,
  perMinute: "mx.connectionsPerMinute" | "mx.messagesPerMinute" | "mx.recipientsPerMinute",
  ...spans: ("minute" | "hour")[]
): (peer: Pick<Peer, "source" | "network">) => boolean {
  const rates = spans.flatMap((span) => {
    const [windowMs, minutes] = span === "minute" ? [MINUTE_MS, 1] : [HOUR_MS, MINUTES_AT_FULL_RATE];
    const rate = (share: number) =>
      createRateLimit(
        () => options.get(perMinute) * minutes * share,
        () => 0,
        SOURCES_COUNTED,
        windowMs,
      );
    return [
      { rate: rate(1), of: "source" as const },
      { rate: rate(SHARE_OF_NETWORK), of: "network" as const },
    ];
  });
  return (peer) => rates.every(({ rate, of }) => !rate.take(peer[of], now()).retryAfter);
}
