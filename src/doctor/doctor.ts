/** The doctor of one appliance: asked by hand, and once a day by itself. */

import type { Log } from "../log.ts";
import { isClaimed } from "../store/claim.ts";
import type { Check, Finding, World } from "./check.ts";
import { CHECKS, examine } from "./examine.ts";
import { operatingSystem, type System } from "./system.ts";
import { createWatch, type Watch, type WatchParts } from "./watch.ts";

/** For tests. */
export interface DoctorOptions {
  system?: System;
  /** By name. */
  checks?: Readonly<Record<string, Check>>;
}

export interface Doctor {
  /** Never rejects. */
  examine(): Promise<Finding[]>;
  /** Looks daily. */
  watch(parts: Pick<WatchParts, "notifyAdmins" | "operators">): Watch;
}

export function createDoctor(
  { log, ...parts }: Omit<World, "system" | "serving"> & { log: Log },
  { system = operatingSystem, checks = CHECKS }: DoctorOptions = {},
): Doctor {
  const folder = parts.config.data;
  const look = () => examine({ ...parts, system, serving: isClaimed(folder) }, checks);
  return { examine: look, watch: (rest) => createWatch({ ...rest, folder, examine: look, log }) };
}
