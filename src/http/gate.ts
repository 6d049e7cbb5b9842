/** Admission of the app's requests (rules: Web): from this origin, and with a valid session. */
import { findSession, presentSession, requireConfirmed, type Session, touchSession } from "../access/sessions.ts";
import { AppError } from "../base/errors.ts";
import type { Core } from "../store/core.ts";
import { requireServed } from "../store/moving.ts";
import type { Db } from "../store/store.ts";
import type { SessionCookie } from "./session-cookie.ts";

export interface PageGate {
  /** @throws AppError forbidden */
  requireSameOrigin(request: Request): void;
  /** @throws AppError forbidden, unauthorized; server_error 503 while the workspace moves to another server */
  admit(request: Request): Session;
  /** The session as it is now. @throws AppError unauthorized */
  requireSession(db: Db, session: Session): Session;
  /** @throws Unconfirmed, AppError unauthorized */
  requireConfirmed(db: Db, session: Session): void;
}

export function createPageGate(core: Core, cookie: SessionCookie): PageGate {
  const { db, now: clock, site } = core;
  const requireSameOrigin = createSameOriginCheck(site.baseUrl);
  return {
    requireSameOrigin,
    requireSession: (db, session) => presentSession(db, session, clock()),
    requireConfirmed: (db, session) => requireConfirmed(db, session, clock()),
    admit(request) {
      requireSameOrigin(request);
      const token = cookie.read(request);
      const now = clock();
      const session = token === undefined ? undefined : findSession(db, token, now);
      if (!session) throw new AppError("unauthorized", "Sign in to continue");
      requireServed(db, session.caller.workspaceId);
      touchSession(core, session, now);
      return session;
    },
  };
}

/*
 * Protection against requests that another site makes a browser send (CSRF). The cookie is SameSite=Strict already; this
 * check also covers other hosts of our own site, and browsers that treat the attribute loosely.
 *
 * Invariant: every request that changes something names its origin, in Origin or Sec-Fetch-Site, and it is ours.
 */

/** `baseUrl`: the public origin, which may differ from the Host behind a proxy. The check throws AppError forbidden. */
function createSameOriginCheck(baseUrl: string): (request: Request) => void {
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
      throw new AppError("forbidden", "Only this server's own pages may do that: open the app itself");
    }
  };
}
