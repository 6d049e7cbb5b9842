/**
 * The way in for whatever a page asks (rules: Web): from this origin, and with a session that goes on.
 */
import { findSession, presentSession, requireConfirmed, type Session } from "../access/sessions.ts";
import { AppError } from "../base/errors.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Db, Store } from "../store/store.ts";
import { createSameOriginCheck } from "./same-origin.ts";
import type { SessionCookie } from "./session-cookie.ts";

export interface PageGate {
  /** @throws AppError forbidden */
  requireSameOrigin(request: Request): void;
  /** @throws AppError forbidden, unauthorized */
  admit(request: Request): Session;
  /** The session as it is now. @throws AppError unauthorized */
  requireSession(session: Session): Session;
  /** @throws Unconfirmed, AppError unauthorized */
  requireConfirmed(db: Db, session: Session): void;
}

export interface PageGateParts {
  store: Pick<Store, "db">;
  cookie: SessionCookie;
  /** Notes that a session is in use. */
  touchSession(session: Session, now: number): void;
  /** Public origin. */
  baseUrl: string;
  runtime: Pick<Runtime, "now">;
}

export function createPageGate({ store, cookie, touchSession, baseUrl, runtime }: PageGateParts): PageGate {
  const requireSameOrigin = createSameOriginCheck(baseUrl);
  return {
    requireSameOrigin,
    requireSession: (session) => presentSession(store.db, session, runtime.now()),
    requireConfirmed: (db, session) => requireConfirmed(db, session, runtime.now()),
    admit(request) {
      requireSameOrigin(request);
      const token = cookie.read(request);
      const now = runtime.now();
      const session = token === undefined ? undefined : findSession(store.db, token, now);
      if (!session) throw new AppError("unauthorized", "Sign in to go on");
      touchSession(session, now);
      return session;
    },
  };
}
