/** The interface of the doctor's checks. A new check goes into a file of checks/ and into the list in doctor.ts. */

import type { Domains } from "../admin/domains.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Config } from "../config.ts";
import type { Options } from "../store/settings.ts";
import type { Store } from "../store/store.ts";
import type { System } from "./system.ts";

/** `bad` needs action now; `warning` is worth knowing; `unknown`: the check could not find out. */
export type State = "ok" | "warning" | "bad" | "unknown";

export interface Finding {
  /** Stable, for scripts and to notice changes: `disk`, `mx:example.com`. */
  id: string;
  name: string;
  state: State;
  /** The finding, a sentence without its full stop. */
  detail: string;
  /** What to do when something is wrong. */
  todo?: string;
}

/** Everything that checks may look at. */
export interface World {
  config: Config;
  store: Store;
  options: Pick<Options, "get">;
  domains: Pick<Domains, "listDomains" | "seeRecords">;
  runtime: Pick<Runtime, "now" | "dns" | "setTimer" | "fetch" | "randomBytes" | "authorities">;
  system: System;
  /** A server runs on the data folder. */
  serving: boolean;
}

/** Looks at one thing and changes nothing. An exception becomes a finding with the state `unknown`. */
export type Check = (world: World) => Finding[] | Promise<Finding[]>;
