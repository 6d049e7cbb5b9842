/** Routes of the web app's own API, below /app. */
import type { Session } from "../access/sessions.ts";
import type { Db } from "../store/store.ts";

/** A request of a signed-in person. */
export interface Asked {
  request: Request;
  /** Path parameters, decoded. */
  params: Record<string, string>;
  session: Session;
  /** Source of the request, for limits on sign-ins. */
  source: string;
  /** The session read again, to be called after waiting for a body. @throws AppError unauthorized when it ended or has another cookie */
  requireSession(): Session;
  /**
   * Required for changes that outlast the session: the person signed in again in the last minutes (routes/proof.ts). Called
   * within the transaction of the change. @throws Unconfirmed, AppError unauthorized
   */
  requireConfirmed(db: Db): void;
}

/** A route that needs no session. */
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
  /** Its result is sent as it is if it is a Response, else as JSON. Rejects with the refusal. */
  run(asked: Asked): unknown;
}
