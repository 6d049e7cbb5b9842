/** What settings answer about API keys and webhooks; the browser code reads these types too. Times are ISO 8601. */
import type { DeliveryState, Scope } from "../store/schema.ts";

export interface KeyView {
  id: string;
  name: string;
  /** Sign-in name of who it acts for. */
  user: string;
  /** How the key begins. */
  hint: string;
  scopes: Scope[];
  createdAt: string;
  lastUsedAt: string | null;
  revokedAt: string | null;
}

/** GET /app/settings/keys: newest first. */
export interface KeyListView {
  keys: KeyView[];
  /** Those there are. */
  scopes: readonly Scope[];
}

/** POST /app/settings/keys. */
export interface NewKeyView {
  id: string;
  /** Seen here and never again. */
  key: string;
}

export interface WebhookView {
  id: string;
  url: string;
  events: string[];
  /** Switched off, after deliveries in a row came to nothing; since when is `disabledAt`. */
  disabled: boolean;
  disabledAt: string | null;
  /** How many in a row have come to nothing. */
  exhausted: number;
  createdAt: string;
}

/** GET /app/settings/webhooks: oldest first. */
export interface WebhookListView {
  webhooks: WebhookView[];
  /** Those there are to choose from. */
  events: readonly string[];
}

/** GET, POST /app/settings/webhooks/:id/secret. */
export interface SecretView {
  secret: string;
  /** The one before, while both are good. */
  previous?: { secret: string; until: string };
}

/** An entry of the log. */
export interface DeliveryView {
  id: string;
  event: string;
  eventId: string;
  /** A sample sent on demand. */
  test: boolean;
  state: DeliveryState;
  /** Those that have ended. */
  attempts: number;
  /** One is under way. */
  attempting: boolean;
  nextAttemptAt: string | null;
  /** HTTP status of the last answer. */
  status: number | null;
  /** Its start. */
  response: string | null;
  /** Why there was no answer, or none that will do. */
  error: string | null;
  createdAt: string;
  finishedAt: string | null;
}
