/** Changes the settings of a data folder without a command. */
import { systemRuntime } from "../../../src/base/runtime.ts";
import { openOptions } from "../../../src/store/settings.ts";
import { openStore } from "../../../src/store/store.ts";

/** Settings with which tests ask and send as fast as they can. */
export const WITHOUT_LIMITS = {
  "api.ipRequestsPerMinute": "1000000",
  "api.keyRequestsPerMinute": "1000000",
  "sending.mailboxPerHour": "1000000",
  "sending.workspacePerHour": "1000000",
  "sending.warmup": "off",
};

/** Changes settings as commands do, without their cost. */
export function settle({ data }: { data: string }, settings: Record<string, string>): void {
  const store = openStore({ folder: data, runtime: systemRuntime() });
  const options = openOptions(store);
  store.transact((tx) => {
    for (const [name, value] of Object.entries(settings)) options.set(tx, name, value);
  });
  store.close();
}
