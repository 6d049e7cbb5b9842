/** The metrics of the running server: its counters, and the gauges over database, disk and process. */

import { X509Certificate } from "node:crypto";
import { readdir, stat, statfs } from "node:fs/promises";
import { join } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { readBackupState } from "../backup/backup-layout.ts";
import { limitOfOpenFiles } from "../base/descriptors.ts";
import type { Sample } from "../base/metrics.ts";
import { build, version } from "../base/version.ts";
import { listWarmup } from "../outbound/guardrails.ts";
import type { Core } from "../store/core.ts";
import { QUEUE_LINES } from "../store/schema.ts";
import { statement } from "../store/statement.ts";
import type { Certificates } from "../tls/certificates.ts";

/*
 * Gauges over the database, the disk and the process, read at each scrape.
 *
 * Invariant: a scrape reads no table whole that grows with the mail. It reads partial indexes of pending work, and
 * tables with one row a mailbox or domain.
 */

/** Interval of the samples of the event loop's delay, ms. */
const LOOP_RESOLUTION_MS = 20;
const NANOSECONDS = 1_000_000_000;

const statements = {
  queue: statement<{ state: string; count: number }, []>(
    "SELECT state, count(*) AS count FROM queue_entries WHERE state IN ('waiting', 'held') GROUP BY state",
  ),
  oldest: statement<{ acceptedAt: number }, []>(
    `SELECT accepted_at AS acceptedAt FROM outbound_messages WHERE seq =
       (SELECT message_seq FROM queue_entries WHERE state IN ('waiting', 'held') AND state = 'waiting' ORDER BY seq LIMIT 1)`,
  ),
  // One query a line, to use the index. Waiting is normal in the slow line, so it does not count.
  due: statement<{ dueAt: number | null }, []>(
    `SELECT min(at) AS dueAt FROM (${QUEUE_LINES.filter((line) => line !== "slow")
      .map((line) => `SELECT min(due_at) AS at FROM queue_domains WHERE line = '${line}'`)
      .join(" UNION ALL ")})`,
  ),
  webhooks: statement<{ count: number }, []>(
    "SELECT count(*) AS count FROM webhook_deliveries WHERE due_at IS NOT NULL",
  ),
  endpoints: statement<{ state: string; count: number }, []>(
    "SELECT state, count(*) AS count FROM webhook_endpoints GROUP BY state",
  ),
  mail: statement<{ bytes: number }, []>("SELECT coalesce(sum(bytes), 0) AS bytes FROM mailbox_usage"),
  holds: statement<{ count: number }, []>(
    "SELECT count(*) AS count FROM holds WHERE state <> 'sent' AND state = 'waiting'",
  ),
  grants: statement<{ count: number }, []>(
    `SELECT count(*) AS count FROM oauth_grants JOIN api_keys ON id = key_id WHERE revoked_at IS NULL`,
  ),
  programs: statement<{ used: number; unused: number }, []>(
    "SELECT count(used_at) AS used, count(*) - count(used_at) AS unused FROM oauth_clients",
  ),
  mailboxes: statement<{ count: number }, []>("SELECT count(*) AS count FROM mailboxes"),
  pages: statement<{ bytes: number }, []>(
    "SELECT page_count * page_size AS bytes FROM pragma_page_count, pragma_page_size",
  ),
};

/** Certificates of domains with a sample of their own. */
const MOST_DOMAINS = 20;

const one = (value: number): Sample[] => [[{}, value]];

