/**
 * Metrics of the running server, in Prometheus' text format 0.0.4. Modules add to counters and histograms, which live
 * in memory; gauges are read at each scrape.
 *
 * Invariant: the values of labels are a closed set (operations, reasons, states, this server's domains), never a text
 * that a client chose.
 */

type Labels = Readonly<Record<string, string>>;

/** One value of a metric, with its labels. */
export type Sample = readonly [labels: Labels, value: number];

export interface Counter<L extends Labels> {
  add(labels: L, by?: number): void;
}

export interface Histogram<L extends Labels> {
  observe(labels: L, value: number): void;
}

export interface Metrics {
  /** `name` ends in `_total`. */
  counter<L extends Labels>(name: string, help: string): Counter<L>;
  /** `bounds`: upper bounds of the buckets, rising. */
  histogram<L extends Labels>(name: string, help: string, bounds: readonly number[]): Histogram<L>;
  /** `read` gives the samples at each scrape; a gauge whose `read` throws is left out of that scrape. */
  gauge(name: string, help: string, read: () => Iterable<Sample> | Promise<Iterable<Sample>>): void;
  /** A counter that is kept elsewhere and read at each scrape. */
  counted(name: string, help: string, read: () => Iterable<Sample>): void;
  /** All metrics, in the text format. */
  expose(): Promise<string>;
}

export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

const escapeHelp = (text: string): string => text.replaceAll("\\", "\\\\").replaceAll("\n", "\\n");
const escapeValue = (text: string): string => escapeHelp(text).replaceAll('"', '\\"');

function formatSampleLine(name: string, labels: Labels, value: number): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escapeValue(text)}"`);
  return `${name}${pairs.length === 0 ? "" : `{${pairs.join(",")}}`} ${formatMetricNumber(value)}\n`;
}

const formatMetricNumber = (value: number): string =>
  value === Number.POSITIVE_INFINITY ? "+Inf" : value === Number.NEGATIVE_INFINITY ? "-Inf" : String(value);

/** One value for each combination of labels seen so far. */
function byLabels<V>(make: () => V): { of(labels: Labels): V; all(): Iterable<{ labels: Labels; value: V }> } {
  const series = new Map<string, { labels: Labels; value: V }>();
  return {
    of(labels) {
      const key = Object.values(labels).join("\0");
      let entry = series.get(key);
      if (entry === undefined) {
        entry = { labels, value: make() };
        series.set(key, entry);
      }
      return entry.value;
    },
    all: () => series.values(),
  };
}

export function createMetrics(): Metrics {
  const families: (() => Promise<string>)[] = [];

  function add(name: string, help: string, type: string, lines: () => string | Promise<string>): void {
    families.push(async () => `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n${await lines()}`);
  }

  const formatSampleLines = (name: string, samples: Iterable<Sample>): string =>
    [...samples].map(([labels, value]) => formatSampleLine(name, labels, value)).join("");

  return {
    counter<L extends Labels>(name: string, help: string) {
      const counts = byLabels(() => ({ count: 0 }));
      add(name, help, "counter", () =>
        [...counts.all()].map(({ labels, value }) => formatSampleLine(name, labels, value.count)).join(""),
      );
      return {
        add(labels: L, by = 1) {
          counts.of(labels).count += by;
        },
      };
    },
    histogram<L extends Labels>(name: string, help: string, bounds: readonly number[]) {
      const series = byLabels(() => ({ buckets: new Array<number>(bounds.length + 1).fill(0), sum: 0 }));
      add(name, help, "histogram", () => {
        let text = "";
        for (const { labels, value } of series.all()) {
          let count = 0;
          for (const [i, inBucket] of value.buckets.entries()) {
            count += inBucket;
            text += formatSampleLine(
              `${name}_bucket`,
              { ...labels, le: formatMetricNumber(bounds[i] ?? Number.POSITIVE_INFINITY) },
              count,
            );
          }
          text += formatSampleLine(`${name}_sum`, labels, value.sum) + formatSampleLine(`${name}_count`, labels, count);
        }
        return text;
      });
      return {
        observe(labels: L, value: number) {
          const one = series.of(labels);
          const found = bounds.findIndex((bound) => value <= bound);
          const bucket = found < 0 ? bounds.length : found;
          one.buckets[bucket] = (one.buckets[bucket] ?? 0) + 1;
          one.sum += value;
        },
      };
    },
    gauge(name, help, read) {
      add(name, help, "gauge", async () => formatSampleLines(name, await read()));
    },
    counted(name, help, read) {
      add(name, help, "counter", () => formatSampleLines(name, read()));
    },
    async expose() {
      const texts = await Promise.all(families.map((family) => family().catch(() => "")));
      return texts.join("");
    },
  };
}

