/**
 * Finds the source that a request counts against, from the address it came from (rules: Request rates).
 *
 * Invariant: X-Forwarded-For is believed only as far as trusted proxies wrote it. What a client puts there itself never
 * changes what it counts as.
 */
import { canonicalAddress, networkList, sourceOfAddress } from "../net/ip.ts";

/** What a hop of X-Forwarded-For names: an address, perhaps in brackets, perhaps with a port. */
function addressOfHop(hop: string): string | undefined {
  const match = /^\s*(?:\[([^\]]+)\](?::\d+)?|([\d.]+):\d+|(\S+))\s*$/.exec(hop);
  return match ? canonicalAddress(match[1] ?? match[2] ?? match[3] ?? "") : undefined;
}

/**
 * Reads the source of a request: an IPv4 address, or the /64 of an IPv6 one. `peer` is the address the connection came
 * from, undefined when the system does not tell it. Behind trusted proxies it is the right-most hop that is none.
 */
export function createSourceReader(
  trustedProxies: readonly string[],
): (peer: string | undefined, forwardedFor: string | null) => string {
  const isTrusted = networkList(trustedProxies);

  return (peer, forwardedFor) => {
    let address = canonicalAddress(peer ?? "");
    const hops = forwardedFor?.split(",") ?? [];
    while (address !== undefined && hops.length > 0 && isTrusted(address)) {
      const nearer = addressOfHop(hops.pop() ?? "");
      if (nearer === undefined) break;
      address = nearer;
    }
    return sourceOfAddress(address);
  };
}
