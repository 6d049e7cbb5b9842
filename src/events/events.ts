/** What tells receivers elsewhere of events, and the jobs beside it: the parts of this folder, made once and joined. */
import type { Log } from "../base/log.ts";
import type { Meters } from "../base/metrics.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Job } from "../base/scheduler.ts";
import type { Options } from "../store/settings.ts";
import type { Store } from "../store/store.ts";
import { createLogUpkeep } from "./log-upkeep.ts";
import { createDisabledNotices, type DisabledNoticesParts } from "./notices.ts";
import { openRequests } from "./request.ts";
import { createWebhooks, type Webhooks } from "./webhooks.ts";

export interface EventsParts extends Omit<DisabledNoticesParts, "store"> {
  store: Store;
  options: Options;
  runtime: Runtime;
  log: Log;
  meters: Meters;
  /** Asks the scheduler to run a job now. */
  wake(job: string): void;
  /** Requests to webhook receivers under way at once; as many connections may idle. */
  mostConnections: number;
}

export interface Events extends Omit<Webhooks, "job"> {
  jobs: readonly Job[];
}

export function createEvents(parts: EventsParts): Events {
  const { store, options, runtime, log, meters, wake, mostConnections } = parts;
  const none: readonly string[] = [];
  const allow = () => {
    const networks = options.get("webhooks.allowNetworks");
    return networks === "none" ? none : networks;
  };
  const requests = openRequests({ runtime, allow, mostIdle: mostConnections });
  const notices = createDisabledNotices(parts);
  const { job, ...webhooks } = createWebhooks({
    ...{ store, requests, options, runtime, log, meters, mostLanes: mostConnections },
    wake: () => wake(job.name),
    tell: () => wake(notices.name),
  });
  return { ...webhooks, jobs: [job, notices, createLogUpkeep(store, options)] };
}
