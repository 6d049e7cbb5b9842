/** The finding about the Meilisearch index: it has all mail and nothing else. */
import { expect, test } from "bun:test";
import type { Finding, World } from "../../src/doctor/check.ts";
import { checkSearchIndex } from "../../src/doctor/checks/search-checks.ts";
import { openOptions } from "../../src/store/settings.ts";
import { seedIndex } from "../harness/data/search-seed.ts";
import { temporaryFolder } from "../harness/folder.ts";
import { type FakeMeilisearch, problem, startFakeMeilisearch } from "../harness/peers/fake-meilisearch.ts";
import { fakeRuntime } from "../harness/runtime.ts";
import { openRig, type Rig } from "../harness/servers/meilisearch-rig.ts";

const OK = { state: "ok", detail: "it has all 2 messages" } as const;

/** The finding for a rig with two indexed messages after `happen`. */
async function findingOf(happen: (rig: Rig, server: FakeMeilisearch) => unknown): Promise<Finding | undefined> {
  const server = startFakeMeilisearch();
  const rig = openRig(server, [
    { thread: "one", text: "alpha" },
    { thread: "two", text: "beta" },
  ]);
  await rig.joined.idle();
  await happen(rig, server);
  const runtime = fakeRuntime();
  const world = { store: rig.store, options: rig.options, runtime, config: { data: temporaryFolder() } };
  const [own, fed, ...others] = await checkSearchIndex(world as unknown as World);
  expect(own).toMatchObject({ id: "search", state: "ok" });
  expect(others).toEqual([]);
  return fed;
}

const cases: [what: string, happen: (rig: Rig, server: FakeMeilisearch) => unknown, found: object | undefined][] = [
  ["all is told", () => {}, { id: "search-feed", ...OK }],
  ["another engine is asked for", ({ set }) => set("search.engine", "fts5"), undefined],
  ["there is no server", ({ set }) => set("search.meilisearchUrl", "none"), undefined],
  [
    "a message is missing",
    (_, { indexes }) => indexes.forEach((index) => void index.delete(65_536)),
    { state: "bad", detail: "it has 1 of 2 messages", todo: expect.stringContaining("mailroom reindex") },
  ],
  [
    "it has one too many",
    (_, { indexes }) => indexes.forEach((index) => void index.set(7, { id: 7 })),
    { state: "bad", detail: "it has 3 of 2 messages" },
  ],
  [
    "it is behind",
    async ({ add, joined }, { does }) => {
      does.answer = (name) => (name.endsWith("/stats") ? undefined : problem(500, "internal"));
      add({ thread: "three", text: "gamma" });
      await joined.idle();
    },
    { state: "warning", detail: expect.stringContaining("2 of 3 messages and is being told of the others") },
  ],
  [
    "it refused a message",
    async ({ add, joined }, { does }) => {
      does.refuse = ({ body }) => (body === "gamma" ? "no" : undefined);
      add({ thread: "three", text: "gamma" });
      await joined.idle();
    },
    { state: "warning", detail: expect.stringContaining("it has 2 of 3 messages; it refused 1") },
  ],
  [
    "it does not say",
    (_, { does }) => {
      does.answer = () => problem(500, "internal");
    },
    { state: "unknown", detail: expect.stringContaining("problem internal") },
  ],
];
test.each(cases)("%s", async (_, happen, found) => {
  const finding = await findingOf(happen);
  if (found === undefined) expect(finding).toBeUndefined();
  else expect(finding).toMatchObject(found);
});

test("an index that is being rebuilt is a warning", async () => {
  const { store, engine } = seedIndex([
    { thread: "one", text: "alpha" },
    { thread: "two", text: "beta" },
  ]);
  store.transact(engine.empty);
  const world = { store, options: openOptions(store), config: { data: temporaryFolder() } };
  const find = () => checkSearchIndex(world as unknown as World);
  expect(await find()).toEqual([
    expect.objectContaining({ id: "search", state: "warning", detail: expect.stringContaining("has 0 of 2 messages") }),
  ]);
  store.transact(engine.complete);
  expect(await find()).toEqual([
    expect.objectContaining({ state: "bad", todo: expect.stringContaining("mailroom reindex") }),
  ]);
});
