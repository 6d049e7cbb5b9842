/**
 * Destinations that strangers choose: those of URLs (webhooks, images in mail), whose hosts are resolved here, and
 * addresses of mail servers. Callers connect only to the addresses that were checked.
 *
 * Only public unicast addresses pass. Everything in IANA's special-purpose registries (RFC 6890) is refused, even the
 * few blocks that are routed, since no receiver is there; so is IPv6 outside 2000::/3, the only part that IANA has
 * assigned. Spelling does not matter: the URL parser turns decimal, octal and hexadecimal IPv4, escapes and full-width
 * digits into the address that they connect to.
 *
 * What this machine has at its own public addresses may be meant for itself alone, and no firewall stands between the two.
 *
 * Invariant: an address that resolveDestination gives is public or lies in an excepted network, and belongs to no
 * metadata service; one of this machine that is not excepted has a port of the web.
 */
import { isIP } from "node:net";
import { AppError } from "../base/errors.ts";
import type { Runtime } from "../base/runtime.ts";
import { isLoopbackName, lookUpAddresses } from "./host-addresses.ts";
import { canonicalIpAddress, createNetworkMatcher, isThisMachineAddress } from "./ip.ts";

/** The server never connects to this URL; a retry changes nothing. */
export class RefusedDestination extends AppError {
  /** Listing its network among the excepted ones would let it pass. */
  readonly isExceptable: boolean;

  constructor(message: string, isExceptable = false) {
    super("unprocessable", message);
    this.isExceptable = isExceptable;
  }
}

/** A URL that passed every check that needs no DNS. */
export interface Destination {
  readonly protocol: "http:" | "https:";
  /** A name in A-labels without a final dot, or an IP address without brackets. */
  readonly host: string;
  readonly port: number;
  /** For the Host field: brackets, and the port where it is not the scheme's own. */
  readonly authority: string;
  /** Path and query. */
  readonly path: string;
}

const LONGEST_URL = 2048;
/** Ports on which this machine's own servers are for everybody. */
const WEB_PORTS = new Set([80, 443]);

/**
 * Reads a URL and drops its fragment. `allow`: networks (CIDRs) whose special addresses pass, and local names that lead
 * into them.
 * @throws RefusedDestination that says what is wrong
 */
export function readDestination(text: string, allow: readonly string[]): Destination {
  if (text.length > LONGEST_URL) throw new RefusedDestination(`the URL is longer than ${LONGEST_URL} characters`);
  const url = URL.parse(text);
  if (url === null) throw new RefusedDestination("this is not a URL, such as https://example.com/hook");
  const { protocol } = url;
  if (protocol !== "https:" && protocol !== "http:") {
    throw new RefusedDestination("the URL has to begin with https:// or http://");
  }
  if (url.username !== "" || url.password !== "") {
    throw new RefusedDestination("the URL must not carry a user name or password");
  }
  const port = Number(url.port || (protocol === "https:" ? 443 : 80));
  if (BAD_PORTS.has(port)) throw new RefusedDestination(`port ${port} belongs to another protocol than HTTP`);

  const name = url.hostname.replace(/\.$/, "");
  const host = name.replace(/^\[|\]$/g, "");
  if (isIP(host)) checkAddress(host, port, allow, `${host} is`);
  else checkName(host, allow);
  return { protocol, host, port, authority: url.host.replace(url.hostname, name), path: url.pathname + url.search };
}

/**
 * The host's present addresses, each checked, IPv4 first. One special address refuses them all: a name that leads to
 * public and private addresses earns trust for neither.
 * @throws RefusedDestination, which does not reveal a name's address; Error when DNS gives none, which may change
 */
export async function resolveDestination(
  { host, port }: Destination,
  {
    dns,
    allow,
  }: {
    dns: Runtime["dns"];
    /** Excepted networks, as readDestination takes them. */
    allow: readonly string[];
  },
): Promise<string[]> {
  if (isIP(host)) return [checkAddress(host, port, allow, `${host} is`)];
  const isAllowed = createNetworkMatcher(allow);
  const reason = checkName(host, allow);
  const named = await lookUp(host, dns);
  const found = isLoopbackName(host) ? named.filter(isAllowed) : named;
  const addresses = found.map((address) => checkAddress(address, port, allow, `${host} leads to`));
  if (reason && !(addresses.length > 0 && addresses.every(isAllowed))) throw refusal(`${host} is`, reason);
  return addresses;
}

const refusal = (subject: string, reason: string): RefusedDestination =>
  new RefusedDestination(`${subject} ${reason}, and only public addresses are connected to`, reason !== METADATA);

/** The address in its canonical spelling. @throws RefusedDestination */
function checkAddress(text: string, port: number, allow: readonly string[], subject: string): string {
  const fault = whyAddressIsRefused(text, allow);
  if (fault !== undefined) throw refusal(subject, fault);
  const address = canonicalIpAddress(text) as string;
  if (!WEB_PORTS.has(port) && !createNetworkMatcher(allow)(address) && isThisMachineAddress(address)) {
    throw new RefusedDestination(`${subject} an address of this machine, where only ports 80 and 443 are asked`, true);
  }
  return address;
}

/**
 * Why the server does not connect to an address, such as "a private address"; undefined when it does. `allow`: as for
 * readDestination.
 */
export function whyAddressIsRefused(text: string, allow: readonly string[]): string | undefined {
  const address = canonicalIpAddress(text);
  if (address === undefined) return "no IP address";
  const isAllowed = createNetworkMatcher(allow);
  return specialAddress(address, isAllowed) ?? mappedAddress(text, address, isAllowed);
}