/** Registers the gauges. `certificates`: undefined without TLS listeners. `stop` ends the sampling of the event loop. */
export function registerGauges(
  { metrics, db, options, runtime, site: { folder } }: Core,
  certificates: Pick<Certificates, "current" | "domains"> | undefined,
) {
  const { gauge, counted } = metrics;
  const secondsSince = (ms: number): number => Math.max(0, (runtime.now() - ms) / 1_000);

  gauge("mailroom_info", "Version of the program, and which build of it", () => [[{ version, build }, 1]]);

  gauge("mailroom_queue_recipients", "Recipients of outbound mail that are not settled", () => {
    const counts = new Map([
      ["waiting", 0],
      ["held", 0],
    ]);
    for (const { state, count } of statements.queue(db).all()) counts.set(state, count);
    return [...counts].map(([state, count]) => [{ state }, count]);
  });
  gauge("mailroom_queue_oldest_seconds", "Since the oldest message that waits was accepted; 0 when none does", () => {
    const oldest = statements.oldest(db).get();
    return one(oldest ? secondsSince(oldest.acceptedAt) : 0);
  });
  gauge(
    "mailroom_queue_overdue_seconds",
    "Since the first recipient that waits was due, but for slow servers; 0 while none is late",
    () => {
      const dueAt = statements.due(db).get()?.dueAt ?? null;
      return one(dueAt === null ? 0 : secondsSince(dueAt));
    },
  );
  gauge("mailroom_warmup_recipients", "Outside recipients that a new domain was sent to today (UTC), and may be", () =>
    listWarmup(db, options, runtime.now()).flatMap(({ domain, used, ceiling }): Sample[] => [
      [{ domain, kind: "used" }, used],
      [{ domain, kind: "ceiling" }, ceiling],
    ]),
  );

  gauge("mailroom_webhook_deliveries_waiting", "Webhook deliveries that are pending or retrying", () =>
    one(statements.webhooks(db).get()?.count ?? 0),
  );
  gauge("mailroom_webhook_endpoints", "Webhook endpoints", () => {
    const counts = new Map([
      ["active", 0],
      ["disabled", 0],
    ]);
    for (const { state, count } of statements.endpoints(db).all()) if (counts.has(state)) counts.set(state, count);
    return [...counts].map(([state, count]) => [{ state }, count]);
  });

  gauge("mailroom_held_messages", "Messages of API keys that wait for a person to approve them", () =>
    one(statements.holds(db).get()?.count ?? 0),
  );
  gauge("mailroom_oauth_grants", "Grants of people to programs that are not revoked", () =>
    one(statements.grants(db).get()?.count ?? 0),
  );
  gauge("mailroom_oauth_clients", "Programs that registered themselves", () => {
    const { used = 0, unused = 0 } = statements.programs(db).get() ?? {};
    return [
      [{ state: "used" }, used],
      [{ state: "unused" }, unused],
    ];
  });
  gauge("mailroom_mailboxes", "Mailboxes", () => one(statements.mailboxes(db).get()?.count ?? 0));
  gauge("mailroom_mail_bytes", "Mail kept in all mailboxes, as their quotas count it", () =>
    one(statements.mail(db).get()?.bytes ?? 0),
  );
  gauge("mailroom_database_bytes", "Size of the database, and of the log of what was written lately", async () => {
    const wal = await stat(join(folder, "mailroom.db-wal")).catch(() => undefined);
    return [
      [{ file: "database" }, statements.pages(db).get()?.bytes ?? 0],
      [{ file: "wal" }, wal?.size ?? 0],
    ];
  });
  gauge("mailroom_disk_bytes", "The disk of the data folder", async () => {
    const { bsize, blocks, bavail } = await statfs(folder);
    return [
      [{ kind: "size" }, bsize * blocks],
      [{ kind: "free" }, bsize * bavail],
    ];
  });
  gauge("mailroom_disk_inodes", "Files that the disk of the data folder can hold", async () => {
    const { files, ffree } = await statfs(folder);
    return [
      [{ kind: "size" }, files],
      [{ kind: "free" }, ffree],
    ];
  });
  gauge("mailroom_backup_last_success_timestamp_seconds", "When the last good backup was made", async () => {
    const { lastGood } = await readBackupState(folder);
    return lastGood ? one(lastGood.at / 1_000) : [];
  });
  gauge("mailroom_backup_failing", "1 when the last backup failed, else 0", async () =>
    one((await readBackupState(folder)).lastFailure ? 1 : 0),
  );
  gauge("mailroom_certificate_expiry_timestamp_seconds", "When the server's own certificate ends", () => {
    return certificates ? one(new X509Certificate(certificates.current().cert).validToDate.getTime() / 1_000) : [];
  });
  gauge(
    "mailroom_domain_certificates",
    "Domains with a certificate of their own; those whose last order failed",
    () => {
      const all = certificates?.domains() ?? [];
      return [
        [{ kind: "valid" }, all.filter(({ until }) => until !== undefined && until > runtime.now()).length],
        [{ kind: "failing" }, all.filter(({ isFailing }) => isFailing).length],
      ];
    },
  );
  gauge(
    "mailroom_domain_certificate_expiry_timestamp_seconds",
    "When the certificates of domains end, of those that end first",
    () =>
      (certificates?.domains() ?? [])
        .flatMap(({ domain, until }) => (until === undefined ? [] : [{ domain, until }]))
        .sort((a, b) => a.until - b.until)
        .slice(0, MOST_DOMAINS)
        .map(({ domain, until }): Sample => [{ domain }, until / 1_000]),
  );

  gauge("process_resident_memory_bytes", "Memory of the process", () => one(process.memoryUsage.rss()));
  gauge("process_open_fds", "Open files of the process", async () => one((await readdir("/proc/self/fd")).length - 1));
  gauge("process_max_fds", "Files that the process may open", () => one(limitOfOpenFiles()));
  counted("process_cpu_seconds_total", "Processor time of the process", () => {
    const { user, system } = process.cpuUsage();
    return one((user + system) / 1_000_000);
  });
  const startedAt = runtime.now();
  gauge("process_start_time_seconds", "When the server was started", () => one(startedAt / 1_000));

  const loop = monitorEventLoopDelay({ resolution: LOOP_RESOLUTION_MS });
  loop.enable();
  gauge("mailroom_event_loop_delay_seconds", "How late the event loop has been since the last look", () => {
    const { max } = loop;
    const samples: Sample[] = [50, 99].map((rank) => [{ rank: String(rank / 100) }, late(loop.percentile(rank))]);
    samples.push([{ rank: "1" }, late(max)]);
    loop.reset();
    return samples;
  });
  return { stop: () => loop.disable() };
}

/** The delay in seconds; `nanoseconds` as the histogram gives it. */
const late = (nanoseconds: number): number =>
  Number.isFinite(nanoseconds) ? Math.max(0, nanoseconds / NANOSECONDS) : 0;
