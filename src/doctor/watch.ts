/**
 * The daily examination of a running server. It mails the admins when a finding turns bad, and again when it is well. A
 * small file beside the database keeps the findings and their time, so that a restart repeats no mail. A finding with the
 * state `unknown` changes nothing.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { writeText } from "../backup/files.ts";
import type { Log } from "../base/log.ts";
import type { Job } from "../base/scheduler.ts";
import type { NotifyAdmins } from "../outbound/notices.ts";
import type { Finding } from "./check.ts";

export interface WatchParts {
  /** The data folder. */
  folder: string;
  examine(): Promise<Finding[]>;
  notifyAdmins: NotifyAdmins;
  /** Id of the workspace whose admins run the server; undefined while there is none. */
  operators(): string | undefined;
  log: Log;
}

const DAY_MS = 24 * 3_600_000;
/** The first examination waits for DNS, certificates and the clock to come up. */
const FIRST_MS = 15 * 60_000;
/** In the data folder. */
const FINDINGS_FILE = "doctor.json";

/** The findings of an examination. `at`: when it began, epoch ms. */
export interface Look {
  at: number;
  findings: Finding[];
}

interface Kept {
  last?: Look;
  /** Names of the findings that were mailed as bad, by id. */
  bad?: Record<string, string>;
}

async function readKept(folder: string): Promise<Kept> {
  try {
    return JSON.parse(await readFile(join(folder, FINDINGS_FILE), "utf8")) as Kept;
  } catch {
    return {};
  }
}

/** The last daily examination, of this process or an earlier one. `folder`: the data folder. */
export const readLastLook = async (folder: string): Promise<Look | undefined> => (await readKept(folder)).last;

export interface Watch {
  job: Job;
  /** Abandons an examination under way: a mail server that does not answer would delay the stop. */
  stop(): void;
}

export function createWatch({ folder, examine, notifyAdmins, operators, log }: WatchParts): Watch {
  const { promise: stopping, resolve: stop } = Promise.withResolvers<undefined>();
  let next: number | undefined;

  async function look(now: number): Promise<void> {
    const findings = await Promise.race([examine(), stopping]);
    if (findings === undefined) return;
    const { bad: before = {} } = await readKept(folder);
    const turned = findings.filter(({ id, state }) => state === "bad" && before[id] === undefined);
    const well = findings.filter(({ id, state }) => isWell(state) && before[id] !== undefined);
    for (const { id, detail } of turned) log.warn("turned bad", { finding: id, detail });
    for (const { id, detail } of well) log.info("well again", { finding: id, detail });
    const workspaceId = turned.length + well.length > 0 ? operators() : undefined;
    if (workspaceId !== undefined) await notifyAdmins({ workspaceId, ...noticeOf(turned, well) }, () => {});
    const still = Object.entries(before).filter(([id]) => !well.some((finding) => finding.id === id));
    const bad = Object.fromEntries([...still, ...turned.map(({ id, name }) => [id, name] as const)]);
    const kept: Kept = { last: { at: now, findings }, bad };
    await writeText(join(folder, FINDINGS_FILE), `${JSON.stringify(kept)}\n`);
  }

  async function runDue(now: number, wasAhead?: boolean): Promise<number> {
    if (wasAhead) next = undefined;
    next ??= now + FIRST_MS;
    if (now < next) return next;
    next = now + DAY_MS;
    await look(now);
    return next;
  }
  return { job: { name: "doctor", runDue }, stop: () => stop(undefined) };
}

const isWell = (state: Finding["state"]): boolean => state === "ok" || state === "warning";

function noticeOf(turned: readonly Finding[], well: readonly Finding[]): { subject: string; text: string } {
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
