/**
 * `mailroom serve` with Meilisearch as a child process: always with the stand-in, and with the real server if
 * MEILISEARCH_BIN names it.
 */
import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { readProcessState } from "../../../src/base/child-process.ts";
import type { World } from "../../../src/doctor/check.ts";
import { checkSearchEngine } from "../../../src/doctor/checks/search-checks.ts";
import type { StoredState } from "../../../src/search/meilisearch/process.ts";
import { settle } from "../../harness/data/settle.ts";
import { temporaryFolder } from "../../harness/folder.ts";
import { argumentsOf, isAlive, makeStandIn, supervise } from "../../harness/peers/meilisearch-stand-in.ts";
import { fakeRuntime } from "../../harness/runtime.ts";
import { type Served, serve } from "../../harness/servers/process.ts";
import { until as untilSo } from "../../harness/until.ts";

const REAL = process.env.MEILISEARCH_BIN;
const noReal = REAL === undefined ? " (skipped: MEILISEARCH_BIN names no server; .ci/run brings one)" : "";

/** Polls until the server's stored state of the process matches. */
async function until(
  served: Served,
  data: string,
  isSo: (state: StoredState | undefined) => boolean,
): Promise<StoredState> {
  let state: StoredState | undefined;
  await untilSo(async () => {
    await fetch(`${served.http}/healthz`);
    state = readProcessState<StoredState>(join(data, "search"));
    return isSo(state);
  });
  return state ?? { state: "off", restarts: 0 };
}

const isRunning = (state?: StoredState): boolean => state?.state === "running";

const SETTINGS = { "search.engine": "meilisearch", "search.meilisearchUrl": "none" };
const settingsOf = (path: string) => ({
  get: (name: string) => ({ ...SETTINGS, "search.meilisearchPath": path })[name],
});

function journey(executable: () => string): void {
  test("it runs exactly while the server runs", async () => {
    const data = temporaryFolder();
    settle({ data }, { "search.engine": "meilisearch", "search.meilisearchPath": executable() });
    let served = await serve({ data });
    const first = await until(served, data, isRunning);
    const { url = "", key = "" } = first.place ?? {};
    expect((await fetch(`${url}/health`)).status).toBe(200);
    expect((await fetch(`${url}/stats`)).ok).toBe(false);
    expect((await fetch(`${url}/stats`, { headers: { authorization: `Bearer ${key}` } })).status).toBe(200);
    expect(argumentsOf(first.pid).join(" ")).not.toContain(key);

    const world = {
      config: { data },
      options: settingsOf(executable()),
      runtime: fakeRuntime({ fetch }),
      serving: true,
    };
    expect(await checkSearchEngine(world as unknown as World)).toMatchObject([
      { state: "ok", detail: expect.stringMatching(/^version \d+\.\d+\.\d+ answers \(process \d+\), and takes/) },
    ]);

    await served.kill("SIGKILL");
    await untilSo(() => !isAlive(first.pid));
    served = await serve({ data });
    const second = await until(served, data, (state) => isRunning(state) && state?.pid !== first.pid);
    expect(second.place?.key).not.toBe(key);

    expect(await served.kill("SIGTERM")).toBe(0);
    expect(isAlive(second.pid)).toBe(false);
    expect(served.stderr()).not.toContain(second.place?.key ?? "-");
  });

  test("switched on and off by another process while the server runs", async () => {
    const data = temporaryFolder();
    const served = await serve({ data });
    settle({ data }, { "search.meilisearchPath": executable(), "search.engine": "meilisearch" });
    const { pid } = await until(served, data, isRunning);
    settle({ data }, { "search.engine": "fts5" });
    await until(served, data, () => !existsSync(join(data, "search")));
    expect(isAlive(pid)).toBe(false);
    await served.kill("SIGTERM");
  });
}

describe("the stand-in", () => journey(() => makeStandIn(temporaryFolder()).path));

