/**
 * IP addresses: their canonical spelling, the source that limits count a connection against, lists of networks, free
 * ports.
 */
import { BlockList, createServer, isIP } from "node:net";
import { networkInterfaces } from "node:os";

/** The eight 16-bit groups of a valid IPv6 address. */
function parseIpv6Groups(ip: string): number[] {
  const bytes = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(ip);
  const hex = (high: string | undefined, low: string | undefined) => (Number(high) * 256 + Number(low)).toString(16);
  const text = bytes ? `${bytes[1]}${hex(bytes[2], bytes[3])}:${hex(bytes[4], bytes[5])}` : ip;
  const [head = "", tail] = text.split("::");
  const parse = (part: string): number[] =>
    part === "" ? [] : part.split(":").map((group) => Number.parseInt(group, 16));
  const [before, after] = [parse(head), parse(tail ?? "")];
  return [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after];
}

/** The address in its canonical spelling, an IPv4-mapped IPv6 one as IPv4; undefined for any other text. */
export function canonicalIpAddress(text: string): string | undefined {
  const [ip = ""] = text.split("%", 1);
  const version = isIP(ip);
  if (version === 4) return ip;
  if (version === 0) return undefined;
  const groups = parseIpv6Groups(ip);
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    return groups
      .slice(6)
      .flatMap((group) => [group >> 8, group & 255])
      .join(".");
  }
  return groups.map((group) => group.toString(16)).join(":");
}

/**
 * The source that rates and limits count: an IPv4 address, or the /64 of an IPv6 one, since one customer has all of a
 * /64. `address` as canonicalIpAddress gives it; undefined when the system does not tell it.
 */
export function ipAddressSource(address: string | undefined): string {
  if (address === undefined) return "unknown";
  return address.includes(":") ? `${address.split(":").slice(0, 4).join(":")}::/64` : address;
}

/**
 * The network that an operator's sources usually share: the /24 of an IPv4 address, or the /48 of an IPv6 one, the
 * usual size of a site (RFC 6177 §2). `address` as for ipAddressSource.
 */
export function ipAddressNetwork(address: string | undefined): string {
  if (address === undefined) return "unknown";
  if (address.includes(":")) return `${address.split(":").slice(0, 3).join(":")}::/48`;
  return `${address.split(".").slice(0, 3).join(".")}.0/24`;
}

const addressFamilyName = (address: string) => (address.includes(":") ? "ipv6" : "ipv4");

const lists = new WeakMap<readonly string[], (address: string) => boolean>();

/**
 * Gives a test for addresses, as canonicalIpAddress gives them, that lie in one of these networks (CIDRs or single
 * addresses). The test is cached by array, which must not change.
 */
export function createNetworkMatcher(cidrs: readonly string[]): (address: string) => boolean {
  if (cidrs.length === 0) return () => false;
  const made = lists.get(cidrs);
  if (made) return made;
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [network = "", bits] = cidr.split("/");
    const family = addressFamilyName(network);
    list.addSubnet(network, bits === undefined ? (family === "ipv6" ? 128 : 32) : Number(bits), family);
  }
  const contains = (address: string) => list.check(address, addressFamilyName(address));
  lists.set(cidrs, contains);
  return contains;
}

/** A CIDR, or an address as one of its own, in canonical spelling; undefined for any other text. */
export function canonicalNetwork(text: string): string | undefined {
  const [, written = "", bits] = /^([0-9a-f.:]{2,45})(?:\/(\d{1,3}))?$/i.exec(text.trim()) ?? [];
  const network = canonicalIpAddress(written);
  if (network === undefined) return undefined;
  const longest = isIP(network) === 4 ? 32 : 128;
  // The bits of an IPv4-mapped network count from the front of the IPv6 one.
  const length = bits === undefined ? longest : Number(bits) - (isIP(written) === 6 ? 128 - longest : 0);
  return length < 0 || length > longest ? undefined : `${network}/${length}`;
}

/** True if the network `inner` lies in `outer`; both as canonicalNetwork gives them. */
export function networkContains(outer: string, inner: string): boolean {
  const [address = "", bits] = inner.split("/");
  return Number(outer.split("/")[1]) <= Number(bits) && createNetworkMatcher([outer])(address);
}

export const isLoopback = createNetworkMatcher(["127.0.0.0/8", "::1/128"]);

const isHost = createNetworkMatcher(["127.0.0.1", "::1"]);

/** True for the source, as ipAddressSource gives it, of 127.0.0.1 and ::1, where a proxy of one's own may stand. */
export const isLocalhostSource = (source: string): boolean =>
  source === "127.0.0.1" || source === ipAddressSource("0:0:0:0:0:0:0:1");

/**
 * True for a source that rules for strangers leave out: this host, where a proxy of one's own may stand before all
 * clients, and the networks for which `isTrusted` is true. Another loopback address is a stranger as any other.
 */
export const isOwnOrTrustedAddress = (address: string | undefined, isTrusted: boolean): boolean =>
  address !== undefined && (isHost(address) || (isTrusted && !isLoopback(address)));

/** True for a loopback address, also in brackets, and for `localhost` and the names below it (RFC 6761 §6.3). */
export function isLoopbackHost(host: string): boolean {
  const address = canonicalIpAddress(host.replace(/^\[|\]$/g, ""));
  return address === undefined ? /(^|\.)localhost$/i.test(host) : isLoopback(address);
}

/** True for the address, as canonicalIpAddress gives it, of one of this machine's network interfaces. */
export const isThisMachineAddress = (address: string): boolean =>
  Object.values(networkInterfaces()).some((interfaces = []) =>
    interfaces.some((one) => canonicalIpAddress(one.address) === address),
  );

/** A free port of 127.0.0.1. Another process may still bind it first. */
export const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
