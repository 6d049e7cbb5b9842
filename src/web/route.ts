/** One address of the web app's own API, below /app. */
import type { Session } from "../access/sessions.ts";

/** A request of somebody signed in. */
export interface Asked {
  request: Request;
  /** Of the path, decoded. */
  params: Record<string, string>;
  session: Session;
  /** Where the request comes from, as sign-ins are counted. */
  source: string;
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
