/**
 * The migrations, oldest first, as text inside the executable. Append-only: a released one never changes. The database's
 * `PRAGMA user_version` counts those applied.
 */
import mail from "./migrations/0001_mail.sql" with { type: "text" };
import sending from "./migrations/0002_sending.sql" with { type: "text" };
import webhooks from "./migrations/0003_webhooks.sql" with { type: "text" };
import junk from "./migrations/0004_junk.sql" with { type: "text" };
import greylist from "./migrations/0005_greylist.sql" with { type: "text" };
import sessions from "./migrations/0006_sessions.sql" with { type: "text" };
import drafts from "./migrations/0007_drafts.sql" with { type: "text" };
import identity from "./migrations/0008_identity.sql" with { type: "text" };
import reading from "./migrations/0009_reading.sql" with { type: "text" };
import transport from "./migrations/0010_transport.sql" with { type: "text" };
import trace from "./migrations/0011_trace.sql" with { type: "text" };
import imported from "./migrations/0012_import.sql" with { type: "text" };
import discarded from "./migrations/0013_discarded.sql" with { type: "text" };
import search from "./migrations/0014_search.sql" with { type: "text" };
import searchLayout from "./migrations/0015_search_layout.sql" with { type: "text" };
import webhookWaiting from "./migrations/0016_webhook_waiting.sql" with { type: "text" };
import webhookRuns from "./migrations/0017_webhook_runs.sql" with { type: "text" };
import webhookLog from "./migrations/0018_webhook_log.sql" with { type: "text" };
import reports from "./migrations/0019_reports.sql" with { type: "text" };
import domainClaims from "./migrations/0020_domain_claims.sql" with { type: "text" };
import access from "./migrations/0021_access.sql" with { type: "text" };
import queueLines from "./migrations/0022_queue_lines.sql" with { type: "text" };
import seen from "./migrations/0023_seen.sql" with { type: "text" };

export const MIGRATIONS: readonly string[] = [
  mail,
  sending,
  webhooks,
  junk,
  greylist,
  sessions,
  drafts,
  identity,
  reading,
  transport,
  trace,
  imported,
  discarded,
  search,
  searchLayout,
  webhookWaiting,
  webhookRuns,
  webhookLog,
  reports,
  domainClaims,
  access,
  queueLines,
  seen,
];
