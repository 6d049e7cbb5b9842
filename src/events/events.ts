/** Builds webhooks from the files of this folder: the deliverer, the notices to admins and the upkeep of the log. */
import type { Log } from "../base/log.ts";
import type { Meters } from "../base/metrics.ts";
import type { Runtime } from "../base/runtime.ts";
import { openHttpClient } from "../net/http-client.ts";
import type { Options } from "../store/settings.ts";
import type { Store } from "../store/store.ts";
import { createDeliverer } from "./deliverer.ts";
import { createDisabledNotices, type DisabledNoticesParts } from "./endpoints.ts";
import { createLogUpkeep } from "./log.ts";

interface EventsParts extends Omit<DisabledNoticesParts, "store"> {
  store: Store;
  options: Options;
  runtime: Runtime;
  log: Log;
  meters: Meters;
  /** Asks the scheduler to run a job now. */
  wake(job: string): void;
  /** Most requests to webhook receivers at once, and most idle connections. */
  mostConnections: number;
}

export function createEvents(parts: EventsParts) {
  const { store, options, runtime, log, meters, wake, mostConnections } = parts;
  const none: readonly string[] = [];
  const allow = () => {
    const networks = options.get("webhooks.allowNetworks");
    return networks === "none" ? none : networks;
  };
  const http = openHttpClient({ runtime, allow, mostIdle: mostConnections });
  const notices = createDisabledNotices(parts);
  const { job, ...deliverer } = createDeliverer({
    store,
    http,
    options,
    runtime,
    log,
    meters,
    mostSlots: mostConnections,
    wake: () => wake(job.name),
    tell: () => wake(notices.name),
  });
  return { ...deliverer, jobs: [job, notices, createLogUpkeep(store, options, runtime)] };
}
