/** What the app's own routes answer beside the operations of the API; the browser code reads these types too. */
import type { Role } from "../store/schema.ts";

/** GET /app/me. */
export interface Person {
  id: string;
  name: string;
  email: string;
  role: Role;
}

/** Of GET /app/sessions. */
export interface SessionView {
  id: string;
  userAgent: string;
  /** ISO 8601, as the next one. */
  createdAt: string;
  lastUsedAt: string;
  /** The one that asks. */
  current: boolean;
}