describe.skipIf(REAL === undefined)(`the real server${noReal}`, () => {
  const executable = REAL ?? "";
  journey(() => executable);

  test("it serves searches; while it is down, the embedded index does", async () => {
    const data = temporaryFolder();
    const rates = { "api.ipRequestsPerMinute": "1000000", "api.keyRequestsPerMinute": "1000000" };
    settle({ data }, { "search.engine": "meilisearch", "search.meilisearchPath": executable, ...rates });
    const served = await serve({ data }, "--demo");
    const answering = (who: RegExp): Promise<void> =>
      untilSo(async () => {
        const { search } = (await (await fetch(`${served.http}/healthz`)).json()) as { search: string };
        return who.test(search);
      });
    const [apiKey] = /mr_\w+/.exec(served.stderr()) ?? [];
    const found = async (): Promise<number> => {
      const headers = { authorization: `Bearer ${apiKey}` };
      const answer = await fetch(`${served.http}/api/v1/search?q=invoice`, { headers });
      return ((await answer.json()) as { threads: unknown[] }).threads.length;
    };
    const before = await found();
    expect(before).toBeGreaterThan(0);
    await answering(/^meilisearch$/);
    expect(await found()).toBe(before);
    const first = readProcessState<StoredState>(join(data, "search"));
    if (first?.pid === undefined) throw new Error("nothing runs");
    process.kill(first.pid, "SIGKILL");
    for (
      let now = first;
      !isRunning(now) || now.pid === first.pid;
      now = readProcessState<StoredState>(join(data, "search")) ?? first
    ) {
      expect(await found()).toBe(before);
    }
    await answering(/^meilisearch$/);
    expect(await found()).toBe(before);
    expect(await served.kill("SIGTERM")).toBe(0);
  });

  async function started() {
    const rig = supervise({ "search.meilisearchPath": executable });
    rig.supervisor.start();
    await rig.until(() => rig.supervisor.state().state === "running");
    const database = join(rig.data, "search/data");
    /** Stops it, changes its data, and starts one with them. */
    const startWith = async (change: () => void) => {
      await rig.supervisor.stop(60_000);
      change();
      const next = supervise({ "search.meilisearchPath": executable }, rig.data);
      next.supervisor.start();
      await next.passing(() => next.supervisor.state().state === "running");
      return next;
    };
    return { ...rig, database, startWith };
  }

  /** Creates an index, by which its data are recognised. */
  async function addIndex({ current }: { current(): { url: string; key: string } | undefined }): Promise<void> {
    const { url, key } = current() ?? { url: "", key: "" };
    const headers = { authorization: `Bearer ${key}`, "content-type": "application/json" };
    const asked = await fetch(`${url}/indexes`, { method: "POST", headers, body: '{"uid":"mark","primaryKey":"id"}' });
    const { taskUid } = (await asked.json()) as { taskUid: number };
    for (let status = ""; status !== "succeeded"; ) {
      ({ status } = (await (await fetch(`${url}/tasks/${taskUid}`, { headers })).json()) as { status: string });
    }
  }

  async function indexes({ current }: { current(): { url: string; key: string } | undefined }): Promise<string[]> {
    const { url, key } = current() ?? { url: "", key: "" };
    const answer = await fetch(`${url}/indexes`, { headers: { authorization: `Bearer ${key}` } });
    return ((await answer.json()) as { results: { uid: string }[] }).results.map(({ uid }) => uid);
  }

  test("keeps its data under another key", async () => {
    const rig = await started();
    await addIndex(rig.supervisor);
    const next = await rig.startWith(() => {});
    expect(await indexes(next.supervisor)).toEqual(["mark"]);
  });

  const damages: [name: string, damage: (database: string) => void][] = [
    ["data of another version", (database) => writeFileSync(join(database, "VERSION"), "1.20.0")],
    ["data without a version", (database) => truncateSync(join(database, "VERSION"))],
    ["data cut off", (database) => truncateSync(join(database, "tasks/data.mdb"), 4_096)],
    ["data written over", (database) => writeFileSync(join(database, "tasks/data.mdb"), Buffer.alloc(40_000, 7))],
  ];
  test.each(damages)("%s: it starts over", async (_, damage) => {
    const rig = await started();
    await addIndex(rig.supervisor);
    const version = readFileSync(join(rig.database, "VERSION"), "utf8");
    const next = await rig.startWith(() => damage(rig.database));
    expect(await indexes(next.supervisor)).toEqual([]);
    expect(readFileSync(join(rig.database, "VERSION"), "utf8")).toBe(version);
  });
});
