/**
 * The doctor of one appliance: runs all checks on request and once a day, and lists the checks.
 *
 * Invariant: one examination at a time. A request during an examination gets its findings.
 */
import type { Log } from "../base/log.ts";
import { isClaimed } from "../store/claim.ts";
import type { Check, Finding, World } from "./check.ts";
import { checkBackup, checkClock, checkDisk, checkOpenFiles, checkPermissions, checkSchema } from "./checks/machine.ts";
import { checkDomains, checkOutbound, checkQueue } from "./checks/mail.ts";
import { checkCertificate, checkListeners, checkReverseDns } from "./checks/network.ts";
import { checkSearchEngine, checkSearchIndex } from "./checks/search.ts";
import { operatingSystem, type System } from "./system.ts";
import { createWatch, type Look, readLastLook, type Watch, type WatchParts } from "./watch.ts";

/** For tests. */
export interface DoctorOptions {
  system?: System;
  /** By name. */
  checks?: Readonly<Record<string, Check>>;
}

/** What the doctor knows without another examination. */
export interface Known {
  /** The examination under way: its number of checks, and the names of those still running. */
  running: { checks: number; waitingFor: string[] } | undefined;
  /** The last examination in this process. */
  last: Look | undefined;
  /** The last daily examination. */
  daily: Look | undefined;
}

export interface Doctor {
  /** Never rejects. */
  examine(): Promise<Finding[]>;
  known(): Promise<Known>;
  /** Makes the daily examination. */
  watch(parts: Pick<WatchParts, "notifyAdmins" | "operators">): Watch;
}

export function createDoctor(
  { log, ...parts }: Omit<World, "system" | "serving"> & { log: Log },
  { system = operatingSystem, checks = CHECKS }: DoctorOptions = {},
): Doctor {
  const folder = parts.config.data;
  const waitingFor = new Set<string>();
  let running: Promise<Finding[]> | undefined;
  let last: Look | undefined;

  async function look(): Promise<Finding[]> {
    const at = parts.runtime.now();
    for (const name of Object.keys(checks)) waitingFor.add(name);
    const world = { ...parts, system, serving: isClaimed(folder) };
    const findings = await examine(world, checks, (name) => waitingFor.delete(name));
    last = { at, findings };
    running = undefined;
    return findings;
  }

  function examineOnce(): Promise<Finding[]> {
    running ??= look();
    return running;
  }

  return {
    examine: examineOnce,
    known: async () => ({
      running: running && { checks: Object.keys(checks).length, waitingFor: [...waitingFor] },
      last,
      daily: await readLastLook(folder),
    }),
    watch: (rest) => createWatch({ ...rest, folder, examine: examineOnce, log }),
  };
}

/** All checks by name, in the order of their findings. */
const CHECKS: Readonly<Record<string, Check>> = {
  disk: checkDisk,
  clock: checkClock,
  permissions: checkPermissions,
  schema: checkSchema,
  search: checkSearchIndex,
  "search-engine": checkSearchEngine,
  listeners: checkListeners,
  "open-files": checkOpenFiles,
  certificate: checkCertificate,
  outbound: checkOutbound,
  "reverse-dns": checkReverseDns,
  domains: checkDomains,
  queue: checkQueue,
  backup: checkBackup,
};

/** Runs all checks at the same time. Never rejects: a check that fails is a finding. `onMade`: called after each check. */
export async function examine(
  world: World,
  checks: Readonly<Record<string, Check>> = CHECKS,
  onMade: (check: string) => void = () => {},
): Promise<Finding[]> {
  const found = await Promise.all(
    Object.entries(checks).map(async ([id, check]): Promise<Finding[]> => {
      try {
        return await check(world);
      } catch (error) {
        const reason = error instanceof Error ? error.message : String(error);
        return [{ id, name: `The check "${id}"`, state: "unknown", detail: `it could not be made: ${reason}` }];
      } finally {
        onMade(id);
      }
    }),
  );
  return found.flat();
}
