/**
 * Requests that no other site can have made a browser send (CSRF). The cookie is SameSite=Strict already; this also closes
 * the other hosts of our own site, and browsers and settings under which that attribute means less.
 *
 * Invariant: what changes anything says where it comes from, in Origin or Sec-Fetch-Site, and it is here.
 */
import { AppError } from "../base/errors.ts";

/** `baseUrl`: the public origin, which a proxy may serve under another Host. The check throws AppError forbidden. */
export function createSameOriginCheck(baseUrl: string): (request: Request) => void {
  const publicOrigin = new URL(baseUrl).origin;

  function isOurs(origin: string, host: string | null): boolean {
    if (origin === publicOrigin) return true;
    return URL.canParse(origin) && host !== null && new URL(origin).host === host.toLowerCase();
  }

  return ({ method, headers }) => {
    const site = headers.get("sec-fetch-site");
    const origin = headers.get("origin");
    const foreign =
      (site !== null && site !== "same-origin" && site !== "none") ||
      (origin !== null && !isOurs(origin, headers.get("host")));
    const silent = method !== "GET" && method !== "HEAD" && site === null && origin === null;
    if (foreign || silent) {
      throw new AppError("forbidden", "Only pages of this server may ask this: open the app itself");
    }
  };
}
