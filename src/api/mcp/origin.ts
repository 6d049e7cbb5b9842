/**
 * Which requests may have been meant for this server (MCP: Streamable HTTP, Security Warning). A page in a browser can
 * make it send requests here under a name that its owner lets point at this machine (DNS rebinding); such a request
 * carries that name as its Host, or the page's own Origin.
 *
 * Invariant: programs, which send no Origin, are held to the Host alone; an address in numbers needs no name, so nobody
 * can have rebound it.
 */
import { isIP } from "node:net";
import { AppError } from "../../base/errors.ts";

/** As URL writes them. */
const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

const urlOf = (text: string): URL | undefined => (URL.canParse(text) ? new URL(text) : undefined);

const isAddress = (hostname: string): boolean => isIP(hostname.replace(/^\[(.*)\]$/, "$1")) !== 0;

/** `baseUrl`: the public origin. The check throws AppError forbidden. */
export function createOriginCheck(baseUrl: string): (headers: Headers) => void {
  const base = new URL(baseUrl);

  function isOurHost(host: string): boolean {
    const hostname = urlOf(`http://${host}`)?.hostname;
    if (hostname === undefined) return false;
    return hostname === base.hostname || LOOPBACK.has(hostname) || isAddress(hostname);
  }

  function isOurOrigin(origin: string): boolean {
    const url = urlOf(origin);
    return url !== undefined && (url.origin === base.origin || LOOPBACK.has(url.hostname));
  }

  /** The last host that was right: nearly every request has the same. */
  let known: string | null = null;

  return (headers) => {
    const host = headers.get("host");
    // HTTP/1.0 has none; no browser speaks it.
    if (host !== known && host !== null && !isOurHost(host)) {
      throw new AppError("forbidden", `This server is not ${host}: use ${base.origin}, or set MAILROOM_BASE_URL`);
    }
    known = host;
    const origin = headers.get("origin");
    if (origin !== null && !isOurOrigin(origin)) {
      throw new AppError("forbidden", "Requests from pages of this Origin are refused");
    }
  };
}
