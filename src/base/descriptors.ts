/**
 * Divides the process's limit of open files, so that load on one protocol cannot stop another: under any load of HTTP
 * or IMAP, SMTP accepts connections and files mail, and the other way round.
 *
 * The limit is RLIMIT_NOFILE; Bun raises the soft limit to the hard one when it starts. Fixed shares come first, then
 * webhooks and IMAP, where it is on; SMTP and HTTP get half of the rest each:
 *
 *   128  the process: database, parsers, listeners, logs, blobs being written, uploads in the spool
 *   268  the relay (outbound/relay.ts): one connection a session, and for each session at work one more file: a blob that it
 *        reads, or a connection that it closes
 *    96  images of mail, push services, documents of programs, certificate authorities, DNS, Meilisearch
 *   1/8  webhooks: requests under way, and as many idle connections
 *   1/4  of what is left then, IMAP: a connection, and a file that it reads
 *   ─────
 *   1/2 of the rest   SMTP: a connection and the file that its message is received into
 *   1/2 of the rest   HTTP: a connection, and the two ends of the one that carries it to Bun.serve (http/listener.ts)
 */
import { closeSync, openSync, readFileSync } from "node:fs";

/**
 * How many connections the relay works on at once, by kind. `spare`: for mail to this server itself, while all shared
 * slots are taken.
 */
export const RELAY_SLOTS = { shared: 50, reserved: 10, slow: 20, spare: 4 };
/** Connections of the relay that have waited for their server for a while and no longer occupy a slot. */
export const MOST_RELAY_WAITING = 100;

const OWN = 128;
const ALL_RELAY_SLOTS = Object.values(RELAY_SLOTS).reduce((sum, slots) => sum + slots, 0);
const RELAY = 2 * ALL_RELAY_SLOTS + MOST_RELAY_WAITING;
const OTHERS = 96;
const FILES_PER_SMTP_CONNECTION = 2;
const FILES_PER_HTTP_CONNECTION = 3;
const FILES_PER_IMAP_CONNECTION = 2;

/**
 * Requests over HTTP at once, by kind, to servers that strangers and tenants choose. Bun's fetch makes 256 in a process;
 * while others hold these up, S3, certificate authorities and Meilisearch have the rest.
 */
export const MOST_REQUESTS = { webhooks: 128, policies: 48, images: 20, push: 8, clientDocuments: 8, unsubscribing: 8 };

/** More only costs memory. */
const MOST = { smtp: 2_000, http: 2_000, imap: 2_000, webhooks: MOST_REQUESTS.webhooks };
/** Below these the appliance is useless; the doctor then says that the limit is too low. */
const LEAST = { smtp: 40, http: 20, imap: 20, webhooks: 16 };

/** With fewer left than these, SMTP can no longer be relied on. */
const RESERVE = 16;

/** Assumed where the system does not tell its limit. */
const USUAL_LIMIT = 1_024;

export interface DescriptorShares {
  /** The limit that was divided. */
  limit: number;
  /** Connections of each SMTP listener. */
  smtp: { mx: number; submission: number; submissions: number };
  /** HTTP and HTTPS connections together. */
  http: number;
  /** IMAP connections of both listeners together; 0 while it is off. */
  imap: number;
  /** Webhook requests under way; as many connections may idle. */
  webhooks: number;
  /** SMTP and HTTP both get their least. */
  suffices: boolean;
}

/** Divides a limit of open files. `imap`: whether it is on. */
export function shareDescriptors(limit: number, { imap: hasImap }: { imap: boolean }): DescriptorShares {
  const within = (name: keyof typeof MOST, share: number): number =>
    Math.max(LEAST[name], Math.min(MOST[name], Math.floor(share)));
  const webhooks = within("webhooks", limit / 16);
  const rest = limit - OWN - RELAY - OTHERS - 2 * webhooks;
  const imap = hasImap ? within("imap", rest / 4 / FILES_PER_IMAP_CONNECTION) : 0;
  const half = (rest - imap * FILES_PER_IMAP_CONNECTION) / 2;
  const smtp = within("smtp", half / FILES_PER_SMTP_CONNECTION);
  const http = within("http", half / FILES_PER_HTTP_CONNECTION);
  const suffices = half >= Math.max(LEAST.smtp * FILES_PER_SMTP_CONNECTION, LEAST.http * FILES_PER_HTTP_CONNECTION);
  const quarter = Math.floor(smtp / 4);
  return {
    limit,
    smtp: { mx: smtp - 2 * quarter, submission: quarter, submissions: quarter },
    http,
    imap,
    webhooks,
    suffices,
  };
}

/** The soft limit of open files, of this process unless `pid` names another. */
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
 * True while more than the reserve of files can be opened. The system gives out the lowest free number, so a number
 * near the limit means that all below it are taken.
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
