/**
 * The doctor of one appliance: lists the checks, and runs them on request and once a day.
 *
 * Invariant: one examination at a time. A request during an examination gets its findings.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { writeText } from "../backup/durable-files.ts";
import type { Log } from "../base/log.ts";
import type { NotifyAdmins } from "../outbound/notices.ts";
import { isDataFolderClaimed } from "../store/claim.ts";
import type { Check, Finding, World } from "./check.ts";
import { checkBlobBytes } from "./checks/blob-bytes.ts";
import { checkBlobs } from "./checks/blob-checks.ts";
import { checkBackup, checkClock, checkDisk, checkOpenFiles, checkPermissions, checkSchema } from "./checks/machine.ts";
import {
  checkDomains,
  checkMailApps,
  checkOutbound,
  checkQueue,
  checkQuotas,
  checkWorkspaces,
} from "./checks/mail-checks.ts";
import { checkCertificate, checkListeners, checkReverseDns } from "./checks/network.ts";
import { checkReplica } from "./checks/replica.ts";
import { checkRestored } from "./checks/restored.ts";
import { checkSearchEngine, checkSearchIndex } from "./checks/search-checks.ts";
import { checkStandby } from "./checks/standby-checks.ts";
import { operatingSystem, type System } from "./system.ts";

/** For tests. */
export interface DoctorOptions {
  system?: System;
  /** Checks by name. */
  checks?: Readonly<Record<string, Check>>;
}

/** The findings of an examination. `at`: when it began, epoch ms. */
interface Look {
  at: number;
  findings: Finding[];
}

/** Results that the doctor has without another examination. */
export interface Known {
  /** The examination under way: its number of checks, and the names of those still running. */
  running: { checks: number; waitingFor: string[] } | undefined;
  /** The last examination in this process. */
  last: Look | undefined;
  /** The last daily examination, of this process or an earlier one. */
  daily: Look | undefined;
}

export type Doctor = ReturnType<typeof createDoctor>;

export function createDoctor(
  parts: Omit<World, "system" | "serving">,
  { system = operatingSystem, checks = CHECKS }: DoctorOptions = {},
) {
  const folder = parts.config.data;
  const waitingFor = new Set<string>();
  let running: Promise<Finding[]> | undefined;
  let last: Look | undefined;

  async function look(): Promise<Finding[]> {
    const at = parts.runtime.now();
    for (const name of Object.keys(checks)) waitingFor.add(name);
    const world: World = {
      ...parts,
      system,
      // Read by each check that asks, so that a lock that cannot be read fails those checks and not the examination.
      get serving() {
        return isDataFolderClaimed(folder);
      },
    };
    const findings = await runDoctorChecks(world, checks, (name) => waitingFor.delete(name));
    last = { at, findings };
    running = undefined;
    return findings;
  }

  function examineOnce(): Promise<Finding[]> {
    running ??= look();
    return running;
  }

  return {
    /** Never rejects. */
    examine: examineOnce,
    known: async (): Promise<Known> => ({
      running: running && { checks: Object.keys(checks).length, waitingFor: [...waitingFor] },
      last,
      daily: (await readStoredFindings(folder)).last,
    }),
    /** Makes the daily examination. */
    watch: (rest: Pick<Watching, "notifyAdmins" | "operators">) =>
      createDailyExamination({ ...rest, folder, examine: examineOnce, log: parts.log }),
  };
}

/** The checks of a standby, which has neither mail to move nor names that lead to it. */
export const STANDBY_CHECKS: Readonly<Record<string, Check>> = {
  disk: checkDisk,
  clock: checkClock,
  permissions: checkPermissions,
  listeners: checkListeners,
  "open-files": checkOpenFiles,
  certificate: checkCertificate,
  standby: checkStandby,
};

/** All checks by name, in the order of their findings. */
const CHECKS: Readonly<Record<string, Check>> = {
  disk: checkDisk,
  clock: checkClock,
  permissions: checkPermissions,
  schema: checkSchema,
  search: checkSearchIndex,
  "search-engine": checkSearchEngine,
  replica: checkReplica,
  listeners: checkListeners,
  "open-files": checkOpenFiles,
  certificate: checkCertificate,
  outbound: checkOutbound,
  "reverse-dns": checkReverseDns,
  domains: checkDomains,
  queue: checkQueue,
  quotas: checkQuotas,
  restore: checkRestored,
  "mail-apps": checkMailApps,
  workspaces: checkWorkspaces,
  backup: checkBackup,
  blobs: checkBlobs,
  "blob-bytes": checkBlobBytes,
};

