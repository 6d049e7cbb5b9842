/** Helpers that every part of the benchmark uses: figures and how they are printed, timings, and a place to serve from. */
import type { Database } from "bun:sqlite";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Place, run, runJson } from "../harness/servers/process.ts";

export const ROOT = join(import.meta.dir, "../..");
export const ADDRESS = "owner@example.test";
export const folder = mkdtempSync(join(tmpdir(), "mailroom-bench-"));
process.on("exit", () => rmSync(folder, { recursive: true, force: true }));

export interface Figure {
  figure: string;
  value: number;
  unit: string;
  /** Value of the same work without Mailroom; value / floor is printed, too. */
  floor?: number;
  /** Value of the same work by another server. */
  peer?: number;
  /** Ratio from several turns beside the peer, instead of value / peer. */
  ratio?: number;
  toReach?: string;
}

const round = (value: number): number => Number(value.toPrecision(4));

export function print({ figure, value, unit, floor, peer, ratio, toReach }: Figure): void {
  const [other] = Object.entries({ floor, peer }).filter((entry) => entry[1] !== undefined) as [string, number][];
  const beside = other && { [other[0]]: round(other[1]), ratio: round(ratio ?? value / other[1]) };
  console.log(
    JSON.stringify({ figure, value: round(value), unit, ...beside, ...(toReach === undefined ? {} : { toReach }) }),
  );
}

const percentile = (sorted: readonly number[], p: number): number =>
  sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * p))] as number;
export const median = (values: readonly number[]): number => quantiles(values)[0];

type Quantiles = [median: number, p99: number];

export function quantiles(values: readonly number[]): Quantiles {
  const sorted = values.toSorted((a, b) => a - b);
  return [percentile(sorted, 0.5), percentile(sorted, 0.99)];
}

/** Runs each of `works` in turn, `times` times, warm, and returns [median, p99] of each in ms. */
export async function timingsInTurn(
  works: readonly (() => unknown)[],
  times: number,
  warmUp: number,
): Promise<Quantiles[]> {
  const taken = works.map((): number[] => []);
  for (let i = -warmUp; i < times; i++) {
    for (const [n, work] of works.entries()) {
      const started = performance.now();
      await work();
      if (i >= 0) taken[n]?.push(performance.now() - started);
    }
  }
  return taken.map(quantiles);
}

/** Runs `work` `times` times, warm, and returns [median, p99] in ms. */
export async function timings(work: () => unknown, times = 500, warmUp = 50): Promise<Quantiles> {
  const [of] = await timingsInTurn([work], times, warmUp);
  return of as Quantiles;
}

/** The text with some letters in upper case, by the bits of `n`: to the index the same, but not what was asked before. */
export const written = (text: string, n: number): string =>
  [...text].map((letter, i) => (i < 7 && n & (1 << i) ? letter.toUpperCase() : letter)).join("");

export const residentMB = (pid: number): number => {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
};

/** Processor time in ms, in steps of 10, that a process and its children that have ended have used. */
export function cpuMs(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // proc(5): utime, stime, cutime and cstime.
  const times = stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 15);
  return times.reduce((sum, time) => sum + Number(time), 0) * 10;
}

/** A process and those that it started and that run. */
export function familyOf(pid: number): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim();
  return [pid, ...children.split(" ").filter(Boolean).map(Number).flatMap(familyOf)];
}

export async function newPlace(
  name: string,
): Promise<{ place: Place; apiKey: string; mailboxId: string; workspaceId: string }> {
  const place: Place = {
    data: join(folder, name),
    cwd: folder,
    env: { MAILROOM_LOG: "warn" },
    program: [join(ROOT, "dist/mailroom")],
  };
  const made = await runJson<{ apiKey: string; mailboxId: string; workspaceId: string }>(
    place,
    "setup",
    "--domain",
    "example.test",
    "--email",
    ADDRESS,
    "--name",
    "Owner",
  );
  await runJson(place, "domain", "verify", "example.test", "--skip-dns");
  for (const [name, value] of [
    ["api.ipRequestsPerMinute", 1e9],
    ["api.keyRequestsPerMinute", 1e9],
    ["storage.mailboxBytes", 2 ** 40],
  ]) {
    const { exitCode, stderr } = await run(place, ["settings", "set", String(name), String(value)]);
    if (exitCode !== 0) throw new Error(stderr);
  }
  return { place, ...made };
}

/** Waits until the server has nothing left to merge in its index after so much mail at once: until it writes no more. */
export async function settled(sqlite: Database): Promise<void> {
  const version = (): unknown => sqlite.query("PRAGMA data_version").get();
  for (let last = version(), quiet = 0; quiet < 120; quiet++) {
    await Bun.sleep(100);
    const now = version();
    if (JSON.stringify(now) !== JSON.stringify(last)) quiet = 0;
    last = now;
  }
}
