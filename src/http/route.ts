/** Routes of the web app's own API that take or give no JSON, and so are no operations. */
import type { BrowserSession } from "../access/sessions.ts";

/** A request of a signed-in person. */
export interface Asked {
  request: Request;
  /** Path parameters, decoded. */
  params: Record<string, string>;
  session: BrowserSession;
  /** The session read again, to be called after waiting for a body. @throws AppError unauthorized when it ended or has another cookie */
  requireSession(): BrowserSession;
}

export interface Route {
  method: "GET" | "POST";
  /** Below /app, parameters as `:name`. */
  path: string;
  /** Rejects with the refusal. */
  run(asked: Asked): Response | Promise<Response>;
}
