/** What settings answer about webhooks beside the administration API; the browser code reads this type too. */

/** GET /app/settings/webhooks/:id/secret. */
export interface SecretView {
  secret: string;
  /** The one before, while both are good; until when is ISO 8601. */
  previous?: { secret: string; until: string };
}
