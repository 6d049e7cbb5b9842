/** What a check is: it looks at one thing and says what it found. A new one is a file in checks/ and a line in all.ts. */

import type { Domains } from "../admin/domains.ts";
import type { Runtime } from "../base/runtime.ts";
import type { Config } from "../config.ts";
import type { Options } from "../store/settings.ts";
import type { Store } from "../store/store.ts";
import type { System } from "./system.ts";

/** `bad` needs doing something now; `warning` should be known; `unknown` could not be found out, and tells nothing. */
export type State = "ok" | "warning" | "bad" | "unknown";

export interface Finding {
  /** Stable, for scripts and for telling when one turns: `disk`, `mx:example.com`. */
  id: string;
  name: string;
  state: State;
  /** What was found, in a sentence without its full stop. */
  detail: string;
  /** What to do; where something is wrong. */
  todo?: string;
}

/** What checks may look at. */
export interface World {
  config: Config;
  store: Store;
  options: Pick<Options, "get">;
  domains: Pick<Domains, "listDomains" | "seeRecords">;
  runtime: Pick<Runtime, "now" | "dns" | "setTimer" | "fetch">;
  system: System;
  /** A server runs on the data folder. */
  serving: boolean;
}

/** Changes nothing. What it throws is a finding of its own: it could not be found out. */
export type Check = (world: World) => Finding[] | Promise<Finding[]>;
