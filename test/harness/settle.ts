/** Changes the settings of a data folder without a command. */
import { openOptions } from "../../src/store/settings.ts";
import { openStore } from "../../src/store/store.ts";
import { fakeRuntime } from "./runtime.ts";

/** Changes settings as commands do, without their cost. */
export function settle({ data }: { data: string }, settings: Record<string, string>): void {
  const store = openStore({ folder: data, runtime: fakeRuntime() });
  const options = openOptions(store);
  store.transact((tx) => {
    for (const [name, value] of Object.entries(settings)) options.set(tx, name, value);
  });
  store.close();
}
