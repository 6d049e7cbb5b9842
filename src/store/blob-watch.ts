/** Watches the place of blobs in S3: asks it now and then, logs when it fails and works again, and counts for /metrics. */
import { isUnavailable } from "../base/errors.ts";
import type { Log } from "../base/log.ts";
import type { Metrics } from "../base/metrics.ts";
import type { Job } from "../base/scheduler.ts";
import type { RemoteBlobs } from "./remote-blobs.ts";

const ASK_MS = 60_000;
/** Seconds: from a server next door to the patience of callers. */
const SECONDS = [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10, 30];

export function watchBlobs({ s3, cache, isOwner }: RemoteBlobs, log: Log): Job {
  let failing = false;
  let isFirst = true;
  return {
    name: "watch-blobs",
    async runDue(now) {
      if (isFirst) await cache.trim();
      isFirst = false;
      await isOwner().catch((error) => {
        if (!isUnavailable(error)) throw error;
      });
      const reason = s3.failure();
      if (reason !== undefined && !failing) log.error("S3 fails: mail with attachments waits", { reason });
      if (reason === undefined && failing) log.info("S3 works again");
      failing = reason !== undefined;
      return now + ASK_MS;
    },
  };
}

export function registerBlobMetrics(
  { gauge, counted, counter, histogram }: Metrics,
  { s3, cache, counts }: RemoteBlobs,
): void {
  const requests = counter<{ method: string; outcome: string }>(
    "mailroom_blobs_s3_requests_total",
    "Requests to S3 for attachments, by method and outcome",
  );
  const bytes = counter<{ direction: string }>("mailroom_blobs_s3_bytes_total", "Bytes of attachments to and from S3");
  const seconds = histogram<{ method: string }>(
    "mailroom_blobs_s3_request_seconds",
    "Time of a request to S3 for attachments",
    SECONDS,
  );
  s3.onRequest((request) => {
    const { method } = request;
    requests.add({ method, outcome: request.ok ? "ok" : "failed" });
    seconds.observe({ method }, request.seconds);
    if (request.bytes > 0) bytes.add({ direction: method === "PUT" ? "to" : "from" }, request.bytes);
  });
  gauge("mailroom_blobs_s3_up", "Whether the last operation on S3 for attachments worked", () => [
    [{}, s3.failure() === undefined ? 1 : 0],
  ]);
  gauge("mailroom_blobs_cache_bytes", "Copies of attachments in the data folder", () => [[{}, cache.bytes()]]);
  counted("mailroom_blobs_cache_reads_total", "Reads of attachments that are in S3, by whether a copy was here", () => [
    [{ result: "hit" }, counts.hits],
    [{ result: "miss" }, counts.misses],
  ]);
}
