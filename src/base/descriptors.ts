/**
 * How the process's open files are divided, so that no face of it can take those of another: whatever HTTP does, SMTP
 * accepts connections and files mail, and the other way round.
 *
 * All the arithmetic is here. Of the limit of open files (RLIMIT_NOFILE; Bun raises the soft limit to the hard one when
 * it starts) go first what has a fixed bound, then webhooks, and what is left in equal parts to SMTP and HTTP:
 *
 *   128  the process: database, workers, listeners, logs, blobs being written, uploads in the spool
 *   268  the relay (outbound/relay.ts): a connection of each lane, and for those at work a blob that is read, or a connection
 *        that is being ended
 *    96  images of mail, certificate authorities, DNS, Meilisearch
 *   1/8  webhooks: requests under way, and as many idle connections
 *   ─────
 *   1/2 of the rest   SMTP: a connection and the file that its message is received into
 *   1/2 of the rest   HTTP: a connection, and the two ends of the one that carries it to Bun.serve (http/carry.ts)
 */
import { closeSync, openSync, readFileSync } from "node:fs";

/** Lanes of the relay at work in each kind of place. `spare`: for mail to this server itself, while all the shared ones are taken. */
export const PLACES = { shared: 50, kept: 10, slow: 20, spare: 4 };
/** Lanes of the relay that have waited for their server for a while, and do not count any more. */
export const MOST_WAITING = 100;

const OWN = 128;
const LANES_AT_WORK = Object.values(PLACES).reduce((sum, places) => sum + places, 0);
const RELAY = 2 * LANES_AT_WORK + MOST_WAITING;
const OTHERS = 96;
const OF_AN_SMTP_CONNECTION = 2;
const OF_AN_HTTP_CONNECTION = 3;

/** More would serve nobody better, and costs memory. */
const MOST = { smtp: 2_000, http: 2_000, webhooks: 256 };
/** Below these the appliance is of no use; the doctor says that the limit is too low. */
const LEAST = { smtp: 40, http: 20, webhooks: 16 };

/** With fewer left than these, SMTP can no longer be relied on. */
const RESERVE = 16;

/** Assumed where the system does not tell its limit: what most have. */
const USUAL_LIMIT = 1_024;

export interface Shares {
  /** The limit that they are shares of. */
  limit: number;
  /** Connections of each SMTP listener. */
  smtp: { mx: number; submission: number; submissions: number };
  /** HTTP and HTTPS connections together. */
  http: number;
  /** Webhook requests under way; as many connections may idle. */
  webhooks: number;
  /** The limit is enough for what an appliance is made for. */
  suffices: boolean;
}

/** Divides a limit of open files. */
export function shareDescriptors(limit: number): Shares {
  const within = (name: keyof typeof MOST, share: number): number =>
    Math.max(LEAST[name], Math.min(MOST[name], Math.floor(share)));
  const webhooks = within("webhooks", limit / 16);
  const half = (limit - OWN - RELAY - OTHERS - 2 * webhooks) / 2;
  const smtp = within("smtp", half / OF_AN_SMTP_CONNECTION);
  const http = within("http", half / OF_AN_HTTP_CONNECTION);
  const suffices = half >= Math.max(LEAST.smtp * OF_AN_SMTP_CONNECTION, LEAST.http * OF_AN_HTTP_CONNECTION);
  const quarter = Math.floor(smtp / 4);
  return {
    limit,
    smtp: { mx: smtp - 2 * quarter, submission: quarter, submissions: quarter },
    http,
    webhooks,
    suffices,
  };
}

/** The soft limit of open files, of this process unless another is named. */
export function limitOfOpenFiles(pid: number | "self" = "self"): number {
  try {
    const soft = /^Max open files\s+(\d+|unlimited)/m.exec(readFileSync(`/proc/${pid}/limits`, "latin1"))?.[1];
    if (soft === "unlimited") return Number.MAX_SAFE_INTEGER;
    return soft === undefined ? USUAL_LIMIT : Number(soft);
  } catch {
    return USUAL_LIMIT;
  }
}

/**
 * Whether files can still be opened with a reserve to spare. The system gives out the lowest free number, so one near the
 * limit says that all below it are taken.
 */
export function hasFreeDescriptors(): boolean {
  try {
    const lowestFree = openSync("/dev/null", "r");
    closeSync(lowestFree);
    return lowestFree < limitOfOpenFiles() - RESERVE;
  } catch {
    return false;
  }
}
