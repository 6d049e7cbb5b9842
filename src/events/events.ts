/** Builds webhooks from the files of this folder: the deliverer, the notices to admins and the upkeep of the log. */
import { openHttpClient } from "../net/http-client.ts";
import type { Core } from "../store/core.ts";
import { createDeliverer } from "./deliverer.ts";
import { type TellAdmins, tellDisabled } from "./endpoints.ts";
import { trimLog } from "./log.ts";

/** `mostConnections`: requests to receivers at once at most, and idle connections. */
export function createEvents(
  core: Core,
  { notifyAdmins, mostConnections }: { notifyAdmins: TellAdmins; mostConnections: number },
) {
  const { store, options, runtime, log, meters, wake } = core;
  const none: readonly string[] = [];
  const allow = () => {
    const networks = options.get("webhooks.allowNetworks");
    return networks === "none" ? none : networks;
  };
  const http = openHttpClient({ runtime, allow, mostIdle: mostConnections });
  const notices = tellDisabled(core, notifyAdmins);
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
  return { ...deliverer, jobs: [job, notices, trimLog(core)] };
}
