/** A Meilisearch server that answers with whatever harms: searches are right all the same, and what it says stays short. */
import { expect, setDefaultTimeout, test } from "bun:test";
import { parseQuery } from "../../../src/search/query.ts";
import { listSeqsInSet } from "../../../src/search/sets.ts";
import { type SeedMessage, WHOLE_A } from "../../harness/data/search-seed.ts";
import { startFakeMeilisearch } from "../../harness/peers/fake-meilisearch.ts";
import { openRig, type Rig } from "../../harness/servers/meilisearch-rig.ts";
import { until } from "../../harness/until.ts";

setDefaultTimeout(60_000);

const MAIL: SeedMessage[] = [
  { thread: "one", subject: "First", text: "alpha", date: 5 },
  { thread: "two", text: "alpha gamma", mailbox: "mbx_a2" },
];
const HOSTILE_TEXT = `no\r\n\u001b[2J\u0007\u202e${"x".repeat(1_000_000)}`;

async function openFed() {
  const server = startFakeMeilisearch();
  const rig = openRig(server, MAIL);
  await rig.joined.idle();
  return { server, rig };
}
const found = async ({ joined }: Rig) => listSeqsInSet(await joined.match(parseQuery("alpha", 0), WHOLE_A));

test("numbers of messages that cannot be are left out, and take no memory", async () => {
  const { server, rig } = await openFed();
  const impossible = [2 ** 48 - 1, 2 ** 52 + 7, Number.MAX_SAFE_INTEGER, -65_536, 0.5];
  server.does.find = () => [65_536, ...impossible];
  const before = process.memoryUsage().rss;
  const set = await rig.joined.match(parseQuery("alpha", 0), WHOLE_A);
  expect(listSeqsInSet(set)).toEqual([1]);
  expect(set.byteLength).toBeLessThan(1_024 * 1_024);
  expect(process.memoryUsage().rss - before).toBeLessThan(256 * 1_024 * 1_024);
  expect(await rig.joined.matchLoosely?.(parseQuery("alpah", 0), WHOLE_A)).toMatchObject({ threads: [1] });
  server.does.find = () => impossible;
  expect(await rig.joined.matchLoosely?.(parseQuery("alpah", 0), WHOLE_A)).toBeUndefined();
});

test.each<[string, unknown]>([
  ["no list", { results: "x" }],
  ["null in place of results", { results: [null] }],
  ["null", null],
  ["another number of results", { results: [] }],
  ["counts that are none", { results: [{ facetDistribution: { id: 7 } }] }],
  ["lists without end", { results: Array.from({ length: 20_000 }, () => []) }],
])("a search that is answered with %s is answered by FTS5", async (_, answer) => {
  const { server, rig } = await openFed();
  server.does.answer = (name) => (name === "POST /multi-search" ? Response.json(answer) : undefined);
  expect(await found(rig)).toEqual([1, 2]);
  expect(rig.joined.state().fallbacks).toBe(1);
});

test.each<[string, () => Response]>([
  [
    "a refusal",
    () => Response.json({ message: HOSTILE_TEXT, code: HOSTILE_TEXT, type: HOSTILE_TEXT, link: "" }, { status: 500 }),
  ],
  ["a refusal without fields", () => Response.json([], { status: 500 })],
  ["a refusal of other fields", () => Response.json({ message: { a: 1 }, code: 7 }, { status: 400 })],
])("%s is told, and logged, in short", async (_, answer) => {
  const { server, rig } = await openFed();
  server.does.answer = (name) => (name.startsWith("GET /tasks") ? undefined : answer());
  rig.add({ thread: "four", text: "epsilon" });
  await rig.joined.idle();
  const { feed } = rig.joined.state();
  expect(feed.phase).toBe("failing");
  expect(feed.reason?.length).toBeGreaterThan(0);
  expect(feed.reason?.length).toBeLessThanOrEqual(1_000);
  expect(feed.reason).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  for (const line of rig.lines) expect(JSON.stringify(line).length).toBeLessThan(64_000);
});

test("an index that loses what it is given is made anew at growing distances", async () => {
  const { server, rig } = await openFed();
  server.does.answer = (name, body) =>
    name.startsWith("GET /indexes/") && body === ""
      ? Response.json({ message: "lost", code: "document_not_found" }, { status: 404 })
      : undefined;
  rig.add({ thread: "four", text: "epsilon" });
  await until(() => rig.joined.state().feed.phase === "failing");
  const creations = () => server.requests.filter((name) => name === "POST /indexes").length;
  const before = creations();
  for (let i = 0; i < 5; i++) {
    rig.runtime.advanceTo(rig.runtime.nextTimer() ?? 0);
    await rig.joined.idle();
  }
  expect(creations() - before).toBeLessThanOrEqual(5);
  server.does.answer = undefined;
  await until(async () => {
    rig.runtime.advanceTo(rig.runtime.now() + 60_000);
    await rig.joined.idle();
    return rig.joined.state().engine === "meilisearch";
  });
  expect(server.messages()).toHaveLength(3);
});

test("ten million lists in an answer are not made", async () => {
  const { server, rig } = await openFed();
  server.does.answer = (name) =>
    name === "POST /multi-search" ? new Response(`{"results":[${"[],".repeat(10_000_000)}[]]}`) : undefined;
  const before = process.memoryUsage().rss;
  expect(await found(rig)).toEqual([1, 2]);
  // The text itself, on both sides.
  expect(process.memoryUsage().rss - before).toBeLessThan(500 * 1_024 * 1_024);
});
