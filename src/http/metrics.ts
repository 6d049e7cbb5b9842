/**
 * /metrics (rules: Metrics), for this machine and the networks of metrics.allowNetworks. Forwarded requests are refused:
 * the proxy's address does not tell who asks.
 */

import { CONTENT_TYPE, type Metrics } from "../base/metrics.ts";
import { canonicalAddress, networkList } from "../net/ip.ts";
import type { Options } from "../store/settings.ts";

export interface MetricsPageParts {
  metrics: Pick<Metrics, "expose">;
  options: Pick<Options, "get">;
}

/** `peer`: the address the connection came from, undefined when the system does not tell it. */
export type MetricsPage = (request: Request, peer: string | undefined) => Promise<Response>;

const LOOPBACK = networkList(["127.0.0.0/8", "::1/128"]);
const FORWARDED = ["x-forwarded-for", "forwarded"];

export function createMetricsPage({ metrics, options }: MetricsPageParts): MetricsPage {
  function mayRead(request: Request, peer: string | undefined): boolean {
    if (FORWARDED.some((name) => request.headers.has(name))) return false;
    const address = canonicalAddress(peer ?? "");
    if (address === undefined) return false;
    const networks = options.get("metrics.allowNetworks");
    return LOOPBACK(address) || (networks !== "none" && networkList(networks)(address));
  }

  return async (request, peer) =>
    mayRead(request, peer)
      ? new Response(await metrics.expose(), {
          headers: { "content-type": CONTENT_TYPE, "cache-control": "no-store", "x-content-type-options": "nosniff" },
        })
      : new Response("Metrics are for this machine and the networks of metrics.allowNetworks, without a proxy\n", {
          status: 403,
          headers: { "x-content-type-options": "nosniff" },
        });
}
