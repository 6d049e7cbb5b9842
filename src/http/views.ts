/** What the app's own routes answer beside the operations of the API; the browser code reads these types too. */
import type { Role } from "../store/schema.ts";

/** GET /app/me. */
export interface Person {
  id: string;
  name: string;
  email: string;
  role: Role;
  /** Where the news of /app/live stand: what is asked for after this misses none that come after it. */
  news: number;
}

/** Of GET /app/drafts: why a draft stands out in a list. */
export interface DraftMarkView {
  draftId: string;
  /** Name of the API key that it was made with. */
  agent: string | null;
  /** When it is sent, ISO 8601. */
  dueAt: string | null;
  /** It was not sent when it was due. */
  refused: boolean;
}

/** GET /app/me/sending. */
export interface SendingPreferences {
  /** How long what they send can be undone; 0: not at all. */
  undoSeconds: number;
}
