/** The interface of the doctor's checks. A new check goes into a file of checks/ and into the list in doctor.ts. */

import type { Config } from "../config.ts";
import type { Core } from "../store/core.ts";
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
  /** Advice when something is wrong. */
  todo?: string;
}

/** Everything that checks may look at. */
export interface World extends Core {
  config: Config;
  system: System;
  /** A server runs on the data folder. */
  serving: boolean;
}

/** Looks at one thing and changes nothing. An exception becomes a finding with the state `unknown`. */
export type Check = (world: World) => Finding[] | Promise<Finding[]>;