/** Why an address is special; undefined for one that the server may connect to. */
function specialAddress(address: string, isAllowed: (address: string) => boolean): string | undefined {
  const embedded = behindNat64(address);
  if (isMetadata(embedded ?? address)) return METADATA;
  if (isAllowed(address)) return undefined;
  if (embedded !== undefined) return specialAddress(embedded, isAllowed);
  if (isSpecial(address)) return BLOCKS.find(({ contains }) => contains(address))?.reason;
  return address.includes(":") && !isGlobalUnicast(address) ? "outside the public IPv6 addresses" : undefined;
}

/** The IPv4 address behind one with NAT64's well-known prefix: the last 32 bits (RFC 6052 §2.1). */
function behindNat64(address: string): string | undefined {
  const low = /^64:ff9b:0:0:0:0:(.+)$/.exec(address)?.[1];
  return low === undefined ? undefined : canonicalIpAddress(`::ffff:${low}`);
}

/** IPv4-mapped IPv6 addresses (RFC 4291 §2.5.5.2) are for programming interfaces and name no host on the network. */
function mappedAddress(text: string, address: string, isAllowed: (address: string) => boolean): string | undefined {
  return text.includes(":") && !address.includes(":") && !isAllowed(address) ? "an IPv4-mapped address" : undefined;
}

/**
 * Why the name itself shows that it is local; undefined for other names. With excepted networks, its addresses decide.
 * @throws RefusedDestination for an invalid name, for a metadata service's, and for a local one without excepted
 * networks
 */
function checkName(host: string, allow: readonly string[]): string | undefined {
  const labels = host.split(".");
  if (host.length > 253 || !labels.every((label) => /^[a-z0-9_-]{1,63}$/.test(label))) {
    throw new RefusedDestination(`${host} is not a host name`);
  }
  if (METADATA_NAMES.has(host)) throw refusal(`${host} is`, METADATA);
  const reason =
    labels.length === 1 || LOCAL_ZONES.some((zone) => host.endsWith(`.${zone}`))
      ? "a name of the local network or machine"
      : undefined;
  if (reason && allow.length === 0) throw refusal(`${host} is`, reason);
  return reason;
}

/** @throws Error when there is no address */
async function lookUp(host: string, dns: Runtime["dns"]): Promise<string[]> {
  const addresses = await lookUpAddresses(host, dns).catch((error) => {
    throw new Error(`DNS gave no answer for ${host} (${error.code})`);
  });
  if (addresses.length === 0) throw new Error(`${host} has no address`);
  return addresses;
}

const METADATA = "a cloud metadata service";

/** The cloud providers' metadata services, some of them at public addresses; never excepted. */
const isMetadata = createNetworkMatcher([
  // AWS, Google, Azure, Oracle, DigitalOcean, Hetzner, OpenStack; credentials of AWS containers; Tencent, Scaleway
  "169.254.169.254",
  "169.254.170.2",
  "169.254.170.23",
  "169.254.0.23",
  "169.254.42.42",
  // Alibaba; Oracle; Azure's platform channel, which looks public
  "100.100.100.200",
  "192.0.0.192",
  "168.63.129.16",
  // AWS and its containers; Google; Scaleway
  "fd00:ec2::254",
  "fd00:ec2::23",
  "fd20:ce::254",
  "fd00:42::42",
]);

const METADATA_NAMES = new Set([
  "metadata",
  "metadata.google.internal",
  "metadata.goog",
  "instance-data",
  "instance-data.ec2.internal",
  "metadata.azure.internal",
  "metadata.tencentyun.com",
]);

/** RFC 6761, RFC 6762, RFC 8375, ICANN's .internal; and zones that home routers and hosts files invent. */
const LOCAL_ZONES = ["localhost", "local", "internal", "home.arpa", "localdomain", "lan", "intranet", "corp", "home"];

const isGlobalUnicast = createNetworkMatcher(["2000::/3"]);

/** IANA's IPv4 and IPv6 Special-Purpose Address Registries, and multicast; the first match names the reason. */
const SPECIAL = {
  "the unspecified address": ["0.0.0.0/32", "::/128"],
  "a loopback address": ["127.0.0.0/8", "::1/128"],
  "a private address": ["10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"],
  "a unique-local address": ["fc00::/7"],
  "a link-local address": ["169.254.0.0/16", "fe80::/10"],
  "a site-local address": ["fec0::/10"],
  "a shared address behind a carrier's NAT": ["100.64.0.0/10"],
  "the broadcast address": ["255.255.255.255/32"],
  "a multicast address": ["224.0.0.0/4", "ff00::/8"],
  "an address for documentation": ["192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"],
  "an address for benchmarks": ["198.18.0.0/15", "2001:2::/48"],
  "a Teredo address": ["2001::/32"],
  "a 6to4 address": ["2002::/16", "192.88.99.0/24"],
  "an address of a local NAT64": ["64:ff9b:1::/48"],
  "an IPv4-compatible address": ["::/96"],
  "a reserved address": [
    "0.0.0.0/8",
    "192.0.0.0/24",
    "192.31.196.0/24",
    "192.52.193.0/24",
    "192.175.48.0/24",
    "240.0.0.0/4",
    "100::/64",
    "100:0:0:1::/64",
    "2001::/23",
    "2620:4f:8000::/48",
    "5f00::/16",
  ],
};

const isSpecial = createNetworkMatcher(Object.values(SPECIAL).flat());
const BLOCKS = Object.entries(SPECIAL).map(([reason, networks]) => ({
  reason,
  contains: createNetworkMatcher(networks),
}));

/** Ports of other protocols, whose servers might obey an HTTP request (WHATWG Fetch §2.9, port blocking). */
const BAD_PORTS = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
  540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
  6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
]);