/**
 * Runs all checks at the same time. Never rejects: a check that fails is a finding. `onMade`: called after each check.
 */
export async function runDoctorChecks(
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

/*
 * The daily examination of a running server. It mails the admins when a finding turns bad, and again when it is well. A
 * small file beside the database keeps the findings and their time, so that a restart repeats no mail. A finding with
 * the state `unknown` changes nothing.
 */

const DAY_MS = 24 * 3_600_000;
/** The first examination waits for DNS, certificates and the clock to come up. */
const FIRST_MS = 15 * 60_000;
/** In the data folder. */
const FINDINGS_FILE = "doctor.json";

interface StoredFindings {
  last?: Look;
  /** Names of the findings that were mailed as bad, by id. */
  bad?: Record<string, string>;
}

async function readStoredFindings(folder: string): Promise<StoredFindings> {
  try {
    return JSON.parse(await readFile(join(folder, FINDINGS_FILE), "utf8")) as StoredFindings;
  } catch {
    return {};
  }
}

interface Watching {
  /** The data folder. */
  folder: string;
  examine(): Promise<Finding[]>;
  notifyAdmins: NotifyAdmins;
  /** Id of the workspace whose admins run the server; undefined while there is none. */
  operators(): string | undefined;
  log: Log;
}

export function createDailyExamination({ folder, examine, notifyAdmins, operators, log }: Watching) {
  const { promise: stopping, resolve: stop } = Promise.withResolvers<undefined>();
  let next: number | undefined;

  async function look(now: number): Promise<void> {
    const findings = await Promise.race([examine(), stopping]);
    if (findings === undefined) return;
    const { bad: before = {} } = await readStoredFindings(folder);
    const turned = findings.filter(({ id, state }) => state === "bad" && before[id] === undefined);
    const well = findings.filter(({ id, state }) => isWell(state) && before[id] !== undefined);
    for (const { id, detail } of turned) log.warn("turned bad", { finding: id, detail });
    for (const { id, detail } of well) log.info("well again", { finding: id, detail });
    const workspaceId = turned.length + well.length > 0 ? operators() : undefined;
    if (workspaceId !== undefined) await notifyAdmins({ workspaceId, ...writeFindingsNotice(turned, well) }, () => {});
    const still = Object.entries(before).filter(([id]) => !well.some((finding) => finding.id === id));
    const bad = Object.fromEntries([...still, ...turned.map(({ id, name }) => [id, name] as const)]);
    const stored: StoredFindings = { last: { at: now, findings }, bad };
    await writeText(join(folder, FINDINGS_FILE), `${JSON.stringify(stored)}\n`);
  }

  async function runDue(now: number, wasAhead?: boolean): Promise<number> {
    if (wasAhead) next = undefined;
    next ??= now + FIRST_MS;
    if (now < next) return next;
    next = now + DAY_MS;
    await look(now);
    return next;
  }
  return {
    job: { name: "doctor", runDue },
    /** Abandons an examination under way: a mail server that does not answer would delay the stop. */
    stop: (): void => stop(undefined),
  };
}

const isWell = (state: Finding["state"]): boolean => state === "ok" || state === "warning";

function writeFindingsNotice(turned: readonly Finding[], well: readonly Finding[]): { subject: string; text: string } {
  const [first, ...others] = turned.length > 0 ? turned : well;
  const more = others.length > 0 ? ` and ${others.length} more` : "";
  const subject = `${first?.name}${more}: ${turned.length > 0 ? "needs attention" : "well again"}`;
  const paragraphs = [
    ...turned.map(({ name, detail, todo }) => `${name}: ${detail}.\n${todo ?? ""}`.trimEnd()),
    ...well.map(({ name, detail }) => `${name} is well again: ${detail}.`),
    "The server looks at this once a day and tells you when something turns. To look now: mailroom doctor",
  ];
  return { subject, text: paragraphs.join("\n\n") };
}
