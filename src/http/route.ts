/** One address of the web app's own API, below /app. */
import type { Session } from "../access/sessions.ts";
import type { Db } from "../store/store.ts";

/** A request of somebody signed in. */
export interface Asked {
  request: Request;
  /** Of the path, decoded. */
  params: Record<string, string>;
  session: Session;
  /** Where the request comes from, as sign-ins are counted. */
  source: string;
  /** After a body that was waited for: the session as it is now. @throws AppError unauthorized when it ended, or got another cookie */
  requireSession(): Session;
  /**
   * For what outlasts the session: that its person proved in the last minutes that it is them (routes/proof.ts). To be called
   * with the transaction that does it. @throws Unconfirmed, AppError unauthorized
   */
  requireConfirmed(db: Db): void;
}

/** One for who has no session, or not yet. */
export interface OpenRoute {
  method: "GET" | "POST";
  /** Below /app. */
  path: string;
  /** As Route.run. */
  run(asked: Pick<Asked, "request" | "source">): unknown;
}

export interface Route {
  method: "GET" | "POST" | "PATCH" | "DELETE";
  /** Below /app, parameters as `:name`. */
  path: string;
  /** Answers a Response as it is, and anything else as JSON. Rejects with the refusal. */
  run(asked: Asked): unknown;
}
