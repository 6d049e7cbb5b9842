/**
 * Admission of the app's requests (rules: Web): from this origin, and with a valid session.
 *
 * Requests that another site makes a browser send (CSRF) are refused. The cookie is SameSite=Strict already; the check
 * of the origin also covers other hosts of our own site, and browsers that treat the attribute loosely.
 *
 * Invariant: every request that changes something names its origin, in Origin or Sec-Fetch-Site, and it is ours.
 */
import { type BrowserSession, findSession, touchSession } from "../access/sessions.ts";
import { AppError } from "../base/errors.ts";
import type { Core } from "../store/core.ts";
import { requireWorkspaceServed } from "../store/unserved-workspaces.ts";
import type { SessionCookie } from "./session-cookie.ts";

/** @throws AppError forbidden, unauthorized; server_error 503 while the workspace moves to another server */
export function admitSession(core: Core, cookie: SessionCookie, request: Request): BrowserSession {
  requireSameOrigin(core, request);
  const token = cookie.read(request);
  const now = core.now();
  const session = token === undefined ? undefined : findSession(core.db, token, now);
  if (!session) throw new AppError("unauthorized", "Sign in to continue");
  requireWorkspaceServed(core.db, session.caller.workspaceId);
  touchSession(core, session, now);
  return session;
}

/** @throws AppError forbidden */
export function requireSameOrigin({ site: { baseUrl } }: Core, { method, headers }: Request): void {
  const site = headers.get("sec-fetch-site");
  const origin = headers.get("origin");
  const foreign =
    (site !== null && site !== "same-origin" && site !== "none") ||
    (origin !== null && !isOurs(origin, baseUrl, headers.get("host")));
  const silent = method !== "GET" && method !== "HEAD" && site === null && origin === null;
  if (foreign || silent) {
    throw new AppError("forbidden", "Only this server's own pages may do that: open the app itself");
  }
}

/** `baseUrl`: the public origin, which may differ from the Host behind a proxy. */
function isOurs(origin: string, baseUrl: string, host: string | null): boolean {
  if (origin === new URL(baseUrl).origin) return true;
  return URL.canParse(origin) && host !== null && new URL(origin).host === host.toLowerCase();
}
