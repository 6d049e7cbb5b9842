/**
 * Whom a request counts against: the address it came from, in one spelling for each source (contract: Rate headers).
 *
 * Invariant: X-Forwarded-For is believed only as far as trusted proxies wrote it. What a client puts there itself never
 * changes what it counts as.
 */
import { BlockList, isIP } from "node:net";

/** The eight 16-bit groups of a valid IPv6 address. */
function groupsOf(ip: string): number[] {
  const bytes = /^(.*:)(\d+)\.(\d+)\.(\d+)\.(\d+)$/.exec(ip);
  const hex = (high: string | undefined, low: string | undefined) => (Number(high) * 256 + Number(low)).toString(16);
  const text = bytes ? `${bytes[1]}${hex(bytes[2], bytes[3])}:${hex(bytes[4], bytes[5])}` : ip;
  const [head = "", tail] = text.split("::");
  const parse = (part: string): number[] =>
    part === "" ? [] : part.split(":").map((group) => Number.parseInt(group, 16));
  const [before, after] = [parse(head), parse(tail ?? "")];
  return [...before, ...new Array<number>(8 - before.length - after.length).fill(0), ...after];
}

/** The address in one spelling, an IPv4 one mapped into IPv6 as IPv4; undefined when it is none. */
function canonicalAddress(text: string): string | undefined {
  const ip = text.replace(/%.*$/, "");
  const version = isIP(ip);
  if (version === 4) return ip;
  if (version === 0) return undefined;
  const groups = groupsOf(ip);
  if (groups.slice(0, 5).every((group) => group === 0) && groups[5] === 0xffff) {
    return groups
      .slice(6)
      .flatMap((group) => [group >> 8, group & 255])
      .join(".");
  }
  return groups.map((group) => group.toString(16)).join(":");
}

/** What a hop of X-Forwarded-For names: an address, perhaps in brackets, perhaps with a port. */
function addressOfHop(hop: string): string | undefined {
  const match = /^\s*(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+|(\S+))\s*$/.exec(hop);
  return match ? canonicalAddress(match[1] ?? match[2] ?? match[3] ?? "") : undefined;
}

const familyOf = (address: string) => (address.includes(":") ? "ipv6" : "ipv4");

function trustedList(cidrs: readonly string[]): BlockList {
  const list = new BlockList();
  for (const cidr of cidrs) {
    const [network = "", bits] = cidr.split("/");
    const family = familyOf(network);
    list.addSubnet(network, bits === undefined ? (family === "ipv6" ? 128 : 32) : Number(bits), family);
  }
  return list;
}

/**
 * Reads the source of a request: an IPv4 address, or the /64 of an IPv6 one. `peer` is the address the connection came
 * from, undefined when the system does not tell it. Behind trusted proxies it is the right-most hop that is none.
 */
export function createSourceReader(
  trustedProxies: readonly string[],
): (peer: string | undefined, forwardedFor: string | null) => string {
  const trusted = trustedList(trustedProxies);

  return (peer, forwardedFor) => {
    let address = canonicalAddress(peer ?? "");
    const hops = forwardedFor?.split(",") ?? [];
    while (address !== undefined && hops.length > 0 && trusted.check(address, familyOf(address))) {
      const nearer = addressOfHop(hops.pop() ?? "");
      if (nearer === undefined) break;
      address = nearer;
    }
    if (address === undefined) return "unknown";
    return address.includes(":") ? `${address.split(":").slice(0, 4).join(":")}::/64` : address;
  };
}
