/** What settings answer about API keys and webhooks; the browser code reads these types too. Times are ISO 8601. */
import type { Scope } from "../store/schema.ts";

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
