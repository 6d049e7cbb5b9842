/** Builds webhooks from the files of this folder: the deliverer, the notices to admins and the upkeep of the log. */
import { openHttpClient } from "../net/http-client.ts";
import type { Core } from "../store/core.ts";
import { createDeliverer } from "./deliverer.ts";
import { trimWebhookLog } from "./delivery-log.ts";
import { type TellAdmins, tellDisabledEndpoints } from "./endpoints.ts";

/** `mostConnections`: requests to receivers at once at most, and idle connections. */
export function createWebhooks(
  core: Core,
  { notifyAdmins, mostConnections }: { notifyAdmins: TellAdmins; mostConnections: number },
) {
  const { options, runtime } = core;
  const none: readonly string[] = [];
  const allow = () => {
    const networks = options.get("webhooks.allowNetworks");
    return networks === "none" ? none : networks;
  };
  const http = openHttpClient({ runtime, allow, mostIdle: mostConnections });
  const { job, ...deliverer } = createDeliverer(core, { http, mostSlots: mostConnections });
  return { ...deliverer, jobs: [job, tellDisabledEndpoints(core, notifyAdmins), trimWebhookLog(core)] };
}
