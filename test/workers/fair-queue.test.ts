import { expect, test } from "bun:test";
import { createFairQueue, createSourceUsage, type Waiting } from "../../src/workers/fair-queue.ts";

interface Item extends Waiting {
  name: string;
}

function openQueue({ most = 100, mostBytes = 1_000, sources = 100 } = {}) {
  const clock = { now: 1_000_000 };
  const usage = createSourceUsage(() => clock.now, sources);
  const queue = createFairQueue<Item>(usage, { most, mostBytes });
  const join = (name: string, source: string, size = 1) =>
    queue.join({ name, source, since: clock.now, size }).map(({ name }) => name);
  const next = () => {
    const first = queue.first(() => true);
    if (first) queue.leave(first);
    return first?.name;
  };
  const all = () => Array.from({ length: queue.length }, next);
  return { clock, usage, queue, join, next, all };
}

test("sources that used nothing are served in order of arrival", () => {
  const { join, all, next } = openQueue();
  for (const [i, source] of ["a", "b", "a", "c"].entries()) expect(join(`${i}`, source)).toEqual([]);
  expect(all()).toEqual(["0", "1", "2", "3"]);
  expect(next()).toBeUndefined();
});

test("a source falls back by the time that it used, and its own messages stay in order", () => {
  const { clock, usage, join, all } = openQueue();
  usage.charge("costly", 3_000);
  join("costly 1", "costly");
  join("costly 2", "costly");
  join("other 1", "other");
  clock.now += 2_000;
  join("other 2", "other");
  clock.now += 2_000;
  // The used time has decayed a little, and is less than the time by which the costly messages came earlier.
  join("other 3", "other");
  expect(all()).toEqual(["other 1", "other 2", "costly 1", "costly 2", "other 3"]);
});

test("people of a workspace that used much wait behind those of another, however many they are", () => {
  const { clock, usage, queue, all } = openQueue();
  usage.charge("workspace a", 30_000);
  for (const [source, workspace] of [
    ["ann", "workspace a"],
    ["amy", "workspace a"],
    ["bob", "workspace b"],
    ["ben", "workspace b"],
  ] as const) {
    queue.join({ name: source, source, workspace, since: clock.now, size: 1 });
    clock.now += 1_000;
  }
  expect(all()).toEqual(["bob", "ben", "ann", "amy"]);
});

test("small messages pass large ones of other sources, for ten seconds", () => {
  const { clock, join, all } = openQueue({ mostBytes: 100_000_000 });
  join("largest", "a", 25_000_000);
  join("large", "b", 100_000);
  clock.now += 1_000;
  join("small", "c", 3_000);
  clock.now += 8_999;
  join("still passes", "d");
  clock.now += 1;
  join("comes too late", "e");
  expect(all()).toEqual(["small", "large", "still passes", "largest", "comes too late"]);
});

test("used time counts half after a minute", () => {
  const { clock, usage } = openQueue();
  usage.charge("a", 4_000);
  usage.charge("a", 4_000);
  usage.charge("a", -5);
  expect(usage.used("a")).toBe(8_000);
  clock.now += 60_000;
  expect(usage.used("a")).toBe(4_000);
  usage.charge("a", 1_000);
  clock.now += 60_000;
  expect(usage.used("a")).toBe(2_500);
  clock.now -= 3_600_000;
  expect(usage.used("a")).toBe(5_000);
});

test("a source is costly by its worst message, until that has decayed, and not by the sum of others", () => {
  const { clock, usage } = openQueue();
  for (let i = 0; i < 100; i++) usage.took("many", 499);
  expect(usage.isCostly("many")).toBe(false);
  usage.took("one", 4_000);
  usage.took("one", 600);
  clock.now += 3 * 60_000;
  expect(usage.isCostly("one")).toBe(true);
  clock.now += 1;
  expect(usage.isCostly("one")).toBe(false);
  expect(usage.isCostly("other")).toBe(false);
});

test("the most recently charged sources are remembered", () => {
  const { usage } = openQueue({ sources: 3 });
  for (const source of ["a", "b", "c", "a", "d"]) usage.charge(source, 1);
  expect(["a", "b", "c", "d"].map(usage.used)).toEqual([2, 0, 1, 1]);
});

test("a full queue drops its last item, which may be the new one", () => {
  const { usage, join, all, queue } = openQueue({ most: 3 });
  usage.charge("costly", 1_000);
  join("costly 1", "costly");
  join("costly 2", "costly");
  join("fine 1", "fine");
  expect(join("fine 2", "fine")).toEqual(["costly 2"]);
  expect(join("costly 3", "costly")).toEqual(["costly 3"]);
  expect(queue.length).toBe(3);
  expect(all()).toEqual(["fine 1", "fine 2", "costly 1"]);
  expect(queue.length).toBe(0);
});

test("bytes are bounded, too, but a single message may have any size", () => {
  const { join, all, queue } = openQueue({ mostBytes: 100 });
  expect(join("large", "a", 5_000)).toEqual([]);
  expect(join("small", "b", 1)).toEqual(["small"]);
  expect(all()).toEqual(["large"]);
  for (let i = 0; i < 4; i++) expect(join(`${i}`, "a", 25)).toEqual([]);
  expect(join("4", "b", 1)).toEqual(["4"]);
  expect(queue.leaveAll().map(({ name }) => name)).toEqual(["0", "1", "2", "3"]);
  expect(join("5", "b", 100)).toEqual([]);
});

test("the first fitting item is found; leaving twice does nothing", () => {
  const { queue, join } = openQueue();
  join("1", "a");
  join("2", "b");
  const second = queue.first(({ source }) => source === "b");
  expect(second?.name).toBe("2");
  expect(queue.first(({ source }) => source === "z")).toBeUndefined();
  expect([queue.leave(second as Item), queue.leave(second as Item)]).toEqual([true, false]);
  expect(queue.length).toBe(1);
});
