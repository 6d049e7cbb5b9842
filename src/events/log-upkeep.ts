/**
 * What the webhooks' past costs: finished deliveries go after retention.deliveryLogDays (rules: Webhook log), and
 * then the events that no delivery is kept of. In portions, between which the event loop turns.
 */
import type { Job } from "../base/scheduler.ts";
import type { Options } from "../store/settings.ts";
import type { Store } from "../store/store.ts";
import { deleteEvents, deleteFinished } from "./delivery-log.ts";
import { fanOut, hasUnread } from "./fan-out.ts";

const DAY_MS = 24 * 60 * 60_000;
/** Between two looks: a small part of what is kept, which an hour is of 30 days. */
const SELDOM_MS = 60 * 60_000;
const OFTEN_MS = 1_000;
const LOOKS = 24;

export function createLogUpkeep(store: Pick<Store, "db" | "enqueue">, options: Pick<Options, "get">): Job {
  return {
    name: "webhook-log",
    deletes: true,
    async runDue(now) {
      const kept = options.get("retention.deliveryLogDays") * DAY_MS;
      const before = now - kept;
      while (await store.enqueue((tx) => deleteFinished(tx, before)));
      // While there is no endpoint the deliverer leaves events alone, and each may go in its time.
      while (hasUnread(store.db)) await store.enqueue((tx) => void fanOut(tx, now));
      for (let after: number | null = 0; after !== null; ) {
        const from: number = after;
        after = await store.enqueue((tx) => deleteEvents(tx, from, before));
      }
      return now + Math.max(OFTEN_MS, Math.min(kept / LOOKS, SELDOM_MS));
    },
  };
}