/** The counters and histograms that modules add to. Times are in milliseconds. */
export interface Meters {
  /** Counts a message received from another server, by its outcome. */
  countArrival(outcome: "filed" | "duplicate" | "report" | "refused", bytes: number, ms: number): void;
  /** Counts a 4yz or 5yz reply of an SMTP listener. `reason`: a name of smtp/refusal.ts. */
  countRefusal(reason: string): void;
  /** Starts timing an operation, over REST, MCP or the app. Call the result with the HTTP status when it ends. */
  timeOperation(operation: string): (status: number) => void;
  /** Counts a refused request to the REST API. `code` as in errors.ts. */
  countApiRefusal(code: string): void;
  /** Counts an attempt to deliver to one recipient. */
  countDelivered(outcome: "accepted" | "deferred" | "refused"): void;
  /** Mail that the server writes by itself about mail that arrived. */
  countAutomatic(kind: "forward" | "absence", outcome: "accepted" | "refused"): void;
  countWebhook(ok: boolean, ms: number): void;
  /** Counts a refused HTTP connection or request: too many in all, or too many of its source. */
  countHttpRefusal(by: "total" | "source"): void;
  /** Counts an IMAP command with its reply. `command`: a known one, or `other`. */
  countImapCommand(command: string, reply: "OK" | "NO" | "BAD"): void;
  countImapBytes(direction: "received" | "sent", bytes: number): void;
  /** Counts an IMAP connection that was refused: too many in all, of its source, or of its person. */
  countImapRefusal(by: "total" | "source" | "person"): void;
}

/** Bounds in seconds: from the time of an index look-up to the time after which people give up. */
const SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5];

/** `now` gives epoch ms. */
export function createMeters(metrics: Metrics, now: () => number): Meters {
  const arrivals = metrics.counter<{ outcome: string }>(
    "mailroom_messages_received_total",
    "Messages handed in by other servers, by what became of them",
  );
  const arrivedBytes = metrics.counter("mailroom_received_bytes_total", "Bytes of messages that were filed");
  const filing = metrics.histogram(
    "mailroom_receive_seconds",
    "From the beginning of a message's content to the reply",
    SECONDS,
  );
  const refusals = metrics.counter<{ reason: string }>(
    "mailroom_smtp_refusals_total",
    "Commands and messages that an SMTP listener refused",
  );
  const operations = metrics.histogram<{ operation: string; status: string }>(
    "mailroom_operation_seconds",
    "Operations of the API, over REST, MCP and the app, by class of status",
    SECONDS,
  );
  const apiRefusals = metrics.counter<{ code: string }>(
    "mailroom_api_refusals_total",
    "Requests to the REST API that were refused",
  );
  const automatic = metrics.counter<{ kind: string; outcome: string }>(
    "mailroom_automatic_mail_total",
    "Mail that rules forward, and replies of those who are absent",
  );
  const deliveries = metrics.counter<{ outcome: string }>(
    "mailroom_delivery_attempts_total",
    "Recipients of attempts to deliver outbound mail, by what came of them",
  );
  const webhooks = metrics.histogram<{ outcome: string }>(
    "mailroom_webhook_attempt_seconds",
    "Attempts to deliver to webhook endpoints",
    SECONDS,
  );
  const httpRefusals = metrics.counter<{ by: string }>(
    "mailroom_http_connections_refused_total",
    "HTTP and HTTPS connections, and requests that proxies forwarded, refused as too many in all or of their source",
  );
  const imapCommands = metrics.counter<{ command: string; reply: string }>(
    "mailroom_imap_commands_total",
    "Commands of mail apps over IMAP, by their replies",
  );
  const imapBytes = metrics.counter<{ direction: string }>(
    "mailroom_imap_bytes_total",
    "Bytes received and sent over IMAP, inside TLS",
  );
  const imapRefusals = metrics.counter<{ by: string }>(
    "mailroom_imap_connections_refused_total",
    "IMAP connections refused as too many in all, of their source or of their person",
  );
  return {
    countArrival(outcome, bytes, ms) {
      arrivals.add({ outcome });
      filing.observe({}, ms / 1_000);
      if (outcome !== "refused") arrivedBytes.add({}, bytes);
    },
    countRefusal: (reason) => refusals.add({ reason }),
    timeOperation(operation) {
      const startedAt = now();
      return (status) =>
        operations.observe({ operation, status: `${Math.floor(status / 100)}xx` }, (now() - startedAt) / 1_000);
    },
    countApiRefusal: (code) => apiRefusals.add({ code }),
    countDelivered: (outcome) => deliveries.add({ outcome }),
    countAutomatic: (kind, outcome) => automatic.add({ kind, outcome }),
    countWebhook: (ok, ms) => webhooks.observe({ outcome: ok ? "ok" : "failed" }, ms / 1_000),
    countHttpRefusal: (by) => httpRefusals.add({ by }),
    countImapCommand: (command, reply) => imapCommands.add({ command, reply }),
    countImapBytes: (direction, bytes) => imapBytes.add({ direction }, bytes),
    countImapRefusal: (by) => imapRefusals.add({ by }),
  };
}
