/** The finding about Meilisearch: the process beside a server, the executable without one, or another server. */
import { describe, expect, test } from "bun:test";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { keepProcessState } from "../../src/base/child-process.ts";
import type { World } from "../../src/doctor/check.ts";
import { checkSearchEngine } from "../../src/doctor/checks/search-checks.ts";
import type { StoredState } from "../../src/search/meilisearch/process.ts";
import { atEndOfFile } from "../harness/end.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { makeStandIn } from "../harness/peers/meilisearch-stand-in.ts";
import { fakeRuntime, START } from "../harness/runtime.ts";

const KEY = "a-key";
const servers: Bun.Server<undefined>[] = [];
atEndOfFile(() => {
  for (const server of servers.splice(0)) void server.stop(true);
});

/** A server that tells its size to clients with the key, or responds as `answer` does. */
function listen(answer?: () => Response): string {
  const server = Bun.serve({
    hostname: "127.0.0.1",
    port: 0,
    fetch: (request) => {
      if (answer) return answer();
      const isKnown = request.headers.get("authorization") === `Bearer ${KEY}`;
      return isKnown ? Response.json({ databaseSize: 4_560_000 }) : new Response(null, { status: 403 });
    },
  });
  servers.push(server);
  return `http://127.0.0.1:${server.port}`;
}

interface Situation {
  settings?: Record<string, string>;
  /** The state file of a running server; undefined if none runs. */
  kept?: StoredState;
}

async function look({ settings = {}, kept }: Situation) {
  const data = temporaryFolder();
  if (kept) {
    mkdirSync(join(data, "search"));
    keepProcessState(join(data, "search"), kept);
  }
  const values: Record<string, string> = {
    ...{ "search.engine": "meilisearch", "search.meilisearchPath": "auto" },
    ...{ "search.meilisearchUrl": "none", "search.meilisearchKey": "none", ...settings },
  };
  const world = {
    config: { data },
    options: { get: (name: string) => values[name] },
    runtime: fakeRuntime({ fetch }),
    serving: kept !== undefined,
  } as unknown as World;
  return checkSearchEngine(world);
}

const running = (url: string, key = KEY): StoredState => ({
  ...{ state: "running", executable: "/bin/meilisearch", version: "1.21.0", pid: 7, restarts: 0 },
  place: { url, key },
});

test("no finding while the engine is the embedded one", async () => {
  expect(await look({ settings: { "search.engine": "fts5" } })).toEqual([]);
});

describe("the server's Meilisearch process", () => {
  const nowhere = "http://127.0.0.1:1";
  const cases: [name: string, kept: StoredState, state: string, detail: RegExp][] = [
    ["answers", running(listen()), "ok", /^version 1\.21\.0 answers \(process 7\), and takes 4\.6 MB of disk$/],
    ["often started", { ...running(listen()), restarts: 4 }, "ok", /\(process 7, started again 4 times\)/],
    ["does not answer", running(nowhere), "bad", /^process 7 \(version 1\.21\.0\) does not answer: /],
    ["starting", { state: "starting", restarts: 0 }, "warning", /^it is starting$/],
    [
      "failed",
      { state: "failed", reason: "it ended (exit 1)", restarts: 2, retryAt: START },
      "bad",
      /^it does not run: it ended \(exit 1\); it is tried again at 2026-01-05T09:00:00\.000Z$/,
    ],
  ];
  test.each(cases)("%s", async (_, kept, state, detail) => {
    const [finding] = await look({ kept });
    expect(finding).toMatchObject({ id: "search-engine", state, detail: expect.stringMatching(detail) });
    if (state === "bad") expect(finding?.todo).toMatch(/journalctl/);
    expect(JSON.stringify(finding)).not.toContain(KEY);
  });
});

test("without a server, the check finds the executable", async () => {
  expect(await look({})).toMatchObject([{ state: "bad", detail: expect.stringMatching(/^there is no Meilisearch: /) }]);
  const { path } = makeStandIn(temporaryFolder());
  expect(await look({ settings: { "search.meilisearchPath": path } })).toMatchObject([
    { state: "ok", detail: `${path} is version 1.21.0; it runs while the server does` },
  ]);
});

describe("another's server", () => {
  const cases: [name: string, url: string, key: string, state: string, detail: RegExp][] = [
    ["answers", listen(), KEY, "ok", /^http:\S+ answers, and takes 4\.6 MB of disk$/],
    ["refuses the key", listen(), "another", "bad", /cannot be used: it refuses the key$/],
    ["is something else", listen(() => new Response("hello")), KEY, "bad", /cannot be used: /],
    ["has no such page", listen(() => new Response("", { status: 404 })), KEY, "bad", /\(404\) is no Meilisearch$/],
    [
      "sends elsewhere",
      listen(() => Response.redirect("http://127.0.0.1:1/")),
      KEY,
      "bad",
      /\(302\) is no Meilisearch$/,
    ],
    ["is not there", "http://127.0.0.1:1", "none", "bad", /cannot be used: /],
  ];
  test.each(cases)("%s", async (_, url, key, state, detail) => {
    const [finding] = await look({ settings: { "search.meilisearchUrl": url, "search.meilisearchKey": key } });
    expect(finding).toMatchObject({ id: "search-engine", state, detail: expect.stringMatching(detail) });
    if (state === "bad") expect(finding?.todo).toMatch(/search\.meilisearchUrl/);
  });
});
